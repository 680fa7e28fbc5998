"""`StructuredCRF`: decoders of users, against enumeration and the library's own spaces."""

import itertools
import pickle
import re
import warnings
from functools import partial
from threading import Barrier

import numpy as np
import own_decoders as own
import pandas
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

import mlestruct
from mlestruct import (
    LBFGS,
    BlockFrankWolfe,
    OutOfTimeError,
    StructuredCRF,
    _running,
    check_structure,
)
from mlestruct.inference import marginals
from mlestruct.models import base
from mlestruct.structures import (
    BipartiteMatching,
    DecoderSpace,
    Pairwise,
    PairwiseGraph,
    Paths,
    Subsets,
    coordinate_entropy,
    factor_entropy,
)


@pytest.fixture(scope="module")
def data():
    return own.subset_samples(np.random.default_rng(0))


@pytest.fixture(scope="module")
def model(data):
    return StructuredCRF(own.top_three, tol=0.01).fit(*data)


def approximate(decode, n=8, **options):
    return StructuredCRF(structure=DecoderSpace(decode, n, exact=False), **options)


def with_interior(decode, exact=True):
    return DecoderSpace(decode, 8, interior=np.full(8, 3 / 8), exact=exact)


def approximate_objective(X, Y, theta, alpha):
    """P(theta) with log Z_rho of independent coordinates, sample by sample."""
    total = -0.5 * alpha * float(theta @ theta)
    for x, y in zip(X, Y, strict=True):
        scores = x @ theta
        found = marginals(DecoderSpace(own.top_three, len(scores)), scores, tol=1e-3)
        total += float(y @ scores) - found.log_partition
    return total


