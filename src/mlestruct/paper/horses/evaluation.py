"""What is kept of a method: errors and likelihoods of weights that it had at fixed moments.

A method leaves copies of its weights while it runs. They are evaluated afterwards, which is not
counted: the test error (share of wrong pixels of each picture) of marginals above 1/2, and of the
last weights that of the MAP labelling and the likelihood as well. Which copies are evaluated is
fixed beforehand by moments of CPU time, so that the parts do not depend on each other.

The naive double loop, gradient ascent with messages to convergence at every step, runs on a small
problem of these pictures, for several rates of steps rate / (alpha sqrt(t)), beside auto.
"""

from __future__ import annotations

import os
import time
import warnings
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from ...algorithms.pairwise.grid_message_passing import in_linear_range
from ...learning import DualProblem
from ...models import GridCRF
from ..parts import Setting
from .data import Data
from .methods import Trace, Weights, run

Floats = NDArray[np.float64]


def method_part(setting: Setting, method: str) -> dict[str, Any]:
    """Run a method, then evaluate the weights that it left."""
    data = Data(setting)
    compile_method(method, setting["hog"], setting["alpha"])
    X, Y = data.training()
    traces, converged = run(method, X, Y, setting["alpha"], setting["tol"], setting["budget"])
    evaluation = Evaluation(data)
    problem = evaluation.model.build_problem(X, Y)
    return {
        "converged": bool(converged),
        "pixels": int(sum(y.size for y in Y)),
        "curves": {
            name: evaluated(name, trace, evaluation, problem) for name, trace in traces.items()
        },
    }


@cache
def compile_method(method: str, hog: bool, alpha: float) -> None:
    """Compile what a method needs, so that it is not timed."""
    X, Y = Data({"hog": hog}).tiny()
    run(method, X, Y, alpha, tol=1e-3, budget=0.3)


def evaluated(
    name: str, trace: Trace, evaluation: Evaluation, problem: DualProblem
) -> dict[str, Any]:
    """What is kept of a trace: test errors at the moments of "snapshots", errors on the picture
    that is shown at those of "path", and its marginals at those of "shown"."""
    setting = evaluation.data.setting
    picture, test, last = setting["picture"], evaluation.data.test, trace.weights[-1].theta
    (image,), _ = evaluation.data.pictures([picture])
    snapshots = trace.at(setting["moments"])
    path = trace.at(setting["path"], setting["iterations"] if name.startswith("trw") else ())
    drawn = [trace.known_at(moment) for moment in setting["shown"]]

    def with_errors(kept: Sequence[Weights], pictures: Sequence[int]) -> list[dict[str, Any]]:
        errors = evaluation.errors(pictures, [weights.theta for weights in kept])
        return [
            {"cpu": w.cpu, "wall": w.wall, "iteration": w.iteration, "errors": row.tolist()}
            for w, row in zip(kept, np.round(errors.T, 6), strict=True)
        ]

    return {
        "certificates": [list(row) for row in trace.certificates],
        "values": [list(row) for row in trace.values],
        "snapshots": with_errors(snapshots, test),
        "path": with_errors(path, [picture]),
        "shown": [
            None if w is None else encoded(evaluation.marginals(image, w.theta)) for w in drawn
        ],
        "end": {
            "map_error": float(evaluation.errors(test, [last], by_map=True).mean()),
            "primal": evaluation.likelihood(problem, last),
        },
    }


def picture_part(setting: Setting) -> dict[str, Any]:
    """The picture that is shown, and its mask."""
    data = Data(setting)
    images, masks = data.pictures([setting["picture"]])
    return {"image": encoded(images[0]), "mask": encoded(masks[0])}


def double_loop_part(setting: Setting) -> dict[str, Any]:
    """CPU seconds and likelihood after each step of every rate; the optimum and auto's seconds."""
    own = setting["double_loop"]
    X, Y = Data({**setting, **own["data"]}).training()
    alpha = setting["alpha"] * sum(y.size for y in Y) / own["pixels_per_alpha"]
    with threadpool_limits(limits=1, user_api="blas"):
        model = GridCRF(alpha=alpha, fit_intercept=False, tol=setting["tol"])
        problem = model.build_problem(X, Y)
        compile_method("auto", setting["hog"], setting["alpha"])
        began = time.process_time()
        model.fit(X, Y)
        seconds = time.process_time() - began
        rates = {f"{r:g}": gradient_ascent(problem, r, own["seconds"]) for r in own["rates"]}
    return {
        "optimum": float(model.objective_),
        "auto": seconds,
        "pixels": int(sum(y.size for y in Y)),
        "alpha": alpha,
        "rates": rates,
    }


