"""b-matchings over the local polytope against linear programs and other libraries' flows."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from random_scores import generators
from scipy.optimize import LinearConstraint, linprog, milp

from mlestruct.algorithms.matching.b_matching import best_b_matching
from mlestruct.exceptions import InfeasibleError

examples = settings(deadline=None, max_examples=100)
kinds = st.sampled_from(["normal", "integers", "equal", "sums", "scales", "far from 0"])


def draw_graph(rng, n, share, bipartite):
    """Row and column of the strict upper triangle; half the bipartite ones have rows first."""
    row, col = np.triu_indices(n, 1)
    keep = rng.random(row.size) < share
    if bipartite:
        side = rng.integers(0, 2, n)
        if rng.random() < 0.5:
            side = np.sort(side)
        keep &= side[row] != side[col]
    return row[keep], col[keep]


def pointers(n, row):
    return np.r_[0, np.cumsum(np.bincount(row, minlength=n))]


def draw_scores(rng, n, row, col, kind):
    m = row.size
    if kind == "normal":
        return rng.normal(size=m)
    if kind == "integers":
        return rng.integers(-2, 3, m).astype(float)
    if kind == "equal":
        return np.full(m, rng.choice([-0.1, 0.0, 0.1]))
    if kind == "sums":
        u = rng.integers(-3, 4, n)
        return (u[row] + u[col] + rng.integers(0, 2, m)).astype(float)
    if kind == "scales":
        return rng.normal(size=m) * 10.0 ** rng.integers(-6, 3, m)
    return 1e4 + rng.normal(size=m)


def draw(rng, n, share, bipartite, kind):
    row, col = draw_graph(rng, n, share, bipartite)
    scores = draw_scores(rng, n, row, col, kind)
    capacity = rng.integers(0, 5, n)
    exact = rng.random(n) < rng.choice([0.0, 0.3, 1.0])
    single = rng.integers(-1, 2, n) * 1.0 if kind == "integers" else rng.normal(size=n)
    return row, col, scores, capacity, exact, single


def solve(n, row, col, scores, capacity, exact, single, integral=False):
    arguments = np.asarray(capacity, float), exact, np.asarray(single, float)
    return best_b_matching(n, pointers(n, row), col, scores, *arguments, integral=integral)


def linear_program(n, row, col, scores, capacity, exact, single):
    """The optimum by HiGHS, None if there is none."""
    m = row.size
    ends = sp.csr_matrix((np.ones(2 * m), (np.r_[row, col], np.r_[:m, :m])), shape=(n, m))
    result = linprog(
        -np.r_[scores, np.where(exact, 0, single)],
        A_eq=sp.hstack([ends, sp.eye(n)]).tocsr(),
        b_eq=capacity,
        bounds=[(0, 1)] * m + [(0, 0 if fixed else None) for fixed in exact],
    )
    assert result.status in (0, 2)
    return None if result.status == 2 else -result.fun


def check_witness(error, n, row, col, capacity, exact):
    """Its nodes need more than their neighbours can give."""
    nodes = error.rows
    assert error.side == "nodes"
    assert len(set(nodes)) == len(nodes)
    assert exact[nodes].all()
    adjacent = np.zeros((n, n), int)
    adjacent[row, col] = adjacent[col, row] = 1
    supply = np.minimum(capacity, adjacent[nodes].sum(axis=0)).sum()
    assert capacity[nodes].sum() > supply
    assert f"need {capacity[nodes].sum()} units" in str(error)
    assert f"supply {supply} at most" in str(error)


def check(best, n, row, col, scores, capacity, exact, single):
    """Feasible, a vertex, and optimal by the prices."""
    nx = pytest.importorskip("networkx")
    scale = max(np.abs(scores).max(initial=1.0), np.abs(single).max())
    tiny = 1e-9 * scale
    x = np.zeros(row.size)
    x[best.edges] = best.values
    assert (np.diff(best.edges) > 0).all()
    assert set(best.values) <= {0.5, 1.0}
    load = np.bincount(np.r_[row, col], np.r_[x, x], n)
    assert (load + best.slack == capacity).all()
    assert (best.slack >= 0).all()
    assert (best.slack[exact] == 0).all()
    halves = x == 0.5
    degree = np.bincount(np.r_[row[halves], col[halves]], minlength=n)
    assert set(degree) <= {0, 2}  # cycles without a common node
    assert (best.slack[degree > 0] == 0).all()
    for cycle in nx.connected_components(nx.Graph(zip(row[halves], col[halves], strict=True))):
        assert len(cycle) % 2 == 1

    y = best.prices
    reduced = scores - y[row] - y[col]
    assert (reduced[x == 0] <= tiny).all()
    assert (reduced[x == 1] >= -tiny).all()
    assert (np.abs(reduced[halves]) <= tiny).all()
    assert (y[~exact] >= single[~exact]).all()
    assert (y[best.slack > 0] == single[best.slack > 0]).all()
    assert best.score == pytest.approx(scores @ x + np.where(exact, 0, single) @ best.slack)
    dual = capacity @ y + np.maximum(reduced, 0).sum()
    assert best.score == pytest.approx(dual, abs=tiny * (1 + row.size))


@examples
@given(
    generators, st.integers(1, 12), st.sampled_from([0.2, 0.5, 1.0]), st.booleans(), kinds
)  # fmt: skip
def test_equals_the_linear_program(rng, n, share, bipartite, kind):
    problem = draw(rng, n, share, bipartite, kind)
    row, col, scores, capacity, exact, _ = problem
    expected = linear_program(n, *problem)
    try:
        best = solve(n, *problem)
    except InfeasibleError as error:
        assert expected is None
        check_witness(error, n, row, col, capacity, exact)
        return
    assert expected is not None
    scale = max(1.0, np.abs(scores).max(initial=0.0))
    assert best.score == pytest.approx(expected, rel=1e-7, abs=1e-6 * scale)
    check(best, n, *problem)
    if bipartite:
        assert (best.values == 1).all()


@settings(deadline=None, max_examples=60)
@given(generators, st.integers(3, 10), st.sampled_from([0.5, 1.0]), kinds)
def test_integral_ones_equal_the_integer_program(rng, n, share, kind):
    problem = draw(rng, n, share, False, kind)
    row, col, scores, capacity, exact, single = problem
    m = row.size
    worth = np.r_[scores, np.where(exact, 0, single)]
    ends = sp.csr_array((np.ones(2 * m), (np.r_[row, col], np.r_[:m, :m])), shape=(n, m))
    upper = np.r_[np.ones(m), np.where(exact, 0, np.inf)]
    expected = milp(
        -worth,
        constraints=LinearConstraint(sp.hstack([ends, sp.eye_array(n)]), capacity, capacity),
        integrality=np.ones(m + n),
        bounds=(0, upper),
        options={"mip_rel_gap": 0.0},
    )
    try:
        best = solve(n, *problem, integral=True)
    except InfeasibleError:
        assert expected.status == 2
        return
    assert (best.values == 1).all()
    load = np.bincount(np.r_[row[best.edges], col[best.edges]], minlength=n)
    assert (load + best.slack == capacity).all()
    assert (best.slack >= 0).all()
    assert (best.slack[exact] == 0).all()
    scale = max(1.0, np.abs(scores).max(initial=0.0))
    assert best.score == pytest.approx(-expected.fun, rel=1e-7, abs=1e-6 * scale)


@settings(deadline=None, max_examples=15)
@given(generators, st.integers(40, 120), st.sampled_from([0.1, 1.0]), st.booleans(), kinds)
def test_larger_graphs(rng, n, share, bipartite, kind):
    problem = draw(rng, n, share, bipartite, kind)
    row, col, scores, capacity, exact, single = problem
    exact = exact & (capacity < 3) & (rng.random(n) < 0.5)
    try:
        best = solve(n, row, col, scores, capacity, exact, single)
    except InfeasibleError as error:
        check_witness(error, n, row, col, capacity, exact)
        return
    check(best, n, row, col, scores, capacity, exact, single)


def complete_bipartite(r, c):
    return np.repeat(np.arange(r), c), np.tile(np.arange(r, r + c), r)


@settings(deadline=None, max_examples=40)
@given(generators, st.integers(1, 7), st.integers(1, 7))
def test_equals_networkx(rng, r, c):
    """Rows send to columns, both up to their capacity, as many units as possible."""
    nx = pytest.importorskip("networkx")
    row, col = complete_bipartite(r, c)
    n = r + c
    capacity = rng.integers(0, 4, n)
    scores = rng.integers(-5, 6, row.size)
    network = nx.DiGraph()
    network.add_nodes_from(["s", "t"])
    for i in range(r):
        network.add_edge("s", i, capacity=int(capacity[i]), weight=0)
    for j in range(r, n):
        network.add_edge(j, "t", capacity=int(capacity[j]), weight=0)
    for i, j, s in zip(row.tolist(), col.tolist(), scores.tolist(), strict=True):
        network.add_edge(i, j, capacity=1, weight=-s)
    flow = nx.max_flow_min_cost(network, "s", "t")
    worth = 100.0  # of every unit, so that as many as possible are sent
    best = solve(n, row, col, scores + worth, capacity, np.zeros(n, bool), np.zeros(n))
    expected = -nx.cost_of_flow(network, flow)
    assert best.edges.size == sum(flow["s"].values())
    assert best.score - worth * best.edges.size == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["normal", "integers", "sums"])
def test_equals_or_tools(kind):
    min_cost_flow = pytest.importorskip("ortools.graph.python.min_cost_flow", exc_type=ImportError)
    rng = np.random.default_rng(3)
    r = 60
    row, col = complete_bipartite(r, r)
    scores = np.rint(1000 * draw_scores(rng, 2 * r, row, col, kind))
    capacity = rng.integers(0, 6, 2 * r)
    capacity[0] += max(capacity[r:].sum() - capacity[:r].sum(), 0)
    capacity[r] += max(capacity[:r].sum() - capacity[r:].sum(), 0)
    solver = min_cost_flow.SimpleMinCostFlow()
    solver.add_arcs_with_capacity_and_unit_cost(
        row.astype(np.int32),
        col.astype(np.int32),
        np.ones(row.size, np.int64),
        -scores.astype(np.int64),
    )
    supply = np.where(np.arange(2 * r) < r, capacity, -capacity)
    solver.set_nodes_supplies(np.arange(2 * r, dtype=np.int32), supply)
    exact = np.ones(2 * r, bool)
    if solver.solve() != solver.OPTIMAL:
        with pytest.raises(InfeasibleError):
            solve(2 * r, row, col, scores, capacity, exact, np.zeros(2 * r))
        return
    best = solve(2 * r, row, col, scores, capacity, exact, np.zeros(2 * r))
    assert best.score == -solver.optimal_cost()
    check(best, 2 * r, row, col, scores, capacity, exact, np.zeros(2 * r))


@settings(deadline=None, max_examples=100)
@given(generators, st.integers(3, 14))
def test_halves_are_rounded_to_a_vertex(rng, n):
    """Equal scores have many solutions with halves; only odd cycles without slack keep them."""
    row, col = draw_graph(rng, n, 0.5, False)
    capacity = rng.integers(0, 3, n)
    exact = np.zeros(n, bool)
    best = solve(n, row, col, np.ones(row.size), capacity, exact, np.zeros(n))
    check(best, n, row, col, np.ones(row.size), capacity, exact, np.zeros(n))


def test_an_even_cycle_is_integral_and_an_odd_one_is_not():
    for n in (4, 5, 6, 7):
        row, col = np.r_[0, : n - 1], np.r_[n - 1, 1:n]
        order = np.lexsort((col, row))
        every = np.ones(n), np.ones(n), np.ones(n, bool), np.zeros(n)
        best = solve(n, row[order], col[order], *every)
        assert best.score == n / 2
        assert set(best.values) == ({1.0} if n % 2 == 0 else {0.5})


def test_unequal_sides_and_idle_nodes():
    """A hub of large capacity, nodes of capacity 0, more capacity than edges."""
    row, col = np.zeros(4, int), np.arange(1, 5)
    capacity = np.array([10**12, 1, 0, 3, 1])
    scores = np.array([1.0, 5.0, 2.0, -1.0])
    best = solve(5, row, col, scores, capacity, np.zeros(5, bool), np.zeros(5))
    assert best.edges.tolist() == [0, 2]
    assert best.slack.tolist() == [10**12 - 2, 0, 0, 2, 1]
    assert best.prices[2] >= 5.0
    empty = np.zeros(0, int), np.zeros(0, int), np.zeros(0)
    nothing = solve(2, *empty, [1, 0], np.array([False, True]), [2.0, -1.0])
    assert nothing.score == 2.0


def test_infeasible_graphs_name_the_nodes():
    empty = np.zeros(0, int), np.zeros(0, int), np.zeros(0)
    star = np.zeros(3, int), np.arange(1, 4)
    with pytest.raises(InfeasibleError, match="need 3 units together") as caught:
        solve(4, *star, np.ones(3), [2, 1, 1, 1], np.ones(4, bool), np.zeros(4))
    check_witness(caught.value, 4, *star, np.array([2, 1, 1, 1]), np.ones(4, bool))
    assert caught.value.rows == [1, 2, 3]
    pair = np.array([0]), np.array([1]), np.array([1.0])
    with pytest.raises(InfeasibleError) as caught:  # more than its degree
        solve(2, *pair, [2, 2], np.array([True, False]), np.zeros(2))
    assert caught.value.rows == [0]
    with pytest.raises(InfeasibleError) as caught:
        solve(2, *empty, [1, 1], np.array([True, False]), np.zeros(2))
    assert caught.value.rows == [0]
    row, col = complete_bipartite(200, 200)
    capacity = np.where(np.arange(400) < 100, 5, 2)
    exact = np.arange(400) < 100
    with pytest.raises(InfeasibleError) as caught:
        solve(400, row, col, np.ones(row.size), capacity, exact, np.zeros(400))
    check_witness(caught.value, 400, row, col, capacity, exact)


def test_single_scores_of_exact_nodes_are_ignored():
    triangle = np.array([0, 0, 1]), np.array([1, 2, 2]), np.array([1.0, 2.0, 3.0])
    exact = np.array([False, False, True])
    scores = [solve(3, *triangle, np.ones(3), exact, [0.0, 0.0, s]).score for s in (0.0, np.nan)]
    assert scores[0] == scores[1]
