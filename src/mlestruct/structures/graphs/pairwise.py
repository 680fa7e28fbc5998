"""Graphs of pairwise models: nodes carry states, edges couple two of them."""

from __future__ import annotations

from functools import cached_property, lru_cache
from hashlib import sha1

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

Indices = NDArray[np.int32]


class PairwiseGraph:
    """An undirected graph without self-loops or repeated edges.

    Parameters
    ----------
    n_nodes : int
    edges : array of shape (n_edges, 2)
        The first node of an edge is its tail, the second its head: the states of an edge are
        ordered (tail, head).
    """

    grid_shape: tuple[int, int] | None = None  # of a full 4-connected grid

    def __init__(self, n_nodes: int, edges: ArrayLike):
        self.n_nodes = int(n_nodes)
        pairs = check_edges(edges, self.n_nodes)
        low, high = pairs.min(axis=1, initial=self.n_nodes), pairs.max(axis=1, initial=-1)
        keys = np.sort(low * self.n_nodes + high)
        if (keys[1:] == keys[:-1]).any():
            raise ValueError("edges: an edge occurs more than once")
        self._tail = np.ascontiguousarray(pairs[:, 0], dtype=np.int32)
        self._head = np.ascontiguousarray(pairs[:, 1], dtype=np.int32)
        self.n_edges = self._tail.shape[0]

    @property
    def tail(self) -> Indices:
        return self._tail

    @property
    def head(self) -> Indices:
        return self._head

    @cached_property
    def degree(self) -> NDArray[np.int64]:
        """Number of neighbours of each node."""
        return np.bincount(self.tail, minlength=self.n_nodes) + np.bincount(
            self.head, minlength=self.n_nodes
        )

    @cached_property
    def n_components(self) -> int:
        links = coo_array(
            (np.ones(self.n_edges, dtype=np.int8), (self.tail, self.head)),
            shape=(self.n_nodes, self.n_nodes),
        )
        return int(connected_components(links, directed=False, return_labels=False))

    @cached_property
    def fingerprint(self) -> str:
        """The same for equal graphs only."""
        digest = sha1(np.int64(self.n_nodes).tobytes(), usedforsecurity=False)
        for ends in (self.tail, self.head):
            digest.update(ends.tobytes())
        return digest.hexdigest()

    @cached_property
    def is_forest(self) -> bool:
        """Whether there are no cycles, so that inference is exact."""
        return self.n_edges == self.n_nodes - self.n_components


class Grid(PairwiseGraph):
    """The full 4- or 8-connected grid of an image; nodes row by row.

    Edges come by direction, each row-major over the upper or left pixel: right, down and, with 8
    neighbours, down-right and down-left. The tail is the upper (or left) pixel.
    """

    def __init__(self, height: int, width: int, neighbours: int = 4):
        if neighbours not in (4, 8):
            raise ValueError(f"neighbours: expected 4 or 8, got {neighbours!r}")
        if height < 1 or width < 1:
            raise ValueError(f"grid: expected at least one row and column, got {height} x {width}")
        self.height, self.width, self.neighbours = int(height), int(width), int(neighbours)
        self.n_nodes = self.height * self.width
        self.direction_sizes = [self.height * (self.width - 1), (self.height - 1) * self.width]
        if neighbours == 4:
            self.grid_shape = (self.height, self.width)
        else:
            self.direction_sizes += 2 * [(self.height - 1) * (self.width - 1)]
        self.n_edges = sum(self.direction_sizes)

    @property
    def fingerprint(self) -> str:
        return f"grid {self.height} {self.width} {self.neighbours}"

    @property
    def n_components(self) -> int:
        return min(self.n_nodes, 1)

    @cached_property
    def _ends(self) -> tuple[Indices, Indices]:
        index = np.arange(self.n_nodes, dtype=np.int32).reshape(self.height, self.width)
        tails, heads = [index[:, :-1], index[:-1]], [index[:, 1:], index[1:]]
        if self.neighbours == 8:
            tails += [index[:-1, :-1], index[:-1, 1:]]
            heads += [index[1:, 1:], index[1:, :-1]]
        tail = np.concatenate([part.ravel() for part in tails])
        return tail, np.concatenate([part.ravel() for part in heads])

    @property
    def tail(self) -> Indices:
        return self._ends[0]

    @property
    def head(self) -> Indices:
        return self._ends[1]


@lru_cache(maxsize=4096)
def grid(height: int, width: int, neighbours: int = 4) -> Grid:
    """The grid of that shape; equal ones are one object."""
    return Grid(height, width, neighbours)


def check_edges(edges: ArrayLike, n_nodes: int, name: str = "edges") -> NDArray[np.int64]:
    """Edges as an integer array of shape (n_edges, 2) with valid, different ends."""
    pairs = np.asarray(edges)
    if pairs.size == 0:
        return np.zeros((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(f"{name}: expected shape (n_edges, 2), got {pairs.shape}")
    if pairs.dtype.kind == "f" and np.array_equal(pairs, np.round(pairs)):
        pairs = pairs.astype(np.int64)
    if pairs.dtype.kind not in "iu":
        raise ValueError(f"{name}: nodes must be integers, got dtype {pairs.dtype}")
    pairs = pairs.astype(np.int64)
    outside = ((pairs < 0) | (pairs >= n_nodes)).any(axis=1)
    if outside.any():
        e = int(np.argmax(outside))
        raise ValueError(
            f"{name}: edge {e} is {tuple(pairs[e].tolist())}; nodes are 0 to {n_nodes - 1}"
        )
    loops = pairs[:, 0] == pairs[:, 1]
    if loops.any():
        e = int(np.argmax(loops))
        raise ValueError(
            f"{name}: edge {e} joins node {pairs[e, 0]} to itself; what it should express belongs "
            "into the node's features"
        )
    return pairs
