"""Generated pictures to segment: lobed figures on a textured ground, under uneven light.

A substitute for the Weizmann horses that needs no download. Colours vary from one picture to the
next and pixels are noisy, so that many pixels are ambiguous without their neighbours.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from .._arguments import as_count, as_number, generator

Image = NDArray[np.float32]
Mask = NDArray[np.int64]
Floats = NDArray[np.float64]
Shape = tuple[int, int] | tuple[tuple[int, int], tuple[int, int]]

# Typical colour of the ground (state 0) and of figures (states 1 to 4): the same for every seed,
# so that what is learned from one call holds for another.
PALETTE = np.array(
    [
        [0.40, 0.52, 0.36],
        [0.56, 0.42, 0.32],
        [0.38, 0.44, 0.68],
        [0.72, 0.66, 0.46],
        [0.24, 0.22, 0.30],
    ]
)


def make_segmentation(
    n_images: int,
    shape: Shape = (50, 50),
    *,
    n_states: int = 2,
    noise: float = 0.1,
    random_state: int | None = None,
) -> tuple[list[Image], list[Mask]]:
    """Pictures of one figure for each state but 0, the ground; later figures hide earlier ones.

    Parameters
    ----------
    shape : (height, width), or ranges ((lowest, highest), (lowest, highest)) to draw them from
    n_states : 2 to 5
    noise : standard deviation of the noise of each pixel and colour, which lie in [0, 1]

    Returns
    -------
    images : list of float32 arrays of shape (height, width, 3) in [0, 1]
    masks : list of int64 arrays of shape (height, width) with values 0 to n_states - 1

    Examples
    --------
    >>> from mlestruct.datasets.segmentation import make_segmentation
    >>> images, masks = make_segmentation(3, (20, 30), random_state=0)
    >>> images[0].shape, masks[0].shape
    ((20, 30, 3), (20, 30))
    """
    as_count(n_images, "n_images", 0)
    as_count(n_states, "n_states", 2)
    if n_states > len(PALETTE):
        raise ValueError(f"`n_states` must be from 2 to {len(PALETTE)}; got {n_states}.")
    as_number(noise, "noise", 0.0)
    ranges = _ranges(shape)
    rng = generator(random_state)
    images, masks = [], []
    for _ in range(n_images):
        size = tuple(int(rng.integers(low, high + 1)) for low, high in ranges)
        mask = np.zeros(size, dtype=np.int64)
        for state in range(1, n_states):
            mask[_figure(size, (n_states - 1) ** -0.3, rng)] = state
        images.append(_painted(mask, n_states, noise, rng))
        masks.append(mask)
    return images, masks


def _ranges(shape: Shape) -> list[tuple[int, int]]:
    expected = "shape: expected (height, width) or a pair of ranges (lowest, highest), at least 1"
    try:
        low, high = np.array([np.broadcast_to(side, 2) for side in shape], dtype=int).T
    except (TypeError, ValueError) as error:
        raise ValueError(f"{expected}, got {shape!r}") from error
    if low.size != 2 or low.min() < 1 or (low > high).any():
        raise ValueError(f"{expected}, got {shape!r}")
    return [(int(a), int(b)) for a, b in zip(low, high, strict=True)]


def _figure(size: tuple[int, ...], scale: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """A lobed shape: an ellipse, turned, whose radius waves with the angle."""
    y, x = (2.0 * (place + 0.5) / n - 1.0 for place, n in zip(np.indices(size), size, strict=True))
    spread = 0.25 + 0.45 * (1.0 - scale)  # smaller figures lie farther out
    centre, turn = rng.normal(scale=spread, size=2).clip(-0.8, 0.8), rng.uniform(0.0, np.pi)
    along = np.cos(turn) * (x - centre[0]) + np.sin(turn) * (y - centre[1])
    across = np.cos(turn) * (y - centre[1]) - np.sin(turn) * (x - centre[0])
    along, across = along / rng.uniform(0.55, 0.85), across / rng.uniform(0.35, 0.6)
    angle, radius = np.arctan2(across, along), np.hypot(along, across)
    limit = np.full(size, scale)
    for lobes in range(2, 8):
        limit += (
            scale
            * rng.normal(scale=0.35 / lobes)
            * np.cos(lobes * angle + rng.uniform(0.0, 2.0 * np.pi))
        )
    return radius < limit


def _painted(mask: Mask, n_states: int, noise: float, rng: np.random.Generator) -> Image:
    """A picture of `mask`: a colour and a texture for each state, uneven light, noise."""
    size = mask.shape
    palette = PALETTE[:n_states] + rng.normal(scale=0.05, size=(n_states, 3))
    image = palette[mask]
    image += 0.06 * _smooth(size, max(size) / 4.0, rng)[:, :, None]
    grain = np.stack([_smooth(size, rng.uniform(1.0, 3.0), rng) for _ in range(n_states)])
    tint = rng.normal(scale=0.5, size=(n_states, 3)) + 1.0
    image += 0.07 * tint[mask] * np.take_along_axis(grain, mask[None], axis=0)[0][:, :, None]
    image += rng.normal(scale=abs(noise), size=image.shape)
    return image.clip(0.0, 1.0).astype(np.float32)


def _smooth(size: tuple[int, ...], width: float, rng: np.random.Generator) -> Floats:
    """Smooth noise, about 0 and 1 in the mean square, that varies over `width` pixels."""
    field = ndimage.gaussian_filter(rng.normal(size=size), width, mode="reflect")
    field -= field.mean()
    out: Floats = field / max(float(field.std()), 1e-12)
    return out
