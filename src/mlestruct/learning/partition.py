"""Many observations that a solver sees as one block, because they are elsewhere.

A `Partition` holds blocks and the states of their oracles where the samples are: on another
machine, in another process, or in a file. A `RemoteBlock` is the solver's view of it. A round sends
theta and returns the sums of moments, values and bounds; with Newton also a (K, K) covariance.
States of oracles never travel: the solver holds a `Token` of each, and what it no longer holds is
dropped where it is.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..exceptions import MissingCapability
from ..features.contract import FeatureMap
from ..structures.contract import ConcaveSurrogate, Marginals, Structure, Vertex
from .ascent import total_expectation
from .lbfgs import joined_second_moments
from .problem import Block, Surrogate
from .result import blas_threads, threaded_map

Floats = NDArray[np.float64]
States = MutableMapping[int, list[Marginals]]

NOTHING = Vertex(np.zeros(0, dtype=np.int64), np.zeros(0))
CAPABILITIES = ("marginals", "feature_covariance", "expectation")


@dataclass(frozen=True)
class Facts:
    """What a solver must know of a partition before the first round.

    size : coordinates of all blocks, by their weights
    observed, squares, offset_score : sums over blocks of w G'y, w |G'y|^2 and w <o, y>
    capabilities : what the structures of all blocks offer
    """

    n_blocks: int
    n_features: int
    size: float
    observed: Floats
    squares: float
    offset_score: float
    capabilities: frozenset[str]
    has_bound: bool
    prefers_decoding: bool
    has_matrix: bool
    has_covariance: bool
    has_surrogate: bool
    has_partial: bool
    fingerprint: str
    feature_names: tuple[str, ...] | None


@dataclass(frozen=True)
class Expectation:
    """Sums over the blocks of a partition: values, upper bounds, moments."""

    value: float
    upper_bound: float
    moments: Floats
    iterations: int


@dataclass(frozen=True)
class Tangent:
    """Which problem a request is about: surrogates touching the entropy at marginals `at`."""

    key: int
    share: float
    at: int | None


class Partition:
    """Blocks and the states of their oracles, kept under the numbers that the solver gives them."""

    def __init__(self, blocks: Sequence[Block], n_jobs: int = 1, states: States | None = None):
        self._blocks = list(blocks)
        self._weights = np.array([block.weight for block in blocks], dtype=np.float64)
        sizes = np.array([block.size for block in blocks])
        self._size = float(self._weights @ sizes)
        self._shares = sizes / max(self._size, 1e-300)
        self._n_jobs = n_jobs
        self._states: States = {} if states is None else states
        self._surrogates: tuple[float, list[Surrogate]] = (np.nan, [])
        self._tangents: dict[int, list[Block]] = {}

    def facts(self) -> Facts:
        """Sums and capabilities of all blocks."""
        blocks = self._blocks
        moments = [block.observed_moments for block in blocks]
        squares = [b.observed_square(own) for b, own in zip(blocks, moments, strict=True)]
        names = blocks[0].features.feature_names if blocks else None
        prints = "".join(f"{b.size:g} {b.structure.fingerprint} " for b in blocks)
        return Facts(
            n_blocks=len(blocks),
            n_features=blocks[0].features.n_features if blocks else 0,
            size=self._size,
            observed=_weighted_sum(self._weights, moments),
            squares=float(self._weights @ squares),
            offset_score=_offset_score(self._weights, blocks),
            capabilities=frozenset(
                name for name in CAPABILITIES if all(b.structure.offers(name) for b in blocks)
            ),
            has_bound=all(block.structure.has_bound for block in blocks),
            prefers_decoding=any(block.structure.prefers_decoding for block in blocks),
            has_matrix=all(block.features.matrix is not None for block in blocks),
            has_covariance=all(block.has_covariance for block in blocks),
            has_surrogate=any(block.has_surrogate for block in blocks),
            has_partial=any(block.partial is not None for block in blocks),
            fingerprint=hashlib.sha256(prints.encode()).hexdigest(),
            feature_names=None if names is None else tuple(names),
        )

    def answer(self, dropped: Iterable[int], method: str, *arguments: Any) -> Any:
        """Call a method, after forgetting states and tangents that the solver no longer holds."""
        for number in dropped:
            self._states.pop(number, None)
            self._tangents.pop(number, None)
        return getattr(self, method)(*arguments)

    def expect(
        self, theta: Floats, tol: float, start: int | None, name: int, tangent: Tangent | None
    ) -> Expectation:
        """Marginals of all blocks from the state `start` on, kept as `name`; their sums.

        A state that is not known, as it was lost with a worker, is replaced by a cold start.
        """
        blocks = self._blocks if tangent is None else self._tangent_blocks(tangent)
        before = None if start is None else self._states.get(start)
        warm = [None] * len(blocks) if before is None else [found.warm for found in before]

        def one(m: int) -> tuple[Marginals, Floats]:
            return blocks[m].expect(theta, warm[m], tol * self._shares[m])

        with threaded_map(self._n_jobs, len(blocks)) as each, blas_threads(blocks, self._n_jobs):
            answers = list(each(one, range(len(blocks))))
        self._states[name] = [found for found, _ in answers]
        moments, value, upper = total_expectation(self._weights, answers)
        return Expectation(value, upper, moments, sum(found.iterations for found, _ in answers))

    def covariance(self, name: int) -> Floats | None:
        """Covariance of the features under the marginals `name`; None if these were lost."""
        known = self._states.get(name)
        if known is None:
            return None
        with threaded_map(self._n_jobs, len(known)) as each, blas_threads(self._blocks, 1):
            parts = list(each(lambda block, found: block.covariance(found), self._blocks, known))
        return _weighted_sum(self._weights, parts)

    def score_range(self, step: Floats) -> float:
        """The widest range of scores in any block."""
        return max(block.features.score_range(step) for block in self._blocks)

    def second_moments(self) -> list[tuple[Floats, Floats]] | None:
        """Those of all blocks, as `FeatureMap.second_moments` has them for one."""
        return joined_second_moments(self._blocks)

    def tangent(self, tangent: Tangent) -> float:
        """Make the surrogates of a tangent; sum_m w_m <o_m, y_m> with their offsets."""
        return _offset_score(self._weights, self._tangent_blocks(tangent))

    def dual_terms(self, share: float, name: int) -> tuple[Floats, float] | None:
        """Sums of `Surrogate.dual_terms` at the marginals `name`; None if these were lost."""
        known = self._states.get(name)
        if known is None:
            return None
        forms = self._surrogates_of(share)
        terms = [form.dual_terms(found) for form, found in zip(forms, known, strict=True)]
        moments = _weighted_sum(self._weights, [own for own, _ in terms])
        return moments, float(self._weights @ [term for _, term in terms])

    def _surrogates_of(self, share: float) -> list[Surrogate]:
        if self._surrogates[0] != share:
            self._surrogates = share, [block.surrogate(share) for block in self._blocks]
        return self._surrogates[1]

    def _tangent_blocks(self, tangent: Tangent) -> list[Block]:
        """Made when first asked for, and again after a loss: then with tangents nowhere."""
        if tangent.key not in self._tangents:
            forms = self._surrogates_of(tangent.share)
            at = None if tangent.at is None else self._states.get(tangent.at)
            found: Sequence[Marginals | None] = [None] * len(forms) if at is None else at
            pairs = zip(forms, found, strict=True)
            self._tangents[tangent.key] = [form.block(form.offset(own)) for form, own in pairs]
        return self._tangents[tangent.key]


def _weighted_sum(weights: Floats, parts: Sequence[Floats]) -> Floats:
    """sum_m w_m part_m, in the order of the blocks."""
    total = np.zeros(0) if not parts else weights[0] * parts[0]
    for weight, part in zip(weights[1:], parts[1:], strict=True):
        total += weight * part
    return total


def _offset_score(weights: Floats, blocks: Sequence[Block]) -> float:
    return float(weights @ [block.offset_score for block in blocks])


class Token:
    """A number of something that a partition keeps for the solver, as long as this object lives."""

    def __init__(self, number: int, owner: list[int]):
        self.number, self.owner = number, owner
        weakref.finalize(self, owner.append, number).atexit = False


class Ask(Protocol):
    """Calls a method of a `Partition`, wherever it is; `waits` if another process computes."""

    waits: bool

    def __call__(self, method: str, *arguments: Any) -> Any: ...


class Connection:
    """The solver's end: numbers what a partition is to keep, and tells it what to drop."""

    def __init__(self, ask: Ask):
        self.waits = ask.waits
        self._ask = ask
        self._numbers = count(1)
        self._dropped: list[int] = []

    def token(self) -> Token:
        return Token(next(self._numbers), self._dropped)

    def number(self, warm: Any) -> int | None:
        """The number of a state, if this partition keeps it."""
        ours = isinstance(warm, Token) and warm.owner is self._dropped
        return warm.number if ours else None

    def __call__(self, method: str, *arguments: Any) -> Any:
        dropped = self._dropped[:]
        del self._dropped[: len(dropped)]
        return self._ask("answer", dropped, method, *arguments)


