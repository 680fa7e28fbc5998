"""Averaged perceptrons: the mistake bound, and the plain algorithm written down once more."""

import warnings
from itertools import product

import numpy as np
import pytest
from output_spaces import SPACES, quadratic_program, samples_of
from sklearn.exceptions import ConvergenceWarning

from mlestruct import BipartiteMatchingCRF
from mlestruct.baselines import StructuredPerceptron
from mlestruct.models.base import generator

EVERY = pytest.mark.parametrize("name", list(SPACES))
OWN = ("max_iter", "rate", "decay", "callback", "max_time")  # others are the estimator's


def perceptron_of(data, **options):
    own = {name: options.pop(name) for name in OWN if name in options}
    return data.estimator(**{"random_state": 0, **options}, solver=StructuredPerceptron(**own))


def separable(name, seed=0):
    """Samples labelled by known weights. Those of labellings look at nodes alone: no relaxation."""
    data = samples_of(name, seed, n_samples=8)
    theta = np.random.default_rng(seed + 1).normal(size=data.features(data.X[0], data.Y[0]).shape)
    if data.graph is not None:
        n_states = data.graph[2]
        theta[n_states**2 :] = 0.0
        theta[: n_states**2] = np.eye(n_states).ravel()
    values = [[theta @ data.features(x, y) for y in data.outputs] for x in data.X]
    data.Y = [data.outputs[int(np.argmax(v))] for v in values]
    return data


def violations(name, data):
    """Features of the observed output minus those of any other vertex the decoder might return."""
    found = [change for _, change, _ in data.differences()]
    if name != "grid":
        return np.array(found)
    # Vertices of the local polytope of two states consist of 0, 1/2 and 1.
    n_nodes, edges, _ = data.graph
    points = []
    for on in product((0.0, 0.5, 1.0), repeat=n_nodes):
        both = [
            {max(0.0, on[a] + on[b] - 1.0), min(on[a], on[b])} for a, b in edges
        ]  # ends of the range; between them there is no half
        for tables in product(*both):
            nodes = np.array([[1.0 - p, p] for p in on])
            pairs = [
                [1.0 - on[a] - on[b] + t, on[b] - t, on[a] - t, t]
                for (a, b), t in zip(edges, tables, strict=True)
            ]
            points.append(np.concatenate([nodes.ravel(), np.ravel(pairs)]))
    for x, y in zip(data.X, data.Y, strict=True):
        own = data.features(x, y)
        changes = own - np.array(points) @ data.scores(x)
        found += [change for change in changes if np.abs(change).max() > 1e-9]
    return np.array(found)


def margin(changes):
    """The largest margin that unit weights have, by the hard-margin quadratic program."""
    size = changes.shape[1]
    theta, _ = quadratic_program(np.ones(size), np.zeros(size), changes, np.ones(len(changes)))
    return 1.0 / np.linalg.norm(theta)


