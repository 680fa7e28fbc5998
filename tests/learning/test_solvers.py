"""All solvers against each other, closed forms and scikit-learn; how they start and stop."""

import numpy as np
import pytest
from bipartite_matchings import complete
from dual_problems import likelihood, matching_problem, solve
from scipy.optimize import minimize
from scipy.special import logsumexp, xlogy
from sklearn.linear_model import LogisticRegression

from mlestruct import MissingCapability
from mlestruct.features import Rows
from mlestruct.learning import LBFGS, Block, BlockFrankWolfe, FrankWolfe, Problem
from mlestruct.learning.solver import regularization_path, with_budget
from mlestruct.models.base import default_solver
from mlestruct.structures import Decoding, Vertex

K = 3


# ---------------------------------------------------------------------- solvers agree
SOLVERS = [LBFGS(), FrankWolfe(), BlockFrankWolfe()]
solvers = pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)


@solvers
@pytest.mark.parametrize("offset", [False, True])
def test_all_solvers_find_the_same_theta(solver, offset):
    _, problem = matching_problem(1, rho=0.7, alpha=1.0, offset=offset)
    reference = solve(problem)
    result = solve(problem, solver, 1e-6, max_iter=20000)
    assert result.converged
    assert result.gap <= 1e-6 * max(1, abs(result.objective_bound))
    # P is strongly concave: a gap bounds the distance of theta from the optimum.
    apart = np.linalg.norm(result.theta - reference.theta)
    assert apart <= np.sqrt(2.0 * result.gap) + np.sqrt(2.0 * reference.gap)
    assert result.objective <= reference.objective_bound + 1e-9
    assert result.objective_bound >= reference.objective - 1e-9


@pytest.mark.parametrize("rho", [0.5, 0.8, 1.0])
def test_moments_match_at_the_optimum(rho):
    _, problem = matching_problem(2, rho=rho)
    result = solve(problem, tol=1e-13)
    gradient = likelihood(problem, result.theta, tol=1e-13)[2]
    assert np.abs(gradient).max() <= 1e-6 * (1 + np.abs(problem.target).max())


@solvers
def test_pairs_that_may_stay_single_are_logistic_regression(solver):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 2)), rng.random(30) < 0.6
    structure = complete(1, perfect=False, rho=0.7).structure
    blocks = [
        Block(structure, Rows(row[None]), structure.encode([0 if on else -1]))
        for row, on in zip(x, y, strict=True)
    ]
    result = solve(Problem(blocks, 0.5), solver, 1e-7, max_iter=3000)
    expected = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-10).fit(x, y)
    np.testing.assert_allclose(result.theta, expected.coef_[0], atol=2e-3)


@pytest.mark.parametrize("rho", [0.5, 0.8, 1.0])
def test_two_by_two_matchings_are_tempered_logistic_regression(rho):
    # log Z_rho = kappa log(exp(straight / kappa) + exp(crossed / kappa)), kappa = 4 (1 - rho).
    rng = np.random.default_rng(1)
    tables = rng.normal(size=(12, 2, 2, 2))
    kappa = max(4 * (1 - rho), 1e-9)
    structure = complete(2, rho=rho).structure
    blocks = [Block(structure, Rows(t.reshape(4, 2)), structure.encode([0, 1])) for t in tables]
    straight, crossed = tables[:, 0, 0] + tables[:, 1, 1], tables[:, 0, 1] + tables[:, 1, 0]

    def loss(theta):
        a, b = straight @ theta / kappa, crossed @ theta / kappa
        return kappa * (np.logaddexp(a, b) - a).sum() + 0.5 * theta @ theta

    expected = minimize(loss, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-7})
    result = solve(Problem(blocks, 1.0), tol=1e-8)
    assert result.objective_bound == pytest.approx(-expected.fun, abs=1e-6)
    np.testing.assert_allclose(result.theta, expected.x, atol=1e-3)


# ---------------------------------------------------------------------- starting and stopping
@solvers
def test_warm_start_continues_to_the_same_solution(solver):
    _, problem = matching_problem(6, alpha=1.0)
    reference = solve(problem)
    start = solve(problem, solver, 0.0, max_iter=3)
    before = start.objective_bound - start.objective
    result = solve(problem, solver, 1e-6, max_iter=20000, start=start.state)
    assert result.converged
    assert result.gap <= max(before, 1e-6 * max(1, abs(result.objective_bound)))
    if solver.name != "lbfgs":  # continue from marginals
        assert result.history.objective_bound[0] <= start.objective_bound + 1e-6 * (
            1 + abs(start.objective_bound)
        )
    else:
        assert result.history.objective[0] > start.history.objective[0]
    np.testing.assert_allclose(result.theta, reference.theta, atol=1e-3)


@solvers
def test_path_gives_the_solutions_of_separate_fits(solver):
    _, problem = matching_problem(7)
    alphas = [0.3, 3.0, 1.0]
    solver = with_budget(solver, max_iter=20000, random_state=0)
    path = list(regularization_path(problem, alphas, solver, 1e-6))
    assert [alpha for alpha, _ in path] == sorted(alphas, reverse=True)
    for alpha, result in path:
        alone = solve(problem.with_alpha(alpha))
        assert result.objective_bound == pytest.approx(alone.objective, rel=2e-6)
        np.testing.assert_allclose(result.theta, alone.theta, atol=3e-3)
    with pytest.raises(ValueError, match="alphas"):
        next(regularization_path(problem, [1.0, -1.0], solver, 1e-6))