class RemoteSpace(Structure):
    """The product of the output spaces of a partition; the solver asks only what it offers."""

    def __init__(self, facts: Facts):
        self._facts = facts
        self.n_coordinates = max(int(facts.size), 1)

    def offers(self, capability: str) -> bool:
        return capability in self._facts.capabilities

    def lacks(self, capability: str, needed_by: str = "") -> MissingCapability:
        if capability in CAPABILITIES:
            return super().lacks(capability, needed_by)
        remedy = "use solver='auto', 'newton' or 'lbfgs'"
        if not self.offers("marginals"):
            remedy = "pass the samples in one list, as they have no marginal oracle"
        return MissingCapability(
            f"{needed_by or capability} works on the marginals of single samples, which stay with "
            f"their partition; {remedy}"
        )

    @property
    def has_bound(self) -> bool:
        return self._facts.has_bound

    @property
    def prefers_decoding(self) -> bool:
        return self._facts.prefers_decoding

    @property
    def has_feature_covariance(self) -> bool:
        return self._facts.has_covariance

    @property
    def fingerprint(self) -> str:
        return self._facts.fingerprint

    def concave_surrogate(self, share: float = 1.0) -> ConcaveSurrogate | None:
        raise self.lacks("concave_surrogate")


class RemoteFeatures(FeatureMap):
    """What solvers ask of the features of a partition."""

    def __init__(self, connection: Connection, facts: Facts):
        self._connection = connection
        self._second: list[Any] = []
        self.n_features, self.n_scored = facts.n_features, max(int(facts.size), 1)
        self.feature_names = facts.feature_names

    def score_range(self, theta: Floats) -> float:
        return float(self._connection("score_range", theta))

    def second_moments(self) -> list[tuple[Floats, Floats]] | None:
        if not self._second:
            self._second.append(self._connection("second_moments"))
        found: list[tuple[Floats, Floats]] | None = self._second[0]
        return found


