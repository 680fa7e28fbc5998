"""Labellings of which some states are known: the coordinates of the others.

A known node leaves the graph; the marginals of its edges are those of their other ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..conditioned import Conditioned
from ..contract import Structure

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Remainder:
    """The part of a graph whose states are not known.

    nodes : ndarray, the nodes that are left
    edges : ndarray, the edges between them
    ends : ndarray of shape (len(edges), 2), their ends among `nodes`
    """

    states: Ints  # (n_nodes,), -1 where not known
    tail: Ints
    head: Ints
    nodes: Ints
    edges: Ints
    ends: Ints

    @classmethod
    def of(cls, states: Ints, tail: NDArray, head: NDArray) -> Remainder:
        """What is left of a graph where `states` (-1: not known) are."""
        nodes = np.flatnonzero(states < 0)
        number = np.full(states.shape[0], -1)
        number[nodes] = np.arange(nodes.shape[0])
        edges = np.flatnonzero((number[tail] >= 0) & (number[head] >= 0))
        ends = np.stack([number[tail[edges]], number[head[edges]]], axis=1)
        return cls(states, tail.astype(np.int64), head.astype(np.int64), nodes, edges, ends)

    def overcomplete(self, whole: Structure, part: Structure | None, n_states: int) -> Conditioned:
        """The conditioned space in coordinates L per node, then L * L per edge."""
        n, states, size = self.states.shape[0], self.states, n_states
        own, first = np.arange(size), self.states.shape[0] * n_states
        number = np.full(n, -1)
        number[self.nodes] = np.arange(self.nodes.shape[0])
        fixed = np.zeros(whole.n_coordinates)
        known = np.flatnonzero(states >= 0)
        fixed[known * size + states[known]] = 1.0
        place = [(self.nodes[:, None] * size + own).ravel()]
        tables = np.arange(size * size)
        place.append((first + self.edges[:, None] * size**2 + tables).ravel())
        rows, columns = [np.concatenate(place)], [np.arange(sum(p.size for p in place))]
        s, t = states[self.tail], states[self.head]
        both = np.flatnonzero((s >= 0) & (t >= 0))
        fixed[first + both * size**2 + s[both] * size + t[both]] = 1.0
        for edges, inner, outer in (
            (np.flatnonzero((s >= 0) & (t < 0)), self.head, s * size),  # row s of the table
            (np.flatnonzero((s < 0) & (t >= 0)), self.tail, t),  # column t
        ):
            step = 1 if inner is self.head else size
            start = first + edges * size**2 + outer[edges]
            rows.append((start[:, None] + own * step).ravel())
            columns.append((number[inner[edges]][:, None] * size + own).ravel())
        return _conditioned(whole, part, rows, columns, fixed)

    def minimal(self, whole: Structure, part: Structure | None) -> Conditioned:
        """The conditioned space in the coordinates of two states: one per node and per edge."""
        n, states = self.states.shape[0], self.states
        number = np.full(n, -1)
        number[self.nodes] = np.arange(self.nodes.shape[0])
        fixed = np.zeros(whole.n_coordinates)
        fixed[:n] = np.maximum(states, 0)
        s, t = states[self.tail], states[self.head]
        fixed[n:] = (s == 1) & (t == 1)
        place = np.concatenate([self.nodes, n + self.edges])
        rows, columns = [place], [np.arange(place.size)]
        for edges, inner in (
            (np.flatnonzero((s == 1) & (t < 0)), self.head),
            (np.flatnonzero((s < 0) & (t == 1)), self.tail),
        ):
            rows.append(n + edges)
            columns.append(number[inner[edges]])
        return _conditioned(whole, part, rows, columns, fixed)


def _conditioned(
    whole: Structure,
    part: Structure | None,
    rows: list[Ints],
    columns: list[Ints],
    fixed: Floats,
) -> Conditioned:
    """Coordinate rows[k] equals coordinate columns[k] of the part; the first of each is its own."""
    if part is None:
        return Conditioned(whole, None, None, fixed, np.zeros(0, dtype=np.int64))
    row, column = np.concatenate(rows), np.concatenate(columns)
    shape = (whole.n_coordinates, part.n_coordinates)
    embedding = sparse.csr_array((np.ones(row.size), (row, column)), shape=shape)
    return Conditioned(whole, part, embedding, fixed, rows[0])
