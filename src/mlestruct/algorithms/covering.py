"""An interior point of a polytope that only a decoder describes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

NOISE = 0.2  # of all coordinates together, below the least weight of one that is sought
LEAST, MOST = 0.5, 1.0  # weights of coordinates that are sought


def covering_outputs(
    maximise: Callable[[Floats], Floats],
    n_coordinates: int,
    rng: np.random.Generator,
    exact: bool = True,
) -> Floats:
    """Outputs among which every coordinate that can vary does, shape (n_outputs, n_coordinates).

    The first two are decoded in a random direction and its opposite. Each further direction has
    positive weights at the coordinates that no output has had at 1 (then: negative ones at those
    that none has had at 0) and noise elsewhere. So each call finds at least one of them, or proves
    that there is none; a decoder that is not `exact` is then asked for each by itself.

    Parameters
    ----------
    maximise : scores of shape (n_coordinates,) to an output of the same shape
    """
    direction = rng.normal(size=n_coordinates)
    found = [maximise(direction), maximise(-direction)]
    for sign, reached in ((1.0, np.maximum), (-1.0, np.minimum)):
        best = reached.reduce(found)
        while True:
            open_ = best < 1.0 if sign > 0 else best > 0.0
            if not open_.any():
                break
            output = maximise(_direction(open_, sign, rng))
            after = reached(best, output)
            if not np.array_equal(after, best):
                found.append(output)
                best = after
                continue
            for k in np.flatnonzero(open_) if not exact else ():
                found.append(maximise(_direction(np.arange(n_coordinates) == k, sign, rng)))
            break
    return np.unique(np.array(found), axis=0)


def _direction(sought: Bools, sign: float, rng: np.random.Generator) -> Floats:
    noise = rng.uniform(-NOISE, NOISE, size=sought.shape[0]) / sought.shape[0]
    return noise + sign * sought * rng.uniform(LEAST, MOST, size=sought.shape[0])
