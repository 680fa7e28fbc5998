"""Block-coordinate descent on the dual: one oracle call, one block, one step at a time.

`BlockFrankWolfe` moves a block's tau towards the MAP vertex; `BlockFrankWolfe.paper()` is the
block-coordinate algorithm of the paper as printed.
`BlockMarginals` moves it towards the marginals at the current theta instead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from .._compile import kernel
from .._deadline import check_time
from ..algorithms.frank_wolfe import MAX_STEP, RTOL
from ..structures.contract import Marginals, Vertex
from .certificate import NEAR, certify
from .frank_wolfe import WeightedAverage, check_option, finished
from .linear_step import LinearStep, WorkingSet, linear_step
from .problem import Block, DualProblem, DualState, Start, start
from .result import Each, Monitor, Result, Stopping, run, threaded_map

Floats = NDArray[np.float64]
Sampling = Literal["permuted", "uniform", "gap"]

CERTIFICATE_PASSES = 20  # at most between certificates, each of which costs a pass of MAP calls
IDLE_PASSES = 100  # in a row that need no oracle call; then every block makes one
ACCURACY = 0.1  # requested gap of the marginal oracle, relative to the block's duality gap


class BlockCoordinateDescent(ABC):
    """The loop that both solvers share; they differ in the target of a step."""

    name: str
    sampling: Sampling
    averaging: bool = False
    working_set: int = 0
    batch: int = 1
    start: Start = "near"
    return_last: bool = False
    first_guess = 0.05  # of a block's step length; later ones are its last one, within limits
    shortest_guess, longest_guess = 1e-6, 1.0
    tracks_entropies = False  # whether steps need each block's entropy between certificates
    reuses_targets = True  # whether a certificate's answers are the targets of the next pass

    def check(self, problem: DualProblem) -> None:
        """Needs nothing beyond the block contract."""
        for block in problem.blocks:
            block.structure.require("decode", f"solver={self.name!r}")
        check_option("start", self.start, ("near", "uniform"))
        check_option("sampling", self.sampling, ("permuted", "uniform", "gap"))
        if not self.batch >= 1:
            raise ValueError(f"batch: expected at least 1, got {self.batch!r}")

    @abstractmethod
    def _certify(
        self, problem: DualProblem, state: DualState, warm: list[Any], monitor: Monitor,
        iteration: int, average: Floats | None, final: bool, each: Each,
    ) -> list[LinearStep]:  # fmt: skip
        """Record certified bounds at theta(tau), one oracle call per block; where blocks move."""

    @abstractmethod
    def _target(
        self, problem: DualProblem, state: DualState, m: int, warm: list[Any], gap: float,
        kept: WorkingSet | None,
    ) -> LinearStep:  # fmt: skip
        """Where block m moves; at most one oracle call."""

    def _length(
        self, problem: DualProblem, block: Block, tau: Floats, towards: LinearStep,
        linear: float, quadratic: float, guess: float, t: int,
    ) -> float:  # fmt: skip
        """The step length of step t."""
        return block_step(block, tau, towards, linear, quadratic, guess)

    def solve(
        self,
        problem: DualProblem,
        stopping: Stopping,
        warm: DualState | None = None,
        random_state: np.random.Generator | None = None,
        n_jobs: int | None = None,
    ) -> Result:
        """Minimise the dual of `problem`. One iteration is a pass of M steps.

        Passes that only visit working sets, without oracle calls, are not counted. A step changes
        theta, so steps run one after the other; the oracle calls of a certificate and of a `batch`
        of blocks run on `n_jobs` threads, on which the result does not depend. The answers for a
        certificate are the targets of the pass that follows, which makes no calls: each block is
        still where the certificate found it, and a line search along the direction decreases L at
        the current theta.
        """
        self.check(problem)
        rng = random_state if random_state is not None else np.random.default_rng()
        monitor = Monitor(stopping, self.name)
        resumed = monitor.resume()
        state = start(problem, warm, self.start, resumed)
        average = WeightedAverage(problem.n_features)
        n_blocks = len(problem.blocks)
        known: list[Any] = [None] * n_blocks  # of each block's oracle: prices, or its state
        size = self.working_set
        kept = [WorkingSet(size) if size else None for _ in range(n_blocks)]

        gaps = np.zeros(n_blocks)
        targets: list[LinearStep | None] = [None] * n_blocks

        def certify_at(sweep: int) -> float:
            """The part of the sum of the blocks' gaps that the certified gap is."""
            mean = average.value.copy() if self.averaging and sweep else None
            final = sweep == stopping.max_iter or monitor.out_of_time()
            monitor.oracle_calls += n_blocks
            found = self._certify(problem, state, known, monitor, sweep, mean, final, each)
            gaps[:] = [step.gap for step in found]
            if self.reuses_targets:
                targets[:] = found
            return min(monitor.gap / max(float(problem.weights @ gaps), 1e-300), 1.0)

        def loop() -> DualState:
            guesses = [self.first_guess] * n_blocks
            t = sweep = idle = 0
            due = 1  # the pass of the next certificate
            if resumed is None:
                share = certify_at(0)
            else:
                t, sweep, idle, due, share = resumed["place"]
                guesses, gaps[:], known[:] = resumed["guesses"], resumed["gaps"], resumed["known"]
                average.restore(resumed["average"])
                rng.bit_generator.state = resumed["rng"]
                for own, vertices in zip(kept, resumed["kept"], strict=True):
                    if own is not None:
                        own.restore(vertices)
            passed = resumed is not None  # checkpoints are written at the end of a pass

            def checkpoint() -> dict[str, Any]:
                return {
                    "state": vars(state), "average": vars(average), "guesses": guesses,
                    "gaps": gaps, "known": known, "place": (t, sweep, idle, due, share),
                    "rng": rng.bit_generator.state,
                    "kept": [[] if own is None else own.vertices() for own in kept],
                }  # fmt: skip

            def find(m: int) -> LinearStep:
                gap = np.inf if idle >= IDLE_PASSES else gaps[m]
                return self._target(problem, state, m, known, gap, kept[m])

            while passed or (sweep < stopping.max_iter and not monitor.stopped):
                idle += not passed
                order = () if passed else sampled(self.sampling, rng, n_blocks, gaps)
                for chosen in batches(order, self.batch):
                    wanted = [m for m in chosen if targets[m] is None]
                    for m, found in zip(wanted, list(each(find, wanted)), strict=True):
                        targets[m] = found
                        monitor.oracle_calls += found.decoded
                    for m in chosen:
                        towards, targets[m] = targets[m], None
                        assert towards is not None
                        t += 1
                        if towards.decoded:
                            gaps[m], idle = towards.gap, 0
                        self._step(problem, state, m, t, towards, guesses, kept[m])
                        if self.averaging:
                            average.add(problem.theta(state.r))
                    if monitor.out_of_time():
                        break
                targets[:] = [None] * n_blocks
                sweep += idle == 0 and not passed
                passed = False
                if not monitor.out_of_time():
                    monitor.keep(checkpoint)
                last = sweep == stopping.max_iter or monitor.out_of_time()
                near = share * float(problem.weights @ gaps) <= monitor.tolerance
                if sweep >= due or near or last:
                    # Not by the clock, so that results repeat.
                    due = sweep + min(2 * sweep, CERTIFICATE_PASSES)
                    state.refresh(problem)
                    share = certify_at(sweep)
            return state

        with threaded_map(n_jobs, n_blocks) as each:
            result = run(problem, monitor, loop, lambda: problem.theta(state.r), n_jobs)
        return finished(result, problem, state, monitor, average, self.averaging, self.return_last)

    def _step(
        self, problem: DualProblem, state: DualState, m: int, t: int,
        towards: LinearStep, guesses: list[float], kept: WorkingSet | None,
    ) -> None:  # fmt: skip
        """One step of block m."""
        block, tau, here = problem.blocks[m], state.tau[m], state.moments[m]
        there = block.moments_at(towards.vertex) if towards.moments is None else towards.moments
        if kept is not None and towards.decoded:
            kept.add(towards.vertex, there)
        slope, square = products(problem.penalty.soft(state.r), here, there)
        scale = block.weight / problem.penalty.l2
        linear, quadratic = -scale * slope, scale * block.weight * square
        eta = self._length(problem, block, tau, towards, linear, quadratic, guesses[m], t)
        guesses[m] = min(max(eta, self.shortest_guess), self.longest_guess)
        if eta > 0.0:
            block.structure.stepping_entropy.move(tau, towards.vertex, eta)
            advance(state.r, here, there, eta, block.weight)
            if self.tracks_entropies:
                state.entropies[m] = block.structure.entropy(tau) - block.offset_gap(tau)


