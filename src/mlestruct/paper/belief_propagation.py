"""Speed of Frank-Wolfe and belief propagation at equal error (the paper's table "speedup over BP").

Marginals at rho = 1 of complete graphs with weights unif[0, 1] (rand-n), and of topics of two runs
of latent Dirichlet allocation that are to be aligned (lda-20): two fits of scikit-learn's
LatentDirichletAllocation from different starts on the same generated text, where the score of a
pair of topics is 10 times the cosine of their words' weights. At this scale some topics are
matched for certain and others are shared between several, so that marginals are neither flat nor
settled.

    FW    `frank_wolfe_marginals`, the plain one of the paper, with a limited number of steps;
          0 steps are its even start
    BP    `belief_propagation` with a limited number of sweeps and nothing else
    auto  `BipartiteMatching.marginals` at a given tol, with its certificate

and, so that checks of arguments do not decide small graphs, the compiled part of BP alone.

For each error (largest distance of a marginal from the true Bethe one) the fastest limit that
reaches it counts, graph by graph; times are then averaged. Nobody knows this error beforehand: the
gap that auto certifies is of log Z, and as loose as tol. A structure is built once for all its
graphs and is not counted. Where Frank-Wolfe does not reach an error within its steps on all
graphs, ">" shows the mean of what was spent.

Ratios depend on both programs, and the paper gives neither its times nor its topics. This BP is
compiled and sweeps over rows and columns one after the other; a step of Frank-Wolfe calls a
decoder. How many sweeps and steps are needed and what each one takes is measured, too. Flat
marginals are about 1/n, so Frank-Wolfe's start itself is within .05 from n = 20 on and within .01
at n = 100.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from ..structures import BipartiteMatching
from .belief_speeds import Speeds, comparisons, counted, published
from .belief_timing import AUTO, BP, FW, KERNEL, METHODS, Race, random_graphs, topic_graphs
from .contract import Experiment, Outcome, Part, Picture, Setting, Table, Verdict
from .figures.inference import plot_speed


class BeliefPropagation(Experiment):
    name: ClassVar[str] = "belief-propagation"
    title: ClassVar[str] = "Time to accurate marginals: Frank-Wolfe, belief propagation and ours"
    place: ClassVar[str] = "appendix, table of Frank-Wolfe's speedup over BP"

    def setting(self, quick: bool) -> Setting:
        sweeps = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256]
        tols = [10.0, 3.0, 1.0, 0.3, 0.1, 0.03, *(10.0**-k for k in range(2, 11))]
        return {
            "data": "generated: weights unif[0, 1], as in the paper; topics of generated text",
            "seed": 2009,
            "problems": ["rand-20", "rand-50", "lda-20"]
            if quick
            else ["rand-20", "rand-50", "rand-75", "rand-100", "lda-20"],
            "graphs": 2 if quick else 10,
            "documents": 100 if quick else 400,
            "topic_scale": 10.0,
            "levels": [0.05, 0.01, 0.005, 0.001],
            "steps": 512 if quick else 131_072,
            "sweeps": sweeps,
            "tols": tols,
            "repetitions": 3 if quick else 9,
        }

    def parts(self, setting: Setting) -> Sequence[Part]:
        return [Part(problem, partial(timed, setting, problem)) for problem in setting["problems"]]

    def outcome(self, setting: Setting, found: Mapping[str, Any]) -> Outcome:
        speeds = Speeds(setting, found)
        return Outcome(
            summary(speeds),
            [ratio_table(speeds), time_table(speeds), reason_table(speeds), long_table(speeds)],
            [picture(speeds)],
            comparisons(speeds),
            verdicts(speeds),
            {
                "largest certified gap of log Z at the true marginals": speeds.truth_gap,
                "not reached": speeds.missed(),
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
        return [Race(table, structure, setting).run() for table in tables]


# ---------------------------------------------------------------------- what was found
def summary(speeds: Speeds) -> list[str]:
    times = [speeds.microseconds(p, AUTO) for p in speeds.problems]
    faster = [speeds.ratio(p, BP, AUTO) for p in speeds.problems]
    low, high = min(map(min, times)), max(map(max, times))
    least, most = min(map(min, faster)), max(map(max, faster))
    sweeps = [speeds.limit(p, BP, speeds.levels[-1]) for p in speeds.problems]
    pace = [speeds.piece(p, "step") / speeds.piece(p, "sweep") for p in speeds.problems]
    missed = speeds.missed()
    return [
        f"auto takes {low:.0f} to {high:.0f} microseconds, its certificate included, and is "
        f"{least:.1f} to {most:.1f} times as fast as belief propagation at every error.",
        f"{below_published(speeds)}BP reaches an error of {speeds.levels[-1]:g} in {min(sweeps):g} "
        f"to {max(sweeps):g} sweeps, and a step of Frank-Wolfe, with its MAP call, takes the time "
        f"of {min(pace):.0f} to {max(pace):.0f} sweeps.",
        f"Not reached within {speeds.setting['steps']} steps: {'; '.join(missed)}."
        if missed
        else "Every method reached every error on all graphs.",
    ]


def below_published(speeds: Speeds) -> str:
    """How often Frank-Wolfe's speedup is below the published one; nothing if none is known."""
    pairs = [
        (ours, value)
        for problem in speeds.problems
        for ours, (value, _) in zip(
            speeds.ratio(problem, BP, FW), published(problem, speeds.levels), strict=False
        )
    ]
    if not pairs:
        return ""
    below = sum(ours < value for ours, value in pairs)
    return (
        f"Frank-Wolfe's speedup over BP is below the published one at {below} of {len(pairs)} "
        "problems and errors: "
    )


