"""Fully corrective Frank-Wolfe: max <scores, tau> + H(tau) over outputs that a decoder finds.

The maximum over the hull of the outputs known so far needs no decoder (Newton in the weights of the
outputs); then the decoder is asked for an output that increases the value further.

* Query. Frank-Wolfe decodes at u = s + grad H(tau). For a separable entropy, the 0/1 output that
  is best after a step of length eta is a decode, too, at

      u_k = s_k + [h((1 - eta) tau_k + eta) - h((1 - eta) tau_k)] / eta,

  which is finite where the gradient is not. eta decreases with the gap.
* Bound. With concave h, any call (u, sigma), sigma = max over outputs of <u, output>, bounds

      A(s) <= sigma + max over tau in the box of <s - u, tau> + H(tau),

  so that a call bounds A at other scores, too. For any other concave H, a call at the gradient
  bounds A(s) by the Frank-Wolfe gap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._arguments import check_memory
from .._running import check_time, is_over
from . import _fully_corrective_kernels as kernels
from .frank_wolfe import MAX_STEP, DecodedSpace, checked_gap, checked_point, minimise_by_slope

Floats = NDArray[np.float64]

INSIDE = 1e-9  # outputs move by this much towards the interior point: slopes are finite
SHIFT = 1e-10  # of tau and 1 - tau, to the same end, if there is none
FIRST_STEP, LAST_STEP = 0.5, 1e-6  # eta of queries; below it, the limit 0
NOTHING_NEW = 0.1  # its factor after a call that brings no new output
CALLS = 5  # the last ones of a point, which are kept for bounds


class Hull:
    """The known outputs of a space; the first is the interior point, if there is one."""

    def __init__(self, space: DecodedSpace):
        self.space = space
        entropy, inside = space.hull_entropy()
        self.entropy = entropy
        n = space.n_coordinates
        self.separable = hasattr(entropy, "a")
        self.a: Floats = entropy.a if self.separable else np.zeros(n)
        self.c: Floats = entropy.c if self.separable else np.zeros(n)
        absent = (self.a == 0.0) & (self.c == 0.0)
        self.concave = self.separable and bool((absent | (self.a > 0.0) & (self.c <= 0.0)).all())
        self.fixed = np.full(n, np.nan)
        if inside is not None:
            inside = checked_point(space, inside)
            self.fixed = np.where((inside > 0.0) & (inside < 1.0), np.nan, inside)
        self.inside, self.shift = inside, SHIFT if inside is None else 0.0
        self.size = 0
        self._rows = np.empty((8, n))
        self._places: dict[bytes, int] = {}
        if self.inside is not None:
            self.add(self.inside)

    @property
    def outputs(self) -> Floats:
        """A row for each, moved inside if the entropy needs it."""
        return self._rows[: self.size]

    @property
    def points(self) -> Floats:
        """The outputs as they were added, for another hull of the space."""
        return np.frombuffer(b"".join(self._places)).reshape(len(self._places), self._rows.shape[1])

    def add(self, point: Floats) -> tuple[int, bool]:
        """The row of an output, and whether it is new."""
        place = self._places.setdefault(point.tobytes(), self.size)
        if place < self.size:
            return place, False
        if self.size == self._rows.shape[0]:
            check_memory(2.0 * self._rows.size, "known outputs")
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
        inside = point if self.inside is None else self.inside
        self._rows[self.size] = (1.0 - INSIDE) * point + INSIDE * inside
        self.size += 1
        return place, True


class HullPoint:
    """A point tau in the hull of the known outputs, and its last calls of the decoder.

    Attributes
    ----------
    weights : of the outputs, tau = outputs' weights
    scores, value, upper : <scores, tau> + H(tau), and an upper bound of its maximum
    slack : the part of the last call's gap that is due to the decoder's own bound
    helps : whether another call may bring more than the last one
    """

    def __init__(self, hull: Hull, first: Floats):
        self.hull = hull
        place, _ = hull.add(first)
        self.weights = np.zeros(hull.size)
        self.weights[place] = 1.0
        if hull.inside is not None and place > 0:  # `first` may be the interior point itself
            self.weights[[0, place]] = 0.5
        self.tau: Floats = self.weights @ hull.outputs
        self.eta, self.helps = FIRST_STEP, True
        self.queries, self.sigmas = np.zeros((0, self.tau.shape[0])), np.zeros(0)
        self.scores, self.value, self.upper, self.slack = self.tau, -np.inf, np.inf, 0.0

    def state(self) -> dict[str, Any]:
        """What a point of the same outputs continues from."""
        names = ("weights", "tau", "eta", "helps", "queries", "sigmas")
        return {name: getattr(self, name) for name in names}

    def maximise(self, scores: Floats, tol: float) -> float:
        """Move to the maximum over the hull, up to the gap returned."""
        check_time("an evaluation of the likelihood")
        hull, self.scores = self.hull, scores
        new = np.zeros(hull.size - self.weights.shape[0])
        self.weights = np.concatenate([self.weights, new])
        if hull.separable:
            of, point = (hull.a, hull.c, scores, hull.shift), (self.weights, self.tau)
            gap = kernels.maximise(hull.outputs, *of, *point, tol, 100)
        else:
            gap = self._move_pairwise(tol)
        self.value = float(scores @ self.tau) + hull.entropy(self.tau)
        return max(float(gap), 0.0)

    def _move_pairwise(self, tol: float) -> float:
        """Move weight from the worst output to the best until the gap is at most `tol`."""
        gradient_of, outputs = self.hull.space.entropy_gradient, self.hull.outputs
        gap = np.inf
        for _ in range(100):
            gradient = self.scores + gradient_of(self.tau)
            values = outputs @ gradient
            best = int(values.argmax())
            worst = int(np.where(self.weights > 0.0, values, np.inf).argmin())
            gap = float(values[best] - gradient @ self.tau)
            if gap <= tol or best == worst:
                break
            most = float(self.weights[worst])
            way = most * (outputs[best] - outputs[worst])

            def slope(eta: float, way: Floats = way) -> float:
                return -float((self.scores + gradient_of(self.tau + eta * way)) @ way)

            eta = 1.0 if slope(MAX_STEP) <= 0.0 else minimise_by_slope(slope, 0.3)
            self.weights[best] += eta * most
            self.weights[worst] -= eta * most
            self.tau = self.weights @ outputs
        return gap

    def bound(self) -> None:
        """Bound the maximum at the scores by former calls."""
        hull, self.upper = self.hull, np.inf
        if hull.concave and self.sigmas.size:
            calls, entropy = (self.queries, self.sigmas), (hull.a, hull.c, hull.fixed)
            self.upper = float(kernels.bound_from_calls(*calls, self.scores, *entropy))

    def ask(self, decode: Callable[[Floats], Any], name: str) -> Any:
        """Call the decoder, and bound the maximum by its answer; the vertex that it returns."""
        check_time("a pass of MAP calls")
        hull = self.hull
        if hull.concave:
            query = np.empty_like(self.tau)
            of = hull.a, hull.c, self.scores, hull.shift
            kernels.finite_slopes(self.tau, *of, self.eta, query)
        else:
            query = self.scores + hull.space.entropy_gradient(self.tau)
        found = decode(query)
        gap = checked_gap(hull.space, query, self.tau, found, name, hull.outputs)
        self.slack = min(found.gap, gap)
        if not hull.concave:
            self.upper = self.value + gap
            return found.vertex
        self.queries = np.vstack([self.queries[1 - CALLS :], query])
        self.sigmas = np.append(self.sigmas[1 - CALLS :], found.score + found.gap)
        self.bound()
        return found.vertex

    def learn(self, vertex: Any) -> None:
        """Add an answer of the decoder to the hull."""
        new = self.hull.add(vertex.dense(self.tau.shape[0]))[1]
        self.helps = new or self.eta > 0.0
        if new:  # a query at eta proves a gap of about eta for each coordinate
            self.eta = min(self.eta, max(self.upper - self.value, 0.0) / max(self.tau.size, 1))
        else:
            self.eta *= NOTHING_NEW
        if self.eta < LAST_STEP:
            self.eta = 0.0


class Found(NamedTuple):
    """tau, its value, an upper bound of the maximum, the number of MAP calls, and its outputs."""

    tau: Floats
    value: float
    upper: float
    calls: int
    outputs: Floats


def fully_corrective_marginals(
    space: DecodedSpace,
    scores: Floats,
    tol: float,
    max_calls: int,
    callback: Callable[[int, Floats], Any] | None = None,
    known: Floats | None = None,
) -> Found:
    """Marginals from MAP calls alone.

    Parameters
    ----------
    callback : called with (MAP calls, tau) at every point; returning True stops
    known : outputs of the space, as an earlier answer holds them
    """
    name, hull = f"{type(space).__name__}.decode", Hull(space)
    calls = 0
    if known is None:
        known, calls = space.decode(scores).vertex.dense(space.n_coordinates)[None], 1
    point = HullPoint(hull, known[0])
    for output in known[1:]:
        hull.add(output)
    best = np.inf
    while True:
        inner = point.maximise(scores, 0.1 * tol)
        point.bound()
        best = min(best, point.upper)
        stop = callback is not None and bool(callback(calls, point.tau))
        if stop or best - point.value <= tol or calls >= max_calls or (calls and is_over()):
            break
        vertex = point.ask(space.decode, name)
        calls += 1
        best = min(best, point.upper)
        point.learn(vertex)
        if best - point.value <= tol or not (point.helps or inner > tol):
            break
    kept = hull.points[: point.weights.size][point.weights > 0.0]
    tau = np.clip(point.tau, hull.outputs.min(axis=0), hull.outputs.max(axis=0))  # rounding
    return Found(tau, point.value, best, calls, kept)