class RemoteBlock(Block):
    """The blocks of one partition, or surrogates of them, seen as one block of weight 1."""

    _connection: Connection
    _facts: Facts
    _tangent: tuple[Tangent, Any] | None
    _offset: float

    def __init__(self, connection: Connection, facts: Facts):
        super().__init__(RemoteSpace(facts), RemoteFeatures(connection, facts), NOTHING)
        self._set(_connection=connection, _facts=facts, _tangent=None, _offset=facts.offset_score)

    def _set(self, **members: Any) -> None:
        for name, value in members.items():
            object.__setattr__(self, name, value)

    @property
    def is_remote(self) -> bool:
        return True

    @property
    def waits(self) -> bool:
        return self._connection.waits

    @property
    def n_observations(self) -> int:
        return self._facts.n_blocks

    @property
    def size(self) -> float:
        return self._facts.size

    @property
    def observed_moments(self) -> Floats:
        return self._facts.observed

    def observed_square(self, moments: Floats) -> float:
        return self._facts.squares

    @property
    def offset_score(self) -> float:
        return self._offset

    @property
    def has_surrogate(self) -> bool:
        return self._facts.has_surrogate

    @property
    def has_covariance(self) -> bool:
        return self._facts.has_covariance

    def check_covariance(self) -> None:
        self.structure.require("feature_covariance", "solver='newton'")
        if not self._facts.has_matrix:
            raise MissingCapability(
                "solver='newton' needs features held as a dense matrix, which the samples of a "
                "partition do not have. Use solver='lbfgs'."
            )

    def expect(self, theta: Floats, warm: Any, tol: float) -> tuple[Marginals, Floats]:
        token = self._connection.token()
        tangent = None if self._tangent is None else self._tangent[0]
        start = self._connection.number(warm)
        found = self._connection("expect", theta, tol, start, token.number, tangent)
        kept = Marginals(np.zeros(0), found.value, found.upper_bound, token, found.iterations)
        return kept, found.moments

    def covariance(self, found: Marginals) -> Floats:
        covariance: Floats | None = self._connection("covariance", found.warm.number)
        if covariance is None:  # lost with a worker: the directions do without, once
            return np.full((self._facts.n_features, self._facts.n_features), np.nan)
        return covariance

    def surrogate(self, share: float) -> Surrogate:
        return RemoteSurrogate(self, share)


class RemoteSurrogate(Surrogate):
    """Surrogates of the blocks of a partition."""

    def __init__(self, block: RemoteBlock, share: float):
        self._remote, self._share = block, share

    def offset(self, found: Marginals | None) -> Any:
        """The tangent, its score, and what must outlive it: it may have to be made again."""
        connection = self._remote._connection
        if not self._remote.has_surrogate:
            return None
        token = connection.token()
        at = None if found is None else connection.number(found.warm)
        tangent = Tangent(token.number, self._share, at)
        return tangent, connection("tangent", tangent), (token, found)

    def block(self, offset: Any) -> Block:
        if offset is None:
            return self._remote
        tangent, score, kept = offset
        block = RemoteBlock(self._remote._connection, self._remote._facts)
        block._set(_tangent=(tangent, kept), _offset=score)
        return block

    def dual_terms(self, found: Marginals) -> tuple[Floats, float]:
        remote = self._remote
        terms = remote._connection("dual_terms", self._share, found.warm.number)
        if terms is None:  # lost with a worker: no bound from this point
            return np.zeros(remote._facts.n_features), np.inf
        moments, term = terms
        return moments, term


def remote_blocks(asks: Sequence[Ask], facts: Sequence[Facts]) -> list[RemoteBlock]:
    """One block for each partition that has observations."""
    pairs = zip(asks, facts, strict=True)
    return [RemoteBlock(Connection(ask), own) for ask, own in pairs if own.n_blocks]
