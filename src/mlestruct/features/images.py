"""Features of images for grid models: colour, position and gradients of pixels, contrast of edges.

These are the features with which Domke (2013, "Learning graphical model parameters with
approximate marginal inference") segments the Weizmann horses: colour and position expanded by
sinusoids and histograms of oriented gradients (HOG) for pixels; thresholded colour difference and
Sobel response for edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import ndimage

from .levels import Levels

Floats = NDArray[np.float64]

BASE = ("red", "green", "blue", "x", "y")
SUBSETS = np.array([c for c in product((0, 1), repeat=5) if any(c)], dtype=np.float32)
LUMA = np.array([0.299, 0.587, 0.114])

CELL = 8  # pixels
ORIENTATIONS = 9  # of gradients in a cell, as in the literature

# On the horses at 200 pixels a side the colour difference exceeds these for 41 % (first) to 1.5 %
# (last) of the edges, the Sobel response for 69 % to 5 %.
COLOUR_THRESHOLDS = np.arange(1, 11) * 0.05
SOBEL_THRESHOLDS = np.arange(1, 11) * 0.02

# Steps (down, right) from the first pixel of an edge to the second.
RIGHT, DOWN, DOWN_RIGHT, DOWN_LEFT = (0, 1), (1, 0), (1, 1), (1, -1)


def node_features(
    image: ArrayLike, *, hog: bool = True, expansion: bool = True
) -> NDArray[np.float32]:
    """Features of every pixel, of order one, float32 of shape (height, width, n_features).

    In order: a constant; red, green, blue; the position x (rightwards) and y (downwards), all in
    [0, 1]; with `expansion` the 31 sines sin(pi c.s) and 31 cosines cos(pi c.s) of the sums over
    all non-empty subsets c of these five; with `hog` the 36 components of the histogram of
    oriented gradients around the pixel. That makes 104 in all. See `node_feature_names`.

    Parameters
    ----------
    image : array of shape (height, width, 3), or (height, width) for grey, uint8 or in [0, 1]
    hog : needs scikit-image (the extra "images")
    """
    rgb = _checked(image)
    height, width = rgb.shape[:2]
    y, x = np.mgrid[:height, :width] + 0.5
    base = np.dstack([rgb, x / width, y / height]).astype(np.float32)
    parts = [np.ones((height, width, 1), dtype=np.float32), base]
    if expansion:
        angle = np.float32(np.pi) * (base @ SUBSETS.T)
        parts += [np.sin(angle), np.cos(angle)]
    if hog:
        parts.append(_hog(rgb))
    return np.concatenate(parts, axis=2)


def node_feature_names(*, hog: bool = True, expansion: bool = True) -> list[str]:
    """Names of the features of `node_features`, in order."""
    names = ["constant", *BASE]
    if expansion:
        sums = ["+".join(n for n, c in zip(BASE, row, strict=True) if c) for row in SUBSETS]
        names += [f"{wave}(pi({s}))" for wave in ("sin", "cos") for s in sums]
    if hog:
        corners = ("upper left", "upper right", "lower left", "lower right")
        names += [f"hog {corner} {o}" for corner in corners for o in range(ORIENTATIONS)]
    return names


def edge_features(
    image: ArrayLike,
    *,
    neighbours: int = 4,
    thresholds: Sequence[ArrayLike] | None = None,
) -> tuple[Levels, ...]:
    """Thresholded contrast of neighbouring pixels, one `Levels` for each direction.

    The two channels are the Euclidean distance of the colours, and the larger Sobel response
    (length of the gradient of the grey image, per pixel) of the two pixels. With the default
    thresholds an edge has 21 features: a constant and 10 indicators for each channel.

    Parameters
    ----------
    image : array of shape (height, width, 3), or (height, width) for grey, uint8 or in [0, 1]
    neighbours : 4 or 8
    thresholds : pair of increasing arrays, for the distance of colours and for the Sobel response

    Returns
    -------
    right : edges (r, c)-(r, c+1), height * (width - 1) of them
    down : edges (r, c)-(r+1, c), (height - 1) * width of them
    down_right : edges (r, c)-(r+1, c+1), (height - 1) * (width - 1) of them; 8 neighbours only
    down_left : edges (r, c)-(r+1, c-1), as many, c from 1; 8 neighbours only
        Each in row-major order of (r, c).
    """
    if neighbours not in (4, 8):
        raise ValueError(f"neighbours: expected 4 or 8, got {neighbours!r}")
    steps = (COLOUR_THRESHOLDS, SOBEL_THRESHOLDS) if thresholds is None else tuple(thresholds)
    if len(steps) != 2:
        raise ValueError(f"thresholds: expected two arrays, for colour and Sobel, got {len(steps)}")
    rgb = _checked(image)
    sobel = _sobel(rgb @ LUMA)
    directions = (RIGHT, DOWN) if neighbours == 4 else (RIGHT, DOWN, DOWN_RIGHT, DOWN_LEFT)
    found = []
    for down, right in directions:
        first, second = _ends(rgb, down, right)
        distance = np.sqrt(((first - second) ** 2).sum(axis=2))
        larger = np.maximum(*_ends(sobel, down, right))
        values = np.stack([distance.ravel(), larger.ravel()], axis=1)
        found.append(Levels.from_values(values, steps))
    return tuple(found)


def edge_feature_names(*, thresholds: Sequence[ArrayLike] | None = None) -> list[str]:
    """Names of the features of each of the `Levels` of `edge_features`, in order."""
    colour, sobel = (COLOUR_THRESHOLDS, SOBEL_THRESHOLDS) if thresholds is None else thresholds
    names = ["constant"]
    names += [f"colour > {t:.4g}" for t in np.asarray(colour)]
    names += [f"sobel > {t:.4g}" for t in np.asarray(sobel)]
    return names


def _checked(image: ArrayLike) -> Floats:
    """`image` as an RGB array in [0, 1]."""
    expected = "image: expected shape (height, width, 3) or (height, width)"
    try:
        found = np.asarray(image)
    except ValueError as error:
        raise ValueError(f"{expected}: {error}") from None
    if found.ndim not in (2, 3) or (found.ndim == 3 and found.shape[2] != 3):
        raise ValueError(f"{expected}, got {found.shape}")
    if found.size == 0:
        raise ValueError(f"{expected} with at least one pixel, got {found.shape}")
    if found.dtype == np.uint8:
        rgb = found / 255.0
    elif found.dtype.kind == "f":
        rgb = found.astype(np.float64)
    else:
        raise ValueError(f"image: expected uint8, or floats in [0, 1], got dtype {found.dtype}")
    if np.isnan(rgb).any():
        raise ValueError(f"image: {np.isnan(rgb).sum()} of {rgb.size} values are NaN")
    rounding = 1e-6  # of float32 images that were resized
    if rgb.min() < -rounding or rgb.max() > 1.0 + rounding:
        raise ValueError(
            f"image: floats must lie in [0, 1], found {rgb.min():.4g} to {rgb.max():.4g}"
        )
    return np.repeat(rgb[:, :, None], 3, axis=2) if rgb.ndim == 2 else rgb


def _ends(array: Floats, down: int, right: int) -> tuple[Floats, Floats]:
    """The values at the first and the second pixel of all edges in a direction."""
    height, width = array.shape[:2]
    left, stop = max(0, -right), width - max(0, right)
    return (
        array[: height - down, left:stop],
        array[down:, left + right : max(0, stop + right)],
    )


def _sobel(grey: Floats) -> Floats:
    """Length of the gradient per pixel, in each direction the mean over three lines."""
    across, along = (ndimage.sobel(grey, axis, mode="nearest") for axis in (0, 1))
    out: Floats = np.hypot(across, along) / 8.0
    return out


def _hog(rgb: Floats) -> NDArray[np.float32]:
    """The 2 x 2 cells around each pixel, 9 orientations each, interpolated between blocks.

    The image is mirrored at its border so that a block is centred on every corner of a cell,
    those on the border included; so there is no smallest image.
    """
    try:
        hog = import_module("skimage.feature").hog
    except ImportError as error:
        raise ImportError(
            "HOG features need scikit-image: pip install 'mlestruct[images]', or hog=False"
        ) from error
    height, width = rgb.shape[:2]
    margin = [(CELL, CELL + -n % CELL) for n in (height, width)]
    blocks = hog(
        np.pad(rgb, [*margin, (0, 0)], mode="symmetric"),
        orientations=ORIENTATIONS,
        pixels_per_cell=(CELL, CELL),
        cells_per_block=(2, 2),
        feature_vector=False,
        channel_axis=2,
    )
    rows, columns = blocks.shape[:2]
    # A block of 36 components has length 1; six times that is 1 in the mean square.
    blocks = 6.0 * blocks.reshape(rows, columns, -1).astype(np.float32)
    down = _interpolation(height, rows)
    right = _interpolation(width, columns)
    out: NDArray[np.float32] = right @ np.tensordot(down, blocks, axes=1)
    return out


def _interpolation(n_pixels: int, n_blocks: int) -> NDArray[np.float32]:
    """Weights (n_pixels, n_blocks): linear between blocks centred at 0, CELL, 2 CELL, ..."""
    place = (np.arange(n_pixels) + 0.5) / CELL
    distance = np.abs(place[:, None] - np.arange(n_blocks))
    return np.maximum(0.0, 1.0 - distance).astype(np.float32)
