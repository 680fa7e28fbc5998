"""Block-coordinate Frank-Wolfe: its time beside that of the bare decoder, and MAP calls it saves.

    python -m benchmarks.block_frank_wolfe            # everything, about two minutes
    python -m benchmarks.block_frank_wolfe --quick

Seconds are CPU seconds of one thread; compare them as ratios.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from mlestruct import GridCRF
from mlestruct.algorithms.pairwise.qpbo import QPBO
from mlestruct.datasets import make_landmark_sequence, shape_context
from mlestruct.features import DenseFeatures, TableFeatures
from mlestruct.learning import Block, BlockFrankWolfe, DualProblem, Stopping, merge_equal
from mlestruct.structures import BipartiteMatching

from .grids import default_alpha, segmentation_data
from .matching import dual_problem, landmark_data

LEVEL = 1e-2  # relative gap up to which MAP calls are counted
WORKING_SETS = (0, 5, 20)


class TimedMatching(BipartiteMatching):
    """Adds up the CPU time spent inside the decoder."""

    spent = 0.0

    def decode(self, *args: Any, **kwargs: Any) -> Any:
        before = time.process_time()
        found = super().decode(*args, **kwargs)
        self.spent += time.process_time() - before
        return found


class TimedQPBO(QPBO):
    """Adds up the CPU time spent inside."""

    spent = 0.0

    def solve(self, *args: Any) -> Any:
        before = time.process_time()
        found = super().solve(*args)
        self.spent += time.process_time() - before
        return found


def solve(problem: DualProblem, solver: BlockFrankWolfe, stopping: Stopping) -> Any:
    return solver.solve(problem, stopping, random_state=np.random.default_rng(0))


# ---------------------------------------------------------------------- time beside the decoder's
def compare_overhead(quick: bool) -> bool:
    """The solver's total time against the time inside its MAP decoder, certificates included."""
    passed = True
    for n, n_samples, passes, allowed in ((30, 60, 60, 3.0), (400, 4, 10 if quick else 80, 2.0)):
        sequence = make_landmark_sequence(n, n_samples + 10, random_state=0)
        structure = TimedMatching((n, n), 1.0)
        described = [shape_context(frame) / 3.0 for frame in sequence.points]
        blocks = []
        for i in range(n_samples):
            features = TableFeatures(described[i], described[i + 10])
            blocks.append(Block(structure, features, structure.encode(np.arange(n))))
        problem = DualProblem(blocks, 100.0)
        solve(problem, BlockFrankWolfe(), Stopping(max_iter=1))
        structure.spent = 0.0
        before = time.process_time()
        found = solve(problem, BlockFrankWolfe(), Stopping(tol=1e-9, max_iter=passes))
        total = time.process_time() - before
        ratio = total / structure.spent
        passed &= ratio <= allowed
        print(
            f"  n={n:<4d} {passes} passes, {found.oracle_calls} MAP calls: {total:.2f} s in all, "
            f"{structure.spent:.2f} s in the decoder: {ratio:.2f}x (at most {allowed:g}x)"
        )
    return passed


def maxflow_share(n_images: int, shape: tuple[int, int], passes: int, seed: int = 0) -> float:
    """How much of the solver is max-flow on grids, from its first certificate on."""
    X, Y = segmentation_data(n_images, shape, seed)
    alpha = default_alpha(n_images * shape[0] * shape[1])
    problem = GridCRF(alpha=alpha).build_problem(X, Y)
    structure: Any = problem.blocks[0].structure  # images of one shape share it
    graph = structure.graph
    decoder = TimedQPBO(graph.n_nodes, graph.tail, graph.head)
    structure.__dict__["_decoder"] = decoder  # where the cached property keeps it
    share = 0.0
    for step in ("fixed", "line_search"):
        marks: list[tuple[float, float, int]] = []

        def callback(progress: Any, marks: list = marks) -> None:
            marks.append((time.process_time(), decoder.spent, progress.oracle_calls))

        stopping = Stopping(tol=1e-9, max_iter=passes, callback=callback)
        solve(problem, BlockFrankWolfe(step=step), stopping)
        total, inside, calls = (b - a for a, b in zip(marks[0], marks[-1], strict=True))
        share = inside / total
        print(
            f"  {step.replace('_', ' '):<12}{calls:>6d} calls of {shape[0]} x {shape[1]}: "
            f"{1e3 * total / calls:.2f} ms each, {1e3 * inside / calls:.2f} ms in max-flow: "
            f"{100 * share:.0f} %",
            flush=True,
        )
    return share


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
    X, Y, _, _ = landmark_data(6 if quick else 20)
    images = segmentation_data(4, (12, 12) if quick else (20, 20), 0)
    return {
        "matchings, alpha = 1": dual_problem(X, Y, 1.0, 100.0 if quick else 1.0),
        "matchings, alpha = 10,000": dual_problem(X, Y, 1.0, 1e4),
        "one merged block": merged_block(10, 200),
        "grid": GridCRF(alpha=200.0).build_problem(*images),
    }


def count_calls(quick: bool) -> None:
    """MAP calls and seconds to a gap of LEVEL, by sampling and size of the working sets."""
    heads = "".join(f"{f'working set {size}':>24}" for size in WORKING_SETS)
    print(f"  {'':<28}{'sampling':<10}{heads}")
    for name, problem in problems(quick).items():
        for sampling in ("permuted", "gap"):
            cells = []
            for size in WORKING_SETS:
                solver = BlockFrankWolfe(sampling=sampling, working_set=size)
                stopping = Stopping(tol=LEVEL, max_iter=10**6, max_time=2.0 if quick else 30.0)
                before = time.process_time()
                found = solve(problem, solver, stopping)
                seconds = time.process_time() - before
                calls = f"{found.oracle_calls:,}" if found.converged else "not in time"
                cells.append(f"{calls:>14} {seconds:>7.2f} s")
            print(f"  {name:<28}{sampling:<10}" + "".join(cells), flush=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Benchmarks of block-coordinate Frank-Wolfe")
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args(arguments).quick
    with threadpool_limits(limits=1, user_api="blas"):
        print("Matchings: time of the solver beside that of its decoder")
        passed = compare_overhead(quick)
        print("\nGrids: share of max-flow")
        if quick:
            maxflow_share(2, (40, 50), 10)
        else:
            maxflow_share(20, (50, 50), 40)
            passed &= maxflow_share(6, (170, 200), 40) >= 0.5
        print(f"\nMAP calls and seconds to a certified relative gap of {LEVEL:g}")
        count_calls(quick)
    print(f"\nblock_frank_wolfe: {'pass' if passed else 'FAIL'}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
