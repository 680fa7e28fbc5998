"""Learning grid CRFs for segmentation: the solvers and truncated message passing side by side.

    python -m benchmarks.grids                          # 200 images of 50 x 50, about 20 minutes
    python -m benchmarks.grids --images 20 --size 30    # a minute or two
    python -m benchmarks.grids --quick                  # tiny, for a first look
    python -m benchmarks.record grids                   # the table of docs/benchmarks.md

Generated images, the features of Domke (2013), two states, 4 neighbours, rho = 1/2. All methods
maximise the same regularised likelihood P(theta) over the same problem, each in one thread, kernels
compiled before. While they run only weights and clocks are recorded. Afterwards every method's
weights are judged by one yardstick:

* P by message passing converged far below the levels asked for, relative to the optimum P* that
  "auto" certifies to 1e-7: true suboptimality (P* - P)/|P*|;
* the share of wrong pixels of test images, by marginals above 1/2 and by MAP.

The gap is the one a method certifies itself while it runs ("auto", bcfw). Truncated message passing
certifies nothing; its gap is L(tau) - P(theta) for its own marginals tau, worked out afterwards
with a converged P. Times are seconds of the method's CPU, without judging.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from bisect import bisect_right
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.record import power, show
from mlestruct import GridCRF
from mlestruct.algorithms.pairwise.grid_message_passing import in_linear_range
from mlestruct.baselines.truncated_trw import TruncatedLBFGS, TruncatedLikelihood
from mlestruct.datasets import make_segmentation
from mlestruct.features import edge_features, node_features
from mlestruct.learning import BlockFrankWolfe, DualProblem, Stopping, make_solver
from mlestruct.learning.frank_wolfe import WeightedAverage

LEVELS = (1e-2, 1e-4)
CLOSE = 1.01  # times the optimum's test error counts as reaching it
YARDSTICK = 1e-6  # relative accuracy of P
OPTIMUM = 1e-7  # relative gap to which P* is certified
TICKS = [m * 10.0**e for e in range(-3, 5) for m in (1, 2, 5)]  # seconds


# ---------------------------------------------------------------------- data
def segmentation_data(n_images: int, shape: tuple[int, int], seed: int) -> tuple[list, list]:
    images, masks = make_segmentation(n_images, shape, random_state=seed)
    return [(node_features(image), edge_features(image)) for image in images], masks


def default_alpha(n_pixels: int) -> float:
    """285 for 200 images of 50 x 50; about as strong per pixel as the paper's on the horses."""
    return 285.0 * n_pixels / (200 * 50 * 50)


# ---------------------------------------------------------------------- recording
@dataclass
class Trace:
    """What one method did: weights by time, and its certificates by time."""

    name: str
    n_sweeps: int | None = None  # of truncated message passing
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    theta: list[np.ndarray] = field(default_factory=list)
    certificates: list[tuple[float, float]] = field(default_factory=list)  # CPU s, relative gap
    note: str = ""
    finished: bool = False  # by the method's own criteria

    def certified(self, level: float) -> float:
        return next((cpu for cpu, gap in self.certificates if gap <= level), np.inf)


class Clock:
    """CPU and wall seconds since it was made."""

    def __init__(self, limit: float):
        self.limit = limit
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def __call__(self) -> tuple[float, float]:
        return time.process_time() - self._cpu, time.perf_counter() - self._wall

    def record(self, trace: Trace, theta: np.ndarray) -> None:
        cpu, wall = self()
        trace.cpu.append(cpu)
        trace.wall.append(wall)
        trace.theta.append(theta.copy())

    def certify(self, trace: Trace, progress: Any) -> bool:
        """Keep a certificate; True when the time is up."""
        cpu, _ = self()
        trace.certificates.append((cpu, progress.gap / max(1.0, abs(progress.dual))))
        return cpu > self.limit


@dataclass(frozen=True)
class RecordedBCFW(BlockFrankWolfe):
    """Shows r after every step, not only where there is a certificate."""

    observe: Callable[[np.ndarray], None] = lambda r: None

    def stepped(self, state: Any, t: int) -> None:
        self.observe(state.r)


def run_bcfw(problem: DualProblem, step: Any, limit: float, seed: int) -> tuple[Trace, Trace]:
    """One run: its iterates after every pass, and their weighted averages at the same times."""
    label = {"fixed": "bcfw, fixed steps", "line_search": "bcfw, line search"}[step]
    plain, averaged = Trace(label), Trace(f"{label}, averaged")
    average = WeightedAverage(problem.n_features)
    n_blocks = len(problem.blocks)
    steps = 0

    def observe(r: np.ndarray) -> None:
        nonlocal steps
        theta = problem.theta(r)
        average.add(theta)
        steps += 1
        if steps % n_blocks == 0:
            clock.record(plain, theta)
            clock.record(averaged, average.value)

    solver = RecordedBCFW(step=step, observe=observe)
    clock = Clock(limit)
    stopping = Stopping(
        tol=OPTIMUM,
        max_iter=10**9,
        max_time=10.0 * limit,
        callback=lambda progress: clock.certify(plain, progress),
    )
    solver.solve(problem, stopping, random_state=np.random.default_rng(seed))
    plain.note = averaged.note = f"{steps // n_blocks} passes"
    return plain, averaged


