"""Random numbers of a `random_state`."""

from __future__ import annotations

from typing import Any

import numpy as np


def generator(random_state: Any) -> np.random.Generator:
    """What NumPy's `default_rng` makes of it, or a ValueError that names the argument."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ValueError(
            f"random_state: expected None, a whole number from 0 or a Generator, got "
            f"{random_state!r}"
        ) from None
