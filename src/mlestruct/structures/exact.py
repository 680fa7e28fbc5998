"""Exact marginals: an output space that has them, and distributions that were counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..exceptions import TooLargeToCount
from .contract import Bounds, Decoding, ExactDistribution, Marginals, Structure, Vertex

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class CountedOutputs:
    """An `ExactDistribution` over 0/1 vectors: log Z, marginals, and a function that draws one."""

    def __init__(
        self, log_partition: float, tau: Floats, draw: Callable[[np.random.Generator], NDArray[Any]]
    ):
        self.log_partition, self.tau, self._draw = log_partition, tau, draw

    def sample(self, n_samples: int, rng: np.random.Generator) -> Ints:
        """Independent outputs, shape (n_samples, n_coordinates)."""
        return np.array([self._draw(rng) for _ in range(n_samples)], dtype=np.int64)


class ExactInference(Structure):
    """The outputs of `approximate` with exact marginals instead of an approximate entropy.

    There is no entropy of tau in closed form, so Frank-Wolfe does not apply; ascent over exact
    marginals does, and its duality gap is that of the exact likelihood.
    """

    def __init__(self, approximate: Structure):
        self._approximate = approximate
        self.n_coordinates = approximate.n_coordinates
        self.n_scored = approximate.n_scored
        self.fingerprint = f"exact {approximate.fingerprint}"

    @property
    def approximate(self) -> Structure:
        return self._approximate

    @property
    def n_nodes(self) -> int:
        return self._approximate.n_nodes

    @property
    def is_exact(self) -> bool:
        return True

    @property
    def is_fixed(self) -> bool:
        return self._approximate.is_fixed

    def marginals(self, scores: Floats, warm: Any = None, tol: float = 0.0) -> Marginals:
        """Exact marginals and log Z, whatever `tol`."""
        try:
            found = self.exact(scores)
        except TooLargeToCount as error:
            reason = str(error).split("; use")[0].split(". Use")[0]
            raise TooLargeToCount(
                f"{reason}. Exact maximum likelihood is for small samples; use the approximate "
                "estimator"
            ) from None
        return Marginals(found.tau, found.log_partition, found.log_partition, None, 1)

    def exact(self, scores: Floats) -> ExactDistribution:
        return self._approximate.exact(scores)

    def log_partition_bounds(self, scores: Floats, tol: float) -> Bounds:
        """log Z is exact."""
        log_z = self.exact(scores).log_partition
        return Bounds(log_z, log_z, "exact", "exact")

    # ------------------------------------------------------------------ as in the original
    def decode(self, scores: Floats, warm: Floats | None = None, prices: bool = False) -> Decoding:
        return self._approximate.decode(scores)

    def decode_integral(self, scores: Floats) -> Decoding:
        return self._approximate.decode_integral(scores)

    def best_label(self, scores: Floats) -> Any:
        return self._approximate.best_label(scores)

    def given(self, known: Any) -> Structure:
        return ExactInference(self._approximate.given(known))

    def break_ties(self, scores: Floats, seed: int = 0) -> Floats:
        return self._approximate.break_ties(scores, seed)

    def encode(self, label: Any) -> Vertex:
        return self._approximate.encode(label)

    def label(self, vertex: Vertex) -> Any:
        return self._approximate.label(vertex)

    def hamming_loss(self, vertex: Vertex) -> tuple[float, Floats]:
        return self._approximate.hamming_loss(vertex)

    def read_scores(self, scores: Any) -> tuple[Floats, float]:
        return self._approximate.read_scores(scores)

    def marginal_table(self, tau: Floats) -> Floats:
        return self._approximate.marginal_table(tau)
