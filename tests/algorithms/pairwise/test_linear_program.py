"""The local-polytope linear program against another solver, enumeration and roof duality."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest
from binary_problems import draw_problem, kinds
from hypothesis import given, settings
from hypothesis import strategies as st
from labellings import grid_edges, random_edges, random_forest, total_score
from random_scores import generators
from scipy.optimize import linprog

from mlestruct.algorithms.pairwise.linear_program import LocalPolytope
from mlestruct.algorithms.pairwise.qpbo import QPBO

examples = settings(deadline=None, max_examples=80)


def constraints(n, tail, head, n_states):
    """Every simplex and marginalisation constraint, one by one."""
    size = n * n_states + tail.size * n_states**2
    node = np.arange(n * n_states).reshape(n, n_states)
    table = np.arange(n * n_states, size).reshape(-1, n_states, n_states)
    rows, right = [], []
    for i in range(n):
        rows.append(np.isin(np.arange(size), node[i]).astype(float))
        right.append(1.0)
    for e, (i, j) in enumerate(zip(tail, head, strict=True)):
        for a in range(n_states):
            for entries, end in ((table[e, a], node[i, a]), (table[e, :, a], node[j, a])):
                row = np.zeros(size)
                row[entries] = 1.0
                row[end] = -1.0
                rows.append(row)
                right.append(0.0)
    return np.array(rows), np.array(right)


@examples
@given(
    st.integers(1, 6),
    st.integers(1, 4),
    st.sampled_from([0.0, 0.5, 1.0]),
    generators,
    st.sampled_from(["normal", "ties", "large", "small"]),
)
def test_value_is_that_of_another_solver_call_after_call(n, n_states, share, rng, kind):
    tail, head = random_edges(rng, n, share).T
    program = LocalPolytope(n, tail, head, n_states)
    matrix, right = constraints(n, tail, head, n_states)
    for _ in range(3):
        scores = rng.normal(size=matrix.shape[1])
        if kind == "ties":
            scores = np.round(scores)
        scores *= {"large": 1e9, "small": 1e-9}.get(kind, 1.0)
        tau, value = program.solve(scores)
        assert tau.min() >= 0
        assert np.abs(matrix @ tau - right).max() <= 1e-9
        scale = np.abs(scores).max() or 1.0
        optimum = -linprog(-scores / scale, A_eq=matrix, b_eq=right).fun
        assert value / scale == pytest.approx(optimum, abs=1e-7)
        assert value == pytest.approx(scores @ tau, rel=1e-12, abs=1e-12 * scale)


@examples
@given(st.integers(1, 6), st.integers(1, 3), generators)
def test_tight_on_forests(n, n_states, rng):
    tail, head = random_forest(rng, n).T
    scores = rng.normal(size=n * n_states + tail.size * n_states**2)
    program = LocalPolytope(n, tail, head, n_states)
    _, value = program.solve(scores)
    best = max(
        total_score(tail, head, n_states, scores, np.array(y))
        for y in product(range(n_states), repeat=n)
    )
    assert value == pytest.approx(best, abs=1e-9)


def overcomplete(unary, coupling):
    """Binary scores in the layout of the linear program."""
    nodes, edges = np.zeros((unary.size, 2)), np.zeros((coupling.size, 2, 2))
    nodes[:, 1] = unary
    edges[:, 1, 1] = coupling
    return np.concatenate([nodes.ravel(), edges.ravel()])


@examples
@given(st.integers(1, 10), st.sampled_from([0.3, 0.7]), generators, kinds)
def test_two_states_agree_with_roof_duality(n, share, rng, kind):
    tail, head = random_edges(rng, n, share).T
    unary, coupling = draw_problem(rng, n, tail, head, kind)
    _, value = LocalPolytope(n, tail, head, 2).solve(overcomplete(unary, coupling))
    scale = max(np.abs(unary).max(), np.abs(coupling).max(initial=0)) or 1.0
    assert value / scale == pytest.approx(
        QPBO(n, tail, head).solve(unary, coupling)[2] / scale, abs=1e-7
    )


@pytest.mark.parametrize("strength", [0.3, 1.5])
def test_grid_agrees_with_roof_duality_from_warm_bases(strength):
    n, (tail, head) = 225, grid_edges(15, 15).T
    rng = np.random.default_rng(0)
    program, roof = LocalPolytope(n, tail, head, 2), QPBO(n, tail, head)
    unary, coupling = rng.normal(size=n), strength * rng.normal(size=tail.size)
    for change in (0.0, 0.01, 0.3, 3.0):
        unary += change * rng.normal(size=n)
        coupling += change * rng.normal(size=tail.size)
        _, value = program.solve(overcomplete(unary, coupling))
        assert value == pytest.approx(roof.solve(unary, coupling)[2], rel=1e-9)


def test_several_threads_may_share_a_program():
    n, (tail, head) = 36, grid_edges(6, 6).T
    program = LocalPolytope(n, tail, head, 3)
    problems = np.random.default_rng(0).normal(size=(20, program.size))
    alone = [program.solve(p)[1] for p in problems]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda p: program.solve(p)[1], problems))
    np.testing.assert_allclose(together, alone, rtol=1e-9)


def test_pickled_program_solves_alike():
    n, (tail, head) = 16, grid_edges(4, 4).T
    program = LocalPolytope(n, tail, head, 3)
    scores = np.random.default_rng(0).normal(size=program.size)
    value = program.solve(scores)[1]
    assert pickle.loads(pickle.dumps(program)).solve(scores)[1] == pytest.approx(value)


def test_failure_names_the_status_and_leaves_the_program_usable():
    n, (tail, head) = 36, grid_edges(6, 6).T
    program = LocalPolytope(n, tail, head, 3)
    scores = np.random.default_rng(0).normal(size=program.size)
    program._highs.setOptionValue("simplex_iteration_limit", 1)
    program._highs.setOptionValue("presolve", "off")
    with pytest.raises(RuntimeError, match=r"HiGHS stopped with: .*teration limit"):
        program.solve(scores)
    program._highs.setOptionValue("simplex_iteration_limit", 2**31 - 1)
    value = program.solve(scores)[1]
    assert value == pytest.approx(LocalPolytope(n, tail, head, 3).solve(scores)[1])
