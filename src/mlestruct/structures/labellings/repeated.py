"""Binary labellings of many samples over one graph, each with scores of its own.

As one output space they have the coordinates of `BinaryPairwise` on as many copies of the graph:
all nodes, sample by sample, then all edges.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...algorithms.pairwise.binary_junction_tree import (
    FREE,
    BinaryJunctionTree,
    SampleMarginals,
)
from ...exceptions import TooLargeToCount
from ..contract import Decoding, Marginals, Structure
from ..exact_inference import ExactInference
from ..graphs.pairwise import PairwiseGraph
from ..rho import Reweighting, reweighting
from .binary import BinaryPairwise

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EXACT_ENTRIES = 2**20  # of the tables for one sample, that "auto" allows: 20 nodes, all coupled
INFERENCE = ("auto", "exact", "reweighted")
CHUNK = 256  # samples of one block or one call of message passing, so that threads share them out


class RepeatedBinary:
    """The graph that all samples have, and how their marginals are found.

    Parameters
    ----------
    graph : PairwiseGraph
    rho : as in `BinaryPairwise`; of one copy
    inference : "auto", "exact" or "reweighted"
        "exact" is a junction tree; "auto" takes it where the treewidth is small and rho is "auto".

    Attributes
    ----------
    tree : BinaryJunctionTree, or None where marginals are reweighted
    """

    def __init__(self, graph: PairwiseGraph, rho: Any = "auto", inference: str = "auto"):
        if inference not in INFERENCE:
            raise ValueError(f"inference: expected one of {list(INFERENCE)}, got {inference!r}")
        self.graph, self._rho = graph, rho
        self.tree = self._junction_tree(inference)
        self._spaces: dict[int, Structure] = {}

    def _junction_tree(self, inference: str) -> BinaryJunctionTree | None:
        own_rho = not (isinstance(self._rho, str) and self._rho == "auto")
        if inference == "reweighted" or (inference == "auto" and own_rho):
            return None
        try:
            tree = BinaryJunctionTree(self.graph.n_nodes, self.graph.tail, self.graph.head)
        except TooLargeToCount:
            if inference == "exact":
                raise
            return None
        return tree if inference == "exact" or tree.n_entries <= EXACT_ENTRIES else None

    # ------------------------------------------------------------------ output spaces
    @cached_property
    def reweighting(self) -> Reweighting:
        """rho of one copy."""
        return reweighting(self.graph, self._rho)

    def space(self, n_samples: int) -> Structure:
        """The output space of some samples; equal numbers share one."""
        if n_samples not in self._spaces:
            space = self.approximate(n_samples)
            self._spaces[n_samples] = (
                space if self.tree is None else ExactRepeated(space, self.tree)
            )
        return self._spaces[n_samples]

    def approximate(self, n_samples: int) -> BinaryPairwise:
        """The output space of some samples under the reweighted entropy."""
        graph = self.graph
        if n_samples == 1:
            return BinaryPairwise(graph, self.reweighting)
        ends = np.stack([graph.tail, graph.head], axis=1).astype(np.int64)
        shifts = graph.n_nodes * np.arange(n_samples)
        pairs = (shifts[:, None, None] + ends).reshape(-1, 2)
        return self.part(
            shifts.size * graph.n_nodes, pairs, np.tile(np.arange(len(ends)), n_samples)
        )

    def part(self, n_nodes: int, pairs: Ints, edge: Ints) -> BinaryPairwise:
        """A part of copies of the graph; `edge` is the place of each pair in the graph.

        Parts of spanning forests are forests, so rho remains in their polytope.
        """
        graph, own = PairwiseGraph(n_nodes, pairs), self.reweighting
        into = (own.into_tail, own.into_head)
        split = [None if share is None else share[edge] for share in into]
        return BinaryPairwise(graph, Reweighting(graph, own.rho[edge], split[0], split[1]))

    # ------------------------------------------------------------------ questions
    def marginals(
        self, fields: Floats, couplings: Floats, known: Ints | None = None, tol: float = 1e-6
    ) -> SampleMarginals:
        """P(x_n = 1) and P(x_i = x_j = 1) of all samples, given what is known.

        `log_partition` is exact, or NaN where marginals are reweighted; `tol` is the gap to which
        these are solved, per node.

        Parameters
        ----------
        fields : array of shape (n_samples, n_nodes)
        couplings : array of shape (n_samples, n_edges), or (1, n_edges) if all have the same
        known : integer array of shape (n_samples, n_nodes), optional; -1 where unknown
        """
        if self.tree is not None:
            return self.tree.marginals(fields, couplings, known)
        nodes, edges = [], []
        for part in chunks(fields.shape[0]):
            query = self._conditioned(fields, couplings, known, part)
            wanted = tol * max(query.structure.n_nodes, 1)
            found = query.expand(query.structure.marginals(query.scores, None, wanted).tau)
            nodes.append(found[0])
            edges.append(found[1])
        unknown = np.full(fields.shape[0], np.nan)
        return SampleMarginals(unknown, np.concatenate(nodes), np.concatenate(edges))

    def best(
        self, fields: Floats, couplings: Floats, known: Ints | None = None
    ) -> tuple[Ints, Floats]:
        """Most probable states of all samples given what is known, and their scores.

        Exact on junction trees, otherwise as good as QPBO and local search find them.
        """
        if self.tree is not None:
            return self.tree.best(fields, couplings, known)
        found = []
        for part in chunks(fields.shape[0]):
            query = self._conditioned(fields, couplings, known, part)
            states = query.known.copy()
            states[states == FREE] = query.structure.best_label(query.scores)
            found.append(states)
        states = np.concatenate(found)
        return states, self.scores_of(states, fields, couplings)

    def _conditioned(
        self, fields: Floats, couplings: Floats, known: Ints | None, part: slice
    ) -> Conditioned:
        own = couplings if couplings.shape[0] == 1 else couplings[part]
        return Conditioned(self, fields[part], own, None if known is None else known[part])

    def scores_of(self, states: Any, fields: Floats, couplings: Floats) -> Floats:
        """Total score of given states, shape (n_samples,)."""
        both = states[:, self.graph.tail] * states[:, self.graph.head]
        return np.asarray((states * fields).sum(axis=1) + (both * couplings).sum(axis=1))

    def log_partition_bounds(
        self, fields: Floats, couplings: Floats, tol: float = 1e-6, known: Ints | None = None
    ) -> tuple[Floats, Floats]:
        """Proven bounds of every sample's log Z; equal where marginals are exact.

        `tol` is the gap to which each bound is solved, per node. log Z sums over the states that
        are not `known` (-1), and has the score of those that are.
        """
        if self.tree is not None:
            log_z = self.tree.marginals(fields, couplings, known).log_partition
            return log_z, log_z.copy()
        if known is not None:
            return self._bounds_given(fields, couplings, tol, known)
        single, wanted = self.approximate(1), tol * self.graph.n_nodes
        shape = (fields.shape[0], self.graph.n_edges)
        scores = np.concatenate([fields, np.broadcast_to(couplings, shape)], axis=1)
        found = [single.log_partition_bounds(row, wanted) for row in scores]
        return np.array([b.lower for b in found]), np.array([b.upper for b in found])

    def _bounds_given(
        self, fields: Floats, couplings: Floats, tol: float, known: Ints
    ) -> tuple[Floats, Floats]:
        score = self.scores_of(np.maximum(known, 0), fields, couplings)
        low, high = np.empty((2, fields.shape[0]))
        for m in range(fields.shape[0]):
            rest = self._conditioned(fields, couplings, known, slice(m, m + 1))
            low[m] = high[m] = 0.0
            if rest.structure.n_nodes:
                found = rest.structure.log_partition_bounds(rest.scores, tol * self.graph.n_nodes)
                low[m], high[m] = found.lower, found.upper
        return score + low, score + high


class Conditioned:
    """Copies of a graph without the nodes whose states are known.

    Attributes
    ----------
    structure : BinaryPairwise over the unknown nodes of all samples
    scores : their scores, with what known neighbours add
    known : ndarray of shape (n_samples, n_nodes), -1 where unknown
    """

    def __init__(
        self, model: RepeatedBinary, fields: Floats, couplings: Floats, known: Ints | None
    ):
        graph, n = model.graph, fields.shape[0]
        self._tail, self._head = graph.tail.astype(np.int64), graph.head.astype(np.int64)
        couplings = np.broadcast_to(couplings, (n, graph.n_edges))
        if known is None:
            self.known, self._kept = np.full(fields.shape, FREE), np.full(couplings.shape, True)
            self.structure = model.approximate(n)
            self.scores = np.concatenate([fields.ravel(), couplings.ravel()])
            return
        self.known = known
        free, on = known == FREE, known == 1
        added = fields.copy()
        for here, there in ((self._tail, self._head), (self._head, self._tail)):
            np.add.at(added.T, here, (couplings * on[:, there]).T)
        self._kept = free[:, self._tail] & free[:, self._head]
        number = np.cumsum(free.ravel()).reshape(free.shape) - 1
        sample, edge = np.nonzero(self._kept)
        pairs = np.stack([number[sample, self._tail[edge]], number[sample, self._head[edge]]], 1)
        self.structure = model.part(int(free.sum()), pairs, edge)
        self.scores = np.concatenate([added[free], couplings[self._kept]])

    def expand(self, tau: Floats) -> tuple[Floats, Floats]:
        """Marginals of all nodes and edges from those of the unknown ones."""
        nodes, n = self.known.astype(np.float64), self.structure.n_nodes
        nodes[self.known == FREE] = tau[:n]
        edges = nodes[:, self._tail] * nodes[:, self._head]  # where an end is known
        edges[self._kept] = tau[n:]
        return nodes, edges


class ExactRepeated(ExactInference):
    """Exact marginals of all samples, by one compiled junction tree."""

    def __init__(self, approximate: BinaryPairwise, tree: BinaryJunctionTree):
        super().__init__(approximate)
        self._tree = tree

    def _by_sample(self, scores: Floats) -> tuple[Floats, Floats]:
        """Scores of nodes and of edges."""
        n, n_edges = self.n_nodes // self._tree.n_nodes, self._tree.tail.shape[0]
        return scores[: self.n_nodes].reshape(n, -1), scores[self.n_nodes :].reshape(n, n_edges)

    def marginals(self, scores: Floats, warm: Any = None, tol: float = 0.0) -> Marginals:
        """Exact marginals and log Z, whatever `tol`."""
        found = self._tree.marginals(*self._by_sample(scores))
        log_z = float(found.log_partition.sum())
        tau = np.concatenate([found.nodes.ravel(), found.edges.ravel()])
        return Marginals(tau, log_z, log_z, None, 1)

    def best_label(self, scores: Floats) -> Ints:
        return self._tree.best(*self._by_sample(scores))[0].ravel()

    def decode(self, scores: Floats, warm: Floats | None = None, prices: bool = False) -> Decoding:
        """The labelling of the largest score: a vertex of the exact polytope."""
        vertex = self.encode(self.best_label(scores))
        return Decoding(vertex, vertex.dot(scores))

    def decode_integral(self, scores: Floats) -> Decoding:
        return self.decode(scores)


def chunks(n_samples: int) -> Iterator[slice]:
    """Slices of at most CHUNK samples."""
    return (slice(k, min(k + CHUNK, n_samples)) for k in range(0, n_samples, CHUNK))
