"""Scores of binary pairwise problems, max of unary . x + sum of coupling x_i x_j, of many kinds."""

import numpy as np
from hypothesis import strategies as st

kinds = st.sampled_from(["normal", "weak", "integers", "balanced", "attractive", "scales", "zero"])


def draw_problem(rng, n, tail, head, kind):
    m = tail.size
    if kind == "integers":
        return rng.integers(-3, 4, n).astype(float), rng.integers(-3, 4, m).astype(float)
    if kind == "scales":
        return (
            rng.normal(size=n) * 10.0 ** rng.integers(-9, 10, n),
            rng.normal(size=m) * 10.0 ** rng.integers(-9, 10, m),
        )
    if kind == "zero":
        return np.zeros(n), rng.integers(-1, 2, m).astype(float)
    unary, coupling = rng.normal(size=n), rng.normal(size=m)
    if kind == "weak":
        return unary, 0.1 * coupling
    if kind == "attractive":
        coupling = np.abs(coupling)
    if kind == "balanced":  # many ties, many undecided nodes
        coupling = rng.integers(-2, 3, m).astype(float)
        unary = rng.integers(-1, 2, n).astype(float)
    np.subtract.at(unary, tail, coupling / 2)
    np.subtract.at(unary, head, coupling / 2)
    return unary, coupling
