"""The convex dual of approximate maximum likelihood, block by block.

    primal   P(theta) = sum_m w_m [ <s_m, y_m> - A_m(s_m) ] - R(theta)
             s_m = G_m theta + o_m,   A_m(s) = max over tau of <s, tau> + H_m(tau)
    dual     L(tau) = R*(r) + sum_m w_m [ <o_m, y_m - tau_m> - H_m(tau_m) ]
             r = sum_m w_m G_m' (y_m - tau_m)
    link     theta(tau) = grad R*(r)

R is the penalty (`ElasticNet`). Where it is alpha/2 |theta|^2, R*(r) is |r|^2 / (2 alpha) and
theta(tau) is r / alpha. max P = min L, so L at any feasible tau and P at any theta enclose the
optimum.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._lazy import cached_property
from .._memory import check_memory
from ..exceptions import CheckpointError, MissingCapability, Naming
from ..features.contract import FeatureMap, as_feature_map
from ..structures.contract import Decoding, Marginals, Structure, Vertex, as_structure
from .penalty import ElasticNet

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Block:
    """One observation: an output space, its features, and what was observed.

    `observed` may be a mean of vertices, `weight` the number of samples merged into the block;
    `offset` (n_coordinates,) is added to the scores and not learned. Features of other
    classes are adapted to `FeatureMap`. Where only a part of the output was observed, `partial` is
    the space of outputs that agree with it, and `observed` some point of it. `name` is the sample
    in messages.
    """

    structure: Structure
    features: FeatureMap
    observed: Vertex
    weight: float = 1.0
    offset: Floats | None = None
    partial: Structure | None = None
    name: str = "a sample"

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", as_feature_map(self.features))

    def scores(self, theta: Floats) -> Floats:
        """Scores of all coordinates; those beyond the scored ones have only their offset."""
        scored = self.features.scores(theta)
        size = self.structure.n_coordinates
        if size != scored.shape[0]:
            full = np.zeros(size)
            full[: scored.shape[0]] = scored
            scored = full
        return scored if self.offset is None else scored + self.offset

    def moments(self, tau: Floats) -> Floats:
        """G' tau."""
        return self.features.moments(tau[: self.features.n_scored])

    def moments_at(self, vertex: Vertex) -> Floats:
        """G' of a vertex."""
        scored = self.features.n_scored
        if scored == self.structure.n_coordinates:
            return self.features.moments_at(vertex.indices, vertex.values)
        kept = vertex.indices < scored
        return self.features.moments_at(vertex.indices[kept], vertex.values[kept])

    @cached_property
    def has_price_bound(self) -> bool:
        """Whether the decoder takes and returns dual prices, which bound log Z_rho."""
        return self.structure.offers("price_bound")

    def decode(self, direction: Floats, warm: Floats | None, prices: bool) -> Decoding:
        """A MAP call; prices of an earlier one where the decoder takes them."""
        if self.has_price_bound:
            return self.structure.decode(direction, warm, prices=prices)
        with Naming(self.name, "in learning"):
            return self.structure.decode(direction)

    def expect(self, theta: Floats, warm: Any, tol: float) -> tuple[Marginals, Floats]:
        """Marginals under theta and their moments G' tau, from the structure's oracle.

        A structure with an `expectation` of its own computes the moments without keeping
        tau, which is then empty.
        """
        both = self.structure.expectation(self.features, theta, self.offset, warm, tol)
        if both is not None:
            return both
        found = self.structure.marginals(self.scores(theta), warm, tol)
        return found, self.moments(found.tau)

    def offset_gap(self, tau: Floats) -> float:
        """<o, y - tau>."""
        if self.offset is None:
            return 0.0
        return self.observed.dot(self.offset) - float(self.offset @ tau)

    # ------------------------------------------- what a `RemoteBlock` knows of many observations
    @property
    def is_remote(self) -> bool:
        """Whether the observations, and the states of their oracles, are elsewhere."""
        return False

    @property
    def waits(self) -> bool:
        """Whether another process computes, so that a thread can wait for it."""
        return False

    @property
    def n_observations(self) -> int:
        """How many oracle calls `expect` makes."""
        return 1

    @property
    def size(self) -> float:
        """The number of coordinates, by which the allowed oracle gap is shared out."""
        return float(self.structure.n_coordinates)

    @property
    def observed_moments(self) -> Floats:
        """G' y."""
        return self.moments_at(self.observed)

    def observed_square(self, moments: Floats) -> float:
        """|G' y|^2, from G' y."""
        return float(moments @ moments)

    @property
    def offset_score(self) -> float:
        """<o, y>."""
        return 0.0 if self.offset is None else self.observed.dot(self.offset)

    def digest(self, theta: Floats) -> bytes:
        """A hash of the data: features, by their scores, observed output, weight."""
        digest = hashlib.blake2b(digest_size=16)
        for array in (self.scores(theta), self.observed.indices, self.observed.values):
            digest.update(np.ascontiguousarray(array).tobytes())
        digest.update(f"{self.weight!r} {type(self.structure).__name__}".encode())
        return digest.digest()

    def load(self, number: int, path: Path | None) -> Any:
        """The token of a state that was saved to a file, for blocks whose states are elsewhere."""
        raise CheckpointError("checkpoint: is of samples in partitions")

    @property
    def has_covariance(self) -> bool:
        """Whether `covariance` is known and cheap enough for Newton."""
        return self.structure.has_feature_covariance and self.features.matrix is not None

    def check_covariance(self) -> None:
        """Raise MissingCapability unless `covariance` is known."""
        self.structure.require("feature_covariance", "solver='newton'")
        if self.features.matrix is None:
            raise MissingCapability(
                "solver='newton' needs features held as a dense matrix, which "
                f"{type(self.features).__name__} does not have. Use solver='lbfgs'."
            )

    def covariance(self, found: Marginals) -> Floats:
        """Covariance (K, K) of the features under the marginals of `expect`."""
        return self.structure.feature_covariance(found, self.matrix)

    @property
    def matrix(self) -> Floats:
        """The features (n_scored, K), which `check_covariance` has asked for."""
        assert self.features.matrix is not None
        return self.features.matrix

    @property
    def has_surrogate(self) -> bool:
        """Whether the entropy is not safely concave."""
        return self.structure.concave_surrogate() is not None

    def surrogate(self, share: float) -> Surrogate:
        """The block with a safely concave entropy, and how it differs."""
        return Surrogate(self, share)