@kernel
def products(r: Floats, here: Floats, there: Floats) -> tuple[float, float]:
    """<r, there - here> and |there - here|^2."""
    slope = square = 0.0
    for k in range(r.shape[0]):
        d = there[k] - here[k]
        slope += r[k] * d
        square += d * d
    return slope, square


@kernel
def advance(r: Floats, here: Floats, there: Floats, eta: float, weight: float) -> None:
    """A block's moments after a step of length eta, and r, in place."""
    for k in range(r.shape[0]):
        d = eta * (there[k] - here[k])
        here[k] += d
        r[k] -= weight * d


@dataclass(frozen=True)
class BlockFrankWolfe(BlockCoordinateDescent):
    """Block-coordinate Frank-Wolfe; `BlockFrankWolfe.paper()` is Algorithm 1 of the paper.

    Parameters
    ----------
    step : "line_search" until the slope has fallen to 5 % (`RTOL`), or "fixed" for 2M/(2M+t),
        t = 1, 2, ...
    sampling : "permuted" passes, "uniform" with replacement, or "gap": proportional to the
        blocks' last known Frank-Wolfe gaps
    averaging : return the weighted average of the iterates' theta, with a certificate of its own
    working_set : vertices kept per block. A step goes to the best of them, without a MAP call,
        where its gap is at least a quarter of the one that the decoder has found last (Osokin et
        al. 2016). For expensive decoders, and for few blocks that are far from the optimum.
    batch : blocks decoded at the same theta, on threads if there are some (`n_jobs`), before
        each makes its step
    start : "near" the observed outputs, at the best of a few mixtures with the interior point, or
        "uniform": the interior point itself, as in the paper
    return_last : return theta(tau) of the last iterate, as in the paper, instead of the one that
        has the best proven bound
    reuse_vertices : with line searches, step to the vertices of a certificate in the next pass
    """

    step: Literal["line_search", "fixed"] = "line_search"
    sampling: Sampling = "permuted"
    averaging: bool = False
    working_set: int = 0
    batch: int = 1
    start: Start = "near"
    return_last: bool = False
    reuse_vertices: bool = True

    name = "bcfw"

    @classmethod
    def paper(cls, *, line_search: bool = False, averaging: bool = False) -> Self:
        """Algorithm 1 of the paper, block version: uniform start, blocks drawn uniformly.

        Steps of 2M/(2M+t) or a line search, each to the MAP vertex at the current theta.
        Certificates, which cost a pass of MAP calls each, do not change the iterates.
        """
        return cls(
            step="line_search" if line_search else "fixed",
            sampling="uniform",
            averaging=averaging,
            start="uniform",
            return_last=True,
            reuse_vertices=False,
        )

    @property
    def reuses_targets(self) -> bool:  # type: ignore[override]
        """Steps of fixed length need vertices at the current theta."""
        return self.reuse_vertices and self.step == "line_search"

    def check(self, problem: DualProblem) -> None:
        super().check(problem)
        check_option("step", self.step, ("line_search", "fixed"))

    def _certify(
        self, problem: DualProblem, state: DualState, warm: list[Any], monitor: Monitor,
        iteration: int, average: Floats | None, final: bool, each: Each,
    ) -> list[LinearStep]:  # fmt: skip
        near = np.inf if final else NEAR * monitor.tolerance
        found, steps = certify(problem, state, warm, near, each)
        monitor.record(
            iteration,
            problem.theta(state.r),
            dual=found.dual,
            primal=found.primal,
            fw_gap=found.fw_gap,
            average=average,
        )
        return steps

    def _target(
        self, problem: DualProblem, state: DualState, m: int, warm: list[Any], gap: float,
        kept: WorkingSet | None,
    ) -> LinearStep:  # fmt: skip
        """The MAP vertex at scores G theta + grad H(tau)."""
        theta = problem.theta(state.r)
        found = linear_step(problem, state, m, theta, warm[m], False, kept, 0.25 * gap)
        if found.prices is not None:
            warm[m] = found.prices
        return found

    def _length(
        self, problem: DualProblem, block: Block, tau: Floats, towards: LinearStep,
        linear: float, quadratic: float, guess: float, t: int,
    ) -> float:  # fmt: skip
        if self.step == "fixed":
            return min(2.0 * len(problem.blocks) / (2.0 * len(problem.blocks) + t), MAX_STEP)
        return block_step(block, tau, towards, linear, quadratic, guess)


