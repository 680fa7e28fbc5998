"""Transitions between labels of a sequence that are forbidden, such as O to I-PER."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._lazy import cached_property
from ..labels import UNKNOWN, States
from .node_input import Offset

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

NAMED = ("BIO", "IOB2")  # two names of the same rule
# Its exponential is 0 in double precision; -inf times a probability of 0 would be NaN in solvers.
SCORE = -1000.0


@dataclass(frozen=True, eq=False)
class Forbidden:
    """first : (L,), states no sequence begins with; pairs : (L, L), from row to column."""

    first: Bools
    pairs: Bools

    def add_to(self, offset: Offset | None, length: int) -> Offset:
        """Offsets of a sequence that rule these transitions out, beside those that it has."""
        n = self.first.size
        nodes, edges = np.zeros((length, n)), np.where(self.pairs, SCORE, 0.0)
        nodes[0, self.first] = SCORE
        if offset is None:
            return Offset(nodes, np.broadcast_to(edges, (length - 1, n, n)))
        return Offset(offset.nodes + nodes, offset.edges + edges)

    @cached_property
    def longest(self) -> float:
        """The length of the longest allowed sequence: infinite, or at most the number of states."""
        reached = ~self.first
        for length in range(self.first.size + 1):
            if not reached.any():
                return length
            reached = self._next(reached)
        return inf  # a sequence with more tokens than states repeats one, and may repeat it again

    def _next(self, reached: Bools) -> Bools:
        """The states that may follow one of those."""
        return np.asarray((~self.pairs[reached]).any(axis=0))

    def check_length(self, length: int, where: str) -> None:
        """Raise where no sequence of this length is allowed."""
        if length > self.longest:
            raise ValueError(
                f"forbidden_transitions: {where} has {length} tokens, but the longest sequence of "
                f"labels that is allowed has {self.longest}; forbid fewer pairs"
            )

    def check(self, states: Ints, where: str, classes: NDArray[Any]) -> None:
        """Raise where no allowed sequence has these states (-1: not known)."""
        problem = self._problem(states, classes)
        if problem is not None:
            raise ValueError(f"{where}: {problem}")

    def allows(self, states: Ints, classes: NDArray[Any]) -> bool:
        """Whether an allowed sequence has these states (-1: not known)."""
        return self._problem(states, classes) is None

    def _problem(self, states: Ints, classes: NDArray[Any]) -> str | None:
        """Why no allowed sequence has these states."""
        if states[0] != UNKNOWN and self.first[states[0]]:
            return f"begins with {classes[states[0]]!s}, which forbidden_transitions forbids"
        before, after = states[:-1], states[1:]
        both = (before != UNKNOWN) & (after != UNKNOWN)
        wrong = both & self.pairs[before, after]
        if wrong.any():
            t = int(np.argmax(wrong))
            return (
                f"{classes[after[t]]!s} at position {t + 1} follows {classes[before[t]]!s}, which "
                "forbidden_transitions forbids"
            )
        return None if both.all() else self._problem_of_gaps(states, classes)

    def _problem_of_gaps(self, states: Ints, classes: NDArray[Any]) -> str | None:
        """Why nothing that is allowed fills the gaps between known states."""
        reached = ~self.first
        for t, state in enumerate(states.tolist()):
            if t:
                reached = self._next(reached)
            if state != UNKNOWN:
                reached &= np.arange(reached.size) == state
            if not reached.any():
                own = "" if state == UNKNOWN else f" ({classes[state]!s})"
                return (
                    "forbidden_transitions leave no sequence that has the known labels up to "
                    f"position {t}{own}; change these labels or forbid fewer pairs"
                )
        return None


def read_forbidden(given: Any, states: States, learn: bool = False) -> Forbidden | None:
    """Transitions from "BIO" or pairs of labels (from, to); from None: at the beginning.

    With `learn` a warning tells of labels that there are not.
    """
    if given is None:
        return None
    pairs = _bio(states) if isinstance(given, str) and given in NAMED else _listed(given)
    number = {label: k for k, label in enumerate(states.to_list())}
    missing = {label for pair in pairs for label in pair if label is not None} - set(number)
    if missing and learn:
        begins = any(a in missing for a, _ in pairs)
        warnings.warn(
            f"forbidden_transitions: no label in Y is {', '.join(sorted(map(repr, missing)))}"
            + "; None stands for the beginning of a sequence" * begins,
            UserWarning,
            stacklevel=5,
        )
    n = len(states)
    found = Forbidden(np.zeros(n, dtype=np.bool_), np.zeros((n, n), dtype=np.bool_))
    for a, b in pairs:
        if a is None and b in number:
            found.first[number[b]] = True
        elif a in number and b in number:
            found.pairs[number[a], number[b]] = True
    return found


def _bio(states: States) -> list[tuple[Any, Any]]:
    """I-x only after B-x or I-x; labels of other forms are like O."""
    if not states.named:
        raise ValueError("forbidden_transitions: 'BIO' is for labels like B-PER, I-PER and O")
    labels = states.to_list()
    inside = [label for label in labels if label.partition("-")[0] == "I"]
    return [
        (a, b) for b in inside for a in [None, *labels] if a not in (b, "B" + b.removeprefix("I"))
    ]


def _listed(given: Any) -> list[tuple[Any, Any]]:
    try:
        pairs = [tuple(pair) for pair in given if not isinstance(pair, str)]
        count = len(list(given))
    except TypeError:
        pairs, count = [], -1
    if len(pairs) != count or any(len(pair) != 2 or pair[1] is None for pair in pairs):
        raise ValueError(
            "forbidden_transitions: expected 'BIO' or a list of pairs of labels (from, to), None "
            f"as from for the beginning, got {given!r:.80}"
        )
    return pairs
