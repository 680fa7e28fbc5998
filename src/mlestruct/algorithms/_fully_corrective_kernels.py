"""Kernels on the hull of known outputs, for separable entropies.

max <s, tau> + H(tau) over tau = V'w, w on the simplex,   H = sum -a t log t + c (1-t) log(1-t)
"""

from math import exp, log, log1p

import numpy as np

from .._compile import kernel

FLOOR = 1e-300
COMPLEMENT_FLOOR = 1e-16  # of 1 - t, which carries no more digits
TINY = 1e-9  # a weight that is almost none


@kernel
def slopes(tau, a, c, s, shift, grad, bend):
    """The gradient s + h'(tau) and the curvature -h''(tau), of t + shift and 1 - t + shift."""
    for k in range(tau.shape[0]):
        t, q = max(tau[k] + shift, FLOOR), max(1.0 - tau[k], COMPLEMENT_FLOOR) + shift
        grad[k] = s[k] - a[k] * (log(t) + 1.0) - c[k] * (log(q) + 1.0)
        bend[k] = a[k] / t - c[k] / q


@kernel
def step(V, w, moved, t, cut, tau):
    """cut = w + t moved, cut at 0, and tau = V' cut."""
    total = 0.0
    for j in range(w.shape[0]):
        x = w[j] + t * moved[j]
        cut[j] = x if x > 1e-14 else 0.0
        total += cut[j]
    tau[:] = 0.0
    for j in range(w.shape[0]):
        if cut[j] > 0.0:
            cut[j] /= total
            for k in range(tau.shape[0]):
                tau[k] += cut[j] * V[j, k]


@kernel
def newton_step(A, rhs):
    """A^-1 rhs, regularised where outputs depend on one another."""
    ridge = 1e-10
    scale = np.empty(rhs.shape[0])
    for i in range(rhs.shape[0]):
        scale[i] = 1.0 / np.sqrt(max(abs(A[i, i]), FLOOR))
    A = A * scale * scale.reshape(-1, 1)
    while True:
        for i in range(rhs.shape[0]):
            A[i, i] = 1.0 + ridge
        d = scale * np.linalg.solve(A, scale * rhs)
        if d @ rhs > 0.0 or ridge > 1.0:
            return d
        ridge *= 1e3


@kernel
def maximise(V, a, c, s, shift, w, tau, tol, max_iter):
    """Active-set Newton, w and tau in place; the gap over the hull.

    Outputs of positive weight and those of the largest gradient move; the one of largest weight
    makes up for the sum.
    """
    n_outputs, n = V.shape
    grad, bend = np.empty(n), np.empty(n)
    trial, after, unused = np.empty(n), np.empty(n), np.empty(n)
    ids = np.empty(n_outputs, dtype=np.int64)
    moved, cut = np.empty(n_outputs), np.empty(n_outputs)
    gap = np.inf
    for _ in range(max_iter):
        slopes(tau, a, c, s, shift, grad, bend)
        here = grad @ tau
        p = V @ grad
        best = np.argmax(p)
        ids[0] = np.argmax(w)
        gap = p[best] - here
        if gap <= tol:
            break
        size = entering = 1
        for j in range(n_outputs):
            if w[j] > 0.0 and j != ids[0]:
                ids[size] = j
                size += 1
        if w[best] == 0.0:
            ids[size] = best
            size += 1
        for j in range(n_outputs):
            if entering < 4 and w[j] == 0.0 and j != best and p[j] > here + 0.5 * gap:
                ids[size] = j
                size += 1
                entering += 1
        used, E = ids[1:size], V[ids[1:size]] - V[ids[0]]
        A, rhs, d = (E * bend) @ E.T, p[used] - p[ids[0]], np.zeros(0)
        while used.size > 0:
            d = newton_step(A, rhs)
            # Outputs without weight that the step would make negative leave at once.
            kept = np.flatnonzero((w[used] > TINY) | (w[used] + d >= 0.0))
            if kept.size == used.size:
                break
            used, A, rhs = used[kept], A[kept][:, kept], rhs[kept]
        if used.size == 0 or not d @ rhs > 0.0:
            break
        moved[:] = -w
        moved[used] = d
        moved[ids[0]] = 1.0 - w[ids[0]] - (w[used] + d).sum()
        # The whole step, weights cut at 0, if the value still increases enough.
        step(V, w, moved, 1.0, cut, trial)
        first = grad @ (trial - tau)
        slopes(trial, a, c, s, shift, after, unused)
        if not (first >= 0.3 * (d @ rhs) and after @ (trial - tau) >= -0.3 * first):
            t = 1.0
            for j in range(n_outputs):
                if moved[j] < 0.0:
                    t = min(t, -w[j] / moved[j])
            for _ in range(40):  # a shorter one, as long as weights are positive
                step(V, w, moved, t, cut, trial)
                slopes(trial, a, c, s, shift, after, unused)
                if after @ (trial - tau) >= -0.3 * grad @ (trial - tau):
                    break
                t *= 0.5
        w[:] = cut
        tau[:] = trial
    return gap


