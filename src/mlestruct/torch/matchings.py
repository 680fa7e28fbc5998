"""Matchings of two sides, and within a group, from padded tables of scores."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..structures.contract import Structure, Vertex
from ..structures.graphs.bipartite import BipartiteGraph
from ..structures.graphs.simple import SimpleGraph
from ..structures.matchings.bipartite import BipartiteMatching
from ..structures.matchings.local import LocalMatching
from .batching import Batch, Observed
from .problem import (
    IGNORED,
    UNMATCHED,
    Problem,
    exact,
    read_integers,
    read_mask,
    read_tensor,
    require_finite,
)

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@lru_cache(maxsize=4096)
def two_sides(n: int, m: int, allowed: bytes, rho: float, perfect: bool) -> BipartiteMatching:
    """The matchings of n rows with m columns; equal spaces are one object."""
    graph = BipartiteGraph.complete(n, m)
    if allowed:
        graph = BipartiteGraph.from_mask(np.frombuffer(allowed, dtype=bool).reshape(n, m))
    return BipartiteMatching(graph, rho, perfect)


@lru_cache(maxsize=4096)
def one_group(n: int, allowed: bytes, rho: float, perfect: bool) -> LocalMatching:
    """The matchings of n nodes with each other; equal spaces are one object."""
    graph = SimpleGraph.complete(n)
    if allowed:
        graph = SimpleGraph.from_mask(np.frombuffer(allowed, dtype=bool).reshape(n, n))
    return LocalMatching(graph, rho, perfect)


class _Matchings(Problem):
    """What both families share: coordinates are pairs, then nodes that may stay single.

    rows, cols : for every sample the places of its nodes among those given, padding left out
    """

    batch: Batch
    rows: list[Ints]
    cols: list[Ints]
    _shape: tuple[int, int, int]  # of the given scores

    def _read(self, pair_scores: Tensor, places: list[Ints]) -> None:
        """Scores of all coordinates; `places` are those of a sample's pairs in `pair_scores`."""
        nothing = pair_scores.numel()  # place of the 0 that single nodes have
        index, pairs = [], []
        for space, place, start in zip(
            self.batch.spaces, places, self.batch.starts[:-1], strict=True
        ):
            if space is None:
                continue
            index += [place, np.full(space.n_coordinates - space.n_scored, nothing)]
            pairs.append(start + np.arange(space.n_scored))
        empty = np.zeros(0, dtype=np.int64)
        padded = torch.cat([pair_scores.flatten(), pair_scores.new_zeros(1)])
        self._place_of_pair = torch.from_numpy(np.concatenate([*places, empty]))
        self._pairs = torch.from_numpy(np.concatenate([*pairs, empty]))
        self.scores = padded[torch.from_numpy(np.concatenate([*index, empty]))]

    def _pair_table(self, tau: Tensor) -> Tensor:
        flat = tau.new_zeros(int(np.prod(self._shape)))
        return flat.scatter(0, self._place_of_pair, tau[self._pairs]).reshape(self._shape)

    def observe(self, target: Any) -> tuple[list[Observed], Tensor]:
        values = read_integers(target, "target", self._shape[:2])
        partners = [self._partners(b, values[b]) for b in range(len(self.batch))]
        counts = torch.tensor([bool((partner != IGNORED).any()) for partner in partners])
        observed = []
        for b, (space, partner) in enumerate(zip(self.batch.spaces, partners, strict=True)):
            if space is None and (partner >= 0).any():
                raise ValueError(f"target[{b}]: has a pair, but scores forbid all of them")
            observed.append(_observed(space, partner))
        return observed, counts

    def _partners(self, b: int, target: Ints) -> Ints:
        """Partners of a sample's own rows, numbered within its own columns."""
        rows, cols = self.rows[b], self.cols[b]
        given, number = target[rows], np.full(self._shape[2], -1, dtype=np.int64)
        number[cols] = np.arange(cols.shape[0])
        matched = given >= 0
        outside = (given >= self._shape[2]) | (
            (given < 0) & (given != UNMATCHED) & (given != IGNORED)
        )
        if outside.any():
            i = int(rows[np.argmax(outside)])
            raise ValueError(
                f"target[{b}, {i}] is {target[i]}; expected 0 to {self._shape[2] - 1}, -1 "
                "(unmatched) or -100 (ignored)"
            )
        partner = given.copy()
        partner[matched] = number[given[matched]]
        if (partner[matched] < 0).any():
            i = int(rows[matched][np.argmax(partner[matched] < 0)])
            raise ValueError(f"target[{b}, {i}] is {target[i]}, which the mask leaves out")
        self._check_partners(b, partner)
        return partner

    def _check_partners(self, b: int, partner: Ints) -> None:
        matched = partner[partner >= 0]
        counts = np.bincount(matched, minlength=1)
        if (counts > 1).any():
            j = int(self.cols[b][np.argmax(counts)])
            raise ValueError(f"target[{b}]: {j} is the partner of {counts.max()} others")

    def labels(self, found: list[Any]) -> Tensor:
        out = np.full(self._shape[:2], IGNORED, dtype=np.int64)
        for b, (label, rows, cols) in enumerate(zip(found, self.rows, self.cols, strict=True)):
            out[b, rows] = UNMATCHED
            if label is not None:
                matched = label >= 0
                out[b, rows[matched]] = cols[label[matched]]
        return torch.from_numpy(out).to(self.like.device)


