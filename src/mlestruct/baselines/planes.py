"""The working set of cutting planes: outputs whose mean is a block's dual point.

Steps between them need no decoding: block-coordinate pairwise Frank-Wolfe over the outputs decoded
so far. It converges where steps towards the most violating output alone zigzag (Shah, Kolmogorov
and Lampert 2015; Osokin, Alayrac, Lukasewitz, Dokania and Lacoste-Julien 2016).
"""

from __future__ import annotations

import copy

import numpy as np
from numpy.typing import NDArray

from . import _plane_kernels as kernels

Floats = NDArray[np.float64]


class Planes:
    """A plane is the r and the loss of an output; every block starts with the observed one.

    Parameters
    ----------
    memory : int, planes per block; beyond it those of the least weight are merged into their mean.
        It also limits how often a step moves weight from one plane of a block to another.
    numbers : int, held by all planes (160 MB), or read between two decodings (about 20 ms)

    Attributes
    ----------
    parts : ndarray of shape (n_blocks, n_features), the mean r of every block
    total : ndarray of shape (n_features,), their sum
    """

    def __init__(self, n_blocks: int, n_features: int, memory: int, numbers: int = 20_000_000):
        self._rounds, self._numbers = memory, numbers
        places = min(max(numbers // max(n_blocks * n_features, 1), 1), memory) + 1
        self._r = np.zeros((n_blocks, places, n_features))
        self._losses = np.zeros((n_blocks, places))
        self._weights = np.zeros((n_blocks, places))
        self._weights[:, 0] = 1.0
        self._products = np.zeros((n_blocks, places, places))
        self._counts = np.ones(n_blocks, dtype=np.int64)
        self.parts = np.zeros((n_blocks, n_features))
        self.total = np.zeros(n_features)

    def copy(self) -> Planes:
        return copy.deepcopy(self)

    def loss(self, m: int) -> float:
        """The mean loss of block m."""
        return float(self._weights[m] @ self._losses[m])

    def loss_of_all(self) -> float:
        """The sum of the blocks' mean losses."""
        return float((self._weights * self._losses).sum())

    def value(self, alpha: float) -> float:
        """The dual value."""
        return self.loss_of_all() - float(self.total @ self.total) / (2.0 * alpha)

    def refresh(self) -> None:
        """Recompute the total from its parts, removing accumulated rounding."""
        self.total = self.parts.sum(axis=0)

    def _of(self, m: int) -> tuple[Floats, Floats, Floats, Floats, int]:
        places = self._r[m], self._losses[m], self._weights[m], self._products[m]
        return *places, int(self._counts[m])

    def add(self, m: int, r: Floats, loss: float, alpha: float) -> None:
        """Add a plane to block m and improve the weights of its planes."""
        kernels.add_plane(*self._of(m), r, loss)
        self._counts[m] += 1
        kernels.improve(*self._of(m), self.parts[m], self.total, alpha, self._rounds)
        if self._counts[m] == self._losses.shape[1]:
            kernels.make_room(*self._of(m))
            self._counts[m] -= 1
            self._weights[m, self._counts[m]] = 0.0

    def improve(self, alpha: float) -> None:
        """Up to 100 passes over all blocks, moving weight between their planes."""
        first, before = None, self.value(alpha)
        numbers = int(self._counts.sum()) * self.total.shape[0]
        for _ in range(min(max(self._numbers // max(numbers, 1), 1), 100)):
            kernels.sweep(
                self._r, self._losses, self._weights, self._products, self._counts,
                self.parts, self.total, alpha, self._rounds,
            )  # fmt: skip
            after = self.value(alpha)
            gain, before = after - before, after
            first = gain if first is None else first
            if gain <= 0.05 * first:  # the next decodings gain more
                break
