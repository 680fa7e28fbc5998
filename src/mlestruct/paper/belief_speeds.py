"""Times of several methods to equal errors, summarised, and beside the published ratios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .belief_timing import AUTO, BP, FW, METHODS
from .contract import Comparison

Floats = NDArray[np.float64]

# Time of BP / time of FW, as printed.
PUBLISHED_GRAPHS = 10
PUBLISHED_LEVELS = (0.05, 0.01, 0.005, 0.001)
PUBLISHED = {
    "rand-20": ("3.37", "1.56", "1.12", "0.25"),
    "rand-50": ("18.0", "11.76", "5.18", "0.91"),
    "rand-75": ("23.87", "23.87", "9.8", "1.5"),
    "rand-100": ("19.24", "19.24", "10.6", "1.75"),
    "lda-20": ("1.6", "0.61", "0.34", "0.10"),
}


def published(problem: str, levels: Sequence[float]) -> list[tuple[float, float]]:
    """Ratios and the value of their last digit, for each level; none if they are not known."""
    if problem not in PUBLISHED or tuple(levels) != PUBLISHED_LEVELS:
        return []
    return [(float(text), 10.0 ** -len(text.split(".")[1])) for text in PUBLISHED[problem]]


class Speeds:
    """What was measured.

    Parameters
    ----------
    setting : with "problems", "levels", "graphs" and "steps"
    found : by problem, a list over graphs of what `Race.run` returns
    """

    def __init__(self, setting: Mapping[str, Any], found: Mapping[str, Any]):
        self.setting = setting
        self.found = found
        self.problems: list[str] = list(setting["problems"])
        self.levels: list[float] = list(setting["levels"])

    def of(self, problem: str, method: str, level: float) -> list[dict[str, Any]]:
        """One cell for each graph."""
        return [
            cell
            for graph in self.found[problem]
            for cell in graph["cells"]
            if cell["method"] == method and cell["level"] == level
        ]

    def by_graph(self, problem: str, method: str) -> Floats:
        """Microseconds, shape (n_levels, n_graphs)."""
        return np.array(
            [[c["microseconds"] for c in self.of(problem, method, x)] for x in self.levels]
        )

    def microseconds(self, problem: str, method: str) -> Floats:
        """Means over graphs, shape (n_levels,)."""
        return self.by_graph(problem, method).mean(axis=1)

    def ratio(self, problem: str, one: str, other: str) -> Floats:
        """Mean time of `one` / mean time of `other`, shape (n_levels,)."""
        return self.microseconds(problem, one) / self.microseconds(problem, other)

    def reached(self, problem: str, method: str) -> list[bool]:
        """Whether all graphs reached each level."""
        return [all(c["reached"] for c in self.of(problem, method, x)) for x in self.levels]

    def limit(self, problem: str, method: str, level: float) -> float:
        """The median of the fastest limits: steps of FW, sweeps of BP, tol of auto."""
        return float(np.median([cell["limit"] for cell in self.of(problem, method, level)]))

    def piece(self, problem: str, name: str) -> float:
        """Microseconds of a "sweep", a "step" or an "exponential" of all scores, a mean."""
        return float(np.mean([graph["pieces"][name] for graph in self.found[problem]]))

    def missed(self) -> list[str]:
        """Where graphs did not reach an error."""
        return [
            f"{problem} at {level:g} by {method} on {count} of {self.setting['graphs']} graphs"
            for problem in self.problems
            for method in METHODS
            for level in self.levels
            if (count := sum(not c["reached"] for c in self.of(problem, method, level)))
        ]

    @property
    def truth_gap(self) -> float:
        """The largest certified gap of log Z_rho at what is taken as the true marginals."""
        return max(graph["truth_gap"] for graphs in self.found.values() for graph in graphs)


# ---------------------------------------------------------------------- published numbers
def comparisons(speeds: Speeds) -> list[Comparison]:
    """Speedups over BP beside the published ones, of Frank-Wolfe and of auto.

    None if there are fewer graphs than the published means are taken over.
    """
    if speeds.setting["graphs"] < PUBLISHED_GRAPHS:
        return []
    return [
        compare(speeds, problem, k, value, digit)
        for compare in (compare_frank_wolfe, compare_auto)
        for problem in speeds.problems
        for k, (value, digit) in enumerate(published(problem, speeds.levels))
    ]


def compare_frank_wolfe(
    speeds: Speeds, problem: str, k: int, value: float, digit: float
) -> Comparison:
    """No better or worse: a ratio of two programs, neither of which is the published one."""
    level = speeds.levels[k]
    times = {m: speeds.microseconds(problem, m)[k] for m in (FW, BP)}
    sweep, step = speeds.piece(problem, "sweep"), speeds.piece(problem, "step")
    needed = value * times[FW]
    remark = (
        f"BP: {counted(speeds.limit(problem, BP, level), 'sweep')} of {micro(sweep)} and "
        f"{micro(times[BP])} in all; FW: {counted(speeds.limit(problem, FW, level), 'step')} of "
        f"{micro(step)} and {micro(times[FW])} in all. For the published ratio BP would have to "
        f"take {micro(needed)}, as long as {needed / sweep:,.0f} sweeps."
    )
    if not speeds.reached(problem, FW)[k]:
        remark += f" FW is not there on all graphs after {speeds.setting['steps']} steps, so ours "
        remark += "is an upper bound."
    remark += other_topics(problem)
    return Comparison(
        f"{problem}, error {level:g}: time of BP / time of FW",
        value, ratio_of_means(speeds, problem, FW, k), "none", digit,
        spread(speeds, problem, FW, k), remark=remark,
    )  # fmt: skip


def compare_auto(speeds: Speeds, problem: str, k: int, value: float, digit: float) -> Comparison:
    """Our answer to the same question, and where it stays below, what the ratio would ask for.

    No better or worse either: the BP that both are compared with is another one.
    """
    level = speeds.levels[k]
    ours = ratio_of_means(speeds, problem, AUTO, k)
    times = {m: speeds.microseconds(problem, m)[k] for m in (FW, BP, AUTO)}
    remark = f"auto takes {micro(times[AUTO])}, BP {micro(times[BP])}, FW {micro(times[FW])}."
    if ours < value:
        remark += (
            f" This BP is there after {counted(speeds.limit(problem, BP, level), 'sweep')} of "
            f"{micro(speeds.piece(problem, 'sweep'))}: the published ratio to it would leave "
            f"{micro(times[BP] / value)} for everything, while np.exp of all scores alone takes "
            f"{micro(speeds.piece(problem, 'exponential'))}."
        )
    remark += other_topics(problem)
    return Comparison(
        f"{problem}, error {level:g}: time of BP / time of auto (published: of FW)",
        value, ours, "none", digit, spread(speeds, problem, AUTO, k), remark=remark,
    )  # fmt: skip


def other_topics(problem: str) -> str:
    """The paper's topics are not known."""
    return " The topics are of generated text." if problem.startswith("lda") else ""


def ratio_of_means(speeds: Speeds, problem: str, method: str, k: int) -> float:
    return float(speeds.ratio(problem, BP, method)[k])


def spread(speeds: Speeds, problem: str, method: str, k: int) -> tuple[float, float]:
    """The range of the ratio over graphs."""
    ratios = speeds.by_graph(problem, BP)[k] / speeds.by_graph(problem, method)[k]
    return float(ratios.min()), float(ratios.max())


def counted(number: float, name: str) -> str:
    return f"{number:g} {name}{'' if number == 1 else 's'}"


def micro(spent: float) -> str:
    """Microseconds in words."""
    return f"{spent:,.0f} us" if spent >= 9.5 else f"{spent:.1f} us"
