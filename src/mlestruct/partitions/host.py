"""The samples of one partition, where they are: reading them, and answering a solver."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from .._deadline import time_limit
from ..features.contract import Columns
from ..learning.partition import Facts, Partition, States
from ..learning.problem import Block, merge_equal
from .sources import Source, loaded


class Reader(Protocol):
    """The part of an estimator that turns samples into blocks."""

    def survey(self, X: Any, Y: Any) -> Any: ...

    def agree(self, agreement: Any) -> None: ...

    def training_blocks(
        self, X: Any, Y: Any, sample_weight: Any, separate: bool = False
    ) -> list[Block]: ...

    def column_statistics(self, blocks: list[Block]) -> list[Columns]: ...

    def with_constants(self, blocks: list[Block]) -> list[Block]: ...

    def transformed(
        self, blocks: list[Block], transform: sparse.csr_array | None
    ) -> list[Block]: ...

    def learned(self) -> dict[str, Any]: ...

    def n_threads(self) -> int: ...


@dataclass(frozen=True)
class Reading:
    """What a partition tells of its samples: small, whatever their number."""

    n_blocks: int
    columns: list[Columns]
    n_features: int
    feature_names: tuple[str, ...] | None
    learned: dict[str, Any]


class Host:
    """One partition. The first pass over its samples takes a call for each kind of statistics.

    `steps` are the calls of a first pass that was made before: then the partition is rebuilt.
    """

    def __init__(
        self,
        X: Any,
        Y: Any,
        weights: Any,
        reader: Reader,
        steps: list[tuple[str, tuple[Any, ...]]],
        states: States | None = None,
    ):
        self._samples: Any = loaded(Source(X, Y, weights))
        self._reader, self._states = reader, states
        self._blocks: list[Block] = []
        self._partition: Partition | None = None
        for method, arguments in steps:
            self.ask(method, *arguments)

    def ask(self, method: str, *arguments: Any) -> Any:
        """Call a method of this object, or of its partition of blocks once there is one."""
        target = self if self._partition is None else self._partition
        return getattr(target, method)(*arguments)

    def ask_within(self, seconds: float, method: str, *arguments: Any) -> Any:
        """`ask` under the deadline of another process, which gives up after `seconds`."""
        with time_limit(None if seconds == inf else max(seconds / 1.1 - 0.5, 1e-3)):
            return self.ask(method, *arguments)

    @property
    def size(self) -> int:
        """Bytes of all arrays that are held, without the states of oracles."""
        return _bytes((self._samples, self._blocks, self._partition), set())

    def survey(self) -> Any:
        """What all partitions must agree on: labels, names of features."""
        return self._reader.survey(*self._samples[:2])

    def read(self, agreement: Any) -> Reading:
        """Make the blocks, with what was agreed on."""
        self._reader.agree(agreement)
        blocks = self._blocks = self._reader.training_blocks(*self._samples)
        self._samples = None
        features = blocks[0].features if blocks else None
        names = None if features is None else features.feature_names
        return Reading(
            len(blocks),
            self._reader.column_statistics(blocks) if blocks else [],
            0 if features is None else features.n_features,
            None if names is None else tuple(names),
            self._reader.learned(),
        )

    def add_constant(self) -> list[Columns]:
        """Add a constant to the features; their statistics."""
        self._blocks = self._reader.with_constants(self._blocks)
        return self._reader.column_statistics(self._blocks) if self._blocks else []

    def finish(self, transform: sparse.csr_array | None) -> Facts:
        """Standardise the features by what all partitions have; the solver's facts."""
        blocks = merge_equal(self._reader.transformed(self._blocks, transform))
        self._blocks = []
        self._partition = Partition(blocks, self._reader.n_threads(), self._states)
        return self._partition.facts()


def _bytes(item: Any, seen: set[int]) -> int:
    """Bytes of the arrays that an object holds, each counted once."""
    if id(item) in seen:
        return 0
    seen.add(id(item))
    if isinstance(item, np.ndarray):
        return _bytes(item.base, seen) if isinstance(item.base, np.ndarray) else item.nbytes
    if isinstance(item, dict):
        return sum(_bytes(value, seen) for value in item.values())
    if isinstance(item, list | tuple | set):
        return sum(_bytes(value, seen) for value in item)
    return sum(_bytes(value, seen) for value in getattr(item, "__dict__", {}).values())