class Matching(_Matchings):
    """Matchings between rows and columns.

    Parameters
    ----------
    scores : tensor of shape (B, n, m); -inf forbids a pair
    row_mask, col_mask : boolean, shapes (B, n) and (B, m), True for nodes that exist
    """

    def __init__(self, scores: Tensor, row_mask: Any, col_mask: Any, rho: float, perfect: bool):
        self.like = read_tensor(scores, "scores", "(B, n, m)", 3)
        n_samples, n, m = self._shape = tuple(scores.shape)
        self.rows = [np.flatnonzero(own) for own in read_mask(row_mask, "row_mask", (n_samples, n))]
        self.cols = [np.flatnonzero(own) for own in read_mask(col_mask, "col_mask", (n_samples, m))]
        values = exact(scores)
        pairs = [
            (b * n + rows[:, None]) * m + cols
            for b, (rows, cols) in enumerate(zip(self.rows, self.cols, strict=True))
        ]
        flat = values.detach().flatten().numpy()
        spaces: list[Structure | None] = []
        places = []
        for own in pairs:
            spaces.append(self._space(own, flat[own], rho, perfect))
            places.append(own[flat[own] != -np.inf])
        self.batch = Batch(spaces)
        self._read(values, places)
        require_finite(self.scores, "scores", False)

    @staticmethod
    def _space(places: Ints, values: NDArray[np.float64], rho: float, perfect: bool) -> Any:
        forbidden = values == -np.inf
        if not places.size or (forbidden.all() and not perfect):
            return None
        allowed = (~forbidden).tobytes() if forbidden.any() else b""
        return two_sides(*places.shape, allowed, rho, perfect)

    def tables(self, tau: Tensor) -> Tensor:
        return self._pair_table(tau).to(self.like)


class GroupMatching(_Matchings):
    """Matchings of the nodes of a group with each other.

    Parameters
    ----------
    scores : tensor of shape (B, n, n); the score of a pair is the mean of its two entries, and -inf
        in one of them forbids it. The diagonal is not used.
    mask : boolean, shape (B, n), True for nodes that exist
    """

    def __init__(self, scores: Tensor, mask: Any, rho: float, perfect: bool):
        self.like = read_tensor(scores, "scores", "(B, n, n)", 3)
        n_samples, n, m = self._shape = tuple(scores.shape)
        if n != m:
            raise ValueError(f"scores: expected shape (B, n, n), got {self._shape}")
        self.rows = [np.flatnonzero(own) for own in read_mask(mask, "mask", (n_samples, n))]
        self.cols = self.rows
        values = exact(scores)
        values = 0.5 * (values + values.transpose(1, 2))
        tables = values.detach().numpy()
        spaces: list[Structure | None] = []
        places = []
        for b, rows in enumerate(self.rows):
            i, j = np.triu_indices(rows.shape[0], 1)
            allowed = tables[b][np.ix_(rows, rows)] != -np.inf
            spaces.append(self._space(allowed, rho, perfect))
            keep = allowed[i, j]
            places.append((b * n + rows[i[keep]]) * n + rows[j[keep]])
        self.batch = Batch(spaces)
        self._read(values, places)
        require_finite(self.scores, "scores", False)

    @staticmethod
    def _space(allowed: Bools, rho: float, perfect: bool) -> LocalMatching | None:
        n = allowed.shape[0]
        allowed = allowed | np.eye(n, dtype=bool)
        if n == 0 or (not perfect and not np.triu(allowed, 1).any()):
            return None
        space = one_group(n, b"" if allowed.all() else allowed.tobytes(), rho, perfect)
        space.require_feasible()
        return space

    def _check_partners(self, b: int, partner: Ints) -> None:
        super()._check_partners(b, partner)
        for i in np.flatnonzero(partner >= 0):
            j = partner[i]
            back = partner[j]
            if i == j or back not in (i, IGNORED):
                one, other = self.rows[b][i], self.rows[b][j]
                raise ValueError(
                    f"target[{b}]: node {one} has partner {other}, whose own partner must be {one} "
                    "or -100 (ignored)"
                )
            partner[j] = i

    def tables(self, tau: Tensor) -> Tensor:
        upper = self._pair_table(tau)
        return (upper + upper.transpose(1, 2)).to(self.like)


def _observed(space: Structure | None, partner: Ints) -> Observed:
    """What a target says of a sample, ignored rows left open."""
    if space is None or (partner == IGNORED).all():
        return None
    assert isinstance(space, BipartiteMatching | LocalMatching)
    if (partner != IGNORED).all():
        return _vertex(space, partner)
    graph = space.graph
    known = np.full(space.n_scored, np.nan)
    of_row = partner[graph.row]
    known[of_row != IGNORED] = 0.0
    if isinstance(space, LocalMatching):
        known[partner[graph.col] != IGNORED] = 0.0
    matched = np.flatnonzero(partner >= 0)
    edges = graph.edge_between(matched, partner[matched])
    if (edges < 0).any():
        i = int(matched[np.argmax(edges < 0)])
        raise ValueError(f"target: pairs row {i} with {partner[i]}, whose score is -inf")
    known[edges] = 1.0
    return space.given(known)


def _vertex(space: Structure, partner: Ints) -> Vertex:
    try:
        return space.encode(partner)
    except ValueError as error:
        raise ValueError(f"target: {error}") from None
