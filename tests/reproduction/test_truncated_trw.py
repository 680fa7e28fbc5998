"""Truncated message passing: the optimum of GridCRF with many sweeps, another point with few."""

import numpy as np
import pytest

from mlestruct import GridCRF
from reproduction.truncated_trw import fit_truncated, surrogate, truncated


def pictures(n=6, shape=(5, 6), seed=0):
    rng = np.random.default_rng(seed)
    Y = [(rng.normal(size=shape).cumsum(0).cumsum(1) > 0).astype(int) for _ in range(n)]
    X = [np.stack([np.ones(shape), y + rng.normal(size=shape)], axis=-1) for y in Y]
    return X, Y


def by_the_book(nodes, tables, edges, n_sweeps):
    """<scores, b> + H_rho(b) at rho = 1/2 after so many sweeps, with tables of two states.

    M[p, q] is the message from p to q, in logs. The belief of p is its score + sum of M[k, p] / 2;
    a message from p to q sums exp(2 E + belief of p - M[q, p]) over the states of p. All of it is
    analytic, so that complex steps give derivatives without rounding.
    """
    pair = {edge: tables[e] for e, edge in enumerate(edges)}
    pair |= {(q, p): table.T for (p, q), table in pair.items()}
    messages = {ends: np.zeros(2, dtype=complex) for ends in pair}

    def belief(p):
        return nodes[p] + 0.5 * sum(messages[ends] for ends in pair if ends[1] == p)

    def normal(logs):
        weights = np.exp(logs - logs.real.max())
        return weights / weights.sum()

    def entropy(b):
        return -(b * np.log(b)).sum()

    order = range(len(nodes))
    for _ in range(n_sweeps):
        for forwards in (True, False):
            for p in order if forwards else reversed(order):
                for q in order:
                    if (p, q) in pair and (q > p) == forwards:
                        cavity = belief(p) - messages[q, p]
                        out = np.log(np.exp(2.0 * pair[p, q] + cavity[:, None]).sum(axis=0))
                        messages[p, q] = out - out[0]
    total = 0.0
    for p in order:
        b, degree = normal(belief(p)), sum(ends[1] == p for ends in pair)
        total += b @ nodes[p] + (1.0 - 0.5 * degree) * entropy(b)
    for (p, q), table in zip(edges, tables, strict=True):
        ends = (belief(p) - messages[q, p])[:, None] + (belief(q) - messages[p, q])
        b = normal(2.0 * table + ends)
        total += (b * table).sum() + 0.5 * entropy(b)
    return total


def random_structure(shape=(3, 3), size=1.5, seed=1):
    """A grid and scores of all its coordinates."""
    X, Y = pictures(1, shape)
    structure = GridCRF()._problem(X, Y).blocks[0].structure
    return structure, size * np.random.default_rng(seed).normal(size=structure.n_coordinates)


@pytest.mark.parametrize("n_sweeps", [1, 3])
def test_value_and_gradient_are_those_of_the_sweeps_by_the_book(n_sweeps):
    structure, scores = random_structure()
    edges = list(zip(structure.graph.tail, structure.graph.head, strict=True))

    def book(scores):
        return by_the_book(*structure.score_tables(scores), edges, n_sweeps)

    value, gradient = truncated(structure, scores, n_sweeps)
    steps = 1e-30j * np.eye(scores.size)
    assert value == pytest.approx(book(scores.astype(complex)).real, rel=1e-12)
    expected = [book(scores + step).imag / 1e-30 for step in steps]
    np.testing.assert_allclose(gradient, expected, atol=1e-11)
    h = 1e-5 * np.eye(scores.size)
    differences = [
        (truncated(structure, scores + d, n_sweeps)[0]
         - truncated(structure, scores - d, n_sweeps)[0]) / 2e-5
        for d in h
    ]  # fmt: skip
    np.testing.assert_allclose(gradient, differences, atol=1e-6)


def test_large_scores_are_no_trouble():
    structure, scores = random_structure(size=2000.0)
    value, gradient = truncated(structure, scores, 5)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


def test_many_sweeps_give_the_marginals():
    structure, scores = random_structure((4, 5))
    best = structure.marginals(scores, None, 1e-12)
    value, gradient = truncated(structure, scores, 300)
    assert value == pytest.approx(best.value, abs=1e-9)
    np.testing.assert_allclose(gradient, best.tau, atol=1e-6)


def test_gradient_of_the_likelihood_is_its_difference_quotient():
    X, Y = pictures()
    problem = GridCRF(alpha=2.0)._problem(X, Y)
    theta = np.random.default_rng(2).normal(size=problem.n_features)
    _, gradient = surrogate(problem, theta, 2)
    for k, step in enumerate(1e-5 * np.eye(theta.size)):
        up, down = (surrogate(problem, theta + d, 2)[0] for d in (step, -step))
        assert gradient[k] == pytest.approx((up - down) / 2e-5, abs=1e-6)


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


def test_every_iteration_is_seen_and_may_be_the_last():
    X, Y = pictures()
    _, _, seen = fitted(GridCRF(alpha=1.0), X, Y, 5)
    assert [iteration for iteration, _, _ in seen] == list(range(len(seen)))
    assert not seen[0][1].any()
    problem = GridCRF(alpha=1.0)._problem(X, Y)
    assert not fit_truncated(problem, 5, lambda *_: True)[1]
    theta, converged = fit_truncated(problem, 5, lambda iteration, *_: iteration == 3)
    assert not converged
    np.testing.assert_allclose(theta, seen[3][1], atol=1e-6)
