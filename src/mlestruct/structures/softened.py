"""Matchings with an entropy that is safely concave, and the tangent that makes up for it."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..inference.matching_oracle import SAFE_C, complements
from .base import Marginals
from .bipartite import BipartiteMatching

Floats = NDArray[np.float64]


class SoftenedMatching:
    """A matching structure whose c is capped, with c - cap moved into offsets.

    c (1-t) log(1-t) is convex, so its tangent minorises it: the softened entropy plus the offset
    of `found` is at most the true entropy (up to a constant), with equality at `found`.
    """

    def __init__(self, original: BipartiteMatching, share: float = 1.0):
        core = original._core
        rows = core.rows
        self._excess = share * np.maximum(rows.c - SAFE_C, 0.0)
        capped = rows.c - self._excess
        self.structure = copy.copy(original)
        self.structure._set_core(replace(core, rows=rows._replace(c=capped)))

    def _rest(self, found: Marginals) -> Floats:
        """1 - t of every entry, accurate where t is near 1."""
        return complements(self.structure._core.rows, found.warm.t)

    def offset(self, found: Marginals) -> Floats:
        """Gradient of the part of the entropy that is left out, at `found`; all coordinates."""
        out = np.zeros(self.structure.n_coordinates)
        slope = -self._excess * (np.log(np.maximum(self._rest(found), 1e-290)) + 1.0)
        out[self.structure._core.source] = slope
        return out

    def entropy(self, found: Marginals) -> float:
        """The true entropy at `found`."""
        rest = self._rest(found)
        logs = np.log(np.maximum(rest, 1e-290))
        return self.structure.entropy(found.tau) + float((self._excess * rest) @ logs)
