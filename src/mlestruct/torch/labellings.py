"""Losses of labellings: of images, graphs and sequences."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..structures.contract import Structure
from ..structures.graphs.pairwise import PairwiseGraph, check_edges, grid
from ..structures.labellings.pairwise import Pairwise
from ..structures.rho import Reweighting
from . import checks
from .autograd import Chains, Keys
from .nll_loss import IGNORED, Batch, Bools, Ints, NLLLoss


@lru_cache(maxsize=4096)
def _graph_space(n_nodes: int, edges: bytes, n_states: int, rho: Any) -> Structure:
    """Labellings of a graph; equal spaces are one object."""
    pairs = np.frombuffer(edges, dtype=np.int64).reshape(-1, 2)
    return Pairwise(PairwiseGraph(n_nodes, pairs), n_states, rho)


@lru_cache(maxsize=256)
def _image(
    mask: bytes, height: int, width: int, n_states: int, rho: Any
) -> tuple[Structure | None, Ints]:
    """Labellings of the pixels of an image, and places of its edges in (2, height, width)."""
    exists = np.frombuffer(mask, dtype=bool).reshape(height, width)
    number = np.cumsum(exists).reshape(exists.shape) - 1
    place = np.arange(2 * exists.size).reshape(2, height, width)
    across, down = exists[:, :-1] & exists[:, 1:], exists[:-1] & exists[1:]
    places = np.concatenate([place[0, :, :-1][across], place[1, :-1][down]])
    if not exists.any():
        return None, places
    rows, cols = (np.flatnonzero(exists.any(axis=axis)) for axis in (1, 0))
    shape = int(np.ptp(rows)) + 1, int(np.ptp(cols)) + 1
    if exists.sum() == shape[0] * shape[1]:
        return Pairwise(grid(*shape), n_states, rho), places
    tails = np.concatenate([number[:, :-1][across], number[:-1][down]])
    heads = np.concatenate([number[:, 1:][across], number[1:][down]])
    graph = PairwiseGraph(int(exists.sum()), np.stack([tails, heads], axis=1))
    if rho == "auto" and not graph.is_forest:
        # As whole images: a pixel is entered from the left and from above, each with 1/2.
        half = np.full(graph.n_edges, 0.5)
        rho = Reweighting(graph, half, np.zeros_like(half), half)
    return Pairwise(graph, n_states, rho), places


class _Labellings(NLLLoss):
    """Losses whose targets are states of nodes."""

    def _states(self, batch: Batch, target: Any) -> Ints:
        """The state of every node that exists, -1 if it is ignored."""
        (exists,) = batch.exists
        states = checks.integers(target, "target", exists.shape)[exists]
        n_states = batch.like.shape[-1]
        wrong = ((states < 0) & (states != IGNORED)) | (states >= n_states)
        if wrong.any():
            raise ValueError(
                f"target: expected states 0 to {n_states - 1}, or -100 (ignored), got "
                f"{states[np.argmax(wrong)]}"
            )
        return np.where(states == IGNORED, -1, states)

    def _node_table(self, batch: Batch, nodes: Tensor) -> Tensor:
        exists = torch.from_numpy(batch.exists[0])[..., None]
        table = nodes.new_zeros(batch.like.shape)
        return table.masked_scatter(exists, nodes).to(batch.like)

    def _labels(self, batch: Batch, found: Any) -> Tensor:
        (exists,) = batch.exists
        out = np.full(exists.shape, IGNORED)
        out[exists] = np.concatenate(
            [np.zeros(0, dtype=np.int64), *(label for label in found if label is not None)]
        )
        return torch.from_numpy(out).to(batch.like.device)


class _GraphLabellings(_Labellings):
    """Graphs side by side: nodes and edges of all samples, sample after sample."""

    def __init__(self, reduction: str = "mean", *, rho: Any = "auto", **options: Any):
        super().__init__(reduction, **options)
        if not isinstance(rho, str | int | float):
            raise TypeError(f"`rho` must be 'auto' or a number; got {rho!r}.")
        self.rho = rho

    def _batch(
        self, nodes: Tensor, edges: Tensor, spaces: list[Any], exists: Bools, like: Any
    ) -> Batch:
        """From scores of nodes (N, S) and edges (E, S, S)."""
        checks.finite(nodes, "node_scores")
        checks.finite(edges, "edge_scores")
        n_edges = [space.graph.n_edges if space else 0 for space in spaces]
        pairs = zip(nodes.split(_n_nodes(spaces)), edges.split(n_edges), strict=True)
        parts = [part.flatten() for pair in pairs for part in pair]
        scores = torch.cat([*parts, nodes.new_zeros(0)])
        return Batch(scores, self._samples(spaces), like, (exists,))

    def _observe(self, batch: Batch, target: Any) -> tuple[list[Any], Bools]:
        spaces = batch.oracle.spaces
        states = np.split(self._states(batch, target), np.cumsum(_n_nodes(spaces)))[:-1]
        some = np.array([(own >= 0).any() for own in states], dtype=bool)
        observed: list[Any] = [None] * len(spaces)
        for b in np.flatnonzero(some):
            whole = (states[b] >= 0).all()
            observed[b] = (spaces[b].encode if whole else spaces[b].given)(states[b])
        return observed, some

    def _table(self, batch: Batch, tau: Tensor) -> Tensor:
        samples, n_states = batch.oracle, batch.like.shape[-1]
        sizes = zip(tau.split(samples.sizes), _n_nodes(samples.spaces), strict=True)
        nodes = torch.cat([tau.new_zeros(0), *(own[: n * n_states] for own, n in sizes)])
        return self._node_table(batch, nodes.reshape(-1, n_states))


def _n_nodes(spaces: list[Any]) -> list[int]:
    return [space.n_nodes if space else 0 for space in spaces]


class GridNLLLoss(_GraphLabellings):
    """Negative log-likelihood of labelled images, tree-reweighted.

    Parameters
    ----------
    reduction, tol, n_jobs : as in `NLLLoss`
    rho : "auto" (1/2 on images) or a number. The loss of the exact likelihood is smaller.

    Notes
    -----
    The loss takes, in this order:

    * node_scores: tensor of shape (B, H, W, S)
    * edge_scores: tensor of shape (S, S), for all neighbours; (2, S, S), for horizontal and
      vertical neighbours; or (B, 2, H, W, S, S), for pixel (i, j) with (i, j + 1) and with
      (i + 1, j), of which the last column and row are not used
    * target: integers of shape (B, H, W), -100 ignored
    * mask: booleans of shape (B, H, W), True for pixels that exist
    """

    def forward(
        self, node_scores: Any, edge_scores: Any, target: Any, mask: Any = None, keys: Keys = None
    ) -> Tensor:
        """The loss of a batch; `keys` are names of its samples, for warm starts."""
        return self._loss(self._read(node_scores, edge_scores, mask), target, keys)

    def _read(self, node_scores: Any, edge_scores: Any, mask: Any = None) -> Batch:
        nodes = checks.scores(node_scores, "node_scores", ("B", "H", "W", "S"))
        n_samples, height, width, n_states = nodes.shape
        pair = n_states, n_states
        full = n_samples, 2, height, width, *pair
        edges = checks.scores(edge_scores, "edge_scores", pair, (2, *pair), full)
        edges = edges[:, None, None] if edges.dim() == 3 else edges
        exists = checks.mask(mask, "mask", nodes.shape[:3])
        spaces, places = [], [np.zeros(0, dtype=np.int64)]
        for b, own in enumerate(exists):
            space, place = _image(own.tobytes(), height, width, n_states, self.rho)
            spaces.append(space)
            places.append(place + b * 2 * height * width)
        tables = edges.expand(full).reshape(-1, *pair)[torch.from_numpy(np.concatenate(places))]
        nodes = nodes[torch.from_numpy(exists)]
        return self._batch(nodes, tables, spaces, exists, node_scores)


class GraphNLLLoss(_GraphLabellings):
    """Negative log-likelihood of labelled graphs, tree-reweighted; exact on forests.

    Parameters
    ----------
    reduction, tol, n_jobs : as in `NLLLoss`
    rho : "auto" (shares of spanning trees, 1 on forests) or a number

    Notes
    -----
    The loss takes, in this order:

    * node_scores: tensor of shape (N, S)
    * edge_scores: tensor of shape (E, S, S), the state of the first end first, or (S, S). Tables of
      an edge that is listed more than once, or in both directions, are added up.
    * target: integers of shape (N,), -100 ignored
    * edge_index: integers of shape (2, E)
    * batch: rising integers of shape (N,), the graph of every node; by default all are one
    """

    def forward(
        self,
        node_scores: Any,
        edge_scores: Any,
        target: Any,
        edge_index: Any,
        batch: Any = None,
        keys: Keys = None,
    ) -> Tensor:
        """The loss of a batch; `keys` are names of its samples, for warm starts."""
        return self._loss(self._read(node_scores, edge_scores, edge_index, batch), target, keys)

    def _read(
        self, node_scores: Any, edge_scores: Any, edge_index: Any, batch: Any = None
    ) -> Batch:
        nodes = checks.scores(node_scores, "node_scores", ("N", "S"))
        n_nodes, n_states = nodes.shape
        listed = check_edges(
            checks.integers(edge_index, "edge_index", (2, "E")).T, n_nodes, "edge_index"
        )
        pair = n_states, n_states
        edges = checks.scores(edge_scores, "edge_scores", (len(listed), *pair), pair)
        graph = np.zeros(n_nodes, dtype=np.int64)
        if batch is not None:
            graph = checks.integers(batch, "batch", (n_nodes,))
        if (np.diff(graph, prepend=0) < 0).any():
            raise ValueError("batch: expected rising integers from 0 on, the graph of every node")
        if (graph[listed[:, 0]] != graph[listed[:, 1]]).any():
            e = int(np.argmax(graph[listed[:, 0]] != graph[listed[:, 1]]))
            raise ValueError(f"edge_index: edge {e} joins nodes of different graphs of batch")
        turned = torch.from_numpy(listed[:, 0] > listed[:, 1])[:, None, None]
        edges = edges.expand(len(listed), *pair)
        edges = torch.where(turned, edges.transpose(1, 2), edges)
        ends, edge = np.unique(np.sort(listed, axis=1), axis=0, return_inverse=True)
        joined = edges.new_zeros((len(ends), *pair))
        tables = joined.index_add(0, torch.from_numpy(edge.reshape(-1)), edges)
        sizes = np.bincount(graph)
        first = np.cumsum(sizes) - sizes
        cuts = np.searchsorted(graph[ends[:, 0]], np.arange(len(sizes) + 1))
        spaces = [
            _graph_space(int(n), (ends[a:b] - start).tobytes(), n_states, self.rho) if n else None
            for n, start, a, b in zip(sizes, first, cuts, cuts[1:], strict=False)
        ]
        return self._batch(nodes, tables, spaces, np.ones(n_nodes, dtype=bool), node_scores)


class ChainNLLLoss(_Labellings):
    """Negative log-likelihood of labelled sequences, exact (forward-backward).

    Parameters
    ----------
    reduction : as in `NLLLoss`; `tol`, `n_jobs` and `keys` have no effect

    Notes
    -----
    The loss takes, in this order:

    * node_scores: tensor of shape (B, T, S); -inf forbids a state
    * transitions: tensor of shape (S, S), the earlier state first, or (B, T - 1, S, S); -inf
      forbids a transition
    * target: integers of shape (B, T), -100 ignored
    * mask: booleans of shape (B, T), True for tokens that exist. Tokens left out between others are
      skipped, so that their neighbours are neighbours of each other
    """

    def forward(
        self, node_scores: Any, transitions: Any, target: Any, mask: Any = None, keys: Keys = None
    ) -> Tensor:
        """The loss of a batch; takes `keys` as the other losses do."""
        return self._loss(self._read(node_scores, transitions, mask), target, keys)

    def _read(self, node_scores: Any, transitions: Any, mask: Any = None) -> Batch:
        nodes = checks.scores(node_scores, "node_scores", ("B", "T", "S"))
        n_samples, length, n_states = nodes.shape
        if n_states < 2:
            raise ValueError(f"node_scores: expected at least 2 states, got {n_states}")
        pair = n_states, n_states
        full = n_samples, max(length - 1, 0), *pair
        tables = checks.scores(transitions, "transitions", pair, full)
        exists = checks.mask(mask, "mask", (n_samples, length))
        chains = Chains(exists.sum(axis=1), n_states)
        if tables.dim() == 2:
            tables = tables.expand(chains.n_edges, *pair)
        elif (exists[:, 1:] & ~exists[:, :-1]).any():
            raise ValueError(
                "mask: tokens are left out before others; transitions of shape (B, T - 1, S, S) "
                "need all tokens of a sample at its beginning"
            )
        else:
            tables = tables[torch.from_numpy(exists[:, 1:])]
        nodes = nodes[torch.from_numpy(exists)]
        checks.finite(nodes, "node_scores", forbidden=True)
        checks.finite(tables, "transitions", forbidden=True)
        scores = torch.cat([nodes.flatten(), tables.flatten()])
        return Batch(scores, chains, node_scores, (exists,))

    def _observe(self, batch: Batch, target: Any) -> tuple[Ints, Bools]:
        states, exists = self._states(batch, target), batch.exists[0]
        known = np.zeros_like(exists)
        known[exists] = states >= 0
        some = np.asarray(known.any(axis=1), dtype=bool)
        return states, some

    def _table(self, batch: Batch, tau: Tensor) -> Tensor:
        n_states = batch.like.shape[-1]
        nodes = tau[: int(batch.exists[0].sum()) * n_states]
        return self._node_table(batch, nodes.reshape(-1, n_states))
