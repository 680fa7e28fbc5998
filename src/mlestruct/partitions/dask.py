"""Partitions on the workers of a Dask cluster.

Every partition is an actor. The driver owns the rounds: it sends each actor theta, waits for all
answers and adds them up in the order of the partitions; workers do not talk to each other. An actor
that is lost, or does not answer in time, is rebuilt from its source on another worker and asked
again.
"""

from __future__ import annotations

import copy
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from .._deadline import check_time, seconds_left, under_current
from ..exceptions import OutOfTimeError
from ..learning.partition import States
from .backend import Backend, Partitioned
from .host import Host, Reader
from .sources import Lazy, Source, is_dask, is_delayed

POLL = 1.0  # seconds between looks at whether a worker is still there


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise ImportError(
            "partitions on Dask workers need dask and distributed: pip install 'mlestruct[dask]'"
        ) from error
    return distributed


class PartitionTimeout(TimeoutError):
    """A partition has not answered within the time limit, on any worker that was tried."""


class WorkerLost(Exception):
    """The worker of a partition is gone."""


class DaskBackend(Backend):
    """Samples and the states of their oracles live on Dask workers.

    Parameters
    ----------
    client : distributed.Client, optional
        By default the current one.
    time_limit : float
        Seconds within which a partition must answer a call: reading its samples, or one round.
        Then it is rebuilt on another worker.
    retries : int
        How often a partition is rebuilt for one call, after losses or without an answer, before
        the fit fails.
    n_partitions : int, optional
        Into how many partitions samples in memory are cut; by default one per thread of a worker.
    """

    def __init__(
        self,
        client: Any = None,
        time_limit: float = 600.0,
        retries: int = 3,
        n_partitions: int | None = None,
    ):
        distributed = _distributed()
        if client is None:
            try:
                client = distributed.get_client()
            except ValueError:
                raise ValueError(
                    "client: there is no Dask client; start one, such as distributed.Client()"
                ) from None
        if not isinstance(client, distributed.Client):
            raise TypeError(f"client: expected a distributed.Client, got {type(client).__name__}")
        if not time_limit > 0:
            raise ValueError(f"time_limit: expected a positive number, got {time_limit!r}")
        if not retries >= 0:
            raise ValueError(f"retries: expected 0 or more, got {retries!r}")
        self.client, self.time_limit, self.retries = client, float(time_limit), int(retries)
        self.n_partitions = n_partitions or max(sum(client.nthreads().values()), 1)

    def open(self, sources: Sequence[Source], reader: Reader) -> list[Partitioned]:
        placement = _Placement(self.client, self.time_limit)
        return [
            _DaskPartition(p, source, reader, placement, self.retries)
            for p, source in enumerate(sources)
        ]

    def each(self, function: Callable[..., Any], *items: Iterable[Any]) -> list[Any]:
        listed = [list(own) for own in items]
        with ThreadPoolExecutor(max(len(listed[0]), 1)) as pool:
            return list(pool.map(under_current(function), *listed))


class _Placement:
    """Which worker has which partition."""

    balance = 5.0  # seconds between looks at whether workers were added

    def __init__(self, client: Any, time_limit: float):
        self.client, self.time_limit = client, time_limit
        # What is sent to a worker that dies is cancelled.
        self.losses: tuple[type[Exception], ...] = (
            WorkerLost, OSError, TimeoutError, CancelledError, _distributed().KilledWorker,
        )  # fmt: skip
        self._lock = threading.Lock()
        self._worker: dict[int, str] = {}
        self.silent: set[str] = set()  # workers that have not answered in time
        self._looked = time.monotonic()

    def is_alive(self, worker: str) -> bool:
        return worker in self.client.nthreads()

    def choose(self, partition: int, avoid: set[str]) -> str:
        """The worker with the fewest partitions; not one of `avoid` unless there is no other."""
        started = time.monotonic()
        while not (workers := list(self.client.nthreads())):
            if time.monotonic() - started > self.time_limit:
                raise PartitionTimeout(f"no Dask worker within {self.time_limit:g} s")
            time.sleep(POLL)
        with self._lock:
            self._worker.pop(partition, None)
            avoid = avoid | self.silent
            usable = [worker for worker in workers if worker not in avoid] or workers
            loads = Counter(self._worker.values())
            self._worker[partition] = min(usable, key=lambda worker: loads[worker])
            return self._worker[partition]

    def should_move(self, partition: int) -> bool:
        """Whether a worker, added since, has at least two partitions less than this one's."""
        if time.monotonic() - self._looked < self.balance:
            return False
        with self._lock:
            workers = [name for name in self.client.nthreads() if name not in self.silent]
            loads = Counter(self._worker.values())
            least = min((loads[worker] for worker in workers), default=0)
            if loads[self._worker[partition]] - least >= 2:
                return True
            self._looked = time.monotonic()
            return False


