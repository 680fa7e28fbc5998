"""The marginal oracle on sparse problems, against enumeration and an independent convex solver.

MLESTRUCT_FUZZ sets the number of random problems (300 by default).
"""

import os

import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import null_space
from scipy.special import logsumexp, xlogy

from mlestruct.algorithms.matching import newton
from mlestruct.algorithms.matching._belief_propagation_kernels import powers, set_series
from mlestruct.algorithms.matching.belief_propagation import Oracle, split
from mlestruct.exceptions import InfeasibleError
from mlestruct.inference import marginals
from mlestruct.structures import BipartiteGraph, BipartiteMatching, LocalMatching, SimpleGraph

CASES = int(os.environ.get("MLESTRUCT_FUZZ", "300"))
SHAPES = ("forest", "cycle", "random", "isolated", "components", "forced", "complete")
RHOS = (0.5, 0.7, 0.95, 1.0, "nodes")
SCALES = (0.1, 1.0, 5.0, 30.0, 1e4)


def mask_of(kind, rng):
    """Allowed pairs of at most five rows and columns."""
    n, m = rng.integers(1, 6, 2)
    mask = np.zeros((n, m), dtype=bool)
    if kind == "forest":  # every further node is joined to one node of the other side
        mask[0, 0] = True
        for k in range(1, max(n, m)):
            if k < n:
                mask[k, rng.integers(min(k, m))] = True
            if k < m:
                mask[rng.integers(min(k + 1, n)), k] = True
    elif kind == "cycle":
        n = m = max(n, 2)
        mask = np.eye(n, dtype=bool) | np.roll(np.eye(n, dtype=bool), 1, axis=1)
    elif kind == "isolated":
        mask[: n // 2 + 1, : m // 2 + 1] = True
    elif kind == "components":
        mask = np.kron(np.eye(2, dtype=bool), rng.random((2, 2)) < 0.8)
    elif kind == "forced":
        n = m = max(n, 2)
        mask = np.tril(rng.random((n, n)) < 0.7) | np.eye(n, dtype=bool)
    elif kind == "complete":
        mask[:] = True
    else:
        mask = rng.random((n, m)) < 0.5
    return mask


class Enumerated:
    """A structure with all its matchings as 0/1 rows over its coordinates."""

    def __init__(self, structure):
        self.structure = structure
        graph = structure.graph
        n, m = graph.n_rows, graph.n_cols
        sums = np.zeros((n + m, structure.n_coordinates))
        edges = np.arange(graph.n_edges)
        sums[graph.row, edges] = sums[n + graph.col, edges] = 1.0
        free = np.flatnonzero(structure.single_at >= 0)
        sums[free, structure.single_at[free]] = 1.0
        self.sums = sums
        self.vertices = np.array(list(self._matchings(0, np.zeros(structure.n_coordinates))))

    def _matchings(self, edge, chosen):
        if edge == self.structure.n_scored:
            left = 1.0 - self.sums @ chosen
            single = self.structure.single_at
            if (left[single < 0] == 0).all():
                full = chosen.copy()
                full[single[single >= 0]] = left[single >= 0]
                yield full
            return
        yield from self._matchings(edge + 1, chosen)
        more = chosen.copy()
        more[edge] = 1.0
        if (self.sums @ more <= 1.0).all():
            yield from self._matchings(edge + 1, more)

    def entropy(self, tau):
        structure, graph = self.structure, self.structure.graph
        rho = np.concatenate([structure.rho_rows, structure.rho_cols])
        t = tau[: graph.n_edges]
        c = rho[graph.row] + rho[graph.n_rows + graph.col] - 1.0
        free = np.flatnonzero(structure.single_at >= 0)
        z = tau[structure.single_at[free]]
        return float(
            (c * xlogy(1 - t, 1 - t) - xlogy(t, t)).sum() - (rho[free] * xlogy(z, z)).sum()
        )

    def value(self, scores, tau):
        return float(scores @ tau) + self.entropy(np.clip(tau, 0.0, 1.0))

    def log_z(self, scores):
        return logsumexp(self.vertices @ scores)

    def best_point(self, scores):
        """The largest value found by Newton in the null space of the node sums: a lower bound."""
        structure = self.structure
        best = float((self.vertices @ scores).max())
        tau = 0.9 * self.vertices.mean(axis=0) + 0.1 * structure.interior()
        moving = np.flatnonzero((tau > 1e-12) & (tau < 1.0 - 1e-12))
        basis = null_space(self.sums[:, moving])
        if basis.shape[1] == 0 or np.abs(scores).max(initial=0.0) > 200.0:
            return best
        rho = np.concatenate([structure.rho_rows, structure.rho_cols])
        graph = structure.graph
        a, c = np.zeros(tau.size), np.zeros(tau.size)
        a[: graph.n_edges] = 1.0
        c[: graph.n_edges] = rho[graph.row] + rho[graph.n_rows + graph.col] - 1.0
        free = np.flatnonzero(structure.single_at >= 0)
        a[structure.single_at[free]] = rho[free]
        a, c, value = a[moving], c[moving], self.value(scores, tau)
        for _ in range(60):
            t = tau[moving]
            slope = scores[moving] - a * (np.log(t) + 1) - c * (np.log1p(-t) + 1)
            bend = -a / t + c / (1 - t)
            curve = -basis.T @ (bend[:, None] * basis) + 1e-12 * np.eye(basis.shape[1])
            step = basis @ np.linalg.lstsq(curve, basis.T @ slope, rcond=None)[0]
            eta = 1.0
            while eta > 1e-9:
                trial = tau.copy()
                trial[moving] = t + eta * step
                inside = trial[moving].min() > 0.0 and trial[moving].max() < 1.0
                if inside and self.value(scores, trial) > value:
                    break
                eta *= 0.5
            else:
                break
            tau, value = trial, self.value(scores, trial)
        assert np.abs(self.sums @ tau - 1.0).max() < 1e-9
        return max(best, value)


def make_case(seed):
    """A random problem, or None if it has no matching."""
    rng = np.random.default_rng(seed)
    kind = SHAPES[seed % len(SHAPES)]
    mask = mask_of(kind, rng)
    rho = RHOS[rng.integers(len(RHOS))]
    if rho == "nodes":
        rho = rng.uniform(0.5, 1.0, sum(mask.shape))
    perfect = bool(rng.integers(2))
    scale = SCALES[rng.integers(len(SCALES))]
    forbid = rng.random() < 0.3
    try:
        structure = BipartiteMatching(BipartiteGraph.from_mask(mask), rho, perfect)
    except InfeasibleError:
        return None
    scores = scale * rng.normal(size=structure.n_coordinates)
    if rng.random() < 0.2:
        scores = np.round(scores)  # ties
    if rng.random() < 0.3:
        scores[structure.n_scored :] = 0.0
    if forbid and structure.n_scored > 1:
        scores[rng.integers(structure.n_scored)] = -np.inf
    return kind, structure, scores


def check(seed):
    """One random problem; True if its gap is within the tolerance."""
    case = make_case(seed)
    if case is None:
        return True
    kind, structure, scores = case
    if np.isneginf(scores).any():
        keep = np.isfinite(scores[: structure.n_scored])
        try:
            smaller, places = structure.restricted(keep)
        except InfeasibleError:
            with pytest.raises(InfeasibleError):
                marginals(structure, scores)
            return True
        known, finite = Enumerated(smaller), scores[places]
    else:
        known, finite = Enumerated(structure), scores
        places = np.arange(structure.n_coordinates)
    found = marginals(structure, scores, tol=1e-6)
    tau = found.tau[places]
    slack = 1e-7 + 1e-10 * np.abs(finite).sum()
    assert np.isfinite(tau).all()
    assert tau.min(initial=0.0) >= 0.0
    assert np.abs(known.sums @ tau - 1.0).max(initial=0.0) < 1e-8
    assert np.delete(found.tau, places).sum() == 0.0
    assert found.log_partition <= known.value(finite, tau) + slack
    upper = found.log_partition + found.gap
    assert upper >= known.best_point(finite) - slack
    log_z = known.log_z(finite)
    rho = np.concatenate([structure.rho_rows, structure.rho_cols])
    if (rho == 1.0).all():
        assert found.log_partition <= log_z + slack
        if kind == "forest":
            assert upper >= log_z - slack
    if (rho == 0.5).all():
        assert upper >= log_z - slack
    return found.gap <= 1e-6 * max(structure.n_nodes, 1) + slack


@pytest.mark.parametrize("part", range(10))
def test_certificates_of_random_sparse_problems(part):
    seeds = range(part, CASES, 10)
    converged = sum(check(seed) for seed in seeds)
    assert converged >= 0.97 * len(seeds)


def sparse_structure(n, rho, perfect, seed=0):
    rng = np.random.default_rng(seed)
    mask = rng.random((n, n)) < 4.0 / n
    mask |= np.eye(n, dtype=bool)
    return BipartiteMatching(BipartiteGraph.from_mask(mask), rho, perfect), rng


@pytest.mark.parametrize("rho", [0.5, 0.8, 1.0])
@pytest.mark.parametrize("perfect", [False, True])
def test_belief_propagation_agrees_with_newton(rho, perfect):
    structure, rng = sparse_structure(60, rho, perfect)
    core = structure._presolved
    scores = 2.0 * rng.normal(size=structure.n_coordinates)
    w, w_cols = core.entries(scores), core.columns(scores)
    found = Oracle(core.rows).each(
        w[None], w_cols[None], structure._start, [None], np.array([1e-8])
    )[0]
    other = newton.solve(core.rows, w, w_cols, structure._start, None, 1e-8)
    assert found.upper_bound - found.value <= 1e-8
    assert abs(found.value - other.value) <= 2e-8
    np.testing.assert_allclose(found.t, other.t, atol=2e-4)


@pytest.mark.parametrize("rho", [0.5, 0.95, 1.0])
def test_warm_starts_save_sweeps(rho):
    structure, rng = sparse_structure(300, rho, False)
    scores = 2.0 * rng.normal(size=structure.n_coordinates)
    first = structure.marginals(scores, None, 1e-6)
    near = scores + 0.001 * rng.normal(size=scores.size)
    cold, warm = structure.marginals(near, None, 1e-6), structure.marginals(near, first.warm, 1e-6)
    assert warm.iterations < cold.iterations
    assert max(warm.gap, cold.gap) <= 1e-6
    assert abs(warm.value - cold.value) <= 2e-6


def test_a_problem_and_its_parts_agree():
    structure, rng = sparse_structure(40, 0.9, False)
    n = structure.graph.n_rows
    mask = np.zeros((n, n), dtype=bool)
    mask[structure.graph.row, structure.graph.col] = True
    many = BipartiteMatching(
        BipartiteGraph.from_mask(np.kron(np.eye(30, dtype=bool), mask)), 0.9, False
    )
    scores = rng.normal(size=structure.n_coordinates)
    edges, single = scores[: structure.n_scored], scores[structure.n_scored :]
    repeated = np.concatenate(
        [np.tile(edges, 30), np.tile(single[:n], 30), np.tile(single[n:], 30)]
    )
    assert len(many._presolved.oracle.parts) > 1
    one, all_of_them = structure.marginals(scores, None, 1e-8), many.marginals(repeated, None, 1e-6)
    assert all_of_them.gap <= 1e-6
    assert all_of_them.value == pytest.approx(30.0 * one.value, abs=2e-6)
    tau = all_of_them.tau[: many.n_scored].reshape(30, -1)
    np.testing.assert_allclose(
        tau, np.broadcast_to(one.tau[: structure.n_scored], tau.shape), atol=1e-3
    )


@pytest.mark.parametrize("smallest", [1, 3, 100])
def test_parts_cover_the_problem_once(smallest):
    rng = np.random.default_rng(5)
    mask = np.kron(np.eye(12, dtype=bool), rng.random((3, 2)) < 0.6)
    rows = BipartiteMatching(BipartiteGraph.from_mask(mask), 0.9, False)._presolved.rows
    parts = split(rows, smallest)
    np.testing.assert_array_equal(
        np.sort(np.concatenate([part.entries for part in parts])), np.arange(rows.col.size)
    )
    np.testing.assert_array_equal(
        np.sort(np.concatenate([part.cols for part in parts])), np.arange(rows.rho_cols.size)
    )
    row = np.repeat(np.arange(rows.ptr.size - 1), np.diff(rows.ptr))
    for part in parts:
        own = np.repeat(np.arange(part.rows.ptr.size - 1), np.diff(part.rows.ptr))
        assert len({(a, b) for a, b in zip(own, row[part.entries], strict=True)}) == len(set(own))
        real = part.rows.col < part.cols.size
        np.testing.assert_array_equal(part.cols[part.rows.col[real]], rows.col[part.entries][real])


def test_a_sparse_group_is_the_bipartite_problem_of_its_double_cover():
    """On a bipartite graph, matchings of the group are matchings between its two sides."""
    structure, rng = sparse_structure(30, 0.9, False)
    graph, n = structure.graph, structure.graph.n_rows
    group_graph, edge = SimpleGraph.from_edges(2 * n, np.stack([graph.row, n + graph.col], axis=1))
    group = LocalMatching(group_graph, 0.9, False)
    scores = rng.normal(size=structure.n_scored)
    pairs = np.zeros(structure.n_coordinates)
    pairs[: scores.size] = scores
    of_group = np.zeros(group.n_coordinates)
    of_group[edge] = scores
    one, two = structure.marginals(pairs, None, 1e-8), group.marginals(of_group, None, 1e-8)
    assert one.value == pytest.approx(two.value, abs=1e-7)
    np.testing.assert_allclose(two.tau[edge], one.tau[: scores.size], atol=1e-4)


def test_threads_change_nothing():
    rng = np.random.default_rng(7)
    mask = np.kron(np.eye(40, dtype=bool), rng.random((20, 20)) < 0.3)
    structure = BipartiteMatching(BipartiteGraph.from_mask(mask), 0.9, False)
    scores = rng.normal(size=structure.n_coordinates)
    one = structure.marginals(scores, None, 1e-6)
    structure.n_jobs = 3
    assert len(structure._presolved.oracle.parts) > 1
    several = structure.marginals(scores, one.warm, 1e-6)
    structure.n_jobs = 1
    np.testing.assert_array_equal(several.tau, structure.marginals(scores, one.warm, 1e-6).tau)


def test_rows_of_a_large_component_are_shared_out_without_a_trace():
    rng = np.random.default_rng(8)
    n = 15_000
    row, col = np.repeat(np.arange(n), 7), rng.integers(n, size=7 * n)
    mask = sparse.coo_array((np.ones(row.size, dtype=bool), (row, col)), shape=(n, n))
    structure = BipartiteMatching(BipartiteGraph.from_mask(mask.tocsr()), 0.9, False)
    sizes = [part.entries.size for part in structure._presolved.oracle.parts]
    assert max(sizes) > 100_000  # certified by chunks of rows
    scores = rng.normal(size=structure.n_coordinates)
    one = structure.marginals(scores, None, 1e-2)
    structure.n_jobs = 3
    several = structure.marginals(scores, None, 1e-2)
    assert one.gap <= 1e-2
    assert (one.value, one.upper_bound) == (several.value, several.upper_bound)
    np.testing.assert_array_equal(one.tau, several.tau)
    # An upper bound at any prices, computed whole.
    solution, core = one.warm, structure._presolved
    bound = newton.price_bound(
        core.rows, core.entries(scores), core.columns(scores), solution.prices, solution.t
    )
    assert one.upper_bound == pytest.approx(bound, abs=2e-3)


@pytest.mark.parametrize("perfect", [True, False])
def test_samples_together_have_the_answers_of_each(perfect):
    rng = np.random.default_rng(0)
    space = BipartiteMatching((5, 7), 0.9, perfect)
    scores = rng.normal(size=(6, space.n_coordinates)) * np.array([1, 3, 10, 40, 300, 1])[:, None]
    tols = np.array([1e-3, 1e-9, 1e-6, 1e-6, 1e-6, 1e-2])
    warm = [None, *(space.marginals(one, None, 1e-4).warm for one in scores[1:])]
    together = space.marginals_each(scores, warm, tols)
    for one, known, tol, found in zip(scores, warm, tols, together, strict=True):
        alone = space.marginals(one, known, tol)
        np.testing.assert_array_equal(found.tau, alone.tau)
        assert (found.value, found.upper_bound) == (alone.value, alone.upper_bound)
        assert found.iterations == alone.iterations
        assert found.gap <= tol


@pytest.mark.parametrize("p", [0.0, 0.05, 0.2, 0.5])
def test_powers_of_sums_without_a_term(p):
    share = np.concatenate([[0.0], np.geomspace(1e-30, 0.9, 60)])
    total = np.random.default_rng(0).uniform(0.5, 2.0, size=61)
    without, series, out = total * (1.0 - share), np.zeros(13), np.full(61, -1.0)
    set_series(p, series)
    powers(share, total**p, without, p, series, out, np.uint64(0), np.uint64(61))
    np.testing.assert_allclose(out, without**p, rtol=1e-12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("method", ["auto", "fw"])
@pytest.mark.parametrize("shift", [0.0, 1e3, -1e3, 1e6, -1e6])
def test_certificates_hold_at_any_level_of_the_scores(method, shift):
    options = {"max_iter": 200} if method == "fw" else {}
    rng = np.random.default_rng(0)
    for _ in range(15):
        n = int(rng.integers(3, 6))
        table = 10.0 * rng.normal(size=(n, n))
        table[(rng.random((n, n)) < 0.3) & ~np.eye(n, dtype=bool)] = -np.inf
        space = BipartiteMatching((n, n), float(rng.choice([0.5, 0.9, 1.0])))
        low = marginals(space, table, tol=1e-9)
        found = marginals(space, table + shift, method, **options)
        rounding = 1e-13 * n * n * (1.0 + abs(shift))
        level = found.log_partition - n * shift
        if np.isfinite(found.gap):
            assert level <= low.log_partition + low.gap + rounding
            assert level + found.gap >= low.log_partition - rounding
