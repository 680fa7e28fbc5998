"""Decoders that do not maximise: `fit` finds them out, or claims no more than is true."""

import re
import warnings
from contextlib import suppress
from heapq import heappop, heappush

import numpy as np
import own_decoders as own
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from mlestruct import BlockFrankWolfe, StructuredCRF
from mlestruct.exceptions import DecoderError
from mlestruct.inference import marginals
from mlestruct.structures import DecoderSpace

SIDE = 6


def grid_edges(side=SIDE):
    """Steps to the right and down, the nodes in topological order."""
    found = []
    for i in range(side):
        for j in range(side):
            if j + 1 < side:
                found.append((i * side + j, i * side + j + 1))
            if i + 1 < side:
                found.append((i * side + j, i * side + j + side))
    return found


EDGES = grid_edges()
N, LAST = len(EDGES), SIDE * SIDE - 1


def path_to_the_end(before):
    path, node = np.zeros(N), LAST
    while node:
        node, edge = before[node]
        path[edge] = 1
    return path


def longest(scores):
    """Dynamic programming: the best path at scores of any sign."""
    best, before = np.full(LAST + 1, -np.inf), {}
    best[0] = 0.0
    for k, (a, b) in enumerate(EDGES):
        if best[a] + scores[k] > best[b]:
            best[b], before[b] = best[a] + scores[k], (a, k)
    return path_to_the_end(before)


def dijkstra(scores):
    """The textbook's shortest path at costs -scores; wrong where some are negative."""
    distance, before, done, queue = {0: 0.0}, {}, set(), [(0.0, 0)]
    while queue:
        so_far, node = heappop(queue)
        if node in done:
            continue
        done.add(node)
        for k, (a, b) in enumerate(EDGES):
            new = so_far - scores[k]
            if a == node and b not in done and new < distance.get(b, np.inf):
                distance[b], before[b] = new, (node, k)
                heappush(queue, (new, b))
    return path_to_the_end(before)


def path_samples(n_samples=10):
    rng = np.random.default_rng(0)
    X = [-rng.uniform(size=(N, 3)) for _ in range(n_samples)]
    return X, [longest(x @ [2.0, 1.4, 0.8] - 0.3 * rng.gumbel(size=N)) for x in X]


def inside():
    """The mean of all paths, by the numbers of paths to and from each node."""
    to, onward = np.zeros(LAST + 1), np.zeros(LAST + 1)
    to[0] = onward[LAST] = 1.0
    for a, b in EDGES:
        to[b] += to[a]
    for a, b in reversed(EDGES):
        onward[a] += onward[b]
    return np.array([to[a] * onward[b] / to[LAST] for a, b in EDGES])


class TestDijkstra:
    def test_it_is_found_out_while_an_interior_point_is_sought(self):
        with pytest.raises(DecoderError, match=r"X\[\d+\], .*decode: .* scores of any sign"):
            StructuredCRF(dijkstra, solver=BlockFrankWolfe(), tol=0.01).fit(*path_samples())

    def test_it_is_found_out_in_learning_if_it_is_ever_wrong(self):
        """Some fits ask only at scores where it is right: then their optimum is the right one."""
        X, Y = path_samples()
        right, wrong = (DecoderSpace(f, N, interior=inside()) for f in (longest, dijkstra))
        model = StructuredCRF(structure=right, tol=0.001).fit(X, Y)
        with suppress(DecoderError):
            found = StructuredCRF(structure=wrong, tol=0.001).fit(X, Y)
            assert found.objective_bound_ == pytest.approx(model.objective_bound_, rel=2e-3)
        with pytest.raises(ValueError, match=r"X\[\d+\], in learning: decode: "):
            StructuredCRF(structure=wrong, solver=BlockFrankWolfe(), tol=0.001).fit(X, Y)

    def test_dynamic_programming_is_not(self):
        X, Y = path_samples()
        for interior in (None, inside()):
            space = DecoderSpace(longest, N, interior=interior)
            model = StructuredCRF(structure=space, tol=0.02).fit(X, Y)
            assert model.converged_
            assert model.certified_