@kernel
def finite_slopes(tau, a, c, s, shift, eta, out):
    """s + [h((1 - eta) tau + eta) - h((1 - eta) tau)] / eta.

    The 0/1 output that is best after a step of length eta has the largest score here. The limit
    for eta -> 0 is the gradient; these slopes are finite where that is not. eta = 0 gives the
    gradient at tau + shift.
    """
    if eta == 0.0:
        slopes(tau, a, c, s, shift, out, np.empty(tau.shape[0]))
        return
    for k in range(tau.shape[0]):
        low = (1.0 - eta) * tau[k]
        high = low + eta
        x = a[k] * (low * log(max(low, FLOOR)) - high * log(max(high, FLOOR)))
        if c[k] != 0.0:
            q, p = max(1.0 - high, 0.0), max(1.0 - low, 0.0)
            x += c[k] * (q * log(max(q, FLOOR)) - p * log(max(p, FLOOR)))
        out[k] = s[k] + x / eta


@kernel
def bound_from_calls(queries, sigmas, s, a, c, fixed):
    """An upper bound of max <s, tau> + H(tau) over the polytope: the best that a former call gives.

    sigma = max over outputs of <query, output> gives the bound sigma + H*(s - query). `fixed` is
    the value of coordinates that do not vary, NaN for others; c <= 0 makes H concave.
    """
    best = np.inf
    for j in range(sigmas.shape[0]):
        total = sigmas[j]
        for k in range(s.shape[0]):
            total += conjugate(s[k] - queries[j, k], a[k], c[k], fixed[k])
            if total == np.inf:
                break
        best = min(best, total)
    return best


@kernel
def conjugate(z, a, c, fixed):
    """max over t in [0, 1] (t >= 0 if c = 0) of z t - a t log t + c (1-t) log(1-t), from above."""
    if a == 0.0:
        return max(z, 0.0) if np.isnan(fixed) else z * fixed
    if c == 0.0:
        return a * exp(z / a - 1.0)
    x = z / a  # Newton in the log-odds of t; the tangent of H at any t bounds the maximum
    for _ in range(20):
        t, high = 1.0 / (1.0 + exp(-x)), max(x, 0.0) + log1p(exp(-abs(x)))
        slope = z - a - c + a * (high - x) + c * high
        if abs(slope) <= 1e-12 * a:
            break
        x += slope / (a * (1.0 - t) - c * t)
    return max(slope, 0.0) + a * t - c * (high - t)


@kernel
def covariance(V, a, c, tau, shift, moments):
    """The derivative of the moments with respect to theta, at a maximum with the support V."""
    grad, bend = np.empty(tau.shape[0]), np.empty(tau.shape[0])
    slopes(tau, a, c, tau, shift, grad, bend)
    E, X = V[1:] - V[0], moments[1:] - moments[0]
    A = (E * bend) @ E.T
    scale = 1.0 / np.sqrt(np.maximum(np.abs(np.diag(A)), FLOOR))
    A = A * scale * scale.reshape(-1, 1)
    X = X * scale.reshape(-1, 1)
    if c.max() > 0.0:  # H may be flat between outputs, as the Bethe entropy of two matchings is
        values, vectors = np.linalg.eigh(A)
        X = (vectors.T @ X) / np.sqrt(np.maximum(values, 1e-9)).reshape(-1, 1)
        return X.T @ X
    for i in range(A.shape[0]):
        A[i, i] = 1.0 + 1e-9
    return X.T @ np.linalg.solve(A, X)
