"""Telling how far a run is: a line per part, with the seconds counting up on a terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


class Progress:
    """Lines such as `rho 3/6  rho = 0.7 ... 4.2 s`.

    Parameters
    ----------
    quiet : say nothing
    stream : where to; the standard output by default
    """

    def __init__(self, quiet: bool = False, stream: TextIO | None = None):
        self.quiet = quiet
        self.stream = stream or sys.stdout

    def say(self, text: str = "") -> None:
        if not self.quiet:
            print(text, file=self.stream, flush=True)

    @contextmanager
    def working(self, text: str) -> Iterator[None]:
        """While the work is done; the line ends with its seconds, or with what ended it."""
        if self.quiet:
            yield
            return
        began = time.perf_counter()
        done = threading.Event()
        ticker = None
        self.stream.write(f"{text} ... ")
        self.stream.flush()
        if self.stream.isatty():
            ticker = threading.Thread(target=self._tick, args=(text, began, done), daemon=True)
            ticker.start()
        ending = "interrupted"
        try:
            yield
            ending = f"{time.perf_counter() - began:.1f} s"
        except Exception:
            ending = "failed"
            raise
        finally:
            done.set()
            if ticker is not None:
                ticker.join()
                self.stream.write(f"\r\x1b[K{text} ... ")
            print(ending, file=self.stream, flush=True)

    def _tick(self, text: str, began: float, done: threading.Event) -> None:
        while not done.wait(timeout=1.0):
            self.stream.write(f"\r\x1b[K{text} ... {time.perf_counter() - began:.0f} s")
            self.stream.flush()
