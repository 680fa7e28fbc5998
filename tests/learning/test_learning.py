"""The dual problem and its solvers, against enumeration, closed forms and scikit-learn."""

import numpy as np
import pytest
from bipartite_matchings import Space, complete
from hypothesis import given, settings
from hypothesis import strategies as st
from random_scores import generators
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import logsumexp, xlogy
from sklearn.linear_model import LogisticRegression

from mlestruct import MissingCapability
from mlestruct.features import DenseFeatures, SparseFeatures
from mlestruct.learning import (
    LBFGS,
    Block,
    BlockFrankWolfe,
    BlockMarginals,
    DualProblem,
    DualState,
    FrankWolfe,
    Newton,
    Stopping,
    make_solver,
    merge_equal,
    start_near_observed,
)
from mlestruct.learning.certificate import certify
from mlestruct.learning.path import regularization_path
from mlestruct.structures import Decoding, Vertex

examples = settings(deadline=None, max_examples=25)
FINE = Stopping(tol=1e-10, max_iter=200)
K = 3


def make_problem(seed=0, n_blocks=4, alpha=0.5, rho=0.8, offset=False):
    """Small blocks of different shapes with random features, labels, weights."""
    rng = np.random.default_rng(seed)
    kinds = [
        complete(3, rho=rho),
        complete(2, 3, rho=rho),
        complete(2, 2, perfect=False, rho=rho),
        Space(np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]], bool), True, rho, rho),
    ]
    spaces = [kinds[m % len(kinds)] for m in range(n_blocks)]
    blocks = []
    for space in spaces:
        structure = space.structure
        blocks.append(
            Block(
                structure,
                DenseFeatures(rng.normal(size=(structure.n_scored, K))),
                structure.encode(space.labels[rng.integers(len(space.labels))]),
                rng.uniform(0.5, 2.0),
                0.5 * rng.normal(size=structure.n_coordinates) if offset else None,
            )
        )
    return spaces, DualProblem(blocks, alpha)


def dual_by_hand(spaces, problem, tau):
    """L(tau), straight from the formula."""
    r = np.zeros(problem.n_features)
    rest = 0.0
    for space, block, t in zip(spaces, problem.blocks, tau, strict=True):
        y = block.observed.dense(space.size)
        r += block.weight * block.features.matrix.T @ (y - t)[: block.features.n_scored]
        offset = np.zeros(space.size) if block.offset is None else block.offset
        rest += block.weight * (offset @ (y - t) - space.entropy(t))
    return r @ r / (2 * problem.alpha) + rest


def likelihood(problem, theta, tol=1e-12):
    """(P(theta), a proven lower bound of it, its gradient) from the marginal oracle."""
    found = [b.structure.marginals(b.scores(theta), tol=tol) for b in problem.blocks]
    moments = [b.moments(f.tau) for b, f in zip(problem.blocks, found, strict=True)]
    gradient = problem.target - problem.weights @ np.array(moments) - problem.alpha * theta
    values = problem.weights @ [f.value for f in found]
    bounds = problem.weights @ [f.upper_bound for f in found]
    return problem.primal(theta, values), problem.primal(theta, bounds), gradient


def random_points(spaces, rng, concentration=1.0):
    return [space.random_point(rng, concentration) for space in spaces]


def solve(problem, solver="newton", stopping=FINE, **options):
    options.setdefault("random_state", np.random.default_rng(0))
    return make_solver(solver, problem).solve(problem, stopping, **options)


# ---------------------------------------------------------------------- primal and dual
@examples
@given(st.integers(0, 1000), generators, st.sampled_from([0.5, 0.8, 1.0]), st.booleans())
def test_dual_follows_its_formula_and_bounds_every_likelihood(seed, rng, rho, offset):
    spaces, problem = make_problem(seed, rho=rho, offset=offset)
    tau = random_points(spaces, rng)
    dual = DualState.at(problem, tau).dual(problem)
    assert dual == pytest.approx(dual_by_hand(spaces, problem, tau), rel=1e-10, abs=1e-10)
    for theta in (np.zeros(K), rng.normal(size=K), problem.theta(DualState.at(problem, tau).r)):
        assert likelihood(problem, theta)[1] <= dual + 1e-9


