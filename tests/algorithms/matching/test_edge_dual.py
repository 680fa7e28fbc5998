"""Kernels of the edge dual, against finite differences."""

import numpy as np
import pytest

from mlestruct.algorithms.matching import _edge_dual_kernels as kernels


def test_slopes_of_small_marginals_are_those_of_their_equation():
    """t solves log t + c log(1 - t) = score, with c = rho + rho' - 1; h is its derivative."""
    t, rho, rhos = np.array([1e-6, 1e-3, 0.01, 0.02]), 0.9, np.array([0.5, 0.6, 0.9, 1.0])
    c, step, h = rho + rhos - 1.0, 1e-4 * t, np.empty(4)

    def score(t):
        return np.log(t) + c * np.log1p(-t)

    sum_t, sum_h, value = kernels.small_slopes(t, rho, rhos, h)
    np.testing.assert_allclose(h, 2.0 * step / (score(t + step) - score(t - step)), rtol=1e-6)
    assert sum_t == pytest.approx(t.sum())
    assert sum_h == pytest.approx(h.sum())
    assert value == pytest.approx(((1.0 + c) * t + c * np.log1p(-t)).sum(), rel=1e-9)
