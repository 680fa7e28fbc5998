"""Features of pairwise models, and learning with them, against dense matrices and enumeration."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labellings import Labellings, averaged_trees, grid_edges, random_edges, random_forest
from random_scores import generators
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import logsumexp

from mlestruct.features import BinaryFeatures, Levels, StateFeatures
from mlestruct.features.pairwise import MergedEdges
from mlestruct.features.rows import ConstantRows, DenseRows, RowGroups, SparseRows
from mlestruct.learning import (
    LBFGS,
    Block,
    BlockFrankWolfe,
    DualProblem,
    FrankWolfe,
    Stopping,
    make_solver,
)
from mlestruct.learning.preconditioner import preconditioner
from mlestruct.structures import BinaryPairwise, Pairwise, PairwiseGraph, grid

examples = settings(deadline=None, max_examples=25)


# ---------------------------------------------------------------------- rows
def make_rows(kind, rng, n=11):
    """Rows of a kind, and the matrix they stand for."""
    if kind == "constant":
        return ConstantRows(n), np.ones((n, 1))
    if kind == "levels":
        rows = Levels(rng.integers(0, 4, size=(n, 2)), [3, 3])
        return rows, rows.dense()
    if kind == "groups":  # two groups with columns of their own, and a third that borrows
        first, one = make_rows("dense", rng, 4)
        second, two = make_rows("levels", rng, 5)
        third, three = make_rows("sparse", rng, n - 9)
        matrix = np.zeros((n, 3 + 7))
        matrix[:4, :3], matrix[4:9, 3:], matrix[9:, 1:4] = one, two, three
        return RowGroups([first, second, third], [0, 3, 1], 10), matrix
    matrix = rng.normal(size=(n, 3))
    if kind == "sparse":
        matrix[rng.random(matrix.shape) < 0.5] = 0.0
        return SparseRows(sparse.csr_array(matrix)), matrix
    if kind == "integers":
        matrix = rng.integers(-3, 4, size=(n, 3))
    if kind == "single":
        matrix = matrix.astype(np.float32)
    return DenseRows(matrix), matrix.astype(np.float64)


ROWS = ["dense", "single", "integers", "sparse", "constant", "levels", "groups"]


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("width", [None, 1, 3])
def test_rows_multiply_like_their_matrix(kind, width):
    rng = np.random.default_rng(0)
    rows, matrix = make_rows(kind, rng)
    columns = () if width is None else (width,)
    weights = rng.normal(size=(matrix.shape[1], *columns))
    values = rng.normal(size=(matrix.shape[0], *columns))
    atol = 1e-5 if kind == "single" else 1e-12
    assert (len(rows), rows.n_features) == matrix.shape
    np.testing.assert_allclose(rows.scores(weights), matrix @ weights, atol=atol)
    np.testing.assert_allclose(rows.moments(values), matrix.T @ values, atol=atol)
    np.testing.assert_allclose(rows.gram(), matrix.T @ matrix, atol=atol)
    assert rows.scores(weights).dtype == rows.moments(values).dtype == np.float64
    for kept in (np.array([0, 2, 5, 9, 10]), np.arange(3, 8), np.zeros(0, dtype=int)):
        part = rows.take(kept)
        assert len(part) == len(kept)
        np.testing.assert_allclose(part.scores(weights), matrix[kept] @ weights, atol=atol)
        np.testing.assert_allclose(
            part.moments(values[: len(kept)]), matrix[kept].T @ values[: len(kept)], atol=atol
        )


def test_scores_of_rows_can_be_written_to():
    rng = np.random.default_rng(0)
    for kind in ROWS:
        rows, matrix = make_rows(kind, rng)
        scores = rows.scores(np.zeros((matrix.shape[1], 2)))
        scores += 1.0
        assert rows.scores(np.zeros((matrix.shape[1], 2))).max() == 0.0


def test_large_single_precision_sums_are_kept_in_double_precision():
    matrix = np.random.default_rng(0).normal(size=(50_000, 2)).astype(np.float32)
    rows = DenseRows(matrix)
    exact = matrix.astype(np.float64).sum(axis=0)
    np.testing.assert_allclose(rows.moments(np.ones(50_000)), exact, rtol=1e-9)
    np.testing.assert_allclose(rows.moments(np.ones((50_000, 2)))[:, 0], exact, atol=0.05)


def test_second_moments_of_many_rows_are_estimated():
    matrix = np.random.default_rng(0).normal(size=(70_001, 2))
    np.testing.assert_allclose(
        DenseRows(matrix).gram(), matrix.T @ matrix, atol=0.05 * len(matrix), rtol=0.05
    )


def test_wide_sparse_rows_have_a_diagonal_of_second_moments():
    matrix = sparse.random(20, 2500, density=0.01, random_state=0, format="csr")
    gram = SparseRows(matrix).gram()
    np.testing.assert_allclose(gram, (matrix.toarray() ** 2).sum(axis=0))
    within = RowGroups([SparseRows(matrix), DenseRows(matrix.toarray()[:3])], [0, 0], 2500).gram()
    assert within.shape == (2500, 2500)


# ---------------------------------------------------------------------- scores and moments
def score_by_hand(label, listed, nodes, edges, node_weights, edge_weights):
    """Score of a labelling from the definition, edge by listed edge."""
    total = sum(node_weights[s] @ u for s, u in zip(label, nodes, strict=True))
    for (i, j), v in zip(listed, edges, strict=True):
        total += edge_weights[label[i], label[j]] @ v
    return total


def draw_features(rng, n_states, repeated, n_nodes=5):
    """A graph, features of nodes and listed edges, and both feature maps over them."""
    edges = random_edges(rng, n_nodes, 0.6)
    listed, merged = edges, None
    if repeated and len(edges):
        number = rng.integers(len(edges), size=2 * len(edges))
        flipped = rng.random(2 * len(edges)) < 0.5
        flipped[0] = True
        listed = np.where(flipped[:, None], edges[number][:, ::-1], edges[number])
        merged = MergedEdges(number, flipped)
    nodes, pairs = rng.normal(size=(n_nodes, 2)), rng.normal(size=(len(listed), 3))
    graph = PairwiseGraph(n_nodes, edges)
    parts = (graph, DenseRows(nodes), DenseRows(pairs))
    maps = [StateFeatures(*parts, n_states, merged)]
    if n_states == 2:
        maps.append(BinaryFeatures(*parts, merged))
    return Labellings(n_nodes, edges, n_states), listed, nodes, pairs, maps


@examples
@given(generators, st.sampled_from([2, 3]), st.booleans())
def test_scores_are_those_of_the_definition(rng, n_states, repeated):
    space, listed, nodes, pairs, maps = draw_features(rng, n_states, repeated)
    theta = rng.normal(size=maps[0].n_features)
    split = 2 * n_states
    node_weights = theta[:split].reshape(n_states, 2)
    edge_weights = theta[split:].reshape(n_states, n_states, 3)
    picked = space.labels[rng.choice(len(space.labels), size=6)]
    by_hand = np.array(
        [score_by_hand(y, listed, nodes, pairs, node_weights, edge_weights) for y in picked]
    )
    found = space.point(picked) @ maps[0].scores(theta)
    np.testing.assert_allclose(found, by_hand, atol=1e-10)
    if n_states == 2:  # relative to the labelling that is 0 everywhere
        zero = score_by_hand(
            np.zeros(5, dtype=int), listed, nodes, pairs, node_weights, edge_weights
        )
        minimal = np.array([space.drop(point) for point in space.point(picked)])
        np.testing.assert_allclose(minimal @ maps[1].scores(theta), by_hand - zero, atol=1e-10)


@examples
@given(generators, st.sampled_from([2, 3]), st.booleans())
def test_moments_are_the_adjoint_of_scores(rng, n_states, repeated):
    space, _, _, _, maps = draw_features(rng, n_states, repeated)
    theta = rng.normal(size=maps[0].n_features)
    for features in maps:
        tau = rng.normal(size=features.n_scored)
        scores = features.scores(theta)
        assert scores.shape == (features.n_scored,)
        assert features.moments(tau) @ theta == pytest.approx(scores @ tau, abs=1e-9)
        some = rng.choice(features.n_scored, size=min(3, features.n_scored), replace=False)
        dense = np.zeros(features.n_scored)
        dense[some] = tau[some]
        np.testing.assert_allclose(
            features.moments_at(some, tau[some]), features.moments(dense), atol=1e-12
        )
    if n_states == 2:
        a, b = space.random_point(rng), space.vertices[rng.integers(len(space.vertices))]
        np.testing.assert_allclose(
            maps[1].moments(space.drop(b)) - maps[1].moments(space.drop(a)),
            maps[0].moments(b - a),
            atol=1e-10,
        )


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (4, 1), (3, 4)])
@pytest.mark.parametrize("n_states", [2, 3])
def test_grids_have_the_scores_of_their_graph(shape, n_states):
    rng = np.random.default_rng(0)
    edges = grid_edges(*shape)
    n_nodes = shape[0] * shape[1]
    rows = (DenseRows(rng.normal(size=(n_nodes, 2))), DenseRows(rng.normal(size=(len(edges), 2))))
    kind = BinaryFeatures if n_states == 2 else StateFeatures
    states = () if n_states == 2 else (n_states,)
    one = kind(grid(*shape), *rows, *states)
    two = kind(PairwiseGraph(n_nodes, edges), *rows, *states)
    theta, tau = rng.normal(size=one.n_features), rng.normal(size=one.n_scored)
    np.testing.assert_allclose(one.scores(theta), two.scores(theta), atol=1e-12)
    np.testing.assert_allclose(one.moments(tau), two.moments(tau), atol=1e-12)


@pytest.mark.parametrize("n_states", [2, 3])
def test_single_precision_changes_little(n_states):
    rng = np.random.default_rng(0)
    nodes, pairs = rng.normal(size=(12, 4)), rng.normal(size=(17, 3))
    maps = []
    for precision in (np.float32, np.float64):
        rows = (DenseRows(nodes.astype(precision)), DenseRows(pairs.astype(precision)))
        maps.append(
            BinaryFeatures(grid(3, 4), *rows)
            if n_states == 2
            else StateFeatures(grid(3, 4), *rows, n_states)
        )
    theta, tau = rng.normal(size=maps[0].n_features), rng.random(maps[0].n_scored)
    np.testing.assert_allclose(maps[0].scores(theta), maps[1].scores(theta), atol=1e-5)
    np.testing.assert_allclose(maps[0].moments(tau), maps[1].moments(tau), atol=1e-5)


# ---------------------------------------------------------------------- learning
def make_problem(n_states=2, minimal=True, seed=0, alpha=0.5, n_blocks=3, rho=None, forest=False):
    """Small graphs with random features and labels; returns (spaces, problem)."""
    rng = np.random.default_rng(seed)
    spaces, blocks = [], []
    for m in range(n_blocks):
        n_nodes = 3 + m % 3
        edges = random_forest(rng, n_nodes) if forest else random_edges(rng, n_nodes, 0.8)
        weights = averaged_trees(rng, n_nodes, edges) if rho is None else rho
        graph = PairwiseGraph(n_nodes, edges)
        rows = (DenseRows(rng.normal(size=(n_nodes, 2))), ConstantRows(len(edges)))
        if minimal and n_states == 2:
            structure = BinaryPairwise(graph, weights)
            features = BinaryFeatures(graph, *rows)
        else:
            structure = Pairwise(graph, n_states, weights)
            features = StateFeatures(graph, *rows, n_states)
        label = rng.integers(n_states, size=n_nodes)
        weight = rng.uniform(0.5, 2.0)
        blocks.append(Block(structure, features, structure.encode(label), weight))
        spaces.append(Labellings(n_nodes, edges, n_states, structure.reweighting.rho))
    return spaces, DualProblem(blocks, alpha)


def likelihood(problem, theta, tol=1e-11):
    """(P(theta), its gradient) from the marginal oracle."""
    found = [b.structure.marginals(b.scores(theta), tol=tol) for b in problem.blocks]
    moments = [b.moments(f.tau) for b, f in zip(problem.blocks, found, strict=True)]
    gradient = problem.target - problem.weights @ np.array(moments) - problem.alpha * theta
    return problem.primal(theta, problem.weights @ [f.value for f in found]), gradient


def solve(problem, solver="auto", tol=1e-9, max_iter=500):
    stopping = Stopping(tol=tol, max_iter=max_iter, max_time=20)
    return make_solver(solver, problem).solve(
        problem, stopping, random_state=np.random.default_rng(0)
    )


@pytest.mark.parametrize(("n_states", "minimal"), [(2, True), (2, False), (3, False)])
def test_gradient_of_the_likelihood_equals_finite_differences(n_states, minimal):
    _, problem = make_problem(n_states, minimal)
    rng = np.random.default_rng(1)
    theta = 0.3 * rng.normal(size=problem.n_features)
    gradient = likelihood(problem, theta)[1]
    for _ in range(4):
        step = 1e-4 * rng.normal(size=theta.shape)
        rise = likelihood(problem, theta + step)[0] - likelihood(problem, theta - step)[0]
        assert rise == pytest.approx(2 * gradient @ step, abs=1e-8)


@pytest.mark.parametrize(("n_states", "minimal"), [(2, True), (2, False), (3, False)])
def test_moments_match_at_the_optimum(n_states, minimal):
    _, problem = make_problem(n_states, minimal)
    result = solve(problem, tol=1e-11)
    assert result.converged
    assert isinstance(make_solver("auto", problem), LBFGS)
    _, gradient = likelihood(problem, result.theta)
    assert np.abs(gradient).max() <= 1e-4
    # theta = (observed - expected) / alpha, and both sums over states vanish.
    split = 2 * n_states
    assert np.abs(result.theta[:split].reshape(n_states, 2).sum(axis=0)).max() < 1e-4


@pytest.mark.parametrize("n_states", [2, 3])
def test_forests_reach_the_exact_maximum_of_the_likelihood(n_states):
    spaces, problem = make_problem(n_states, forest=True, rho="auto", n_blocks=4)

    def loss(theta):
        total = 0.5 * problem.alpha * theta @ theta
        for space, block in zip(spaces, problem.blocks, strict=True):
            scores = block.scores(theta)
            full = space.lift_scores(scores) if n_states == 2 else scores
            total -= block.weight * (block.observed.dot(scores) - logsumexp(space.vertices @ full))
        return total

    reference = minimize(loss, np.zeros(problem.n_features), options={"gtol": 1e-7})
    result = solve(problem)
    assert result.converged
    assert result.objective == pytest.approx(-reference.fun, abs=1e-6)
    np.testing.assert_allclose(result.theta, reference.x, atol=1e-3)


def test_two_states_in_both_coordinates_learn_the_same():
    one, two = (solve(make_problem(2, minimal)[1], tol=1e-10) for minimal in (True, False))
    assert one.objective == pytest.approx(two.objective, abs=1e-8)
    np.testing.assert_allclose(one.theta, two.theta, atol=1e-4)


SOLVERS = ["lbfgs", FrankWolfe(), FrankWolfe(step="fixed"), BlockFrankWolfe()]


@pytest.mark.parametrize(("n_states", "minimal"), [(2, True), (2, False), (3, False)])
@pytest.mark.parametrize("solver", SOLVERS, ids=str)
def test_all_solvers_enclose_the_same_optimum(solver, n_states, minimal):
    _, problem = make_problem(n_states, minimal, alpha=1.0)
    reference = solve(problem, tol=1e-10)
    result = solve(problem, solver, tol=1e-3, max_iter=300)
    assert result.primal <= reference.objective + 1e-8
    assert result.objective >= reference.primal - 1e-8
    assert likelihood(problem, result.theta)[0] <= reference.objective + 1e-8
    assert likelihood(problem, result.theta)[0] >= result.primal - 1e-8
    assert result.gap < (1e-2 if solver == "lbfgs" else 0.5)
    # P is strongly concave.
    distance = np.linalg.norm(result.theta - reference.theta)
    assert distance <= np.sqrt(2 * (result.gap + 1e-8) / problem.alpha)


@pytest.mark.parametrize("n_states", [2, 3])
@pytest.mark.parametrize("solver", ["fw", "bcfw"])
def test_paper_algorithms_run_on_grids(solver, n_states):
    rng = np.random.default_rng(0)
    blocks = []
    for _ in range(3):
        graph = grid(3, 3)
        label = rng.integers(n_states, size=9)
        rows = (DenseRows(np.eye(n_states)[label] + rng.normal(size=(9, n_states))),)
        rows += (ConstantRows(graph.n_edges),)
        if n_states == 2:
            structure, features = BinaryPairwise(graph), BinaryFeatures(graph, *rows)
        else:
            structure, features = Pairwise(graph, 3), StateFeatures(graph, *rows, 3)
        blocks.append(Block(structure, features, structure.encode(label)))
    problem = DualProblem(blocks, 1.0)
    reference = solve(problem, tol=1e-8)
    assert reference.converged
    result = solve(problem, solver, tol=1e-2, max_iter=200)
    assert result.primal <= reference.objective + 1e-8
    assert result.objective >= reference.primal - 1e-8


def test_preconditioner_is_symmetric_and_positive():
    _, problem = make_problem(3, False)
    apply = preconditioner(problem)
    matrix = np.array([apply(row) for row in np.eye(problem.n_features)])
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-12)
    assert np.linalg.eigvalsh(matrix).min() > 0
    # Where features say nothing, only the regularisation is left.
    silent = problem.with_alpha(1e12)
    np.testing.assert_allclose(
        preconditioner(silent)(np.ones(problem.n_features)), 1e-12, rtol=1e-6
    )