@solvers
def test_budgets_and_callbacks_stop_a_solver(solver):
    _, problem = matching_problem(8)
    forever = {"tol": 0.0, "max_iter": 10**9}
    assert solve(problem, solver, 0.0, max_iter=2).iterations <= 2
    timed = solve(problem, solver, **forever, max_time=0.05)
    assert max(timed.history.seconds[:-2], default=0.0) < 0.05  # then at most a last certificate
    seen = []
    stopped = solve(problem, solver, **forever, callback=lambda p: seen.append(p) or len(seen) == 2)
    assert len(seen) == 2
    assert len(stopped.history) == 2
    for result in (timed, stopped):
        assert not result.interrupted
        assert np.isfinite(result.theta).all()
        assert likelihood(problem, result.theta)[0] >= result.objective - 1e-9


@pytest.mark.parametrize("when", [1, 2])
@solvers
def test_interrupt_keeps_a_certified_model(solver, when):
    _, problem = matching_problem(9)
    seen = []

    def interrupt(progress):
        seen.append(progress)
        if len(seen) == when:
            raise KeyboardInterrupt

    result = solve(problem, solver, 1e-12, callback=interrupt)
    assert len(seen) == when
    assert result.interrupted
    assert not result.converged
    assert result.theta.shape == (K,)
    best = solve(problem)
    value = likelihood(problem, result.theta)[0]
    assert result.objective - 1e-9 <= value <= best.objective_bound + 1e-9
    assert result.objective_bound >= best.objective - 1e-9
    resumed = solve(problem, solver, 1e-3, max_iter=5000, start=result.state)
    assert resumed.converged


@solvers
@pytest.mark.parametrize("max_iter", [0, 1, 3, 10])
def test_history_encloses_the_optimum_and_only_tightens(solver, max_iter):
    _, problem = matching_problem(10, offset=True)
    best = solve(problem)
    result = solve(problem, solver, 0.0, max_iter=max_iter)
    history = result.history.to_frame()
    assert (history["objective_bound"] >= best.objective - 1e-9).all()
    assert (history["objective"] <= best.objective_bound + 1e-9).all()
    assert (np.diff(history["objective_bound"]) <= 0).all()
    assert (np.diff(history["objective"]) >= 0).all()
    assert (np.diff(history["oracle_calls"]) > 0).all()
    assert result.gap == pytest.approx(result.objective_bound - result.objective, abs=1e-12)
    assert likelihood(problem, result.theta)[0] >= result.objective - 1e-9


def test_threads_do_not_change_the_answer():
    _, problem = matching_problem(17, n_blocks=8)
    three = Problem(problem.blocks, problem.alpha, n_jobs=3)
    np.testing.assert_allclose(solve(problem).theta, solve(three).theta, rtol=1e-12)


# ---------------------------------------------------------------------- capabilities
class Simplex:
    """Pick one of n items; Shannon entropy. Offers MAP decoding and nothing more."""

    def __init__(self, n):
        self.n_coordinates = self.n_scored = n
        self.calls = 0

    def decode(self, scores, warm=None):
        self.calls += 1
        best = int(np.argmax(scores))
        return Decoding(self.encode(best), float(scores[best]))

    def entropy(self, tau):
        return float(-xlogy(tau, tau).sum())

    def entropy_gradient(self, tau):
        return -np.log(np.maximum(tau, 1e-300)) - 1

    def interior(self):
        self.calls += 1
        return np.full(self.n_coordinates, 1 / self.n_coordinates)

    def encode(self, label):
        return Vertex(np.array([label]), np.ones(1))

    def label(self, vertex):
        return int(vertex.indices[0])


def choice_problem(n_blocks):
    """Multinomial choice: features (n_blocks, 4, 2), chosen items, and the problem."""
    rng = np.random.default_rng(0)
    tables, chosen = rng.normal(size=(n_blocks, 4, 2)), rng.integers(4, size=n_blocks)
    simplex = Simplex(4)
    blocks = [
        Block(simplex, Rows(t), simplex.encode(y)) for t, y in zip(tables, chosen, strict=True)
    ]
    return tables, chosen, simplex, Problem(blocks, 1.0)


def test_missing_marginals_are_reported_before_any_work():
    *_, simplex, problem = choice_problem(3)
    with pytest.raises(MissingCapability, match=r"marginals\(\).*Simplex"):
        solve(problem, LBFGS())
    assert simplex.calls == 0


@pytest.mark.parametrize("n_blocks", [1, 6])
def test_a_map_only_structure_is_learned(n_blocks):
    tables, chosen, _, problem = choice_problem(n_blocks)

    def loss(theta):
        scores = tables @ theta
        fit = scores[np.arange(n_blocks), chosen]
        return (logsumexp(scores, axis=1) - fit).sum() + 0.5 * theta @ theta

    expected = minimize(loss, np.zeros(2), options={"gtol": 1e-10})
    result = solve(problem, default_solver(problem), 1e-4, max_iter=20000)
    assert result.converged
    assert result.objective - 1e-9 <= -expected.fun <= result.objective_bound + 1e-9
    np.testing.assert_allclose(result.theta, expected.x, atol=0.02)


def test_bad_problems_are_refused():
    spaces, problem = matching_problem(0)
    with pytest.raises(ValueError, match="alpha"):
        Problem(problem.blocks, 0.0)
    with pytest.raises(ValueError, match="alpha"):
        problem.with_alpha(-1.0)
    with pytest.raises(ValueError, match="blocks"):
        Problem([], 1.0)
    structure = spaces[0].structure
    wide = Block(structure, Rows(np.ones((9, K + 1))), structure.encode([0, 1, 2]))
    with pytest.raises(ValueError, match=r"different numbers of features: \[3, 4\]"):
        Problem([problem.blocks[0], wide], 1.0)
