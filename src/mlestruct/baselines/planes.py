"""The outputs that every block's dual point is a mean of, and steps between them.

Such steps need no decoding: block-coordinate pairwise Frank-Wolfe over the outputs met so far. It
gets along where steps towards the most violating output alone zigzag (Shah, Kolmogorov and Lampert
2015; Osokin, Alayrac, Lukasewitz, Dokania and Lacoste-Julien 2016).
"""

from __future__ import annotations

import copy

import numpy as np
from numpy.typing import NDArray

from . import _plane_kernels as kernels

Floats = NDArray[np.float64]

MOST = 30  # outputs that a block remembers
NUMBERS = 20_000_000  # that all of them may hold together
ROUNDS = 30  # of moving weight from one known output of a block to another
PASSES = 100  # over all blocks without decoding
PASS_NUMBERS = 20_000_000  # that such passes may read, which takes some hundredths of a second
WORTHWHILE = 0.05  # such passes end when they gain less than this part of what the first one gained


class Planes:
    """Of every block's outputs their r and loss, and weights; at first only the observed output.

    Those of the least weight are merged into their mean where there are too many.

    Attributes
    ----------
    parts : ndarray of shape (n_blocks, n_features), the mean r of every block
    total : ndarray of shape (n_features,), their sum
    """

    def __init__(self, n_blocks: int, n_features: int):
        most = min(max(NUMBERS // max(n_blocks * n_features, 1), 1), MOST)
        places = most + 1
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
        """One more output of block m, and the best weights of all that it knows."""
        kernels.add_plane(*self._of(m), r, loss)
        self._counts[m] += 1
        kernels.improve(*self._of(m), self.parts[m], self.total, alpha, ROUNDS)
        if self._counts[m] == self._losses.shape[1]:
            kernels.make_room(*self._of(m))
            self._counts[m] -= 1
            self._weights[m, self._counts[m]] = 0.0

    def improve(self, alpha: float) -> None:
        """Passes over all blocks between the outputs they know."""
        first, before = None, self.value(alpha)
        numbers = int(self._counts.sum()) * self.total.shape[0]
        for _ in range(min(max(PASS_NUMBERS // max(numbers, 1), 1), PASSES)):
            kernels.sweep(
                self._r, self._losses, self._weights, self._products, self._counts,
                self.parts, self.total, alpha, ROUNDS,
            )  # fmt: skip
            after = self.value(alpha)
            gain, before = after - before, after
            first = gain if first is None else first
            if gain <= WORTHWHILE * first:
                break
