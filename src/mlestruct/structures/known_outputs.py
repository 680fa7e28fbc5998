"""What is known of an output space from labels and from the calls of its decoder so far."""

from __future__ import annotations

from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._compile import kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ONES = 20_000  # kept in all outputs of a space together: comparing an answer with them takes .02 ms
SCORES = 10_000  # kept of the last calls
SLACK = 1e-6  # of the largest score, or of 1: integer programs are not more exact than this


def slack(scores: Floats) -> float:
    """By how much an answer may fall short of the best one."""
    return SLACK * max(1.0, float(np.abs(scores).max(initial=0.0)))


def described(indices: Ints) -> str:
    """An output by its ones, for messages."""
    shown = ", ".join(map(str, indices[:8].tolist()))
    return f"1 at {shown}{', ...' if indices.size > 8 else ''}" if indices.size else "all 0"


def _with_room(array: Ints, size: int) -> Ints:
    """An array of at least this size that begins with the given one."""
    if size <= array.size:
        return array
    room = max(size, 2 * array.size) - array.size
    return np.concatenate([array, np.zeros(room, dtype=np.int64)])


@kernel
def best_output(scores: Floats, places: Ints, ends: Ints) -> tuple[int, float]:
    """The output with the largest score, and this score; output k has the ones up to ends[k]."""
    best, most, first = 0, -np.inf, 0
    for k in range(ends.shape[0]):
        score = 0.0
        for q in range(first, ends[k]):
            score += scores[places[q]]
        if score > most:
            best, most = k, score
        first = ends[k]
    return best, most


class KnownOutputs:
    """Outputs that were observed or returned, and the last calls: none may contradict another.

    A decoder that maximises never returns an output that scores less than another one, whichever of
    the two is seen first. The oldest are forgotten, so that memory and time are bounded.
    """

    def __init__(self, n_coordinates: int):
        self._n = n_coordinates
        self._outputs: dict[bytes, tuple[Ints, str]] = {}  # the oldest first
        self._places = np.zeros(0, dtype=np.int64)  # the ones of all outputs
        self._ends = np.zeros(0, dtype=np.int64)  # and where those of each end
        self._used = 0
        self._size = min(max(SCORES // n_coordinates, 2), 200)  # of the ring of calls
        self._scores, self._limits = np.zeros((0, n_coordinates)), np.zeros(0)
        self._numbers: list[int] = []
        self._count = self.calls = 0
        self._lock = Lock()  # decoders may be called from several threads

    def __reduce__(self) -> Any:
        return type(self), (self._n,)  # locks cannot be pickled

    # ------------------------------------------------------------------ outputs
    def add(self, indices: Ints, name: str, rename: bool = False) -> bool:
        """Keep an output, given by its ones; False where it is known already."""
        key = indices.tobytes()
        with self._lock:
            if key in self._outputs:
                if rename:
                    self._outputs[key] = indices, name
                return False
            if self._outputs and max(self._used + indices.size, len(self._outputs)) > ONES:
                self._forget_half()
            self._append(indices, len(self._outputs))
            self._outputs[key] = indices, name
            return True

    def _append(self, indices: Ints, owner: int) -> None:
        end = self._used + indices.size
        self._places, self._ends = _with_room(self._places, end), _with_room(self._ends, owner + 1)
        self._places[self._used : end], self._ends[owner] = indices, end
        self._used = end

    def _forget_half(self) -> None:
        kept = list(self._outputs.items())[(len(self._outputs) + 1) // 2 :]
        self._outputs, self._used = {}, 0
        for owner, (key, (indices, name)) in enumerate(kept):
            self._append(indices, owner)
            self._outputs[key] = indices, name

    @property
    def only(self) -> Ints | None:
        """The ones of the only known output; None if there are others, or none."""
        outputs = list(self._outputs.values())
        return outputs[0][0] if len(outputs) == 1 else None

    def better_than(self, limit: float, scores: Floats) -> tuple[float, str, Ints] | None:
        """An output that scores more than `limit`: its score, name and ones."""
        with self._lock:
            if not self._outputs:
                return None
            at, most = best_output(scores, self._places, self._ends[: len(self._outputs)])
            if most <= limit or most <= limit + slack(scores):
                return None
            indices, name = list(self._outputs.values())[at]
            return most, name, indices

    # ------------------------------------------------------------------ calls
    def count_call(self) -> int:
        """The number of a new call."""
        with self._lock:
            self.calls += 1
            return self.calls

    def keep_call(self, call: int, scores: Floats, limit: float) -> None:
        """Keep the scores of a call, at which no output may have more than `limit`."""
        with self._lock:
            rows = self._limits.size
            if self._count == rows < self._size:
                more = min(max(rows, 2), self._size - rows)
                self._scores = np.concatenate([self._scores, np.zeros((more, self._n))])
                self._limits = np.concatenate([self._limits, np.zeros(more)])
                self._numbers += [0] * more
            at = self._count % self._size
            self._scores[at], self._limits[at], self._numbers[at] = scores, limit, call
            self._count += 1

    def worse_call(self, indices: Ints) -> tuple[int, float, float] | None:
        """A call at whose scores an output beats the answer: its number, limit, score there."""
        with self._lock:
            n = min(self._count, self._size)
            found = self._scores[:n, indices].sum(axis=1)
            for at in np.flatnonzero(found > self._limits[:n]).tolist():
                if found[at] > self._limits[at] + slack(self._scores[at]):
                    return self._numbers[at], float(self._limits[at]), float(found[at])
        return None
