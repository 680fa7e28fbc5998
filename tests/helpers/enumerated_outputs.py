"""0/1 outputs of small combinatorial spaces, all of them, and what follows from the list."""

from itertools import combinations, product

import numpy as np
from scipy.special import logsumexp


def spanning_trees(n_nodes, edges):
    """All spanning trees, shape (n_trees, n_edges)."""
    found = []
    for chosen in combinations(range(len(edges)), n_nodes - 1):
        group = list(range(n_nodes))
        for k in chosen:
            a, b = (group[v] for v in edges[k])
            group = [a if g == b else g for g in group]
        if len(set(group)) == 1:
            found.append(np.isin(np.arange(len(edges)), chosen))
    return np.array(found, dtype=float)


def directed_trees(n_nodes, edges):
    """All trees directed from node 0, shape (n_trees, n_edges)."""
    into = [[k for k, (_, b) in enumerate(edges) if b == v] for v in range(1, n_nodes)]
    found = []
    for chosen in product(*into):
        parent = {edges[k][1]: edges[k][0] for k in chosen}
        reached = {0}
        for _ in range(n_nodes):
            reached |= {v for v, u in parent.items() if u in reached}
        if len(reached) == n_nodes:
            found.append(np.isin(np.arange(len(edges)), chosen))
    return np.array(found, dtype=float)


def check_against_enumeration(structure, outputs, scores, rng, n_samples=1500):
    """Decoder, log Z, marginals, samples and bounds of a structure with an exact distribution."""
    from mlestruct.inference import log_partition_bounds

    totals = outputs @ scores
    log_z = logsumexp(totals)
    weights = np.exp(totals - log_z)
    tau = weights @ outputs
    slack = 1e-9 * (1 + np.abs(scores).sum())
    best = structure.label(structure.decode(scores).vertex)
    assert any(np.array_equal(best, output) for output in outputs)
    assert abs(best @ scores - totals.max()) <= slack
    exact = structure.exact(scores)
    assert abs(exact.log_partition - log_z) <= slack
    np.testing.assert_allclose(exact.tau, tau, atol=1e-8)
    assert ((exact.tau >= 0.0) & (exact.tau <= 1.0)).all()
    bounds = log_partition_bounds(structure, scores, tol=1e-2)
    assert bounds.lower <= log_z + slack
    assert log_z <= bounds.upper + slack
    drawn = exact.sample(n_samples, rng)
    known = {tuple(map(int, output)) for output in outputs}
    assert {tuple(map(int, label)) for label in drawn} <= known
    # Counts of rare coordinates are Poisson: ten more than expected is as unlikely as five sigma.
    variance = np.maximum(tau * (1 - tau), 0.0)  # tau may be 1 + rounding
    spread = 5 * np.sqrt(variance / n_samples) + 10 / n_samples
    assert (np.abs(drawn.mean(axis=0) - tau) <= spread).all()
