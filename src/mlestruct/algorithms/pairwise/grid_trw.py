"""Certified marginals of 4-connected grids by TRW at rho = 1/2: half the rows, half the columns."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._running import is_over
from . import _grid_trw_kernels as kernels
from .trw import TableMarginals, only_rounding_left, pass_in_time, sweeps_needed

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Chain = tuple[
    Floats, Floats, Floats, Floats, Floats
]  # tables of both axes, messages, beliefs, norms


class DiagonalLayout:
    """A 4-connected grid by diagonals; see `_grid_trw_kernels`.

    Attributes
    ----------
    pixels : ndarray of shape (n_nodes,), the pixel at each position
    starts : ndarray of shape (n_diagonals + 1,), first position of each diagonal
    links : ndarray of shape (2, n_diagonals - 1, 4)
    pieces : the same in pieces of a limited number of edges
    places : the number of each edge among all edges, horizontal ones first, for both axes
    longest : int, the length of the longest diagonal
    """

    def __init__(self, height: int, width: int):
        n = height * width
        self.sizes = (height * (width - 1), (height - 1) * width)
        row, column = np.divmod(np.arange(n), width)
        self.pixels = np.lexsort((row, row + column))
        self.starts = np.searchsorted((row + column)[self.pixels], np.arange(height + width))
        self.longest = min(height, width)
        self.links = np.zeros((2, height + width - 2, 4), dtype=np.int64)
        self.places = np.zeros((2, max(self.sizes)), dtype=np.int64)
        row, column = row[self.pixels], column[self.pixels]
        position = np.empty(n, dtype=np.int64)
        position[self.pixels] = np.arange(n)
        for axis in range(2):
            has_head = row < height - 1 if axis else column < width - 1
            tails = self.pixels[has_head]
            first = np.searchsorted((row + column)[has_head], np.arange(height + width - 1))
            link = self.links[axis]
            link[:, 2], link[:, 3] = np.diff(first), first[:-1]
            some = link[:, 2] > 0
            link[some, 0] = position[tails[first[:-1][some]]]
            link[some, 1] = position[tails[first[:-1][some]] + (width if axis else 1)]
            edges = self.sizes[0] + tails if axis else tails - row[has_head]
            self.places[axis, : tails.size] = edges
        parts = -(-self.links[:, :, 2].max(initial=0) // kernels.CHUNK)
        begin = np.tile(kernels.CHUNK * np.arange(parts), self.links.shape[1])
        self.pieces = np.repeat(self.links, parts, axis=1)
        self.pieces[:, :, [0, 1, 3]] += begin[:, None]
        self.pieces[:, :, 2] = np.clip(self.pieces[:, :, 2] - begin, 0, kernels.CHUNK)

    def arrange(self, tables: Floats, shared: bool = False) -> tuple[Floats, Floats]:
        """Tables of horizontal and of vertical edges, each of shape (L, L, n_edges or 1).

        tables : of shape (n_edges, L, L), or (2, L, L) if `shared`
        """
        split = 1 if shared else self.sizes[0]
        out = []
        for axis, part in enumerate((tables[:split], tables[split:])):
            some = part[:1]
            if (part != some).any():
                some = part[self.places[axis, : self.sizes[axis]] - axis * split]
            out.append(np.ascontiguousarray(some.transpose(1, 2, 0)))
        return out[0], out[1]


class GridTRW:
    """Message passing over one grid.

    Parameters
    ----------
    height, width : int
    """

    def __init__(self, height: int, width: int):
        self._layout = DiagonalLayout(height, width)
        self.sizes = self._layout.sizes  # numbers of horizontal and of vertical edges

    def __call__(
        self,
        nodes: Floats,
        tables: Floats,
        warm: Any,
        tol: float,
        max_sweeps: int,
        first: int = 1,
        shared: bool = False,
    ) -> TableMarginals | None:
        """Marginals under node scores (n_nodes, L) and edge scores.

        tables : of shape (n_edges, L, L), horizontal edges first, or with `shared` (2, L, L): one
            table for all horizontal edges and one for all vertical ones; then only the sums of the
            edges' marginals are computed
        first : sweeps before the first certificate

        None if the scores are outside the range of the linear domain.
        """
        layout, (n, n_states) = self._layout, nodes.shape
        odds = np.ascontiguousarray(nodes[layout.pixels].T)
        peak = odds.max(axis=0)  # over short rows it would take many times as long
        odds -= peak
        weights, constant = self._weights(tables, shared)
        # With these ranges of nodes and edges, products of exponentials of a node's score, four
        # messages and a marginal of 1e-40 are in the range of floating-point numbers.
        if weights is None or float(odds.min()) < -200.0:
            return None
        constant += float(peak.sum())
        np.exp(odds, out=odds)
        messages = np.ones((4, n_states, n))
        if isinstance(warm, np.ndarray) and warm.shape == (2, n_states, n):
            messages[2:] = warm
        beliefs, marginals, norms = np.empty_like(odds), np.empty_like(odds), np.zeros((4, n))
        chain = (*weights, messages, beliefs, norms)
        room = _Room(layout, n_states)
        model = layout.links, layout.starts, odds
        sweep = partial(kernels.pass_messages, *model, *chain, room.cavity)
        at_once = max(10**7 // odds.size, 1)  # a fraction of a second
        sweeps, following = 0, min(first, max_sweeps)
        losses: list[float] = []
        while True:
            following = pass_in_time(sweep, following, at_once)
            sweeps += following
            upper = constant + 0.5 * kernels.normalise(beliefs, norms, marginals)
            loss = room.feasible_point(chain, marginals, room.nothing)
            losses.append(loss)
            ended = sweeps >= max_sweeps or is_over()
            if loss <= tol or ended or only_rounding_left(losses, upper):
                break
            following = min(sweeps_needed(losses, following, tol), max_sweeps - sweeps)
        edges = room.nothing
        if not shared:
            edges = np.empty(tables.shape)
            room.feasible_point(chain, marginals, edges)
        found = np.empty((n, n_states))
        found[layout.pixels] = marginals.T
        sums = room.sums.sum(axis=3)
        return TableMarginals(found, edges, sums, upper - loss, upper, messages[2:].copy(), sweeps)

    def _weights(self, tables: Floats, shared: bool) -> tuple[tuple[Floats, Floats] | None, float]:
        """exp(2 score - its peak) in the layout of the kernels, and the sum of the peaks.

        None where they underflow.
        """
        weights, constant = [], 0.0
        sizes = self._layout.sizes
        for scores, size in zip(self._layout.arrange(tables, shared), sizes, strict=True):
            peak = scores.max(axis=(0, 1))
            scores = scores - peak
            if scores.min(initial=0.0) < -40.0:
                return None, 0.0
            constant += float(peak.sum()) * (size if peak.size == 1 else 1)
            weights.append(np.exp(2.0 * scores))
        return (weights[0], weights[1]), constant


class _Room:
    """Work space of one call."""

    def __init__(self, layout: DiagonalLayout, n_states: int):
        self.cavity = np.empty((n_states, layout.longest))
        self.sums = np.empty((2, n_states, n_states, kernels.CHUNK))
        self.nothing = np.empty((0, n_states, n_states))
        self._layout = layout
        self._lanes = np.empty((5, n_states, kernels.CHUNK))
        self._joint = np.empty((2, n_states, n_states, kernels.CHUNK))

    def feasible_point(self, chain: Chain, marginals: Floats, out: Floats) -> float:
        """The loss; fills `sums` and `out`."""
        self.sums[:] = 0.0
        work = self._lanes, self._joint, self.sums
        return float(
            kernels.feasible_point(
                self._layout.pieces, *chain, marginals, *work, self._layout.places, out
            )
        )
