"""A line on stderr where one call of a user's decoder does not return.

Time limits are looked at between calls. The line tells which call it is that takes the time; a
solver that holds Python's global lock (GIL) until it returns also holds the line back.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Thread, get_ident
from time import perf_counter, sleep
from typing import Any

from .._deadline import seconds_left
from ..exceptions import Naming

PATIENCE = 10.0  # seconds; less where less is left of max_time
INTERVAL = 0.5  # seconds between looks at the calls

_running: dict[int, tuple[float, float, Naming | None]] = {}  # start, patience, what for; by thread
_watchers: list[Thread] = []


def watched(decode: Callable[[Any], Any], scores: Any) -> Any:
    """decode(scores), with a line where it takes long."""
    key = get_ident()
    patience = min(PATIENCE, max(seconds_left(), INTERVAL))
    _running[key] = perf_counter(), patience, Naming.current()
    if not (_watchers and _watchers[0].is_alive()):
        _watchers[:] = [Thread(target=_watch, daemon=True, name="mlestruct slow calls")]
        _watchers[0].start()
    try:
        return decode(scores)
    finally:
        _running.pop(key, None)


def _watch() -> None:
    """Look at the calls until there is none; the next one starts another thread."""
    told: dict[int, float] = {}
    while _running:
        for key, (start, patience, naming) in _running.copy().items():
            seconds = perf_counter() - start
            if seconds > patience and told.get(key) != start:
                told[key] = start
                _write(seconds, naming)
        sleep(INTERVAL)


def _write(seconds: float, naming: Naming | None) -> None:
    if os.environ.get("MLESTRUCT_QUIET") or sys.stderr is None:
        return
    what = "" if naming is None else f" ({naming})"
    with suppress(OSError, ValueError):  # a broken pipe, a closed file
        sys.stderr.write(
            f"mlestruct: decode has not returned for {seconds:.1f} s{what}; max_time and Ctrl-C "
            "have to wait for it\n"
        )
        sys.stderr.flush()
