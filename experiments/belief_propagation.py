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

Every method runs with a range of limits. For each error (largest distance of a marginal from the
true Bethe one) the fastest limit that reaches it counts, graph by graph; times are then averaged.
Nobody knows this error beforehand: the gap that auto certifies is of log Z, and as loose as tol.
Times are CPU times of one thread, the least of several repetitions in which all methods take turns.
A structure is built once for all its graphs and is not counted. Where Frank-Wolfe does not reach
an error within its steps on all graphs, ">" shows the mean of what was spent.

The ratios differ from the published ones for reasons that have nothing to do with the two ideas.
This BP is compiled, sweeps over rows and columns one after the other, and converges in a handful
of sweeps on flat problems, where even its first one is accurate to 1e-3. Most of its time goes into
what comes before and after the sweeps; Frank-Wolfe's decoder costs more than a sweep, and it is
called once a step. Flat marginals are about 1/n, so the start itself is within .05 from n = 20 on
and within .01 at n = 100.

    python -m experiments.belief_propagation --out DIR
    python -m experiments.belief_propagation --quick
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from experiments.reporting import show_progress, verdict, writable_folder, write_csv
from mlestruct.datasets.topics import make_topic_counts, topic_similarity
from mlestruct.inference._belief_kernels import propagate
from mlestruct.inference.belief_propagation import belief_propagation
from mlestruct.inference.frank_wolfe_marginals import frank_wolfe_marginals
from mlestruct.structures import BipartiteMatching

SIZES = (20, 50, 75, 100)
N_TOPICS = 20
GRAPHS = 10
SEED = 2009  # of the graphs
LEVELS = (0.05, 0.01, 0.005, 0.001)
STEPS = 4096  # of Frank-Wolfe at most
SWEEPS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256)
TOLS = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10)
TRUTH_TOL = 1e-12
REPETITIONS = 9
BATCH = 1e-3  # seconds that are measured at least, short calls being repeated
LONG = 0.05  # seconds from which on a call is measured less often
FEW = 2
SCALE = 10.0  # of the similarity of topics
LDA_ROUNDS = 10

FW, BP, AUTO = "FW", "BP", "auto"
KERNEL = "BP, compiled part"
METHODS = (FW, BP, AUTO, KERNEL)
RIVALS = (BP, FW, KERNEL)

# Time of BP / time of FW.
PUBLISHED = {
    "rand-20": (3.37, 1.56, 1.12, 0.25),
    "rand-50": (18.0, 11.76, 5.18, 0.91),
    "rand-75": (23.87, 23.87, 9.8, 1.5),
    "rand-100": (19.24, 19.24, 10.6, 1.75),
    "lda-20": (1.6, 0.61, 0.34, 0.10),
}


@dataclass(frozen=True)
class Reached:
    """The fastest way to an error on one graph; if it is not reached, what was spent on it."""

    problem: str
    graph: int
    method: str
    level: float
    reached: bool
    setting: float
    microseconds: float


@dataclass(frozen=True)
class Speeds:
    """What `run` finds.

    truth_gap : the largest certified gap of log Z_rho at what is taken as the true marginals
    """

    problems: list[str]
    graphs: int
    levels: list[float]
    steps: int
    truth_gap: float
    cells: list[Reached]

    def of(self, problem: str, method: str, level: float) -> list[Reached]:
        """One for each graph."""
        key = problem, method, level
        return [cell for cell in self.cells if (cell.problem, cell.method, cell.level) == key]

    def microseconds(self, problem: str, method: str) -> np.ndarray:
        """Means over graphs, shape (n_levels,)."""
        return np.array(
            [np.mean([c.microseconds for c in self.of(problem, method, x)]) for x in self.levels]
        )

    def reached(self, problem: str, method: str) -> list[bool]:
        """Whether all graphs reached each level."""
        return [all(c.reached for c in self.of(problem, method, x)) for x in self.levels]


# ---------------------------------------------------------------------- problems
def random_graphs(n: int, graphs: int) -> list[np.ndarray]:
    return [np.random.default_rng([SEED, n, graph]).random((n, n)) for graph in range(graphs)]


