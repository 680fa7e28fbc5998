"""The dual of the margin-rescaled hinge loss, block by block.

    primal   alpha/2 |theta|^2 + sum_m w_m max over y of [ loss_m(y) - <theta, G_m' (y_m - y)> ]
    dual     sum_m loss_m - |r|^2 / (2 alpha),   r = sum_m r_m,   theta = r / alpha

A block's dual point is a mean of outputs, of which only the loss and r_m = w_m G_m' (y_m - y) are
kept. The dual at any such point and the primal at any theta enclose the smallest objective.

The loss of an output is the share of its nodes that are wrong. Where the decoder works on a
relaxation, y runs over its vertices, some of which may be fractional: the hinge loss is then an
upper bound of the one over outputs, and what is certified is the minimum of this bound.
"""

from __future__ import annotations

import copy

import numpy as np
from numpy.typing import NDArray

from .._threads import Each
from ..learning.problem import Block, DualProblem
from .planes import Planes

Floats = NDArray[np.float64]


class HingeDual:
    """A dual point: outputs of every block and their weights, at most `memory` per block."""

    def __init__(self, problem: DualProblem, memory: int):
        self.problem = problem
        self.planes = Planes(len(problem.blocks), problem.n_features, memory)
        self.wrong = [_share_of_wrong_nodes(block) for block in problem.blocks]

    def with_alpha(self, problem: DualProblem) -> HingeDual:
        """The same dual point for the same data under another alpha."""
        other = copy.copy(self)
        other.problem, other.planes = problem, self.planes.copy()
        return other

    @property
    def theta(self) -> Floats:
        return self.planes.total / self.problem.alpha

    def value(self) -> float:
        """The dual value, a lower bound of the smallest objective."""
        return self.planes.value(self.problem.alpha)

    def refresh(self) -> None:
        """Improve the weights of all planes, and remove accumulated rounding."""
        self.planes.improve(self.problem.alpha)
        self.planes.refresh()

    def _most_violating(self, m: int, theta: Floats) -> tuple[Floats, float]:
        """The most violating output of block m at theta: its r_m, and its loss.

        Known offsets of the scores count as part of the loss.
        """
        block = self.problem.blocks[m]
        constant, scores = self.wrong[m]
        vertex = block.structure.decode(block.scores(theta) + scores).vertex
        residual = self.problem.observed_moments[m] - block.moments_at(vertex)
        loss = constant + vertex.dot(scores)
        if block.offset is not None:
            loss += vertex.dot(block.offset) - block.observed.dot(block.offset)
        return block.weight * residual, block.weight * loss

    def objective(self, theta: Floats, each: Each = map) -> float:
        """The primal objective at theta; one decoding per block, by `each`."""

        def hinge(m: int) -> float:
            part, loss = self._most_violating(m, theta)
            return loss - float(part @ theta)

        total = sum(each(hinge, range(len(self.problem.blocks))))
        return float(0.5 * self.problem.alpha * (theta @ theta) + total)

    def step(self, m: int) -> float:
        """Decode block m and move it towards its most violating outputs.

        Returns the block's gap before the step: the sum over all blocks at one theta is that
        between primal and dual.
        """
        theta, planes = self.theta, self.planes
        part, loss = self._most_violating(m, theta)
        gap = loss - planes.loss(m) - float((part - planes.parts[m]) @ theta)
        if gap <= 0.0:
            return 0.0
        planes.add(m, part, loss, self.problem.alpha)
        return gap


def _share_of_wrong_nodes(block: Block) -> tuple[float, Floats]:
    """The loss of an output y of the block as constant + <scores, y>."""
    structure = block.structure
    constant, scores = structure.hamming_loss(block.observed)
    own = constant + block.observed.dot(scores)
    if abs(own) > 1e-9:
        raise ValueError(
            f"{type(structure).__name__}: the observed output has a loss of {own:.3g} against "
            "itself. Where nodes with a capacity above 1 may use less of it, the share of wrong "
            "partners is not linear; fill all capacities (perfect=True) or use a CRF"
        )
    return constant, scores
