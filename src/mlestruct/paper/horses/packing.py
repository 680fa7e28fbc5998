"""Pictures as plain data: numbers from 0 to 1 in steps of 1/255, as text."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

LEVELS = 255


def packed(values: ArrayLike) -> dict[str, Any]:
    """An array of numbers from 0 to 1; those above 1/2 stay above it."""
    levels = np.rint(LEVELS * np.clip(values, 0.0, 1.0)).astype(np.uint8)
    return {"shape": list(levels.shape), "levels": b64encode(levels.tobytes()).decode("ascii")}


def unpacked(stored: Mapping[str, Any]) -> NDArray[np.float64]:
    """What `packed` was given, to 1/510."""
    levels = np.frombuffer(b64decode(stored["levels"]), dtype=np.uint8)
    return levels.reshape(stored["shape"]) / LEVELS
