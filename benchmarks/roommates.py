"""Learning matchings within one group at the paper's size: two years of 2400 students, K = 200.

    python -m benchmarks.roommates                      # about ten minutes
    python -m benchmarks.roommates --quick              # 120 students, for a first look
    python -m benchmarks.record roommates               # the tables of docs/benchmarks.md

Fits run in a process of their own each, so that peak memory is theirs (with --quick in this one).
Kernels are compiled before anything is timed. Gaps are relative to max(1, |objective|). Compare
CPU seconds, as ratios within one run.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.record import power, show
from mlestruct import MatchingCRF
from mlestruct.algorithms.matching.odd_set_separation import provably_in_matching_polytope
from mlestruct.datasets import Campus, generate_campus, read_campus, write_campus
from mlestruct.learning import Block, BlockFrankWolfe, DualProblem, Stopping
from mlestruct.structures import LocalMatching, MatchingPolytope

ALPHA = 100.0
LEVELS = (1e-2, 1e-3, 1e-6)
MEMORY_LIMIT = 2.0  # GB
FITS = (  # rho, polytope, n_jobs
    (1.0, "local", 1),
    (1.0, "local", 2),
    (0.95, "local", 1),
    (0.95, "local", 2),
    (0.95, "exact", 1),
    (0.95, "exact", 2),
)
PASSES = 20  # of bcfw before its iterate is decoded
REPETITIONS = 5


def load(folder: str) -> tuple[list, list]:
    """Features and partners of the two years in a folder."""
    campus = read_campus(folder)
    return [campus.features(year) for year in campus.years], [y.partner for y in campus.years]


def peak_memory() -> float:
    """GB that this process has had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9  # Linux: kB


