"""Matchings with a safely concave entropy, and the tangent that makes up for the difference."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..contract import Marginals, Structure
from ..entropy import SeparableEntropy

Floats = NDArray[np.float64]


class SurrogateForm(Protocol):
    """Members of a matching structure that its surrogate is made from."""

    @property
    def stepping_entropy(self) -> SeparableEntropy: ...

    def complement(self, found: Marginals) -> Floats: ...

    def entropy(self, tau: Floats) -> float: ...


class MatchingSurrogate:
    """A matching structure with a smaller c, the difference moved into offsets.

    c (1-t) log(1-t) is convex, so its tangent minorises it: the entropy of `structure` plus the
    offset of `found` is at most the true entropy (up to a constant), with equality at `found`.
    """

    structure: Structure

    def __init__(self, original: SurrogateForm, surrogate: SurrogateForm):
        assert isinstance(surrogate, Structure)
        self.structure = surrogate
        self._form = surrogate
        self._excess = original.stepping_entropy.c - surrogate.stepping_entropy.c

    def offset(self, found: Marginals) -> Floats:
        """Gradient, at `found`, of the part of the entropy that is left out; all coordinates."""
        slope: Floats = -self._excess * (np.log(self._complement(found)) + 1.0)
        return slope

    def entropy(self, found: Marginals) -> float:
        """The true entropy at `found`."""
        complement = self._complement(found)
        excess = float((self._excess * complement) @ np.log(complement))
        return self._form.entropy(found.tau) + excess

    def _complement(self, found: Marginals) -> Floats:
        positive: Floats = np.maximum(self._form.complement(found), 1e-290)
        return positive
