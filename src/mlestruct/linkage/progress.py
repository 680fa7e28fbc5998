"""The stages of a linkage: a line with the stage and the time that it still needs, and its costs.

`stages` opens a record of all that runs inside of it; `begin` names the stage that starts, which
ends the one before, and `step` counts its slices. Without an open record both do nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")

WIDTH = 24  # of the bar, in characters


class Stages:
    """CPU seconds of each stage, shown on stderr while it runs if `shown`."""

    def __init__(self, shown: bool):
        self.shown = shown
        self.seconds: dict[str, float] = {}
        self._name, self._total, self._done = "", 0, 0
        self._cpu = self._start = self._last = 0.0

    def begin(self, name: str, total: int = 0) -> None:
        """End the stage before, and start one of `total` slices; 0 if their number is unknown."""
        now = time.process_time()
        if self._name:
            self.seconds[self._name] = self.seconds.get(self._name, 0.0) + now - self._cpu
        self._name, self._total, self._done = name, total, 0
        self._cpu, self._start, self._last = now, time.perf_counter(), 0.0
        self._show()

    def step(self) -> None:
        """One more slice of the stage is done."""
        self._done += 1
        now = time.perf_counter()
        if now - self._last > 0.1:
            self._last = now
            self._show()

    def _show(self) -> None:
        if not self.shown:
            return
        line = self._name
        if self._done:
            left = (time.perf_counter() - self._start) * (self._total / self._done - 1.0)
            filled = WIDTH * self._done // self._total
            line += f" [{'#' * filled}{'-' * (WIDTH - filled)}] {left:.0f} s left"
        sys.stderr.write(f"\r{line}\x1b[K")  # and the rest of the line is cleared
        sys.stderr.flush()


_current: ContextVar[Stages | None] = ContextVar("stages", default=None)


@contextmanager
def _opened(shown: bool) -> Iterator[Stages]:
    record = Stages(shown)
    token = _current.set(record)
    try:
        yield record
    finally:
        record.begin("")
        _current.reset(token)


def stages(shown: bool) -> Any:
    """A context that yields the open record, or a new one."""
    record = _current.get()
    return _opened(shown) if record is None else nullcontext(record)


def begin(name: str, total: int = 0) -> None:
    """Start a stage of the open record."""
    if (record := _current.get()) is not None:
        record.begin(name, total)


def stepped(parts: Iterable[T]) -> Iterator[T]:
    """Slices of the current stage, counted as they come."""
    record = _current.get()
    for part in parts:
        if record is not None:
            record.step()
        yield part
