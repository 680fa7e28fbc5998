"""The block contract: what a solver may ask of an output space.

A *structure* is one output space: a polytope of pseudo-marginals tau, a concave entropy on it
and a MAP decoder over it. Solvers see only the methods below. The optional ones are
*capabilities*: a solver that needs one asks for it with `require` before any work starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Vertex:
    """A sparse point of the polytope: `values` at `indices`, zero elsewhere.

    Decoders return vertices (all values 1, or halves on a local polytope); the mean of several
    observed outputs has fractions.
    """

    indices: Ints
    values: Floats

    def dense(self, n_coordinates: int) -> Floats:
        """The same point as an array of shape (n_coordinates,)."""
        tau = np.zeros(n_coordinates)
        tau[self.indices] = self.values
        return tau

    def dot(self, scores: Floats) -> float:
        """Inner product with an array of shape (n_coordinates,)."""
        return float(scores[self.indices] @ self.values)


@dataclass(frozen=True)
class Decoding:
    """A maximising vertex, its score, and dual prices where the decoder has them."""

    vertex: Vertex
    score: float
    prices: Floats | None = None


@dataclass(frozen=True)
class Marginals:
    """Answer of a marginal oracle: max over tau of <scores, tau> + H(tau).

    `value` is attained by the feasible `tau`, so it is a lower bound of the approximate
    log-partition function log Z_rho; `upper_bound` is a proven upper bound of it (unless the
    structure's `has_bound` is False: then it only tells the distance from a fixed point).
    `warm` can be handed to the next call.
    """

    tau: Floats
    value: float
    upper_bound: float
    warm: Any
    iterations: int

    @property
    def gap(self) -> float:
        """Certified: log Z_rho lies within [value, value + gap]."""
        return max(self.upper_bound - self.value, 0.0)


@runtime_checkable
class Structure(Protocol):
    """What every solver needs.

    Coordinates 0 .. n_scored-1 carry features; any further ones (the single nodes of an
    imperfect matching) do not.
    """

    n_coordinates: int
    n_scored: int

    def decode(self, scores: Floats, warm: Floats | None = None) -> Decoding:
        """A vertex maximising <scores, tau>; `warm` are prices of an earlier call."""

    def entropy(self, tau: Floats) -> float:
        """H_rho(tau)."""

    def entropy_gradient(self, tau: Floats) -> Floats:
        """Gradient of H_rho; finite, large where an entry of tau has underflowed."""

    def interior(self) -> Floats:
        """A point with every coordinate that can vary strictly inside its range."""

    def encode(self, label: Any) -> Vertex:
        """The vertex of an observed output."""

    def label(self, vertex: Vertex) -> Any:
        """The output of a vertex; inverse of `encode`."""


CAPABILITIES = {
    "beliefs": "belief propagation beliefs(scores, damping, max_sweeps, tol)",
    "marginals": "a marginal oracle marginals(scores, warm, tol)",
    "price_bound": "a bound price_bound(scores, prices, tau) on its log-partition function",
    "feature_covariance": "feature_covariance(marginals, features), the Hessian of log Z_rho",
}


class MissingCapability(TypeError):
    """A solver needs something that a structure or feature map does not offer."""


def require(owner: object, capability: str, *, needed_by: str) -> None:
    """Raise `MissingCapability` unless `owner` has the method named `capability`."""
    if not callable(getattr(owner, capability, None)):
        has_oracle = callable(getattr(owner, "marginals", None))
        if needed_by.startswith("method"):
            remedy = "Use method='auto'."
        elif has_oracle:
            remedy = "Use solver='auto' or 'lbfgs'."
        else:
            remedy = "Use solver='bcfw' or 'fw', which need only decode()."
        raise MissingCapability(
            f"{needed_by} needs {CAPABILITIES.get(capability, capability)}, "
            f"which {type(owner).__name__} does not have. {remedy}"
        )
