"""Roof duality by max-flow against enumeration, linear programs and other libraries."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from binary_problems import draw_problem, kinds
from hypothesis import example, given, settings
from hypothesis import strategies as st
from labellings import grid_edges, random_edges
from random_scores import generators
from scipy.optimize import linprog

from mlestruct.algorithms.pairwise import qpbo
from mlestruct.algorithms.pairwise.qpbo import QPBO

examples = settings(deadline=None, max_examples=150)


def best_pairs(tail, head, coupling, x):
    return np.where(
        coupling < 0, np.maximum(0, x[tail] + x[head] - 1), np.minimum(x[tail], x[head])
    )


def check_solution(tail, head, unary, coupling, x, xi, value):
    """Half-integral, feasible, worth what it says, and integral without repulsion."""
    assert x.dtype == xi.dtype == np.float64
    assert np.isin(x, [0, 0.5, 1]).all()
    assert np.isin(xi, [0, 0.5, 1]).all()
    assert (xi <= np.minimum(x[tail], x[head])).all()
    assert (xi >= x[tail] + x[head] - 1).all()
    scale = np.abs(unary).sum() + np.abs(coupling).sum()
    assert value == pytest.approx(unary @ x + coupling @ xi, abs=1e-14 * scale)
    if (coupling >= 0).all():
        assert (x != 0.5).all()


def lp_optimum(n, tail, head, unary, coupling):
    m = tail.size
    rows = np.zeros((3 * m, n + m))
    e = np.arange(m)
    rows[e, n + e] = rows[m + e, n + e] = 1
    rows[e, tail] = rows[m + e, head] = rows[2 * m + e, n + e] = -1
    rows[2 * m + e, tail] = rows[2 * m + e, head] = 1
    right = np.concatenate([np.zeros(2 * m), np.ones(m)])
    return -linprog(-np.concatenate([unary, coupling]), rows, right, bounds=(0, 1)).fun


@examples
@given(st.integers(1, 12), st.sampled_from([0.0, 0.2, 0.5, 1.0]), generators, kinds)
def test_value_is_that_of_the_linear_program(n, share, rng, kind):
    tail, head = random_edges(rng, n, share).T
    unary, coupling = draw_problem(rng, n, tail, head, kind)
    x, xi, value = QPBO(n, tail, head).solve(unary, coupling)
    check_solution(tail, head, unary, coupling, x, xi, value)
    scale = max(np.abs(unary).max(), np.abs(coupling).max(initial=0)) or 1.0
    optimum = lp_optimum(n, tail, head, unary / scale, coupling / scale)
    assert value / scale >= optimum - 1e-9  # a feasible point cannot be above it


@examples
@given(st.integers(1, 6), st.sampled_from([0.5, 1.0]), generators, kinds)
@example(1, 0.0, np.random.default_rng(0), "zero")
def test_value_is_the_best_of_all_half_integral_points(n, share, rng, kind):
    """Evaluated in exact arithmetic: the error is rounding of the largest score, nothing else."""
    tail, head = random_edges(rng, n, share).T
    unary, coupling = draw_problem(rng, n, tail, head, kind)

    def exact(x):
        xi = best_pairs(tail, head, coupling, x)
        terms = [*zip(unary, x, strict=True), *zip(coupling, xi, strict=True)]
        return sum(Fraction(a) * Fraction(b) for a, b in terms)

    x, _, _ = QPBO(n, tail, head).solve(unary, coupling)
    points = np.array(list(product([0, 0.5, 1], repeat=n)))
    pairs = np.array([best_pairs(tail, head, coupling, p) for p in points])
    best = points[np.argmax(points @ unary + pairs @ coupling)]
    scale = Fraction(max(np.abs(unary).max(), np.abs(coupling).max(initial=0)))
    assert exact(x) >= exact(best) - scale * n * Fraction(1, 2**48)
    if kind in ("integers", "balanced", "zero"):
        assert exact(x) >= exact(best)


@examples
@given(st.integers(2, 8), st.sampled_from([0.3, 0.6, 1.0]), generators, kinds)
def test_decided_nodes_have_that_label_in_every_best_labelling(n, share, rng, kind):
    tail, head = random_edges(rng, n, share).T
    unary, coupling = draw_problem(rng, n, tail, head, kind)
    x, _, _ = QPBO(n, tail, head).solve(unary, coupling)
    labellings = np.array(list(product([0, 1], repeat=n)))
    scores = labellings @ unary + (labellings[:, tail] * labellings[:, head]) @ coupling
    scale = np.abs(unary).sum() + np.abs(coupling).sum()
    if kind in ("integers", "balanced", "zero") and (coupling < 0).any():
        best = labellings[scores == scores.max()]
        assert (best == x)[:, x != 0.5].all()
    else:  # ties are broken without repulsion and blurred by rounding
        agree = (labellings == x)[:, x != 0.5].all(axis=1)
        assert scores[agree].max() >= scores.max() - 1e-14 * scale


@examples
@given(st.integers(2, 10), generators, kinds)
def test_running_out_of_patience_still_ends_near_the_optimum(n, rng, kind):
    tail, head = random_edges(rng, n, 0.7).T
    unary, coupling = draw_problem(rng, n, tail, head, kind)
    solver = QPBO(n, tail, head)
    _, _, value = solver.solve(unary, coupling)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(qpbo, "PATIENCE", 0)
        x, xi, hasty = solver.solve(unary, coupling)
    check_solution(tail, head, unary, coupling, x, xi, hasty)
    scale = np.abs(unary).sum() + np.abs(coupling).sum()
    assert hasty == pytest.approx(value, abs=1e-8 * scale)


@examples
@given(st.integers(1, 12), st.sampled_from([0.2, 0.5, 1.0]), generators, kinds)
def test_integral_labels_keep_what_is_decided_and_beat_constant_rounding(n, share, rng, kind):
    tail, head = random_edges(rng, n, share).T
    unary, coupling = draw_problem(rng, n, tail, head, kind)
    solver = QPBO(n, tail, head)
    x, _, value = solver.solve(unary, coupling)
    labels = solver.integral(x, unary, coupling)
    assert labels.dtype == np.int64
    assert np.isin(labels, [0, 1]).all()
    assert (labels == x)[x != 0.5].all()

    def score(y):
        return unary @ y + coupling @ (y[tail] * y[head])

    slack = 1e-13 * (np.abs(unary).sum() + np.abs(coupling).sum())
    assert score(labels) >= max(score(np.floor(x)), score(np.ceil(x))) - slack
    assert score(labels) <= value + slack
    np.testing.assert_array_equal(labels, solver.integral(x, unary, coupling))


def grid_problem(side, strength, attractive, seed=0):
    n, (tail, head) = side * side, grid_edges(side, side).T
    rng = np.random.default_rng(seed)
    unary, coupling = rng.normal(size=n), strength * rng.normal(size=tail.size)
    if attractive:
        coupling = np.abs(coupling)
    np.subtract.at(unary, tail, coupling / 2)
    np.subtract.at(unary, head, coupling / 2)
    return n, tail, head, unary, coupling


large = pytest.mark.parametrize(
    ("strength", "attractive"),
    [(0.1, False), (0.5, False), (1, False), (2, False), (8, False)]
    + [(0.1, True), (0.5, True), (3, True), (10, True)],
)


@large
def test_large_grids_agree_with_thinqpbo(strength, attractive):
    thinqpbo = pytest.importorskip("thinqpbo")
    n, tail, head, unary, coupling = grid_problem(100, strength, attractive)
    x, xi, value = QPBO(n, tail, head).solve(unary, coupling)
    check_solution(tail, head, unary, coupling, x, xi, value)
    other = thinqpbo.QPBODouble(n, tail.size)
    other.add_node(n)
    for i, a in enumerate(unary.tolist()):
        other.add_unary_term(i, 0.0, -a)
    for i, j, c in zip(tail.tolist(), head.tolist(), coupling.tolist(), strict=True):
        other.add_pairwise_term(i, j, 0.0, 0.0, 0.0, -c)
    other.solve()
    bound = -other.compute_twice_lower_bound() / 2
    assert value == pytest.approx(bound, rel=1e-9, abs=1e-13 * np.abs(unary).sum())
    labels = np.array([other.get_label(i) for i in range(n)], float)
    np.testing.assert_array_equal(x, np.where(labels < 0, 0.5, labels))


@large
def test_large_grids_agree_with_pymaxflow(strength, attractive):
    maxflow = pytest.importorskip("maxflow")
    n, tail, head, unary, coupling = grid_problem(100, strength, attractive, seed=1)
    _, _, value = QPBO(n, tail, head).solve(unary, coupling)
    linear, pull = -unary, coupling > 0  # the doubled graph of the energy -score, node n + i: not i
    np.subtract.at(linear, head[pull], coupling[pull])
    up, down = np.maximum(linear, 0) / 2, np.maximum(-linear, 0) / 2
    graph = maxflow.GraphFloat()
    nodes = graph.add_nodes(2 * n)
    graph.add_grid_tedges(nodes, np.concatenate([up, down]), np.concatenate([down, up]))
    i, j, k, h = tail[pull], head[pull], tail[~pull], head[~pull]
    starts, ends = np.concatenate([i, n + j, n + k, n + h]), np.concatenate([j, n + i, h, k])
    capacity = np.concatenate([np.tile(coupling[pull], 2), np.tile(-coupling[~pull], 2)]) / 2
    graph.add_edges(starts, ends, capacity, np.zeros(capacity.size))
    energy = graph.maxflow() + np.minimum(linear, 0).sum()
    assert value == pytest.approx(-energy, rel=1e-9, abs=1e-13 * np.abs(linear).sum())


def test_attractive_problems_agree_with_networkx_minimum_cut():
    nx = pytest.importorskip("networkx")
    n, tail, head, unary, coupling = grid_problem(15, 2.0, True)
    _, _, value = QPBO(n, tail, head).solve(unary, coupling)
    linear = -unary
    np.subtract.at(linear, head, coupling)
    graph = nx.DiGraph()
    for i, a in enumerate(linear):
        graph.add_edge(*(("s", i) if a > 0 else (i, "t")), capacity=abs(a))
    for i, j, c in zip(tail, head, coupling, strict=True):
        graph.add_edge(i, j, capacity=c)
    energy = nx.minimum_cut_value(graph, "s", "t") + np.minimum(linear, 0).sum()
    assert value == pytest.approx(-energy, rel=1e-9)


def test_random_sparse_and_complete_graphs_agree_with_thinqpbo():
    thinqpbo = pytest.importorskip("thinqpbo")
    rng = np.random.default_rng(0)
    for n, share in ((300, 0.02), (60, 1.0)):
        for kind in ("normal", "weak", "balanced", "attractive", "scales"):
            tail, head = random_edges(rng, n, share).T
            unary, coupling = draw_problem(rng, n, tail, head, kind)
            _, _, value = QPBO(n, tail, head).solve(unary, coupling)
            other = thinqpbo.QPBODouble(n, tail.size)
            other.add_node(n)
            for i in range(n):
                other.add_unary_term(i, 0.0, -unary[i])
            for e in range(tail.size):
                other.add_pairwise_term(int(tail[e]), int(head[e]), 0.0, 0.0, 0.0, -coupling[e])
            other.solve()
            scale = np.abs(unary).max() + np.abs(coupling).max()
            assert value == pytest.approx(
                -other.compute_twice_lower_bound() / 2, rel=1e-9, abs=1e-12 * scale
            )


def test_long_chain_moves_excess_from_end_to_end():
    n = 5000
    solver = QPBO(n, np.arange(n - 1), np.arange(1, n))
    unary = np.full(n, -10.0)
    unary[[0, -1]] = [2.0, -7.0]
    x, _, value = solver.solve(unary, np.full(n - 1, 10.0))
    assert value == pytest.approx(2 - 7 + 10)  # all ones; any shorter run of ones: 2
    assert (x == 1).all()
    unary[-1] = -13.0
    x, _, value = solver.solve(unary, np.full(n - 1, 9.999))
    assert value == pytest.approx(2)  # the first node alone
    assert x.sum() == 1


def test_several_threads_may_share_a_solver():
    n, tail, head, _, _ = grid_problem(30, 1.0, False)
    solver = QPBO(n, tail, head)
    problems = [grid_problem(30, 2.0, False, seed)[3:] for seed in range(40)]
    alone = [solver.solve(*p)[2] for p in problems]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda p: solver.solve(*p)[2], problems)) == alone


def test_pickled_solver_solves_alike():
    n, tail, head, unary, coupling = grid_problem(10, 1.0, False)
    solver = QPBO(n, tail, head)
    before = solver.solve(unary, coupling)
    again = pickle.loads(pickle.dumps(solver)).solve(unary, coupling)
    np.testing.assert_array_equal(before[0], again[0])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e308])
def test_scores_that_are_not_finite_or_overflow_are_refused(bad):
    solver = QPBO(2, [0], [1])
    with pytest.raises(ValueError, match="unary must be finite"):
        solver.solve([bad, 0.0], [1.0])
    with pytest.raises(ValueError, match="coupling must be finite"):
        solver.solve([0.0, 0.0], [bad])


def test_arguments_are_checked():
    solver = QPBO(2, [0], [1])
    with pytest.raises(ValueError, match=r"unary must have shape \(2,\)"):
        solver.solve([0.0], [1.0])
    with pytest.raises(ValueError, match=r"coupling must have shape \(1,\)"):
        solver.solve([0.0, 0.0], [])
    with pytest.raises(ValueError, match="x must consist of"):
        solver.integral([0.3, 0.0], [0.0, 0.0], [1.0])


def test_extreme_magnitudes_are_handled():
    solver = QPBO(3, [0, 1, 0], [1, 2, 2])
    for scale in (1e-320, 1e-290, 1e-150, 1e150, 1e300):
        unary, coupling = np.full(3, scale), np.full(3, -2 * scale)
        x, xi, value = solver.solve(unary, coupling)
        check_solution(np.array([0, 1, 0]), np.array([1, 2, 2]), unary, coupling, x, xi, value)
        assert value == pytest.approx(1.5 * scale)


def test_decided_nodes_beside_a_frustrated_triangle():
    """One node of the triangle is 1 at best; of the nodes apart one is 1, the other 0."""
    solver = QPBO(5, [0, 1, 0], [1, 2, 2])
    unary, coupling = np.array([1.0, 1.0, 1.0, 5.0, -5.0]), np.full(3, -2.0)
    x, _, value = solver.solve(unary, coupling)
    np.testing.assert_array_equal(x, [0.5, 0.5, 0.5, 1.0, 0.0])
    assert value == 6.5
    greedy = np.empty(5, np.int64)
    undecided = qpbo.round_greedily(solver._ptr, solver._incident, unary, coupling, x, greedy)
    np.testing.assert_array_equal(undecided, [0, 1, 2])
    for labels in (greedy, solver.integral(x, unary, coupling)):
        assert sorted(labels[:3]) == [0, 0, 1]
        np.testing.assert_array_equal(labels[3:], [1, 0])
