"""What is kept of a method: errors and likelihoods of weights that it had at fixed moments.

A method leaves copies of its weights while it runs. They are evaluated afterwards, which is not
counted: the test error (share of wrong pixels of each picture) of the MAP labelling and of
marginals above 1/2, and the likelihood. Which copies are evaluated is fixed beforehand by moments
of CPU time, so that the parts do not depend on each other.
"""

from __future__ import annotations

import os
import re
import warnings
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
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
from .methods import Trace, run

Floats = NDArray[np.float64]


# ---------------------------------------------------------------------- parts
def method_part(setting: Setting, method: str) -> dict[str, Any]:
    """Run a method, then evaluate the weights that it left."""
    data = Data(setting)
    compile_method(method, setting["hog"], setting["alpha"])
    reset_peak_memory()
    X, Y = data.training()
    traces, converged = run(method, X, Y, setting["alpha"], setting["tol"], setting["budget"])
    memory = peak_memory_gb()
    evaluation = Evaluation(data)
    problem = evaluation.model.build_problem(X, Y)
    return {
        "converged": bool(converged),
        "memory_gb": memory,
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
    """What is kept of a trace: test errors and likelihoods at the moments of "snapshots", errors
    on the picture that is shown at those of "path", and its marginals at those of "shown"."""
    setting = evaluation.data.setting
    picture = setting["picture"]
    (image,), _ = evaluation.data.pictures([picture])
    snapshots = trace.at(setting["moments"])
    errors = evaluation.errors(evaluation.data.test, [weights.theta for weights in snapshots])
    path = trace.at(setting["path"], setting["iterations"] if name.startswith("trw") else ())
    path_errors = evaluation.errors([picture], [weights.theta for weights in path])[0]
    drawn = [trace.known_at(moment) for moment in setting["shown"]]

    def when(weights: Any) -> dict[str, Any]:
        return {"cpu": weights.cpu, "wall": weights.wall, "iteration": weights.iteration}

    return {
        "certificates": [list(row) for row in trace.certificates],
        "values": [list(row) for row in trace.values],
        "snapshots": [
            {
                **when(weights),
                "map_errors": np.round(errors[:, k, 0], 6).tolist(),
                "marginal_errors": np.round(errors[:, k, 1], 6).tolist(),
                "primal": evaluation.likelihood(problem, weights.theta),
                "theta": weights.theta.tolist(),
            }
            for k, weights in enumerate(snapshots)
        ],
        "path": [
            {**when(weights), "map_error": float(by_map), "marginal_error": float(by_marginals)}
            for weights, (by_map, by_marginals) in zip(path, path_errors, strict=True)
        ],
        "shown": [
            None if w is None else encoded(evaluation.marginals(image, w.theta)) for w in drawn
        ],
    }


def picture_part(setting: Setting) -> dict[str, Any]:
    """The picture that is shown, and its mask; and the share of the figure in all pictures."""
    data = Data(setting)
    images, masks = data.pictures([setting["picture"]])
    _, tested = data.pictures(data.test)
    return {
        "image": encoded(images[0]),
        "mask": encoded(masks[0]),
        "shares": [round(float(mask.mean()), 6) for mask in tested],
    }


# ---------------------------------------------------------------------- weights
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

    def errors(self, indices: Sequence[int], thetas: Sequence[Floats]) -> Floats:
        """Shares of wrong pixels, MAP and marginals, shape (n_pictures, n_thetas, 2)."""
        return np.array(self.each(lambda k: self._errors_of(k, thetas), indices))

    def _errors_of(self, index: int, thetas: Sequence[Floats]) -> list[tuple[float, float]]:
        images, masks = self.data.pictures([index])
        block = self.model._prepare([self.data.sample(images[0])])[0]
        truth = masks[0].ravel()
        found = []
        for theta in thetas:
            scores = block.scores(theta)
            label = block.structure.best_label(scores)
            above = self._marginals(block, scores, 1e-4).tau[: truth.shape[0]] > 0.5
            found.append((float(np.mean(label != truth)), float(np.mean(above != truth))))
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


# ---------------------------------------------------------------------- pictures as plain data
def encoded(values: ArrayLike) -> dict[str, Any]:
    """Numbers from 0 to 1 in steps of 1/255, as text; those above 1/2 stay above it."""
    levels = np.rint(255 * np.clip(values, 0.0, 1.0)).astype(np.uint8)
    return {"shape": list(levels.shape), "levels": b64encode(levels.tobytes()).decode("ascii")}


def decoded(stored: Mapping[str, Any]) -> Floats:
    """What `encoded` was given, to 1/510."""
    levels = np.frombuffer(b64decode(stored["levels"]), dtype=np.uint8)
    return levels.reshape(stored["shape"]) / 255


# ---------------------------------------------------------------------- memory
def reset_peak_memory() -> bool:
    """Start to measure the highest memory anew; False if the system (not Linux) cannot."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def peak_memory_gb() -> float | None:
    """The highest memory since the reset, in 10^9 bytes; None if the system does not tell."""
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    except OSError:
        return None
    return None if found is None else int(found.group(1)) * 1024 / 1e9
