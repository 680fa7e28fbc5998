"""Fits and inference whose time is up, and fits that Ctrl-C ends."""

import itertools
import warnings
from contextlib import nullcontext
from functools import cache
from time import thread_time

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from mlestruct import (
    LBFGS,
    BipartiteMatchingCRF,
    BlockFrankWolfe,
    ChainCRF,
    FrankWolfe,
    GraphCRF,
    GridCRF,
    MatchingCRF,
    OutOfTimeError,
    StructuredCRF,
    _running,
    time_limit,
)
from mlestruct._running import seconds_left
from mlestruct.algorithms.matching.blossom import best_matching
from mlestruct.algorithms.pairwise.junction_tree import BinaryJunctionTree
from mlestruct.models.base import default_solver
from mlestruct.structures import PairwiseGraph
from mlestruct.structures.labellings.repeated import RepeatedBinary

RNG = np.random.default_rng(0)
PAIRS = [RNG.normal(size=(6, 6, 2)) for _ in range(3)]
GROUPS = [pairs + pairs.transpose(1, 0, 2) for pairs in PAIRS]
NODES = [RNG.normal(size=(9, 2)) for _ in range(3)]
RING = np.array([[k, (k + 1) % 9] for k in range(9)])
LABELS = [RNG.integers(0, 3, 9) for _ in range(3)]
CASES = {
    "bipartite": (BipartiteMatchingCRF, PAIRS, [RNG.permutation(6) for _ in range(3)]),
    "bipartite rho 1": (
        lambda **kw: BipartiteMatchingCRF(rho=1.0, **kw), PAIRS, [np.arange(6)] * 3,
    ),
    "group": (MatchingCRF, GROUPS, [np.array([1, 0, 3, 2, 5, 4])] * 3),
    "exact group": (
        lambda **kw: MatchingCRF(polytope="exact", **kw), GROUPS, [np.array([3, 2, 1, 0, 5, 4])] * 3
    ),
    "chain": (ChainCRF, NODES, LABELS),
    "graph": (GraphCRF, [(x, RING, np.ones((9, 1))) for x in NODES], LABELS),
    "binary graph": (
        GraphCRF, [(x, RING, np.ones((9, 1))) for x in NODES], [y % 2 for y in LABELS],
    ),
    "grid": (GridCRF, [x.reshape(3, 3, 2) for x in NODES], [y.reshape(3, 3) for y in LABELS]),
    "binary grid": (
        GridCRF, [x.reshape(3, 3, 2) for x in NODES], [y.reshape(3, 3) % 2 for y in LABELS],
    ),
}  # fmt: skip

SOLVERS = [None, FrankWolfe(), BlockFrankWolfe()]


@cache
def optimum(name):
    make, X, Y = CASES[name]
    return make(tol=1e-6).fit(X, Y)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", CASES)
def test_a_fit_whose_time_is_up_returns_what_there_is(name, solver):
    make, X, Y = CASES[name]
    model = make(solver=solver, tol=1e-12)
    with time_limit(None) as deadline:
        deadline.soft = -np.inf
        with pytest.warns(ConvergenceWarning, match="the model is the best found so far"):
            model.fit(X, Y)
    assert not model.converged_
    assert len(model.history_) <= 2
    assert np.isfinite(model.coef_).all()
    free = optimum(name)  # bounds of an unfinished run still hold
    assert model.objective_bound_ >= free.objective_ - 1e-9
    assert model.objective_ <= free.objective_bound_ + 1e-9


@pytest.mark.parametrize("name", CASES)
def test_without_any_step_the_weights_are_0(name, monkeypatch):
    make, X, Y = CASES[name]
    with time_limit(None) as deadline:

        def choose(*arguments):  # the last thing before the first step
            deadline.soft = deadline.hard = -np.inf
            return default_solver(*arguments)

        monkeypatch.setattr("mlestruct.models.base.default_solver", choose)
        monkeypatch.setattr("mlestruct.models.base.time_limit", lambda _: nullcontext())
        with pytest.warns(ConvergenceWarning, match="before the first certificate"):
            model = make().fit(X, Y)
    assert not model.coef_.any()
    assert model.duality_gap_ == np.inf
    assert len(model.predict(X)) == len(X)


