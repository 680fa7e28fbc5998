"""Fully corrective Frank-Wolfe: learning from a MAP decoder alone, in tens of calls a sample.

A round minimises L over the hulls of the outputs known so far, which needs no decoder: Newton (or
L-BFGS) in theta, and for each sample Newton in the weights of its outputs. It then asks the decoder
for outputs that decrease L further.

* Query. Frank-Wolfe decodes at u = s + grad H(tau). For a separable entropy, the 0/1 output that
  is best after a step of length eta is a decode, too, at

      u_k = s_k + [h((1 - eta) tau_k + eta) - h((1 - eta) tau_k)] / eta,

  which is finite where the gradient is not. eta decreases with each call of a sample.
* Certificate. With concave h, any call (u, sigma), sigma = max over outputs of <u, output>, bounds

      A(s) <= sigma + max over tau in the box of <s - u, tau> + H(tau),

  so that samples whose former calls prove enough are not decoded again. For any other concave H, a
  call at the gradient bounds A(s) by the Frank-Wolfe gap.
* Samples with the same structure share the outputs that they know.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._deadline import check_time, is_over
from .._memory import check_memory
from ..algorithms.frank_wolfe import minimise_by_slope
from ..structures.contract import Structure, Vertex
from ..structures.entropy import SeparableEntropy
from . import _hull_kernels as kernels
from .certificate import checked_gap
from .lbfgs import LBFGS
from .lbfgs import Start as Weights
from .problem import Block, Expectation, Problem
from .solver import Monitor, Result, Solver, run

Floats = NDArray[np.float64]

INSIDE = 1e-9  # outputs move by this much towards the interior point: gradients stay finite
FIRST_STEP, LAST_STEP = 0.3, 1e-7  # eta of queries
SHORTER, NOTHING_NEW = 0.8, 0.1  # its factors after a call
CALLS = 5  # the last ones of a sample, which are kept for bounds
DENSE = 10**7  # entries of all features up to which theta moves by Newton steps


class Hull:
    """The known outputs of a space; the interior point is the first."""

    def __init__(self, structure: Structure):
        self.structure, self.inside = structure, structure.interior()
        entropy = structure.stepping_entropy
        self.separable = isinstance(entropy, SeparableEntropy)
        self.a = self.c = np.zeros_like(self.inside)
        if isinstance(entropy, SeparableEntropy):
            self.a, self.c = entropy.a, entropy.c
        absent = (self.a == 0.0) & (self.c == 0.0)
        self.concave = self.separable and bool((absent | (self.a > 0.0) & (self.c <= 0.0)).all())
        varies = (self.inside > 0.0) & (self.inside < 1.0)
        self.fixed = np.where(varies, np.nan, self.inside)
        self.size = 1
        self._rows = self.inside[None].repeat(8, axis=0)
        self._places: dict[bytes, int] = {}

    @property
    def outputs(self) -> Floats:
        return self._rows[: self.size]

    @property
    def points(self) -> Floats:
        """The outputs as they were added, for another hull of the space."""
        return np.frombuffer(b"".join(self._places)).reshape(-1, self.inside.shape[0])

    def add(self, point: Floats) -> tuple[int, bool]:
        """The row of an output, and whether it is new."""
        place = self._places.setdefault(point.tobytes(), self.size)
        if place < self.size:
            return place, False
        if self.size == self._rows.shape[0]:
            check_memory(2.0 * self._rows.size, "known outputs")
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
        self._rows[self.size] = (1.0 - INSIDE) * point + INSIDE * self.inside
        self.size += 1
        return place, True


class Sample:
    """A block, its point in the hull of the known outputs, and its former calls."""

    def __init__(self, block: Block, hull: Hull):
        self.block, self.hull = block, hull
        observed, _ = hull.add(block.observed.dense(block.structure.n_coordinates))
        self.weights = np.zeros(hull.size)
        self.weights[[0, observed]] = 0.5
        self.tau: Floats = self.weights @ hull.outputs
        self.eta = FIRST_STEP
        self.queries, self.sigmas = np.zeros((0, self.tau.shape[0])), np.zeros(0)
        self.scores, self.value, self.upper, self.slack = self.tau, -np.inf, np.inf, 0.0

    def state(self) -> dict[str, Any]:
        names = ("weights", "tau", "eta", "queries", "sigmas")
        return {name: getattr(self, name) for name in names}

    def maximise(self, theta: Floats, tol: float) -> float:
        """Move to the maximum of <scores, tau> + H(tau) over the hull, up to the gap returned."""
        check_time("an evaluation of the likelihood")
        hull = self.hull
        self.scores = self.block.scores(theta)
        new = np.zeros(hull.size - self.weights.shape[0])
        self.weights = np.concatenate([self.weights, new])
        if hull.separable:
            entropy, point = (hull.a, hull.c), (self.weights, self.tau)
            gap = kernels.maximise(hull.outputs, *entropy, self.scores, *point, tol, 100)
        else:
            gap = self._move_pairwise(tol)
        self.value = float(self.scores @ self.tau) + hull.structure.entropy(self.tau)
        return max(float(gap), 0.0)

    def _move_pairwise(self, tol: float) -> float:
        """Move weight from the worst output to the best until the gap is at most `tol`."""
        gradient_of, outputs = self.hull.structure.entropy_gradient, self.hull.outputs
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

            eta = minimise_by_slope(slope, 0.3)
            self.weights[best] += eta * most
            self.weights[worst] -= eta * most
            self.tau = self.weights @ outputs
        return gap

    def bound(self) -> None:
        """Bound A at the scores by former calls."""
        hull, self.upper = self.hull, np.inf
        if hull.concave and self.sigmas.size:
            calls, entropy = (self.queries, self.sigmas), (hull.a, hull.c, hull.fixed)
            self.upper = float(kernels.bound_from_calls(*calls, self.scores, *entropy))

    def ask(self) -> Vertex:
        """Call the decoder, and bound A at the scores by its answer."""
        check_time("a pass of MAP calls")
        hull = self.hull
        if hull.concave:
            query = np.empty_like(self.tau)
            kernels.finite_slopes(self.tau, hull.a, hull.c, self.scores, self.eta, query)
        else:
            query = self.scores + hull.structure.entropy_gradient(self.tau)
        found = self.block.decode(query)
        gap = checked_gap(self.block, query, self.tau, found)
        self.slack = min(found.gap, gap)
        if not hull.concave:
            self.upper = self.value + gap
            return found.vertex
        self.queries = np.vstack([self.queries[1 - CALLS :], query])
        self.sigmas = np.append(self.sigmas[1 - CALLS :], found.score + found.gap)
        self.bound()
        return found.vertex

    def learn(self, vertex: Vertex) -> bool:
        """Add an answer of the decoder to the hull; whether it is new."""
        new = self.hull.add(vertex.dense(self.tau.shape[0]))[1]
        self.eta = max(self.eta * (SHORTER if new else NOTHING_NEW), LAST_STEP)
        return new


class Restricted(Problem):
    """The learning problem over the hulls of known outputs, as all solvers see it."""

    def __init__(self, problem: Problem, known: dict[str, Any] | None):
        vars(self).update(vars(problem))
        self._whole = problem
        spaces = {id(block.structure): block.structure for block in problem.blocks}
        hulls = {key: Hull(structure) for key, structure in spaces.items()}
        self.hulls = list(hulls.values())
        sizes = len(self.hulls), len(problem.blocks)
        if known is not None and sizes != (len(known["hulls"]), len(known["samples"])):
            known = None
        if known is not None:
            for hull, points in zip(self.hulls, known["hulls"], strict=True):
                for point in points:
                    hull.add(point)
        self.samples = [Sample(block, hulls[id(block.structure)]) for block in problem.blocks]
        if known is not None:
            for sample, own in zip(self.samples, known["samples"], strict=True):
                vars(sample).update({**own, "tau": own["tau"].copy()})
        self._features: list[Floats] = []

    def state(self) -> dict[str, Any]:
        """What another problem on the same output spaces starts from."""
        hulls = [hull.points for hull in self.hulls]
        return {"hulls": hulls, "samples": [sample.state() for sample in self.samples]}

    @property
    def has_bound(self) -> bool:
        return True

    def require(self, capability: str, needed_by: str) -> None:
        """Hulls have marginals."""

    @contextmanager
    def running(self) -> Iterator[None]:
        yield

    def expect(self, theta: Floats, tol: float, states: Any = None) -> Expectation:
        def one(m: int) -> float:
            return self.samples[m].maximise(theta, tol * float(self._shares[m]))

        gaps = self.weights @ list(self._whole.each(one, range(len(self.samples))))
        moments = self.weights @ np.array([s.block.moments(s.tau) for s in self.samples])
        lower = float(self.weights @ [sample.value for sample in self.samples])
        return Expectation(moments, lower, lower + float(gaps), None)

    def bound(self, theta: Floats) -> float:
        """A lower bound of P at the theta of the samples' bounds."""
        return self.primal(theta, float(self.weights @ [sample.upper for sample in self.samples]))

    # ------------------------------------------------------------------ the minimum
    def minimise(self, theta: Floats, tol: float) -> tuple[Floats, float]:
        """theta that maximises P over the hulls, up to about `tol`, and L at its marginals."""
        small = self.size * self.n_features <= DENSE and not self.penalty.l1
        if small and all(hull.separable for hull in self.hulls):
            return self._newton(theta, tol)
        lower = self.expect(theta, tol).lower
        tol /= max(1.0, abs(self.primal(theta, lower)))
        found = LBFGS(max_iter=100).solve(self, tol, Weights(theta))
        if found.interrupted:
            raise KeyboardInterrupt
        self.expect(found.theta, 0.1 * tol)
        return found.theta, found.objective

    def _newton(self, theta: Floats, tol: float) -> tuple[Floats, float]:
        at = self.expect(theta, 0.1 * tol)
        for _ in range(30):
            value = self.primal(theta, at.lower)
            gradient = self.target - at.moments - self.penalty.l2 * theta
            if float(gradient @ gradient) <= 2.0 * self.penalty.l2 * tol or is_over():
                break
            step = np.linalg.solve(self._curvature(), gradient)
            eta, rise = 1.0, float(gradient @ step)
            for _ in range(20):
                at = self.expect(theta + eta * step, 0.1 * tol)
                if self.primal(theta + eta * step, at.lower) >= value + 1e-4 * eta * rise - tol:
                    break
                eta *= 0.4
            theta = theta + eta * step
        r = self.target - at.moments
        dual = self.penalty.conjugate(r) + self.offset_score - at.lower + float(theta @ at.moments)
        return theta, dual

    def _curvature(self) -> Floats:
        """The negative Hessian of P over the hulls, at the points of the samples."""
        if not self._features:
            units = np.eye(self.n_features)
            maps = [block.features for block in self.blocks]
            self._features = [np.column_stack([g.scores(unit) for unit in units]) for g in maps]
        total = self.penalty.l2 * np.eye(self.n_features)
        for sample, matrix in zip(self.samples, self._features, strict=True):
            hull = sample.hull
            outputs = hull.outputs[sample.weights > 0.0]
            moments = outputs[:, : matrix.shape[0]] @ matrix
            found = kernels.covariance(outputs, hull.a, hull.c, sample.tau, moments)
            total += sample.block.weight * found
        return total


