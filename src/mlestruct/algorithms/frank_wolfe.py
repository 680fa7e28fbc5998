"""Frank-Wolfe on max <scores, tau> + H(tau): marginals from MAP calls alone.

For polytopes that only a decoder describes. H is concave, so the value at tau plus the
Frank-Wolfe gap bounds log Z_rho from above: the gap is a certificate.

The line search of this loop (`SteppingEntropy.line_search`, `minimise_by_slope`) is also that of
the learning solvers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from .._running import check_time, is_over

Floats = NDArray[np.float64]
Step = Literal["capped", "line_search", "fixed"]

MAX_STEP = 1.0 - 1e-9  # a vertex has an infinite entropy gradient
RTOL = 0.05  # a line search stops when the slope has fallen to this fraction of its start
ROUNDING = 1e-9  # of the sum of absolute terms: scores that differ by less count as equal


class SteppingEntropy(Protocol):
    """An entropy and its line search along Frank-Wolfe directions."""

    def __call__(self, tau: Floats) -> float:
        """H(tau)."""

    def add_gradient(self, tau: Floats, scores: Floats) -> tuple[Floats, Any]:
        """scores + gradient of H at tau, and sums that `line_search` at tau reuses."""

    def slope(self, tau: Floats, change: Floats, eta: float) -> float:
        """Derivative of H along `change` at tau + eta * change, where entries may be 0."""

    def line_search(
        self, tau: Floats, vertex: Any, sums: Any, linear: float, quadratic: float,
        guess: float, max_step: float, rtol: float,
    ) -> float:  # fmt: skip
        """Step eta towards `vertex` minimising linear * eta + quadratic * eta^2 / 2 - H.

        The slope there is at most `rtol` times that at 0.
        """

    def move(self, tau: Floats, vertex: Any, eta: float) -> None:
        """tau <- (1 - eta) tau + eta vertex, in place."""


class DecodedSpace(Protocol):
    """What Frank-Wolfe needs of an output space."""

    n_coordinates: int

    def decode(self, scores: Floats, warm: Any = None, prices: bool = False) -> Any: ...

    def entropy(self, tau: Floats) -> float: ...

    def entropy_gradient(self, tau: Floats) -> Floats: ...

    def interior(self) -> Floats: ...

    def hull_entropy(self) -> tuple[Any, Floats | None]: ...

    @property
    def stepping_entropy(self) -> SteppingEntropy: ...

    @property
    def has_bound(self) -> bool:
        """Whether `decode` maximises, or returns a bound of the maximum."""


def frank_wolfe_marginals(
    space: DecodedSpace,
    scores: Floats,
    start: Floats,
    tol: float,
    max_iter: int,
    callback: Callable[[int, Floats], Any] | None = None,
    step: Step = "capped",
) -> tuple[Floats, float, float, int]:
    """(tau, value, upper bound of log Z_rho, MAP calls) from an interior point of the polytope.

    The paper's algorithm; `fully_corrective_marginals` needs far fewer MAP calls.

    Parameters
    ----------
    max_iter : steps at most; one more MAP call bounds the result
    callback : called with (MAP calls, tau) at every point; returning True stops
    step : length of step t = 1, 2, ... towards a new vertex: "fixed" at 2/(t+2), by
        "line_search", or "capped": the line search's, but in the first steps at most 1/(t+1), so
        that the weight of the start falls slowly. At rho near 1 a line search may go all the
        way to the first vertex, where all other coordinates have no mass and have to be found
        again, one by one.
    """
    entropy, tau = space.stepping_entropy, start.copy()
    upper, guess, prices, calls = np.inf, 0.1, None, 0
    while True:
        value = float(scores @ tau) + entropy(tau)
        stop = (callback is not None and bool(callback(calls, tau))) or calls >= max_iter
        stop = stop or (calls > 0 and is_over())
        direction, sums = entropy.add_gradient(tau, scores)
        check_time("marginals by Frank-Wolfe")
        best = space.decode(direction) if prices is None else space.decode(direction, prices)
        prices, vertex = best.prices, best.vertex
        calls += 1
        gap = checked_gap(space, direction, tau, best, type(space).__name__)
        upper = min(upper, value + gap)
        if upper - value <= tol or stop:
            return tau, value, upper, calls
        gain = vertex.dot(scores) - float(scores @ tau)
        if step == "fixed":
            eta = 2.0 / (calls + 2.0)
        else:
            eta = entropy.line_search(tau, vertex, sums, -gain, 0.0, guess, MAX_STEP, RTOL)
        if eta <= 0.0:
            return tau, value, upper, calls
        guess = max(eta, 1e-6)
        if step == "capped" and calls <= 50:
            eta = min(eta, 1.0 / (calls + 1.0))
        entropy.move(tau, vertex, eta)


def checked_gap(
    space: DecodedSpace, direction: Floats, tau: Floats, found: Any, name: str, known: Any = None
) -> float:
    """max over outputs of <direction, output - tau> by a decoder's answer, at least 0.

    Raises if tau or a known output scores more than the best vertex, by more than errors of
    rounding and the tolerances of integer programs.
    """
    here, upper = float(direction.dot(tau)), found.score + found.gap
    attained = here if known is None else max(here, float(np.max(known @ direction)))
    size = float(np.abs(direction) @ tau) + abs(upper)
    allowed = 1e-6 * max(1.0, float(np.abs(direction).max(initial=0.0))) + ROUNDING * size
    if space.has_bound and not attained - upper <= allowed:
        raise ValueError(
            f"{name}: decode says that no output scores more than {upper:.6g}, but an output that "
            "it has returned, or that was observed, or a mixture of them, scores "
            f"{attained:.6g}. decode must maximise, interior be a mixture of outputs, and the "
            "gradient be that of the entropy; check_structure tests all of them"
        )
    return max(upper - here, 0.0)  # heuristics may score less than tau


def checked_start(space: DecodedSpace) -> Floats:
    """interior() of a space, of the right length."""
    return checked_point(space, space.interior()).copy()


def checked_point(space: DecodedSpace, inside: Any) -> Floats:
    """An interior point of the right length."""
    point: Floats = np.asarray(inside, dtype=np.float64)
    if point.shape != (space.n_coordinates,):
        raise ValueError(
            f"{type(space).__name__}.interior: expected shape ({space.n_coordinates},), "
            f"got {point.shape}"
        )
    return point


class BySlope:
    """Steps of a `SteppingEntropy` that needs nothing but its slope."""

    def slope(self, tau: Floats, change: Floats, eta: float) -> float:
        raise NotImplementedError

    def line_search(
        self, tau: Floats, vertex: Any, sums: Any, linear: float, quadratic: float,
        guess: float, max_step: float, rtol: float,
    ) -> float:  # fmt: skip
        change = vertex.dense(tau.shape[0]) - tau
        eta = minimise_by_slope(
            lambda eta: linear + quadratic * eta - self.slope(tau, change, eta), guess, rtol
        )
        return min(eta, max_step)

    def move(self, tau: Floats, vertex: Any, eta: float) -> None:
        tau *= 1.0 - eta
        tau[vertex.indices] += eta * vertex.values


class PlainEntropy(BySlope):
    """A `SteppingEntropy` from an entropy and its gradient alone."""

    def __init__(self, space: DecodedSpace):
        self._space = space

    def __call__(self, tau: Floats) -> float:
        return float(self._space.entropy(tau))

    def add_gradient(self, tau: Floats, scores: Floats) -> tuple[Floats, None]:
        return scores + self._space.entropy_gradient(tau), None

    def slope(self, tau: Floats, change: Floats, eta: float) -> float:
        return float(self._space.entropy_gradient(tau + eta * change) @ change)


def minimise_by_slope(slope: Callable[[float], float], guess: float, rtol: float = RTOL) -> float:
    """A point of (0, MAX_STEP) where an increasing slope has fallen to `rtol` of its start.

    Bisection on a logarithmic bracket with regula falsi: near the boundary Newton steps that are
    judged by their length stop at points that are worse than the start.
    """
    first = slope(0.0)
    if first >= 0.0:
        return 0.0
    low, high = 0.0, MAX_STEP
    slope_low, slope_high = first, np.inf
    eta = min(max(guess, 1e-8), 0.5)
    for _ in range(60):
        value = slope(eta)
        if abs(value) <= -rtol * first:
            break
        if value > 0.0:
            high, slope_high = eta, value
        else:
            low, slope_low = eta, value
        if np.isfinite(slope_high):
            eta = low - slope_low * (high - low) / (slope_high - slope_low)
            margin = 0.1 * (high - low)
            eta = min(max(eta, low + margin), high - margin)
        else:
            eta = min(4.0 * eta, 0.5 * (eta + high))
        if high - low <= 1e-14 * high:
            break
    return eta
