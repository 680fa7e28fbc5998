"""Block-coordinate descent on the dual: one oracle call, one block, one step at a time.

`BlockFrankWolfe` is the paper's algorithm: a block's tau moves towards the MAP vertex.
`BlockMarginals` moves it towards the marginals at the current theta instead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..algorithms.frank_wolfe import MAX_STEP, RTOL
from ..structures.contract import Marginals, Vertex
from .certificate import LinearStep, certify, certify_theta, linear_step
from .frank_wolfe import WeightedAverage, check_option
from .problem import Block, DualProblem, DualState, start
from .result import Monitor, Result, Stopping, run

Floats = NDArray[np.float64]
Sampling = Literal["permuted", "uniform", "gap"]

CERTIFICATE_PASSES = 10  # at most between certificates, each of which costs a pass
ACCURACY = 0.1  # requested gap of the marginal oracle, relative to the block's duality gap


class BlockCoordinateDescent(ABC):
    """The loop that both solvers share; they differ in the target of a step."""

    name: str
    sampling: Sampling
    averaging: bool = False
    first_guess = 0.05  # of a block's step length; later ones are its last one, within limits
    shortest_guess, longest_guess = 1e-6, 1.0
    tracks_entropies = False  # whether steps need each block's entropy between certificates

    def check(self, problem: DualProblem) -> None:
        """Needs nothing beyond the block contract."""
        check_option("sampling", self.sampling, ("permuted", "uniform", "gap"))

    @abstractmethod
    def _certify(
        self,
        problem: DualProblem,
        state: DualState,
        warm: list[Any],
        monitor: Monitor,
        iteration: int,
        average: Floats | None,
    ) -> Floats:
        """Record certified bounds at theta(tau), one oracle call per block; the blocks' gaps."""

    @abstractmethod
    def _target(
        self, problem: DualProblem, state: DualState, m: int, warm: list[Any], gap: float
    ) -> tuple[LinearStep, Floats]:
        """Where block m moves, and the moments there; one oracle call."""

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

        A step changes theta, so steps run one after the other and `n_jobs` has no effect.
        """
        self.check(problem)
        rng = random_state if random_state is not None else np.random.default_rng()
        monitor = Monitor(stopping, self.name)
        state = start(problem, warm)
        average = WeightedAverage(problem.n_features)
        n_blocks = len(problem.blocks)
        known: list[Any] = [None] * n_blocks  # of each block's oracle: prices, or its state

        def certify_at(sweep: int) -> Floats:
            mean = average.value.copy() if self.averaging and sweep else None
            return self._certify(problem, state, known, monitor, sweep, mean)

        def loop() -> DualState:
            guesses = np.full(n_blocks, np.nan)
            gaps = certify_at(0)
            t, due = 0, 1  # `due` is the pass of the next certificate
            for sweep in range(1, stopping.max_iter + 1):
                if monitor.stopped:
                    break
                for m in sampled(self.sampling, rng, n_blocks, gaps):
                    t += 1
                    gaps[m] = self._step(problem, state, m, t, known, guesses, gaps[m])
                    monitor.oracle_calls += 1
                    if self.averaging:
                        average.add(state.r / problem.alpha)
                    if monitor.out_of_time():
                        break
                if sweep >= due or sweep == stopping.max_iter or monitor.out_of_time():
                    due = certificate_after(sweep)
                    state.refresh(problem)
                    gaps = certify_at(sweep)
            return state

        result = run(problem, monitor, loop, lambda: problem.theta(state.r))
        if self.averaging and monitor.iterations:
            result.use(average.value, certify_theta(problem, state, known, average.value))
        result.state = state
        return result

    def _step(
        self, problem: DualProblem, state: DualState, m: int, t: int,
        warm: list[Any], guesses: Floats, gap: float,
    ) -> float:  # fmt: skip
        """One oracle call and one step of block m; returns the block's gap before it."""
        block, tau = problem.blocks[m], state.tau[m]
        towards, moments = self._target(problem, state, m, warm, gap)
        change = block.weight * (moments - state.moments[m])
        guess = guesses[m] if np.isfinite(guesses[m]) else self.first_guess
        eta = self._length(
            problem, block, tau, towards, -float(state.r @ change) / problem.alpha,
            float(change @ change) / problem.alpha, guess, t,
        )  # fmt: skip
        guesses[m] = min(max(eta, self.shortest_guess), self.longest_guess)
        if eta > 0.0:
            block.structure.stepping_entropy.move(tau, towards.vertex, eta)
            state.moments[m] += eta / block.weight * change
            state.r -= eta * change
            if self.tracks_entropies:
                state.entropies[m] = block.structure.entropy(tau) - block.offset_gap(tau)
        return towards.gap


