"""The block contract: every member of an output space that any caller uses.

A *structure* is one output space: a polytope of pseudo-marginals tau, a concave entropy on it and
a MAP decoder over it. `Structure` declares all its members, each with its meaning and, in
parentheses, its callers. Marginals by Frank-Wolfe need five, learning by Frank-Wolfe and prediction
two more:

    n_coordinates, decode, entropy, entropy_gradient, interior;  encode, label

All others are *capabilities*. Their defaults either follow from those seven or raise
`MissingCapability`; `offers` tells which, and a solver `require`s what it needs before any work.
`MatchingStructure` and `LabellingStructure` add the members that the two families of outputs have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .._arguments import as_floats
from ..algorithms.frank_wolfe import PlainEntropy, SteppingEntropy
from ..algorithms.gumbel import GumbelNoise
from ..algorithms.markov_chains import Draws
from ..exceptions import MissingCapability

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Vertex:
    """A sparse point of the polytope: `values` at `indices`, zero elsewhere.

    Decoders return vertices (all values 1, or halves on a local polytope); the mean of several
    observed outputs has fractions.
    """

    indices: Ints
    values: Floats

    @classmethod
    def of(cls, point: Floats) -> Vertex:
        """A point given as an array of shape (n_coordinates,); inverse of `dense`."""
        indices = np.flatnonzero(point != 0.0)
        return cls(indices, point.take(indices))

    def dense(self, n_coordinates: int) -> Floats:
        """The same point as an array of shape (n_coordinates,)."""
        tau = np.zeros(n_coordinates)
        tau[self.indices] = self.values
        return tau

    def dot(self, scores: Floats) -> float:
        """Inner product with an array of shape (n_coordinates,)."""
        return float(scores[self.indices].dot(self.values))


@dataclass(frozen=True)
class Decoding:
    """A maximising vertex, its score, and dual prices where the decoder has them.

    `upper_bound` is a proven bound of the largest score where the vertex need not attain that
    (`decode_integral` of labellings, approximate decoders of users); None where it does.
    """

    vertex: Vertex
    score: float
    prices: Floats | None = None
    upper_bound: float | None = None

    @property
    def gap(self) -> float:
        """Certified: the largest score lies within [score, score + gap]."""
        return 0.0 if self.upper_bound is None else max(self.upper_bound - self.score, 0.0)


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


@dataclass(frozen=True)
class Bounds:
    """A proven interval of log Z, and why each end holds. Unpacks as (lower, upper)."""

    lower: float
    upper: float
    lower_reason: str
    upper_reason: str

    def __iter__(self) -> Any:
        return iter((self.lower, self.upper))


class ExactDistribution(Protocol):
    """P(y) = exp(<scores, y>) / Z over the outputs of a structure."""

    @property
    def log_partition(self) -> float: ...

    @property
    def tau(self) -> Floats:
        """Marginals of all coordinates."""

    def sample(self, n_samples: int, rng: np.random.Generator) -> Any:
        """Independent labels."""


class Structure:
    """One output space. Coordinates 0 .. n_scored-1 of tau carry features; further ones (the
    single nodes of an imperfect matching) do not.
    """

    n_coordinates: int

    # ------------------------------------------------------------------ what every solver needs
    @cached_property
    def n_scored(self) -> int:
        """Number of coordinates that carry features (blocks, estimators)."""
        return self.n_coordinates

    def decode(self, scores: Floats, warm: Floats | None = None, prices: bool = False) -> Decoding:
        """A vertex maximising <scores, tau>.

        `warm` are dual prices of an earlier call; `prices` asks for them (certificates).
        """
        raise self.lacks("decode")

    def entropy(self, tau: Floats) -> float:
        """H_rho(tau)."""
        raise self.lacks("entropy")

    def entropy_gradient(self, tau: Floats) -> Floats:
        """Gradient of H_rho; finite, large where an entry of tau has underflowed."""
        raise self.lacks("entropy_gradient")

    def interior(self) -> Floats:
        """A point with every coordinate that can vary strictly inside its range (start of fw)."""
        raise self.lacks("interior")

    def encode(self, label: Any) -> Vertex:
        """The vertex of an observed output (blocks)."""
        raise self.lacks("encode")

    def label(self, vertex: Vertex) -> Any:
        """The output of a vertex; inverse of `encode` (prediction)."""
        raise self.lacks("label")

    # ------------------------------------------------------------------ outputs
    @property
    def n_nodes(self) -> int:
        """Number of nodes: tolerances of estimators are per node."""
        return 1

    @cached_property
    def fingerprint(self) -> str:
        """Equal for equal output spaces only (warm starts of estimators)."""
        return f"{type(self).__name__} {id(self)}"

    @property
    def is_fixed(self) -> bool:
        """Whether there is only one admissible output (estimators refuse to learn from it)."""
        return False

    def best_label(self, scores: Floats) -> Any:
        """The output of largest score, as far as it can be found (`predict`)."""
        return self.label(self.decode(self.break_ties(scores)).vertex)

    def break_ties(self, scores: Floats, seed: int = 0) -> Floats:
        """Scores under which the choice among equally good outputs does not depend on the order
        in which nodes are numbered (`predict`, perceptron); `seed` is the number of the sample.
        """
        return scores

    def decode_integral(self, scores: Floats) -> Decoding:
        """The vertex of `best_label`, never a fractional one (perturb-and-MAP, bounds, grids)."""
        vertex = self.encode(self.best_label(scores))
        return Decoding(vertex, vertex.dot(scores))

    def hamming_loss(self, vertex: Vertex) -> tuple[float, Floats]:
        """The Hamming loss against `vertex` as constant + <scores, tau> (structured SVM)."""
        raise self.lacks("hamming_loss")

    # ------------------------------------------------------------------ Frank-Wolfe
    @property
    def stepping_entropy(self) -> SteppingEntropy:
        """The entropy with its line searches (fw, bcfw, marginals by fw)."""
        return PlainEntropy(self)

    def hull_entropy(self) -> tuple[SteppingEntropy, Floats | None]:
        """The entropy over hulls of outputs, and the interior point, None if it is not needed.

        It is not needed if the entropy is a sum of concave functions of one coordinate each
        (`fully_corrective_marginals`, `FullyCorrective`).
        """
        return self.stepping_entropy, self.interior()

    def price_bound(self, scores: Floats, prices: Floats, tau: Floats) -> float:
        """An upper bound of log Z_rho at any dual prices of the decoder (certificates of fw)."""
        raise self.lacks("price_bound")

    def improved_prices(self, scores: Floats, prices: Floats, tau: Floats) -> Floats:
        """Prices with a lower `price_bound`, at a few times its cost (last certificates of fw)."""
        return prices

    # ------------------------------------------------------------------ marginal oracle
    def marginals(self, scores: Floats, warm: Any = None, tol: float = 1e-8) -> Marginals:
        """tau maximising <scores, tau> + H_rho(tau), enclosed up to `tol` (lbfgs, inference)."""
        raise self.lacks("marginals")

    def marginals_each(self, scores: Floats, warm: Sequence[Any], tols: Floats) -> list[Marginals]:
        """`marginals` of each row of scores (lbfgs).

        Structures whose small samples are faster together override it.
        """
        return [self.marginals(*one) for one in zip(scores, warm, tols.tolist(), strict=True)]

    @property
    def has_bound(self) -> bool:
        """Whether the upper bounds of `marginals` and `decode` are proven (certificates)."""
        return True

    @property
    def prefers_decoding(self) -> bool:
        """Whether decoding is so much cheaper than `marginals` that `auto` learns by it."""
        return False

    def expectation(
        self, features: Any, theta: Floats, offset: Floats | None, warm: Any, tol: float
    ) -> tuple[Marginals, Floats] | None:
        """Marginals at scores G theta + offset and their moments, without keeping tau (lbfgs).

        None where marginals and moments are better computed one after the other.
        """
        return None

    # ------------------------------------------------------------------ related output spaces
    def with_rho(self, rho: Any) -> Structure:
        """The same outputs under another entropy (bounds)."""
        raise self.lacks("with_rho")

    def restricted(self, keep: Bools) -> tuple[Structure, Ints]:
        """The space with some of the scored coordinates fixed at 0, and the place of its
        coordinates in this one (scores of -inf).
        """
        raise self.lacks("restricted")

    def given(self, known: Any) -> Structure:
        """The outputs that agree with what is known, in the same coordinates (`predict(known=)`).

        For labellings the state of each node, -1 where it is not known; for matchings 1, 0 or NaN
        for each allowed pair.
        """
        raise self.lacks("given")

    @property
    def approximate(self) -> Structure:
        """The structure with its approximate entropy: itself, unless its marginals are exact
        (fw, perturb, mcmc).
        """
        return self

    # ------------------------------------------------------------------ questions (inference)
    def read_scores(self, scores: Any) -> tuple[Floats, float]:
        """Scores of all coordinates from what a user may give, and the constant they leave out."""
        return read_coordinates(self, scores, ""), 0.0

    def require_feasible(self) -> None:
        """Raise InfeasibleError where the polytope has points but there is no output."""

    def exact(self, scores: Floats) -> ExactDistribution:
        """The distribution itself, where counting is possible (method="exact", sample).

        Raises TooLargeToCount before any work where counting would take too much memory.
        """
        raise self.lacks("exact")

    @property
    def is_exact(self) -> bool:
        """Whether `exact` works at any size, and also under scores of -inf."""
        return False

    def log_partition_bounds(self, scores: Floats, tol: float) -> Bounds:
        """Proven bounds of log Z itself (log_partition_bounds)."""
        raise self.lacks("log_partition_bounds")

    def markov_chain_samples(
        self, scores: Floats, n_samples: int, rng: np.random.Generator, **options: Any
    ) -> Draws:
        """Labels drawn by a Markov chain (sample with method="mcmc")."""
        raise self.lacks("markov_chain_samples")

    def gumbel_noise(self) -> GumbelNoise:
        """The variables that perturb-and-MAP perturbs (method="perturb")."""
        raise self.lacks("gumbel_noise")

    def marginal_table(self, tau: Floats) -> Floats:
        """Marginals in the shape one reads them: pairs, or states of nodes (Inference.table)."""
        return tau

    # ------------------------------------------------------------------ declaring capabilities
    def offers(self, capability: str) -> bool:
        """Whether this structure has a capability of its own rather than the contract's default."""
        own = capability in vars(self)
        return own or getattr(type(self), capability) is not getattr(Structure, capability)

    def lacks(self, capability: str, needed_by: str = "") -> MissingCapability:
        """The error that says what is missing and what to use instead."""
        remedy = " Use method='auto'." if needed_by else ""
        if needed_by.startswith("solver"):
            decoding = "FullyCorrective(), which needs only decode()"
            remedy = f" Use solver={'LBFGS()' if self.offers('marginals') else decoding}."
        subject = f"{needed_by} needs" if needed_by else "this needs"
        return MissingCapability(
            f"{subject} {capability}(), which {type(self).__name__} does not have.{remedy}"
        )

    def require(self, capability: str, needed_by: str) -> None:
        """Raise MissingCapability unless the structure offers `capability`."""
        if not self.offers(capability):
            raise self.lacks(capability, needed_by)


