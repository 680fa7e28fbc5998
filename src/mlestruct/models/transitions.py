"""Transitions between labels of a sequence that are forbidden, such as O to I-PER."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._lazy import cached_property
from .labelling import UNKNOWN
from .node_input import Offset
from .tokens import Tokens

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
    classes: NDArray[Any]

    def add_to(self, tokens: Tokens) -> Tokens:
        """Tokens with offsets that rule these transitions out, beside those that they have."""
        n = self.first.size
        nodes = np.zeros((int(tokens.starts[-1]), n))
        nodes[tokens.begins] = np.where(self.first, SCORE, 0.0)
        edges = np.broadcast_to(np.where(self.pairs, SCORE, 0.0), (tokens.tails.size, n, n))
        given = tokens.offset
        if given is not None:
            nodes, edges = given.nodes + nodes, given.edges + edges
        return replace(tokens, offset=Offset(nodes, edges))

    @cached_property
    def _longest(self) -> float:
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

    def check_lengths(self, tokens: Tokens) -> None:
        """Raise if no sequence of some length is allowed."""
        m = int(np.argmax(tokens.lengths))
        if tokens.lengths[m] > self._longest:
            raise ValueError(
                f"forbidden_transitions: X[{m}] has {tokens.lengths[m]} tokens, but the longest "
                f"sequence of labels that is allowed has {self._longest}; forbid fewer pairs"
            )

    def check(self, labels: list[Ints], name: str) -> None:
        """Raise if no allowed sequence has the states of some sample (-1: not known)."""
        for m, states in enumerate(labels):
            problem = self.problem(states)
            if problem is not None:
                raise ValueError(f"{name}[{m}]: {problem}")

    def problem(self, states: Ints) -> str | None:
        """Why no allowed sequence has these states; None if one has."""
        if not states.size:
            return None
        name = self.classes
        if states[0] != UNKNOWN and self.first[states[0]]:
            return f"begins with {name[states[0]]!s}, which forbidden_transitions forbids"
        before, after = states[:-1], states[1:]
        both = (before != UNKNOWN) & (after != UNKNOWN)
        wrong = both & self.pairs[before, after]
        if wrong.any():
            t = int(np.argmax(wrong))
            return (
                f"{name[after[t]]!s} at position {t + 1} follows {name[before[t]]!s}, which "
                "forbidden_transitions forbids"
            )
        return None if both.all() else self._problem_of_gaps(states)

    def _problem_of_gaps(self, states: Ints) -> str | None:
        """Why nothing that is allowed fills the gaps between known states."""
        reached = ~self.first
        for t, state in enumerate(states.tolist()):
            if t:
                reached = self._next(reached)
            if state != UNKNOWN:
                reached &= np.arange(reached.size) == state
            if not reached.any():
                own = "" if state == UNKNOWN else f" ({self.classes[state]!s})"
                return (
                    "forbidden_transitions leave no sequence that has the known labels up to "
                    f"position {t}{own}; change these labels or forbid fewer pairs"
                )
        return None


def read_forbidden(given: Any, classes: NDArray[Any], learn: bool = False) -> Forbidden | None:
    """Transitions from "BIO" or pairs of labels (from, to); from None: at the beginning.

    With `learn` a warning names labels that do not exist.
    """
    if given is None:
        return None
    labels = classes.tolist()
    pairs = _bio(labels) if isinstance(given, str) and given in NAMED else _listed(given)
    number = {label: k for k, label in enumerate(labels)}
    missing = {label for pair in pairs for label in pair if label is not None} - set(number)
    if missing and learn:
        begins = any(a in missing for a, _ in pairs)
        warnings.warn(
            f"forbidden_transitions: no label in Y is {', '.join(sorted(map(repr, missing)))}"
            + "; None stands for the beginning of a sequence" * begins,
            UserWarning,
            stacklevel=5,
        )
    n = len(labels)
    found = Forbidden(np.zeros(n, dtype=np.bool_), np.zeros((n, n), dtype=np.bool_), classes)
    for a, b in pairs:
        if a is None and b in number:
            found.first[number[b]] = True
        elif a in number and b in number:
            found.pairs[number[a], number[b]] = True
    return found


def _bio(labels: list[Any]) -> list[tuple[Any, Any]]:
    """I-x only after B-x or I-x; labels of other forms are like O."""
    if not isinstance(labels[0], str):
        raise ValueError("forbidden_transitions: 'BIO' is for labels like B-PER, I-PER and O")
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