@cache
def warm_up() -> None:
    """Compile (or load) every kernel, for small groups and for larger ones."""
    campus = generate_campus([180, 20], random_state=0)
    for year in campus.years:
        X, Y = [campus.features(year)], [year.partner]
        for polytope in ("local", "exact"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for solver in ("auto", "lbfgs", "bcfw"):
                    MatchingCRF(100.0, 0.95, polytope, solver, max_iter=3).fit(X, Y)


class Timed:
    """Adds up the CPU time and the number of decodes; put before the class of an output space."""

    spent = 0.0
    calls = 0

    def decode(self, *args: Any, **kwargs: Any) -> Any:
        before = time.process_time()
        found = super().decode(*args, **kwargs)  # type: ignore[misc]
        self.spent += time.process_time() - before
        self.calls += 1
        return found


class TimedLocal(Timed, LocalMatching):
    """Fractional decoding."""


class TimedExact(Timed, MatchingPolytope):
    """Blossom decoding."""


def dual_problem(X: list, Y: list, rho: float, polytope: str) -> DualProblem:
    kind = {"local": TimedLocal, "exact": TimedExact}[polytope]
    blocks = []
    for features, partner in zip(X, Y, strict=True):
        structure = kind(features.shape[0], rho)
        blocks.append(Block(structure, features, structure.encode(partner)))
    return DualProblem(blocks, ALPHA)


# ---------------------------------------------------------------------- fits, one by one
def measure(folder: str, setting: dict[str, Any]) -> dict[str, Any]:
    """One fit of `setting` in this process."""
    with threadpool_limits(limits=1, user_api="blas"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warm_up()
        run = {"auto": measure_auto, "bcfw": measure_bcfw}[setting["solver"]]
        return {**setting, **run(*load(folder), setting), "memory": peak_memory()}


def measure_auto(X: list, Y: list, setting: dict[str, Any]) -> dict[str, Any]:
    """Wall and CPU seconds to every level, from one fit to the last of them."""
    rows: list[tuple[float, float, float]] = []
    began = time.process_time()

    def note(progress: Any) -> bool:
        spent = time.process_time() - began
        rows.append((progress.seconds, spent, progress.gap / max(1.0, abs(progress.dual))))
        return spent >= setting["budget"]

    model = MatchingCRF(
        ALPHA, setting["rho"], setting["polytope"], tol=LEVELS[-1], callback=note,
        n_jobs=setting["n_jobs"],
    )  # fmt: skip
    before = time.perf_counter()
    model.fit(X, Y)
    return {
        "name": model.solver_,
        "reached": [next((row[:2] for row in rows if row[2] <= level), None) for level in LEVELS],
        "gap": rows[-1][2],
        "seconds": time.perf_counter() - before,
        "calls": model.n_oracle_calls_,
        "optimum": model.objective_,
        "theta": model.coef_.tolist(),
    }


def measure_bcfw(X: list, Y: list, setting: dict[str, Any]) -> dict[str, Any]:
    """What a budget of CPU seconds buys (it is looked at with every certificate)."""
    problem = dual_problem(X, Y, setting["rho"], setting["polytope"])
    rows: list[tuple[float, float, float]] = []
    began = time.process_time()

    def note(progress: Any) -> bool:
        rows.append((time.process_time() - began, progress.dual, progress.gap))
        return rows[-1][0] >= setting["budget"]

    found = BlockFrankWolfe().solve(
        problem, Stopping(1e-9, 10**9, callback=note), random_state=np.random.default_rng(0)
    )
    spent = sum(block.structure.spent for block in problem.blocks)  # type: ignore[attr-defined]
    return {
        "calls": sum(block.structure.calls for block in problem.blocks),  # type: ignore[attr-defined]
        "gap": found.gap / max(1.0, abs(found.objective)),
        "share": spent / rows[-1][0],
        "cpu": rows[-1][0],
        "history": rows,  # CPU seconds, dual value, gap
    }


def measured(folder: str, setting: dict[str, Any], fresh: bool) -> dict[str, Any]:
    """The same, in a process of its own if `fresh`."""
    if not fresh:
        return measure(folder, setting)
    code = (
        "import json, sys; import benchmarks.roommates as b; "
        "print(json.dumps(b.measure(sys.argv[1], json.loads(sys.argv[2]))))"
    )
    command = [sys.executable, "-c", code, folder, json.dumps(setting)]
    finished = subprocess.run(command, capture_output=True, text=True)
    if finished.returncode:
        raise RuntimeError(finished.stderr)
    return json.loads(finished.stdout)


# ---------------------------------------------------------------------- tables
def compare_fits(folder: str, budget: float, fresh: bool) -> list[dict[str, Any]]:
    """Our fits: seconds and CPU seconds to every level."""
    found, rows = [], []
    for rho, polytope, n_jobs in FITS:
        setting = {"solver": "auto", "rho": rho, "polytope": polytope, "n_jobs": n_jobs}
        one = measured(folder, setting | {"budget": budget}, fresh)
        print(f"rho {rho:g}, {polytope}, {n_jobs} jobs: {one['seconds']:.1f} s, {one['name']}")
        reached = [(None, None) if moment is None else moment for moment in one["reached"]]
        walls, spent = zip(*reached, strict=True)
        rows.append([f"{rho:g}", polytope, n_jobs, *walls, *spent, one["calls"], one["memory"]])
        found.append(one)
    levels = [power(level) for level in LEVELS]
    show(
        f"`auto`, alpha = {ALPHA:g}: seconds and CPU seconds to a certified relative gap, or "
        f"\u2013 if not within {budget:g}",
        ["rho", "polytope", "jobs", *(f"s to {level}" for level in levels),
         *(f"CPU s to {level}" for level in levels), "oracle calls", "GB"],
        rows,
    )  # fmt: skip
    return found


def same_optimum(folder: str, fit: dict[str, Any]) -> bool:
    """Whether the optimum of the local polytope is proven to be one of the exact polytope, too.

    It is if its marginals are mixtures of matchings.
    """
    X, _ = load(folder)
    for features in X:
        scores = features.scores(np.array(fit["theta"]))
        structure = LocalMatching(features.shape[0], fit["rho"])
        found = structure.marginals(scores, None, 1e-4)
        graph = structure.graph
        if not provably_in_matching_polytope(graph.ptr, graph.col, graph.components, found.tau):
            return False
    return True


def true_gap_below(one: dict[str, Any], level: float, optimum: float) -> float | None:
    """CPU seconds until the dual value was within a relative `level` of the optimum."""
    for seconds, dual, _ in one["history"]:
        if dual - optimum <= level * max(1.0, abs(optimum)):
            return seconds
    return None


def certified_gap_below(one: dict[str, Any], level: float) -> float | None:
    """CPU seconds until that was known."""
    for seconds, dual, gap in one["history"]:
        if gap <= level * max(1.0, abs(dual)):
            return seconds
    return None


def compare_bcfw(folder: str, budget: float, fresh: bool, optimum: float) -> list[dict[str, Any]]:
    """Block-coordinate Frank-Wolfe on both polytopes, for a fixed time each."""
    found, rows = [], []
    for polytope in ("local", "exact"):
        setting = {"solver": "bcfw", "rho": 0.95, "polytope": polytope, "budget": budget}
        one = measured(folder, setting, fresh)
        one["true_gap"] = (one["history"][-1][1] - optimum) / max(1.0, abs(optimum))
        one["certified"] = certified_gap_below(one, LEVELS[0])
        one["true"] = true_gap_below(one, LEVELS[0], optimum)
        keys = ("calls", "cpu", "share", "gap", "true_gap", "certified", "true", "memory")
        rows.append([polytope, *(one[key] for key in keys)])
        found.append(one)
    show(
        f"`bcfw`, rho = .95, for {budget:g} CPU seconds; gaps are relative, true ones to the "
        "optimum of `auto`",
        ["polytope", "decodes", "CPU s", "share of the decoder", "certified gap", "true gap",
         "CPU s to a certified 1e-2", "to a true 1e-2", "GB"],
        rows,
    )  # fmt: skip
    return found


# ---------------------------------------------------------------------- decoders
def occurring_scores(X: list, Y: list, theta: np.ndarray) -> dict[str, tuple[Any, Any]]:
    """Scores as decoders meet them, each with similar ones that came before."""
    problem = dual_problem(X, Y, 0.95, "local")
    rng = np.random.default_rng(0)
    solver = BlockFrankWolfe()
    before = solver.solve(problem, Stopping(1e-9, PASSES), random_state=rng).state
    directions = [_direction(problem, before)]
    after = solver.solve(problem, Stopping(1e-9, 1), warm=before, random_state=rng).state
    directions.append(_direction(problem, after))
    return {
        "fitted": (X[0].scores(theta), X[0].scores(0.98 * theta)),
        f"bcfw, pass {PASSES + 1}": (directions[1], directions[0]),
    }


def _direction(problem: DualProblem, state: Any) -> np.ndarray:
    """What block-coordinate Frank-Wolfe decodes next, in the first block."""
    block = problem.blocks[0]
    scores = block.scores(problem.theta(state.r))
    return scores + block.structure.entropy_gradient(state.tau[0])


def least_milliseconds(function: Any, repetitions: int = REPETITIONS) -> float:
    found = []
    for _ in range(repetitions):
        start = time.process_time()
        function()
        found.append(time.process_time() - start)
    return 1e3 * min(found)


def compare_decoders(folder: str, theta: np.ndarray) -> None:
    """Cold, and warm from the prices of similar scores."""
    X, Y = load(folder)
    n = X[0].shape[0]
    rows = []
    for name, (scores, similar) in occurring_scores(X, Y, theta).items():
        for kind, structure in (("fractional", LocalMatching(n)), ("true", MatchingPolytope(n))):
            prices = structure.decode(similar).prices
            best = structure.decode(scores)
            halves = int((best.vertex.values == 0.5).sum())  # as many as nodes on odd cycles
            cold = least_milliseconds(lambda: structure.decode(scores))  # noqa: B023
            warm = least_milliseconds(lambda: structure.decode(scores, prices))  # noqa: B023
            rows.append([name, kind, cold, warm, halves])
    show(
        f"Decoding {n} nodes, CPU milliseconds, least of {REPETITIONS}; warm: from the prices of "
        "similar scores",
        ["scores", "matching", "cold", "warm", "nodes on odd cycles"],
        rows,
    )


# ---------------------------------------------------------------------- verdicts
def verdicts(fits: list[dict[str, Any]], others: list[dict[str, Any]]) -> dict[str, bool]:
    local = [fit for fit in fits if fit["polytope"] == "local"]
    ours = next(fit for fit in local if fit["rho"] == 0.95 and fit["n_jobs"] == 1)
    most = max(one["memory"] for one in [*fits, *others])
    fine = {"memory": most <= MEMORY_LIMIT}
    print(f"memory at most {MEMORY_LIMIT:g} GB: {_yes(fine['memory'])} ({most:.2f} GB)")
    mine = ours["reached"][0]
    first = [t for one in others for t in (one["certified"], one["true"]) if t is not None]
    theirs = min(first, default=min(one["cpu"] for one in others))
    fine["sooner"] = mine is not None and mine[1] < theirs
    bound, verb = ("", "") if first else ("at least ", "not within ")
    ratio = "" if mine is None else f" ({bound}{theirs / mine[1]:.1f}x)"
    if mine is not None:
        print(f"CPU seconds to 1e-2: auto {mine[1]:.2f}, bcfw {verb}{theirs:.2f}")
    print(f"auto certain to 1e-2 sooner than bcfw comes so close: {_yes(fine['sooner'])}{ratio}")
    return fine


def _yes(holds: bool) -> str:
    return "yes" if holds else "NO"


def run(campus: Campus, budget: float, fresh: bool) -> dict[str, bool]:
    with tempfile.TemporaryDirectory() as folder:
        write_campus(campus, Path(folder))
        sizes = ", ".join(str(len(year.students)) for year in campus.years)
        print(f"years of {sizes} students, K = {campus.features(campus.years[0]).n_features}")
        fits = compare_fits(folder, budget, fresh)
        ours = next(f for f in fits if (f["rho"], f["polytope"]) == (0.95, "local"))
        same = same_optimum(folder, ours)
        print(f"the local optimum is proven to be that of the exact polytope: {_yes(same)}")
        others = compare_bcfw(folder, budget, fresh, ours["optimum"])
        compare_decoders(folder, np.array(ours["theta"]))
        return verdicts(fits, others)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Benchmark of matchings within one group")
    parser.add_argument("--quick", action="store_true", help="120 students, 1 CPU s for each")
    parser.add_argument("--students", type=int, default=2400, help="in each of two years")
    parser.add_argument("--budget", type=float, default=60.0, help="CPU seconds for each method")
    options = parser.parse_args(arguments)
    if options.quick:
        parser.set_defaults(students=120, budget=1.0)
        options = parser.parse_args(arguments)
    campus = generate_campus(options.students, 2, random_state=0)
    fine = run(campus, options.budget, fresh=not options.quick)
    return 0 if all(fine.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
