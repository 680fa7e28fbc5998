"""Labellings of images, graphs and chains from tensors of scores."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from ..structures.contract import Structure
from ..structures.graphs.pairwise import PairwiseGraph, check_edges, grid
from ..structures.labellings.binary import BinaryPairwise
from ..structures.labellings.pairwise import Pairwise
from ..structures.rho import Reweighting
from .batching import Batch, Observed, SequenceBatch
from .problem import IGNORED, Problem, exact, read_integers, read_mask, read_tensor, require_finite

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@lru_cache(maxsize=4096)
def grid_space(height: int, width: int, n_states: int, rho: Any) -> Structure:
    """The labellings of an image; equal spaces are one object."""
    return labelling_space(grid(height, width), n_states, rho)


@lru_cache(maxsize=4096)
def graph_space(n_nodes: int, edges: bytes, n_states: int, rho: Any) -> Structure:
    """The labellings of a graph; equal spaces are one object."""
    pairs = np.frombuffer(edges, dtype=np.int64).reshape(-1, 2)
    return labelling_space(PairwiseGraph(n_nodes, pairs), n_states, rho)


@lru_cache(maxsize=4096)
def masked_grid_space(n_nodes: int, edges: bytes, n_states: int, rho: Any) -> Structure:
    """The labellings of some pixels of an image, reweighted as the whole image is."""
    graph = PairwiseGraph(n_nodes, np.frombuffer(edges, dtype=np.int64).reshape(-1, 2))
    if rho == "auto" and not graph.is_forest:
        # Half the rows and half the columns: a pixel is entered from the left and from above.
        half = np.full(graph.n_edges, 0.5)
        rho = Reweighting(graph, half, np.zeros_like(half), half)
    return labelling_space(graph, n_states, rho)


def labelling_space(graph: PairwiseGraph, n_states: int, rho: Any) -> Structure:
    return BinaryPairwise(graph, rho) if n_states == 2 else Pairwise(graph, n_states, rho)


class _Labellings(Problem):
    """Labellings of graphs side by side: nodes and edges of all samples, sample after sample.

    Coordinates of a sample are those of its space: with two states minimal ones, which leave out
    the score of the labelling that is 0 everywhere. This cancels in the loss.
    """

    batch: Batch

    def _read(
        self, nodes: Tensor, edges: Tensor, spaces: Sequence[Structure | None], ends: Ints
    ) -> None:
        """`nodes` (N, S), `edges` (E, S, S); `ends` (E, 2) among all nodes."""
        self.n_states = nodes.shape[1]
        self.batch = Batch(spaces)
        self._n_nodes = [0 if space is None else space.n_nodes for space in spaces]
        n_edges = [0 if space is None else space.graph.n_edges for space in spaces]  # type: ignore[attr-defined]
        require_finite(nodes, "node_scores", False)
        require_finite(edges, "edge_scores", False)
        if self.n_states == 2:
            nodes, edges = _minimal(nodes, edges, torch.from_numpy(ends))
        parts = [
            part.flatten()
            for pair in zip(nodes.split(self._n_nodes), edges.split(n_edges), strict=True)
            for part in pair
        ]
        self.scores = torch.cat([*parts, nodes.new_zeros(0)])

    def _node_tables(self, tau: Tensor) -> Tensor:
        """Marginals of the states of all nodes, shape (N, S)."""
        per_node = 1 if self.n_states == 2 else self.n_states
        parts = [
            tau[start : start + n * per_node]
            for start, n in zip(self.batch.starts[:-1].tolist(), self._n_nodes, strict=True)
        ]
        flat = torch.cat([*parts, tau.new_zeros(0)])
        if self.n_states == 2:
            return torch.stack([1.0 - flat, flat], dim=1)
        return flat.reshape(-1, self.n_states)

    def _observe(self, states: Ints) -> tuple[list[Observed], Tensor]:
        """From the states of all nodes, -1 where they are ignored."""
        observed: list[Observed] = []
        own = _split(states, self._n_nodes)
        for space, known in zip(self.batch.spaces, own, strict=True):
            if space is None or (known < 0).all():
                observed.append(None)
            elif (known >= 0).all():
                observed.append(space.encode(known))
            else:
                observed.append(space.given(known))
        return observed, torch.tensor([bool((known >= 0).any()) for known in own])

    def _states(self, found: list[Any]) -> Ints:
        labels = [label for label in found if label is not None]
        return np.concatenate([*labels, np.zeros(0, dtype=np.int64)])


class Graph(_Labellings):
    """Labellings of the nodes of graphs.

    Parameters
    ----------
    node_scores : tensor of shape (N, S)
    edge_scores : tensor of shape (E, S, S), the state of the first end first, or (S, S)
    edge_index : integers of shape (2, E)
    batch : rising integers of shape (N,), the graph of every node
    """

    def __init__(
        self, node_scores: Tensor, edge_scores: Tensor, edge_index: Any, batch: Any, rho: Any
    ):
        self.like = read_tensor(node_scores, "node_scores", "(N, S)", 2)
        n_nodes, n_states = node_scores.shape
        ends = torch.as_tensor(edge_index).detach().cpu().numpy()
        if ends.ndim != 2 or ends.shape[0] != 2:
            raise ValueError(f"edge_index: expected shape (2, E), got {tuple(ends.shape)}")
        pairs = check_edges(ends.T, n_nodes, "edge_index")
        full = (pairs.shape[0], n_states, n_states)
        read_tensor(edge_scores, "edge_scores", f"{full} or {full[1:]}", (2, 3))
        if tuple(edge_scores.shape) not in (full, full[1:]):
            raise ValueError(
                f"edge_scores: expected shape {full} or {full[1:]}, got {tuple(edge_scores.shape)}"
            )
        graph_of_node = _read_batch(batch, n_nodes)
        if (graph_of_node[pairs[:, 0]] != graph_of_node[pairs[:, 1]]).any():
            e = int(np.argmax(graph_of_node[pairs[:, 0]] != graph_of_node[pairs[:, 1]]))
            raise ValueError(f"edge_index: edge {e} joins nodes of different graphs of batch")
        tables, pairs = _joined(exact(edge_scores).expand(full), pairs, n_nodes)
        counts = np.bincount(graph_of_node)
        first = np.cumsum(counts) - counts
        n_edges = np.bincount(graph_of_node[pairs[:, 0]], minlength=counts.shape[0])
        own = _split(pairs, n_edges)
        spaces = [
            graph_space(int(n), (ends - start).tobytes(), n_states, rho) if n else None
            for n, ends, start in zip(counts, own, first, strict=True)
        ]
        self._read(exact(node_scores), tables, spaces, pairs)

    def observe(self, target: Any) -> tuple[list[Observed], Tensor]:
        values = read_integers(target, "target", (self.like.shape[0],))
        return self._observe(check_states(values, self.n_states))

    def tables(self, tau: Tensor) -> Tensor:
        return self._node_tables(tau).to(self.like)

    def labels(self, found: list[Any]) -> Tensor:
        return torch.from_numpy(self._states(found)).to(self.like.device)


class GridLabelling(_Labellings):
    """Labellings of images.

    Parameters
    ----------
    node_scores : tensor of shape (B, H, W, S)
    edge_scores : tensor of shape (S, S), for all pairs of neighbours; (2, S, S), for those side by
        side and those one above the other; or (B, 2, H, W, S, S), for pixel (i, j) with (i, j + 1)
        and with (i + 1, j), of which the last column and row are not used
    mask : boolean, shape (B, H, W), True for pixels that exist
    """

    def __init__(self, node_scores: Tensor, edge_scores: Tensor, mask: Any, rho: Any):
        self.like = read_tensor(node_scores, "node_scores", "(B, H, W, S)", 4)
        n_samples, height, width, n_states = node_scores.shape
        full = (n_samples, 2, height, width, n_states, n_states)
        forms = f"{full[4:]}, {(2, *full[4:])} or {full}"
        read_tensor(edge_scores, "edge_scores", forms, (2, 3, 6))
        if tuple(edge_scores.shape) not in (full[4:], (2, *full[4:]), full):
            raise ValueError(f"edge_scores: expected shape {forms}, got {tuple(edge_scores.shape)}")
        self.mask = read_mask(mask, "mask", (n_samples, height, width))
        tables = exact(edge_scores)
        if tables.dim() == 3:
            tables = tables[:, None, None]
        tables = tables.expand(full)
        spaces, places, ends, n_before = [], [], [], 0
        for b, own in enumerate(self.mask):
            space, pairs, place = _pixels(own, n_states, rho)
            spaces.append(space)
            places.append(place + b * 2 * height * width)
            ends.append(pairs + n_before)
            n_before += int(own.sum())
        place = torch.from_numpy(np.concatenate([*places, np.zeros(0, dtype=np.int64)]))
        self._read(
            exact(node_scores)[torch.from_numpy(self.mask)],
            tables.reshape(-1, n_states, n_states)[place],
            spaces,
            np.concatenate([*ends, np.zeros((0, 2), dtype=np.int64)]),
        )

    def observe(self, target: Any) -> tuple[list[Observed], Tensor]:
        values = read_integers(target, "target", self.mask.shape)
        return self._observe(check_states(values[self.mask], self.n_states))

    def tables(self, tau: Tensor) -> Tensor:
        out = tau.new_zeros((*self.mask.shape, self.n_states))
        return out.masked_scatter(
            torch.from_numpy(self.mask)[..., None], self._node_tables(tau)
        ).to(self.like)

    def labels(self, found: list[Any]) -> Tensor:
        out = np.full(self.mask.shape, IGNORED, dtype=np.int64)
        out[self.mask] = self._states(found)
        return torch.from_numpy(out).to(self.like.device)


class Chain(Problem):
    """Labellings of sequences.

    Parameters
    ----------
    node_scores : tensor of shape (B, T, S), or a PackedSequence of (T, S)
    transitions : tensor of shape (S, S), the earlier state first, or (B, T - 1, S, S)
    mask : boolean, shape (B, T), True for tokens that exist. Tokens left out between others are
        skipped: their neighbours are then neighbours of each other
    lengths : integers of shape (B,), instead of a mask: the first tokens of every sample exist
    """

    batch: SequenceBatch

    def __init__(self, node_scores: Any, transitions: Tensor, mask: Any, lengths: Any):
        node_scores, mask = _tokens(node_scores, mask, lengths)
        self.like = read_tensor(node_scores, "node_scores", "(B, T, S)", 3)
        n_samples, length, n_states = node_scores.shape
        if n_states < 2:
            raise ValueError(f"node_scores: expected at least 2 states, got {n_states}")
        full = (n_samples, max(length - 1, 0), n_states, n_states)
        read_tensor(transitions, "transitions", f"{full[2:]} or {full}", (2, 4))
        if tuple(transitions.shape) not in (full[2:], full):
            raise ValueError(
                f"transitions: expected shape {full[2:]} or {full}, got {tuple(transitions.shape)}"
            )
        self.mask = read_mask(mask, "mask", (n_samples, length))
        lengths = self.mask.sum(axis=1)
        if transitions.dim() == 4 and (self.mask[:, 1:] & ~self.mask[:, :-1]).any():
            raise ValueError(
                "mask: tokens are left out before others; transitions of shape (B, T - 1, S, S) "
                "need all tokens of a sample at its beginning"
            )
        self.batch = SequenceBatch(lengths, n_states)
        nodes, tables = exact(node_scores)[torch.from_numpy(self.mask)], exact(transitions)
        if transitions.dim() == 4:
            tables = tables[torch.from_numpy(self.mask[:, 1:])]
        else:
            tables = tables.expand(self.batch.sample_of_edge.shape[0], *full[2:])
        require_finite(nodes, "node_scores", True)
        require_finite(tables, "transitions", True)
        self.scores = torch.cat([nodes.flatten(), tables.flatten()])

    def observe(self, target: Any) -> tuple[Ints, Tensor]:
        if isinstance(target, PackedSequence):
            target, _ = pad_packed_sequence(target, True, IGNORED, self.mask.shape[1])
        values = read_integers(target, "target", self.mask.shape)
        states = check_states(values[self.mask], self.batch.n_states)
        some = np.bincount(self.batch.sample_of_node, states >= 0, len(self.batch)) > 0
        return states, torch.from_numpy(some)

    def tables(self, tau: Tensor) -> Tensor:
        n_states = self.batch.n_states
        nodes = tau[: int(self.mask.sum()) * n_states].reshape(-1, n_states)
        out = tau.new_zeros((*self.mask.shape, n_states))
        return out.masked_scatter(torch.from_numpy(self.mask)[..., None], nodes).to(self.like)

    def labels(self, found: Ints) -> Tensor:
        out = np.full(self.mask.shape, IGNORED, dtype=np.int64)
        out[self.mask] = found
        return torch.from_numpy(out).to(self.like.device)


def _tokens(node_scores: Any, mask: Any, lengths: Any) -> tuple[Any, Any]:
    """Padded scores and which tokens exist, from what says how long samples are."""
    if isinstance(node_scores, PackedSequence):
        if mask is not None or lengths is not None:
            raise ValueError("mask, lengths: a PackedSequence has lengths of its own")
        node_scores, lengths = pad_packed_sequence(node_scores, batch_first=True)
    elif mask is not None and lengths is not None:
        raise ValueError("mask, lengths: give one of them")
    if lengths is None:
        return node_scores, mask
    read_tensor(node_scores, "node_scores", "(B, T, S)", 3)
    n_samples, length = node_scores.shape[:2]
    sizes = read_integers(lengths, "lengths", (n_samples,))
    if ((sizes < 0) | (sizes > length)).any():
        raise ValueError(f"lengths: expected 0 to {length}, got {sizes.tolist()}")
    return node_scores, torch.from_numpy(np.arange(length) < sizes[:, None])


def check_states(values: Ints, n_states: int) -> Ints:
    """States 0 to S - 1, and -1 for those that are ignored."""
    wrong = ((values < 0) & (values != IGNORED)) | (values >= n_states)
    if wrong.any():
        raise ValueError(
            f"target: expected states 0 to {n_states - 1}, or -100 (ignored), got "
            f"{values[np.argmax(wrong)]}"
        )
    return np.where(values == IGNORED, -1, values)


def _minimal(nodes: Tensor, edges: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
    """Scores of state 1 of nodes, and of both ends in state 1, relative to state 0 everywhere."""
    first = nodes[:, 1] - nodes[:, 0]
    first = first.index_add(0, ends[:, 0], edges[:, 1, 0] - edges[:, 0, 0])
    first = first.index_add(0, ends[:, 1], edges[:, 0, 1] - edges[:, 0, 0])
    return first, edges[:, 1, 1] - edges[:, 1, 0] - edges[:, 0, 1] + edges[:, 0, 0]


def _pixels(mask: Bools, n_states: int, rho: Any) -> tuple[Structure | None, Ints, Ints]:
    """The space of the pixels of an image, its edges, and their places in (2, H, W)."""
    height, width = mask.shape
    if not mask.any():
        return None, np.zeros((0, 2), dtype=np.int64), np.zeros(0, dtype=np.int64)
    number = np.where(mask, np.cumsum(mask).reshape(mask.shape) - 1, -1)
    across, down = mask[:, :-1] & mask[:, 1:], mask[:-1] & mask[1:]
    pairs = np.concatenate(
        [
            np.stack([number[:, :-1][across], number[:, 1:][across]], axis=1),
            np.stack([number[:-1][down], number[1:][down]], axis=1),
        ]
    )
    place = np.arange(2 * height * width).reshape(2, height, width)
    places = np.concatenate([place[0, :, :-1][across], place[1, :-1][down]])
    rows, cols = mask.any(axis=1), mask.any(axis=0)
    if mask[np.ix_(rows, cols)].all() and _contiguous(rows) and _contiguous(cols):
        space = grid_space(int(rows.sum()), int(cols.sum()), n_states, rho)
    else:
        space = masked_grid_space(int(mask.sum()), pairs.tobytes(), n_states, rho)
    return space, pairs, places


def _split(values: Ints, sizes: Any) -> list[Ints]:
    """Consecutive parts of these sizes; none for no sizes."""
    return np.split(values, np.cumsum(sizes))[:-1]


def _contiguous(flags: Any) -> bool:
    at = np.flatnonzero(flags)
    return bool(at[-1] - at[0] + 1 == at.shape[0])


def _read_batch(batch: Any, n_nodes: int) -> Ints:
    """The graph of every node; one graph without `batch`."""
    if batch is None:
        return np.zeros(n_nodes, dtype=np.int64)
    values = read_integers(batch, "batch", (n_nodes,))
    if n_nodes and (values[0] < 0 or (np.diff(values) < 0).any()):
        raise ValueError("batch: expected rising integers from 0 on, the graph of every node")
    return values


def _joined(tables: Tensor, pairs: Ints, n_nodes: int) -> tuple[Tensor, Ints]:
    """Tables of distinct edges in the order of their nodes; those of one pair are added up.

    An edge that is listed in both directions has the sum of both tables, one of them transposed.
    """
    low, high = pairs.min(axis=1, initial=n_nodes), pairs.max(axis=1, initial=-1)
    keys, edge = np.unique(low * n_nodes + high, return_inverse=True)
    turned = torch.from_numpy(pairs[:, 0] > pairs[:, 1])[:, None, None]
    tables = torch.where(turned, tables.transpose(1, 2), tables)
    joined = tables.new_zeros((keys.shape[0], *tables.shape[1:]))
    ends = np.stack([keys // max(n_nodes, 1), keys % max(n_nodes, 1)], axis=1)
    return joined.index_add(0, torch.from_numpy(edge.astype(np.int64)), tables), ends
