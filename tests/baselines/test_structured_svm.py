"""Structured SVMs: their optimum is that of a quadratic program with all constraints."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from labellings import random_edges
from output_spaces import SPACES, quadratic_program, samples_of
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import mlestruct
from mlestruct import BipartiteMatchingCRF, MatchingCRF, PairInput
from mlestruct.baselines import StructuredPerceptron, StructuredSVM, structured_svm
from mlestruct.structures import Pairwise, PairwiseGraph, Sequences

EXACT = ("bipartite", "group", "tree", "chain")  # decoders without a relaxation
EVERY = pytest.mark.parametrize("name", list(SPACES))


BUDGET = ("averaging", "memory", "callback", "max_time")


def machine_of(data, **options):
    given = {"alpha": 0.3, "tol": 1e-7, "max_iter": 5000, "random_state": 0}
    own = {name: options.pop(name) for name in BUDGET if name in options}
    return data.estimator(**{**given, **options}, solver=StructuredSVM(**own))


def quietly(machine, *data, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return machine.fit(*data, **options)


def enumerated_optimum(data, alpha, weights=None):
    """Slack per sample, a constraint per output."""
    n_samples, size = len(data.X), data.features(data.X[0], data.Y[0]).shape[0]
    rows, lower = [], []
    for m, change, loss in data.differences():
        rows.append(np.concatenate([change, np.eye(n_samples)[m]]))
        lower.append(loss)
    for m in range(n_samples):  # the observed output itself
        rows.append(np.concatenate([np.zeros(size), np.eye(n_samples)[m]]))
        lower.append(0.0)
    weights = np.ones(n_samples) if weights is None else weights
    curvature = np.concatenate([np.full(size, alpha), np.zeros(n_samples)])
    cost = np.concatenate([np.zeros(size), weights])
    return quadratic_program(curvature, cost, np.array(rows), np.array(lower))[1]


def local_polytope(n_nodes, edges, n_states):
    """A, b of A tau = b, tau >= 0: nodes sum to one, tables of edges agree with nodes."""
    first = n_nodes * n_states
    width = first + len(edges) * n_states**2
    rows, right = [], []
    for n in range(n_nodes):
        rows.append(np.isin(np.arange(width), np.arange(n_states) + n * n_states).astype(float))
        right.append(1.0)
    for e, ends in enumerate(edges):
        table = np.arange(n_states**2).reshape(n_states, n_states) + first + e * n_states**2
        for axis, n in enumerate(ends):
            for s in range(n_states):
                row = np.zeros(width)
                row[table[s] if axis == 0 else table[:, s]] = 1.0
                row[n * n_states + s] = -1.0
                rows.append(row)
                right.append(0.0)
    return np.array(rows), np.array(right)


def relaxed_optimum(data, alpha):
    """The most violating point of the local polytope, written as the dual of its program."""
    n_nodes, edges, n_states = data.graph
    A, b = local_polytope(n_nodes, edges, n_states)
    size = data.features(data.X[0], data.Y[0]).shape[0]
    n_prices, n_samples = A.shape[0], len(data.X)
    rows, lower = [], []
    cost = np.zeros(size + n_samples * n_prices)
    for m, (x, y) in enumerate(zip(data.X, data.Y, strict=True)):
        wrong = np.zeros(A.shape[1])
        wrong[: n_nodes * n_states] = (1.0 - np.eye(n_states)[np.ravel(y)].ravel()) / n_nodes
        block = np.zeros((A.shape[1], cost.shape[0]))
        block[:, :size] = -data.scores(x)
        at = size + m * n_prices
        block[:, at : at + n_prices] = A.T
        rows.append(block)
        lower.append(wrong)
        cost[at : at + n_prices] = b
        cost[:size] -= data.features(x, y)
    curvature = np.concatenate([np.full(size, alpha), np.zeros(n_samples * n_prices)])
    return quadratic_program(curvature, cost, np.concatenate(rows), np.concatenate(lower))[1]


# ---------------------------------------------------------------------- optimum and certificate
@EVERY
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("alpha", [0.05, 1.0])
def test_optimum_is_that_of_the_quadratic_program(name, seed, alpha):
    data = samples_of(name, seed)
    optimum = enumerated_optimum if name in EXACT else relaxed_optimum
    best = optimum(data, alpha)
    machine = machine_of(data, alpha=alpha).fit(data.X, data.Y)
    assert machine.converged_
    assert machine.duality_gap_ <= 1e-7 * max(1.0, -machine.objective_)
    assert -machine.objective_ == pytest.approx(best, abs=2e-6)
    assert -machine.objective_bound_ <= best + 1e-6
    if name in EXACT:
        assert -machine.objective_ == pytest.approx(data.hinge(machine.coef_, alpha), abs=1e-9)
    else:
        assert -machine.objective_ >= data.hinge(machine.coef_, alpha) - 1e-9
        assert best >= enumerated_optimum(data, alpha) - 1e-6


@EVERY
@pytest.mark.parametrize("averaging", [False, True])
@pytest.mark.parametrize("max_iter", [1, 3, 12])
def test_certificates_of_unfinished_fits_enclose_the_optimum(name, averaging, max_iter):
    data = samples_of(name, 2)
    best = (enumerated_optimum if name in EXACT else relaxed_optimum)(data, 0.3)
    machine = quietly(
        machine_of(data, averaging=averaging, max_iter=max_iter, tol=1e-12), data.X, data.Y
    )
    assert -machine.objective_bound_ <= best + 1e-7
    assert -machine.objective_ >= best - 1e-7
    if name in EXACT:
        assert -machine.objective_ == pytest.approx(data.hinge(machine.coef_, 0.3), abs=1e-9)
    # As written down pass by pass, too.
    upper, lower = (
        -np.array(machine.history_.objective),
        -np.array(machine.history_.objective_bound),
    )
    assert (upper >= best - 1e-7).all()
    assert (lower <= best + 1e-7).all()
    assert np.allclose(upper - lower, machine.history_.gap)


@pytest.mark.parametrize("name", ["bipartite", "chain"])
def test_an_average_converges_by_its_own_gap(name):
    data = samples_of(name, 3)
    machine = machine_of(data, averaging=True, tol=1e-3).fit(data.X, data.Y)
    assert machine.converged_
    assert machine.duality_gap_ <= 1e-3 * max(1.0, -machine.objective_)
    best = enumerated_optimum(data, 0.3)
    assert data.hinge(machine.coef_, 0.3) <= best + machine.duality_gap_ + 1e-7


def test_averages_weight_the_kth_iterate_by_k(monkeypatch):
    data = samples_of("bipartite", 0, n_samples=6)
    iterates = []
    step = structured_svm.HingeDual.step

    def watched(self, m):
        gap = step(self, m)
        iterates.append(self.theta.copy())
        return gap

    monkeypatch.setattr(structured_svm.HingeDual, "step", watched)
    machine = quietly(machine_of(data, averaging=True, max_iter=1), data.X, data.Y)
    k = np.arange(1, len(iterates) + 1)
    np.testing.assert_allclose(machine.coef_, k @ np.array(iterates) / k.sum(), rtol=1e-12)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_few_remembered_outputs_give_the_same_optimum(most):
    data = samples_of("group", 1)
    machine = quietly(
        machine_of(data, alpha=1.0, tol=1e-4, max_iter=1000, memory=most), data.X, data.Y
    )
    best = enumerated_optimum(data, 1.0)
    assert -machine.objective_ == pytest.approx(data.hinge(machine.coef_, 1.0), abs=1e-9)
    assert best - 1e-7 <= -machine.objective_ <= best + 2e-3
    assert -machine.objective_bound_ <= best + 1e-7


def test_certificates_are_rare():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(8, 8, 12)) for _ in range(10)]
    Y = [rng.permutation(8) for _ in X]
    machine = quietly(
        BipartiteMatchingCRF(alpha=0.01, tol=1e-12, max_iter=100, solver=StructuredSVM()), X, Y
    )
    assert machine.n_iter_ == 100
    assert machine.n_oracle_calls_ <= 1.4 * 10 * 100


def test_weak_regularisation_is_no_worse_than_none_at_all():
    """Iterates of a few passes oscillate; the returned weights are better than zero weights."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(8, 8, 12)) for _ in range(20)]
    truth = rng.normal(size=12)
    noisy = [x + 0.5 * rng.normal(size=x.shape) for x in X]
    Y = [linear_sum_assignment(x @ truth, maximize=True)[1] for x in noisy]
    crf = BipartiteMatchingCRF(alpha=1e-4, max_iter=12, random_state=0, solver=StructuredSVM())
    machine = quietly(crf, X, Y)
    assert not machine.converged_
    assert -machine.objective_ < 0.9 * len(X)
    assert machine.score(X, Y) > 2 / 8


