"""Sequences of nodes, each in one of L states; one sequence or many side by side.

Coordinates of tau: L per node, then L*L per edge t -> t+1 (row: state of t). On a forest the Bethe
entropy with rho = 1,

    H = sum_n (1 - degree_n) H(tau_n) + sum_e H(tau_e),

is the entropy itself, so log Z is exact, and that of many sequences is the sum over them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._arguments import check_memory
from .._running import check_time
from ..algorithms.pairwise.forward_backward import forward_backward, sample_sequences, viterbi
from ..exceptions import InfeasibleError
from .contract import Bounds, Decoding, ExactDistribution, Marginals, Structure, Vertex
from .entropy import SeparableEntropy
from .labellings.space import LabellingFamily
from .restricted import Remainder

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CHUNK = 1024  # nodes worked on at a time: what they need stays in the processor's cache


class Stream(Protocol):
    """One pass over features of nodes and edges at fixed weights, part by part."""

    def scores(self, nodes: slice, edges: slice) -> tuple[Floats, Floats]:
        """Scores of nodes (n, L) and of edges (m, L, L), or (1, L, L) if all are the same."""
        ...

    def add(self, nodes: Floats, edges: Floats) -> None:
        """Add the moments of marginals of the shapes that `scores` has given."""
        ...

    def moments(self) -> Floats:
        """The moments of everything added, shape (n_features,)."""
        ...


class StreamedFeatures(Protocol):
    """What `SequenceFeatures` has beyond a `FeatureMap`."""

    edge_table_size: int  # numbers of the edges' scores for each node

    def stream(self, theta: Floats) -> Stream: ...


class Part(NamedTuple):
    """Some neighbouring sequences: their place, that of their nodes and edges, their own starts."""

    sequences: slice
    nodes: slice
    edges: slice
    starts: Ints


class Sequences(LabellingFamily):
    """Output space of labelled sequences (linear chains).

    Parameters
    ----------
    lengths : int or sequence of int, the number of nodes of each sequence
    n_states : int, L
    """

    def __init__(self, lengths: ArrayLike, n_states: int):
        given = np.atleast_1d(np.asarray(lengths))
        sizes = given.astype(np.int64)
        whole = given.dtype.kind in "iuf" and np.array_equal(sizes, given)
        if sizes.ndim != 1 or sizes.shape[0] == 0 or sizes.min() < 1 or not whole:
            raise ValueError(f"lengths: expected whole numbers of at least 1, got {lengths!r}")
        if n_states < 2:
            raise ValueError(f"n_states: expected at least 2, got {n_states}")
        self.n_states = int(n_states)
        self.starts = np.concatenate([[0], np.cumsum(sizes)])
        self.n_sequences = sizes.shape[0]
        self.n_edges = self.n_nodes - self.n_sequences
        self.fingerprint = f"{self.n_states} states, sequences {hash(sizes.tobytes())}"
        self._first_edge = self.n_nodes * self.n_states
        self.n_coordinates = self._first_edge + self.n_edges * self.n_states**2
        self.n_scored = self.n_coordinates

    @property
    def n_nodes(self) -> int:
        return int(self.starts[-1])

    @cached_property
    def tails(self) -> Ints:
        """The node t of every edge t -> t+1, shape (n_edges,)."""
        inner = np.ones(self.n_nodes, dtype=bool)
        inner[self.starts[1:] - 1] = False
        return np.flatnonzero(inner)

    @property
    def ends(self) -> tuple[Ints, Ints]:
        """The two nodes of every edge."""
        return self.tails, self.tails + 1

    def _split(self, values: Floats) -> tuple[Floats, Floats]:
        """Views of the node part (n_nodes, L) and of the edge part (n_edges, L, L)."""
        n = self.n_states
        return (
            values[: self._first_edge].reshape(self.n_nodes, n),
            values[self._first_edge :].reshape(self.n_edges, n, n),
        )

    # ------------------------------------------------------------------ entropy
    @cached_property
    def stepping_entropy(self) -> SeparableEntropy:
        """The entropy as a sum over coordinates, weighted by counting numbers."""
        counting = np.ones(self.n_coordinates)
        nodes, _ = self._split(counting)
        nodes[self.tails] -= 1.0
        nodes[self.tails + 1] -= 1.0
        return SeparableEntropy(counting, np.zeros(self.n_coordinates))

    def entropy(self, tau: Floats) -> float:
        """H(tau)."""
        return self.stepping_entropy(tau)

    def entropy_gradient(self, tau: Floats) -> Floats:
        """Gradient of H."""
        return self.stepping_entropy.add_gradient(tau, np.zeros_like(tau))[0]

    def interior(self) -> Floats:
        """All labellings equally probable."""
        check_memory(self.n_coordinates, f"marginals of {self.n_nodes} nodes and their edges")
        tau = np.empty(self.n_coordinates)
        tau[: self._first_edge] = 1.0 / self.n_states
        tau[self._first_edge :] = 1.0 / self.n_states**2
        return tau

    # ------------------------------------------------------------------ labels
    def encode(self, label: Any) -> Vertex:
        """The vertex of `label`: the state of every node, sequence after sequence."""
        states = self.check_states(label)
        n, tails = self.n_states, self.tails
        nodes = np.arange(self.n_nodes) * n + states
        pairs = states[tails] * n + states[tails + 1]
        edges = self._first_edge + np.arange(self.n_edges) * n * n + pairs
        indices = np.concatenate([nodes, edges])
        return Vertex(indices, np.ones(indices.shape[0]))

    def label(self, vertex: Vertex) -> Ints:
        """The state of every node."""
        nodes = vertex.indices[vertex.indices < self._first_edge]
        states = np.empty(self.n_nodes, dtype=np.int64)
        states[nodes // self.n_states] = nodes % self.n_states
        return states

    def hamming_loss(self, vertex: Vertex) -> tuple[float, Floats]:
        """The share of nodes in another state than in `vertex`: constant + <scores, tau>."""
        scores = np.zeros(self.n_coordinates)
        nodes = vertex.indices < self._first_edge
        scores[vertex.indices[nodes]] = -vertex.values[nodes] / self.n_nodes
        return 1.0, scores

    def given(self, known: Any) -> Structure:
        """The labellings with the known states (-1: not known): chains are cut there."""
        states = np.asarray(known, dtype=np.int64)
        if (states < 0).all():
            return self
        rest = Remainder.of(states, *self.ends)
        part = None
        if rest.nodes.size:
            first = np.ones(rest.nodes.size, dtype=bool)
            first[rest.ends[:, 1]] = False  # every node but the first of a piece is a head
            starts = np.append(np.flatnonzero(first), rest.nodes.size)
            part = Sequences(np.diff(starts), self.n_states)
        return rest.restrict(self, part, self.n_states)

    # ------------------------------------------------------------------ inference from scores
    def decode(self, scores: Floats, warm: Floats | None = None, prices: bool = False) -> Decoding:
        """The labelling of the largest score (Viterbi)."""
        vertex = self.encode(viterbi(self.starts, *self._split(scores)))
        return Decoding(vertex, vertex.dot(scores))

    def marginals(self, scores: Floats, warm: Any = None, tol: float = 1e-8) -> Marginals:
        """Exact marginals and log Z (forward-backward), whatever `tol`."""
        found = forward_backward(self.starts, *self._split(scores))
        log_z = float(found.log_z.sum())
        tau = self.from_tables(found.nodes, found.edges)
        return Marginals(tau, log_z, log_z, None, 1)

    @property
    def is_exact(self) -> bool:
        return True

    def exact(self, scores: Floats) -> ExactDistribution:
        """The distribution itself, by forward-backward passes, at any size."""
        return _Forward(self, scores)

    def log_partition_bounds(self, scores: Floats, tol: float) -> Bounds:
        """log Z is exact."""
        log_z = self.exact(scores).log_partition
        return Bounds(log_z, log_z, "exact", "exact")

    # ------------------------------------------------------------------ inference from features
    def _parts(self, numbers_per_node: int) -> Iterator[Part]:
        """The sequences, some at a time."""
        # Edge tables of a part have at most four million entries.
        size = max(1, min(CHUNK, 4_000_000 // numbers_per_node))
        at = 0
        while at < self.n_sequences:
            node = self.starts[at]
            end = int(np.searchsorted(self.starts, node + size, side="right")) - 1
            end = min(max(end, at + 1), self.n_sequences)
            stop = self.starts[end]
            check_time("a pass over sequences")
            yield Part(
                slice(at, end),
                slice(int(node), int(stop)),
                slice(int(node) - at, int(stop) - end),
                self.starts[at : end + 1] - node,
            )
            at = end

    def expectation(
        self,
        features: Any,
        theta: Floats,
        offset: Floats | None = None,
        warm: Any = None,
        tol: float = 1e-8,
    ) -> tuple[Marginals, Floats] | None:
        """log Z and expected moments at once, part by part.

        Nothing of the size of tau is made, and the returned tau is empty. None if the features
        are not scored part by part.
        """
        if not hasattr(features, "stream"):
            return None
        log_z, stream = 0.0, self._stream(features, theta, offset)
        for part in self._parts(features.edge_table_size):
            found = forward_backward(part.starts, *stream.scores(part.nodes, part.edges))
            stream.add(found.nodes, found.edges)
            log_z += float(found.log_z.sum())
        return Marginals(np.zeros(0), log_z, log_z, None, 1), stream.moments()

    def _stream(self, features: StreamedFeatures, theta: Floats, offset: Floats | None) -> Stream:
        stream = features.stream(theta)
        return stream if offset is None else _OffsetStream(stream, *self._split(offset))

    def best_states(
        self, features: StreamedFeatures, theta: Floats, offset: Floats | None = None
    ) -> Ints:
        """The most probable labelling, shape (n_nodes,)."""
        states = np.empty(self.n_nodes, dtype=np.int64)
        stream = self._stream(features, theta, offset)
        for part in self._parts(features.edge_table_size):
            states[part.nodes] = viterbi(part.starts, *stream.scores(part.nodes, part.edges))
        return states

    def state_probabilities(
        self, features: StreamedFeatures, theta: Floats, offset: Floats | None = None
    ) -> Floats:
        """The probability of every state of every node, shape (n_nodes, L)."""
        out = np.empty((self.n_nodes, self.n_states))
        stream = self._stream(features, theta, offset)
        for part in self._parts(features.edge_table_size):
            out[part.nodes] = forward_backward(
                part.starts, *stream.scores(part.nodes, part.edges)
            ).nodes
        return out

    def log_likelihoods(
        self, features: StreamedFeatures, theta: Floats, states: Ints, offset: Floats | None = None
    ) -> Floats:
        """log p(states) of every sequence, shape (n_sequences,)."""
        out = np.empty(self.n_sequences)
        stream = self._stream(features, theta, offset)
        for part in self._parts(features.edge_table_size):
            scores, tables = stream.scores(part.nodes, part.edges)
            own = states[part.nodes]
            seen = scores[np.arange(own.shape[0]), own]
            tails = self.tails[part.edges] - part.nodes.start
            table = 0 if tables.shape[0] == 1 else np.arange(tails.shape[0])
            seen[tails] += tables[table, own[tails], own[tails + 1]]
            totals = np.add.reduceat(seen, part.starts[:-1])
            out[part.sequences] = totals - forward_backward(part.starts, scores, tables).log_z
        return out


class _OffsetStream:
    """A stream of scores to which the offsets of nodes (n, L) and edges (m, L, L) are added."""

    _n_tables: int  # of the inner stream, in the last call of `scores`

    def __init__(self, inner: Stream, nodes: Floats, edges: Floats):
        self._inner, self._nodes, self._edges = inner, nodes, edges
        self._own_tables = bool(edges.any())
        # One table for all edges stays one where they have the same offset.
        self._alike = self._own_tables and bool((edges == edges[:1]).all())

    def scores(self, nodes: slice, edges: slice) -> tuple[Floats, Floats]:
        own, tables = self._inner.scores(nodes, edges)
        self._n_tables = tables.shape[0]
        if self._own_tables and edges.stop > edges.start:
            tables = (
                tables + self._edges[edges.start : edges.start + 1 if self._alike else edges.stop]
            )
        return own + self._nodes[nodes], tables

    def add(self, nodes: Floats, edges: Floats) -> None:
        if edges.shape[0] != self._n_tables:  # one table for all, without the offsets
            edges = edges.sum(axis=0, keepdims=True)
        self._inner.add(nodes, edges)

    def moments(self) -> Floats:
        return self._inner.moments()


class _Forward:
    """An `ExactDistribution` over the labellings of sequences."""

    def __init__(self, structure: Sequences, scores: Floats):
        self._structure, self._tables = structure, structure.score_tables(scores)
        with np.errstate(invalid="ignore"):  # of sequences whose labellings are all forbidden
            found = forward_backward(structure.starts, *self._tables)
        self.log_partition = float(found.log_z.sum())
        if not np.isfinite(self.log_partition):
            raise InfeasibleError("every labelling of some chain is forbidden", [], "nodes")
        self.tau = structure.from_tables(found.nodes, found.edges)

    def sample(self, n_samples: int, rng: np.random.Generator) -> Any:
        """Independent labels: forward filtering, backward sampling."""
        return sample_sequences(self._structure.starts, *self._tables, n_samples, rng)