def topic_graphs(n_topics: int, graphs: int, n_documents: int = 400) -> list[np.ndarray]:
    """Scores of aligning the topics of two fits, each pair of fits from starts of its own."""
    counts, _ = make_topic_counts(n_documents, n_topics=n_topics, random_state=SEED)

    def topics(start: int) -> np.ndarray:
        model = LatentDirichletAllocation(
            n_topics, learning_method="batch", max_iter=LDA_ROUNDS, random_state=start
        )
        return model.fit(counts).components_

    return [
        SCALE * topic_similarity(topics(2 * graph), topics(2 * graph + 1))
        for graph in range(graphs)
    ]


# ---------------------------------------------------------------------- time
def cpu_seconds(calls: Mapping[Hashable, Callable[[], Any]], repetitions: int) -> dict[Any, float]:
    """The least time of each call, all of them taking turns; their first round is a warm-up."""
    best: dict[Any, float] = {}
    number: dict[Any, int] = {}
    for key, call in calls.items():
        began = time.process_time()
        call()
        best[key] = time.process_time() - began
        number[key] = max(1, round(BATCH / max(best[key], 1e-6)))
    for repetition in range(repetitions):
        for key, call in calls.items():
            if repetition >= FEW and best[key] >= LONG:
                continue
            began = time.process_time()
            for _ in range(number[key]):
                call()
            best[key] = min(best[key], (time.process_time() - began) / number[key])
    return best


def step_counts(most: int) -> list[int]:
    """0, 1, 2, ... in a geometric grid up to `most`."""
    grid = np.unique(np.round(np.sqrt(2.0) ** np.arange(2 * np.log2(most) + 1)).astype(int))
    return [0, *(int(k) for k in grid[grid < most]), most]


def frank_wolfe_errors(
    structure: Any, scores: np.ndarray, truth: np.ndarray, levels: Sequence[float], most: int
) -> dict[int, float]:
    """Errors after the step counts of the grid, until the smallest level is reached.

    Fewer steps take the same way, so one run shows the errors of all limits.
    """
    grid = set(step_counts(most))
    errors: dict[int, float] = {}

    def watch(steps: int, tau: np.ndarray) -> bool:
        if steps in grid:
            errors[steps] = float(np.abs(tau - truth).max())
            return errors[steps] <= min(levels)
        return False

    frank_wolfe_marginals(structure, scores, structure.interior(), 0.0, most, watch)
    return errors


def compiled_part(table: np.ndarray, sweeps: int) -> np.ndarray:
    """Beliefs of `belief_propagation`, without what it does around its kernel."""
    must = np.zeros(table.shape[0], dtype=bool)  # nobody stays single
    beliefs = np.empty_like(table)
    messages = np.zeros((2, *table.shape))
    propagate(table, 1.0, must, must, messages, False, 0.0, sweeps, 0.0, beliefs)
    return beliefs


def first_reaching(errors: Mapping[int, float], levels: Sequence[float]) -> dict[int, float]:
    """The fewest steps for each level, and the most there are if some level is out of reach."""
    kept = {}
    for level in levels:
        steps = next((k for k, error in errors.items() if error <= level), max(errors))
        kept[steps] = errors[steps]
    return kept