@dataclass(frozen=True)
class BlockMarginals(BlockCoordinateDescent):
    """Block steps towards marginals instead of vertices, for structures with a marginal oracle.

    The maximiser of <scores, tau> + H(tau) at the current theta is where the block would go if
    theta stood still (stochastic dual coordinate ascent). Near the optimum, where MAP problems are
    degenerate, such a step gains many times more than one towards a vertex.

    Parameters
    ----------
    sampling : "permuted" passes, "uniform" with replacement, or "gap": proportional to the
        blocks' last known duality gaps
    """

    sampling: Sampling = "permuted"

    name = "block_marginals"
    first_guess = 0.5
    shortest_guess, longest_guess = 1e-3, 0.999
    tracks_entropies = True

    def check(self, problem: DualProblem) -> None:
        """Raise MissingCapability unless every block has a marginal oracle."""
        super().check(problem)
        for block in problem.blocks:
            block.structure.require("marginals", f"solver={self.name!r}")

    def _certify(
        self, problem: DualProblem, state: DualState, warm: list[Any], monitor: Monitor,
        iteration: int, average: Floats | None, final: bool, each: Each,
    ) -> list[LinearStep]:  # fmt: skip
        theta = problem.theta(state.r)
        accuracy = ACCURACY * monitor.tolerance / len(problem.blocks)
        steps, log_partition = [], 0.0
        for m, block in enumerate(problem.blocks):
            step, found = self._towards_marginals(problem, state, m, theta, warm, accuracy)
            steps.append(step)
            log_partition += block.weight * found.upper_bound
        monitor.record(
            iteration,
            theta,
            dual=state.dual(problem),
            primal=problem.primal(theta, log_partition),
        )
        return steps

    def _target(
        self, problem: DualProblem, state: DualState, m: int, warm: list[Any], gap: float,
        kept: WorkingSet | None,
    ) -> LinearStep:  # fmt: skip
        """The marginals at scores G theta."""
        theta = problem.theta(state.r)
        accuracy = ACCURACY * max(gap, 1e-12)
        return self._towards_marginals(problem, state, m, theta, warm, accuracy)[0]

    @staticmethod
    def _towards_marginals(
        problem: DualProblem, state: DualState, m: int, theta: Floats,
        warm: list[Any], accuracy: float,
    ) -> tuple[LinearStep, Marginals]:  # fmt: skip
        """The step; its gap is A(scores) - <scores, tau_m> - H(tau_m), from above."""
        check_time("a pass of marginals")
        block, tau = problem.blocks[m], state.tau[m]
        scores = block.scores(theta)
        found = block.structure.marginals(scores, warm[m], accuracy)
        warm[m] = found.warm
        entropy = state.entropies[m] + block.offset_gap(tau)
        gap = found.upper_bound - float(scores @ tau) - entropy
        sums = block.structure.stepping_entropy.add_gradient(tau, scores)[1]
        vertex = Vertex(np.arange(tau.shape[0]), found.tau)
        return LinearStep(vertex, gap, scores, None, sums, block.moments(found.tau)), found