def run_auto(problem: DualProblem) -> tuple[Trace, Any]:
    """To the end, so that the optimum is known."""
    solver = make_solver("auto", problem)
    trace = Trace(f"auto ({solver.name})")

    def callback(progress: Any) -> None:
        clock.record(trace, progress.theta)
        clock.certify(trace, progress)

    clock = Clock(np.inf)
    result = solver.solve(problem, Stopping(tol=OPTIMUM, max_iter=5000, callback=callback))
    calls = result.oracle_calls / len(problem.blocks)
    trace.note = f"{result.iterations} iterations, {calls:.0f} evaluations"
    return trace, result


def run_truncated(problem: DualProblem, n_sweeps: int, limit: float) -> Trace:
    trace = Trace(f"truncated TRW, {n_sweeps} sweeps", n_sweeps)

    def callback(progress: Any) -> bool:
        clock.record(trace, progress.theta)
        return trace.cpu[-1] > limit

    clock = Clock(limit)
    found = TruncatedLBFGS(n_sweeps).solve(problem, Stopping(max_iter=10_000, callback=callback))
    trace.finished = trace.cpu[-1] <= limit
    why = "converged by its own criteria" if found.converged else found.state
    calls = found.oracle_calls // len(problem.blocks)
    trace.note = f"{found.iterations} iterations, {calls} evaluations, {why}"
    return trace


# ---------------------------------------------------------------------- judging
class Judge:
    """The common yardstick; answers are remembered."""

    def __init__(self, problem: DualProblem, optimum: float, model: GridCRF, X: list, Y: list):
        self.problem, self.optimum = problem, optimum
        self.tests = model._make_blocks(model._read(X), 2)
        self.truth = [np.ravel(y) for y in Y]
        self._known: dict[tuple[Any, ...], Any] = {}
        self._pool = ThreadPoolExecutor(os.cpu_count() or 1)
        sizes = np.array([block.structure.n_coordinates for block in problem.blocks], dtype=float)
        self._shares = sizes / (problem.weights @ sizes)

    def close(self) -> None:
        self._pool.shutdown()

    def _once(self, key: tuple[Any, ...], compute: Callable[[], Any]) -> Any:
        if key not in self._known:
            self._known[key] = compute()
        return self._known[key]

    def suboptimality(self, trace: Trace, k: int) -> float:
        """(P* - P)/|P*| of snapshot k."""
        value = self._once(("P", trace.name, k), lambda: self._likelihood(trace.theta[k]))
        return float((self.optimum - value) / abs(self.optimum))

    def truncated_gap(self, trace: Trace, k: int) -> float:
        """(L(tau) - P(theta))/|L(tau)| with the marginals of truncated message passing."""
        assert trace.n_sweeps is not None
        surrogate = TruncatedLikelihood(self.problem, trace.n_sweeps, self._pool.map)
        dual = self._once(("L", trace.name, k), lambda: surrogate(trace.theta[k]).dual)
        value = self.optimum - self.suboptimality(trace, k) * abs(self.optimum)
        return float((dual - value) / max(1.0, abs(dual)))

    def errors(self, trace: Trace, k: int) -> tuple[float, float]:
        """Share of wrong test pixels, by marginals and by MAP."""
        return self._once(("error", trace.name, k), lambda: self._errors(trace.theta[k]))

    def _likelihood(self, theta: np.ndarray) -> float:
        """P(theta) from below; from above where that is enough to see that it is far off."""
        problem = self.problem
        coarse = any(_out_of_range(block, theta) for block in problem.blocks)
        if coarse:
            # The entropy is not negative: log Z_rho is at least the score of the best vertex.
            best = self._pool.map(
                lambda b: b.structure.decode(b.scores(theta)).score, problem.blocks
            )
            value = problem.primal(theta, float(problem.weights @ list(best)))
            if self.optimum - value > abs(self.optimum):
                return value

        def passes(tol: float, warm: list[Any], max_sweeps: int) -> list[Any]:
            def one(m: int) -> Any:
                block = problem.blocks[m]
                structure: Any = block.structure
                wanted = tol * self._shares[m]
                return structure.marginals(block.scores(theta), warm[m], wanted, max_sweeps)

            return list(self._pool.map(one, range(len(problem.blocks))))

        finest = YARDSTICK * abs(self.optimum)
        found = passes(finest, [None] * len(problem.blocks), 10)
        most = problem.primal(theta, float(problem.weights @ [f.value for f in found]))
        # What is far off need not be known to as many digits.
        tol = max(finest, 0.01 * (self.optimum - most))
        found = passes(tol, [f.warm for f in found], 2000)
        return problem.primal(theta, float(problem.weights @ [f.upper_bound for f in found]))

    def _errors(self, theta: np.ndarray) -> tuple[float, float]:
        def one(m: int) -> tuple[float, float]:
            block, truth = self.tests[m], self.truth[m]
            structure: Any = block.structure
            scores = block.scores(theta)
            best = structure.best_label(scores)
            guess = best
            if not _out_of_range(block, theta):  # else all is certain
                found = structure.marginals(scores, None, 1e-4 * truth.size)
                guess = found.tau[: truth.size] > 0.5
            return float(np.mean(guess != truth)), float(np.mean(best != truth))

        found = np.array(list(self._pool.map(one, range(len(self.tests)))))
        by_marginals, by_map = found.mean(axis=0)
        return float(by_marginals), float(by_map)


