"""Gumbel noise of perturb-and-MAP: one draw for each option of each variable of an output.

A variable is what chooses: a node its partner, a node its state, an edge whether it is used.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class GumbelNoise:
    """Noise of mean zero for variables that choose among coordinates.

    Parameters
    ----------
    n_coordinates : int
    coordinate, variable : arrays of shape (n_options,), of each option of each variable
    minimal : whether each variable has one more option, with no coordinate of its own
    """

    def __init__(self, n_coordinates: int, coordinate: Ints, variable: Ints, minimal: bool = False):
        n_options = np.bincount(variable) + int(minimal)
        chooses = n_options > 1  # noise on the only option of a variable would change nothing
        kept = chooses[variable]
        self.coordinate, self.n_coordinates = coordinate[kept], n_coordinates
        self.minimal = minimal

    def draw(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Noise of all coordinates, and that of options without one."""
        size = self.coordinate.size
        own = rng.gumbel(-np.euler_gamma, size=size)
        other = rng.gumbel(-np.euler_gamma, size=size if self.minimal else 0)
        if self.minimal:
            own -= other
        added: Floats = np.zeros(self.n_coordinates)
        added += np.bincount(self.coordinate, own, minlength=self.n_coordinates)
        return added, other