class TestLearning:
    def test_the_certificate_holds_at_other_weights(self, model, data):
        """No theta does better than objective_bound_, and coef_ is within the gap of it."""
        assert model.converged_
        assert model.certified_
        here = approximate_objective(*data, model.coef_, 1.0)
        slack = 25 * 1e-3  # of the log-partition functions
        assert model.objective_ <= here + slack
        assert here <= model.objective_bound_ + slack
        rng = np.random.default_rng(1)
        for _ in range(3):
            other = model.coef_ + 0.1 * rng.normal(size=2)
            assert approximate_objective(*data, other, 1.0) <= model.objective_bound_ + slack

    def test_the_own_assignment_decoder_reaches_the_bethe_objective(self):
        rng = np.random.default_rng(3)
        X = [rng.normal(size=(25, 2)) for _ in range(6)]
        outputs = own.assignments(5)
        Y = [own.draw(outputs, x @ [1.5, -1.0], rng) for x in X]
        rows = [list(range(5 * i, 5 * i + 5)) for i in range(5)]
        columns = [list(range(j, 25, 5)) for j in range(5)]
        bethe = factor_entropy(25, rows + columns, 1.0, coordinates=-1.0)
        budget = {"tol": 3e-3, "max_iter": 4000, "random_state": 0}
        space = DecoderSpace(own.assignment, 25, entropy=bethe)
        ours = StructuredCRF(structure=space, **budget).fit(X, Y)
        partners = [y.reshape(5, 5).argmax(axis=1) for y in Y]
        space = BipartiteMatching((5, 5), rho=1.0)
        theirs = StructuredCRF(structure=space, solver=LBFGS(), **budget).fit(X, partners)
        assert ours.converged_
        assert theirs.converged_
        # Both intervals hold the same optimum.
        low = max(m.objective_ for m in (ours, theirs))
        high = min(m.objective_bound_ for m in (ours, theirs))
        assert low <= high + 1e-9
        assert abs(ours.objective_bound_ - theirs.objective_bound_) <= max(
            ours.duality_gap_, theirs.duality_gap_
        )

    def test_a_marginal_oracle_of_the_user_makes_it_exact(self, data):
        X, Y = data
        outputs = own.subsets(8, 3)

        def enumerate_all(scores):
            log_z = own.log_z(outputs, scores)
            return np.exp(outputs @ scores - log_z) @ outputs, log_z

        space = DecoderSpace(own.top_three, 8, marginals=enumerate_all)
        model = StructuredCRF(structure=space, tol=1e-7).fit(X, Y)
        samples = list(zip(X, Y, strict=True))

        def loss(theta):
            fits = [y @ x @ theta - own.log_z(outputs, x @ theta) for x, y in samples]
            return 0.5 * float(theta @ theta) - sum(fits)

        best = minimize(loss, np.zeros(2), tol=1e-12)
        assert model.solver_ == "lbfgs"
        np.testing.assert_allclose(model.coef_, best.x, atol=1e-3)
        assert abs(model.objective_bound_ + best.fun) <= 1e-4

    def test_samples_of_different_spaces(self):
        """decode(scores, x), sizes and numbers of chosen items from the sample."""
        rng = np.random.default_rng(5)
        X, Y = [], []
        for m in range(20):
            n, k = 5 + m % 3, 1 + m % 2
            features = rng.normal(size=(n, 2))
            X.append((features, k))
            Y.append(own.draw(own.subsets(n, k), features @ [1.0, -1.0], rng))
        model = StructuredCRF(own.as_many_as_given, tol=0.02).fit(X, Y)
        assert model.converged_
        for (features, k), found in zip(X, model.predict(X), strict=True):
            assert found.shape == (len(features),)
            assert found.sum() == k
        for (_, k), tau in zip(X, model.predict_marginals(X), strict=True):
            assert tau.sum() == pytest.approx(k)

    def test_features_and_output_spaces_may_be_functions_of_the_sample(self):
        rng = np.random.default_rng(6)
        X = [{"table": rng.normal(size=(n, 2))} for n in (4, 5, 4, 5)]
        Y = [own.best_of(x["table"][:, 0]).astype(int) for x in X]

        def one_of(x):
            n = len(x["table"])
            entropy = factor_entropy(n, [range(n)])
            return DecoderSpace(own.best_of, n, entropy=entropy, interior=np.full(n, 1 / n))

        model = StructuredCRF(structure=one_of, features=lambda x: x["table"]).fit(X, Y)
        tau = model.predict_marginals(X, tol=1e-8)[1]
        softmax = np.exp(X[1]["table"] @ model.coef_)
        np.testing.assert_allclose(tau, softmax / softmax.sum(), atol=1e-3)  # one group is exact

    def test_features_may_be_sparse_frames_or_single_precision(self, data):
        X, Y = data
        wanted = StructuredCRF(own.top_three, tol=0.05, random_state=0).fit(X, Y)
        frames = [pandas.DataFrame(x, columns=["size", "price"]) for x in X]
        halves = [np.float32(x) for x in X]
        for given in (frames, halves, [csr_array(x) for x in X], [(x, "more") for x in X]):
            found = clone(wanted).fit(given, Y)
            np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=1e-4)
            names = ["size", "price"] if given is frames else ["x0", "x1"]
            assert list(found.named_coef()) == names
        assert list(wanted.named_coef(["size", "price"])) == ["size", "price"]
        found = clone(wanted).fit(frames, Y)
        with pytest.raises(ValueError, match=r"X\[0\]: feature 0 is 'price'.*in another order"):
            found.predict([frames[0][["price", "size"]]])

    def test_coordinates_that_never_vary_are_left_out(self):
        """Item 0 is never chosen, item 1 always."""

        def decode(scores):
            scores[0], scores[1] = -np.inf, np.inf  # inputs may be changed
            return own.best_of(scores, 3)

        rng = np.random.default_rng(7)
        X = [rng.normal(size=(6, 2)) for _ in range(10)]
        Y = [decode(x[:, 0] + rng.gumbel(size=6)).astype(int) for x in X]
        model = StructuredCRF(decode, tol=0.02).fit(X, Y)
        tau = model.predict_marginals(X)[0]
        assert (tau[0], tau[1]) == (0.0, 1.0)
        assert tau.sum() == pytest.approx(3.0)

    def test_standardized_features_are_divided_by_their_deviations(self, data):
        X, Y = [x * [1.0, 1e4] for x in data[0]], data[1]
        scale = np.concatenate(X).std(axis=0)
        by_hand = StructuredCRF(own.top_three, tol=0.01, random_state=0).fit(
            [x / scale for x in X], Y
        )
        model = StructuredCRF(own.top_three, tol=0.01, random_state=0, standardize=True).fit(X, Y)
        np.testing.assert_allclose(model.coef_ * scale, by_hand.coef_, rtol=1e-4)
        for one, other in zip(
            model.predict(X), by_hand.predict([x / scale for x in X]), strict=True
        ):
            np.testing.assert_array_equal(one, other)


