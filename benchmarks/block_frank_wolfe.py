"""Block-coordinate Frank-Wolfe: its time beside that of the bare decoder, and MAP calls it saves.

    python -m benchmarks.block_frank_wolfe            # everything, about two minutes
    python -m benchmarks.block_frank_wolfe --quick
    python -m benchmarks.record block_frank_wolfe     # the tables of docs/algorithms.md

Seconds are CPU seconds of one thread; compare them as ratios.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.record import power, show
from mlestruct import GridCRF
from mlestruct.algorithms.pairwise.qpbo import QPBO
from mlestruct.datasets import make_landmark_sequence, shape_context
from mlestruct.features import BinaryFeatures, DenseFeatures, TableFeatures
from mlestruct.learning import Block, BlockFrankWolfe, DualProblem, Stopping, merge_equal
from mlestruct.structures import BipartiteMatching
from mlestruct.structures.entropy import SeparableEntropy
from mlestruct.structures.labellings.binary import BinaryEntropy

from .grids import default_alpha, segmentation_data
from .matching import dual_problem, landmark_data

LEVEL = 1e-2  # relative gap up to which MAP calls are counted
WORKING_SETS = (0, 5, 100)


class Stopwatch:
    """CPU seconds spent inside some methods of classes, by part of the algorithm."""

    def __init__(self, parts: dict[str, list[tuple[type, str]]]):
        self.parts = parts
        self.spent = dict.fromkeys(parts, 0.0)

    def __enter__(self) -> Stopwatch:
        self._methods = [
            (part, owner, name, getattr(owner, name))
            for part, members in self.parts.items()
            for owner, name in members
        ]
        for part, owner, name, method in self._methods:
            setattr(owner, name, self._timed(part, method))
        return self

    def _timed(self, part: str, method: Any) -> Any:
        def timed(*args: Any, **kwargs: Any) -> Any:
            before = time.process_time()
            found = method(*args, **kwargs)
            self.spent[part] += time.process_time() - before
            return found

        return timed

    def __exit__(self, *_: object) -> None:
        for _, owner, name, method in self._methods:
            setattr(owner, name, method)

    def shares(self, total: float) -> dict[str, float]:
        """Shares of all parts, and of the rest."""
        parts = {**self.spent, "all else": total - sum(self.spent.values())}
        return {name: spent / total for name, spent in parts.items()}


MATCHING_PARTS: dict[str, list[tuple[type, str]]] = {
    "decoder": [(BipartiteMatching, "decode")],
    "scores and moments": [(TableFeatures, "scores"), (TableFeatures, "moments_at")],
    "entropy": [(SeparableEntropy, "add_gradient"), (SeparableEntropy, "line_search")],
    "bounds": [(BipartiteMatching, "price_bound"), (BipartiteMatching, "improved_prices")],
}
GRID_PARTS: dict[str, list[tuple[type, str]]] = {
    "max-flow": [(QPBO, "solve")],
    "scores and moments": [(BinaryFeatures, "scores"), (BinaryFeatures, "moments_at")],
    "entropy": [(BinaryEntropy, "add_gradient"), (BinaryEntropy, "line_search")],
}


def solve(problem: DualProblem, solver: BlockFrankWolfe, stopping: Stopping) -> Any:
    return solver.solve(problem, stopping, random_state=np.random.default_rng(0))


def timed_parts(
    problem: DualProblem, solver: BlockFrankWolfe, passes: int, parts: dict
) -> tuple[float, Stopwatch, Any]:
    """CPU seconds of a solve in all, of some of its parts, and its result."""
    with Stopwatch(parts) as watch:
        before = time.process_time()
        found = solve(problem, solver, Stopping(tol=1e-9, max_iter=passes))
        return time.process_time() - before, watch, found


# ---------------------------------------------------------------------- time beside the decoder's
def decoded_scores(problem: DualProblem, passes: int, every: int) -> list[np.ndarray]:
    """The scores of some of the solver's MAP calls."""
    kept: list[np.ndarray] = []
    calls = itertools.count()
    decode = BipartiteMatching.decode

    def keeping(self: BipartiteMatching, scores: np.ndarray, *args: Any, **kwargs: Any) -> Any:
        if next(calls) % every == 0:
            kept.append(scores.copy())
        return decode(self, scores, *args, **kwargs)

    setattr(BipartiteMatching, "decode", keeping)  # noqa: B010
    try:
        solve(problem, BlockFrankWolfe(), Stopping(tol=1e-9, max_iter=passes))
    finally:
        setattr(BipartiteMatching, "decode", decode)  # noqa: B010
    return kept


def seconds_from_scratch(structure: BipartiteMatching, tables: list[np.ndarray]) -> float:
    """CPU seconds of a MAP call by itself, the least of three rounds."""
    rounds = []
    for _ in range(3):
        before = time.process_time()
        for scores in tables:
            structure.decode(scores)
        rounds.append(time.process_time() - before)
    return min(rounds) / len(tables)


