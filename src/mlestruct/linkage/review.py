"""Questions about doubtful pairs, answers, and a model that is fitted again in between."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from threading import Condition, RLock, Thread
from typing import Any

from .._running import time_limit
from .answer_file import AnswerFile
from .known import CHECKED, KnownRow, KnownRows, known_links, known_rows, known_table
from .linker import RecordLinker
from .links import POSSIBLE, Links

EVERY = 5  # answers after which the model is fitted again
RIVALS = 4  # of either record that a question shows, at most
CLEAR = 0.02  # no question is left if no pair is further from 0 and from 1


class Contradiction(ValueError):
    """An answer that cannot be true together with others."""


@dataclass(frozen=True)
class Said:
    """What is known and answered.

    rows : those that say something, of all files
    pairs : the answer about each pair, "yes", "no", or "" if it was passed over; the last one last
    partners : of left and of right records, "" if a record has none
    """

    rows: list[KnownRow]
    pairs: dict[tuple[str, str], str]
    partners: tuple[dict[str, str], dict[str, str]]


@dataclass(frozen=True)
class Fitted:
    """What a fit says: pairs that are not all but excluded, most doubtful first, and numbers."""

    pairs: Any
    columns: list[str]
    group: dict[str, int]
    numbers: dict[str, Any]
    n_answers: int

    @classmethod
    def of(cls, linker: RecordLinker, links: Links, n_answers: int) -> Fitted:
        """Of a linker and its links, given some answers."""
        queue = links.review_queue
        pairs = queue[queue["probability"] >= POSSIBLE]
        chosen = queue["probability"][queue["proposed"]]
        total = float(queue["probability"].sum())
        numbers = {
            "links": int(chosen.size),
            "precision": float(chosen.mean()) if chosen.size else None,
            "recall": float(chosen.sum()) / total if total > 0 else None,
        }
        columns = [one.column for one in linker.comparisons_]
        group = dict(zip(pairs["left"], pairs["group"], strict=True))
        return cls(pairs, columns, group, numbers, n_answers)


class Review:
    """Asks about pairs of two tables, and learns from the answers.

    Parameters
    ----------
    left, right : DataFrames of text, indexed by ids
    answers : where answers are written, and from where they are continued
    known : what else is known
    new_linker : makes a linker, not fitted
    """

    def __init__(
        self,
        left: Any,
        right: Any,
        answers: AnswerFile,
        known: KnownRows,
        new_linker: Callable[[], RecordLinker],
    ):
        self.left, self.right = left, right
        self.answers = answers
        self.error = ""
        self._known = known
        self._new_linker = new_linker
        self._lock = RLock()
        self._changed = Condition(self._lock)
        self._open: dict[str, tuple[str, str]] = {}  # the question of each tab
        self._shown: dict[tuple[str, str], float] = {}  # with which probability
        self._fitted: Fitted | None = None
        self._n_answers = 0
        self._stopped = False
        known_links(self._said().rows, left.index, right.index)  # or raises

    # ------------------------------------------------------------------ learning
    def learn(self) -> None:
        """Fit the model to all answers so far, and take probabilities given these."""
        rows = self._said().rows
        known = known_table(rows) if rows else None
        linker = self._new_linker()
        links = linker.fit_link(self.left, self.right, known)
        fitted = Fitted.of(linker, links, len(rows))
        with self._lock:
            self._fitted = fitted

    def start(self) -> Callable[[], None]:
        """Learn in the background whenever there are answers enough; returns what ends it."""
        limits: list[Any] = []

        def work() -> None:
            with time_limit(None) as limit:
                limits.append(limit)
                while self._wait():
                    try:
                        self.learn()
                        self.error = ""
                    except Exception as error:  # the page shows it, and questions go on
                        if self._stopped:
                            return
                        self.error = str(error)
                        self._fitted = replace(self._model, n_answers=self._n_answers)

        thread = Thread(target=work, daemon=True)
        thread.start()

        def stop() -> None:
            with self._lock:
                self._stopped = True
                self._changed.notify_all()
            for limit in limits:
                limit.cancel()
            thread.join(timeout=5.0)

        return stop

    def _wait(self) -> bool:
        """Wait until the model is to be fitted again; False if there is nothing more to do."""
        with self._lock:
            self._changed.wait_for(lambda: self._stopped or self._is_due())
            return not self._stopped

    def _is_due(self) -> bool:
        return abs(self._n_answers - self._model.n_answers) >= EVERY

    @property
    def n_answers(self) -> int:
        """The number of pairs with an answer."""
        return sum(says != "" for says in self._said().pairs.values())

    # ------------------------------------------------------------------ questions
    def state(self, tab: str) -> dict[str, Any]:
        """The question of a tab and how far the review is, in plain types."""
        with self._lock:
            said = self._said()
            asked = self._open.get(tab)
            if asked is None or asked in said.pairs:
                asked = self._next(tab, said)
            if asked is None:
                self._open.pop(tab, None)
            else:
                self._open[tab] = asked
            question = None if asked is None else self._question(*asked)
            return {"question": question, "progress": self._progress(said)}

    def answer(self, left: str, right: str, says: str) -> None:
        """Write an answer, "yes" or "no", or "" for a pair that is passed over."""
        with self._lock:
            said = self._said()
            before = said.pairs.get((left, right))
            if before:
                if before != says:
                    raise Contradiction(
                        f"{left} and {right} have the answer {before} already, from another page."
                    )
                return
            self._check(said, left, right, says)
            chance = self._shown.get((left, right), self._chance(left, right))
            self.answers.add(left, right, says, chance)
            self._count()

    def undo(self, tab: str, left: str, right: str) -> None:
        """Take an answer back, and ask about the pair again."""
        with self._lock:
            self.answers.remove(left, right)
            if left in self.left.index and right in self.right.index:
                self._open[tab] = left, right
            self._count()

    def _count(self) -> None:
        """Count the answers, and fit the model again if there are enough new ones."""
        self._n_answers = len(self._said().rows)
        self._changed.notify_all()

    def _check(self, said: Said, left: str, right: str, says: str) -> None:
        for key, table in ((left, self.left), (right, self.right)):
            if key not in table.index:
                raise Contradiction(f"There is no record {key}.")
        if says != "yes":
            return
        for key, partners in zip((left, right), said.partners, strict=True):
            if key in partners:
                other = partners[key] or "no record"
                raise Contradiction(f"{key} is linked to {other} already; undo that first.")

    def _next(self, tab: str, said: Said) -> tuple[str, str] | None:
        """The pair whose answer teaches most: doubtful, and in no group that was asked about."""
        group, pairs = self._model.group, self._model.pairs
        elsewhere = {pair for other, pair in self._open.items() if other != tab}
        asked = Counter(group[left] for left, _ in (*said.pairs, *elsewhere) if left in group)
        best, found = CLEAR * (1.0 - CLEAR), None
        columns = (pairs[name] for name in ("left", "right", "probability", "group"))
        for left, right, chance, own in zip(*columns, strict=True):
            worth = chance * (1.0 - chance)
            if worth <= best:  # and all further ones are less doubtful
                break
            pair, free = (left, right), left not in said.partners[0]
            if not free or right in said.partners[1] or pair in said.pairs or pair in elsewhere:
                continue
            if (worth := worth / (1.0 + asked[own])) > best:
                best, found = worth, pair
        return found

    def _question(self, left: str, right: str) -> dict[str, Any]:
        """A pair with the cells of both records and the other candidates of either."""
        cells = zip(self._cells(self.left, left), self._cells(self.right, right), strict=True)
        self._shown[left, right] = chance = self._chance(left, right)
        return {
            "left": left,
            "right": right,
            "probability": chance,
            "columns": [
                {"name": str(name), **marked(one, other)}
                for name, (one, other) in zip(self._model.columns, cells, strict=True)
            ],
            "rivals": {
                "left": self._rivals("left", left, "right", right, self.right),
                "right": self._rivals("right", right, "left", left, self.left),
            },
        }

    def _rivals(self, side: str, key: str, away: str, other: str, table: Any) -> list[Any]:
        """The other candidates of a record, most probable first, of the other table."""
        pairs = self._model.pairs
        own = pairs[(pairs[side] == key) & (pairs[away] != other)].nlargest(RIVALS, "probability")
        return [
            {"id": one, "probability": float(chance), "cells": self._cells(table, one)}
            for one, chance in zip(own[away], own["probability"], strict=True)
        ]

    def _cells(self, table: Any, key: str) -> list[str]:
        return [str(table.at[key, name]) for name in self._model.columns]

    def _chance(self, left: str, right: str) -> float:
        pairs = self._model.pairs
        own = pairs["probability"][(pairs["left"] == left) & (pairs["right"] == right)]
        return float(own.iloc[0]) if len(own) else self._shown.get((left, right), POSSIBLE)

    @property
    def _model(self) -> Fitted:
        if self._fitted is None:
            raise ValueError("nothing has been learned; call learn() first")
        return self._fitted

    # ------------------------------------------------------------------ how far
    def _progress(self, said: Said) -> dict[str, Any]:
        counts = Counter(said.pairs.values())
        answers = [(*pair, says) for pair, says in said.pairs.items() if says]
        return {
            "yes": counts["yes"],
            "no": counts["no"],
            **self._model.numbers,
            "last": list(answers[-1]) if answers else None,
            "learning": self._is_due(),
            "error": self.error,
        }

    # ------------------------------------------------------------------ answers
    def _said(self) -> Said:
        """What is known and answered, as the file has it now."""
        table = self.answers.read()
        rows = known_rows(table, self.answers.path, first_row=2).rows
        rows = [*self._known.rows, *rows]
        words = {True: "yes", False: "no", None: ""}
        answers = [words[CHECKED.get(cell)] for cell in table["checked"]]
        ids = zip(table["left"], table["right"], strict=True)
        pairs = dict(zip(ids, answers, strict=True))
        partners: tuple[dict[str, str], dict[str, str]] = {}, {}
        for row in rows:
            if row.is_link:
                partners[0][row.left], partners[1][row.right] = row.right, row.left
        return Said(rows, pairs, partners)


def marked(one: str, other: str) -> dict[str, Any]:
    """Two cells in parts, each with whether it differs; and how the cells compare."""
    same = one.casefold() == other.casefold()
    if same or not one or not other:
        compare = "same" if one and other else "missing"
        return {"left": [[one, False]], "right": [[other, False]], "compare": compare}
    parts: dict[str, Any] = {"left": [], "right": []}
    words = [re.findall(r"\w+|\W", cell) for cell in (one, other)]
    _mark(words[0], words[1], parts)
    alike = any(not differs and text.strip() for text, differs in parts["left"])
    return {**parts, "compare": "similar" if alike else "different"}


def _mark(one: Sequence[str], other: Sequence[str], parts: dict[str, Any]) -> None:
    """Add the parts of two cells: words, and of similar words letters."""
    folded = [[part.casefold() for part in side] for side in (one, other)]
    matcher = SequenceMatcher(None, folded[0], folded[1], autojunk=False)
    for what, a, b, c, d in matcher.get_opcodes():
        mine, yours = "".join(one[a:b]), "".join(other[c:d])
        ratio = SequenceMatcher(None, mine.casefold(), yours.casefold(), autojunk=False).ratio()
        if what == "replace" and ratio >= 0.6 and not isinstance(one, str):
            _mark(mine, yours, parts)  # below, common letters are chance
            continue
        for side, text in (("left", mine), ("right", yours)):
            if text:
                parts[side].append([text, what != "equal"])