class Surrogate:
    """A block with a concave minorant of its entropy: see `majorize`.

    It is the block itself where its entropy is safely concave.
    """

    def __init__(self, block: Block, share: float):
        self._block, self._form = block, block.structure.concave_surrogate(share)

    def offset(self, found: Marginals | None) -> Any:
        """What makes the entropy touch the true one at `found`; that of the block without it."""
        block, form = self._block, self._form
        if form is None or found is None:
            return block.offset
        slope = form.offset(found)
        return slope if block.offset is None else block.offset + slope

    def block(self, offset: Any) -> Block:
        """The block with the surrogate's entropy."""
        if self._form is None:
            return self._block
        return replace(self._block, structure=self._form.structure, offset=offset)

    def dual_terms(self, found: Marginals) -> tuple[Floats, float]:
        """G' tau, and <o, y - tau> - H(tau) with the true entropy, at a surrogate's marginals."""
        block, form = self._block, self._form
        entropy = block.structure.entropy(found.tau) if form is None else form.entropy(found)
        return block.moments(found.tau), block.offset_gap(found.tau) - entropy


@dataclass(frozen=True)
class Tangent:
    """Which problem a request is about: surrogates touching the entropy at marginals `at`."""

    key: int
    share: float
    at: int | None


class DualProblem:
    """All blocks and the penalty.

    alpha is its strength (the paper's lambda, on the summed likelihood), `l1_ratio` the share of
    it on |theta|_1.
    """

    def __init__(self, blocks: Sequence[Block], alpha: float, l1_ratio: float = 0.0):
        if not blocks:
            raise ValueError("blocks: need at least one")
        self.penalty = ElasticNet(float(alpha), float(l1_ratio))
        sizes = {block.features.n_features for block in blocks}
        if len(sizes) > 1:
            raise ValueError(f"blocks have different numbers of features: {sorted(sizes)}")
        self.blocks = _adapted(blocks)
        self.n_features = sizes.pop()
        rows = f"moments of {len(blocks)} blocks with {self.n_features} features"
        check_memory(float(len(blocks)) * self.n_features, rows)
        self.weights = np.array([block.weight for block in blocks], dtype=np.float64)
        self.observed_moments = np.array([b.observed_moments for b in self.blocks])
        self.target = self.weights @ self.observed_moments
        self.offset_score = _offset_score(self.blocks)

    @property
    def alpha(self) -> float:
        """The strength of the penalty."""
        return self.penalty.alpha

    def with_alpha(self, alpha: float) -> DualProblem:
        """The same data under another regularisation; nothing is recomputed."""
        other = copy.copy(self)
        other.penalty = replace(self.penalty, alpha=float(alpha))
        return other

    def with_blocks(self, blocks: Sequence[Block]) -> DualProblem:
        """The same features and observations under other structures or offsets."""
        other = copy.copy(self)
        other.blocks = list(blocks)
        other.offset_score = _offset_score(other.blocks)
        return other

    def with_observed(self, observed: Sequence[Vertex]) -> DualProblem:
        """The same blocks with other points observed."""
        other = copy.copy(self)
        pairs = zip(self.blocks, observed, strict=True)
        other.blocks = [replace(block, observed=vertex) for block, vertex in pairs]
        other.observed_moments = np.array([b.observed_moments for b in other.blocks])
        other.target = other.weights @ other.observed_moments
        other.offset_score = _offset_score(other.blocks)
        return other

    @property
    def has_partial(self) -> bool:
        """Whether some outputs were observed only in part."""
        return any(block.partial is not None for block in self.blocks)

    @property
    def has_surrogates(self) -> bool:
        """Whether the entropy of some block is not safely concave."""
        return any(block.has_surrogate for block in self.blocks)

    @property
    def is_remote(self) -> bool:
        """Whether the samples are in partitions."""
        return any(block.is_remote for block in self.blocks)

    @property
    def n_waiting(self) -> int:
        """How many blocks other processes compute, so that as many threads may wait for them."""
        return sum(block.waits for block in self.blocks)

    def theta(self, r: Floats) -> Floats:
        """theta(tau) = grad R*(r)."""
        return self.penalty.theta(r)

    def primal(self, theta: Floats, log_partition: float) -> float:
        """P(theta), or a lower bound of it if `log_partition` bounds sum_m w_m A_m from above."""
        return float(theta @ self.target + self.offset_score - self.penalty(theta) - log_partition)


