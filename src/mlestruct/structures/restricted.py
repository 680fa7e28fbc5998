"""`Restricted`: the outputs of a space of which some coordinates are fixed.

What is known of an output, or the same in all outputs, makes coordinates of tau constants and
others equal to one another: tau_k = tau'_of(k) or fixed_k, for the tau' of a smaller space of the
same kind. Fixed terms of H_rho cancel, so that the entropy of the smaller space at the same rho is
that of the whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..algorithms.gumbel import GumbelNoise
from ..algorithms.markov_chains import Draws
from .contract import Bounds, Decoding, ExactDistribution, Marginals, Structure, Vertex

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Restricted(Structure):
    """The face of `whole` with tau[at] = tau'[of] for tau' of `part`, and tau = fixed elsewhere.

    Parameters
    ----------
    part : the smaller space, or None where everything is fixed
    fixed : array of shape (n_coordinates,), 0 at coordinates that are not fixed
    at : coordinates of the whole that equal one of part
    of : that coordinate of each; by default they are all different, and in the order of `at`
    """

    def __init__(
        self, whole: Structure, part: Structure | None, fixed: Floats, at: Ints,
        of: Ints | None = None,
    ):  # fmt: skip
        self.whole, self.part, self.fixed = whole, part, fixed
        self._at, self._of = at, np.arange(at.size) if of is None else of
        self._place = np.zeros(0 if part is None else part.n_coordinates, dtype=np.int64)
        if part is not None:
            self._place[self._of[::-1]] = at[::-1]  # the first coordinate that equals each of part
        self.n_coordinates, self.n_scored = whole.n_coordinates, whole.n_scored
        self.fingerprint = f"{whole.fingerprint} given {hash(fixed.tobytes())} {at.size}"

    # ------------------------------------------------------------------ coordinates
    def _reduced(self, scores: Floats) -> Floats:
        """Scores of the part: <scores, tau> = <reduced, tau'> + <scores, fixed>."""
        sums = np.bincount(self._of, scores[self._at], minlength=self._place.size)
        return sums.astype(np.float64, copy=False)

    def restore(self, tau: Floats) -> Floats:
        """Marginals of the whole from those of the part."""
        out = self.fixed.copy()
        out[self._at] = tau[self._of]
        return out

    def _vertex(self, vertex: Vertex | None) -> Vertex:
        """A vertex of the whole from one of the part; None where there is no part."""
        return Vertex.of(self.restore(np.zeros(0) if vertex is None else self._dense(vertex)))

    def _dense(self, vertex: Vertex) -> Floats:
        return vertex.dense(self._place.size)

    def offers(self, capability: str) -> bool:
        """Whether the smaller space has a capability, too."""
        return super().offers(capability) and (self.part is None or self.part.offers(capability))

    def agrees(self, vertex: Vertex) -> bool:
        """Whether an output of the whole is among these."""
        point = vertex.dense(self.n_coordinates)
        return bool(np.array_equal(point, self.restore(point[self._place])))

    # ------------------------------------------------------------------ outputs
    @property
    def n_nodes(self) -> int:
        return 1 if self.part is None else max(self.part.n_nodes, 1)

    @property
    def is_fixed(self) -> bool:
        return self.part is None or self.part.is_fixed

    @property
    def has_bound(self) -> bool:
        return self.part is None or self.part.has_bound

    @property
    def is_exact(self) -> bool:
        return self.part is None or self.part.is_exact

    def encode(self, label: Any) -> Vertex:
        return self.whole.encode(label)

    def label(self, vertex: Vertex) -> Any:
        return self.whole.label(vertex)

    def decode(self, scores: Floats, warm: Floats | None = None, prices: bool = False) -> Decoding:
        return self._decoding("decode", scores)

    def decode_integral(self, scores: Floats) -> Decoding:
        return self._decoding("decode_integral", scores)

    def _decoding(self, asked: str, scores: Floats) -> Decoding:
        """An answer of the part, in the coordinates and scores of the whole."""
        constant = float(scores @ self.fixed)
        if self.part is None:
            return Decoding(self._vertex(None), constant)
        found = getattr(self.part, asked)(self._reduced(scores))
        bound = None if found.upper_bound is None else found.upper_bound + constant
        return Decoding(self._vertex(found.vertex), found.score + constant, upper_bound=bound)

    def best_label(self, scores: Floats) -> Any:
        if self.part is None:
            return self.label(self._vertex(None))
        return self.whole_label(self.part.best_label(self._reduced(scores)))

    def whole_label(self, label: Any) -> Any:
        """A label of the whole from one of the part."""
        assert self.part is not None
        return self.label(self._vertex(self.part.encode(label)))

    def marginal_table(self, tau: Floats) -> Floats:
        return self.whole.marginal_table(tau)

    # ------------------------------------------------------------------ entropy
    def entropy(self, tau: Floats) -> float:
        return 0.0 if self.part is None else self.part.entropy(tau[self._place])

    def entropy_gradient(self, tau: Floats) -> Floats:
        out = np.zeros(self.n_coordinates)
        if self.part is not None:
            out[self._place] = self.part.entropy_gradient(tau[self._place])
        return out

    def interior(self) -> Floats:
        return self.restore(np.zeros(0) if self.part is None else self.part.interior())

    # ------------------------------------------------------------------ probabilities
    def marginals(self, scores: Floats, warm: Any = None, tol: float = 1e-8) -> Marginals:
        constant = float(scores @ self.fixed)
        if self.part is None:
            return Marginals(self.fixed.copy(), constant, constant, None, 0)
        found = self.part.marginals(self._reduced(scores), warm, tol)
        value, upper = found.value + constant, found.upper_bound + constant
        return replace(found, tau=self.restore(found.tau), value=value, upper_bound=upper)

    def require_feasible(self) -> None:
        if self.part is not None:
            self.part.require_feasible()

    def log_partition_bounds(self, scores: Floats, tol: float) -> Bounds:
        constant = float(scores @ self.fixed)
        if self.part is None:
            return Bounds(constant, constant, "exact", "exact")
        found = self.part.log_partition_bounds(self._reduced(scores), tol)
        return replace(found, lower=found.lower + constant, upper=found.upper + constant)

    def exact(self, scores: Floats) -> ExactDistribution:
        part = None if self.part is None else self.part.exact(self._reduced(scores))
        return _Conditional(self, part, float(scores @ self.fixed))

    def markov_chain_samples(
        self, scores: Floats, n_samples: int, rng: np.random.Generator, **options: Any
    ) -> Draws:
        if self.part is None:
            labels = np.array([self.label(self._vertex(None))] * n_samples)
            return Draws(labels, 1.0, float(n_samples), 0, True)
        found = self.part.markov_chain_samples(self._reduced(scores), n_samples, rng, **options)
        return replace(found, states=_stacked([self.whole_label(y) for y in found.states]))

    def gumbel_noise(self) -> GumbelNoise:
        return self.whole.gumbel_noise()


