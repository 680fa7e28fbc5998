"""Samples in parts: in files that do not fit into memory together, or on Dask workers.

A part reads its samples where it is and keeps the states of its oracles. The driver owns the
rounds: it sends theta to every part, waits for all answers, and adds up moments and bounds in the
order of the parts, so that a fit sees one `Problem`. Parts never talk to each other. A part that is
lost with its worker, or does not answer in time, reads its samples again on another worker.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from .._running import check_time, seconds_left, time_limit, under_current
from ..exceptions import MissingCapability, OutOfTimeError
from .problem import ElasticNet, Expectation, Problem, Segments, joined_curvature

Floats = NDArray[np.float64]

KEPT = 4  # states of oracles: of the last accepted theta, and of trials of a line search
POLL = 1.0  # seconds between looks at whether a worker is still there


class PartTimeout(TimeoutError):
    """A part has not answered within the time limit, on any worker that was tried."""


class _WorkerLost(Exception):
    """The worker of a part is gone."""


@dataclass(frozen=True)
class Parts:
    """Samples that are read where they are needed; `fit` takes it in place of X and Y.

    Labels and features cannot be compared across parts before they are read: give `classes` to
    `fit`, and dictionaries of features as sparse matrices of a fitted vectoriser.

    Parameters
    ----------
    read : function from a source to (X, Y) or (X, Y, sample_weight)
        It must return the same samples each time.
    sources : sequence, one for each part: names of files, or Dask futures
    client : distributed.Client, optional
        Parts are on its workers; by default in this process, one after the other.
    held : int, optional
        Number of parts that this process keeps in memory; others are read again in every round.
    time_limit : float
        Seconds within which a worker must answer a round.
    retries : int
        How often a part is read again for one round, on other workers, before the fit fails.

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct import ChainCRF, Parts
    >>> def read(seed):
    ...     rng = np.random.default_rng(seed)
    ...     Y = [np.repeat(rng.integers(2, size=4), 3) for _ in range(20)]
    ...     return [np.eye(2)[y] + rng.normal(size=(12, 2)) for y in Y], Y
    >>> model = ChainCRF().fit(Parts(read, sources=[0, 1, 2]), classes=[0, 1])
    >>> bool(model.converged_)
    True
    """

    read: Callable[[Any], Sequence[Any]]
    sources: Sequence[Any]
    client: Any = None
    held: int | None = None
    time_limit: float = 600.0
    retries: int = 3

    def problem(self, estimator: Any, classes: Any) -> PartsProblem:
        """The learning problem of all parts; `estimator` takes what reading them has learned."""
        for name, least in (("time_limit", 1e-3), ("retries", 0)):
            if not getattr(self, name) >= least:
                raise ValueError(f"`{name}` must be at least {least:g}; got {getattr(self, name)}.")
        if not len(self.sources):
            raise ValueError("`sources` must hold at least one source; got none.")
        if getattr(estimator, "standardize", False):
            raise ValueError(
                "`standardize` must be False for samples in parts, which do not know each other's "
                "means. Scale the features in `read`."
            )
        reader = clone(estimator).set_params(random_state=None, solver=None)  # it stays here
        arguments = self.read, reader, classes
        held = _Held(self.held)
        workers = None if self.client is None else _Workers(self)
        asks: list[Callable[..., Any]] = []
        for p, source in enumerate(self.sources):
            if workers is None:
                asks.append(_LocalPart(held, source, arguments))
            else:
                asks.append(_RemotePart(workers, p, source, arguments))
        return PartsProblem(asks, estimator, workers is not None)


@dataclass(frozen=True)
class Facts:
    """What the driver knows of a part: sums over its samples, and what its reader has learned."""

    n_calls: int
    size: float
    target: Floats
    offset_score: float
    moment_scale: float
    has_bound: bool
    has_marginals: bool
    has_partial: bool
    fingerprint: str
    learned: dict[str, Any]
    layout: Any


class Part:
    """The problem of some samples, and the last states of its oracles, by their numbers."""

    def __init__(
        self,
        source: Any,
        read: Callable[[Any], Sequence[Any]],
        reader: Any,
        classes: Any,
        states: OrderedDict[int, Any] | None = None,
    ):
        found = tuple(read(source))
        if len(found) not in (2, 3):
            raise ValueError(
                f"`read` must return (X, Y) or (X, Y, weights); got {len(found)} items"
            )
        self._reader = clone(reader)
        self._problem: Problem = self._reader._problem(*found, classes=classes)
        self._states = OrderedDict[int, Any]() if states is None else states

    def ask(self, method: str, *arguments: Any) -> Any:
        """Call a method."""
        return getattr(self, method)(*arguments)

    def ask_within(self, seconds: float, method: str, *arguments: Any) -> Any:
        """Call a method under the deadline of another process, which gives up after `seconds`."""
        with time_limit(None if seconds == inf else max(seconds / 1.1 - 0.5, 1e-3)):
            return self.ask(method, *arguments)

    def facts(self) -> Facts:
        problem, reader = self._problem, self._reader
        learned = vars(reader).keys() - reader.get_params(deep=False).keys()
        return Facts(
            problem.n_calls,
            problem.size,
            problem.target,
            problem.offset_score,
            problem.moment_scale,
            problem.has_bound,
            problem.has_marginals,
            problem.has_partial,
            problem.fingerprint,
            {name: getattr(reader, name) for name in learned},
            reader._learned_names(),
        )

    def expect(self, theta: Floats, tol: float, start: int | None, number: int) -> Expectation:
        """`Problem.expect` from the state `start`, if it is known; `tol` is per coordinate."""
        before = None if start is None else self._states.get(start)
        with self._problem.running():
            found = self._problem.expect(theta, tol * self._problem.size, before)
        if (
            start is not None and start in self._states
        ):  # it may be the accepted one, from which further trials start
            self._states.move_to_end(start)
        self._states[number] = found.states
        while len(self._states) > KEPT:
            self._states.popitem(last=False)
        return found._replace(states=None)

    def score_range(self, step: Floats) -> float:
        return self._problem.score_range(step)

    def curvature(self) -> Segments | None:
        return self._problem.curvature()


class PartsProblem(Problem):
    """`Problem` of samples in parts: each method asks all parts and adds up."""

    def __init__(self, asks: Sequence[Callable[..., Any]], estimator: Any, waits: bool):
        self._asks, self._waits = list(asks), waits
        self._facts: list[Facts] = self._all("facts")  # reads the samples
        first = self._facts[0]
        for p, facts in enumerate(self._facts):
            if facts.layout != first.layout:
                raise ValueError(
                    f"part {p} has the features and labels {facts.layout!r:.200}, part 0 has "
                    f"{first.layout!r:.200}. All parts must have the same: give `classes`."
                )
        if any(facts.has_partial for facts in self._facts):
            raise ValueError("Y: outputs that are known only in part cannot be learned from parts")
        vars(estimator).update(first.learned)
        self.penalty = ElasticNet(float(estimator.alpha), float(estimator.l1_ratio))
        self.target = np.sum([facts.target for facts in self._facts], axis=0)
        self.n_features = self.target.size
        self.offset_score = sum(facts.offset_score for facts in self._facts)
        self.size = sum(facts.size for facts in self._facts)
        self.blocks = []
        self._number = 0

    def _all(self, method: str, *arguments: Any) -> list[Any]:
        """Ask every part, at the same time if they are in other processes."""

        def one(p: int) -> Any:
            try:
                return self._asks[p](method, *arguments)
            except (ValueError, TypeError) as error:
                raise type(error)(f"part {p}: {error}") from error

        places = range(len(self._asks))
        if not self._waits:
            return [one(p) for p in places]
        with ThreadPoolExecutor(len(places)) as pool:
            return list(pool.map(under_current(one), places))

    def expect(self, theta: Floats, tol: float, states: Any = None) -> Expectation:
        self._number += 1
        found = self._all("expect", theta, tol / self.size, states, self._number)
        moments, lower, upper, size, _ = zip(*found, strict=True)
        total = np.sum(moments, axis=0)
        return Expectation(total, sum(lower), sum(upper), sum(size), self._number)

    def score_range(self, step: Floats) -> float:
        return max(self._all("score_range", step))

    def curvature(self) -> Segments | None:
        return joined_curvature(self._all("curvature"), np.ones(len(self._asks)))

    @property
    def n_calls(self) -> int:
        return sum(facts.n_calls for facts in self._facts)

    @property
    def has_marginals(self) -> bool:
        """Parts answer `expect` in any case, by decoding if there is no other way."""
        return True

    @property
    def has_bound(self) -> bool:
        return all(facts.has_bound for facts in self._facts)

    @property
    def has_partial(self) -> bool:
        return False

    @property
    def moment_scale(self) -> float:
        return sum(facts.moment_scale for facts in self._facts)

    @property
    def fingerprint(self) -> str:
        return " ".join(facts.fingerprint for facts in self._facts)

    def require(self, capability: str, needed_by: str) -> None:
        if capability != "marginals":
            raise MissingCapability(
                f"{needed_by} visits single samples, which stay with their part. Use "
                "solver=LBFGS(), or pass the samples in one list."
            )

    @contextmanager
    def running(self) -> Iterator[None]:
        yield


# ---------------------------------------------------------------------- parts in this process
class _Held:
    """The parts in memory, the one used last at the end."""

    def __init__(self, count: int | None):
        if count is not None and count < 1:
            raise ValueError(f"`held` must be a positive number of parts; got {count!r}.")
        self._count = count
        self._parts = OrderedDict[int, Part]()

    def get(self, key: int, make: Callable[[], Part]) -> Part:
        part = self._parts.pop(key, None)
        if part is None:
            while self._count is not None and len(self._parts) >= self._count:
                self._parts.popitem(last=False)
            part = make()
        self._parts[key] = part
        return part


class _LocalPart:
    """A part that is read again if it was dropped; its states stay."""

    def __init__(self, held: _Held, source: Any, arguments: tuple[Any, ...]):
        self._held, self._source, self._arguments = held, source, arguments
        self._states = OrderedDict[int, Any]()

    def __call__(self, method: str, *arguments: Any) -> Any:
        def make() -> Part:
            read, reader, classes = self._arguments
            return Part(self._source, read, reader, classes, self._states)

        return self._held.get(id(self), make).ask(method, *arguments)


# ---------------------------------------------------------------------- parts on Dask workers
class _Workers:
    """The workers of a client, and which of them has which part."""

    def __init__(self, parts: Parts):
        try:
            import distributed
        except ImportError as error:
            raise ImportError(
                "parts on Dask workers need dask and distributed: pip install 'mlestruct[dask]'"
            ) from error
        if not isinstance(parts.client, distributed.Client):
            found = type(parts.client).__name__
            raise TypeError(f"`client` must be a distributed.Client; got {found}.")
        self.client, self.limit, self.retries = parts.client, parts.time_limit, parts.retries
        # What is sent to a worker that dies is cancelled.
        self.losses: tuple[type[Exception], ...] = (
            _WorkerLost, OSError, TimeoutError, CancelledError, distributed.KilledWorker,
        )  # fmt: skip
        self._lock = threading.Lock()
        self._worker: dict[int, str] = {}
        self.silent: set[str] = set()  # workers that have not answered in time

    def choose(self, part: int, avoid: set[str]) -> str:
        """The worker with the fewest parts; not one of `avoid` unless there is no other."""
        started = time.monotonic()
        while not (workers := list(self.client.nthreads())):
            if time.monotonic() - started > self.limit:
                raise PartTimeout(f"no Dask worker within {self.limit:g} s")
            time.sleep(POLL)
        with self._lock:
            self._worker.pop(part, None)
            usable = [w for w in workers if w not in avoid | self.silent] or workers
            loads = Counter(self._worker.values())
            self._worker[part] = min(usable, key=lambda worker: loads[worker])
            return self._worker[part]

    def wait(self, pending: Any, worker: str, patience: float | None = None) -> Any:
        """The result, unless the worker goes or the time is up; `patience` is for fetching it."""
        started = looked = time.monotonic()
        pause = 1e-4
        while not pending.done():
            time.sleep(pause)
            pause = min(1.5 * pause, 0.05)
            now = time.monotonic()
            if now - looked < min(POLL, self.limit):
                continue
            looked = now
            check_time("a round of the workers")
            if worker not in self.client.nthreads():
                raise _WorkerLost(f"{worker} is gone")
            if now - started > self.limit:
                self.silent.add(worker)
                raise TimeoutError(f"no answer within {self.limit:g} s")
        return pending.result(patience)


class _RemotePart:
    """An actor on some worker, and how to make it again."""

    def __init__(self, workers: _Workers, number: int, source: Any, arguments: tuple[Any, ...]):
        self._workers, self._number = workers, number
        self._source, self._arguments = source, arguments
        self._actor: Any = None
        self._worker = ""

    def __call__(self, method: str, *arguments: Any) -> Any:
        workers, avoid = self._workers, set[str]()
        reason: Exception | None = None
        for _ in range(workers.retries + 1):
            try:
                if self._actor is None:
                    self._build(avoid)
                pending = self._actor.ask_within(seconds_left(), method, *arguments)
                return workers.wait(pending, self._worker)
            except OutOfTimeError:
                raise
            except workers.losses as error:
                reason, self._actor = error, None
                avoid.add(self._worker)
            except RuntimeError as error:
                if "Actor" not in str(error):
                    raise
                reason, self._actor = error, None
        raise PartTimeout(
            f"part {self._number}: no answer from {workers.retries + 1} attempts, the last on "
            f"{self._worker} ({reason}). Raise `time_limit` of Parts, or see whether its worker "
            "lacks memory and its source is still there."
        ) from reason

    def _build(self, avoid: set[str]) -> None:
        client = self._workers.client
        self._worker = self._workers.choose(self._number, avoid)
        # The key is new, so that the scheduler does not find the actor that was lost.
        made = client.submit(
            Part, self._source, *self._arguments, actor=True, pure=False, workers=[self._worker]
        )
        # Dask waits for ever for an actor that is lost between being made and being fetched.
        self._actor = self._workers.wait(made, self._worker, 10.0 * POLL)
