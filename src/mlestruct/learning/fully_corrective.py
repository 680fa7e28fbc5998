"""Fully corrective Frank-Wolfe: learning from a MAP decoder alone, in tens of calls a sample.

A round minimises L over the hulls of the outputs known so far, which needs no decoder: Newton (or
L-BFGS) in theta, and for each sample `HullPoint.maximise`. It then asks the decoder for outputs
that decrease L further (queries and bounds: `algorithms/fully_corrective.py`).

* Samples whose former calls prove enough are not decoded again; those of the largest gap are first.
* Samples with the same structure share the outputs that they know.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._running import is_over
from ..algorithms import _fully_corrective_kernels as kernels
from ..algorithms.fully_corrective import Hull, HullPoint
from ..structures.contract import Vertex
from .lbfgs import LBFGS
from .lbfgs import Start as Weights
from .problem import Block, Expectation, Problem
from .solver import Monitor, Result, Solver, run

Floats = NDArray[np.float64]

BATCHES = 3  # a round asks for so large a part of the samples, those of the largest gaps
DENSE = 10**7  # entries of all features up to which theta moves by Newton steps


class Sample(HullPoint):
    """A block and its point in the hull of known outputs, the first of which is observed."""

    def __init__(self, block: Block, hull: Hull):
        super().__init__(hull, block.observed.dense(block.structure.n_coordinates))
        self.block = block

    def ask_decoder(self) -> Vertex:
        """Call the decoder, and bound A at the scores by its answer."""
        found: Vertex = self.ask(self.block.decode, self.block.name)
        return found


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
            sample = self.samples[m]
            return sample.maximise(sample.block.scores(theta), tol * float(self._shares[m]))

        gaps = self.weights @ list(self._whole.each(one, range(len(self.samples))))
        moments = self.weights @ np.array([s.block.moments(s.tau) for s in self.samples])
        lower = float(self.weights @ [sample.value for sample in self.samples])
        size = float(self.weights @ [abs(sample.value) for sample in self.samples])
        return Expectation(moments, lower, lower + float(gaps), size, None)

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
        return found.theta, found.objective_bound

    def _newton(self, theta: Floats, tol: float) -> tuple[Floats, float]:
        at = self.expect(theta, 0.3 * tol)
        for _ in range(30):
            value = self.primal(theta, at.lower)
            gradient = self.target - at.moments - self.penalty.l2 * theta
            if float(gradient @ gradient) <= 2.0 * self.penalty.l2 * tol or is_over():
                break
            step = np.linalg.solve(self._curvature(), gradient)
            eta, rise = 1.0, float(gradient @ step)
            for _ in range(20):
                at = self.expect(theta + eta * step, 0.3 * tol)
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
            found = kernels.covariance(outputs, hull.a, hull.c, sample.tau, hull.shift, moments)
            total += sample.block.weight * found
        return total


@dataclass(frozen=True)
class FullyCorrective(Solver):
    """Learning by MAP calls alone; the default if the output spaces have no marginals.

    An iteration is a round: L is minimised over the outputs known so far, then the decoder is asked
    for samples whose bound is not tight: a third of all, those of the largest gaps.

    Parameters
    ----------
    max_iter, max_time, callback, verbose, random_state, checkpoint :
        the budget, as in `Solver`
    """

    name: ClassVar[str] = "fully corrective"

    def check(self, problem: Problem) -> None:
        """Needs nothing beyond the block contract."""
        problem.require("decode", f"solver={type(self).__name__}()")

    def solve(self, problem: Problem, tol: float, start: Any = None) -> Result:
        """Maximise P; `start` is the state of another result on the same output spaces."""
        self.check(problem)
        monitor = Monitor(self, tol, problem.has_bound)
        known = monitor.resume() or start
        restricted = Restricted(problem, known)
        theta = np.zeros(problem.n_features) if known is None else known["at"]["theta"]
        at: dict[str, Any] = {"theta": theta, "gap": 0.01 * problem.size, "rounds": 0}
        if known is not start:
            at.update(known["at"])

        def state() -> dict[str, Any]:
            return {"at": at, **restricted.state()}

        def loop() -> None:
            while True:
                monitor.keep(state)
                at["theta"], dual = restricted.minimise(at["theta"], max(0.1 * at["gap"], 1e-10))
                last = at["rounds"] >= monitor.max_iter or is_over()
                before = at["gap"]
                stalled = self._ask(problem, restricted, monitor, at["theta"], dual)
                primal = restricted.bound(at["theta"])
                monitor.slack = float(problem.weights @ [s.slack for s in restricted.samples])
                size = float(problem.weights @ [abs(s.value) for s in restricted.samples])
                rounding = problem.rounding(at["theta"], problem.target, size)
                bounds: Any = {"dual": dual, "primal": primal, "rounding": rounding}
                monitor.record(at["rounds"], at["theta"], **bounds)
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
        samples = [s for s in restricted.samples if not s.upper - s.value <= share]
        asked = [s for s in samples if s.helps or s.upper == np.inf]
        most = max(-(-len(problem.blocks) // BATCHES), problem.n_jobs)
        if len(asked) > most:
            gaps = [s.block.weight * (s.upper - s.value) for s in asked]
            least = np.partition(gaps, -most)[-most]
            asked = [s for s, gap in zip(asked, gaps, strict=True) if gap >= least]
        asked = asked or samples
        answers = list(problem.each(Sample.ask_decoder, asked))
        monitor.oracle_calls += len(asked)
        for sample, vertex in zip(asked, answers, strict=True):
            sample.learn(vertex)
        return not any(s.helps for s in samples)
