"""Truncated message passing: the optimum of GridCRF with many sweeps, another point with few."""

import numpy as np
import pytest
from scipy.special import logsumexp, xlogy

from mlestruct import GridCRF
from reproduction.truncated_trw import fit_truncated, surrogate, truncated_marginals


def pictures(n=6, shape=(5, 6), seed=0):
    rng = np.random.default_rng(seed)
    Y = [(rng.normal(size=shape).cumsum(0).cumsum(1) > 0).astype(int) for _ in range(n)]
    X = [np.stack([np.ones(shape), y + rng.normal(size=shape)], axis=-1) for y in Y]
    return X, Y


def log_domain_sweeps(field, coupling_right, coupling_down, n_sweeps):
    """Sequential tree-reweighted passing at rho = 1/2 by the book: log messages, 2-state tables.

    M[p, q] is the message from pixel p to its neighbour q. The belief of p is
    field_p + sum over neighbours of M[q, p] / 2; a message from p to q sums
    exp(2 * coupling + belief_p - M[q, p]) over the states of p.
    """
    height, width = field.shape
    pixels = [(i, j) for i in range(height) for j in range(width)]
    coupling = {}
    for i, j in pixels:
        if j + 1 < width:
            coupling[(i, j), (i, j + 1)] = coupling_right[i, j]
        if i + 1 < height:
            coupling[(i, j), (i + 1, j)] = coupling_down[i, j]
    coupling |= {(q, p): w for (p, q), w in coupling.items()}
    messages = {pair: np.zeros(2) for pair in coupling}

    def belief(p):
        own = np.array([0.0, field[p]])
        return own + 0.5 * sum(messages[pair] for pair in messages if pair[1] == p)

    for _ in range(n_sweeps):
        for order, later in ((pixels, 1), (pixels[::-1], -1)):
            for p in order:
                for q in pixels:
                    if (p, q) in coupling and (q > p) == (later > 0):
                        table = np.zeros((2, 2))
                        table[1, 1] = 2.0 * coupling[p, q]
                        out = logsumexp(table + (belief(p) - messages[q, p])[:, None], axis=0)
                        messages[p, q] = out - out[0]
    beliefs = np.array([belief(p) for p in pixels])
    return np.exp(beliefs[:, 1] - logsumexp(beliefs, axis=1)).reshape(height, width)


def half_chains(scores, structure, tau):
    """<scores, tau> + H at rho = 1/2."""
    nodes, tables = structure.node_marginals(tau), structure.edge_marginals(tau)
    weights = 1.0 - 0.5 * structure.graph.degree
    entropy = -(weights @ xlogy(nodes, nodes).sum(axis=1)) - 0.5 * xlogy(tables, tables).sum()
    return scores @ tau + entropy


@pytest.mark.parametrize("n_sweeps", [1, 3])
def test_marginals_are_those_of_so_many_sweeps_from_uniform_messages(n_sweeps):
    rng = np.random.default_rng(1)
    field, right, down = (2.0 * rng.normal(size=s) for s in ((3, 4), (3, 3), (2, 4)))
    X, Y = pictures(1, (3, 4))
    structure = GridCRF()._problem(X, Y).blocks[0].structure
    couplings = np.concatenate([right.ravel(), down.ravel()])
    tables = couplings[:, None, None] * [[0.0, 0.0], [0.0, 1.0]]
    scores = structure.from_tables(field.reshape(-1, 1) * [0.0, 1.0], tables)
    tau, value = truncated_marginals(structure, scores, n_sweeps)
    nodes, pairs = structure.node_marginals(tau), structure.edge_marginals(tau)
    on = log_domain_sweeps(field, right, down, n_sweeps)
    np.testing.assert_allclose(nodes[:, 1], on.ravel(), rtol=1e-7, atol=1e-10)
    assert pairs.min() >= 0.0
    np.testing.assert_allclose(pairs.sum(axis=2), nodes[structure.graph.tail], atol=1e-12)
    np.testing.assert_allclose(pairs.sum(axis=1), nodes[structure.graph.head], atol=1e-12)
    attained = half_chains(scores, structure, tau)
    assert attained * (1.0 - 1e-3) <= value <= attained + 1e-12  # divergences are bounded