@dataclass(frozen=True)
class FullyCorrective(Solver):
    """Learning by MAP calls alone; the default if the output spaces have no marginals.

    An iteration is a round: L is minimised over the outputs known so far, then the decoder is asked
    for the samples whose bound is not tight.

    Parameters
    ----------
    max_iter, max_time, callback, verbose, random_state, checkpoint :
        the budget, as in `Solver`
    """

    name: ClassVar[str] = "fully corrective"

    def check(self, problem: Problem) -> None:
        """Needs nothing beyond the block contract."""
        for needed in ("decode", "interior"):
            problem.require(needed, f"solver={type(self).__name__}()")

    def solve(self, problem: Problem, tol: float, start: Any = None) -> Result:
        """Maximise P; `start` is the state of another result on the same output spaces."""
        self.check(problem)
        monitor = Monitor(self, tol)
        known = monitor.resume() or start
        restricted = Restricted(problem, known)
        at: dict[str, Any] = {
            "theta": np.zeros(problem.n_features),
            "gap": 0.01 * problem.size,
            "rounds": 0,
        }
        at.update({} if known is None else known["at"])
        if known is start:
            at.update(rounds=0, gap=0.01 * problem.size)

        def state() -> dict[str, Any]:
            return {"at": at, **restricted.state()}

        def loop() -> None:
            while True:
                monitor.keep(state)
                at["theta"], dual = restricted.minimise(at["theta"], max(0.01 * at["gap"], 1e-10))
                last = at["rounds"] >= monitor.max_iter or is_over()
                before, stalled = (
                    at["gap"],
                    self._ask(problem, restricted, monitor, at["theta"], dual),
                )
                primal = restricted.bound(at["theta"])
                monitor.slack = float(problem.weights @ [s.slack for s in restricted.samples])
                monitor.record(at["rounds"], at["theta"], dual=dual, primal=primal)
                at["gap"] = min(before, monitor.gap)
                if monitor.stopped or last or (stalled and at["gap"] >= 0.99 * before):
                    return
                at["rounds"] += 1

        result = run(problem, monitor, loop, lambda: at["theta"])
        result.state = state()
        return result

    def _ask(
        self, problem: Problem, restricted: Restricted, monitor: Monitor, theta: Floats, dual: float
    ) -> bool:
        """Call the decoder for the samples whose bounds are not tight; whether that is in vain."""
        for sample in restricted.samples:
            sample.bound()
        dual, primal = min(dual, monitor.dual), max(restricted.bound(theta), monitor.primal)
        allowed = monitor.tol * max(1.0, min(abs(dual), abs(primal)))
        if dual - primal <= allowed:
            return False
        share = 0.3 * allowed / float(problem.weights.sum())
        asked = [s for s in restricted.samples if not s.upper - s.value <= share]
        answers = list(problem.each(Sample.ask, asked))
        monitor.oracle_calls += len(asked)
        new = [sample.learn(vertex) for sample, vertex in zip(asked, answers, strict=True)]
        return not any(new) and all(sample.eta == LAST_STEP for sample in asked)