@examples
@given(st.integers(0, 1000), generators, st.booleans())
def test_gradient_of_the_likelihood_equals_finite_differences(seed, rng, offset):
    _, problem = make_problem(seed, offset=offset)
    theta = 0.5 * rng.normal(size=K)
    gradient = likelihood(problem, theta)[2]
    for direction in np.eye(K):
        step = 1e-4 * direction
        rise = likelihood(problem, theta + step)[0] - likelihood(problem, theta - step)[0]
        assert rise / 2e-4 == pytest.approx(gradient @ direction, abs=1e-5)


@examples
@given(st.integers(0, 1000), generators, st.sampled_from([0.5, 0.8, 1.0]), st.booleans())
def test_certificate_never_understates_the_distance_to_the_optimum(seed, rng, rho, offset):
    spaces, problem = make_problem(seed, rho=rho, offset=offset)
    optimum = solve(problem)
    tau = random_points(spaces, rng, rng.choice([0.3, 1.0, 5.0]))
    state = DualState.at(problem, tau)
    found, _ = certify(problem, state, [None] * len(tau))
    suboptimality = found.dual - optimum.objective
    assert found.fw_gap >= suboptimality - 1e-8
    assert found.primal <= optimum.objective + 1e-8
    # The primal value that a Frank-Wolfe gap implies is one of the theta at hand.
    assert found.dual - found.fw_gap <= likelihood(problem, problem.theta(state.r))[0] + 1e-8


def test_frank_wolfe_gap_is_the_slope_of_the_dual_towards_the_vertices():
    spaces, problem = make_problem(3, offset=True)
    tau = random_points(spaces, np.random.default_rng(0), 5.0)
    found, steps = certify(problem, DualState.at(problem, tau), [None] * len(tau))
    targets = [s.vertex.dense(t.shape[0]) for s, t in zip(steps, tau, strict=True)]

    def along(eta):
        moved = [t + eta * (v - t) for t, v in zip(tau, targets, strict=True)]
        return dual_by_hand(spaces, problem, moved)

    assert (along(1e-6) - along(-1e-6)) / 2e-6 == pytest.approx(-found.fw_gap, rel=1e-6)


# ---------------------------------------------------------------------- solvers agree
SOLVERS = [
    Newton(),
    LBFGS(),
    FrankWolfe(),
    BlockFrankWolfe(),
    BlockFrankWolfe(sampling="uniform"),
    BlockFrankWolfe(sampling="gap"),
    BlockMarginals(),
    BlockMarginals(sampling="gap"),
]
solvers = pytest.mark.parametrize("solver", SOLVERS, ids=str)


@solvers
@pytest.mark.parametrize("offset", [False, True])
def test_all_solvers_find_the_same_theta(solver, offset):
    _, problem = make_problem(1, rho=0.7, alpha=1.0, offset=offset)
    reference = solve(problem)
    result = solve(problem, solver, Stopping(tol=1e-6, max_iter=20000, max_time=90))
    assert result.converged
    assert result.gap <= 1e-6 * max(1, abs(result.objective))
    np.testing.assert_allclose(result.theta, reference.theta, atol=1e-3)
    assert result.primal <= reference.objective + 1e-9
    assert result.objective >= reference.primal - 1e-9


@pytest.mark.parametrize("solver", ["newton", "lbfgs"])
@pytest.mark.parametrize("rho", [0.5, 0.8, 1.0])
def test_moments_match_at_the_optimum(solver, rho):
    _, problem = make_problem(2, rho=rho)
    result = solve(problem, solver, Stopping(tol=1e-13, max_iter=200))
    gradient = likelihood(problem, result.theta, tol=1e-13)[2]
    assert np.abs(gradient).max() <= 1e-6 * (1 + np.abs(problem.target).max())


