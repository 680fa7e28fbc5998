"""When to look at the certificate of a converging oracle, and when to give up."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log

LONGEST = 8  # sweeps between certificates


def sweeps_needed(gaps: Sequence[float], last: int, tol: float) -> int:
    """Sweeps until the next certificate, at the rate at which the `last` ones converged."""
    if not tol > 0.0:
        return LONGEST
    if len(gaps) < 2 or not 0.0 < gaps[-1] < gaps[-2]:
        return 1
    rate = log(gaps[-2] / gaps[-1]) / last
    wanted = (log(gaps[-1]) - log(tol)) / rate if rate > 0.0 else LONGEST
    return max(ceil(min(wanted, LONGEST)), 1)


def only_rounding_left(gaps: Sequence[float], scale: float) -> bool:
    """Whether the last certificates differ by rounding errors only."""
    return (
        len(gaps) > 3
        and abs(gaps[-1]) > 0.5 * abs(gaps[-4])
        and abs(gaps[-1]) <= 1e-12 * max(1.0, abs(scale))
    )