def test_threads_change_nothing():
    data = samples_of("grid", 0)
    one = machine_of(data).fit(data.X, data.Y)
    two = machine_of(data, n_jobs=2).fit(data.X, data.Y)
    np.testing.assert_array_equal(one.coef_, two.coef_)
    assert one.objective_ == two.objective_


# ---------------------------------------------------------------------- data
def test_weights_stand_for_repeated_samples():
    data = samples_of("chain", 4)
    weights = np.array([2.0, 0.0, 1.0, 3.0])
    weighted = machine_of(data).fit(data.X, data.Y, sample_weight=weights)
    assert -weighted.objective_ == pytest.approx(enumerated_optimum(data, 0.3, weights), abs=2e-6)
    again = np.repeat(np.arange(4), weights.astype(int))
    repeated = machine_of(data).fit([data.X[m] for m in again], [data.Y[m] for m in again])
    assert -repeated.objective_ == pytest.approx(-weighted.objective_, abs=2e-6)


def test_unknown_pixels_are_left_out():
    data = samples_of("grid", 5)
    rng = np.random.default_rng(0)
    larger = [np.concatenate([x, rng.normal(size=(2, 1, 2))], axis=1) for x in data.X]
    labels = [np.concatenate([y, [[np.nan], [np.nan]]], axis=1) for y in data.Y]
    whole = machine_of(data).fit(data.X, data.Y)
    with pytest.warns(UserWarning, match="leaves 16 of 28 edges"):
        part = machine_of(data).fit(larger, labels)
    assert -part.objective_ == pytest.approx(-whole.objective_, abs=1e-6)
    assert part.predict(larger)[0].shape == (2, 3)


