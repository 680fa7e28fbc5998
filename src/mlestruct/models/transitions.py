"""Transitions between labels of a sequence that are forbidden, such as O to I-PER."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
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
    """Pairs of states that must not follow each other.

    pairs : (L + 1, L), from row to column; the last row is the beginning of a sequence
    classes : (L,), the label of each state
    """

    pairs: Bools
    classes: NDArray[Any]

    def add_to(self, tokens: Tokens) -> Tokens:
        """Tokens with offsets that rule these pairs out, beside those that they have."""
        n, scores = len(self.classes), np.where(self.pairs, SCORE, 0.0)
        nodes = np.zeros((int(tokens.starts[-1]), n))
        nodes[tokens.begins] = scores[n]
        edges = np.broadcast_to(scores[:n], (tokens.tails.size, n, n))
        given = tokens.offset
        if given is not None:
            nodes, edges = given.nodes + nodes, given.edges + edges
        return replace(tokens, offset=Offset(nodes, edges))

    def check_lengths(self, tokens: Tokens) -> None:
        """Raise if no sequence of some length is allowed."""
        m, longest = int(np.argmax(tokens.lengths)), self._longest
        if longest is not None and tokens.lengths[m] > longest:
            raise ValueError(
                f"forbidden_transitions: X[{m}] has {tokens.lengths[m]} tokens, but the longest "
                f"sequence of labels that is allowed has {longest}; forbid fewer pairs"
            )

    @cached_property
    def _longest(self) -> int | None:
        """The length of the longest allowed sequence; None if sequences of any length are.

        A sequence with more tokens than states repeats one, and may repeat it again.
        """
        return self._end(np.full(len(self.classes) + 1, UNKNOWN))

    def _end(self, states: Ints) -> int | None:
        """The first position that no allowed sequence with these states reaches."""
        reached = ~self.pairs[-1]
        for t, state in enumerate(states.tolist()):
            if t:
                reached = (~self.pairs[:-1][reached]).any(axis=0)
            if state != UNKNOWN:
                reached &= np.arange(reached.size) == state
            if not reached.any():
                return t
        return None

    def problem(self, states: Ints) -> str | None:
        """Why no allowed sequence has these states (-1: not known); None if one has."""
        before, known = np.append(len(self.classes), states[:-1]), states != UNKNOWN
        wrong = (before != UNKNOWN)[: states.size] & known
        wrong[wrong] = self.pairs[before[: states.size][wrong], states[wrong]]
        if wrong.any():
            t = int(np.argmax(wrong))
            label = self.classes[states[t]]
            how = (
                f"{label!s} at position {t} follows {self.classes[before[t]]!s}"
                if t
                else (f"begins with {label!s}")
            )
            return f"{how}, which forbidden_transitions forbids"
        end = None if known.all() else self._end(states)
        if end is None:
            return None
        own = f" ({self.classes[states[end]]!s})" if known[end] else ""
        return (
            "forbidden_transitions leave no sequence that has the known labels up to position "
            f"{end}{own}; change these labels or forbid fewer pairs"
        )

    def check(self, labels: list[Ints], name: str) -> None:
        """Raise if no allowed sequence has the states of some sample."""
        for m, states in enumerate(labels):
            problem = self.problem(states)
            if problem is not None:
                raise ValueError(f"{name}[{m}]: {problem}")


def read_forbidden(given: Any, classes: NDArray[Any], learn: bool = False) -> Forbidden | None:
    """Transitions from "BIO" or pairs of labels (from, to); from None: at the beginning.

    With `learn` a warning names labels that do not exist.
    """
    if given is None:
        return None
    labels = classes.tolist()
    pairs = _bio(labels) if isinstance(given, str) and given in NAMED else _listed(given)
    number: dict[Any, int] = {label: k for k, label in enumerate(labels)}
    missing = {label for pair in pairs for label in pair if label is not None} - set(number)
    if missing and learn:
        begins = any(a in missing for a, _ in pairs)
        warnings.warn(
            f"forbidden_transitions: no label in Y is {', '.join(sorted(map(repr, missing)))}"
            + "; None stands for the beginning of a sequence" * begins,
            UserWarning,
            stacklevel=2,
        )
    n = len(labels)
    forbidden = np.zeros((n + 1, n), dtype=np.bool_)
    number[None] = n
    for a, b in pairs:
        if a in number and b in number:
            forbidden[number[a], number[b]] = True
    return Forbidden(forbidden, classes)


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
