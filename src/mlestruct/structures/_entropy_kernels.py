"""Kernels of the separable entropy  H(tau) = sum_k -a_k t log t + c_k (1-t) log(1-t)."""

from .._compile import summing_kernel
from ..algorithms._logarithm_kernels import fast_log

FLOOR = 1e-300  # an underflowed entry; its gradient is large but finite
COMPLEMENT_FLOOR = 1e-16  # of 1 - t, which carries no more digits


@summing_kernel
def entropy(tau, a, c):
    """H(tau)."""
    total = 0.0
    for k in range(tau.shape[0]):
        t = tau[k]
        total -= a[k] * t * fast_log(max(t, FLOOR))
        total += c[k] * (1.0 - t) * fast_log(max(1.0 - t, COMPLEMENT_FLOOR))
    return total


@summing_kernel
def add_entropy_gradient(tau, a, c, scores, out):
    """out = scores + gradient of H at tau; entries with a = c = 0 are fixed and get their score."""
    for k in range(tau.shape[0]):
        x = fast_log(max(tau[k], FLOOR))
        y = fast_log(max(1.0 - tau[k], COMPLEMENT_FLOOR))
        out[k] = scores[k] - a[k] * (x + 1.0) - c[k] * (y + 1.0)


@summing_kernel
def slope_along(tau, change, eta, a, c):
    """Derivative of H along `change` at tau + eta * change."""
    total = 0.0
    for k in range(tau.shape[0]):
        t = tau[k] + eta * change[k]
        x = fast_log(max(t, FLOOR))
        y = fast_log(max(1.0 - t, COMPLEMENT_FLOOR))
        total -= change[k] * (a[k] * (x + 1.0) + c[k] * (y + 1.0))
    return total