def test_offsets_and_single_nodes():
    data = samples_of("bipartite", 6)
    rng = np.random.default_rng(0)
    offsets = rng.normal(size=(4, 3, 3))
    labels = [np.where(np.arange(3) == m % 3, -1, y) for m, y in enumerate(data.Y)]
    inputs = [PairInput(x, offset=o) for x, o in zip(data.X, offsets, strict=True)]
    machine = machine_of(data, perfect=False).fit(inputs, labels)
    matchings = [
        np.where(kept, y, -1) for y in data.outputs for kept in np.ndindex(2, 2, 2) if any(kept)
    ] + [np.full(3, -1)]

    def value(x, offset, y, theta):
        return sum(x[i, j] @ theta + offset[i, j] for i, j in enumerate(y) if j >= 0)

    total = 0.15 * machine.coef_ @ machine.coef_
    for x, offset, y in zip(data.X, offsets, labels, strict=True):
        table = [np.mean(z != y) + value(x, offset, z, machine.coef_) for z in matchings]
        total += max(table) - value(x, offset, y, machine.coef_)
    assert machine.converged_
    assert -machine.objective_ == pytest.approx(total, abs=1e-9)


def test_filled_capacities():
    """Every node of four has two partners: the rings, of which there are three."""
    rng = np.random.default_rng(0)
    X = [x + x.swapaxes(0, 1) for x in rng.normal(size=(4, 4, 4, 2))]
    rings = [np.array(r) for r in ([[0, 1], [1, 2], [2, 3], [3, 0]],
                                   [[0, 1], [1, 3], [3, 2], [2, 0]],
                                   [[0, 2], [2, 1], [1, 3], [3, 0]])]  # fmt: skip
    Y = [rings[k] for k in rng.integers(3, size=4)]
    options = {"alpha": 0.3, "tol": 1e-7, "max_iter": 5000, "random_state": 0}
    X = [PairInput(x, capacity=2) for x in X]
    machine = MatchingCRF(**options, solver=StructuredSVM()).fit(X, Y)

    def pairs(ring):
        return {frozenset(pair) for pair in ring.tolist()}

    def value(x, ring):
        return sum(x.features[a, b] @ machine.coef_ for a, b in ring)

    total = 0.15 * machine.coef_ @ machine.coef_
    for x, y in zip(X, Y, strict=True):
        wrong = [1 - len(pairs(z) & pairs(y)) / 4 + value(x, z) for z in rings]
        total += max(wrong) - value(x, y)
    assert machine.converged_
    assert -machine.objective_ == pytest.approx(total, abs=1e-9)


