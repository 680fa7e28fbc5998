"""Shape-context descriptors: where, seen from one point, the other points lie.

Each point gets a histogram over 5 log-spaced radii (1/8, 1/4, 1/2, 1 and 2 times the mean
distance of the point set) and 12 angles.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._arguments import as_count, as_table

Floats = NDArray[np.float64]

RADII = (0.125, 0.25, 0.5, 1.0, 2.0)
N_ANGLES = 12  # of the log-polar histogram, as in the literature
N_BINS = len(RADII) * N_ANGLES


def shape_context(points: ArrayLike) -> Floats:
    """Descriptors of a point set.

    Parameters
    ----------
    points : array of shape (n, 2)

    Returns
    -------
    ndarray of shape (n, 60): counts per (radius, angle); bin r * 12 + a holds the points within
    the r-th radius (not within the one before; beyond the last one counts there) whose direction
    falls in [a, a + 1) * 30 degrees.
    """
    at = as_table(points, "points", "n", 2)
    as_count(len(at), "len(points)", 2)
    n = at.shape[0]
    offset = at[None, :, :] - at[:, None, :]
    distance = np.hypot(offset[..., 0], offset[..., 1])
    others = ~np.eye(n, dtype=bool)
    mean = distance[others].mean()
    scale = mean if mean > 0 else 1.0
    radius = np.minimum(np.searchsorted(RADII, distance / scale), len(RADII) - 1)
    turn = np.arctan2(offset[..., 1], offset[..., 0]) % (2 * np.pi) / (2 * np.pi)
    angle = np.minimum((turn * N_ANGLES).astype(int), N_ANGLES - 1)
    bins = radius * N_ANGLES + angle
    histogram = np.zeros((n, N_BINS))
    rows = np.broadcast_to(np.arange(n)[:, None], bins.shape)
    np.add.at(histogram, (rows[others], bins[others]), 1.0)
    return histogram


def descriptor_features(left: ArrayLike, right: ArrayLike) -> Floats:
    """-(difference of descriptor bins)^2 for all pairs, shape (n_left, n_right, n_bins)."""
    a = as_table(left, "left", "n_left", "n_bins")
    b = as_table(right, "right", "n_right", a.shape[1])
    return -((a[:, None, :] - b[None, :, :]) ** 2)
