"""Certified marginals of binary 4-connected grids at rho = 1/2."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from . import _grid_message_passing_kernels as kernels
from .schedule import only_rounding_left, sweeps_needed

Floats = NDArray[np.float64]

LARGEST_SCORE = 150.0  # of a node, and below of an edge, that the linear domain can represent
LARGEST_COUPLING = 50.0


def in_linear_range(shape: tuple[int, int], scores: Floats) -> bool:
    """Whether the scores are small enough for the linear domain."""
    n_nodes = shape[0] * shape[1]
    nodes, edges = scores[:n_nodes], scores[n_nodes:]
    return bool(
        max(nodes.max(initial=0.0), -nodes.min(initial=0.0)) <= LARGEST_SCORE
        and max(edges.max(initial=0.0), -edges.min(initial=0.0)) <= LARGEST_COUPLING
    )


def grid_marginals(
    shape: tuple[int, int], scores: Floats, warm: Floats | None, tol: float, max_sweeps: int
) -> tuple[Floats, float, float, Floats, int]:
    """(tau, value, upper bound, warm, sweeps) in minimal coordinates; see `BinaryPairwise`.

    `warm` holds the backward messages, shape (2, n_nodes).
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
    sweeps, following = 0, 1
    losses: list[float] = []
    while True:
        for _ in range(following):
            kernels.pass_messages(height, width, odds, across, along, left, above, right, below)
        sweeps += following
        upper = kernels.bound_and_beliefs(odds, left, above, right, below, belief)
        loss = kernels.feasible_point(height, width, strength, left, above, belief, rest, tau)
        losses.append(loss)
        if loss <= tol or sweeps >= max_sweeps or only_rounding_left(losses, upper):
            break
        following = min(sweeps_needed(losses, following, tol), max_sweeps - sweeps)
    return tau, float(upper - loss), float(upper), backward, sweeps