class _Conditional:
    """An `ExactDistribution` given what is known."""

    def __init__(self, space: Restricted, part: ExactDistribution | None, constant: float):
        self._space, self._part = space, part
        self.log_partition = constant + (0.0 if part is None else part.log_partition)

    @property
    def tau(self) -> Floats:
        return self._space.restore(np.zeros(0) if self._part is None else self._part.tau)

    def sample(self, n_samples: int, rng: np.random.Generator) -> Any:
        space = self._space
        if self._part is None:
            return _stacked([space.best_label(space.fixed)] * n_samples)
        return _stacked([space.whole_label(y) for y in self._part.sample(n_samples, rng)])


def _stacked(labels: list[Any]) -> Any:
    """Labels as an array where they have one shape, else as they are."""
    same = len({np.shape(label) for label in labels}) == 1
    return np.array(labels) if same else labels


@dataclass(frozen=True)
class Remainder:
    """The part of a graph whose states are not known; a known node leaves the graph.

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
    def of(cls, states: Ints, tail: NDArray[Any], head: NDArray[Any]) -> Remainder:
        """What is left of a graph where `states` (-1: not known) are."""
        nodes = np.flatnonzero(states < 0)
        number = np.full(states.shape[0], -1)
        number[nodes] = np.arange(nodes.shape[0])
        edges = np.flatnonzero((number[tail] >= 0) & (number[head] >= 0))
        ends = np.stack([number[tail[edges]], number[head[edges]]], axis=1)
        return cls(states, tail.astype(np.int64), head.astype(np.int64), nodes, edges, ends)

    def restrict(self, whole: Structure, part: Structure | None, n_states: int) -> Restricted:
        """`whole` with the known states, `part` being the space over this part of the graph.

        Coordinates of nodes, one for each state, come before those of edges, one for each pair.
        """
        columns = np.arange(n_states)
        zero, one = -2, -1  # in place of coordinates of the part
        node = np.where(self.states[:, None] == columns, one, zero)
        node[self.nodes] = np.arange(self.nodes.size * columns.size).reshape(-1, columns.size)
        # An edge is the product of its ends, one of which is a constant unless it is left.
        tail, head = node[self.tail][:, :, None], node[self.head][:, None, :]
        edge = np.where((tail == zero) | (head == zero), zero, np.maximum(tail, head))
        own = np.arange(self.edges.size * columns.size**2) + self.nodes.size * columns.size
        edge[self.edges] = own.reshape(-1, columns.size, columns.size)
        every = np.concatenate([node.ravel(), edge.ravel()])
        at = np.flatnonzero(every >= 0)
        return Restricted(whole, part, (every == one).astype(np.float64), at, every[at])
