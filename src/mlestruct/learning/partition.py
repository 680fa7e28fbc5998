"""Blocks and the states of their oracles where the samples are.

On another machine, in another process, or in a file. A `RemoteBlock` (`remote.py`) is the solver's
view of a partition. A round sends theta and returns the sums of moments, values and bounds; with
Newton also a (K, K) covariance. Block-coordinate solvers make passes over the blocks of every
partition at the same time (`partitioned_passes.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._threads import Each, threaded_map
from ..exceptions import CheckpointError
from ..structures.contract import Marginals
from .block_steps import BlockRules, BlockSteps
from .certificate import Certificate
from .checkpoint import read_state, write_state
from .dual_state import MIXTURES, DualState, Mixtures
from .expectations import expect, total_covariance, total_expectation
from .lbfgs import joined_second_moments
from .penalty import ElasticNet
from .problem import Block, DualProblem, Surrogate, Tangent
from .result import blas_threads

Floats = NDArray[np.float64]
States = MutableMapping[int, Any]
"""What next calls start from: marginals of all blocks, or their `BlockSteps`."""

CAPABILITIES = ("decode", "interior", "marginals", "feature_covariance", "expectation")


@dataclass(frozen=True)
class Facts:
    """What a solver must know of a partition before the first round.

    size : coordinates of all blocks, by their weights
    observed, squares, offset_score : sums over blocks of w G'y, w |G'y|^2 and w <o, y>
    capabilities : what the structures of all blocks offer
    """

    n_blocks: int
    n_features: int
    size: float
    observed: Floats
    squares: float
    offset_score: float
    capabilities: frozenset[str]
    has_bound: bool
    prefers_decoding: bool
    has_matrix: bool
    has_covariance: bool
    has_surrogate: bool
    has_partial: bool
    fingerprint: str
    feature_names: tuple[str, ...] | None


@dataclass(frozen=True)
class Expectation:
    """Sums over the blocks of a partition: values, upper bounds, moments."""

    value: float
    upper_bound: float
    moments: Floats
    iterations: int


@dataclass(frozen=True)
class Descent:
    """Block steps of one solver in a partition, which starts them if it does not know them.

    number : under which the partition keeps them
    share : of the interior point in the start
    warm : the number of steps from whose marginals to start instead
    """

    rules: BlockRules
    penalty: ElasticNet
    number: int
    seed: int
    share: float
    warm: int | None


@dataclass(frozen=True)
class Point:
    """Sums over the blocks of a partition at their tau: w G'tau and w (H + <o, tau - y>)."""

    moments: Floats
    entropy: float


@dataclass(frozen=True)
class Swept:
    """A pass over the blocks of a partition; see `Passes` for `decoded`, `calls` and `gap`."""

    before: Point
    after: Point
    decoded: bool
    calls: int
    gap: float


