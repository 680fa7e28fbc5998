"""The linear subproblem of a Frank-Wolfe step on one block: a MAP call, or a vertex kept before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._deadline import check_time
from ..algorithms.frank_wolfe import ROUNDING
from ..structures.contract import Vertex
from .dual_state import DualState
from .problem import Block, Problem

Floats = NDArray[np.float64]


@dataclass(slots=True)
class LinearStep:
    """Where a step of one block goes: vertex, gap and prices.

    moments : G' of the vertex, once it is known
    decoded : whether the oracle was called
    slack : the part of the gap that is between the vertex and the decoder's upper bound
    """

    vertex: Vertex
    gap: float
    scores: Floats
    prices: Floats | None
    sums: Any  # of the entropy, reused by the line search
    moments: Floats | None = None
    decoded: bool = True
    slack: float = 0.0


class WorkingSet:
    """The last vertices that a block's decoder has returned, with their moments."""

    def __init__(self, size: int):
        self._size = size
        self._known: dict[bytes, tuple[Vertex, Floats]] = {}  # the oldest first
        self._indices = self._owner = np.zeros(0, dtype=np.int64)
        self._values = np.zeros(0)

    def add(self, vertex: Vertex, moments: Floats) -> None:
        """Keep one more vertex; the oldest goes where there are too many."""
        key = vertex.indices.tobytes() + vertex.values.tobytes()
        self._known.pop(key, None)
        self._known[key] = vertex, moments
        if len(self._known) > self._size:
            del self._known[next(iter(self._known))]
        vertices = [vertex for vertex, _ in self._known.values()]
        self._indices = np.concatenate([vertex.indices for vertex in vertices])
        self._values = np.concatenate([vertex.values for vertex in vertices])
        sizes = [vertex.indices.shape[0] for vertex in vertices]
        self._owner = np.repeat(np.arange(len(vertices)), sizes)

    def restore(self, vertices: list[tuple[Vertex, Floats]]) -> None:
        """Take the vertices of another set, in their order."""
        for vertex, moments in vertices:
            self.add(vertex, moments)

    def vertices(self) -> list[tuple[Vertex, Floats]]:
        """All vertices with their moments, the oldest first."""
        return list(self._known.values())

    def best(self, direction: Floats) -> tuple[float, Vertex, Floats] | None:
        """The vertex of the largest score: (score, vertex, moments)."""
        if not self._known:
            return None
        parts = direction[self._indices] * self._values
        scores = np.bincount(self._owner, parts, len(self._known))
        place = int(np.argmax(scores))
        return float(scores[place]), *list(self._known.values())[place]


def linear_step(
    problem: Problem,
    state: DualState,
    m: int,
    theta: Floats,
    warm: Floats | None,
    want_prices: bool,
    known: WorkingSet | None = None,
    least: float = 0.0,
) -> LinearStep:
    """Maximise <G theta + o + grad H(tau_m), s> over the polytope of block m: one MAP call.

    There is none where a vertex of the working set `known` has a gap of at least `least`.
    """
    check_time("a pass of MAP calls")
    block = problem.blocks[m]
    structure, tau = block.structure, state.tau[m]
    scores = block.scores(theta)
    direction, sums = structure.stepping_entropy.add_gradient(tau, scores)
    here = float(direction.dot(tau))
    best = None if known is None else known.best(direction)
    if best is not None and best[0] - here >= least:
        score, vertex, moments = best
        return LinearStep(vertex, score - here, scores, None, sums, moments, decoded=False)
    found = block.decode(direction, warm, want_prices)
    upper = found.score + found.gap
    if structure.has_bound:
        # Of a certificate the observed output is a witness, too.
        attained = max(here, block.observed.dot(direction)) if want_prices else here
        if upper < attained:
            _require_rounding(block, direction, tau, upper, attained)
    gap = max(upper - here, 0.0)  # heuristics may score less than tau
    return LinearStep(found.vertex, gap, scores, found.prices, sums, slack=min(found.gap, gap))


def _require_rounding(
    block: Block, direction: Floats, tau: Floats, upper: float, attained: float
) -> None:
    """Raise where tau or the observed output scores more than the best vertex, by more than errors
    of rounding and the tolerances of integer programs.
    """
    size = float(np.abs(direction) @ tau) + abs(upper)
    if attained - upper > 1e-6 * max(1.0, float(np.abs(direction).max())) + ROUNDING * size:
        raise ValueError(
            f"{block.name}: decode says that no output scores more than {upper:.6g}, but the "
            f"observed output, or a mixture of it and outputs that decode has returned, scores "
            f"{attained:.6g}. decode must return the best one, interior be a mixture of outputs, "
            "and the gradient be that of the entropy; check_structure tests all of them"
        )