def block_step(
    block: Block,
    tau: Floats,
    towards: LinearStep,
    linear: float,
    quadratic: float,
    guess: float,
) -> float:
    """The step towards a vertex that minimises L, up to RTOL of the slope at 0.

    With a = G'(s - tau) and r = sum w G'(y - tau) the quadratic part of L(tau + eta (s - tau)) is
    known from two inner products, `linear` and `quadratic`, already divided by alpha (with an l1
    penalty it is bounded by them); only the entropy is evaluated per trial. The step is capped
    below 1 because a vertex has infinite entropy gradient.
    """
    weight, vertex = block.weight, towards.vertex
    if block.offset is not None:
        linear -= weight * (vertex.dot(block.offset) - float(block.offset @ tau))
    eta = block.structure.stepping_entropy.line_search(
        tau, vertex, towards.sums, linear / weight, quadratic / weight, guess, MAX_STEP, RTOL
    )
    return float(eta)


def batches(blocks: Sequence[int], size: int) -> Iterator[list[int]]:
    """Runs of at most `size` blocks without repetitions: a block's target is used only once."""
    run: list[int] = []
    for m in blocks:
        if len(run) == size or m in run:
            yield run
            run = []
        run.append(m)
    yield run


def sampled(sampling: str, rng: np.random.Generator, n_blocks: int, gaps: Floats) -> list[int]:
    """Blocks of the next pass."""
    if sampling == "permuted":
        return rng.permutation(n_blocks).tolist()
    if sampling == "uniform":
        return rng.integers(n_blocks, size=n_blocks).tolist()
    weights = np.maximum(gaps, 0.0) + 1e-12 + 1e-3 * np.mean(np.abs(gaps))
    return rng.choice(n_blocks, size=n_blocks, p=weights / weights.sum()).tolist()
