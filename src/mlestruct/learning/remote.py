"""The solver's view of a partition: many observations, seen as one block.

States of oracles never travel: the solver holds a `Token` of each, and what it no longer holds is
dropped where it is.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..exceptions import MissingCapability
from ..features.contract import FeatureMap
from ..structures.contract import ConcaveSurrogate, Marginals, Structure, Vertex
from .checkpoint import Elsewhere
from .partition import CAPABILITIES, Facts
from .problem import Block, Surrogate, Tangent

Floats = NDArray[np.float64]

NOTHING = Vertex(np.zeros(0, dtype=np.int64), np.zeros(0))


class Token(Elsewhere):
    """A number of something that a partition keeps for the solver, as long as this object lives.

    It does not keep the partition alive.
    """

    def __init__(self, number: int, owner: Connection):
        self.number, self.place = number, owner.place
        self._owner = weakref.ref(owner)
        weakref.finalize(self, owner.dropped.append, number).atexit = False

    def save(self, path: Path) -> bool:
        owner = self._owner()
        return owner is not None and bool(owner("save", self.number, path))

    def belongs_to(self, connection: Connection) -> bool:
        """Whether the number is one of this connection."""
        return self._owner() is connection


class Ask(Protocol):
    """Calls a method of a `Partition`, wherever it is; `waits` if another process computes."""

    waits: bool

    def __call__(self, method: str, *arguments: Any) -> Any: ...


class Connection:
    """The solver's end: numbers what a partition is to keep, and tells it what to drop."""

    def __init__(self, ask: Ask, place: int):
        self.waits, self.place = ask.waits, place
        self._ask = ask
        self._last = 0
        self.dropped: list[int] = []

    def token(self, number: int | None = None) -> Token:
        """A new number, or one of a checkpoint."""
        found = self._last + 1 if number is None else number
        self._last = max(self._last, found)
        return Token(found, self)

    def number(self, warm: Any) -> int | None:
        """The number of a state, if this partition keeps it."""
        ours = isinstance(warm, Token) and warm.belongs_to(self)
        return warm.number if ours else None

    def __call__(self, method: str, *arguments: Any) -> Any:
        dropped = self.dropped[:]
        del self.dropped[: len(dropped)]
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
        return MissingCapability(
            f"{needed_by or capability} works on the marginals of single samples, which stay with "
            "their partition; pass the samples in one list"
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
        self.connection = connection
        self._second: list[Any] = []
        self.n_features, self.n_scored = facts.n_features, max(int(facts.size), 1)
        self.feature_names = facts.feature_names

    def score_range(self, theta: Floats) -> float:
        return float(self.connection("score_range", theta))

    def second_moments(self) -> list[tuple[Floats, Floats]] | None:
        if not self._second:
            self._second.append(self.connection("second_moments"))
        found: list[tuple[Floats, Floats]] | None = self._second[0]
        return found


class RemoteBlock(Block):
    """The blocks of one partition, or surrogates of them, seen as one block of weight 1."""

    connection: Connection
    _facts: Facts
    _tangent: tuple[Tangent, Any] | None
    _offset: float

    def __init__(self, connection: Connection, facts: Facts):
        super().__init__(RemoteSpace(facts), RemoteFeatures(connection, facts), NOTHING)
        self._set(connection=connection, _facts=facts, _tangent=None, _offset=facts.offset_score)

    def _set(self, **members: Any) -> None:
        for name, value in members.items():
            object.__setattr__(self, name, value)

    @property
    def is_remote(self) -> bool:
        return True

    @property
    def waits(self) -> bool:
        return self.connection.waits

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

    def digest(self, theta: Floats) -> bytes:
        digest: bytes = self.connection("digest", theta)
        return digest

    def load(self, number: int, path: Path | None) -> Token:
        token = self.connection.token(number)
        if path is not None:
            self.connection("load", number, path)
        return token

    def expect(self, theta: Floats, warm: Any, tol: float) -> tuple[Marginals, Floats]:
        token = self.connection.token()
        tangent = None if self._tangent is None else self._tangent[0]
        start = self.connection.number(warm)
        found = self.connection("expect", theta, tol, start, token.number, tangent)
        kept = Marginals(np.zeros(0), found.value, found.upper_bound, token, found.iterations)
        return kept, found.moments

    def covariance(self, found: Marginals) -> Floats:
        covariance: Floats | None = self.connection("covariance", found.warm.number)
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
        connection = self._remote.connection
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
        block = RemoteBlock(self._remote.connection, self._remote._facts)
        block._set(_tangent=(tangent, kept), _offset=score)
        return block

    def dual_terms(self, found: Marginals) -> tuple[Floats, float]:
        remote = self._remote
        terms = remote.connection("dual_terms", self._share, found.warm.number)
        if terms is None:  # lost with a worker: no bound from this point
            return np.zeros(remote._facts.n_features), np.inf
        moments, term = terms
        return moments, term


def remote_blocks(asks: Sequence[Ask], facts: Sequence[Facts]) -> list[RemoteBlock]:
    """One block for each partition that has observations."""
    filled = [(ask, own) for ask, own in zip(asks, facts, strict=True) if own.n_blocks]
    return [RemoteBlock(Connection(ask, p), own) for p, (ask, own) in enumerate(filled)]