def _out_of_range(block: Any, theta: np.ndarray) -> bool:
    return not in_linear_range(block.structure.graph.grid_shape, block.scores(theta))


def first_time(trace: Trace, reached: Callable[[int], bool]) -> float:
    """CPU seconds of the first snapshot that is `reached`.

    Looked for at the ticks of the clock, and then by bisection since the tick before.
    """
    low = -1
    for high in ticked(trace):
        if reached(high):
            while high - low > 1:
                middle = (low + high) // 2
                if reached(middle):
                    high = middle
                else:
                    low = middle
            return trace.cpu[high]
        low = high
    return np.inf


def ticked(trace: Trace) -> list[int]:
    """The last snapshot before each tick, and the last of all."""
    places = [bisect_right(trace.cpu, tick) - 1 for tick in TICKS]
    return sorted({k for k in [*places, len(trace.cpu) - 1] if k >= 0})


# ---------------------------------------------------------------------- tables
@dataclass
class Row:
    """CPU seconds to each level."""

    gap: list[float]
    true: list[float]
    error: list[float]  # within 1 % of the optimum's, by marginals and by MAP


def summarise(trace: Trace, judge: Judge, final: tuple[float, float]) -> Row:
    if trace.n_sweeps is None:
        gap = [trace.certified(level) for level in LEVELS]
    else:
        gap = [
            first_time(trace, lambda k, level=level: judge.truncated_gap(trace, k) <= level)
            for level in LEVELS
        ]
    true = [
        first_time(trace, lambda k, level=level: judge.suboptimality(trace, k) <= level)
        for level in LEVELS
    ]
    error = [
        first_time(trace, lambda k, i=i: judge.errors(trace, k)[i] <= CLOSE * final[i])
        for i in range(2)
    ]
    return Row(gap, true, error)


def show_summary(title: str, traces: list[Trace], rows: list[Row], judge: Judge) -> None:
    errors = ["error, marginals", "error, MAP"]
    show(
        title,
        ["", *(f"{kind} {power(level)}" for kind in ("gap", "true") for level in LEVELS), *errors],
        [[trace.name, *row.gap, *row.true, *row.error]
         for trace, row in zip(traces, rows, strict=True)],
    )  # fmt: skip
    ends = []
    for trace in traces:
        last = len(trace.cpu) - 1
        judged = [judge.suboptimality(trace, last), *judge.errors(trace, last)]
        ends.append([trace.name, trace.cpu[-1], trace.wall[-1], *judged, trace.note])
    show("The same when they ended", ["", "CPU s", "s", "true suboptimality", *errors, ""], ends)


def show_curves(traces: list[Trace], judge: Judge, limit: float) -> None:
    """True suboptimality and test error by time: the paper's two plots as tables."""
    first = min(trace.cpu[0] for trace in traces)
    ticks = [tick for tick in TICKS if first <= tick <= limit]

    def row(trace: Trace, value: Callable[[Trace, int], float]) -> list[Any]:
        places = [bisect_right(trace.cpu, tick) - 1 for tick in ticks]
        return [trace.name, *(value(trace, k) if k >= 0 else "" for k in places)]

    for title, value in (
        ("True suboptimality", judge.suboptimality),
        ("Test error by marginals", lambda trace, k: judge.errors(trace, k)[0]),
    ):
        head = ["", *(f"{tick:g}" for tick in ticks)]
        rows = [row(trace, value) for trace in traces]
        show(f"{title} at CPU second", head, rows, keep=False)