def verdicts(speeds: Speeds) -> list[Verdict]:
    return [
        good_accuracy_quickly(speeds),
        slow_to_tight_errors(speeds),
        auto_is_fastest(speeds, "BP and FW", (BP, FW)),
        auto_is_fastest(speeds, "BP's compiled part alone", (KERNEL,)),
    ]


def good_accuracy_quickly(speeds: Speeds) -> Verdict:
    level = speeds.levels[0]
    ratios = {problem: speeds.ratio(problem, BP, FW)[0] for problem in speeds.problems}
    lost = [
        f"; on {problem} BP needs {counted(speeds.limit(problem, BP, level), 'sweep')} and "
        f"Frank-Wolfe {counted(speeds.limit(problem, FW, level), 'step')}"
        for problem, value in ratios.items()
        if not value > 1.0
    ]
    return Verdict(
        f"Frank-Wolfe is faster than BP to an error of {level:g}",
        not lost,
        "time of BP / time of FW: "
        + ", ".join(f"{problem} {value:.2g}" for problem, value in ratios.items())
        + "".join(lost),
    )


def slow_to_tight_errors(speeds: Speeds) -> Verdict:
    ratios = {problem: speeds.ratio(problem, BP, FW) for problem in speeds.problems}
    return Verdict(
        "Frank-Wolfe loses ground to BP as errors get smaller",
        all(values[-1] < values[0] for values in ratios.values()),
        f"time of BP / time of FW from {speeds.levels[0]:g} to {speeds.levels[-1]:g}: "
        + ", ".join(f"{problem} {v[0]:.2g} to {v[-1]:.2g}" for problem, v in ratios.items()),
    )


def auto_is_fastest(speeds: Speeds, name: str, rivals: Sequence[str]) -> Verdict:
    slower = [
        f"{problem} at {level:g}: {value:.2f} times {rival}'s time"
        for problem in speeds.problems
        for rival in rivals
        for level, value, done in zip(
            speeds.levels,
            speeds.ratio(problem, AUTO, rival),
            speeds.reached(problem, AUTO),
            strict=True,
        )
        if value > 1.0 or not done
    ]
    return Verdict(
        f"auto, with its certificate, is at least as fast as {name} at every error",
        not slower,
        "not on " + "; ".join(slower) if slower else "",
    )


