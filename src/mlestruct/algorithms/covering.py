"""An interior point of a polytope that only a decoder describes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def covering_outputs(
    maximise: Callable[[Floats], Bools],
    n_coordinates: int,
    rng: np.random.Generator,
    exact: bool = True,
) -> Bools:
    """Different outputs among which every coordinate that can vary does, one in a row.

    The first two are decoded in a random direction and its opposite. Each further direction has
    positive weights at the coordinates that no output has had at 1 (then: negative ones at those
    that none has had at 0) and noise elsewhere. So each call finds at least one of them, or proves
    that there is none; a decoder that is not `exact` is then asked for each by itself.

    Parameters
    ----------
    maximise : scores of shape (n_coordinates,) to an output, booleans of the same shape
    """
    direction = rng.normal(size=n_coordinates)
    found: dict[bytes, Bools] = {}

    def ask(scores: Floats) -> Bools:
        output = np.asarray(maximise(scores), dtype=bool)
        return found.setdefault(output.tobytes(), output)

    ask(direction)
    ask(-direction)
    for sign in (1.0, -1.0):
        wanted = sign > 0
        missing = ~np.any([output == wanted for output in found.values()], axis=0)
        while missing.any():
            reached = missing & (ask(_direction(missing, sign, rng)) == wanted)
            if not reached.any():
                for k in np.flatnonzero(missing) if not exact else ():
                    ask(_direction(np.arange(n_coordinates) == k, sign, rng))
                break
            missing &= ~reached
    return np.array(list(found.values()))


def _direction(sought: Bools, sign: float, rng: np.random.Generator) -> Floats:
    # The noise of all coordinates together is below the weight of any that is sought.
    noise = rng.uniform(-0.2, 0.2, size=sought.shape[0]) / sought.shape[0]
    return noise + sign * sought * rng.uniform(0.5, 1.0, size=sought.shape[0])
