"""Loader of the Weizmann horses, from files that the user has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .folder import data_folder

Image = NDArray[np.float32]
Mask = NDArray[np.int64]

N_HORSES = 328  # pictures of the data set


@dataclass(frozen=True)
class HorseImages:
    """Photographs (height, width, 3) in [0, 1], masks (height, width) with 1 for horse, names."""

    images: list[Image]
    masks: list[Mask]
    names: list[str]

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Image, Mask]:
        return self.images[index], self.masks[index]

    def __iter__(self) -> Iterator[tuple[Image, Mask]]:
        return zip(self.images, self.masks, strict=True)

    def take(self, indices: Any) -> HorseImages:
        """The pictures at `indices`."""
        chosen = [int(k) for k in np.atleast_1d(indices)]
        return HorseImages(
            [self.images[k] for k in chosen],
            [self.masks[k] for k in chosen],
            [self.names[k] for k in chosen],
        )


def load_horses(
    path: str | Path | None = None,
    *,
    max_side: int | None = 200,
    max_pixels: int | None = None,
    indices: Iterable[int] | None = None,
) -> HorseImages:
    """The Weizmann horses, horse001 to horse328, with figure-ground masks.

    Reads weizmann_horses/rgb/horseNNN.jpg and weizmann_horses/figure_ground/horseNNN.jpg. Pictures
    above a limit are shrunk to it, keeping their aspect; smaller ones are left alone, since
    enlarging them adds pixels but no detail. At 200 pixels a side all grids but one have 17,000
    to 40,000 nodes (horse264, 8,100). Masks come in sizes of their own; they are binarised at 128,
    and a pixel is horse if the mask covers more than half of it.

    Parameters
    ----------
    path : folder that holds weizmann_horses; by default the folder in the environment variable
        MLESTRUCT_DATA
    max_side : longest height or width, None for no limit
    max_pixels : largest height times width, None for no limit
    indices : which to load, 0 (horse001) to 327 (horse328); all by default
    """
    for name, limit in (("max_side", max_side), ("max_pixels", max_pixels)):
        if limit is not None and limit < 1:
            raise ValueError(f"`{name}` must be at least 1 or None; got {limit}.")
    chosen = list(range(N_HORSES)) if indices is None else [int(k) for k in indices]
    for k in chosen:
        if not 0 <= k < N_HORSES:
            raise ValueError(f"`indices` must be from 0 to {N_HORSES - 1}; got {k}.")
    folder = data_folder(path) / "weizmann_horses"
    pillow = _pillow()
    images, masks, names = [], [], []
    for k in chosen:
        name = f"horse{k + 1:03d}"
        with _opened(pillow, folder / "rgb" / f"{name}.jpg") as picture:
            size = _limited(picture.size, max_side, max_pixels)
            small = picture.convert("RGB").resize(size, pillow.Resampling.BOX)
            images.append(np.asarray(small, dtype=np.float32) / np.float32(255.0))
        with _opened(pillow, folder / "figure_ground" / f"{name}.jpg") as picture:
            figure = picture.convert("L").point(lambda grey: 255 if grey >= 128 else 0)
            covered = np.asarray(figure.resize(size, pillow.Resampling.BOX))
            masks.append((covered > 127).astype(np.int64))
        names.append(name)
    return HorseImages(images, masks, names)


def _pillow() -> Any:
    try:
        return import_module("PIL.Image")
    except ImportError as error:
        raise ImportError(
            "reading pictures needs Pillow. Run pip install '.[images]' in a copy of the source."
        ) from error


def _opened(pillow: Any, file: Path) -> Any:
    if not file.is_file():
        raise FileNotFoundError(f"{file} does not exist")
    return pillow.open(file)


def _limited(
    size: tuple[int, int], max_side: int | None, max_pixels: int | None
) -> tuple[int, int]:
    """`size`, scaled down to the limit if it exceeds it."""
    width, height = size
    scale = 1.0
    if max_side is not None:
        scale = min(scale, max_side / max(size))
    if max_pixels is not None:
        scale = min(scale, (max_pixels / (width * height)) ** 0.5)
    tiny = 1e-9  # so that a side meant to be 200 is not rounded down to 199
    return max(1, int(width * scale + tiny)), max(1, int(height * scale + tiny))