class TestApproximateDecoders:
    @staticmethod
    def sloppy(scores):
        """Misses the best output at times, in a repeatable way."""
        best = np.argsort(-scores, kind="stable")[:4]
        drop = int(abs(scores).sum() * 1e6) % 4
        out = np.zeros(scores.size)
        out[np.delete(best, drop)] = 1
        return out

    def with_bound(self, scores):
        return self.sloppy(scores), float(np.sort(scores)[-3:].sum())

    def test_an_upper_bound_keeps_the_certificate(self, data, model):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = approximate(self.with_bound, max_iter=60).fit(*data)
        assert found.certified_
        # The optimum of the same problem, found with an exact decoder, is in the interval.
        assert found.objective_ <= model.objective_bound_ + 1e-9
        assert model.objective_ <= found.objective_bound_ + 1e-9

    def test_without_a_bound_it_says_that_nothing_is_proven(self, data):
        with pytest.warns(ConvergenceWarning, match="certified_=False"):
            found = approximate(self.sloppy, max_iter=20).fit(*data)
        assert not found.certified_
        space = DecoderSpace(self.sloppy, 8, exact=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            answer = marginals(space, data[0][0] @ [1.0, -1.0], max_iter=50, method="fw")
        assert answer.gap == np.inf

    def test_labels_that_a_heuristic_misses_do_not_suggest_minimising(self, data):
        def missing_one(scores):
            best = np.argsort(-scores, kind="stable")
            return np.isin(np.arange(8), best[[0, 1, 3]])  # at 2 y - 1 it scores 1

        with pytest.raises(ValueError, match=r"Y\[0\]: is not an output.*exact=False") as found:
            StructuredCRF(missing_one).fit(*data)
        assert "minimises" not in str(found.value)
        with pytest.raises(ValueError, match="minimises needs -scores"):
            StructuredCRF(lambda scores: own.top_three(-scores)).fit(*data)

    def test_a_decoder_that_is_wrongly_said_to_be_exact_is_found_out(self, data):
        with pytest.raises(ValueError, match=r"decode|Y\["):
            StructuredCRF(self.sloppy, max_iter=60).fit(*data)

    @staticmethod
    def any_of_three(scores):
        """Any set of three items is an output, but it never takes the last; valid bounds."""
        return (scores > 0) & [True, True, False], float(np.maximum(scores, 0.0).sum())

    @staticmethod
    def any_of_two(scores):
        """Any set of the first two of three items, with a bound that is 0.1 too large."""
        chosen = (scores > 0) & [True, True, False]
        return chosen, float(scores[chosen].sum()) + 0.1

    @pytest.mark.parametrize(("decode", "free"), [("any_of_three", 3), ("any_of_two", 2)])
    def test_coordinates_are_fixed_where_bounds_prove_it(self, decode, free):
        """Sets of items are independent choices: log Z is a sum of log(1 + exp(scores))."""
        decode = getattr(self, decode)
        rng = np.random.default_rng(0)
        X = rng.normal(size=(20, 3, 2)) + [0.0, 1.0]
        Y = [decode(x @ [1.0, -1.0] + rng.logistic(size=3))[0].astype(int) for x in X]

        def loss(theta):
            scores = X @ theta
            logs = np.logaddexp(0.0, scores)[:, :free].sum()
            return 0.5 * theta @ theta + logs - (np.array(Y) * scores).sum()

        best = -minimize(loss, np.zeros(2)).fun
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = approximate(decode, 3, max_iter=50).fit(X, Y)
        proven = model.objective_ <= best <= model.objective_bound_ + 1e-6
        assert model.certified_
        assert proven
        said = " ".join(str(warning.message) for warning in caught)
        assert "returned no upper bound" not in said
        lower, upper = model.log_likelihood_bounds(X, Y)
        exact = -loss(model.coef_) + 0.5 * model.coef_ @ model.coef_
        assert lower.sum() <= exact <= upper.sum() + 1e-6
        report = check_structure(decode, 3, exact=False)
        assert ("coordinates [2]" in str(report)) == (free == 3)
        space = DecoderSpace(decode, 3, interior=[0.5, 0.5, 0.0], exact=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            given = StructuredCRF(structure=space, max_iter=5).fit(X, Y)
            assert given.certified_  # on the user's word

    def test_the_warning_tells_what_the_bounds_leave(self, data):
        def loose(scores):
            chosen = own.top_three(scores)
            return chosen, float(scores[chosen].sum()) + 0.5

        expected = r"12\.5 of the gap is the distance of decode's upper bounds"  # 25 samples
        with pytest.warns(ConvergenceWarning, match=expected):
            approximate(loose, max_iter=100).fit(*data)

    def test_what_the_bounds_leave_is_at_most_the_gap(self, data):
        """Also where outputs score less than the marginals, and in certificates that get worse."""

        def bad(scores):
            return own.top_three(-scores), float(np.sort(scores)[-3:].sum())

        with pytest.warns(ConvergenceWarning, match="of the gap") as caught:
            model = approximate(bad, max_iter=10).fit(*data)
        said = " ".join(str(warning.message) for warning in caught)
        part = float(re.search(r"(\S+) of the gap is the distance", said)[1])
        assert part <= float(f"{model.duality_gap_:.3g}")


class TestSetUp:
    def test_threads_share_the_calls_of_set_up(self, data):
        """Both threads must be inside of decode at the same time, or the barrier breaks."""
        barrier, turns = Barrier(2, timeout=20), itertools.count()

        def decode(scores, x):
            if next(turns) < 2:
                barrier.wait()
            return own.top_three(scores)

        X, Y = data
        StructuredCRF(decode, tol=0.1, n_jobs=2).fit(X, Y)
        assert next(turns) > 2

    def test_the_time_that_set_up_takes_is_told(self, data, monkeypatch):
        clock = [0.0]
        for module in (_running, base):
            monkeypatch.setattr(module, "perf_counter", lambda: clock[0])

        def slow(scores, x=None):
            clock[0] += 0.02
            return own.top_three(scores)

        with pytest.raises(OutOfTimeError, match=r"decode have checked Y and .* interior="):
            StructuredCRF(slow, solver=BlockFrankWolfe(max_time=0.3)).fit(*data)
        solver = BlockFrankWolfe(max_time=1.0)
        with pytest.warns(ConvergenceWarning, match=r"s of them set-up\)"):
            StructuredCRF(structure=with_interior(slow), solver=solver).fit(*data)


class TestPrediction:
    def test_predictions_maximise(self, model, data):
        outputs = own.subsets(8, 3)
        for x, found in zip(data[0], model.predict(data[0]), strict=True):
            scores = x @ model.coef_
            assert found @ scores == pytest.approx((outputs @ scores).max())

    def test_score_is_one_minus_the_hamming_loss(self, model, data):
        X, Y = data
        loss = np.mean([np.mean(a != b) for a, b in zip(model.predict(X), Y, strict=True)])
        assert model.score(X, Y) == pytest.approx(1 - loss)

    def test_bounds_hold_the_exact_log_likelihood(self, model, data):
        X, Y = data
        outputs = own.subsets(8, 3)
        scores = [x @ model.coef_ for x in X]
        exact = [y @ s - own.log_z(outputs, s) for y, s in zip(Y, scores, strict=True)]
        lower, upper = model.log_likelihood_bounds(X, Y)
        assert (lower <= np.array(exact) + 1e-9).all()
        assert (np.array(exact) <= upper + 1e-9).all()
        approximate = model.approximate_log_likelihood(X, Y)
        assert (approximate <= np.array(exact)).all()  # the default entropy is an upper bound

    def test_bounds_of_the_user(self, data):
        X, Y = data
        outputs = own.subsets(8, 3)

        def known(scores):
            log_z = own.log_z(outputs, scores)
            return log_z - 0.1, log_z + 0.1

        space = DecoderSpace(own.top_three, 8, bounds=known)
        found = StructuredCRF(structure=space, tol=0.1).fit(X, Y)
        lower, upper = found.log_likelihood_bounds(X, Y)
        np.testing.assert_allclose(upper - lower, 0.2)

    def test_samples_are_outputs_and_follow_the_scores(self, model, data):
        X = data[0][:2]
        drawn = model.sample(X, 400, random_state=0)
        again = model.sample(X, 400, random_state=0)
        for one, other, x in zip(drawn, again, X, strict=True):
            assert np.array_equal(one, other)
            assert (one.sum(axis=1) == 3).all()
            outputs = own.subsets(8, 3)
            weights = np.exp(outputs @ x @ model.coef_)
            exact = weights @ outputs / weights.sum()
            assert np.abs(one.mean(axis=0) - exact).max() < 0.15  # perturb-and-MAP has a bias

    def test_events_to_a_looser_tolerance_take_fewer_calls(self, data):
        calls = []

        def decode(scores):
            calls.append(scores)
            return own.top_three(scores)

        found = StructuredCRF(decode, tol=0.05).fit(*data)
        counts = []
        for tol in (1.0, 1e-3):
            before = len(calls)
            found.events(*data, tol=tol)
            counts.append(len(calls) - before)
        assert 2 * counts[0] < counts[1]

    def test_options_of_another_method_name_it(self, model, data):
        with pytest.raises(TypeError, match="max_iter: method='auto' takes no options"):
            model.predict_marginals(data[0], max_iter=20)

    def test_a_decoder_given_as_a_structure(self, data):
        with pytest.raises(TypeError) as caught:
            StructuredCRF(structure=own.top_three).fit(*data)
        assert any("as decode=" in note for note in caught.value.__notes__)

    def test_marginals_by_perturbation(self, model, data):
        tau = model.predict_marginals(data[0][:1], method="perturb", n_samples=50)[0]
        assert tau.sum() == pytest.approx(3.0)


class TestCallsOfDecode:
    """The table of docs/decoders.md."""

    @pytest.fixture
    def counted(self, data):
        calls = []

        def decode(scores):
            calls.append(1)
            return own.top_three(scores)

        model = StructuredCRF(decode, tol=0.05).fit(*data)
        assert len(calls) == model.n_oracle_calls_
        calls.clear()
        return model, calls

    @pytest.mark.parametrize(
        ("ask", "each"),
        [
            (lambda m, X, Y: m.predict(X), 1),
            (lambda m, X, Y: m.score(X, Y), 1),
            (lambda m, X, Y: m.sample(X, 4, random_state=0), 4),
            (lambda m, X, Y: m.predict_marginals(X, method="perturb", n_samples=7), 7),
            (lambda m, X, Y: m.predict(X, known=[np.r_[1.0, np.full(7, np.nan)]] * len(X)), 2),
        ],
    )
    def test_the_number_for_each_sample(self, counted, data, ask, each):
        model, calls = counted
        model.sample(data[0][:1], 1)  # the space looks once for coordinates that do not vary
        calls.clear()
        ask(model, *data)
        assert len(calls) == each * len(data[0])

    def test_marginals_take_what_the_tolerance_needs(self, counted, data):
        model, calls = counted
        X, Y = data
        for ask in (
            lambda tol: model.predict_marginals(X, tol=tol),
            lambda tol: model.approximate_log_likelihood(X, Y, tol=tol),
            lambda tol: model.events(X, Y, tol=tol),
            lambda tol: model.log_likelihood_bounds(X, Y, tol=tol),
        ):
            counts = []
            for tol in (1.0, 0.01):
                calls.clear()
                ask(tol)
                counts.append(len(calls))
            assert len(X) <= counts[0] < counts[1]

    def test_set_up_asks_each_label_once_and_for_interior_points(self, data):
        calls = []

        def decode(scores):
            calls.append(scores.copy())
            return own.top_three(scores)

        def calls_of_set_up(space):
            calls.clear()
            StructuredCRF(structure=space)._problem(*data)
            return len(calls)

        n_labels, h = len(np.unique(data[1], axis=0)), coordinate_entropy(8)
        assert calls_of_set_up(with_interior(decode)) == n_labels
        assert calls_of_set_up(DecoderSpace(decode, 8)) == n_labels
        assert calls_of_set_up(with_interior(decode, exact=False)) == 0
        assert calls_of_set_up(DecoderSpace(decode, 8, exact=False)) == 0
        assert calls_of_set_up(DecoderSpace(decode, 8, entropy=(h, h.gradient))) > n_labels

    def test_given_marginals_and_bounds_replace_decode(self, counted, data):
        X, Y = data
        outputs = own.subsets(8, 3)

        def exact(scores):
            p = np.exp(outputs @ scores - own.log_z(outputs, scores))
            return p @ outputs, own.log_z(outputs, scores)

        model, calls = counted
        given = {"marginals": exact, "bounds": lambda s: (exact(s)[1],) * 2}
        space = DecoderSpace(model.decode, 8, **given)
        model.set_params(decode=None, structure=space)
        model.predict_marginals(X)
        model.approximate_log_likelihood(X, Y)
        model.log_likelihood_bounds(X, Y)
        assert not calls


class TestRelativeGaps:
    """Decoders that stop at 1e-4 of the score, as integer programs do by default."""

    OUTPUTS = own.subsets(8, 3)

    def nearly(self, scores):
        totals = self.OUTPUTS @ scores
        close = np.flatnonzero(totals >= totals.max() - 1e-4 * abs(totals.max()))
        return self.OUTPUTS[close[0]], float(totals.max())

    def test_the_message_says_what_to_do(self):
        space = DecoderSpace(lambda scores: self.nearly(scores)[0], 8)
        scores = np.array([3.0, 2.0, 1.0001, 1.0002, 0.0, 0.0, 0.0, 0.0])
        space.decode(scores + 10 * np.eye(8)[3])
        with pytest.raises(mlestruct.exceptions.DecoderError, match="relative gap: set that to 0"):
            space.decode(scores)

    def test_a_returned_bound_keeps_the_certificate(self):
        rng = np.random.default_rng(0)
        X = [np.round(rng.normal(size=(8, 2)), 3) for _ in range(12)]
        Y = [own.top_three(x @ [1.0, -1.0] + rng.gumbel(size=8)).astype(int) for x in X]
        model = approximate(self.nearly, tol=0.01).fit(X, Y)
        assert model.converged_
        assert model.certified_
        exact = StructuredCRF(own.top_three, tol=1e-3).fit(X, Y)
        assert model.objective_bound_ >= exact.objective_
        assert model.objective_ <= exact.objective_bound_


class TestKnownParts:
    """Against all outputs that agree with what is known."""

    @pytest.fixture
    def known(self, data):
        Y = np.array(data[1], dtype=float)
        Y[:, 2:] = np.nan
        Y[0] = data[1][0]  # all of it
        return Y

    def test_everything_is_that_of_the_outputs_that_agree(self, model, data, known):
        X, Y = data
        outputs = own.subsets(8, 3)
        found = model.predict(X, known=known)
        tables = model.predict_marginals(X, tol=1e-6, known=known)
        drawn = model.sample(X, 5, known=known, random_state=0)
        lower, upper = model.log_likelihood_bounds(X, Y, known=known)
        approximate = model.approximate_log_likelihood(X, Y, 1e-5, known=known)
        for m, (x, y) in enumerate(zip(X, Y, strict=True)):
            open_ = np.isnan(known[m])
            agree = outputs[(outputs == known[m])[:, ~open_].all(axis=1)]
            scores = x @ model.coef_
            assert found[m] @ scores == pytest.approx((agree @ scores).max())
            for label in (found[m], *drawn[m]):
                np.testing.assert_array_equal(label[~open_], known[m][~open_])
            np.testing.assert_allclose(tables[m][~open_], known[m][~open_], atol=1e-12)
            assert tables[m].sum() == pytest.approx(3.0)
            exact = y @ scores - own.log_z(agree, scores)
            assert lower[m] - 1e-9 <= exact <= upper[m] + 1e-9
            assert approximate[m] <= exact + 1e-9
        assert lower[0] == upper[0] == 0.0
        np.testing.assert_array_equal(model.predict(X, known=[None] * len(X)), model.predict(X))

    @pytest.mark.parametrize("entropy", [None, (True, True)])
    def test_the_entropy_is_that_of_the_whole(self, entropy):
        """A face of the polytope: the value at tau is that of the whole space at tau."""
        pair = coordinate_entropy(8)
        given = None if entropy is None else (pair, pair.gradient)
        space = DecoderSpace(own.top_three, 8, entropy=given)
        scores = np.random.default_rng(0).normal(size=8)
        part = space.given([1, np.nan, 0, *[np.nan] * 5])
        found = marginals(part, scores, tol=1e-6)
        assert found.log_partition == pytest.approx(scores @ found.tau + pair(found.tau), abs=1e-9)
        table = own.subsets(8, 3)
        table = table[(table[:, 0] == 1) & (table[:, 2] == 0)]
        assert own.log_z(table, scores) <= found.log_partition + found.gap

    def test_paths_are_exact(self):
        ladder = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (2, 4), (3, 4)]
        space, scores = Paths(ladder, 0, 4), np.random.default_rng(0).normal(size=7)
        labels = np.array(list(itertools.product([0, 1], repeat=7)))
        every = [
            y for y in labels if (space.label(space.decode(9.0 * (2 * y - 1)).vertex) == y).all()
        ]
        table = np.array([y for y in every if y[4] == 1])
        found = marginals(space.given([*[np.nan] * 4, 1, np.nan, np.nan]), scores, tol=1e-7)
        assert found.log_partition == pytest.approx(own.log_z(table, scores), abs=1e-5)

    def test_upper_bounds_of_decoders_are_those_of_the_rest(self):
        def bounded(scores):
            best = own.top_three(scores)
            return best, float(scores @ best) + 0.5

        space = DecoderSpace(bounded, 8, exact=False).given([1, *[np.nan] * 7])
        scores = np.random.default_rng(1).normal(size=8)
        found = space.decode(scores)
        assert found.upper_bound == pytest.approx(found.score + 0.5)
        assert space.has_bound

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            ([1, 1, 1, 1, *[np.nan] * 4], r"known\[0\]: no output of decode agrees"),
            ([2, *[np.nan] * 7], r"known\[0\]: expected 1, 0 or NaN"),
            ([1.0, 0.0], r"known\[0\]: expected 1, 0 or NaN .* shape \(8,\)"),
        ],
    )
    def test_what_cannot_be_known(self, model, data, value, message):
        with pytest.raises(ValueError, match=message):
            model.predict(data[0][:1], known=[value])

    def test_labels_must_agree(self, model, data):
        X, Y = data
        with pytest.raises(ValueError, match=r"known\[0\]: differs from Y\[0\]"):
            model.log_likelihood_bounds(X[:1], Y[:1], known=[own.subsets(8, 3)[0]])

    def test_structures_take_their_own(self):
        rng = np.random.default_rng(0)
        space = Pairwise(PairwiseGraph(3, [(0, 1), (1, 2)]), 2)
        X, Y = rng.normal(size=(6, 14, 2)), rng.integers(2, size=(6, 3))
        crf = StructuredCRF(structure=space).fit(X, Y)
        known = np.where([True, False, False], Y, -1)
        for m, found in enumerate(crf.predict(X, known=known)):
            states = np.array(list(itertools.product([0, 1], repeat=3)))
            agree = states[states[:, 0] == Y[m, 0]]
            totals = [space.encode(y).dot(X[m] @ crf.coef_) for y in agree]
            np.testing.assert_array_equal(found, agree[int(np.argmax(totals))])
            at = int(np.flatnonzero((agree == Y[m]).all(axis=1))[0])
            log_p = totals[at] - np.logaddexp.reduce(totals)
            exact = crf.log_likelihood(X[m : m + 1], Y[m : m + 1], known=known[m : m + 1])
            assert exact[0] == pytest.approx(log_p)


