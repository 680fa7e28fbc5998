"""Sparse graphs with scores that are hard for matching algorithms in different ways."""

import numpy as np
from hypothesis import strategies as st

kinds = st.sampled_from(["normal", "ties", "equal", "blocks", "points", "flat", "peaked"])
densities = st.sampled_from([0.2, 0.4, 0.7, 1.0])
scales = st.sampled_from([1e-9, 1.0, 1e6])


def random_graph(rng, n, density):
    """ptr, col and the smaller ends of the edges."""
    chosen = np.triu(rng.random((n, n)) < density, 1)
    tail, head = np.nonzero(chosen)
    return np.concatenate([[0], np.cumsum(chosen.sum(axis=1))]), head, tail


def draw_scores(rng, n, tail, head, kind):
    size = tail.size
    if kind == "normal":
        return rng.normal(size=size)
    if kind == "ties":
        return rng.integers(-2, 4, size).astype(float)
    if kind == "equal":
        return np.ones(size)
    if kind == "blocks":  # odd groups that would rather stay among themselves
        group = rng.permutation(n) // rng.choice([3, 5])
        return np.where(group[tail] == group[head], 5 + rng.random(size), rng.random(size))
    if kind == "points":
        point = rng.random((n, 2))
        return -np.linalg.norm(point[tail] - point[head], axis=1)
    if kind == "flat":
        u = rng.normal(size=n)
        return u[tail] + u[head] + 1e-5 * rng.random(size)
    return np.exp(4 * rng.normal(size=size))