def _adapted(blocks: Sequence[Block]) -> list[Block]:
    """Blocks whose structures keep to the contract; equal objects are adapted once."""
    known = {id(block.structure): block.structure for block in blocks}
    adapted = {key: as_structure(structure) for key, structure in known.items()}
    return [
        block
        if adapted[id(block.structure)] is block.structure
        else replace(block, structure=adapted[id(block.structure)])
        for block in blocks
    ]


def _offset_score(blocks: Sequence[Block]) -> float:
    """sum_m w_m <o_m, y_m>."""
    return float(sum(b.weight * b.offset_score for b in blocks))


def merge_equal(blocks: Sequence[Block]) -> list[Block]:
    """Merge blocks that share structure, features and offset into one weighted block each.

    The objective is unchanged: it depends on the observations of such blocks through their mean.
    """
    groups: dict[tuple[Any, ...], list[Block]] = {}
    for block in blocks:
        key = (id(block.structure), block.features, id(block.offset), id(block.partial))
        groups.setdefault(key, []).append(block)
    return [group[0] if len(group) == 1 else _merged(group) for group in groups.values()]


def _merged(group: list[Block]) -> Block:
    total = sum(block.weight for block in group)
    mean: dict[int, float] = {}
    for block in group:
        share = block.weight / total
        vertex = block.observed
        for k, value in zip(vertex.indices.tolist(), vertex.values.tolist(), strict=True):
            mean[k] = mean.get(k, 0.0) + share * value
    indices = np.array(sorted(mean), dtype=np.int64)
    observed = Vertex(indices, np.array([mean[k] for k in indices.tolist()]))
    first = group[0]
    return replace(first, observed=observed, weight=total)
