"""Labellings with two states of many samples over one graph, each sample with scores of its own.

As one output space they are the labellings of as many copies of the graph: coordinates of all
nodes, sample by sample, then of all edges.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._running import in_time
from ...algorithms.pairwise.junction_tree import BinaryJunctionTree, BinaryMarginals
from ...exceptions import TooLargeToCount
from ..contract import Decoding, Marginals, Structure, Vertex
from ..exact import ExactInference
from ..graphs.pairwise import PairwiseGraph
from ..rho import Reweighting, reweighting
from .pairwise import Pairwise, ising_tables

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

INFERENCE = ("auto", "exact", "reweighted")
CHUNK = 256  # samples of one block or one call of message passing, so that threads share them out
LARGEST = 2**19  # edges of all copies in one call, whose set-up is not divided: a tenth of a second


class RepeatedBinary:
    """The graph that all samples have, and how their marginals are found.

    Scores of samples are fields (n_samples, n_nodes), of nodes in state 1, and couplings
    (n_samples, n_edges), of edges whose ends are both in state 1; (1, n_edges) if all samples have
    the same. `known` states have the shape (n_samples, n_nodes), -1 where a state is not known.

    Parameters
    ----------
    graph : PairwiseGraph
    inference : "auto", "exact" or "reweighted"
        "exact" is a junction tree; "auto" takes it if the treewidth is small.

    Attributes
    ----------
    tree : BinaryJunctionTree, or None if marginals are reweighted
    """

    def __init__(self, graph: PairwiseGraph, inference: str = "auto"):
        if inference not in INFERENCE:
            raise ValueError(f"inference: expected one of {list(INFERENCE)}, got {inference!r}")
        self.graph = graph
        self.tree = self._junction_tree(inference)
        self._spaces: dict[int, Structure] = {}

    def _junction_tree(self, inference: str) -> BinaryJunctionTree | None:
        if inference == "reweighted":
            return None
        try:
            tree = BinaryJunctionTree(self.graph.n_nodes, self.graph.tail, self.graph.head)
        except TooLargeToCount:
            if inference == "exact":
                raise
            return None
        # Of the tables for one sample "auto" allows those of 20 nodes, all coupled.
        return tree if inference == "exact" or tree.n_entries <= 2**20 else None

    def chunks(self, n_samples: int) -> Iterator[slice]:
        """Slices of at most CHUNK samples, fewer on graphs of many edges."""
        size = max(1, min(CHUNK, LARGEST // max(self.graph.n_edges, 1)))
        return (slice(k, min(k + size, n_samples)) for k in range(0, n_samples, size))

    # ------------------------------------------------------------------ output spaces
    def space(self, n_samples: int) -> Structure:
        """The output space of some samples; equal numbers share one."""
        if n_samples not in self._spaces:
            space = self.approximate(n_samples)
            self._spaces[n_samples] = (
                space if self.tree is None else ExactRepeated(space, self.tree)
            )
        return self._spaces[n_samples]

    @cached_property
    def reweighting(self) -> Reweighting:
        """rho of one copy."""
        return reweighting(self.graph)

    def approximate(self, n_samples: int) -> Pairwise:
        """The output space of some samples under the reweighted entropy."""
        graph, own = self.graph, self.reweighting
        if n_samples == 1:
            return Pairwise(graph, 2, own)
        ends = np.stack([graph.tail, graph.head], axis=1).astype(np.int64)
        shifts = graph.n_nodes * np.arange(n_samples)
        pairs = (shifts[:, None, None] + ends).reshape(-1, 2)
        copies = PairwiseGraph(n_samples * graph.n_nodes, pairs)
        split = [
            None if share is None else np.tile(share, n_samples)
            for share in (own.into_tail, own.into_head)
        ]
        return Pairwise(copies, 2, Reweighting(copies, np.tile(own.rho, n_samples), *split))

    def scores(self, fields: Floats, couplings: Floats) -> Floats:
        """Scores of the coordinates of all samples' output space."""
        (n, n_nodes), n_edges = fields.shape, self.graph.n_edges
        out = np.zeros(n * (2 * n_nodes + 4 * n_edges))
        out[1 : 2 * fields.size : 2] = fields.ravel()
        out[2 * fields.size + 3 :: 4] = np.broadcast_to(couplings, (n, n_edges)).ravel()
        return out

    def point(self, on: Floats, both: Floats) -> Vertex:
        """One sample's P(x_i = 1) of all nodes and P(x_i = x_j = 1) of all edges, such as means."""
        nodes, edges = ising_tables(on, both, self.graph.tail, self.graph.head)
        return Vertex.of(np.concatenate([nodes.ravel(), edges.ravel()]))

    def query(
        self, fields: Floats, couplings: Floats, known: Ints | None = None
    ) -> tuple[Structure, Floats]:
        """The reweighted space of samples given what is known, and scores of its coordinates."""
        space = self.space(fields.shape[0]).approximate
        if known is not None:
            space = space.given(known.ravel())
        return space, self.scores(fields, couplings)

    # ------------------------------------------------------------------ questions
    def marginals(
        self, fields: Floats, couplings: Floats, known: Ints | None = None, tol: float = 1e-6
    ) -> BinaryMarginals:
        """P(x_n = 1) and P(x_i = x_j = 1) of all samples, given what is known.

        `log_partition` is exact, or NaN if marginals are reweighted; `tol` is the gap to which
        these are solved, per node.
        """
        if self.tree is not None:
            return self.tree.marginals(fields, couplings, known)
        space, scores = self.query(fields, couplings, known)
        tau = space.marginals(scores, None, tol * space.n_nodes).tau
        nodes, edges = tau[1 : 2 * fields.size : 2], tau[2 * fields.size + 3 :: 4]
        unknown = np.full(fields.shape[0], np.nan)
        return BinaryMarginals(
            unknown, nodes.reshape(fields.shape), edges.reshape(len(fields), self.graph.n_edges)
        )

    def best(
        self, fields: Floats, couplings: Floats, known: Ints | None = None
    ) -> tuple[Ints, Floats]:
        """Most probable states of all samples given what is known, and their scores.

        Exact on junction trees, otherwise as good as QPBO and local search find them.
        """
        if self.tree is not None:
            return self.tree.best(fields, couplings, known)
        space, scores = self.query(fields, couplings, known)
        states = space.best_label(scores).reshape(fields.shape)
        return states, self.scores_of(states, fields, couplings)

    def scores_of(self, states: Any, fields: Floats, couplings: Floats) -> Floats:
        """Total score of given states, shape (n_samples,)."""
        both = states[:, self.graph.tail] * states[:, self.graph.head]
        return np.asarray((states * fields).sum(axis=1) + (both * couplings).sum(axis=1))

    def log_partition_bounds(
        self, fields: Floats, couplings: Floats, tol: float = 1e-6, known: Ints | None = None
    ) -> tuple[Floats, Floats]:
        """Proven bounds of every sample's log Z; equal if marginals are exact.

        `tol` is the gap to which each bound is solved, per node. log Z sums over the states that
        are not `known`, and has the score of those that are.
        """
        if self.tree is not None:
            log_z = self.tree.marginals(fields, couplings, known).log_partition
            return log_z, log_z.copy()
        found = []
        for m in in_time(range(fields.shape[0]), "bounds of all samples"):
            one = slice(m, m + 1)
            own = couplings if couplings.shape[0] == 1 else couplings[one]
            space, scores = self.query(fields[one], own, None if known is None else known[one])
            found.append(space.log_partition_bounds(scores, tol * self.graph.n_nodes))
        return np.array([b.lower for b in found]), np.array([b.upper for b in found])