class TestErrorsSayWhere:
    def test_the_other_output_is_named(self):
        space = DecoderSpace(lambda s: own.best_of(s if s[0] > 0 else -s), 5)
        space.decode(np.arange(1.0, 6.0))
        with pytest.raises(DecoderError, match=r"call 1 \(1 at 4\) scores 5") as caught:
            space.decode(np.array([-1.0, 2.0, 3.0, 4.0, 5.0]))
        assert "(1 at 0) of score -1" in str(caught.value)

    def test_an_observed_output_is_named(self):
        """It is right for labels and for the interior point, and wrong at scores above 10."""

        def decode(scores):
            return own.best_of(-scores if scores.max() > 10 else scores)

        space = DecoderSpace(decode, 4)
        space.know(space.encode([0, 0, 1, 0]), "Y[7]")
        with pytest.raises(DecoderError, match=r"the observed output Y\[7\] \(1 at 2\) scores 20"):
            space.decode(np.array([1.0, 2.0, 20.0, 4.0]))

    def test_an_answer_that_a_later_output_beats(self):
        answers = iter([[1, 0, 0], [0, 1, 0]])
        space = DecoderSpace(lambda s: next(answers), 3)
        space.decode(np.array([1.0, 2.0, 0.0]))
        with pytest.raises(DecoderError, match=r"call 1 .* more than 1, .* returns now .*has 2"):
            space.decode(np.array([0.0, 1.0, 0.0]))

    def test_coordinates_that_were_taken_as_fixed(self):
        """Item 2 is returned only at scores above 10, never where it is asked for."""

        def decode(scores):
            kept = scores.copy()
            kept[2] = scores[2] if scores[2] > 10 else -100
            return own.best_of(kept)

        space = DecoderSpace(decode, 4)
        assert not space.varies[2]
        with pytest.raises(DecoderError, match=r"coordinate 2|call \d+ as if"):
            space.decode(np.array([0.0, 1.0, 20.0, 0.0]))
        with pytest.raises(DecoderError, match=r"observed output Y\[0\] has 1 at coordinate 2"):
            space.agree(space.encode([0, 0, 1, 0]), "Y[0]")
        given_point = DecoderSpace(own.best_of, 3, interior=[0.5, 0.5, 0.0])
        given_point.interior()
        assert not given_point.varies[2]
        with pytest.raises(DecoderError, match="interior: is 0 at coordinate 2"):
            given_point.decode(np.array([0.0, 1.0, 2.0]))

    @pytest.mark.parametrize("shift", [-0.5, -1e3])
    def test_a_bound_below_its_own_output(self, shift):
        def decode(scores):
            chosen = own.top_three(scores)
            return chosen, float(scores[chosen].sum()) + shift

        X, Y = own.subset_samples(np.random.default_rng(0))
        with pytest.raises(DecoderError, match=r"X\[0\], .*upper bound .* below it"):
            StructuredCRF(structure=DecoderSpace(decode, 8, exact=False)).fit(X, Y)

    @pytest.mark.parametrize(
        ("first_bad_call", "phase"),
        [(0, "checking Y[0]"), (100, "in learning")],
    )
    def test_exceptions_keep_their_type_and_say_where(self, first_bad_call, phase):
        X, Y = own.subset_samples(np.random.default_rng(0))
        calls = 0

        def decode(scores, x):
            nonlocal calls
            calls += 1
            if calls > first_bad_call:
                raise ZeroDivisionError("licence server")
            return own.top_three(scores)

        with pytest.raises(ZeroDivisionError, match="licence server") as caught:
            StructuredCRF(decode, random_state=0).fit(X, Y)
        where, sample = caught.value.__notes__
        assert re.fullmatch(rf"the sample was X\[\d+\], {re.escape(phase)}", sample)
        assert re.match(
            r"raised by decode in call \d+, at 8 scores from \S+ to \S+; scores may", where
        )

    def test_predictions_name_the_sample(self):
        X, Y = own.subset_samples(np.random.default_rng(0))
        model = StructuredCRF(own.top_three, tol=0.1).fit(X, Y)
        model.decode = lambda scores: scores[:2]
        for ask in (model.predict, model.predict_marginals, model.sample):
            with pytest.raises(DecoderError, match=r"X\[0\], in prediction: decode: must return"):
                ask(X)

    def test_a_bound_below_another_output(self):
        space = DecoderSpace(lambda s: (own.best_of(s * (s < 3)), 2.5), 4, exact=False)
        space.know(space.encode([0, 0, 0, 1]), "Y[0]")
        with pytest.raises(DecoderError, match=r"upper bound 2.5 .* Y\[0\] \(1 at 3\) scores 3"):
            space.decode(np.array([0.0, 1.0, 2.0, 3.0]))