@pytest.mark.parametrize("solver", ["newton", "lbfgs", "bcfw"])
def test_pairs_that_may_stay_single_are_logistic_regression(solver):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 2)), rng.random(30) < 0.6
    structure = complete(1, perfect=False, rho=0.7).structure
    blocks = [
        Block(structure, DenseFeatures(row[None]), structure.encode([0 if on else -1]))
        for row, on in zip(x, y, strict=True)
    ]
    result = solve(DualProblem(blocks, 0.5), solver, Stopping(tol=1e-7, max_iter=3000))
    expected = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-10).fit(x, y)
    np.testing.assert_allclose(result.theta, expected.coef_[0], atol=2e-3)


@pytest.mark.parametrize("rho", [0.5, 0.8, 1.0])
def test_two_by_two_matchings_are_tempered_logistic_regression(rho):
    # log Z_rho = kappa log(exp(straight / kappa) + exp(crossed / kappa)), kappa = 4 (1 - rho).
    rng = np.random.default_rng(1)
    tables = rng.normal(size=(12, 2, 2, 2))
    kappa = max(4 * (1 - rho), 1e-9)
    structure = complete(2, rho=rho).structure
    blocks = [
        Block(structure, DenseFeatures(t.reshape(4, 2)), structure.encode([0, 1])) for t in tables
    ]
    straight, crossed = tables[:, 0, 0] + tables[:, 1, 1], tables[:, 0, 1] + tables[:, 1, 0]

    def loss(theta):
        a, b = straight @ theta / kappa, crossed @ theta / kappa
        return kappa * (np.logaddexp(a, b) - a).sum() + 0.5 * theta @ theta

    expected = minimize(loss, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-7})
    result = solve(DualProblem(blocks, 1.0), stopping=Stopping(tol=1e-8, max_iter=300))
    assert result.objective == pytest.approx(-expected.fun, abs=1e-6)
    np.testing.assert_allclose(result.theta, expected.x, atol=1e-3)


# ---------------------------------------------------------------------- weights and offsets
def test_weight_two_equals_the_sample_twice():
    _, problem = make_problem(4)
    first, *others = problem.blocks
    single = Block(first.structure, first.features, first.observed, 1.0)
    double = Block(first.structure, first.features, first.observed, 2.0)
    repeated = solve(DualProblem([single, single, *others], 1.0))
    weighted = solve(DualProblem([double, *others], 1.0))
    assert weighted.objective == pytest.approx(repeated.objective, abs=1e-8)
    np.testing.assert_allclose(weighted.theta, repeated.theta, atol=1e-6)


@pytest.mark.parametrize("solver", ["newton", "bcfw"])
def test_merging_equal_blocks_changes_nothing(solver):
    space = complete(3, rho=0.7)
    structure = space.structure
    rng = np.random.default_rng(0)
    features = [DenseFeatures(rng.normal(size=(9, K))) for _ in range(2)]
    blocks = [
        Block(structure, features[m % 2], structure.encode(y), 1.0 + m)
        for m, y in enumerate(space.labels)
    ]
    merged = merge_equal(blocks)
    assert len(merged) == 2
    assert sum(b.weight for b in merged) == sum(b.weight for b in blocks)
    stopping = Stopping(tol=1e-6, max_iter=5000)
    full = solve(DualProblem(blocks, 1.0))
    result = solve(DualProblem(merged, 1.0), solver, stopping)
    assert result.objective == pytest.approx(full.objective, rel=2e-6)
    np.testing.assert_allclose(result.theta, full.theta, atol=2e-3)


def test_offset_is_a_feature_with_a_fixed_weight():
    _, problem = make_problem(5)
    fixed = 0.7  # the weight that feature 0 is held at
    blocks = []
    for b in problem.blocks:
        g = b.features.matrix
        offset = np.zeros(b.structure.n_coordinates)
        offset[: g.shape[0]] = fixed * g[:, 0]
        blocks.append(Block(b.structure, DenseFeatures(g[:, 1:]), b.observed, b.weight, offset))
    result = solve(DualProblem(blocks, 1.0))
    theta = np.concatenate([[fixed], result.theta])
    value, _, gradient = likelihood(problem.with_alpha(1.0), theta)
    assert result.objective == pytest.approx(value + 0.5 * fixed**2, abs=1e-8)
    assert np.abs(gradient[1:]).max() < 1e-4