class Partition:
    """Blocks and the states of their oracles, kept under the numbers that the solver gives them."""

    def __init__(self, blocks: Sequence[Block], n_jobs: int = 1, states: States | None = None):
        self._blocks = list(blocks)
        self._weights = np.array([block.weight for block in blocks], dtype=np.float64)
        sizes = np.array([block.size for block in blocks])
        self._size = float(self._weights @ sizes)
        self._shares = sizes / max(self._size, 1e-300)
        self._n_jobs = n_jobs
        self._states: States = {} if states is None else states
        self._surrogates: tuple[float, list[Surrogate]] = (np.nan, [])
        self._tangents: dict[int, list[Block]] = {}
        self._problem: DualProblem | None = None

    def facts(self) -> Facts:
        """Sums and capabilities of all blocks."""
        blocks = self._blocks
        moments = [block.observed_moments for block in blocks]
        squares = [b.observed_square(own) for b, own in zip(blocks, moments, strict=True)]
        names = blocks[0].features.feature_names if blocks else None
        prints = "".join(f"{b.size:g} {b.structure.fingerprint} " for b in blocks)
        return Facts(
            n_blocks=len(blocks),
            n_features=blocks[0].features.n_features if blocks else 0,
            size=self._size,
            observed=_weighted_sum(self._weights, moments),
            squares=float(self._weights @ squares),
            offset_score=_offset_score(self._weights, blocks),
            capabilities=frozenset(
                name for name in CAPABILITIES if all(b.structure.offers(name) for b in blocks)
            ),
            has_bound=all(block.structure.has_bound for block in blocks),
            prefers_decoding=any(block.structure.prefers_decoding for block in blocks),
            has_matrix=all(block.features.matrix is not None for block in blocks),
            has_covariance=all(block.has_covariance for block in blocks),
            has_surrogate=any(block.has_surrogate for block in blocks),
            has_partial=any(block.partial is not None for block in blocks),
            fingerprint=hashlib.sha256(prints.encode()).hexdigest(),
            feature_names=None if names is None else tuple(names),
        )

    def answer(self, dropped: Iterable[int], method: str, *arguments: Any) -> Any:
        """Call a method, after forgetting states and tangents that the solver no longer holds."""
        for number in dropped:
            self._states.pop(number, None)
            self._tangents.pop(number, None)
        return getattr(self, method)(*arguments)

    def expect(
        self, theta: Floats, tol: float, start: int | None, name: int, tangent: Tangent | None
    ) -> Expectation:
        """Marginals of all blocks from the state `start` on, kept as `name`; their sums.

        A state that is not known, as it was lost with a worker, is replaced by a cold start.
        """
        blocks = self._blocks if tangent is None else self._tangent_blocks(tangent)
        before = None if start is None else self._states.get(start)
        warm = [None] * len(blocks) if before is None else [found.warm for found in before]
        with self._threads() as each:
            answers = expect(blocks, theta, warm, tol * self._shares, each)
        self._states[name] = [found for found, _ in answers]
        moments, value, upper = total_expectation(self._weights, answers)
        return Expectation(value, upper, moments, sum(found.iterations for found, _ in answers))

    @contextmanager
    def _threads(self) -> Iterator[Each]:
        blocks, n_jobs = self._blocks, self._n_jobs
        with threaded_map(n_jobs, len(blocks)) as each, blas_threads(blocks, n_jobs):
            yield each

    def covariance(self, name: int) -> Floats | None:
        """Covariance of the features under the marginals `name`; None if these were lost."""
        known = self._states.get(name)
        if known is None:
            return None
        with threaded_map(self._n_jobs, len(known)) as each, blas_threads(self._blocks, 1):
            return total_covariance(self._blocks, self._weights, known, each)

    def score_range(self, step: Floats) -> float:
        """The widest range of scores in any block."""
        return max(block.features.score_range(step) for block in self._blocks)

    def second_moments(self) -> list[tuple[Floats, Floats]] | None:
        """Those of all blocks, as `FeatureMap.second_moments` has them for one."""
        return joined_second_moments(self._blocks)

    def tangent(self, tangent: Tangent) -> float:
        """Make the surrogates of a tangent; sum_m w_m <o_m, y_m> with their offsets."""
        return _offset_score(self._weights, self._tangent_blocks(tangent))

    def dual_terms(self, share: float, name: int) -> tuple[Floats, float] | None:
        """Sums of `Surrogate.dual_terms` at the marginals `name`; None if these were lost."""
        known = self._states.get(name)
        if known is None:
            return None
        forms = self._surrogates_of(share)
        terms = [form.dual_terms(found) for form, found in zip(forms, known, strict=True)]
        moments = _weighted_sum(self._weights, [own for own, _ in terms])
        return moments, float(self._weights @ [term for _, term in terms])

    # ------------------------------------------------------------------ moves and checkpoints
    def held(self) -> States:
        """All that is kept, for the same partition in another process."""
        return self._states

    def digest(self, theta: Floats) -> bytes:
        """A hash of the data of all blocks, other than that of the blocks alone."""
        joined = b"".join(block.digest(theta) for block in self._blocks)
        return hashlib.blake2b(joined, digest_size=16).digest()

    def save(self, number: int, path: Path) -> bool:
        """Write what is kept under a number to a file, if there is something."""
        known = self._states.get(number)
        if known is None:
            return False
        try:
            write_state(path, known.checkpoint() if isinstance(known, BlockSteps) else known)
        except OSError as error:
            raise CheckpointError(
                f"checkpoint: a partition cannot write to {path.parent} ({error}); name a folder "
                "that all workers share"
            ) from error
        return True

    def load(self, number: int, path: Path) -> None:
        """Take what `save` has written."""
        self._states[number] = read_state(path)

    # ------------------------------------------------------------------ block steps
    def mixtures(self, penalty: ElasticNet) -> tuple[Floats, list[float]]:
        """What `best_mixture` needs of a start between observed outputs and the interior."""
        known = Mixtures(self._problem_of(penalty))
        return known.residual, [known.terms(share) for share in MIXTURES]

    def certify(
        self, descent: Descent, r: Floats, tolerance: float
    ) -> tuple[Certificate, float, Point]:
        """Bounds at theta(r), the sum of the blocks' gaps, and where they are."""
        problem, steps = self._steps(descent, r)
        with self._threads() as each:
            found = steps.certify(problem, tolerance, each)
        self._states[descent.number] = steps
        return found, steps.gap(problem), _point(problem, steps.state)

    def sweep(self, descent: Descent, r: Floats) -> Swept:
        """One pass from r on, as if all other partitions stood still."""
        problem, steps = self._steps(descent, r)
        state = steps.state
        before = _point(problem, state)
        steps.before = [tau.copy() for tau in state.tau], state.moments.copy()
        with self._threads() as each:
            calls = steps.sweep(problem, each, lambda: None, lambda: False)
        state.refresh_entropies(problem)
        self._states[descent.number] = steps
        after = _point(problem, state)
        return Swept(before, after, steps.idle == 0, calls, steps.gap(problem))

    def settle(self, descent: Descent, step: float) -> Point:
        """Take only a part of the last pass."""
        problem, steps = self._steps(descent, None)
        if steps.before is not None and step < 1.0:
            state, (marginals, moments) = steps.state, steps.before
            for old, tau in zip(marginals, state.tau, strict=True):
                tau += (1.0 - step) * (old - tau)
            state.moments += (1.0 - step) * (moments - state.moments)
            state.refresh_entropies(problem)
        steps.before = None
        self._states[descent.number] = steps
        return _point(problem, steps.state)

    def _steps(self, descent: Descent, r: Floats | None) -> tuple[DualProblem, BlockSteps]:
        """Steps that were lost with a worker begin again."""
        problem = self._problem_of(descent.penalty)
        steps = self._states.get(descent.number)
        if isinstance(steps, dict):  # of a checkpoint
            state, rng = DualState.restored(problem, steps["state"]), np.random.default_rng(0)
            saved, steps = steps, BlockSteps(descent.rules, problem, state, rng)
            steps.restore(saved)
        if steps is None:
            warm = None if descent.warm is None else self._states.get(descent.warm)
            if warm is None:
                state = Mixtures(problem).state(descent.share)
            else:
                state = DualState.at(problem, [tau.copy() for tau in warm.state.tau])
            rng = np.random.default_rng(descent.seed)
            steps = BlockSteps(descent.rules, problem, state, rng)
        if r is not None:
            steps.state.r = r.copy()
        return problem, steps

    def _problem_of(self, penalty: ElasticNet) -> DualProblem:
        if self._problem is None:
            self._problem = DualProblem(self._blocks, penalty.alpha, penalty.l1_ratio)
        elif self._problem.penalty != penalty:
            self._problem = self._problem.with_alpha(penalty.alpha)
        return self._problem

    def _surrogates_of(self, share: float) -> list[Surrogate]:
        if self._surrogates[0] != share:
            self._surrogates = share, [block.surrogate(share) for block in self._blocks]
        return self._surrogates[1]

    def _tangent_blocks(self, tangent: Tangent) -> list[Block]:
        """Made when first asked for, and again after a loss: then with tangents nowhere."""
        if tangent.key not in self._tangents:
            forms = self._surrogates_of(tangent.share)
            at = None if tangent.at is None else self._states.get(tangent.at)
            found: Sequence[Marginals | None] = [None] * len(forms) if at is None else at
            pairs = zip(forms, found, strict=True)
            self._tangents[tangent.key] = [form.block(form.offset(own)) for form, own in pairs]
        return self._tangents[tangent.key]


def _point(problem: DualProblem, state: DualState) -> Point:
    moments = problem.weights @ state.moments
    return Point(moments, float(problem.weights @ state.entropies))


def _weighted_sum(weights: Floats, parts: Sequence[Floats]) -> Floats:
    """sum_m w_m part_m, in the order of the blocks."""
    total = np.zeros(0) if not parts else weights[0] * parts[0]
    for weight, part in zip(weights[1:], parts[1:], strict=True):
        total += weight * part
    return total


def _offset_score(weights: Floats, blocks: Sequence[Block]) -> float:
    return float(weights @ [block.offset_score for block in blocks])
