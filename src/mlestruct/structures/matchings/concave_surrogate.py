"""Matchings with an entropy that is safely concave, and the tangent that makes up for it."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...algorithms.matching.newton import SAFE_C
from ..contract import Marginals
from ..entropy import SeparableEntropy

Floats = NDArray[np.float64]

SAFE_RHO = 0.5 * (1.0 + SAFE_C)


class HasRest(Protocol):
    """What softening needs of a matching structure."""

    @property
    def stepping_entropy(self) -> SeparableEntropy: ...

    def rest(self, found: Marginals) -> Floats: ...


class SoftenedMatching:
    """A matching structure and a softer one, the difference moved into offsets.

    c (1-t) log(1-t) is convex, so its tangent minorises it: the entropy of the softer `structure`
    plus the offset of `found` is at most the true entropy (up to a constant), with equality at
    `found`.
    """

    def __init__(self, original: HasRest, softer: Any):
        self.structure = softer
        self._excess = original.stepping_entropy.c - softer.stepping_entropy.c

    def offset(self, found: Marginals) -> Floats:
        """Gradient of the part of the entropy that is left out, at `found`; all coordinates."""
        logs = np.log(np.maximum(self.structure.rest(found), 1e-290))
        slope: Floats = -self._excess * (logs + 1.0)
        return slope

    def entropy(self, found: Marginals) -> float:
        """The true entropy at `found`."""
        rest = self.structure.rest(found)
        logs = np.log(np.maximum(rest, 1e-290))
        return float(self.structure.entropy(found.tau) + (self._excess * rest) @ logs)