# ---------------------------------------------------------------------- starting and stopping
@pytest.mark.parametrize("solver", ["fw", "bcfw", "block_marginals", "newton", "lbfgs"])
def test_warm_start_continues_to_the_same_solution(solver):
    _, problem = make_problem(6, alpha=1.0)
    reference = solve(problem)
    start = solve(problem, solver, Stopping(tol=0.0, max_iter=3))
    before = start.objective - start.primal
    result = solve(
        problem, solver, Stopping(tol=1e-6, max_iter=20000, max_time=20), warm=start.state
    )
    assert result.converged
    assert result.gap <= before
    if solver in ("fw", "bcfw", "block_marginals"):  # continue from marginals
        assert result.history.dual[0] <= start.objective + 1e-6 * (1 + abs(start.objective))
    else:
        assert result.history.primal[0] > start.history.primal[0]
    np.testing.assert_allclose(result.theta, reference.theta, atol=1e-3)


@pytest.mark.parametrize("solver", ["bcfw", "newton", "lbfgs"])
def test_path_gives_the_solutions_of_separate_fits(solver):
    _, problem = make_problem(7)
    alphas = [0.3, 3.0, 1.0]
    stopping = Stopping(tol=1e-6, max_iter=20000, max_time=20)
    path = list(
        regularization_path(
            problem, alphas, make_solver(solver, problem), stopping, np.random.default_rng(0)
        )
    )
    assert [alpha for alpha, _ in path] == sorted(alphas, reverse=True)
    for alpha, result in path:
        alone = solve(problem.with_alpha(alpha))
        assert result.objective == pytest.approx(alone.objective, rel=2e-6)
        np.testing.assert_allclose(result.theta, alone.theta, atol=3e-3)
    with pytest.raises(ValueError, match="alphas"):
        next(regularization_path(problem, [1.0, -1.0], make_solver(solver, problem)))


@pytest.mark.parametrize("solver", ["fw", "bcfw", "newton", "lbfgs"])
def test_budgets_and_callbacks_stop_a_solver(solver):
    _, problem = make_problem(8)
    hopeless = {"tol": 0.0, "max_iter": 10**9}
    assert solve(problem, solver, Stopping(tol=0.0, max_iter=2)).iterations <= 2
    timed = solve(problem, solver, Stopping(**hopeless, max_time=0.05))
    assert timed.seconds < 5
    seen = []
    stopped = solve(
        problem, solver, Stopping(**hopeless, callback=lambda p: seen.append(p) or len(seen) == 2)
    )
    assert len(seen) == 2
    assert len(stopped.history) == 2
    for result in (timed, stopped):
        assert not result.interrupted
        assert np.isfinite(result.theta).all()
        assert likelihood(problem, result.theta)[0] >= result.primal - 1e-9


@pytest.mark.parametrize("when", [1, 2])
@pytest.mark.parametrize("solver", ["fw", "bcfw", "newton", "lbfgs"])
def test_interrupt_keeps_a_certified_model(solver, when):
    _, problem = make_problem(9)
    seen = []

    def interrupt(progress):
        seen.append(progress)
        if len(seen) == when:
            raise KeyboardInterrupt

    result = solve(problem, solver, Stopping(tol=1e-12, max_iter=1000, callback=interrupt))
    assert len(seen) == when
    assert result.interrupted
    assert not result.converged
    assert result.theta.shape == (K,)
    best = solve(problem)
    value = likelihood(problem, result.theta)[0]
    assert result.primal - 1e-9 <= value <= best.objective + 1e-9
    assert result.objective >= best.primal - 1e-9
    resumed = solve(problem, solver, Stopping(tol=1e-3, max_iter=5000), warm=result.state)
    assert resumed.converged


