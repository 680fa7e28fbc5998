"""Frank-Wolfe on max <scores, tau> + H(tau): marginals from MAP calls alone.

For polytopes that only a decoder describes. H is concave, so the value at tau plus the
Frank-Wolfe gap bounds log Z_rho from above: the gap is a certificate.

The line search of this loop (`SteppingEntropy.line_search`, `minimise_by_slope`) is also that of
the learning solvers.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from .._deadline import check_time, is_over

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
    blended: bool = False,
    step: Step = "capped",
) -> tuple[Floats, float, float, int]:
    """(tau, value, upper bound of log Z_rho, MAP calls) from an interior point of the polytope.

    Parameters
    ----------
    max_iter : steps at most; plain Frank-Wolfe makes one more MAP call, for the bound of its result
    callback : called with (MAP calls, tau) at every point; returning True stops
    blended : move weight between the vertices found so far before asking for a new one (blended
        pairwise Frank-Wolfe; Tsuji, Tanaka and Pokutta 2022): fewer MAP calls, more work in
        between. Plain Frank-Wolfe takes weight off a vertex only by shrinking all of tau.
    step : length of step t = 1, 2, ... towards a new vertex: "fixed" at 2/(t+2), by
        "line_search", or "capped": the line search's, but in the first steps at most 1/(t+1), so
        that the weight of the start falls slowly. At rho near 1 a line search may go all the
        way to the first vertex, where all other coordinates have no mass and have to be found
        again, one by one.
    """
    # Compiled line searches suppose that no entry is exactly 0; a mixture may take all weight off.
    entropy = PlainEntropy(space) if blended else space.stepping_entropy
    mixture = Mixture(start) if blended else None
    tau = start.copy() if mixture is None else mixture.tau
    # Moving weight pays once there are enough vertices to mix, so the first steps are plain.
    enough = max(50.0, 20.0 * start.shape[0] ** 0.5)
    upper, guess, prices, calls = np.inf, 0.3 if blended else 0.1, None, 0
    while True:
        value = float(scores @ tau) + entropy(tau)
        stop = (callback is not None and bool(callback(calls, tau))) or calls >= max_iter
        stop = stop or (calls > 0 and is_over())
        if stop and blended:
            return tau, value, upper, calls
        direction, sums = entropy.add_gradient(tau, scores)
        best = next_vertex(space, direction, tau, prices)
        prices, vertex = best.prices, best.vertex
        calls += 1
        gap = max(best.score + best.gap - float(direction @ tau), 0.0)
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
        if mixture is None:
            entropy.move(tau, vertex, eta)
            continue
        mixture.add(vertex, eta)
        for _ in range(20 if calls >= enough else 0):
            if not mixture.move(space.stepping_entropy, scores, max(0.5 * gap, 0.25 * tol)):
                break


def next_vertex(space: DecodedSpace, direction: Floats, tau: Floats, prices: Any) -> Any:
    """A MAP call, checked: the largest score is at least that of tau.

    Prices of the last call are handed on where the decoder has returned some.
    """
    check_time("marginals by Frank-Wolfe")
    best = space.decode(direction) if prices is None else space.decode(direction, prices)
    here = float(direction @ tau)
    size = float(np.abs(direction) @ np.abs(tau)) + abs(best.score)
    if space.has_bound and not best.score + best.gap >= here - ROUNDING * size:
        raise ValueError(
            f"{type(space).__name__}.decode: its vertex scores {best.score:.6g}, less than the "
            f"current point with {here:.6g}; decode must maximise over the polytope, interior() "
            "lie inside of it, and entropy_gradient be the gradient of entropy"
        )
    return best


def checked_start(space: DecodedSpace) -> Floats:
    """interior() of a space, of the right length."""
    start = np.array(space.interior(), dtype=np.float64)
    if start.shape != (space.n_coordinates,):
        raise ValueError(
            f"{type(space).__name__}.interior: expected shape ({space.n_coordinates},), "
            f"got {start.shape}"
        )
    return start


class PlainEntropy:
    """A `SteppingEntropy` from an entropy and its gradient alone."""

    def __init__(self, space: DecodedSpace):
        self._space = space

    def __call__(self, tau: Floats) -> float:
        return float(self._space.entropy(tau))

    def add_gradient(self, tau: Floats, scores: Floats) -> tuple[Floats, None]:
        return scores + self._space.entropy_gradient(tau), None

    def slope(self, tau: Floats, change: Floats, eta: float) -> float:
        return float(self._space.entropy_gradient(tau + eta * change) @ change)

    def line_search(
        self, tau: Floats, vertex: Any, sums: None, linear: float, quadratic: float,
        guess: float, max_step: float, rtol: float,
    ) -> float:  # fmt: skip
        direction = vertex.dense(tau.shape[0]) - tau
        slope = self._space.stepping_entropy.slope
        return minimise_by_slope(
            lambda eta: linear + quadratic * eta - slope(tau, direction, eta), guess
        )

    def move(self, tau: Floats, vertex: Any, eta: float) -> None:
        tau *= 1.0 - eta
        tau[vertex.indices] += eta * vertex.values


class Mixture:
    """tau = weights @ vertices, weights summing to 1; vertex 0 is the start, of any weight."""

    def __init__(self, start: Floats):
        self.tau = start.copy()
        self.weights, self.vertices = np.ones(1), csr_array(start[None])
        self._keys: list[bytes] = [b"start"]  # sorted indices of the vertices
        self._places = {b"start": 0}

    def add(self, vertex: Any, eta: float) -> None:
        """tau <- (1 - eta) tau + eta vertex."""
        order = np.argsort(vertex.indices)
        indices, values = np.asarray(vertex.indices)[order], np.asarray(vertex.values)[order]
        self.weights *= 1.0 - eta
        self.tau *= 1.0 - eta
        self.tau[indices] += eta * values
        key = indices.tobytes()
        if key not in self._places:
            own = csr_array((values, indices, [0, indices.size]), shape=(1, self.tau.size))
            self.vertices = vstack([self.vertices, own], format="csr")
            self.weights = np.append(self.weights, 0.0)
            self._places[key] = len(self._keys)
            self._keys.append(key)
        self.weights[self._places[key]] += eta
        self._drop_weightless()

    def _drop_weightless(self) -> None:
        """Drop vertices whose weight is rounding; the start stays."""
        kept = self.weights > 1e-12
        kept[0] = True
        if not kept.all():
            self.weights, self.vertices = self.weights[kept], self.vertices[kept]
            self._keys = list(compress(self._keys, kept))
            self._places = {key: k for k, key in enumerate(self._keys)}

    def extremes(self, direction: Floats) -> tuple[int, int, float]:
        """The best vertex along `direction`, the worst of those with weight, their difference."""
        scores = self.vertices @ direction
        best = int(scores.argmax())
        worst = int(np.where(self.weights > 0.0, scores, np.inf).argmin())
        return best, worst, float(scores[best] - scores[worst])

    def move(self, entropy: SteppingEntropy, scores: Floats, least: float) -> bool:
        """Move weight from the worst vertex to the best if the slope is at least `least`."""
        direction, _ = entropy.add_gradient(self.tau, scores)
        best, worst, difference = self.extremes(direction)
        if difference < least or best == worst:
            return False
        most = float(self.weights[worst])
        change = np.zeros_like(self.tau)
        table = self.vertices
        for vertex, sign in ((best, most), (worst, -most)):
            own = slice(table.indptr[vertex], table.indptr[vertex + 1])
            change[table.indices[own]] += sign * table.data[own]
        linear = float(scores @ change)
        eta = minimise_by_slope(lambda eta: -linear - entropy.slope(self.tau, change, eta), 0.3)
        if eta <= 0.0:
            return False
        self.weights[best] += eta * most
        self.weights[worst] -= eta * most
        self.tau += eta * change
        np.maximum(self.tau, 0.0, out=self.tau)
        self._drop_weightless()
        return True


def minimise_by_slope(slope: Callable[[float], float], guess: float) -> float:
    """A point of (0, MAX_STEP) where an increasing slope has fallen to RTOL of its start.

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
        if abs(value) <= -RTOL * first:
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