def objective(outputs, X, Y, theta):
    """The approximate log-likelihood with an exact decoder, to 1e-3 a sample."""
    space = DecoderSpace(lambda s: outputs[np.argmax(outputs @ s)], outputs.shape[1])
    total = -0.5 * float(theta @ theta)
    for x, y in zip(X, Y, strict=True):
        total += float(y @ x @ theta) - marginals(space, x @ theta, tol=1e-3).log_partition
    return total


@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 10_000),
    st.sampled_from([0.02, 0.1, 0.5]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, 20]),
)
def test_random_mistakes(seed, share, exact, searched, late):
    """With a member of the set in place of the best one, now and then, from some call on."""
    rng = np.random.default_rng(seed)
    outputs = np.unique(rng.integers(0, 2, size=(12, 6)), axis=0).astype(float)
    X = [rng.normal(size=(6, 2)) for _ in range(4)]
    Y = [outputs[rng.integers(len(outputs))] for _ in X]
    calls = mistakes = 0

    def decode(scores):
        nonlocal calls, mistakes
        calls += 1
        best = outputs[np.argmax(outputs @ scores)]
        if calls <= late or rng.uniform() >= share:
            return best
        other = outputs[rng.integers(len(outputs))]
        mistakes += bool((other != best).any())
        return other

    interior = None if searched else outputs.mean(axis=0)
    space = DecoderSpace(decode, 6, exact=exact, interior=interior)
    model = StructuredCRF(structure=space, tol=0.01, max_iter=30, random_state=0)
    message = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, Y)
    except ValueError as error:
        message = str(error)
    if not exact:
        assert message is None
        assert not model.certified_
        return
    if message is not None:
        assert mistakes
        assert "decode" in message
        return
    assert mistakes < 10  # many do not go unnoticed, and few leave the certificate true
    here = objective(outputs, X, Y, model.coef_)
    assert model.objective_ <= here + 0.005
    assert here <= model.objective_bound_ + 0.005


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((np.zeros(3), 0.0), r"tau of shape \(5,\), got \(3,\)"),
        ((np.full(5, np.nan), 0.0), "numbers from 0 to 1"),
        ((np.full(5, 4.0), 0.0), "numbers from 0 to 1"),
        ((np.full(5, 0.4), np.nan), "numbers from 0 to 1"),
        (np.full(5, 0.4), r"\(tau, log Z\) or Marginals, got ndarray"),
    ],
)
def test_wrong_marginals_are_refused(answer, message):
    def top_two(scores):
        return (np.argsort(np.argsort(-scores)) < 2).astype(int)

    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(4, 5, 2)), [top_two(rng.normal(size=5)) for _ in range(4)]
    space = DecoderSpace(top_two, 5, marginals=lambda scores: answer)
    with pytest.raises(DecoderError, match=message):
        StructuredCRF(structure=space).fit(X, Y)
