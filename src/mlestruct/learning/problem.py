"""The convex dual of approximate maximum likelihood, and the one question that solvers ask.

    primal   P(theta) = sum_m w_m [ <s_m, y_m> - A_m(s_m) ] - R(theta)
             s_m = G_m theta + o_m,   A_m(s) = max over tau of <s, tau> + H_m(tau)
    dual     L(tau) = R*(r) + sum_m w_m [ <o_m, y_m - tau_m> - H_m(tau_m) ]
             r = sum_m w_m G_m' (y_m - tau_m)
    link     theta(tau) = grad R*(r)

R is the penalty, the elastic net, and R* its conjugate:

    R(theta) = l1 |theta|_1 + l2/2 |theta|^2,   l1 = alpha l1_ratio,   l2 = alpha (1 - l1_ratio)
    R*(r)    = max over theta of <r, theta> - R(theta) = |soft(r, l1)|^2 / (2 l2)
    theta(r) = grad R*(r) = soft(r, l1) / l2,   soft(r, l1) = sign(r) max(|r| - l1, 0)

Strong convexity (l2 > 0) makes theta(r) single-valued, and grad R* Lipschitz with 1 / l2.

max P = min L, so L at any feasible tau and P at any theta enclose the optimum.
`Problem.expect(theta)` returns the expected moments sum_m w_m G_m' tau_m and bounds of
sum_m w_m A_m: all that a solver with marginals needs. Solvers that decode visit the blocks.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from .._arguments import as_number, as_positive, check_memory
from .._running import Each, check_time, one_blas_thread, threaded_map
from ..algorithms.fully_corrective import fully_corrective_marginals
from ..exceptions import Naming
from ..features.rows import FeatureMap, Segments, as_feature_map
from ..structures.contract import Decoding, Marginals, Structure, Vertex, as_structure

Floats = NDArray[np.float64]

AT_ONCE = 2**14  # coordinates of small samples whose marginals one compiled call computes
ROUNDING = 8.0 * float(np.finfo(np.float64).eps)
NOTHING = Vertex(np.zeros(0, dtype=np.int64), np.zeros(0))


@dataclass(frozen=True)
class ElasticNet:
    """A penalty of total strength `alpha`, of which the share `l1_ratio` is on |theta|_1."""

    alpha: float
    l1_ratio: float = 0.0

    def __post_init__(self) -> None:
        as_positive(self.alpha, "alpha")
        if as_number(self.l1_ratio, "l1_ratio", 0.0, 1.0) == 1.0:
            raise ValueError("`l1_ratio` must be less than 1; got 1. Pass a number such as 0.99.")

    @cached_property
    def l1(self) -> float:
        return self.alpha * self.l1_ratio

    @cached_property
    def l2(self) -> float:
        return self.alpha * (1.0 - self.l1_ratio)

    def __call__(self, theta: Floats) -> float:
        """R(theta)."""
        value = 0.5 * self.l2 * float(theta @ theta)
        return value + self.l1 * float(np.abs(theta).sum()) if self.l1 else value

    def soft(self, r: Floats) -> Floats:
        """soft(r, l1); r itself, not a copy, without l1."""
        return r - np.clip(r, -self.l1, self.l1) if self.l1 else r

    def theta(self, r: Floats) -> Floats:
        """grad R*(r)."""
        return self.soft(r) / self.l2

    def conjugate(self, r: Floats) -> float:
        """R*(r)."""
        shrunk = self.soft(r)
        return float(shrunk @ shrunk) / (2.0 * self.l2)


@dataclass(frozen=True)
class Block:
    """One observation: an output space, its features, and the observed output.

    `observed` may be a mean of vertices, `weight` the number of samples merged into the block;
    `offset` (n_coordinates,) is added to the scores and not learned. If only a part of the output
    was observed, `partial` is the space of outputs that agree with it, and `observed` some point
    of it. `name` is the sample in messages.
    """

    structure: Structure
    features: FeatureMap
    observed: Vertex = NOTHING
    weight: float = 1.0
    offset: Floats | None = None
    partial: Structure | None = None
    name: str = "a sample"

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

    def decode(
        self, direction: Floats, warm: Floats | None = None, prices: bool = False
    ) -> Decoding:
        """A MAP call; prices of an earlier one if the decoder takes them."""
        if self.structure.offers("price_bound"):
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
        scores = self.scores(theta)
        if self.structure.offers("marginals"):
            found = self.structure.marginals(scores, warm, tol)
        else:
            found = self._marginals_by_decoding(scores, warm, tol)
        return found, self.moments(found.tau)

    def _marginals_by_decoding(self, scores: Floats, known: Floats | None, tol: float) -> Marginals:
        """Marginals from MAP calls, from the outputs of an earlier answer."""
        with Naming(self.name, "in learning"):
            found = fully_corrective_marginals(self.structure, scores, tol, 1000, known=known)
        return Marginals(found.tau, found.value, found.upper, found.outputs, found.calls)

    def offset_gap(self, tau: Floats) -> float:
        """<o, y - tau>."""
        return 0.0 if self.offset is None else self.offset_score - float(self.offset @ tau)

    @property
    def offset_score(self) -> float:
        """<o, y>."""
        return 0.0 if self.offset is None else self.observed.dot(self.offset)


class Expectation(NamedTuple):
    """The answer of `Problem.expect`.

    moments : sum_m w_m G_m' tau_m
    lower, upper : bounds of sum_m w_m A_m
    size : sum_m w_m |A_m|, which decides how large rounding errors are
    states : from which the next call starts
    """

    moments: Floats
    lower: float
    upper: float
    size: float
    states: Any


class Problem:
    """The blocks of one machine and the penalty.

    alpha is its strength (the paper's lambda, on the summed likelihood), `l1_ratio` the share of
    it on |theta|_1. Blocks are visited on `n_jobs` threads.
    """

    def __init__(
        self, blocks: Sequence[Block], alpha: float, l1_ratio: float = 0.0, n_jobs: int = 1
    ):
        if not blocks:
            raise ValueError("blocks: need at least one")
        self.penalty = ElasticNet(alpha, l1_ratio)
        self.blocks, self.n_jobs = _adapted(blocks), n_jobs
        sizes = {block.features.n_features for block in self.blocks}
        if len(sizes) > 1:
            raise ValueError(f"blocks have different numbers of features: {sorted(sizes)}")
        self.n_features = sizes.pop()
        rows = f"moments of {len(blocks)} blocks with {self.n_features} features"
        check_memory(float(len(blocks)) * self.n_features, rows)
        self.weights = np.array([block.weight for block in blocks], dtype=np.float64)
        self.each: Each = map  # over threads inside `running`
        self._summarise()

    def _summarise(self) -> None:
        """Sums over the blocks, their shares of the tolerance, and the runs of `expect`."""
        self.observed_moments = np.array([b.moments_at(b.observed) for b in self.blocks])
        self.target = self.weights @ self.observed_moments
        self.offset_score = float(self.weights @ [b.offset_score for b in self.blocks])
        sizes = np.array([float(block.structure.n_coordinates) for block in self.blocks])
        self.size = float(self.weights @ sizes)
        self._shares = sizes / self.size  # the tolerances of all samples add up to `tol`
        self._runs = runs_of(self.blocks)

    # ------------------------------------------------------------------ the seam
    def expect(self, theta: Floats, tol: float, states: Any = None) -> Expectation:
        """Sums over all blocks at theta, enclosed up to `tol`; `states` are those of a former call.

        Blocks are added up in their order, whatever the number of threads.
        """
        warm = [None] * len(self.blocks) if states is None else states
        tols = tol * self._shares

        def answer_run(run: slice) -> list[tuple[Marginals, Floats]]:
            check_time("an evaluation of the likelihood")
            part = self.blocks[run]
            if len(part) == 1:
                return [part[0].expect(theta, warm[run.start], float(tols[run.start]))]
            scores = np.array([block.scores(theta) for block in part])
            found = part[0].structure.marginals_each(scores, warm[run], tols[run])
            return [(own, b.moments(own.tau)) for own, b in zip(found, part, strict=True)]

        answers = [answer for run in self.each(answer_run, self._runs) for answer in run]
        moments = self.weights[0] * answers[0][1]
        for weight, (_, own) in zip(self.weights[1:], answers[1:], strict=True):
            moments += weight * own
        values = np.array([found.value for found, _ in answers])
        upper = float(self.weights @ [found.upper_bound for found, _ in answers])
        lower, size = float(self.weights @ values), float(self.weights @ np.abs(values))
        return Expectation(moments, lower, upper, size, [found.warm for found, _ in answers])

    def score_range(self, step: Floats) -> float:
        """The widest range of the scores of a step in any block."""
        return max(self.each(lambda block: block.features.score_range(step), self.blocks))

    def curvature(self) -> Segments | None:
        """`FeatureMap.second_moments` of all blocks: sums of grams, means of scales."""
        every = list(self.each(lambda block: block.features.second_moments(), self.blocks))
        return joined_curvature(every, self.weights)

    # ------------------------------------------------------------------ facts
    @property
    def alpha(self) -> float:
        """The strength of the penalty."""
        return self.penalty.alpha

    @property
    def n_calls(self) -> int:
        """Oracle calls of one `expect`."""
        return len(self.blocks)

    @property
    def has_marginals(self) -> bool:
        """Whether every block has a marginal oracle that is worth its cost."""
        spaces = {id(block.structure): block.structure for block in self.blocks}.values()
        return all(s.offers("marginals") and not s.prefers_decoding for s in spaces)

    @property
    def has_bound(self) -> bool:
        """Whether the upper bounds of all oracles are proven."""
        return all(block.structure.has_bound for block in self.blocks)

    @property
    def has_partial(self) -> bool:
        """Whether some outputs were observed only in part."""
        return any(block.partial is not None for block in self.blocks)

    @property
    def moment_scale(self) -> float:
        """A rough bound of the likelihood's curvature: sum_m w_m |G_m' y_m|^2 + 1."""
        return float(self.weights @ [float(m @ m) for m in self.observed_moments]) + 1.0

    @property
    def fingerprint(self) -> str:
        """A hash of the data: features (by the scores of some weights), outputs, weights."""
        digest = hashlib.blake2b(digest_size=16)
        theta = np.random.default_rng(0).normal(size=self.n_features)
        for block in self.blocks:
            for array in (block.scores(theta), block.observed.indices, block.observed.values):
                digest.update(np.ascontiguousarray(array).tobytes())
            digest.update(f"{block.weight!r} {type(block.structure).__name__}".encode())
        return digest.hexdigest()

    def require(self, capability: str, needed_by: str) -> None:
        """Raise MissingCapability unless the output space of every block offers it."""
        for block in self.blocks:
            block.structure.require(capability, needed_by)

    def theta(self, r: Floats) -> Floats:
        """theta(tau) = grad R*(r)."""
        return self.penalty.theta(r)

    def primal(self, theta: Floats, log_partition: float) -> float:
        """P(theta), or a lower bound of it if `log_partition` bounds sum_m w_m A_m from above."""
        return float(theta @ self.target + self.offset_score - self.penalty(theta) - log_partition)

    def rounding(self, theta: Floats, expected: Floats, size: float) -> float:
        """What rounding may have added to P(theta) and to L, whose large terms cancel.

        expected : the expected moments;  size : sum_m w_m |A_m|
        """
        terms = float(np.abs(theta) @ (np.abs(self.target) + np.abs(expected)))
        return ROUNDING * (terms + abs(self.offset_score) + size)

    # ------------------------------------------------------------------ running, and variants
    @contextmanager
    def running(self) -> Iterator[None]:
        """In this context blocks are visited on threads, and BLAS has one thread of its own."""
        with threaded_map(self.n_jobs, len(self.blocks)) as each, one_blas_thread():
            before, self.each = self.each, each
            try:
                yield
            finally:
                self.each = before

    def with_alpha(self, alpha: float) -> Self:
        """The same data under another regularisation; nothing is recomputed."""
        other = copy.copy(self)
        other.penalty = replace(self.penalty, alpha=float(alpha))
        return other

    def with_blocks(self, blocks: Sequence[Block]) -> Problem:
        """Other blocks over the same weights."""
        other = copy.copy(self)
        other.blocks = list(blocks)
        other._summarise()
        return other


def _adapted(blocks: Sequence[Block]) -> list[Block]:
    """Blocks whose structures and features keep to the contracts; equal ones are adapted once."""
    structures = {id(b.structure): b.structure for b in blocks}
    spaces = {key: as_structure(given) for key, given in structures.items()}
    features = {id(b.features): b.features for b in blocks}
    maps = {key: as_feature_map(given) for key, given in features.items()}
    out = []
    for block in blocks:
        space, own = spaces[id(block.structure)], maps[id(block.features)]
        same = space is block.structure and own is block.features
        out.append(block if same else replace(block, structure=space, features=own))
    return out


def runs_of(blocks: Sequence[Block]) -> list[slice]:
    """Slices of blocks; a slice of several blocks is one call of `marginals_each`.

    They are neighbours, share the structure and have at most `AT_ONCE` coordinates in all.
    """
    cuts: list[int] = []
    room = 0
    for m, block in enumerate(blocks):
        space = block.structure
        same = m and space is blocks[m - 1].structure and space.offers("marginals_each")
        room -= space.n_coordinates
        if not same or room < 0:
            cuts.append(m)
            room = AT_ONCE - space.n_coordinates
    return [slice(*ends) for ends in pairwise([*cuts, len(blocks)])]


def joined_curvature(every: Sequence[Segments | None], weights: Floats) -> Segments | None:
    """Second moments of several feature maps: sums of grams, means of scales."""
    totals: list[list[Any]] = []
    for found, weight in zip(every, weights.tolist(), strict=True):
        if found is None:
            return None
        for k, (gram, scales) in enumerate(found):
            size = weight * float(gram.sum() if gram.ndim == 1 else np.trace(gram))
            if k == len(totals):
                totals.append([np.zeros_like(gram), np.zeros_like(scales), 0.0])
            elif gram.ndim < totals[k][0].ndim:  # some blocks have only the diagonal
                gram = np.diag(gram)
            elif gram.ndim > totals[k][0].ndim:
                totals[k][0] = np.diag(totals[k][0])
            totals[k][0] = totals[k][0] + weight * gram
            totals[k][1] = totals[k][1] + size * scales
            totals[k][2] += size
    return [(gram, scales / max(size, 1e-300)) for gram, scales, size in totals]


def merge_equal(blocks: Sequence[Block]) -> list[Block]:
    """Merge blocks that share structure, features and offset into one weighted block each.

    The objective is unchanged: it depends on the observed outputs of these blocks only by their
    mean.
    """
    groups: dict[tuple[Any, ...], list[Block]] = {}
    for block in blocks:
        key = (id(block.structure), id(block.features), id(block.offset), id(block.partial))
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
    return replace(group[0], observed=observed, weight=total)