def one_graph(
    problem: str,
    graph: int,
    structure: Any,
    table: np.ndarray,
    levels: Sequence[float],
    most: int,
    repetitions: int,
) -> tuple[list[Reached], float]:
    """The fastest setting of every method for every level, and the gap of the true marginals."""
    scores = np.ascontiguousarray(table).ravel()
    found = structure.marginals(scores, None, TRUTH_TOL)
    truth = found.tau
    errors: dict[tuple[str, float], float] = {}
    calls: dict[tuple[str, float], Callable[[], Any]] = {}
    steps = frank_wolfe_errors(structure, scores, truth, levels, most)
    for k, error in first_reaching(steps, levels).items():
        errors[FW, k] = error
        calls[FW, k] = lambda k=k: frank_wolfe_marginals(
            structure, scores, structure.interior(), 0.0, k
        )
    for k in SWEEPS:
        calls[BP, k] = lambda k=k: belief_propagation(table, 1.0, max_sweeps=k, tol=0.0)
        errors[BP, k] = float(np.abs(calls[BP, k]().beliefs.ravel() - truth).max())
        calls[KERNEL, k] = lambda k=k: compiled_part(table, k)
        errors[KERNEL, k] = errors[BP, k]  # the same beliefs
        if errors[BP, k] <= min(levels):
            break  # more sweeps take more time
    for tol in TOLS:
        calls[AUTO, tol] = lambda tol=tol: structure.marginals(scores, None, tol)
        errors[AUTO, tol] = float(np.abs(calls[AUTO, tol]().tau - truth).max())
    seconds = cpu_seconds(calls, repetitions)
    cells = []
    for level in levels:
        for method in METHODS:
            settings = [key for key in calls if key[0] == method]
            good = [key for key in settings if errors[key] <= level]
            key = min(good, key=seconds.__getitem__) if good else max(
                settings, key=seconds.__getitem__
            )  # fmt: skip
            cells.append(
                Reached(problem, graph, method, level, bool(good), key[1], 1e6 * seconds[key])
            )
    return cells, found.gap


def run(
    sizes: Sequence[int] = SIZES,
    n_topics: int = N_TOPICS,
    graphs: int = GRAPHS,
    levels: Sequence[float] = LEVELS,
    steps: int = STEPS,
    repetitions: int = REPETITIONS,
    n_documents: int = 400,
    progress: Callable[[str], Any] | None = None,
) -> Speeds:
    """Times of all methods on all problems."""
    cells: list[Reached] = []
    gap = 0.0
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        problems = {f"rand-{n}": random_graphs(n, graphs) for n in sizes}
        problems[f"lda-{n_topics}"] = topic_graphs(n_topics, graphs, n_documents)
        for problem, tables in problems.items():
            structure = BipartiteMatching(tables[0].shape, 1.0)
            for graph, table in enumerate(tables):
                found, left = one_graph(
                    problem, graph, structure, table, levels, steps, repetitions
                )
                cells += found
                gap = max(gap, left)
            if progress is not None:
                progress(f"{problem}: {graphs} graphs")
    return Speeds(list(problems), graphs, list(levels), steps, gap, cells)


# ---------------------------------------------------------------------- tables
def ratio(found: Speeds, problem: str, one: str, other: str) -> np.ndarray:
    """Mean time of `one` / mean time of `other`, shape (n_levels,)."""
    return found.microseconds(problem, one) / found.microseconds(problem, other)


def print_times(found: Speeds) -> None:
    print(f"CPU microseconds to reach an error, means of {found.graphs} graphs")
    print(f"(FW: at most {found.steps} steps; in brackets the median setting that was fastest:")
    print(" steps of FW, sweeps of BP, tol of auto)")
    print(f"  {'':<28}" + "".join(f"{level:>20g}" for level in found.levels))
    for problem in found.problems:
        for method in METHODS:
            cells = ""
            times, reached = found.microseconds(problem, method), found.reached(problem, method)
            for level, spent, done in zip(found.levels, times, reached, strict=True):
                setting = np.median([c.setting for c in found.of(problem, method, level)])
                shown = f"{spent:.0f}" if done else f">{spent:.0f}"
                cells += f"{f'{shown} [{setting:g}]':>20}"
            print(f"  {problem:<10}{method:<18}{cells}")
    missed = [
        f"{problem} at {level:g}: {sum(not c.reached for c in found.of(problem, method, level))} "
        f"graphs ({method})"
        for problem in found.problems
        for method in METHODS
        for level, done in zip(found.levels, found.reached(problem, method), strict=True)
        if not done
    ]
    print(f"  not reached: {'; '.join(missed) or 'none'}")
    print(f"  true marginals: certified gap of log Z at most {found.truth_gap:.1e}")