@pytest.mark.parametrize("solver", ["fw", "bcfw", "newton", "lbfgs"])
@pytest.mark.parametrize("max_iter", [0, 1, 3, 10])
def test_history_encloses_the_optimum_and_only_tightens(solver, max_iter):
    _, problem = make_problem(10, offset=True)
    best = solve(problem)
    result = solve(problem, solver, Stopping(tol=0.0, max_iter=max_iter))
    history = result.history.to_frame()
    assert (history["dual"] >= best.primal - 1e-9).all()
    assert (history["primal"] <= best.objective + 1e-9).all()
    assert (np.diff(history["dual"]) <= 0).all()
    assert (np.diff(history["primal"]) >= 0).all()
    assert (np.diff(history["oracle_calls"]) > 0).all()
    assert result.gap == pytest.approx(result.objective - result.primal, abs=1e-12)
    assert likelihood(problem, result.theta)[0] >= result.primal - 1e-9


# ---------------------------------------------------------------------- Frank-Wolfe variants
@pytest.mark.parametrize(
    "solver",
    [
        FrankWolfe(step="fixed"),
        BlockFrankWolfe(step="fixed"),
        BlockFrankWolfe(step="fixed", sampling="uniform"),
        BlockFrankWolfe(step="fixed", sampling="gap"),
        BlockFrankWolfe(sampling="uniform"),
        BlockFrankWolfe(sampling="gap"),
    ],
    ids=str,
)
def test_every_step_rule_and_sampling_approaches_the_optimum(solver):
    spaces, problem = make_problem(11, alpha=1.0)
    best = solve(problem).objective
    start = start_near_observed(problem).dual(problem) - best
    result = solve(problem, solver, Stopping(tol=0.0, max_iter=300))
    end = dual_by_hand(spaces, problem, result.state.tau) - best
    assert -1e-9 <= end <= 0.1 * start
    for space, tau in zip(spaces, result.state.tau, strict=True):
        assert space.infeasibility(tau) < 1e-9


def test_start_near_observed_is_feasible_and_no_worse_than_the_interior():
    spaces, problem = make_problem(12, alpha=0.01)
    start = start_near_observed(problem)
    for space, tau in zip(spaces, start.tau, strict=True):
        assert space.infeasibility(tau) < 1e-9
        assert (tau[np.ptp(space.vertices, axis=0) > 0] > 0).all()
    interior = [b.structure.interior() for b in problem.blocks]
    assert start.dual(problem) <= dual_by_hand(spaces, problem, interior) + 1e-9


@pytest.mark.parametrize("n_iter", [1, 5, 40])
def test_averaging_returns_the_weighted_mean_of_the_iterates(n_iter):
    _, problem = make_problem(13)
    seen = []
    result = solve(
        problem,
        FrankWolfe(averaging=True),
        Stopping(tol=0.0, max_iter=n_iter, callback=lambda p: seen.append(p.theta.copy())),
    )
    weights = np.arange(1.0, len(seen) + 1)  # theta_bar <- k/(k+2) theta_bar + 2/(k+2) theta
    np.testing.assert_allclose(result.theta, weights @ seen / weights.sum(), rtol=1e-10)


@pytest.mark.parametrize("solver", [FrankWolfe(averaging=True), BlockFrankWolfe(averaging=True)])
@pytest.mark.parametrize("n_iter", [2, 30])
def test_certificate_of_an_averaged_theta_is_about_that_theta(solver, n_iter):
    _, problem = make_problem(14, alpha=0.1)
    result = solve(problem, solver, Stopping(tol=0.0, max_iter=n_iter))
    assert likelihood(problem, result.theta)[0] >= result.primal - 1e-9


def test_averaging_also_approaches_the_optimum():
    _, problem = make_problem(15, alpha=1.0)
    result = solve(problem, BlockFrankWolfe(averaging=True), Stopping(tol=1e-8, max_iter=1000))
    np.testing.assert_allclose(result.theta, solve(problem).theta, atol=0.02)