@pytest.mark.parametrize("name", CASES)
def test_marginals_whose_time_is_up_are_feasible(name):
    make, X, Y = CASES[name]
    model = make().fit(X, Y)
    exact = model.predict_marginals(X, tol=1e-10)
    with time_limit(None) as deadline, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        deadline.soft = -np.inf
        found = model.predict_marginals(X, tol=1e-10)
    for own, other in zip(found, exact, strict=True):
        assert own.shape == other.shape
        np.testing.assert_allclose(own.sum(axis=-1), other.sum(axis=-1), atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_reading_counts_and_a_fit_without_samples_says_so(name):
    make, X, Y = CASES[name]
    model = make().fit(X, Y)
    before = model.coef_.copy()
    with time_limit(None) as deadline:
        deadline.cancel()
        with pytest.raises(OutOfTimeError, match="reading X"):
            model.fit(X, Y)
    np.testing.assert_array_equal(model.coef_, before)


def test_short_samples_are_read_in_time(monkeypatch):
    """The time is looked at for every sample: a clock that goes on a second with each look."""
    ticks = itertools.count()
    monkeypatch.setattr(_running, "perf_counter", lambda: float(next(ticks)))
    X, Y = np.ones((2000, 2, 1)), np.tile([0, 1], (2000, 1))
    with pytest.raises(OutOfTimeError, match="reading X"):
        ChainCRF(solver=LBFGS(max_time=1000.0)).fit(list(X), list(Y))


@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("perfect", [True, False])
@pytest.mark.parametrize("group", [True, False])
def test_oracles_of_large_matchings_are_given_up(group, perfect):
    n = 1200  # the answer takes more than 4 s of CPU time
    x = np.random.default_rng(0).normal(size=(n, n, 1))
    make, x = (MatchingCRF, x + x.transpose(1, 0, 2)) if group else (BipartiteMatchingCRF, x)
    small = make(perfect=perfect).fit([x[:6, :6]], [np.arange(6) ^ 1])
    small.coef_ = small.coef_ * 0.0 + 80.0
    small.predict_marginals([x[:60, :60]])  # compiles
    for limit in (0.05, 0.4):
        # The CPU time of this thread: it grows neither with other processes nor with threads that
        # are given up, but with every step that does not look at the time.
        started = thread_time()
        with pytest.raises((OutOfTimeError, ConvergenceWarning)), time_limit(limit):
            small.predict_marginals([x])
        assert thread_time() - started < 1.1 * limit + 1.0


def test_decoders_of_users_are_called_no_more_when_the_time_is_up(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(_running, "perf_counter", lambda: clock[0])

    def decode(scores):
        clock[0] += 0.05
        return (scores > 0).astype(int)

    X = [np.random.default_rng(m).normal(size=(20, 2)) for m in range(40)]
    Y = [(x[:, 0] > 0).astype(int) for x in X]
    with pytest.warns(ConvergenceWarning, match="before the first certificate"):
        StructuredCRF(decode=decode, solver=BlockFrankWolfe(max_time=0.2)).fit(X, Y)
    assert clock[0] < 0.8  # 40 checks alone take 2 s


def test_predictions_tell_that_the_time_was_up():
    make, X, Y = CASES["chain"]
    model = make().fit(X, Y)
    with time_limit(None) as deadline:
        deadline.cancel()
        with pytest.raises(OutOfTimeError, match="no answer within"):
            model.predict(X)


@pytest.mark.parametrize("calls", [1, 2, 7])
@pytest.mark.parametrize("solver", SOLVERS)
def test_ctrl_c_keeps_the_model_even_before_the_first_certificate(calls, solver):
    left = [10**6]

    def decode(scores):
        left[0] -= 1
        if left[0] <= 0:
            raise KeyboardInterrupt
        return (scores > 0).astype(int)

    X, Y = [np.ones((3, 2)), np.eye(3, 2)], [np.ones(3), np.zeros(3)]
    model = StructuredCRF(decode=decode, solver=solver, tol=1e-9)
    model._problem(X, Y)
    left[0] = 10**6 - left[0] + calls
    with pytest.warns(ConvergenceWarning, match="interrupted after"):
        model.fit(X, Y)
    assert np.isfinite(model.coef_).all()
    assert not model.converged_


def test_ctrl_c_ends_a_search():
    def interrupt(progress):
        raise KeyboardInterrupt

    make, X, Y = CASES["bipartite"]
    search = GridSearchCV(make(solver=LBFGS(callback=interrupt)), {"alpha": [1.0, 2.0]}, cv=2)
    with pytest.raises(KeyboardInterrupt):
        search.fit(X, Y)


@pytest.mark.parametrize("question", ["log_likelihood", "sample", "score"])
def test_what_follows_the_reading_of_many_sequences_is_in_time_too(question, monkeypatch):
    make, X, Y = CASES["chain"]
    model = make().fit(X, Y)
    before = "predict" if question == "score" else "_read"
    first = getattr(model, before)
    with time_limit(None) as deadline:

        def answers_late(*arguments, **options):
            found = first(*arguments, **options)
            deadline.cancel()
            return found

        monkeypatch.setattr(model, before, answers_late)
        with pytest.raises(OutOfTimeError, match=r"^(reading|the sequences of X)"):
            getattr(model, question)(X, *([] if question == "sample" else [Y]))


def test_paths_keep_to_max_time(monkeypatch):
    make, X, Y = CASES["chain"]
    limits, read = [], ChainCRF._problem

    def look(*arguments, **options):
        limits.append(seconds_left())
        return read(*arguments, **options) if len(arguments) > 1 else None

    monkeypatch.setattr(ChainCRF, "_problem", look)
    make(solver=LBFGS(max_time=50.0, callback=look)).fit_path(X, Y, [10.0, 1.0])
    assert len(limits) > 2
    assert max(limits) <= 55.5  # reading and single oracle calls are given up, too


def test_many_labels_are_handled_few_samples_at_a_time():
    model = RepeatedBinary(PairwiseGraph(300, np.stack(np.triu_indices(300, 1), axis=1)))
    parts = list(model.chunks(500))
    assert max(part.stop - part.start for part in parts) * model.graph.n_edges <= 2**19
    assert np.array_equal(np.concatenate([np.arange(500)[p] for p in parts]), np.arange(500))
    with time_limit(None) as deadline:
        deadline.cancel()
        with pytest.raises(OutOfTimeError, match="bounds of all samples"):
            model.log_partition_bounds(np.zeros((2, 300)), np.zeros((1, model.graph.n_edges)))


def test_lists_of_best_labellings_and_matchings_of_a_group_are_given_up():
    tree = BinaryJunctionTree(3, np.array([0, 1]), np.array([1, 2]))
    fields, couplings = np.ones((2, 3)), np.ones((1, 2))
    # Two triangles: the best fractional matching is halves, which are repaired.
    ends = np.array([(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (3, 5), (4, 5)])
    ptr, col = np.searchsorted(ends[:, 0], np.arange(7)), ends[:, 1]
    scores = np.where(col == 3, -9.0, 1.0)
    assert best_matching(6, ptr, col, scores).score == pytest.approx(-7.0)
    with time_limit(None) as deadline:
        deadline.cancel()
        with pytest.raises(OutOfTimeError, match="the best labellings"):
            tree.best(fields, couplings)
        with pytest.raises(OutOfTimeError, match="the best matching"):
            best_matching(6, ptr, col, scores)
