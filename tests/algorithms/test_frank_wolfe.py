"""Step rules of Frank-Wolfe for marginals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_scores import generators
from scipy.optimize import linear_sum_assignment

from mlestruct.algorithms.frank_wolfe import extreme_vertices
from mlestruct.inference import marginals
from mlestruct.structures import BipartiteMatching

N, RHO = 4, 0.8


def by_hand(scores, n_steps):
    """tau after steps of 2/(t+2) from the uniform point."""
    tau = np.full((N, N), 1.0 / N)
    for t in range(1, n_steps + 1):
        gradient = scores - (2 * RHO - 1) * (np.log1p(-tau) + 1) - np.log(tau) - 1
        vertex = np.zeros((N, N))
        vertex[linear_sum_assignment(gradient, maximize=True)] = 1.0
        tau = tau + 2 / (t + 2) * (vertex - tau)
    return tau


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n_steps", [1, 2, 30])
def test_fixed_steps_are_those_of_the_paper(n_steps):
    scores = np.random.default_rng(0).normal(size=(N, N))
    found = marginals(
        BipartiteMatching((N, N), RHO), scores, "fw", tol=0.0, max_iter=n_steps, step="fixed"
    )
    np.testing.assert_allclose(found.table, by_hand(scores, n_steps), rtol=1e-9)


@pytest.mark.parametrize("step", ["blended", "capped", "line_search", "fixed"])
def test_every_step_rule_reaches_the_certified_optimum(step):
    scores = np.random.default_rng(1).normal(size=(N, N))
    space = BipartiteMatching((N, N), RHO)
    best = marginals(space, scores, tol=1e-10)
    found = marginals(space, scores, "fw", tol=1e-2, step=step)
    assert found.log_partition <= best.log_partition + 1e-9
    assert best.log_partition <= found.log_partition + found.gap + 1e-9
    np.testing.assert_allclose(found.tau, best.tau, atol=0.08)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_only_the_capped_line_search_keeps_the_first_steps_short():
    scores = 5.0 * np.eye(N)  # at rho = 1 the first line search goes far
    first = {}
    for step in ("capped", "line_search"):
        found = marginals(BipartiteMatching((N, N)), scores, "fw", tol=0.0, max_iter=1, step=step)
        first[step] = 1.0 - found.table[0, 1] * N  # the weight of the vertex
    assert first["capped"] <= 0.5 + 1e-12 < first["line_search"]


@given(generators, st.integers(0, 12), st.integers(1, 9))
def test_extreme_vertices_of_a_mixture_are_those_of_its_table(rng, n_vertices, n):
    table = (rng.random((n_vertices + 1, n)) < 0.4) * rng.choice([0.5, 1.0], size=n)
    table[0], direction = rng.random(n), rng.normal(size=n)
    weights = rng.choice([0.0, 0.3], size=n_vertices + 1)
    weights[rng.integers(n_vertices + 1)] = 0.2
    found = [np.flatnonzero(row) for row in table[1:]]
    indices = np.concatenate([np.zeros(0, dtype=np.int64), *found])
    values = np.concatenate(
        [np.zeros(0), *(row[on] for row, on in zip(table[1:], found, strict=True))]
    )
    sizes = np.array([on.size for on in found], dtype=np.int64)
    best, worst, difference = extreme_vertices(direction, table[0], weights, sizes, indices, values)
    slopes = table @ direction
    assert slopes[best] == pytest.approx(slopes.max(), abs=1e-12)
    assert weights[worst] > 0
    least = slopes[weights > 0].min()
    assert slopes[worst] == pytest.approx(least, abs=1e-12)
    assert difference == pytest.approx(slopes.max() - least, abs=1e-12)
