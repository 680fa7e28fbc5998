"""Speed of Frank-Wolfe and belief propagation at equal error (the paper's table "speedup over BP").

Marginals at rho = 1 of complete graphs with weights unif[0, 1] (rand-n), and of topics of two runs
of latent Dirichlet allocation that are to be aligned (lda-20): two fits of scikit-learn's
LatentDirichletAllocation from different starts on the same generated text, where the score of a
pair of topics is 10 times the cosine of their words' weights. At this scale some topics are
matched for certain and others are shared between several, so that marginals are neither flat nor
0 and 1.

    FW    `frank_wolfe_marginals`, the plain one of the paper, with a limited number of steps;
          0 steps are its uniform start
    BP    `belief_propagation` with a limited number of sweeps and nothing else
    auto  `BipartiteMatching.marginals` at a given tol, with its certificate

and, so that checks of arguments do not decide small graphs, the compiled part of BP alone.

For each error (largest distance of a marginal from the true Bethe one) the fastest limit that
reaches it counts, graph by graph; times are then averaged. Nobody knows this error beforehand: the
gap that auto certifies is of log Z, and as loose as tol. A structure is built once for all its
graphs and is not counted. Where Frank-Wolfe does not reach an error within its steps on all
graphs, ">" shows the mean of what was spent.

Ratios depend on both programs, and the paper gives neither its times nor its topics. How many
sweeps and steps are needed and what each one takes is therefore measured, too.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from ..plotting.style import COLOURS, DASHES, GREY, MARKERS, checked, clean_axes, new_figure
from ..structures import BipartiteMatching
from .belief_timing import AUTO, BP, FW, KERNEL, METHODS, MethodTimes, random_graphs, topic_graphs
from .contract import Claim, Comparison, Experiment, Outcome, Picture, Table, listed
from .parts import Part, Setting

Floats = NDArray[np.float64]

LEVELS = (0.05, 0.01, 0.005, 0.001)
PUBLISHED = {  # time of BP / time of FW, as printed, means of 10 graphs
    "rand-20": ("3.37", "1.56", "1.12", "0.25"),
    "rand-50": ("18.0", "11.76", "5.18", "0.91"),
    "rand-75": ("23.87", "23.87", "9.8", "1.5"),
    "rand-100": ("19.24", "19.24", "10.6", "1.75"),
    "lda-20": ("1.6", "0.61", "0.34", "0.10"),
}


class BeliefPropagation(Experiment):
    name = "belief-propagation"
    title = "Time to accurate marginals: Frank-Wolfe, belief propagation and ours"
    place = "appendix, table of Frank-Wolfe's speedup over BP"

    def setting(self, quick: bool) -> Setting:
        sweeps = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256]
        return {
            "data": "generated: weights unif[0, 1], as in the paper; topics of generated text",
            "seed": 2009,
            "problems": ["rand-20", "rand-50", "lda-20"] if quick else list(PUBLISHED),
            "graphs": 2 if quick else 10,
            "documents": 100 if quick else 400,
            "topic_scale": 10.0,
            "levels": list(LEVELS),
            "steps": 512 if quick else 131_072,
            "sweeps": sweeps,
            "tols": [10.0, 3.0, 1.0, 0.3, 0.1, 0.03, *(10.0**-k for k in range(2, 11))],
            "repetitions": 3 if quick else 9,
        }

    def parts(self, setting: Setting) -> Sequence[Part]:
        return [Part(problem, partial(timed, setting, problem)) for problem in setting["problems"]]

    def outcome(self, setting: Setting, found: Mapping[str, Any]) -> Outcome:
        speeds = Speeds(setting, found)
        times = [speeds.microseconds(p, AUTO) for p in speeds.problems]
        faster = [speeds.ratio(p, BP, AUTO) for p in speeds.problems]
        return Outcome(
            [
                f"auto takes {np.min(times):.0f} to {np.max(times):.0f} microseconds, its "
                f"certificate included, and is {np.min(faster):.1f} to {np.max(faster):.1f} times "
                "as fast as belief propagation at every error."
            ],
            [ratio_table(speeds), time_table(speeds), reason_table(speeds)],
            [
                Picture(
                    "speed",
                    "CPU time until all marginals are within an error (top; errors get smaller to "
                    "the right), and how many times as fast as belief propagation (bottom; above "
                    "1 is faster).",
                    speed_figure(speeds),
                )
            ],
            comparisons(speeds),
            claims(speeds),
            {
                "largest certified gap of log Z at the true marginals": max(
                    graph["truth_gap"] for graphs in found.values() for graph in graphs
                )
            },
        )


def timed(setting: Setting, problem: str) -> list[dict[str, Any]]:
    """Times of all methods on all graphs of a problem."""
    kind, size = problem.split("-")
    graphs, seed = setting["graphs"], setting["seed"]
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # limits are what is compared
        if kind == "rand":
            tables = random_graphs(int(size), graphs, seed)
        else:
            tables = topic_graphs(
                int(size), graphs, seed, setting["documents"], setting["topic_scale"]
            )
        structure = BipartiteMatching(tables[0].shape, 1.0)
        return [MethodTimes(table, structure, setting).run() for table in tables]


# ---------------------------------------------------------------------- what was measured
class Speeds:
    """Times by problem, method and error.

    Parameters
    ----------
    setting : with "problems", "levels", "graphs" and "steps"
    found : by problem, a list over graphs of what `MethodTimes.run` returns
    """

    def __init__(self, setting: Mapping[str, Any], found: Mapping[str, Any]):
        self.setting = setting
        self.found = found
        self.problems: list[str] = list(setting["problems"])
        self.levels: list[float] = list(setting["levels"])
        self.head = ["problem", "method", *(f"{level:g}" for level in self.levels)]

    def of(self, problem: str, method: str, key: str = "microseconds") -> NDArray[Any]:
        """What was found for each level and graph, shape (n_levels, n_graphs)."""
        graphs = self.found[problem]
        return np.array([[c[key] for c in g["cells"] if c["method"] == method] for g in graphs]).T

    def microseconds(self, problem: str, method: str) -> Floats:
        """Means over graphs, shape (n_levels,)."""
        return np.asarray(self.of(problem, method).mean(axis=1))

    def ratio(self, problem: str, one: str, other: str) -> Floats:
        """Mean time of `one` / mean time of `other`, shape (n_levels,)."""
        return self.microseconds(problem, one) / self.microseconds(problem, other)

    def reached(self, problem: str, method: str) -> list[bool]:
        """Whether all graphs reached each level."""
        return [bool(row.all()) for row in self.of(problem, method, "reached")]

    def piece(self, problem: str, name: str) -> float:
        """Microseconds of a "sweep", a "step" or an "exponential" of all scores, a mean."""
        return float(np.mean([graph["pieces"][name] for graph in self.found[problem]]))


# ---------------------------------------------------------------------- beside the paper
def published(problem: str, levels: Sequence[float]) -> list[tuple[float, float]]:
    """Ratios and the value of their last digit, for each level; none if they are not known."""
    if problem not in PUBLISHED or tuple(levels) != LEVELS:
        return []
    return [(float(text), 10.0 ** -len(text.split(".")[1])) for text in PUBLISHED[problem]]


def comparisons(speeds: Speeds) -> list[Comparison]:
    """Speedups over BP beside the published ones, of Frank-Wolfe and of auto.

    Not better or worse: ratios to another program than the published one. None if there are fewer
    graphs than the published means are taken over.
    """
    if speeds.setting["graphs"] < 10:
        return []
    found = []
    for method, text in ((FW, "time of FW"), (AUTO, "time of auto (published: of FW)")):
        for problem in speeds.problems:
            ours, reached = speeds.ratio(problem, BP, method), speeds.reached(problem, method)
            by_graph = speeds.of(problem, BP) / speeds.of(problem, method)
            for k, (value, digit) in enumerate(published(problem, speeds.levels)):
                what = f"{problem}, error {speeds.levels[k]:g}: time of BP / {text}"
                spread = float(by_graph[k].min()), float(by_graph[k].max())
                note = "" if reached[k] else "not reached on all graphs: an upper bound"
                found.append(
                    Comparison(what, value, float(ours[k]), "none", digit, spread, note=note)
                )
    return found


def claims(speeds: Speeds) -> list[Claim]:
    levels = speeds.levels
    ratios = {problem: speeds.ratio(problem, BP, FW) for problem in speeds.problems}
    first = {problem: values[0] for problem, values in ratios.items()}
    told = ", ".join(f"{problem} {v[0]:.2g} to {v[-1]:.2g}" for problem, v in ratios.items())
    return [
        Claim(
            f"Frank-Wolfe is faster than BP to an error of {levels[0]:g}",
            bool(min(first.values()) > 1.0),
            f"time of BP / time of FW: {listed(first, '.2g')}",
        ),
        Claim(
            "Frank-Wolfe loses ground to BP as errors get smaller",
            all(values[-1] < values[0] for values in ratios.values()),
            f"time of BP / time of FW from {levels[0]:g} to {levels[-1]:g}: {told}",
        ),
        auto_is_fastest(speeds, "BP and FW", (BP, FW)),
        auto_is_fastest(speeds, "BP's compiled part alone", (KERNEL,)),
    ]


def auto_is_fastest(speeds: Speeds, name: str, rivals: Sequence[str]) -> Claim:
    """Only if auto reaches every error."""
    worst = max(
        (float(value), f"{problem} at {level:g}, {rival}")
        for problem in speeds.problems
        for rival in rivals
        for level, value in zip(speeds.levels, speeds.ratio(problem, AUTO, rival), strict=True)
    )
    reached = all(all(speeds.reached(problem, AUTO)) for problem in speeds.problems)
    return Claim(
        f"auto, with its certificate, is at least as fast as {name} at every error",
        reached and worst[0] <= 1.0,
        f"at most {worst[0]:.2f} times the time ({worst[1]})",
    )


# ---------------------------------------------------------------------- tables
def ratio_table(speeds: Speeds) -> Table:
    """How many times as fast as BP: published, and here."""
    rows: list[list[Any]] = []
    for problem in speeds.problems:
        known = published(problem, speeds.levels)
        if known:
            rows.append([problem, "FW, published", *(f"{value:g}" for value, _ in known)])
        for method in (FW, AUTO):
            values = [f"{value:.3g}" for value in speeds.ratio(problem, BP, method)]
            rows.append([problem, method, *bounded(values, speeds.reached(problem, method), "<")])
    title = "how many times as fast as BP, by the largest error of a marginal"
    return Table("ratios", title, speeds.head, rows)


def time_table(speeds: Speeds) -> Table:
    rows = []
    for problem in speeds.problems:
        for method in METHODS:
            times = [round(spent) for spent in speeds.microseconds(problem, method)]
            rows.append([problem, method, *bounded(times, speeds.reached(problem, method), ">")])
    title = f"CPU microseconds to reach an error, means of {speeds.setting['graphs']} graphs"
    return Table("microseconds", title, speeds.head, rows)


def bounded(values: Sequence[Any], reached: Sequence[bool], sign: str) -> list[Any]:
    """Values, those that are only bounds with a sign."""
    return [
        value if done else f"{sign}{value}" for value, done in zip(values, reached, strict=True)
    ]


def reason_table(speeds: Speeds) -> Table:
    """What decides the ratios: how many sweeps and steps, and what each one takes."""
    rows = []
    for problem in speeds.problems:
        limits = [np.median(speeds.of(problem, m, "limit"), axis=1) for m in (BP, FW)]
        counts = [", ".join(f"{limit:g}" for limit in row) for row in limits]
        pieces = [speeds.piece(problem, name) for name in ("sweep", "step", "exponential")]
        rows.append([problem, pieces[0], counts[0], pieces[1], counts[1], pieces[2]])
    levels = ", ".join(f"{level:g}" for level in speeds.levels)
    return Table(
        "reasons",
        f"microseconds of a sweep and of a step, how many reach {levels} (medians), and "
        "microseconds of np.exp of all scores",
        ["problem", "a sweep of BP", "sweeps", "a step of FW", "steps", "exponential"],
        rows,
    )


# ---------------------------------------------------------------------- the picture
def speed_figure(speeds: Speeds) -> Any:
    """Time to reach an error, and how many times as fast as BP; a column per problem."""
    levels = speeds.levels
    figure = new_figure(1.0 + 2.1 * len(speeds.problems), 6.4)
    grid = figure.subplots(2, len(speeds.problems), squeeze=False, sharex=True, sharey="row")
    for (top, bottom), problem in zip(grid.T, speeds.problems, strict=True):
        known = [value for value, _ in published(problem, levels)]
        bottom.axhline(1.0, color=GREY, linewidth=1.0, zorder=1)
        if known:
            bottom.plot(
                range(len(levels)), known, color=GREY, linestyle="-", linewidth=3.0, marker="o",
                markersize=7, markerfacecolor="white", label="FW, published",
            )  # fmt: skip
        for k, method in enumerate(METHODS):
            reached = speeds.reached(problem, method)
            plot_times(top, speeds.microseconds(problem, method), reached, method, k)
            if method in (FW, AUTO):
                plot_times(bottom, speeds.ratio(problem, BP, method), reached, method, k)
        clean_axes(top, problem)
        clean_axes(bottom)
        bottom.set_xlabel("largest error")
    for axes in grid.ravel():
        axes.set_yscale("log")
        axes.set_xticks(range(len(levels)), [f"{level:g}" for level in levels])
        axes.margins(x=0.12, y=0.14)
    grid[0, 0].set_ylabel("CPU microseconds")
    grid[1, 0].set_ylabel("times as fast as BP")
    handles: dict[str, Any] = {}
    for axes in grid.ravel():
        handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    order = sorted(handles, key=lambda label: label.endswith("not yet reached"))
    figure.legend(
        [handles[label] for label in order], order, frameon=False, fontsize=9.5,
        loc="outside lower center", ncols=max(1, int(figure.get_figwidth() / 1.8)),
    )  # fmt: skip
    return figure


def plot_times(axes: Any, times: ArrayLike, reached: Sequence[bool], label: str, k: int) -> None:
    """A line with a point per level; hollow where it is only a bound."""
    row, done = checked(times, reached)[0], np.asarray(reached, dtype=bool)
    places = np.arange(len(row))
    style = {"color": COLOURS[k], "marker": MARKERS[k], "markersize": 6.5, "zorder": 20 - k}
    axes.plot(places, row, color=COLOURS[k], linestyle=DASHES[k], linewidth=1.8, zorder=10 - k)
    axes.plot(
        places[done], row[done], linestyle="none", markeredgecolor="white", label=label, **style
    )
    if not done.all():
        axes.plot(
            places[~done], row[~done], linestyle="none", markerfacecolor="white",
            label=f"{label}, not yet reached", **style,
        )  # fmt: skip