# ---------------------------------------------------------------------- tables and the picture
def level_heads(speeds: Speeds) -> list[str]:
    return [f"{level:g}" for level in speeds.levels]


def ratio_table(speeds: Speeds) -> Table:
    """How many times as fast as BP: published, and here."""
    rows: list[list[Any]] = []
    for problem in speeds.problems:
        known = published(problem, speeds.levels)
        if known:
            rows.append([problem, "FW, published", *(f"{value:g}" for value, _ in known)])
        for method in (FW, AUTO):
            values, reached = speeds.ratio(problem, BP, method), speeds.reached(problem, method)
            shown = [f"{value:.3g}" for value in values]
            rows.append([problem, method, *bounded(shown, reached, "<")])
    return Table(
        "ratios",
        "how many times as fast as BP, by the largest error of a marginal",
        ["problem", "method", *level_heads(speeds)],
        rows,
    )


def time_table(speeds: Speeds) -> Table:
    rows = [
        [
            problem,
            method,
            *bounded(
                [round(spent) for spent in speeds.microseconds(problem, method)],
                speeds.reached(problem, method),
                ">",
            ),
        ]
        for problem in speeds.problems
        for method in METHODS
    ]
    return Table(
        "microseconds",
        f"CPU microseconds to reach an error, means of {speeds.setting['graphs']} graphs",
        ["problem", "method", *level_heads(speeds)],
        rows,
    )


def bounded(values: Sequence[Any], reached: Sequence[bool], sign: str) -> list[Any]:
    """Values, those that are only bounds with a sign."""
    return [
        value if done else f"{sign}{value}" for value, done in zip(values, reached, strict=True)
    ]


def reason_table(speeds: Speeds) -> Table:
    """What decides the ratios: how many sweeps and steps, and what each one takes."""
    rows = []
    for problem in speeds.problems:
        counts = [
            ", ".join(f"{speeds.limit(problem, method, level):g}" for level in speeds.levels)
            for method in (BP, FW)
        ]
        pieces = [speeds.piece(problem, name) for name in ("sweep", "step", "exponential")]
        rows.append([problem, pieces[0], counts[0], pieces[1], counts[1], pieces[2]])
    levels = ", ".join(level_heads(speeds))
    return Table(
        "reasons",
        f"microseconds of a sweep and of a step, how many reach {levels} (medians), and "
        "microseconds of np.exp of all scores",
        ["problem", "a sweep of BP", "sweeps", "a step of FW", "steps", "exponential"],
        rows,
    )


def long_table(speeds: Speeds) -> Table:
    rows = [
        [problem, graph, cell["method"], cell["level"], cell["reached"], cell["limit"],
         cell["microseconds"]]
        for problem in speeds.problems
        for graph, one in enumerate(speeds.found[problem])
        for cell in one["cells"]
    ]  # fmt: skip
    head = ["problem", "graph", "method", "error", "reached", "fastest limit", "microseconds"]
    return Table("times", "times of all graphs", head, rows, shown=False)


def picture(speeds: Speeds) -> Picture:
    known = {problem: published(problem, speeds.levels) for problem in speeds.problems}
    figure = plot_speed(
        speeds.levels,
        {p: {m: speeds.microseconds(p, m) for m in METHODS} for p in speeds.problems},
        {p: {m: speeds.reached(p, m) for m in METHODS} for p in speeds.problems},
        {p: {m: speeds.ratio(p, BP, m) for m in (FW, AUTO)} for p in speeds.problems},
        {p: [value for value, _ in pairs] for p, pairs in known.items() if pairs},
    )
    return Picture(
        "speed",
        "CPU time until all marginals are within an error (top; errors get smaller to the right), "
        "and how many times as fast as belief propagation (bottom; above 1 is faster).",
        figure,
    )
