"""Certified marginals of binary 4-connected grids at rho = 1/2."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..._deadline import is_over
from . import _grid_message_passing_kernels as kernels
from .schedule import first_sweeps, only_rounding_left, pass_in_time, sweeps_needed

Floats = NDArray[np.float64]


def in_linear_range(shape: tuple[int, int], scores: Floats) -> bool:
    """Whether the linear domain represents the scores.

    Odds exp(score) and strengths exp(2 coupling), and products of a few of them, must be in the
    range of floating-point numbers.
    """
    n_nodes = shape[0] * shape[1]
    nodes, edges = scores[:n_nodes], scores[n_nodes:]
    return bool(
        max(nodes.max(initial=0.0), -nodes.min(initial=0.0)) <= 150.0
        and max(edges.max(initial=0.0), -edges.min(initial=0.0)) <= 50.0
    )


def grid_marginals(
    shape: tuple[int, int], scores: Floats, warm: Floats | None, tol: float, max_sweeps: int
) -> tuple[Floats, float, float, Floats, int]:
    """(tau, value, upper bound, warm, sweeps) in minimal coordinates; see `BinaryPairwise`.

    scores and tau have the shape (n_nodes + n_edges,); `warm` holds the backward messages, shape
    (2, n_nodes). log Z_rho lies in [value, upper bound].
    """
    height, width = shape
    n = height * width
    odds = np.exp(scores[:n])
    strength = np.exp(2.0 * scores[n:])
    across, along = strength[: height * (width - 1)], strength[height * (width - 1) :]
    backward = np.ones((2, n)) if warm is None else warm.copy()
    right, below = backward
    left, above, belief, rest = np.ones(n), np.ones(n), np.empty(n), np.empty(n)
    tau = np.empty(scores.shape[0])
    messages = odds, across, along, left, above, right, below
    sweep = partial(kernels.pass_messages, height, width, *messages)
    sweeps, following = 0, first_sweeps(max_sweeps)
    losses: list[float] = []
    while True:
        following = pass_in_time(lambda _: sweep(), following)
        sweeps += following
        upper = kernels.bound_and_beliefs(odds, left, above, right, below, belief)
        loss = kernels.feasible_point(height, width, strength, left, above, belief, rest, tau)
        losses.append(loss)
        ended = sweeps >= max_sweeps or is_over()
        if loss <= tol or ended or only_rounding_left(losses, upper):
            break
        following = min(sweeps_needed(losses, following, tol), max_sweeps - sweeps)
    return tau, float(upper - loss), float(upper), backward, sweeps
