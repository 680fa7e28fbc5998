"""Reweighted entropies that are sums over coordinates.

Both families of the paper have this form once the coordinates are chosen well: matchings (an
edge has a = 1, c = rho_i + rho_j - 1; a single node a = rho_i, c = 0) and pairwise graphs
(c = 0, a = the counting number). A coordinate with a = 0 is fixed: it does not vary.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from . import _entropy_kernels as kernels
from .contract import Vertex

Floats = NDArray[np.float64]


class SeparableEntropy:
    """H(tau) = sum_k -a_k tau_k log tau_k + c_k (1 - tau_k) log(1 - tau_k).

    Parameters
    ----------
    a, c : ndarray of shape (n_coordinates,)
    """

    def __init__(self, a: Floats, c: Floats):
        self.a = np.ascontiguousarray(a, dtype=np.float64)
        self.c = np.ascontiguousarray(c, dtype=np.float64)

    def __call__(self, tau: Floats) -> float:
        return float(kernels.entropy(tau, self.a, self.c))

    def add_gradient(self, tau: Floats, scores: Floats) -> tuple[Floats, Floats]:
        """scores + gradient of H at tau, and sums that `line_search` at tau needs."""
        out = np.empty_like(tau)
        sums = np.empty(3 + kernels.N_POWERS)
        kernels.add_entropy_gradient(tau, self.a, self.c, scores, out, sums)
        return out, sums

    def line_search(
        self,
        tau: Floats,
        vertex: Vertex,
        sums: Floats,
        linear: float,
        quadratic: float,
        guess: float,
        max_step: float,
        rtol: float,
    ) -> float:
        """Step eta towards `vertex` minimising linear*eta + quadratic*eta^2/2 - H.

        The slope there is at most `rtol` times that at 0.
        """
        return float(
            kernels.vertex_line_search(
                tau, self.a, self.c, vertex.indices, vertex.values, sums,
                linear, quadratic, guess, max_step, rtol,
            )
        )  # fmt: skip

    @staticmethod
    def move(tau: Floats, vertex: Vertex, eta: float) -> None:
        """tau <- (1 - eta) tau + eta vertex, in place."""
        kernels.move_towards(tau, vertex.indices, vertex.values, eta)
