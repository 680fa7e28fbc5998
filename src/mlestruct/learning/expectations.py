"""Expected moments of all blocks under theta, those of small blocks with one output space at once.

A solver's round maps over *runs* of blocks. Most are single blocks; small ones whose structure
computes the marginals of many scores by one call (`marginals_each`) share a run, since the work
between compiled calls would take as long as these, and on one thread at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._threads import Each
from ..structures.contract import Marginals
from .problem import Block

Floats = NDArray[np.float64]
Answer = tuple[Marginals, Floats]


def runs_of(blocks: Sequence[Block]) -> list[slice]:
    """Blocks in their order, cut into runs. They do not depend on the number of threads."""
    cuts: list[int] = []
    last, room = None, 0.0
    for m, block in enumerate(blocks):
        structure, size = block.structure, block.size
        if structure is not last:
            last, joins = structure, structure.offers("marginals_each")
            room = 0.0
        if size > room or not joins:
            cuts.append(m)
            room = 2**14  # coordinates, which take some milliseconds
        room -= size
    return [slice(*ends) for ends in pairwise([*cuts, len(blocks)])]


def expect(
    blocks: Sequence[Block],
    theta: Floats,
    warm: Sequence[Any],
    tol: Floats,
    each: Each,
    check: Callable[[], None] = lambda: None,
) -> list[Answer]:
    """Marginals and their moments G' tau of every block; `check` is called before each run."""

    def one(run: slice) -> list[Answer]:
        check()
        part = blocks[run]
        if len(part) == 1:
            return [part[0].expect(theta, warm[run.start], tol[run.start])]
        scores = np.array([block.scores(theta) for block in part])
        found = part[0].structure.marginals_each(scores, warm[run], tol[run])
        return [(m, block.moments(m.tau)) for m, block in zip(found, part, strict=True)]

    return [answer for run in each(one, runs_of(blocks)) for answer in run]


def total_expectation(weights: Floats, answers: Sequence[Answer]) -> tuple[Floats, float, float]:
    """Weighted sums of moments, values and upper bounds, always in the order of the blocks."""
    expected = weights[0] * answers[0][1]
    for weight, (_, moments) in zip(weights[1:], answers[1:], strict=True):
        expected += weight * moments
    lower = float(weights @ [found.value for found, _ in answers])
    upper = float(weights @ [found.upper_bound for found, _ in answers])
    return expected, lower, upper


def total_covariance(
    blocks: Sequence[Block], weights: Floats, found: Sequence[Marginals], each: Each
) -> Floats:
    """sum_m w_m Cov_m, the covariance (K, K) of the features under the marginals of `expect`."""

    def one(run: slice) -> Floats:
        part = blocks[run]
        if len(part) == 1:
            return weights[run.start] * part[0].covariance(found[run.start])
        features = [block.matrix for block in part]
        return part[0].structure.total_covariance(found[run], features, weights[run])

    first, *others = each(one, runs_of(blocks))
    for other in others:
        first += other
    return first