class ExactRepeated(ExactInference):
    """Exact marginals of all samples, by one compiled junction tree."""

    def __init__(self, approximate: Pairwise, tree: BinaryJunctionTree):
        super().__init__(approximate)
        self._copies, self._tree = approximate, tree.tables

    def _by_sample(self, scores: Floats) -> tuple[Floats, Floats]:
        """Score tables of every sample."""
        n, (nodes, edges) = self.n_nodes // self._tree.n_nodes, self._copies.score_tables(scores)
        return nodes.reshape(n, -1, 2), edges.reshape(n, self._tree.tail.size, 2, 2)

    def marginals(self, scores: Floats, warm: Any = None, tol: float = 0.0) -> Marginals:
        """Exact marginals and log Z, whatever `tol`."""
        found = self._tree.marginals(*self._by_sample(scores))
        log_z = float(found.log_partition.sum())
        tables = found.nodes.reshape(-1, 2), found.edges.reshape(-1, 2, 2)
        return Marginals(self._copies.from_tables(*tables), log_z, log_z, None, 1)

    def best_label(self, scores: Floats) -> Ints:
        return self._tree.best(*self._by_sample(scores))[0].ravel()

    def decode(self, scores: Floats, warm: Floats | None = None, prices: bool = False) -> Decoding:
        """The labelling of the largest score: a vertex of the exact polytope."""
        vertex = self.encode(self.best_label(scores))
        return Decoding(vertex, vertex.dot(scores))

    def decode_integral(self, scores: Floats) -> Decoding:
        return self.decode(scores)
