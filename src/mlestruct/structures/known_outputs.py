"""Answers of a decoder, read and compared with labels and with all earlier answers."""

from __future__ import annotations

from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..exceptions import DecoderError
from .contract import Decoding, Vertex

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

ONES = 20_000  # kept in all outputs of a space together: comparing an answer takes .05 ms
SCORES = 10_000  # kept of the last calls
SLACK = 1e-6  # of the largest score, or of 1: integer programs are not more exact than this


def slack(scores: Floats) -> float:
    """By how much an answer may fall short of the best one."""
    return SLACK * max(1.0, float(np.abs(scores).max(initial=0.0)))


def described(indices: Ints) -> str:
    """An output by its ones, for messages."""
    shown = ", ".join(map(str, indices[:8].tolist()))
    return f"1 at {shown}{', ...' if indices.size > 8 else ''}" if indices.size else "all 0"


class KnownOutputs:
    """Outputs that were observed or returned, and the last calls of the decoder.

    A decoder that maximises never returns an output that scores less than another one, whichever
    of the two is seen first. The oldest are forgotten, so that memory and time are bounded.
    """

    def __init__(self, n_coordinates: int):
        self._outputs: dict[bytes, tuple[Ints, str]] = {}  # ones and name, the oldest first
        # The ones of all outputs, one after the other; -1, a place of score 0, begins each.
        self._places = np.empty(max(ONES, 2 * n_coordinates + 2), dtype=np.int64)
        self._begins = np.empty_like(self._places)
        self._used = 0
        size = min(max(SCORES // n_coordinates, 2), 200)
        self._scores, self._limits = np.zeros((size, n_coordinates)), np.full(size, np.inf)
        self._numbers = [0] * size
        self.calls = self._kept = 0
        self._lock = Lock()  # decoders may be called from several threads

    def __reduce__(self) -> Any:
        return type(self), (self._scores.shape[1],)  # locks cannot be pickled

    def add(self, indices: Ints, name: str, rename: bool = False) -> bool:
        """Keep an output, given by its ones; False where it is known already."""
        key = indices.tobytes()
        with self._lock:
            if key in self._outputs:
                if rename:
                    self._outputs[key] = indices, name
                return False
            if self._used + indices.size >= self._places.size:
                kept = list(self._outputs.items())[(len(self._outputs) + 1) // 2 :]
                self._outputs, self._used = {}, 0
                for other, (ones, own) in kept:
                    self._append(other, ones, own)
            self._append(key, indices, name)
            return True

    def _append(self, key: bytes, indices: Ints, name: str) -> None:
        begin, end = self._used, self._used + indices.size + 1
        self._begins[len(self._outputs)] = begin
        self._places[begin], self._places[begin + 1 : end] = -1, indices
        self._outputs[key], self._used = (indices, name), end

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
            each = np.append(scores, 0.0)[self._places[: self._used]]
            found = np.add.reduceat(each, self._begins[: len(self._outputs)])
            best = int(found.argmax())
            if not found[best] > limit + slack(scores):
                return None
            indices, name = list(self._outputs.values())[best]
            return float(found[best]), name, indices

    def count_call(self) -> int:
        """The number of a new call."""
        with self._lock:
            self.calls += 1
            return self.calls

    def keep_call(self, call: int, scores: Floats, limit: float) -> None:
        """Keep the scores of a call, at which no output may have more than `limit`."""
        with self._lock:
            at = self._kept % self._limits.size
            self._scores[at], self._limits[at], self._numbers[at] = scores, limit, call
            self._kept += 1

    def worse_call(self, indices: Ints) -> tuple[int, float, float] | None:
        """A call at whose scores an output beats the answer: its number, limit, score there."""
        with self._lock:
            found = self._scores[:, indices].sum(axis=1)
            for at in np.flatnonzero(found > self._limits).tolist():
                if found[at] > self._limits[at] + slack(self._scores[at]):
                    return self._numbers[at], float(self._limits[at]), float(found[at])
        return None


def vertex_of(output: Bools) -> Vertex:
    """The vertex of a 0/1 vector."""
    indices = np.flatnonzero(output)
    return Vertex(indices, np.ones(indices.shape[0]))


def read_output(
    returned: Any, n_coordinates: int, subject: str = "decode: must return"
) -> tuple[Bools, float | None]:
    """An output as booleans, and the upper bound that came with it, if any."""
    bound = None
    if isinstance(returned, Decoding):
        returned, bound = returned.vertex.dense(n_coordinates), returned.upper_bound
    elif isinstance(returned, Vertex):
        returned = returned.dense(n_coordinates)
    elif isinstance(returned, tuple) and len(returned) == 2 and np.ndim(returned[1]) == 0:
        returned, bound = returned[0], None if returned[1] is None else float(returned[1])
    form = f"{subject} a 0/1 vector of shape ({n_coordinates},)"
    try:
        values = np.asarray(returned)
    except ValueError as error:
        raise DecoderError(f"{form}, got a {type(returned).__name__}: {error}") from None
    if values.dtype.kind not in "fiub":
        raise DecoderError(f"{form}, got {type(returned).__name__} {returned!r:.60}")
    if values.shape != (n_coordinates,):
        raise DecoderError(f"{form}, got shape {values.shape}")
    output = values > 0.5
    # Integer programs return values that are not quite 0 or 1.
    wrong = ~(np.abs(values - output.astype(np.float64)) <= 1e-6)
    if wrong.any():
        k = int(np.argmax(wrong))
        raise DecoderError(f"{form}, got {values[k]} at coordinate {k}")
    if bound is not None and np.isnan(bound):
        raise DecoderError(f"{form} and an upper bound, got nan as the bound")
    return output, bound