def test_gradient_is_the_difference_of_moments_at_the_truncated_marginals():
    X, Y = pictures()
    problem = GridCRF(alpha=2.0)._problem(X, Y)
    theta = np.random.default_rng(2).normal(size=problem.n_features)
    found, slope = surrogate(problem, theta, 2)
    gradient = -2.0 * theta
    value = -1.0 * theta @ theta
    for x, y, block in zip(X, Y, problem.blocks, strict=True):
        tau, log_partition = truncated_marginals(block.structure, block.scores(theta), 2)
        tables = block.structure.edge_marginals(tau)
        shape = {"right": (5, 5), "down": (4, 6)}
        ends = {
            "right": (y[:, :-1], y[:, 1:], tables[:25]),
            "down": (y[:-1], y[1:], tables[25:]),
        }
        on = block.structure.node_marginals(tau)[:, 1].reshape(5, 6)
        difference = np.einsum("hwc,hw->c", x, y - on)
        edges = np.zeros((2, 2))
        for name, (a, b, table) in ends.items():
            table = table.reshape(*shape[name], 2, 2)
            for s in range(2):
                for t in range(2):
                    edges[s, t] += ((a == s) & (b == t)).sum() - table[..., s, t].sum()
        gradient += np.concatenate([-difference, difference, edges.ravel()])
        value += block.observed.dot(block.scores(theta)) - log_partition
    np.testing.assert_allclose(slope, gradient, atol=1e-10)
    assert found == pytest.approx(value)


def fitted(model, X, Y, n_sweeps, **options):
    """theta, whether it converged, and what `watch` was called with."""
    seen = []
    problem = model._problem(X, Y)
    found = fit_truncated(problem, n_sweeps, lambda *at: seen.append(at), **options)
    return *found, seen


def test_many_sweeps_lead_to_the_optimum_of_grid_crf():
    X, Y = pictures()
    best = GridCRF(alpha=0.5, tol=1e-9).fit(X, Y)
    theta, converged, seen = fitted(GridCRF(alpha=0.5), X, Y, 200, tol=1e-13)
    np.testing.assert_allclose(theta, best.coef_, atol=1e-4)
    assert converged
    assert max(value for _, _, value in seen) == pytest.approx(best.objective_bound_, rel=1e-7)


def test_few_sweeps_end_somewhere_else():
    X, Y = pictures(seed=3)
    best = GridCRF(alpha=0.01, tol=1e-9).fit(X, Y)
    distances = [
        np.linalg.norm(fitted(GridCRF(alpha=0.01), X, Y, n)[0] - best.coef_) for n in (1, 4, 100)
    ]
    assert distances[0] > 10 * distances[2]
    assert distances[1] > 2 * distances[2]


def test_the_surrogate_is_an_upper_bound():
    X, Y = pictures()
    best = GridCRF(alpha=1.0, tol=1e-8).fit(X, Y)
    problem = best._problem(X, Y)
    for n_sweeps in (1, 5):
        assert surrogate(problem, best.coef_, n_sweeps)[0] >= best.objective_bound_ - 1e-5


def test_every_iteration_is_seen_and_may_be_the_last():
    X, Y = pictures()
    _, _, seen = fitted(GridCRF(alpha=1.0), X, Y, 5)
    assert [iteration for iteration, _, _ in seen] == list(range(len(seen)))
    assert not seen[0][1].any()
    problem = GridCRF(alpha=1.0)._problem(X, Y)
    theta, converged = fit_truncated(problem, 5, lambda iteration, *_: iteration == 3)
    assert not converged
    np.testing.assert_allclose(theta, seen[3][1], atol=1e-6)