@dataclass(frozen=True)
class BlockFrankWolfe(BlockCoordinateDescent):
    """The paper's block-coordinate algorithm.

    Parameters
    ----------
    step : "line_search", or "fixed" for 2M/(2M+t) starting at t = 1
    sampling : "permuted" passes, "uniform" with replacement, or "gap": proportional to the
        blocks' last known Frank-Wolfe gaps
    averaging : return the weighted average of the iterates' theta, which has a certificate only
        where the structure has a `price_bound`
    """

    step: Literal["line_search", "fixed"] = "line_search"
    sampling: Sampling = "permuted"
    averaging: bool = False

    name = "bcfw"

    def check(self, problem: DualProblem) -> None:
        super().check(problem)
        check_option("step", self.step, ("line_search", "fixed"))

    def _certify(
        self, problem: DualProblem, state: DualState, warm: list[Any], monitor: Monitor,
        iteration: int, average: Floats | None,
    ) -> Floats:  # fmt: skip
        found, _ = certify(problem, state, warm)
        monitor.oracle_calls += len(problem.blocks)
        monitor.record(
            iteration,
            problem.theta(state.r),
            dual=found.dual,
            primal=found.primal,
            fw_gap=found.fw_gap,
            average=average,
        )
        return found.block_gaps

    def _target(
        self, problem: DualProblem, state: DualState, m: int, warm: list[Any], gap: float
    ) -> tuple[LinearStep, Floats]:
        """The MAP vertex at scores G theta + grad H(tau)."""
        found = linear_step(problem, state, m, state.r / problem.alpha, warm[m], False)
        if found.prices is not None:
            warm[m] = found.prices
        return found, problem.blocks[m].moments_at(found.vertex)

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
        iteration: int, average: Floats | None,
    ) -> Floats:  # fmt: skip
        theta = problem.theta(state.r)
        gaps = np.empty(len(problem.blocks))
        wanted = ACCURACY * monitor.tolerance / len(problem.blocks)
        log_partition = 0.0
        for m, block in enumerate(problem.blocks):
            scores = block.scores(theta)
            found = block.structure.marginals(scores, warm[m], wanted)
            warm[m] = found.warm
            gaps[m] = self._gap(found, scores, state, m, block)
            log_partition += block.weight * found.upper_bound
        monitor.oracle_calls += len(problem.blocks)
        monitor.record(
            iteration,
            theta,
            dual=state.dual(problem),
            primal=problem.primal(theta, log_partition),
        )
        return gaps

    @staticmethod
    def _gap(found: Marginals, scores: Floats, state: DualState, m: int, block: Block) -> float:
        """A(scores) - <scores, tau_m> - H(tau_m), from above."""
        entropy = state.entropies[m] + block.offset_gap(state.tau[m])
        return found.upper_bound - float(scores @ state.tau[m]) - entropy

    def _target(
        self, problem: DualProblem, state: DualState, m: int, warm: list[Any], gap: float
    ) -> tuple[LinearStep, Floats]:
        """The marginals at scores G theta."""
        block, tau = problem.blocks[m], state.tau[m]
        scores = block.scores(state.r / problem.alpha)
        found = block.structure.marginals(scores, warm[m], ACCURACY * max(gap, 1e-12))
        warm[m] = found.warm
        gap = self._gap(found, scores, state, m, block)
        sums = block.structure.stepping_entropy.add_gradient(tau, scores)[1]
        vertex = Vertex(np.arange(tau.shape[0]), found.tau)
        return LinearStep(vertex, gap, scores, None, sums), block.moments(found.tau)


def block_step(
    block: Block,
    tau: Floats,
    towards: LinearStep,
    linear: float,
    quadratic: float,
    guess: float,
) -> float:
    """Exact line search: the step towards a vertex that minimises L.

    With a = G'(s - tau) and r = sum w G'(y - tau) the quadratic part of L(tau + eta (s - tau)) is
    known from two inner products, `linear` and `quadratic`, already divided by alpha; only the
    entropy is evaluated per trial. The step is capped below 1 because a vertex has infinite
    entropy gradient.
    """
    weight, vertex = block.weight, towards.vertex
    if block.offset is not None:
        linear -= weight * (vertex.dot(block.offset) - float(block.offset @ tau))
    eta = block.structure.stepping_entropy.line_search(
        tau, vertex, towards.sums, linear / weight, quadratic / weight, guess, MAX_STEP, RTOL
    )
    return float(eta)


def sampled(sampling: str, rng: np.random.Generator, n_blocks: int, gaps: Floats) -> list[int]:
    """Blocks of the next pass."""
    if sampling == "permuted":
        return rng.permutation(n_blocks).tolist()
    if sampling == "uniform":
        return rng.integers(n_blocks, size=n_blocks).tolist()
    weights = np.maximum(gaps, 0.0) + 1e-12 + 1e-3 * np.mean(np.abs(gaps))
    return rng.choice(n_blocks, size=n_blocks, p=weights / weights.sum()).tolist()


def certificate_after(sweep: int) -> int:
    """The pass of the next certificate; not by the clock, so that results repeat."""
    return sweep + min(max(sweep // 2, 1), CERTIFICATE_PASSES)
