"""The elastic net, its conjugate, and ascent with it from one orthant to the next.

    R(theta)  = l1 |theta|_1 + l2/2 |theta|^2,   l1 = alpha l1_ratio,   l2 = alpha (1 - l1_ratio)
    R*(r)     = max over theta of <r, theta> - R(theta) = |soft(r, l1)|^2 / (2 l2)
    theta(r)  = grad R*(r) = soft(r, l1) / l2,   soft(r, l1) = sign(r) max(|r| - l1, 0)

Strong convexity (l2 > 0) makes theta(r) single-valued, and grad R* Lipschitz with 1 / l2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ElasticNet:
    """A penalty of total strength `alpha`, of which the share `l1_ratio` is on |theta|_1."""

    alpha: float
    l1_ratio: float = 0.0

    def __post_init__(self) -> None:
        if not self.alpha > 0:
            raise ValueError(f"alpha must be positive, got {self.alpha}")
        if not 0.0 <= self.l1_ratio < 1.0:
            raise ValueError(f"l1_ratio must be at least 0 and less than 1, got {self.l1_ratio!r}")

    @cached_property
    def l1(self) -> float:
        return self.alpha * self.l1_ratio

    @cached_property
    def l2(self) -> float:
        return self.alpha * (1.0 - self.l1_ratio)

    def __call__(self, theta: Floats) -> float:
        """R(theta)."""
        value = 0.5 * self.l2 * float(theta @ theta)
        return value + self.l1 * float(np.abs(theta).sum()) if self.l1 else value

    def soft(self, r: Floats) -> Floats:
        """soft(r, l1); r itself, not a copy, without l1."""
        return r - self.clipped(r) if self.l1 else r

    def clipped(self, r: Floats) -> Floats:
        """The part of r that the l1 penalty takes off: its entries within [-l1, l1]."""
        return np.clip(r, -self.l1, self.l1)

    def theta(self, r: Floats) -> Floats:
        """grad R*(r)."""
        return self.soft(r) / self.l2

    def conjugate(self, r: Floats) -> float:
        """R*(r)."""
        shrunk = self.soft(r)
        return float(shrunk @ shrunk) / (2.0 * self.l2)

    # ------------------------------------------------------------------ orthants
    def pseudo_gradient(self, theta: Floats, gradient: Floats) -> Floats:
        """The steepest ascent of f - l1 |.|_1 at theta from the gradient of f.

        It is 0 where theta is 0 and no move increases the value (Andrew and Gao, 2007).
        """
        if not self.l1:
            return gradient
        return np.where(theta == 0.0, self.soft(gradient), gradient - self.l1 * np.sign(theta))

    def within_orthant(self, start: Floats, ascent: Floats, theta: Floats) -> Floats:
        """`theta` with 0 where it has left the orthant of `start`.

        Where `start` is 0 the orthant is that into which the pseudo-gradient `ascent` points.
        """
        if not self.l1:
            return theta
        side = np.where(start == 0.0, np.sign(ascent), np.sign(start))
        return np.where(theta * side > 0.0, theta, 0.0)