class _DaskPartition(Partitioned):
    """An actor on some worker, and how to make it again."""

    waits = True

    def __init__(
        self, number: int, source: Source, reader: Reader, placement: _Placement, retries: int
    ):
        super().__init__(source, reader)
        self._number, self._placement, self._retries = number, placement, retries
        self._actor: Any = None
        self._worker = ""

    def __call__(self, method: str, *arguments: Any) -> Any:
        avoid: set[str] = set()
        reason: Exception | None = None
        states: States | None = None  # of an actor that moves
        if method == "answer" and self._placement.should_move(self._number):
            with suppress(*self._placement.losses, RuntimeError):
                states = self._wait(self._actor.ask("held"))
            self._actor = None
        for _ in range(self._retries + 1):
            try:
                if self._actor is None:
                    self._build(avoid, states)
                return self._wait(self._actor.ask_within(seconds_left(), method, *arguments))
            except OutOfTimeError:
                raise
            except self._placement.losses as error:
                reason, self._actor = error, None
                avoid.add(self._worker)
            except RuntimeError as error:
                if "Actor" not in str(error):
                    raise
                reason, self._actor = error, None
        raise PartitionTimeout(
            f"partition {self._number}: no answer from {self._retries + 1} attempts, the last on "
            f"{self._worker} ({reason}). A round of {self._placement.time_limit:g} s may be too "
            "short (time_limit), its worker may lack memory, or its source may be gone"
        ) from reason

    def _build(self, avoid: set[str], states: States | None) -> None:
        client = self._placement.client
        self._worker = self._placement.choose(self._number, avoid)
        source = (self.source.X, self.source.Y, self.source.weights)
        delayed = [k for k, item in enumerate(source) if is_delayed(item)]
        parts = list(source)
        # Not only there: the scheduler knows a Delayed by its key, and where it was to be before.
        computed = client.compute(
            [source[k] for k in delayed], workers=[self._worker], allow_other_workers=True
        )
        for k, found in zip(delayed, computed, strict=True):
            parts[k] = found
        for k, item in enumerate(source):
            if not (item is None or is_dask(item) or isinstance(item, Lazy)):
                (parts[k],) = client.scatter([item], workers=[self._worker], hash=False)
        if states:
            (kept,) = client.scatter([states], workers=[self._worker], hash=False)
        # The key is new, so that the scheduler does not find the actor that was lost.
        made = client.submit(
            Host,
            *parts,
            copy.copy(self.reader),
            list(self.steps),
            kept if states else None,
            actor=True,
            pure=False,
            workers=[self._worker],
        )
        # Dask waits for ever for an actor that is lost between being made and being fetched.
        self._actor = self._wait(made, 10.0 * POLL)

    def _wait(self, pending: Any, patience: float | None = None) -> Any:
        """The result, unless the worker goes or the time is up; `patience` is for fetching it."""
        limit, started = self._placement.time_limit, time.monotonic()
        looked, pause = started, 1e-4
        while not pending.done():
            time.sleep(pause)
            pause = min(1.5 * pause, 0.05)
            now = time.monotonic()
            if now - looked < min(POLL, limit):
                continue
            looked = now
            check_time(f"partition {self._number}")
            if not self._placement.is_alive(self._worker):
                raise WorkerLost(f"{self._worker} is gone")
            if now - started > limit:
                self._placement.silent.add(self._worker)
                raise TimeoutError(f"no answer within {limit:g} s")
        return pending.result(patience)
