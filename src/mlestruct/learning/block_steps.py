"""Steps of single blocks, and passes over the blocks that are in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from .._compile import kernel
from .._deadline import is_over
from ..algorithms.frank_wolfe import MAX_STEP, RTOL
from .certificate import Certificate
from .dual_state import DualState
from .linear_step import LinearStep, WorkingSet
from .problem import Block, Problem

if TYPE_CHECKING:
    from .block_frank_wolfe import BlockFrankWolfe

Floats = NDArray[np.float64]
Sampling = Literal["permuted", "uniform", "gap"]

FIRST_GUESS = 0.05  # of a block's step length; later ones are its last one, within limits
GUESSES = 1e-6, 1.0
IDLE_PASSES = 100  # in a row that need no oracle call; then every block makes one


class BlockSteps:
    """All that the next steps of some blocks depend on, beside the problem itself.

    known : of each block's oracle: prices, or its state
    kept : the working set of each block
    gaps : of each block, as it was known last
    targets : of each block in the next pass, where a certificate has found it
    t, idle : steps so far, and passes in a row without an oracle call
    """

    def __init__(
        self, rules: BlockFrankWolfe, problem: Problem, state: DualState, rng: np.random.Generator
    ):
        n_blocks, size = len(problem.blocks), rules.working_set
        self.rules, self.state, self.rng = rules, state, rng
        self.known: list[Any] = [None] * n_blocks
        self.kept = [WorkingSet(size) if size else None for _ in range(n_blocks)]
        self.guesses = [FIRST_GUESS] * n_blocks
        self.gaps = np.zeros(n_blocks)
        self.targets: list[LinearStep | None] = [None] * n_blocks
        self.t = self.idle = 0

    def gap(self, problem: Problem) -> float:
        """The sum of the blocks' gaps."""
        return float(problem.weights @ self.gaps)

    def certify(self, problem: Problem, tolerance: float) -> Certificate:
        """Bounds at theta(r); each block is still there in the next pass, and moves accordingly."""
        found, steps = self.rules.bounds(problem, self.state, self.known, tolerance)
        self.gaps[:] = [step.gap for step in steps]
        if self.rules.reuse_vertices and self.rules.step == "line_search":
            self.targets[:] = steps
        return found

    def sweep(self, problem: Problem, stepped: Callable[[], Any]) -> int:
        """One pass, `stepped` being called after each step; the number of oracle calls."""
        calls = 0
        self.idle += 1

        def find(m: int) -> LinearStep:
            gap = np.inf if self.idle >= IDLE_PASSES else self.gaps[m]
            return self.rules.target(problem, self.state, m, self.known, gap, self.kept[m])

        def find_together(blocks: list[int]) -> int:
            wanted = [m for m in blocks if self.targets[m] is None]
            found = list(problem.each(find, wanted))
            for m, towards in zip(wanted, found, strict=True):
                self.targets[m] = towards
            return sum(towards.decoded for towards in found)

        order = sampled(self.rules.sampling, self.rng, len(problem.blocks), self.gaps)
        for chosen in batches(order, self.rules.batch):
            if len(chosen) > 1:
                calls += find_together(chosen)
            for m in chosen:
                towards, self.targets[m] = self.targets[m], None
                if towards is None:
                    towards = find(m)
                    calls += towards.decoded
                self.t += 1
                if towards.decoded:
                    self.gaps[m], self.idle = towards.gap, 0
                self._step(problem, m, towards)
                stepped()
            if is_over():
                break
        self.targets = [None] * len(problem.blocks)
        return calls

    def _step(self, problem: Problem, m: int, towards: LinearStep) -> None:
        """One step of block m."""
        rules, state, kept = self.rules, self.state, self.kept[m]
        block, tau, here = problem.blocks[m], state.tau[m], state.moments[m]
        there = block.moments_at(towards.vertex) if towards.moments is None else towards.moments
        if kept is not None and towards.decoded:
            kept.add(towards.vertex, there)
        slope, square = products(problem.penalty.soft(state.r), here, there)
        scale = block.weight / problem.penalty.l2
        linear, quadratic = -scale * slope, scale * block.weight * square
        eta = rules.length(problem, block, tau, towards, linear, quadratic, self.guesses[m], self.t)
        self.guesses[m] = min(max(eta, GUESSES[0]), GUESSES[1])
        if eta > 0.0:
            block.structure.stepping_entropy.move(tau, towards.vertex, eta)
            advance(state.r, here, there, eta, block.weight)

    def checkpoint(self) -> dict[str, Any]:
        """What continues the passes, between two of them; targets are not kept."""
        return {
            "state": vars(self.state), "rng": self.rng.bit_generator.state, "known": self.known,
            "kept": [[] if own is None else own.vertices() for own in self.kept],
            "guesses": self.guesses, "gaps": self.gaps, "place": (self.t, self.idle),
        }  # fmt: skip

    def restore(self, known: dict[str, Any]) -> None:
        """Continue from a checkpoint, whose marginals are the state already."""
        self.rng.bit_generator.state = known["rng"]
        self.guesses, self.gaps, self.known = known["guesses"], known["gaps"], known["known"]
        self.t, self.idle = known["place"]
        for own, vertices in zip(self.kept, known["kept"], strict=True):
            if own is not None:
                own.restore(vertices)


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