def test_block_frank_wolfe_repeats_itself_with_the_same_seed():
    _, problem = make_problem(16)
    stopping = Stopping(tol=0.0, max_iter=1)
    one, two, other = (
        solve(problem, "bcfw", stopping, random_state=np.random.default_rng(seed))
        for seed in (5, 5, 6)
    )
    np.testing.assert_array_equal(one.theta, two.theta)
    assert not np.array_equal(one.state.r, other.state.r)


@pytest.mark.parametrize("solver", ["newton", "lbfgs"])
def test_threads_do_not_change_the_answer(solver):
    _, problem = make_problem(17, n_blocks=8)
    one, two = (solve(problem, solver, n_jobs=n_jobs) for n_jobs in (1, 3))
    np.testing.assert_allclose(one.theta, two.theta, rtol=1e-12)


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
        Block(simplex, DenseFeatures(t), simplex.encode(y))
        for t, y in zip(tables, chosen, strict=True)
    ]
    return tables, chosen, simplex, DualProblem(blocks, 1.0)


@pytest.mark.parametrize("solver", ["newton", "lbfgs", Newton(), LBFGS()])
def test_missing_marginals_are_reported_before_any_work(solver):
    *_, simplex, problem = choice_problem(3)
    with pytest.raises(MissingCapability, match=r"marginal oracle.*Simplex.*'bcfw' or 'fw'"):
        make_solver(solver, problem)
    assert simplex.calls == 0


def test_newton_asks_for_a_dense_matrix_before_any_work():
    structure = complete(2).structure
    features = SparseFeatures(sparse.eye_array(4))
    problem = DualProblem([Block(structure, features, structure.encode([0, 1]))], 1.0)
    with pytest.raises(MissingCapability, match=r"SparseFeatures.*'lbfgs'"):
        make_solver("newton", problem)
    assert make_solver("auto", problem).name == "lbfgs"


@pytest.mark.parametrize(("n_blocks", "name"), [(1, "fw"), (6, "bcfw")])
def test_auto_learns_a_map_only_structure_by_frank_wolfe(n_blocks, name):
    tables, chosen, _, problem = choice_problem(n_blocks)
    chosen_solver = make_solver("auto", problem)
    assert chosen_solver.name == name

    def loss(theta):
        scores = tables @ theta
        fit = scores[np.arange(n_blocks), chosen]
        return (logsumexp(scores, axis=1) - fit).sum() + 0.5 * theta @ theta

    expected = minimize(loss, np.zeros(2), options={"gtol": 1e-10})
    result = solve(problem, "auto", Stopping(tol=1e-4, max_iter=20000, max_time=20))
    assert result.converged
    assert result.primal - 1e-9 <= -expected.fun <= result.objective + 1e-9
    np.testing.assert_allclose(result.theta, expected.x, atol=0.02)


def test_auto_prefers_newton_where_it_can():
    _, problem = make_problem(0)
    assert make_solver("auto", problem).name == "newton"


def test_unknown_solvers_and_bad_problems_are_refused():
    spaces, problem = make_problem(0)
    with pytest.raises(ValueError, match=r"solver.*'sgd'"):
        make_solver("sgd", problem)
    with pytest.raises(TypeError, match="solver"):
        make_solver(3, problem)
    with pytest.raises(ValueError, match="alpha"):
        DualProblem(problem.blocks, 0.0)
    with pytest.raises(ValueError, match="alpha"):
        problem.with_alpha(-1.0)
    with pytest.raises(ValueError, match="blocks"):
        DualProblem([], 1.0)
    structure = spaces[0].structure
    wide = Block(structure, DenseFeatures(np.ones((9, K + 1))), structure.encode([0, 1, 2]))
    with pytest.raises(ValueError, match=r"different numbers of features: \[3, 4\]"):
        DualProblem([problem.blocks[0], wide], 1.0)
