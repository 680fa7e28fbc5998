"""Noisy images and graphs with their labels, and likelihoods of models of them by enumeration."""

import numpy as np
import pytest
from labellings import Labellings, grid_edges, random_edges
from scipy.special import logsumexp


def images(n_images=4, shape=(4, 5), n_states=2, n_features=2, noise=1.0, seed=0):
    """Noisy images of patches and their labels."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(n_images):
        patches = rng.integers(n_states, size=(-(-shape[0] // 2), -(-shape[1] // 2)))
        y = np.kron(patches, np.ones((2, 2), dtype=int))[: shape[0], : shape[1]]
        x = noise * rng.normal(size=(*shape, n_features))
        x[..., 0] += y
        X.append(x)
        Y.append(y)
    Y[0].flat[:n_states] = np.arange(n_states)[: Y[0].size]  # every state occurs
    return X, Y


def graphs(n_graphs=5, n_states=2, edge_features=None, seed=0, n_nodes=6, density=0.5):
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(n_graphs):
        y = rng.integers(n_states, size=n_nodes)
        y[:n_states] = np.arange(n_states)
        edges = random_edges(rng, n_nodes, density)
        x = (np.eye(n_states)[y] + rng.normal(size=(n_nodes, n_states)), edges)
        if edge_features:
            x += (rng.normal(size=(len(edges), edge_features)),)
        X.append(x)
        Y.append(y)
    return X, Y


def as_graph(x, neighbours=4):
    """An image without edge features as a graph."""
    height, width = x.shape[:2]
    return x.reshape(height * width, -1), grid_edges(height, width, neighbours)


def hide(labels, hidden):
    """Labels, not known where `hidden`."""
    return np.where(hidden, np.nan, labels)


def exact_log_likelihood(model, x, y):
    """log p(y | x) of a graph sample by enumeration, from the documented formula."""
    nodes, edges = x[0], np.asarray(x[1], dtype=int).reshape(-1, 2)
    pairs = x[2] if len(x) == 3 else np.ones((len(edges), 1))
    n_states = len(model.classes_)
    space = Labellings(len(nodes), edges, n_states)
    scores = np.concatenate(
        [
            (nodes @ model.node_coef_.T).ravel(),
            np.einsum("ed,std->est", pairs, model.edge_coef_).ravel(),
        ]
    )
    totals = space.vertices @ scores
    return space.point(np.asarray(y)[None])[0] @ scores - logsumexp(totals)


def same_models(one, two, atol=1e-3):
    assert one.objective_bound_ == pytest.approx(two.objective_bound_, rel=1e-6, abs=1e-6)
    np.testing.assert_allclose(one.coef_, two.coef_, atol=atol)