class TestManners:
    def test_grid_search_and_clone(self, data):
        search = GridSearchCV(
            StructuredCRF(own.top_three, tol=0.1), {"alpha": [0.1, 10.0]}, cv=2
        ).fit(*data)
        assert search.best_params_["alpha"] in (0.1, 10.0)
        assert clone(search.best_estimator_).decode is own.top_three

    def test_path(self, data):
        path = StructuredCRF(own.top_three, tol=0.1).fit_path(*data, [10.0, 1.0])
        norms = [np.linalg.norm(c) for c in path.coefs]
        assert norms[0] < norms[1]

    def test_pickle(self, model, data):
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict(data[0]), model.predict(data[0]))

    def test_output_spaces_are_not_saved_as_objects(self, data, tmp_path):
        model = StructuredCRF(structure=Subsets(8, 3), tol=0.1).fit(*data)
        with pytest.raises(TypeError, match="structure= a function of the sample"):
            model.save(tmp_path / "model.mls")

    def test_save_by_import_path(self, data, tmp_path):
        decode = partial(own.best_of, k=3)
        model = StructuredCRF(decode, tol=0.1).fit(*data)
        model.save(tmp_path / "model.mls")
        with pytest.raises(ValueError, match=r"trusted=\['own_decoders:best_of'\]"):
            mlestruct.load(tmp_path / "model.mls")
        for trusted in (["own_decoders:best_of"], ["own_decoders"]):
            again = mlestruct.load(tmp_path / "model.mls", trusted=trusted)
            assert again.decode.func is own.best_of
            assert again.certified_ is True
            np.testing.assert_array_equal(again.predict(data[0]), model.predict(data[0]))

    def test_functions_without_an_import_path_are_not_saved(self, data, tmp_path):
        model = StructuredCRF(lambda scores: own.top_three(scores), tol=0.1).fit(*data)
        with pytest.raises(TypeError, match=r"decode=.*top level of a module"):
            model.save(tmp_path / "model.mls")

    def test_equal_samples_are_merged(self, data):
        X, Y = data
        problem = StructuredCRF(own.top_three)._problem([X[0]] * 5, Y[:5])
        assert len(problem.blocks) == 1
        assert problem.blocks[0].weight == 5