def print_ratios(found: Speeds) -> None:
    print("\ntime of BP / time of FW (above 1: FW is faster), and as published")
    print(f"  {'':<16}" + "".join(f"{level:>20g}" for level in found.levels))
    for problem in found.problems:
        published = PUBLISHED.get(problem) if tuple(found.levels) == LEVELS else None
        cells = ""
        values, reached = ratio(found, problem, BP, FW), found.reached(problem, FW)
        for k, (value, done) in enumerate(zip(values, reached, strict=True)):
            known = f"({published[k]:g})" if published else "(-)"
            shown = f"{value:.3g}" if done else f"<{value:.3g}"
            cells += f"{f'{shown} {known}':>20}"
        print(f"  {problem:<16}{cells}")
    for rival in RIVALS:
        print(f"\ntime of auto / time of {rival} (below 1: auto is faster)")
        for problem in found.problems:
            bound = ["" if done else "<" for done in found.reached(problem, rival)]
            values = ratio(found, problem, AUTO, rival)
            cells = "".join(f"{f'{b}{v:.3g}':>20}" for b, v in zip(bound, values, strict=True))
            print(f"  {problem:<16}{cells}")


def slower_cells(found: Speeds, rivals: Sequence[str]) -> list[str]:
    """Where auto is slower than another method, or does not get there."""
    out = []
    for problem in found.problems:
        for rival in rivals:
            values = ratio(found, problem, AUTO, rival)
            arrived = found.reached(problem, AUTO)
            out += [
                f"{problem} at {level:g}: {value:.2f} times {rival}'s time"
                for level, value, done in zip(found.levels, values, arrived, strict=True)
                if value > 1.0 or not done
            ]
    return out


def verdicts(found: Speeds) -> dict[str, bool]:
    print()
    held = {}
    for name, rivals in (("BP and FW", (BP, FW)), ("BP's compiled part alone", (KERNEL,))):
        slower = slower_cells(found, rivals)
        held[f"auto and {name}"] = verdict(
            f"auto, with its certificate, at least as fast as {name} in every cell",
            not slower,
            "not at " + "; ".join(slower) if slower else "",
        )
    return held


# ---------------------------------------------------------------------- files
def write(found: Speeds, held: dict[str, bool], folder: Path) -> None:
    """Numbers and the picture."""
    from mlestruct.plotting.inference import plot_speed

    rows = [list(asdict(cell).values()) for cell in found.cells]
    write_csv(folder / "belief_propagation.csv", list(Reached.__dataclass_fields__), rows)
    numbers = asdict(found) | {
        "means": {
            problem: {m: found.microseconds(problem, m).tolist() for m in METHODS}
            for problem in found.problems
        },
        "verdicts": held,
    }
    (folder / "belief_propagation.json").write_text(json.dumps(numbers, indent=1))
    known = tuple(found.levels) == LEVELS
    figure = plot_speed(
        found.levels,
        {p: {m: found.microseconds(p, m) for m in METHODS} for p in found.problems},
        {p: {m: found.reached(p, m) for m in METHODS} for p in found.problems},
        {p: ratio(found, p, BP, FW) for p in found.problems},
        {p: [not done for done in found.reached(p, FW)] for p in found.problems},
        {p: PUBLISHED[p] for p in found.problems if known and p in PUBLISHED},
    )
    figure.savefig(folder / "belief_propagation.png", dpi=150)
    print(f"\npicture and numbers: {folder}")


def main(arguments: list[str] | None = None) -> dict[str, bool]:
    parser = argparse.ArgumentParser(description="Speed of Frank-Wolfe and belief propagation")
    parser.add_argument("--graphs", type=int, default=GRAPHS, help="of each problem")
    parser.add_argument("--steps", type=int, default=STEPS, help="of Frank-Wolfe at most")
    parser.add_argument("--quick", action="store_true", help="few small graphs")
    parser.add_argument("--out", default="results/belief_propagation", help="folder of results")
    options = parser.parse_args(arguments)
    if options.graphs < 1 or options.steps < 1:
        parser.error("--graphs, --steps: at least 1")
    folder = writable_folder(parser, options.out)
    if options.quick:
        few, short = min(options.graphs, 2), min(options.steps, 64)
        found = run((8, 12), 6, few, LEVELS, short, 2, 60, show_progress)
    else:
        found = run(graphs=options.graphs, steps=options.steps, progress=show_progress)
    print_times(found)
    print_ratios(found)
    held = verdicts(found)
    write(found, held, folder)
    return held


if __name__ == "__main__":
    main()