# ---------------------------------------------------------------------- the algorithm
@pytest.mark.parametrize("name", [name for name in SPACES if name != "triangle"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_mistakes_are_bounded_by_the_margin(name, seed):
    data = separable(name, seed)
    changes = violations(name, data)
    radius = np.linalg.norm(changes, axis=1).max()
    bound = (radius / margin(changes)) ** 2
    model = perceptron_of(data, max_iter=int(bound) + 2).fit(data.X, data.Y)
    assert model.converged_
    assert model.history_.gap[-1] == 0.0
    assert np.isnan(model.objective_)
    assert np.isnan(model.duality_gap_)
    assert 1 <= model._state[1].updates <= bound
    # The last weights make no mistake, as seen by enumeration.
    last = model._full_coef(model._state[1].theta)
    for x, y in zip(data.X, data.Y, strict=True):
        own = last @ data.features(x, y)
        others = [last @ data.features(x, z) for z in data.outputs]
        assert own >= max(others) - 1e-9


@EVERY
@pytest.mark.parametrize(("rate", "decay"), [(1.0, 0.0), (0.5, 0.3)])
def test_weights_are_those_of_the_plain_algorithm(name, rate, decay):
    data = samples_of(name, 3, n_samples=5)
    model = perceptron_of(data, max_iter=4, rate=rate, decay=decay).fit(data.X, data.Y)
    blocks = perceptron_of(data)._problem(data.X, data.Y).blocks
    rng = generator(0)
    theta, iterates = np.zeros(model.coef_.shape), []
    for t in range(model.n_iter_):
        for m in rng.permutation(5):
            block, step = blocks[m], rate / (1 + decay * t)
            scores = block.structure.break_ties(block.scores(theta), m)
            best = block.structure.decode(scores).vertex.dense(block.structure.n_coordinates)
            theta = theta + step * (block.moments_at(block.observed) - block.moments(best))
            iterates.append(theta)
    np.testing.assert_allclose(model._state[1].theta, theta, atol=1e-9)
    np.testing.assert_allclose(model.coef_, np.mean(iterates, axis=0), atol=1e-9)
    assert model.n_oracle_calls_ == len(iterates)


def test_one_step_by_hand():
    """At zero weights some matching is decoded; the step is the difference of features."""
    data = samples_of("bipartite", 0, n_samples=1)
    model = perceptron_of(data, max_iter=1, rate=0.5).fit(data.X, data.Y, sample_weight=[3.0])
    x, y = data.X[0], data.Y[0]
    steps = [1.5 * (data.features(x, y) - data.features(x, z)) for z in data.outputs]
    assert min(np.abs(model.coef_ - step).max() for step in steps) < 1e-12


def test_weights_of_zero_do_not_know_partners_of_the_same_number():
    rng = np.random.default_rng(0)
    X, Y = [rng.normal(size=(8, 8, 2)) for _ in range(10)], [np.arange(8)] * 10
    model = perceptron_of(samples_of("bipartite"), max_iter=3).fit(X, Y)
    assert model._state[1].updates > 0
    assert np.abs(model.coef_).max() > 0


def test_learning_stops_after_a_pass_without_mistakes():
    data = separable("bipartite", 0)
    model = perceptron_of(data, max_iter=500).fit(data.X, data.Y)
    assert model.n_iter_ < 500
    assert model.history_.gap[-1] == 0.0 < model.history_.gap[-2]
    assert (np.diff(model.history_.gap) <= 0).all()


def test_mistakes_that_remain_are_no_failure():
    data = samples_of("group", 1, n_samples=1)
    twice = [data.X[0], data.X[0].copy()]
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = perceptron_of(data, max_iter=5).fit(twice, data.outputs[:2])
    assert not model.converged_
    assert model.n_iter_ == 5
    assert model.history_.gap[-1] >= 1.0


# ---------------------------------------------------------------------- scikit-learn, files
def test_stopping_early_keeps_the_average_so_far():
    data = samples_of("chain", 0, n_samples=5)
    seen = []

    def stop(progress):
        seen.append(progress.theta)
        return progress.iteration == 2

    model = perceptron_of(data, callback=stop).fit(data.X, data.Y)
    assert model.n_iter_ == 2
    np.testing.assert_array_equal(model.coef_, seen[-1])

    def interrupt(progress):
        if progress.iteration == 2:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="interrupted"):
        broken = perceptron_of(data, callback=interrupt).fit(data.X, data.Y)
    np.testing.assert_array_equal(broken.coef_, model.coef_)
    late = perceptron_of(data, max_time=1e-9).fit(data.X, data.Y)
    assert late.n_oracle_calls_ == 1
    assert not late.converged_


def test_unknown_tokens_are_left_out():
    data = samples_of("chain", 1)
    X = [np.concatenate([x, np.ones((2, 2))]) for x in data.X]
    Y = [np.concatenate([y, [np.nan, np.nan]]) for y in data.Y]
    whole = perceptron_of(data).fit(data.X, data.Y)
    part = perceptron_of(data).fit(X, Y)
    np.testing.assert_allclose(part.coef_, whole.coef_)
    assert part.predict(X)[0].shape == (5,)


def test_partners_up_to_a_capacity():
    """Two rows have two columns each; weights of the truth separate it."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(2, 4, 2)) for _ in range(6)]
    Y = []
    for x in X:
        chosen = np.argsort(x[0] @ [1.0, -1.0] - x[1] @ [1.0, -1.0])
        Y.append(np.array([[0, chosen[2]], [0, chosen[3]], [1, chosen[0]], [1, chosen[1]]]))
    learner = StructuredPerceptron(max_iter=200)
    model = BipartiteMatchingCRF(capacity=(2, 1), random_state=0, solver=learner).fit(X, Y)
    assert model.history_.gap[-1] == 0.0
    assert np.isnan(model.objective_)
    model.coef_ = model._state[1].theta
    assert model.score(X, Y) == 1.0
