"""Step rules of Frank-Wolfe for marginals."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

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


@pytest.mark.parametrize("step", ["corrective", "capped", "line_search", "fixed"])
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