FIVE = DecoderSpace(own.top_three, 5)
STEEP = (lambda tau: 0.0), (lambda tau: np.full(8, np.inf))


class TestBadInput:
    X, Y = own.subset_samples(np.random.default_rng(2), n_samples=4)

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({}, "either decode or structure"),
            ({"decode": own.top_three, "structure": FIVE}, "either decode or structure"),
            ({"decode": 3}, "`decode` must be a function"),
            ({"decode": own.top_three, "features": 3}, "`features` must be a function"),
            ({"decode": own.top_three, "standardize": 1.0}, "standardize must be True or False"),
            ({"decode": own.top_three, "solver": "bcfw"}, "`solver` must be None or an object"),
            ({"structure": 3}, "`structure` must be an output space"),
            ({"structure": FIVE}, r"X\[0\]: has 8 rows of features, DecoderSpace has 5"),
            ({"decode": lambda scores: scores}, "decode: must return a 0/1 vector"),
            ({"decode": lambda scores: np.ones(3)}, r"got shape \(3,\)"),
            ({"decode": lambda scores: None}, "got NoneType"),
        ],
    )
    def test_parameters(self, parameters, message):
        with pytest.raises((TypeError, ValueError), match=message):
            StructuredCRF(**parameters).fit(self.X, self.Y)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"decode": 3}, "`decode` must be a function"),
            ({"marginals": 3}, "`marginals` must be a function"),
            ({"bounds": 3}, "`bounds` must be a function"),
            ({"exact": "yes"}, "`exact` must be True or False"),
            ({"n_coordinates": 0}, "`n_coordinates` must be a whole number"),
            ({"entropy": 3.0}, "entropy: expected"),
            ({"entropy": coordinate_entropy(5)}, r"must have 8 coordinates.*shape \(5,\)"),
            ({"entropy": STEEP}, "gradient at the interior point is inf"),
            ({"interior": np.zeros(3)}, "interior: expected shape"),
            ({"interior": np.full(8, 2.0)}, "between 0 and 1"),
        ],
    )
    def test_options_of_decoder_spaces(self, options, message):
        options = {"decode": own.top_three, "n_coordinates": 8, **options}
        with pytest.raises((TypeError, ValueError), match=message):
            StructuredCRF(structure=lambda x: DecoderSpace(**options)).fit(self.X, self.Y)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda X, Y: ([], []), "X is empty"),
            (lambda X, Y: (X, Y[:-1]), "4 samples but Y has 3"),
            (
                lambda X, Y: ([x[:, :1] if m else x for m, x in enumerate(X)], Y),
                "1 features, X.0. has 2",
            ),
            (lambda X, Y: ([np.full((8, 2), np.nan)] * 4, Y), "X\\[0\\]: found nan"),
            (lambda X, Y: ([np.zeros(8)] * 4, Y), "features of shape"),
            (lambda X, Y: (["word"] * 4, Y), "cannot be read as an array of features"),
            (lambda X, Y: (X, [np.ones(7)] * 4), r"Y\[0\]: expected a 0/1 vector of shape \(8,\)"),
            (lambda X, Y: (X, [np.full(8, 0.5)] * 4), "got 0.5 at coordinate 0"),
            (lambda X, Y: (X, [np.ones(8)] * 4), r"Y\[0\]: is not an output.*exact=False"),
        ],
    )
    def test_data(self, change, message):
        with pytest.raises((TypeError, ValueError), match=message):
            StructuredCRF(own.top_three).fit(*change(self.X, self.Y))

    def test_one_sample_is_enough(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = StructuredCRF(own.top_three, tol=0.05).fit(self.X[:1], self.Y[:1])
        assert len(model.predict(self.X)) == 4

    def test_an_output_space_of_one(self):
        with pytest.raises(ValueError, match="only one possible output"):
            StructuredCRF(lambda scores: np.ones(8)).fit(self.X, [np.ones(8)] * 4)
