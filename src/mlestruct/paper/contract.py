"""What an experiment is, and what comes out of it.

An experiment is split into parts. A part returns plain data (numbers, strings, lists and
dictionaries) that is kept on disk, so nothing is computed twice. `outcome` makes tables, pictures,
comparisons and claims from the results of all parts, and computes nothing that takes long.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from .parts import Part, Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class ReproductionError(ValueError):
    """What the user of the command can put right."""


@dataclass(frozen=True)
class Table:
    """Rows under heads, shown on pages and written as a CSV file of this name."""

    name: str
    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Any]]

    @classmethod
    def of(cls, name: str, title: str, columns: Mapping[str, Sequence[Any]]) -> Table:
        """From columns of the same length, by their heads."""
        return cls(name, title, list(columns), list(zip(*columns.values(), strict=True)))


@dataclass(frozen=True)
class Comparison:
    """A published number beside the one measured here.

    what : what the number is
    published : as printed
    ours : None if it could not be measured
    better : whether lower or higher is better; "none" if the two are not comparable (another
        machine, other data)
    digit : the value of the last digit that was published; differences below half of it are none
    spread : the range of ours over repetitions (other splits, other seeds)
    whose : "ours" for the paper's method, "rival" for a method that it compares with
    note : what else a reader has to know
    protocol : how ours was measured, where there are several ways; each has a tally of its own
    """

    what: str
    published: float
    ours: float | None
    better: Literal["lower", "higher", "none"] = "lower"
    digit: float = 0.0
    spread: tuple[float, float] | None = None
    whose: Literal["ours", "rival"] = "ours"
    note: str = ""
    protocol: str = ""

    @property
    def verdict(self) -> Literal["better", "equal", "worse", "other", "missing"]:
        """ "other" means that neither is better."""
        if self.ours is None or math.isnan(self.ours):
            return "missing"
        gain = self.published - self.ours if self.better == "lower" else self.ours - self.published
        if abs(gain) <= 0.5 * self.digit + 1e-12:
            return "equal"
        if self.better == "none":
            return "other"
        return "better" if gain > 0.0 else "worse"


@dataclass(frozen=True)
class Claim:
    """A statement, and whether the measurements agree with it.

    holds : None if the results cannot tell
    measured : the numbers that decide it
    whose : "paper" for what the paper says, each statement once, or "ours"
    """

    sentence: str
    holds: bool | None
    measured: str = ""
    whose: Literal["paper", "ours"] = "paper"


def listed(values: Mapping[str, float], digits: str) -> str:
    """Names and numbers in one line, as claims tell them."""
    return ", ".join(f"{name} {value:{digits}}" for name, value in values.items())


@dataclass(frozen=True)
class Picture:
    """A figure. `shows_data` is True if real data can be seen in it, which is not ours to ship."""

    name: str
    caption: str
    figure: Figure
    shows_data: bool = False


@dataclass(frozen=True)
class Outcome:
    """What an experiment has found.

    summary : a few sentences for the reader
    """

    summary: Sequence[str] = ()
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()
    comparisons: Sequence[Comparison] = ()
    claims: Sequence[Claim] = ()


class Experiment(ABC):
    """A figure or table of the paper.

    name : on the command line
    title : what is shown
    place : where it is in the paper
    solvers : which solver made which numbers
    budget : CPU seconds of every method, in experiments that run against the clock; None: theirs
    """

    budget: float | None = None

    name: ClassVar[str]
    title: ClassVar[str]
    place: ClassVar[str]
    solvers: ClassVar[str]

    @abstractmethod
    def setting(self, quick: bool) -> Setting:
        """What decides the results.

        quick : small, and on generated data only; otherwise real data is used where
            MLESTRUCT_DATA has it. The setting says which under "data", and under "why" for what
            reason it is not the real one.
        """

    @abstractmethod
    def parts(self, setting: Setting) -> Sequence[Part]:
        """The work, in the order in which it is done."""

    @abstractmethod
    def outcome(self, setting: Setting, found: Mapping[str, Any]) -> Outcome:
        """Tables, pictures, comparisons and claims, from the results of all parts by name."""