# ---------------------------------------------------------------------- the loss
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(2, 4))
def test_hamming_loss_is_the_share_of_wrong_nodes(seed, n_nodes, n_states):
    rng = np.random.default_rng(seed)
    graph = PairwiseGraph(n_nodes, random_edges(rng, n_nodes))
    for space in (Pairwise(graph, n_states), Sequences(n_nodes, n_states)):
        observed, *others = rng.integers(n_states, size=(6, n_nodes))
        constant, scores = space.hamming_loss(space.encode(observed))
        for other in [observed, *others]:
            loss = constant + space.encode(other).dot(scores)
            assert loss == pytest.approx(np.mean(other != observed), abs=1e-12)


def test_hamming_loss_of_a_fraction_is_its_mean():
    """Half of one labelling and half of another has half the loss of either."""
    rng = np.random.default_rng(0)
    graph = PairwiseGraph(3, [(0, 1), (1, 2), (2, 0)])
    for space in (Pairwise(graph, 2), Pairwise(graph, 3)):
        observed, a, b = rng.integers(space.n_states, size=(3, 3))
        constant, scores = space.hamming_loss(space.encode(observed))
        middle = sum(space.encode(y).dense(space.n_coordinates) for y in (a, b)) / 2
        wrong = (np.mean(a != observed) + np.mean(b != observed)) / 2
        assert constant + middle @ scores == pytest.approx(wrong)


# ---------------------------------------------------------------------- as a solver
@EVERY
def test_paths_are_certified_at_every_alpha(name):
    data = samples_of(name)
    path = machine_of(data, tol=1e-4).fit_path(data.X, data.Y, [0.1, 3.0, 1.0])
    assert path.alphas == [3.0, 1.0, 0.1] == [m.alpha for m in path.estimators]
    optimum = enumerated_optimum if name in EXACT else relaxed_optimum
    for machine in path.estimators:
        best = optimum(data, machine.alpha)
        assert machine.converged_
        assert best - 1e-6 <= -machine.objective_ <= best + machine.duality_gap_ + 1e-6
        assert 0.0 <= machine.score(data.X, data.Y) <= 1.0


def test_stopping_early_keeps_the_best():
    data = samples_of("bipartite")
    seen = []

    def stop(progress):
        seen.append(progress.gap)
        return len(seen) == 3

    machine = quietly(machine_of(data, callback=stop, tol=1e-12), data.X, data.Y)
    assert len(seen) == 3
    assert machine.n_iter_ == 2
    assert seen == machine.history_.gap

    def interrupt(progress):
        if progress.iteration == 2:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="interrupted"):
        machine = machine_of(data, callback=interrupt, tol=1e-12).fit(data.X, data.Y)
    assert -machine.objective_ == pytest.approx(data.hinge(machine.coef_, 0.3))
    machine = quietly(machine_of(data, max_time=1e-9, tol=1e-12), data.X, data.Y)
    assert not machine.converged_
    assert machine.n_iter_ <= 1


@pytest.mark.parametrize("learner", [StructuredSVM(), StructuredPerceptron(rate=0.5)])
def test_files_and_clones_keep_the_solver(learner, tmp_path):
    data = samples_of("chain")
    model = quietly(data.estimator(solver=learner, tol=1e-2), data.X, data.Y)
    model.save(tmp_path / "model.mls")
    again = mlestruct.load(tmp_path / "model.mls")
    assert again.solver == clone(model).solver == learner
    np.testing.assert_array_equal(again.predict(data.X), model.predict(data.X))
    with pytest.raises(ValueError, match="l1_ratio"):
        data.estimator(solver=learner, l1_ratio=0.5).fit(data.X, data.Y)