def compare_overhead(quick: bool) -> bool:
    """The solver's time for each MAP call, certificates included, against the bare decoder's.

    The bare decoder gets scores of the solver's calls, but no prices of earlier calls, from which
    the solver's own calls start.
    """
    passed, rows = True, []
    for n, n_samples, passes, allowed in ((30, 60, 60, 1.5), (400, 4, 10 if quick else 80, 1.5)):
        sequence = make_landmark_sequence(n, n_samples + 10, random_state=0)
        structure = BipartiteMatching((n, n), 1.0)
        described = [shape_context(frame) / 3.0 for frame in sequence.points]
        blocks = []
        for i in range(n_samples):
            features = TableFeatures(described[i], described[i + 10])
            blocks.append(Block(structure, features, structure.encode(np.arange(n))))
        problem = DualProblem(blocks, 100.0)
        bare = seconds_from_scratch(structure, decoded_scores(problem, passes, 10))
        runs = [timed_parts(problem, BlockFrankWolfe(), passes, {}) for _ in range(5)]
        total, _, found = min(runs, key=lambda run: run[0])
        each = total / found.oracle_calls
        passed &= each / bare <= allowed
        calls = found.oracle_calls
        # Measured apart: reading the clock takes a microsecond of each.
        total, watch, _ = timed_parts(problem, BlockFrankWolfe(), passes, MATCHING_PARTS)
        shares = watch.shares(total)
        rows.append([f"{n} x {n}", calls, 1e6 * each, 1e6 * bare, each / bare, *shares.values()])
    show(
        "Matchings: microseconds of CPU for a MAP call of the solver, certificates included, and "
        "for the decoder by itself; shares of its parts",
        ["size", "MAP calls", "solver", "decoder", "times", *shares],
        rows,
    )
    return passed


def maxflow_rows(
    n_images: int, shape: tuple[int, int], passes: int, seed: int = 0
) -> list[list[Any]]:
    """How much of the solver is max-flow on grids: rows of the table of `show_maxflow`."""
    X, Y = segmentation_data(n_images, shape, seed)
    alpha = default_alpha(n_images * shape[0] * shape[1])
    problem = GridCRF(alpha=alpha, fit_intercept=False).build_problem(X, Y)
    rows = []
    for step in ("fixed", "line_search"):
        solver = BlockFrankWolfe(step=step)
        solve(problem, solver, Stopping(max_iter=1))
        total, watch, found = timed_parts(problem, solver, passes, GRID_PARTS)
        calls = found.oracle_calls
        rows.append([f"{shape[0]} x {shape[1]}", step.replace("_", " "), calls,
                     1e3 * total / calls, *watch.shares(total).values()])  # fmt: skip
    return rows


def show_maxflow(rows: list[list[Any]]) -> None:
    show(
        "Images: milliseconds of CPU for a MAP call of the solver, and shares of its parts",
        ["size", "steps", "MAP calls", "ms", *GRID_PARTS, "all else"],
        rows,
    )


# ---------------------------------------------------------------------- MAP calls
def merged_block(n: int, n_samples: int) -> DualProblem:
    """Samples that share their features: one block, whose observation is their mean."""
    rng = np.random.default_rng(0)
    structure, features = BipartiteMatching((n, n), 0.9), DenseFeatures(rng.normal(size=(n * n, 6)))
    scores = features.scores(rng.normal(size=6))
    blocks = []
    for _ in range(n_samples):
        found = structure.decode(scores + rng.gumbel(size=n * n))
        blocks.append(Block(structure, features, found.vertex))
    return DualProblem(merge_equal(blocks), 1.0)


def problems(quick: bool) -> dict[str, DualProblem]:
    n_samples, side, alpha = (6, 12, 100.0) if quick else (20, 20, 1.0)
    X, Y, _, _ = landmark_data(n_samples)
    images = segmentation_data(4, (side, side), 0)
    return {
        f"{n_samples} matchings of 30 x 30, alpha = {alpha:g}": dual_problem(X, Y, 1.0, alpha),
        "the same, alpha = 10,000": dual_problem(X, Y, 1.0, 1e4),
        "200 matchings of 10 x 10 with the same features, one block": merged_block(10, 200),
        f"4 images of {side} x {side}": GridCRF(alpha=200.0, fit_intercept=False).build_problem(
            *images
        ),
    }


def count_calls(quick: bool) -> None:
    """MAP calls and seconds to a gap of LEVEL, by sampling and size of the working sets."""
    rows = []
    for name, problem in problems(quick).items():
        solve(problem, BlockFrankWolfe(), Stopping(max_iter=1))  # compiles
        for sampling in ("permuted", "gap"):
            calls, seconds = [], []
            for size in WORKING_SETS:
                solver = BlockFrankWolfe(sampling=sampling, working_set=size)
                stopping = Stopping(tol=LEVEL, max_iter=10**6, max_time=2.0 if quick else 120.0)
                before = time.process_time()
                found = solve(problem, solver, stopping)
                seconds.append(time.process_time() - before)
                calls.append(found.oracle_calls if found.converged else None)
            rows.append([name, sampling, *calls, *seconds])
    sizes = [f"working set {size}" for size in WORKING_SETS]
    show(
        f"MAP calls and CPU seconds to a certified relative gap of {power(LEVEL)}",
        ["", "sampling", *sizes, *(f"CPU s, {size}" for size in sizes)],
        rows,
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Benchmarks of block-coordinate Frank-Wolfe")
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args(arguments).quick
    with threadpool_limits(limits=1, user_api="blas"):
        count_calls(quick)
        passed = compare_overhead(quick)
        if quick:
            show_maxflow(maxflow_rows(2, (40, 50), 10))
        else:
            small, large = maxflow_rows(20, (50, 50), 40), maxflow_rows(6, (170, 200), 40)
            show_maxflow(small + large)
            passed &= large[-1][4] >= 0.5
    print(f"\nblock_frank_wolfe: {'pass' if passed else 'FAIL'}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
