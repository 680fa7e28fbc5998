"""Gumbel noise of perturb-and-MAP: one draw for each option of each variable of an output.

A variable is what chooses: a node its partner, a node its state, an edge whether it is used.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class GumbelNoise:
    """Noise of mean zero for variables that choose among coordinates.

    Parameters
    ----------
    n_coordinates : int
    coordinate, variable : arrays of shape (n_options,), of each option of each variable
    component : array of shape (n_variables,), the connected part of the graph a variable is in
    minimal : whether each variable has one more option, with no coordinate of its own

    Attributes
    ----------
    at_coordinate, at_other : number of variables in the component that the noise of a coordinate,
        or of an option without one, belongs to: the lower bound of log Z divides noise by it
    """

    def __init__(
        self,
        n_coordinates: int,
        coordinate: Ints,
        variable: Ints,
        component: Ints,
        minimal: bool = False,
    ):
        n_options = np.bincount(variable, minlength=component.size) + int(minimal)
        chooses = n_options > 1  # noise on the only option of a variable would change nothing
        kept = chooses[variable]
        self.coordinate, self.n_coordinates = coordinate[kept], n_coordinates
        self.minimal = minimal
        together = np.bincount(component[chooses], minlength=component.max(initial=0) + 1)
        together = together[component[variable[kept]]]
        self.at_other = together if minimal else np.ones(0)
        self.at_coordinate = np.ones(n_coordinates)
        self.at_coordinate[self.coordinate] = together

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


def components(n_nodes: int, tail: NDArray[Any], head: NDArray[Any]) -> Ints:
    """The connected component of every node."""
    links = coo_array((np.ones(tail.size, dtype=np.int8), (tail, head)), shape=(n_nodes, n_nodes))
    return connected_components(links, directed=False)[1].astype(np.int64)