def gradient_ascent(problem: DualProblem, rate: float, seconds: float) -> list[list[float]]:
    """CPU seconds and P(theta) after every step; messages of a picture go on from its last ones."""
    warm: list[Any] = [None] * len(problem.blocks)
    theta, rows = np.zeros(problem.n_features), []
    began = time.process_time()
    for t in range(1, 10**6):
        log_partition, expected = 0.0, np.zeros_like(theta)
        for m, block in enumerate(problem.blocks):
            found = block.structure.marginals(
                block.scores(theta), warm[m], 1e-6 * block.structure.n_coordinates
            )
            warm[m] = found.warm
            log_partition += block.weight * found.upper_bound
            expected += block.weight * block.moments(found.tau)
        value = float(problem.primal(theta, log_partition))
        rows.append([time.process_time() - began, value])
        if rows[-1][0] >= seconds or not np.isfinite(value):
            break
        gradient = problem.target - expected - problem.alpha * theta
        theta = theta + rate / (problem.alpha * t**0.5) * gradient
    return rows


class Evaluation:
    """Predictions and likelihood of any weights.

    Works on blocks instead of calling the estimator, to bound the sweeps: weights far from the
    optimum would take thousands, and their errors do not depend on the last digits.
    """

    def __init__(self, data: Data):
        self.data = data
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            # fitted to know the two states
            self.model = GridCRF(alpha=data.setting["alpha"], fit_intercept=False, max_iter=1).fit(
                *data.tiny()
            )

    def marginals(self, image: Any, theta: Floats) -> Floats:
        """P(figure) of every pixel."""
        block = self.model._prepare([self.data.sample(image)])[0]
        found = self._marginals(block, block.scores(theta), 1e-4)
        out: Floats = found.tau[: block.structure.graph.n_nodes].reshape(image.shape[:2])
        return out

    def errors(
        self, indices: Sequence[int], thetas: Sequence[Floats], by_map: bool = False
    ) -> Floats:
        """Shares of wrong pixels, of marginals above 1/2 or MAP, shape (n_pictures, n_thetas)."""
        return np.array(self.each(lambda k: self._errors_of(k, thetas, by_map), indices))

    def _errors_of(self, index: int, thetas: Sequence[Floats], by_map: bool) -> list[float]:
        images, masks = self.data.pictures([index])
        block = self.model._prepare([self.data.sample(images[0])])[0]
        truth, found = masks[0].ravel(), []
        for theta in thetas:
            scores = block.scores(theta)
            if by_map:
                label = block.structure.best_label(scores)
            else:
                label = self._marginals(block, scores, 1e-4).tau[: truth.shape[0]] > 0.5
            found.append(float(np.mean(label != truth)))
        return found

    def likelihood(self, problem: DualProblem, theta: Floats) -> float:
        """A proven lower bound of P(theta), the regularised approximate log-likelihood."""

        def log_partition(block: Any) -> float:
            bound = self._marginals(block, block.scores(theta), 1e-6).upper_bound
            return float(block.weight * bound)

        return float(problem.primal(theta, sum(self.each(log_partition, problem.blocks))))

    def each(self, function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        """On all cores."""
        with (
            threadpool_limits(limits=1, user_api="blas"),
            ThreadPoolExecutor(os.cpu_count()) as pool,
        ):
            return list(pool.map(function, items))

    def _marginals(self, block: Any, scores: Floats, tol: float) -> Any:
        """After 30 sweeps; after 5 where scores are so large that sweeps are slow, and marginals
        all but 0 and 1."""
        structure = block.structure
        n_sweeps = 30 if in_linear_range(structure.graph.grid_shape, scores) else 5
        return structure.marginals(scores, None, tol * structure.n_coordinates, n_sweeps)


def encoded(values: ArrayLike) -> dict[str, Any]:
    """Numbers from 0 to 1 in steps of 1/255, as text; those above 1/2 stay above it."""
    levels = np.rint(255 * np.clip(values, 0.0, 1.0)).astype(np.uint8)
    return {"shape": list(levels.shape), "levels": b64encode(levels.tobytes()).decode("ascii")}


def decoded(stored: Mapping[str, Any]) -> Floats:
    """What `encoded` was given, to 1/510."""
    levels = np.frombuffer(b64decode(stored["levels"]), dtype=np.uint8)
    return levels.reshape(stored["shape"]) / 255