def faster(ours: float, trace: Trace, theirs: float) -> tuple[float, str]:
    """How many times sooner, at least; and how to say so."""
    if not np.isfinite(ours):
        return 0.0, "not reached by auto"
    if np.isfinite(theirs):
        return theirs / ours, f"{theirs / ours:.1f}x"
    if trace.finished:
        return np.inf, f"never: it stops after {trace.cpu[-1]:.1f} s"
    ratio = trace.cpu[-1] / ours
    return ratio, f"never in {trace.cpu[-1]:.0f} s, {ratio:.1f}x as long"


def verdicts(auto: Row, truncated: list[tuple[Trace, Row]]) -> bool:
    """What is claimed, measured on the gap and on true suboptimality."""
    passed = True
    wanted = {40: 5.0, 10: 2.0}
    for trace, row in truncated:
        factor = wanted.get(trace.n_sweeps or 0)
        if factor is None:
            continue
        for kind, ours, theirs in (("gap", auto.gap, row.gap), ("true", auto.true, row.true)):
            ratio, words = faster(ours[0], trace, theirs[0])
            passed &= ratio >= factor
            print(
                f"auto >= {factor:g}x faster than {trace.name} to 1e-2 ({kind}): "
                f"{'yes' if ratio >= factor else 'NO'} ({words})"
            )
    for trace, row in truncated:
        if trace.n_sweeps != 10:
            continue
        for kind, times in (("gap", row.gap), ("true", row.true)):
            never = not np.isfinite(times[1])
            passed &= never
            print(
                f"{trace.name}, never reach 1e-4 ({kind}): "
                + ("yes" if never else f"NO (after {times[1]:.2f} s)")
            )
    return passed


def compare(
    n_images: int, size: int, alpha: float | None, seed: int, limit: float, sweeps: tuple[int, ...]
) -> bool:
    shape = (size, size)
    n_tests = max(4, n_images // 4)
    X, Y = segmentation_data(n_images, shape, seed)
    alpha = default_alpha(n_images * size * size) if alpha is None else alpha
    model = GridCRF(alpha=alpha, fit_intercept=False)
    problem = model.build_problem(X, Y)
    auto, result = run_auto(problem)
    relative = result.gap / max(1.0, abs(result.objective))
    print(f"P* = {result.objective:.4f}, certified to {relative:.1e} by auto", flush=True)
    if not result.converged:
        print(f"(P* is NOT certified to the {OPTIMUM:g} asked for)")
    title = (
        f"{n_images} images of {size} x {size}, {problem.n_features} weights, alpha = {alpha:g}: "
        "CPU seconds to a relative gap, to a true relative suboptimality, and to test errors "
        f"within 1 % of the optimum's, or \u2013 if not within {limit:g}"
    )
    traces = [auto]
    for step in ("fixed", "line_search"):
        plain, averaged = run_bcfw(problem, step, limit, seed)
        traces += [plain, averaged]
    truncated = [run_truncated(problem, n, limit) for n in sweeps]
    traces += truncated
    judge = Judge(problem, result.objective, model, *segmentation_data(n_tests, shape, seed + 1))
    try:
        final = judge.errors(auto, len(auto.cpu) - 1)
        rows = [summarise(trace, judge, final) for trace in traces]
        show_summary(title, traces, rows, judge)
        show_curves(traces, judge, max(trace.cpu[-1] for trace in traces))
    finally:
        judge.close()
    return verdicts(rows[0], list(zip(traces, rows, strict=True))[-len(truncated) :])


def warm_up() -> None:
    """Compile (or load) every kernel that is timed."""
    X, Y = segmentation_data(2, (12, 12), 0)
    problem = GridCRF(alpha=1.0, fit_intercept=False).build_problem(X, Y)
    for solver in (make_solver("auto", problem), BlockFrankWolfe(), BlockFrankWolfe(step="fixed")):
        solver.solve(problem, Stopping(max_iter=3))
    TruncatedLBFGS(2).solve(problem, Stopping(max_iter=3))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Benchmarks of learning grid CRFs")
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--size", type=int, default=50, help="pixels a side")
    parser.add_argument(
        "--alpha", type=float, help="regularisation; by default 285 per 200 images of 50 x 50"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--time-limit", type=float, default=120.0, help="CPU seconds of a method")
    parser.add_argument("--sweeps", type=int, nargs="*", default=[10, 40])
    parser.add_argument("--quick", action="store_true", help="tiny problems, a few seconds")
    options = parser.parse_args(arguments)
    quick = options.quick
    n_images, size = (6, 16) if quick else (options.images, options.size)
    limit = min(options.time_limit, 1.0) if quick else options.time_limit
    with threadpool_limits(limits=1, user_api="blas"):
        warm_up()
        passed = compare(n_images, size, options.alpha, options.seed, limit, tuple(options.sweeps))
    print("\ngrids: " + ("pass" if passed else "FAIL"))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
