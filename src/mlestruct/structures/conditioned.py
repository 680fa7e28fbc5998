"""`Conditioned`: the outputs of a space that agree with what is known of them.

Some coordinates are then constants, others equal to one another, so that tau = A tau' + b for the
tau' of a smaller space of the same kind: <scores, tau> = <A' scores, tau'> + <scores, b>. Clamped
terms of H_rho cancel, so that the entropy of the smaller space at the same rho is that of the
whole.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..algorithms.gumbel import GumbelNoise
from ..algorithms.markov_chains import Draws
from .contract import Bounds, Decoding, ExactDistribution, Marginals, Structure, Vertex

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Conditioned(Structure):
    """The face of `whole` on which tau = embedding @ tau' + fixed, for tau' of `part`.

    Parameters
    ----------
    part : the smaller space, or None where everything is known
    embedding : SciPy sparse matrix of shape (n_coordinates, part.n_coordinates)
    fixed : array of shape (n_coordinates,)
    place : array of shape (part.n_coordinates,), a coordinate of the whole that equals each of part
    """

    def __init__(
        self,
        whole: Structure,
        part: Structure | None,
        embedding: Any,
        fixed: Floats,
        place: Ints,
    ):
        self.whole, self.part, self.fixed = whole, part, fixed
        self._embedding, self._place = embedding, place
        self.n_coordinates, self.n_scored = whole.n_coordinates, whole.n_scored
        self.fingerprint = f"{whole.fingerprint} given {hash(fixed.tobytes())} {place.size}"

    # ------------------------------------------------------------------ coordinates
    def _reduced(self, scores: Floats) -> Floats:
        return np.asarray(self._embedding.T @ scores)

    def _constant(self, scores: Floats) -> float:
        return float(scores @ self.fixed)

    def restore(self, tau: Floats) -> Floats:
        """Marginals of the whole from those of the part."""
        return np.asarray(self._embedding @ tau) + self.fixed

    def _vertex(self, vertex: Vertex | None) -> Vertex:
        """A vertex of the whole from one of the part; None where there is no part."""
        point = self.fixed
        if vertex is not None and self.part is not None:
            point = self.restore(vertex.dense(self.part.n_coordinates))
        return Vertex.of(point)

    def offers(self, capability: str) -> bool:
        """Whether the space of what is not known has a capability, too."""
        return super().offers(capability) and (self.part is None or self.part.offers(capability))

    def agrees(self, vertex: Vertex) -> bool:
        """Whether an output of the whole is among these."""
        point = vertex.dense(self.n_coordinates)
        inside = self.fixed if self.part is None else self.restore(point[self._place])
        return bool(np.array_equal(point, inside))

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
        if self.part is None:
            return Decoding(self._vertex(None), self._constant(scores))
        return self._decoding(self.part.decode(self._reduced(scores)), scores)

    def decode_integral(self, scores: Floats) -> Decoding:
        if self.part is None:
            return self.decode(scores)
        return self._decoding(self.part.decode_integral(self._reduced(scores)), scores)

    def _decoding(self, found: Decoding, scores: Floats) -> Decoding:
        """An answer of the part, in the coordinates and scores of the whole."""
        constant = self._constant(scores)
        bound = None if found.upper_bound is None else found.upper_bound + constant
        return Decoding(self._vertex(found.vertex), found.score + constant, upper_bound=bound)

    def best_label(self, scores: Floats) -> Any:
        if self.part is None:
            return self.label(self._vertex(None))
        return self._whole_label(self.part.best_label(self._reduced(scores)))

    def _whole_label(self, label: Any) -> Any:
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
        return self.fixed.copy() if self.part is None else self.restore(self.part.interior())

    # ------------------------------------------------------------------ probabilities
    def marginals(self, scores: Floats, warm: Any = None, tol: float = 1e-8) -> Marginals:
        constant = self._constant(scores)
        if self.part is None:
            return Marginals(self.fixed.copy(), constant, constant, None, 0)
        found = self.part.marginals(self._reduced(scores), warm, tol)
        return replace(
            found,
            tau=self.restore(found.tau),
            value=found.value + constant,
            upper_bound=found.upper_bound + constant,
        )

    def require_feasible(self) -> None:
        if self.part is not None:
            self.part.require_feasible()

    def log_partition_bounds(self, scores: Floats, tol: float) -> Bounds:
        constant = self._constant(scores)
        if self.part is None:
            return Bounds(constant, constant, "exact", "exact")
        found = self.part.log_partition_bounds(self._reduced(scores), tol)
        return replace(found, lower=found.lower + constant, upper=found.upper + constant)

    def exact(self, scores: Floats) -> ExactDistribution:
        return _Conditional(self, scores)

    def markov_chain_samples(
        self, scores: Floats, n_samples: int, rng: np.random.Generator, **options: Any
    ) -> Draws:
        if self.part is None:
            labels = np.array([self.label(self._vertex(None))] * n_samples)
            return Draws(labels, 1.0, float(n_samples), 0, True)
        found = self.part.markov_chain_samples(self._reduced(scores), n_samples, rng, **options)
        return replace(found, states=_stacked([self._whole_label(y) for y in found.states]))

    def gumbel_noise(self) -> GumbelNoise:
        return self.whole.gumbel_noise()


class _Conditional:
    """An `ExactDistribution` given what is known."""

    def __init__(self, space: Conditioned, scores: Floats):
        self._space, self._constant = space, space._constant(scores)
        self._part = None if space.part is None else space.part.exact(space._reduced(scores))

    @property
    def log_partition(self) -> float:
        return self._constant + (0.0 if self._part is None else self._part.log_partition)

    @property
    def tau(self) -> Floats:
        space = self._space
        return space.fixed.copy() if self._part is None else space.restore(self._part.tau)

    def sample(self, n_samples: int, rng: np.random.Generator) -> Any:
        space = self._space
        if self._part is None:
            return _stacked([space.label(space._vertex(None))] * n_samples)
        drawn = self._part.sample(n_samples, rng)
        return _stacked([space._whole_label(label) for label in drawn])


def _stacked(labels: list[Any]) -> Any:
    """Labels as an array where they have one shape, else as they are."""
    same = len({np.shape(label) for label in labels}) == 1
    return np.array(labels) if same else labels
