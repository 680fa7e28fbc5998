"""Ctrl-C while a part is at work.

Estimators answer Ctrl-C by keeping the best model so far, which is what a user at a prompt wants.
A part must not take such a model for its result, so here Ctrl-C ends all of the work.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(BaseException):
    """Ctrl-C, in a form that no estimator answers."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Within, Ctrl-C ends everything; outside it is a KeyboardInterrupt again."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    except Interrupted:
        raise KeyboardInterrupt from None
    finally:
        signal.signal(signal.SIGINT, before)
