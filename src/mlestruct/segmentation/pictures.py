"""Pictures and masks as files: reading, shrinking, writing. Labels are text.

The label of a pixel is its grey value ("255"), or its colour ("#ff0000") in a file of colours,
also where these are greys.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from ..exceptions import FileProblem

Floats = NDArray[np.float64]

MOST_LABELS = 30  # different values of a mask at most


def read_picture(path: str | Path, max_side: int | None = None) -> NDArray[np.uint8]:
    """Colours of a picture, shape (height, width, 3), shrunk to a longest side if it is larger."""
    with _opened(path) as picture:
        if picture.mode.startswith(("I", "F")):  # would be cut to white
            raise FileProblem(f"{path}: more than 8 bits a pixel; save it with 8 bits a colour")
        return np.asarray(_shrunk(picture.convert("RGB"), max_side))


def read_mask(path: str | Path, size: tuple[int, int] | None = None) -> NDArray[Any]:
    """Labels of the pixels of a mask, as text, at (height, width) `size` if it is given."""
    with _opened(path) as picture:
        # By the kind of file, not by what is in it: black is one label in all masks of a folder.
        grey = picture.mode.startswith(("1", "L", "I", "F"))
        if picture.mode == "LA" or not grey:
            picture = picture.convert("L" if grey else "RGB")
        if size is not None:
            picture = picture.resize((size[1], size[0]), Image.Resampling.NEAREST)
        values = np.asarray(picture)
    if values.dtype.kind == "f":
        raise FileProblem(f"{path}: labels are not whole numbers; save masks as PNG")
    if values.dtype == bool:
        values = 255 * values.astype(np.int64)
    if not grey:
        values = values.astype(np.int64) @ np.array([65536, 256, 1])
    found = np.unique(values)
    if found.size > MOST_LABELS:
        raise FileProblem(
            f"{path}: {found.size} different values, expected at most {MOST_LABELS} labels. A JPEG "
            "file blurs them: save masks as PNG"
        )
    names = np.array([str(v) if grey else f"#{v:06x}" for v in found.tolist()], dtype=object)
    return names[np.searchsorted(found, values)]


def write_labels(path: str | Path, labels: NDArray[Any], size: tuple[int, int]) -> None:
    """A PNG file of labels as `read_mask` names them, at (height, width) `size`."""
    text = _pixels(labels, "labels").astype(str)
    names = np.unique(text)
    coloured = any(name.startswith("#") for name in names.tolist())
    try:
        values = np.array([_colour(name) if coloured else int(name) for name in names.tolist()])
    except ValueError:
        raise ValueError(
            "labels: expected grey values ('255') or colours ('#ff0000'), got "
            f"{names.tolist()!r:.60}"
        ) from None
    if values.min() < 0 or values.max() > 65535:
        raise ValueError(f"labels: expected values from 0 to 65535, got {names.tolist()!r:.60}")
    deep = np.uint16 if not coloured and values.max() > 255 else np.uint8
    array = values[np.searchsorted(names, text)].astype(deep)
    picture = Image.fromarray(array)
    picture.resize((size[1], size[0]), Image.Resampling.NEAREST).save(path)


def write_probability(path: str | Path, chance: Floats, size: tuple[int, int]) -> None:
    """A grey PNG file: 0 is black, 1 is white."""
    known = _pixels(chance, "chance")
    if known.dtype.kind not in "fiub" or np.isnan(known).any():
        raise ValueError("chance: expected probabilities from 0 to 1")
    picture = Image.fromarray(np.round(255 * np.clip(known, 0.0, 1.0)).astype(np.uint8))
    picture.resize((size[1], size[0]), Image.Resampling.BILINEAR).save(path)


def _pixels(values: Any, name: str) -> NDArray[Any]:
    """An array (height, width) that is not empty."""
    found = values if isinstance(values, np.ndarray) else np.zeros(0)
    if found.ndim != 2 or found.size == 0:
        kind = type(values).__name__
        raise ValueError(f"{name}: expected an array (height, width), got {kind} {found.shape}")
    return found


def picture_size(path: str | Path) -> tuple[int, int]:
    """Height and width."""
    with _opened(path) as picture:
        return picture.height, picture.width


def _colour(name: str) -> tuple[int, int, int]:
    value = int(name.removeprefix("#"), 16) if name.startswith("#") else 0x010101 * int(name)
    return value >> 16, value >> 8 & 255, value & 255


def _shrunk(picture: Any, max_side: int | None) -> Any:
    longest = max(picture.size)
    if max_side is None or longest <= max_side:
        return picture
    size = [max(1, round(side * max_side / longest)) for side in picture.size]
    return picture.resize(size, Image.Resampling.BOX)


def _opened(path: str | Path) -> Any:
    if not Path(path).is_file():
        raise FileProblem(f"{path}: there is no such file")
    try:
        picture = ImageOps.exif_transpose(Image.open(path))  # as cameras want it to be seen
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise FileProblem(f"{path}: not a picture that can be read ({error})") from None
    return picture
