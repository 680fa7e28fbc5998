"""Speed of Frank-Wolfe and belief propagation at equal error (the paper's table "speedup over BP").

Marginals at rho = 1 of complete graphs with weights unif[0, 1] (rand-n), and of topics of two runs
of latent Dirichlet allocation that are to be aligned (lda-20): two fits of scikit-learn's
LatentDirichletAllocation from different starts on the same generated text, where the score of a
pair of topics is 10 times the cosine of their words' weights, so that marginals are neither flat
nor 0 and 1.

    FW    `marginals(..., method="fw", variant="plain")` without its certificate, the paper's, with
          fixed steps or line searches and a limited number of them; 0 steps are its uniform start.
          Beside the published numbers is the faster of the two
    BP    `belief_propagation` with a limited number of sweeps and nothing else
    auto  `BipartiteMatching.marginals` at a given tol, with its certificate

For each error (largest distance of a marginal from the true Bethe one) the fastest limit that
reaches it counts, graph by graph; times are then averaged. Where Frank-Wolfe does not reach an
error within its steps on all graphs, ">" shows the mean of what was spent. Ratios depend on both
programs; how many sweeps and steps are needed is therefore told, too.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from ..structures import BipartiteMatching
from .belief_timing import (
    AUTO,
    BP,
    FIXED,
    METHODS,
    SEARCH,
    STEP_RULES,
    MethodTimes,
    random_graphs,
    topic_graphs,
)
from .contract import Claim, Comparison, Experiment, Outcome, Table, listed
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
    solvers = (
        "FW by marginals(method='fw', variant='plain'), steps 'fixed' and 'line_search'; BP is "
        "this library's, compiled, after Huang and Jebara (2009), not their program; auto by the "
        "marginal oracle. The topics are of generated text, not of the paper's."
    )

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
            "steps": 512 if quick else 8_192,
            "sweeps": sweeps,
            "tols": [10.0, 3.0, 1.0, 0.3, 0.1, 0.03, *(10.0**-k for k in range(2, 11))],
            "repetitions": 3 if quick else 9,
        }

    def parts(self, setting: Setting) -> Sequence[Part]:
        return [Part(problem, partial(timed, setting, problem)) for problem in setting["problems"]]

    def outcome(self, setting: Setting, found: Mapping[str, Any]) -> Outcome:
        speeds = Speeds(setting, found)
        return Outcome(
            [],
            [time_table(speeds), reason_table(speeds)],
            [],
            comparisons(speeds),
            claims(speeds),
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

    def speedup(self, problem: str) -> Floats:
        """Time of BP / time of the faster of both Frank-Wolfes, shape (n_levels,)."""
        return np.max([self.ratio(problem, BP, method) for method in STEP_RULES], axis=0)

    def reached(self, problem: str, method: str) -> list[bool]:
        """Whether all graphs reached each level."""
        return [bool(row.all()) for row in self.of(problem, method, "reached")]


# ---------------------------------------------------------------------- beside the paper
def published(problem: str, levels: Sequence[float]) -> list[tuple[float, float]]:
    """Ratios and the value of their last digit, for each level; none if they are not known."""
    if problem not in PUBLISHED or tuple(levels) != LEVELS:
        return []
    return [(float(text), 10.0 ** -len(text.split(".")[1])) for text in PUBLISHED[problem]]


def comparisons(speeds: Speeds) -> list[Comparison]:
    """Speedups of Frank-Wolfe over BP beside the published ones.

    Not better or worse: ratios to another program than the published one. None if there are fewer
    graphs than the published means are taken over.
    """
    if speeds.setting["graphs"] < 10:
        return []
    found = []
    for problem in speeds.problems:
        ours = speeds.speedup(problem)
        reached = np.any([speeds.reached(problem, method) for method in STEP_RULES], axis=0)
        by_graph = np.max(
            [speeds.of(problem, BP) / speeds.of(problem, method) for method in STEP_RULES], axis=0
        )
        for k, (value, digit) in enumerate(published(problem, speeds.levels)):
            what = f"{problem}, error {speeds.levels[k]:g}: time of BP / time of FW"
            spread = float(by_graph[k].min()), float(by_graph[k].max())
            note = "" if reached[k] else "not reached on all graphs: an upper bound"
            found.append(Comparison(what, value, float(ours[k]), "none", digit, spread, note=note))
    return found


def claims(speeds: Speeds) -> list[Claim]:
    levels = speeds.levels
    ratios = {problem: speeds.speedup(problem) for problem in speeds.problems}
    faster = sum(int((values > 1.0).sum()) for values in ratios.values())
    places = sum(map(len, ratios.values()))
    at = listed({problem: values[0] for problem, values in ratios.items()}, ".2g")
    told = ", ".join(f"{problem} {v[0]:.2g} to {v[-1]:.2g}" for problem, v in ratios.items())
    return [
        Claim(
            "Frank-Wolfe is faster than BP in most regimes (more than half of the table)",
            2 * faster > places,
            f"faster at {faster} of {places} places; time of BP / time of FW to an error of "
            f"{levels[0]:g}: {at}. A step has a MAP call; this BP is compiled and needs few sweeps",
        ),
        Claim(
            "Frank-Wolfe has good accuracy quickly and is slow to very tight tolerances: it loses "
            "ground to BP as errors get smaller",
            all(values[-1] < values[0] for values in ratios.values()),
            f"time of BP / time of FW from {levels[0]:g} to {levels[-1]:g}: {told}",
        ),
        auto_is_fastest(speeds),
    ]


def auto_is_fastest(speeds: Speeds) -> Claim:
    """Only if auto reaches every error."""
    worst = max(
        (float(value), f"{problem} at {level:g}, {rival}")
        for problem in speeds.problems
        for rival in (BP, FIXED, SEARCH)
        for level, value in zip(speeds.levels, speeds.ratio(problem, AUTO, rival), strict=True)
    )
    reached = all(all(speeds.reached(problem, AUTO)) for problem in speeds.problems)
    return Claim(
        "auto, with its certificate, is at least as fast as BP and FW at every error",
        reached and worst[0] <= 1.0,
        f"at most {worst[0]:.2f} times the time ({worst[1]})",
        "ours",
    )


# ---------------------------------------------------------------------- tables
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
    """What decides the ratios: how many sweeps and steps."""
    rows = []
    for problem in speeds.problems:
        limits = [np.median(speeds.of(problem, m, "limit"), axis=1) for m in (BP, FIXED, SEARCH)]
        rows.append([problem, *(", ".join(f"{limit:g}" for limit in row) for row in limits)])
    levels = ", ".join(f"{level:g}" for level in speeds.levels)
    title = f"how many sweeps and steps reach {levels} (medians)"
    return Table(
        "reasons", title, ["problem", "sweeps of BP", "fixed steps", "line searches"], rows
    )
