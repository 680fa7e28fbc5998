"""A small quadratic program over the simplex."""

import numpy as np

from .._compile import kernel


@kernel
def minimise_on_simplex(gram, linear, start, iterations):
    """Minimise w' gram w / 2 - linear' w over the simplex by pairwise Frank-Wolfe steps."""
    n = start.shape[0]
    w = start.copy()
    slope = np.empty(n)
    scale = 1e-300
    for k in range(n):
        total = -linear[k]
        for q in range(n):
            total += gram[k, q] * w[q]
        slope[k] = total
        scale = max(scale, abs(total))
    for _ in range(iterations):
        to = 0
        away = -1
        for k in range(n):
            if slope[k] < slope[to]:
                to = k
            if w[k] > 0.0 and (away < 0 or slope[k] > slope[away]):
                away = k
        descent = slope[away] - slope[to]
        if descent <= 1e-14 * scale:
            break
        curvature = gram[to, to] + gram[away, away] - 2.0 * gram[to, away]
        step = w[away]
        if curvature > 0.0:
            step = min(step, descent / curvature)
        w[to] += step
        w[away] = max(w[away] - step, 0.0)
        for k in range(n):
            slope[k] += step * (gram[k, to] - gram[k, away])
    return w / w.sum()
