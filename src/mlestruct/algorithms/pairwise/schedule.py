"""When to evaluate the certificate of an iterative oracle, and when to stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, log

from ..._deadline import is_over

LEARNING_SWEEPS = 5  # of a call with one certificate: half the time of 3 sweeps with one each


def pass_in_time(sweep: Callable[[int], None], following: int, at_once: int = 1) -> int:
    """As many sweeps as wanted, fewer where the time is up, but at least one; how many.

    `sweep` makes some of them, at most `at_once`, between which the time is not asked.
    """
    done = 0
    while done < following and not (done and is_over()):
        some = min(at_once, following - done)
        sweep(some)
        done += some
    return done


def first_sweeps(max_sweeps: int) -> int:
    """Sweeps until the first certificate, which costs as much as one to four sweeps."""
    return max_sweeps if max_sweeps <= LEARNING_SWEEPS else 1


def sweeps_needed(gaps: Sequence[float], last: int, tol: float, longest: int = 8) -> int:
    """Sweeps until the next certificate, from the convergence rate over the `last` sweeps.

    At most `longest`: a certificate costs about as much as a sweep.
    """
    if not tol > 0.0:
        return longest
    if len(gaps) < 2 or not 0.0 < gaps[-1] < gaps[-2]:
        return 1
    rate = log(gaps[-2] / gaps[-1]) / last
    wanted = (log(gaps[-1]) - log(tol)) / rate if rate > 0.0 else longest
    return max(ceil(min(wanted, longest)), 1)


def only_rounding_left(gaps: Sequence[float], scale: float) -> bool:
    """Whether the last certificates differ by rounding errors only."""
    return (
        len(gaps) > 3
        and abs(gaps[-1]) > 0.5 * abs(gaps[-4])
        and abs(gaps[-1]) <= 1e-12 * max(1.0, abs(scale))
    )