class MatchingStructure(Structure):
    """Members that all spaces of matchings have; nodes are rows, then columns, of two sides."""

    graph: Any  # BipartiteGraph or SimpleGraph: allowed pairs
    capacity: Ints  # (n_nodes,), number of partners of each node
    free: Bools  # (n_nodes,), whether a node may use less than its capacity
    is_simple: bool  # whether all capacities are at most 1
    n_jobs: int = 1  # threads over connected components, in `marginals`

    @property
    def ends(self) -> tuple[Ints, Ints]:
        """The two nodes of every pair."""
        raise self.lacks("ends")

    def single_marginals(self, tau: Floats) -> Floats:
        """Probability of every node to stay single: its expected unused capacity."""
        raise self.lacks("single_marginals")


class LabellingStructure(Structure):
    """Members that all spaces of labellings have: states of nodes, tables of edges."""

    n_states: int

    @property
    def ends(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Tail and head of every edge."""
        raise self.lacks("ends")

    def score_tables(self, scores: Floats) -> tuple[Floats, Floats]:
        """Scores of nodes, (n_nodes, n_states), and of edges, (n_edges, n_states, n_states)."""
        raise self.lacks("score_tables")

    def from_tables(self, nodes: Floats, edges: Floats) -> Floats:
        """tau of the marginals of nodes and edges, or scores: the inverse of `score_tables`."""
        raise self.lacks("from_tables")

    def node_marginals(self, tau: Floats) -> Floats:
        """P(state) of every node, shape (n_nodes, n_states)."""
        raise self.lacks("node_marginals")

    def edge_marginals(self, tau: Floats) -> Floats:
        """Tables of all edges, shape (n_edges, n_states, n_states), tail state first."""
        raise self.lacks("edge_marginals")


REQUIRED = ("n_coordinates", "decode")


class StructureLike(Protocol):
    """What a user may give as an output space: see `as_structure`."""

    @property
    def n_coordinates(self) -> int: ...

    @property
    def decode(self) -> Callable[..., Decoding]: ...


def as_structure(candidate: StructureLike) -> Structure:
    """`candidate` as a `Structure`; an object with the methods of one is adapted.

    This is the only place that looks for members by name: behind it every caller relies on the
    contract.
    """
    missing = [name for name in REQUIRED if not hasattr(candidate, name)]
    if missing:
        raise TypeError(
            "structure: expected an output space such as BipartiteMatching((5, 5)), or one of your "
            f"own; {candidate!r} has no {' and no '.join(missing)}"
        )
    if isinstance(candidate, Structure):
        return candidate
    members = [name for name in vars(Structure) if not name.startswith("_")]
    own = {name: getattr(candidate, name) for name in members if hasattr(candidate, name)}
    attributes = {name: value for name, value in own.items() if not callable(value)}
    adapted = type(type(candidate).__name__, (Structure,), attributes)()
    adapted.n_coordinates = int(candidate.n_coordinates)
    vars(adapted).update({name: value for name, value in own.items() if callable(value)})
    return adapted


def read_coordinates(structure: Structure, scores: Any, other_forms: str) -> Floats:
    """Scores of the scored coordinates, or of all, as an array of shape (n_coordinates,)."""
    values = as_scores(scores, "scores")
    sizes = (structure.n_scored, structure.n_coordinates)
    if values.ndim != 1 or values.shape[0] not in sizes:
        forms = f"shape ({sizes[0]},)"
        if sizes[1] != sizes[0]:
            forms += f" or ({sizes[1]},) with those of single nodes"
        raise ValueError(f"scores: expected {forms}{other_forms}, got {values.shape}")
    if values.shape[0] < structure.n_coordinates:
        values = np.concatenate([values, np.zeros(structure.n_coordinates - values.shape[0])])
    return np.ascontiguousarray(values)


def as_scores(values: Any, name: str) -> Floats:
    """A new array of floats, or a ValueError that names the argument."""
    return np.array(as_floats(values, name))
