"""Block-coordinate descent in all partitions at the same time.

Every partition makes a pass over its own blocks from the common r, as if the others stood still
(CoCoA: Jaggi et al. 2014). With P partitions and their changes d_p of r, L is convex, so

    L(tau + (all changes) / P)  <=  mean over p of L(tau + change of p)  <  L(tau):

the mean of their results is always an improvement. The step gamma that is taken is longer where
that is better: it minimises  R*(r + gamma sum_p d_p) - gamma (change of the entropies),  which
bounds L along the segment, as the entropy is concave, and needs no further exchange. A pass
exchanges r, moments and numbers; where blocks are stays with the partition. What a partition loses
with its worker begins again at the start, and the bounds stay valid.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._threads import Each
from ..algorithms.frank_wolfe import minimise_by_slope
from .block_steps import BlockRules
from .certificate import Certificate
from .dual_state import MIXTURES, Start, best_mixture
from .partition import Descent, Point, Swept
from .problem import DualProblem
from .remote import RemoteBlock, Token

Floats = NDArray[np.float64]


class PartitionedPasses:
    """`Passes` over partitions. `state` has the tokens of their steps, and the share of the start.

    r : at the tau of all partitions
    gap : the sum of all blocks' gaps, as far as they are known
    """

    def __init__(
        self, rules: BlockRules, problem: DualProblem, rng: np.random.Generator, each: Each,
        where: Start, warm: tuple[list[Token], float] | None, known: dict[str, Any] | None,
    ):  # fmt: skip
        self._problem, self._each = problem, each
        self._blocks = [block for block in problem.blocks if isinstance(block, RemoteBlock)]
        sizes = np.array([block.n_observations for block in self._blocks])
        self._shares = (sizes / sizes.sum()).tolist()
        earlier: list[Token | None] = [None] * sizes.size if warm is None else [*warm[0]]
        if known is None:
            tokens = [block.connection.token() for block in self._blocks]
            share = 1.0 if where == "uniform" else self._best_mixture() if warm is None else warm[1]
            seeds = rng.integers(2**63, size=sizes.size).tolist()
            self.gap = np.inf
        else:
            (tokens, share), seeds, self.gap = known["state"], known["seeds"], known["gap"]
        self.state, self._seeds = (tokens, share), seeds
        self._descents = [
            Descent(rules, problem.penalty, token.number, seed, share, block.connection.number(old))
            for block, token, seed, old in zip(self._blocks, tokens, seeds, earlier, strict=True)
        ]
        self._take(self._all("settle", [1.0] * len(tokens)))

    def _all(self, method: str, *arguments: Sequence[Any]) -> list[Any]:
        """Ask every partition, with arguments of its own."""

        def one(block: RemoteBlock, descent: Descent, *own: Any) -> Any:
            return block.connection(method, descent, *own)

        return list(self._each(one, self._blocks, self._descents, *arguments))

    def _best_mixture(self) -> float:
        penalty = self._problem.penalty
        found = list(self._each(lambda block: block.connection("mixtures", penalty), self._blocks))
        terms = dict(zip(MIXTURES, np.sum([own for _, own in found], axis=0), strict=True))
        residual = np.sum([own for own, _ in found], axis=0)
        return best_mixture(penalty, residual, lambda share: float(terms[share]))

    def _take(self, points: list[Point]) -> None:
        self._points = points
        self.r = self._problem.target - np.sum([own.moments for own in points], axis=0)

    def certify(self, tolerance: float) -> Certificate:
        """Bounds at theta(r); again where a partition is no longer where it was."""
        while True:
            common = [self.r] * len(self._blocks)
            tolerances = [share * tolerance for share in self._shares]
            found = self._all("certify", common, tolerances)
            before = self._points
            self._take([point for _, _, point in found])
            pairs = zip(before, self._points, strict=True)
            if all(np.array_equal(old.moments, new.moments) for old, new in pairs):
                break
        self.gap = sum(gap for _, gap, _ in found)
        parts = [certificate for certificate, _, _ in found]
        return Certificate(
            sum(own.entropy for own in parts),
            sum(own.log_partition for own in parts),
            sum(own.fw_gap for own in parts),
            sum(own.slack for own in parts),
        )

    def sweep(self) -> tuple[bool, int]:
        """A pass in every partition, and the best step from before to after."""
        swept: list[Swept] = self._all("sweep", [self.r] * len(self._blocks))
        self._take([own.before for own in swept])
        change = np.sum([own.before.moments - own.after.moments for own in swept], axis=0)
        rise = sum(own.after.entropy - own.before.entropy for own in swept)

        def slope(step: float) -> float:
            return float(self._problem.theta(self.r + step * change) @ change) - rise

        step = 1.0 if slope(1.0) <= 0.0 else minimise_by_slope(slope, 0.5)
        self._take(self._all("settle", [step] * len(swept)))
        self.gap = sum(own.gap for own in swept)
        return any(own.decoded for own in swept), sum(own.calls for own in swept)

    def checkpoint(self) -> dict[str, Any]:
        """What continues the passes; the partitions keep the rest."""
        return {"state": self.state, "seeds": self._seeds, "gap": self.gap}
