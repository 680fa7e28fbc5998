"""The parts: one for each method, and one that keeps the picture that is shown.

A method leaves copies of its weights while it runs. What they are worth is found out afterwards
and not counted: the test error (share of wrong pixels of each picture) of the MAP labelling and of
marginals above 1/2, and the likelihood. Which copies are looked at is fixed beforehand by moments
of CPU time, so that the parts do not depend on each other.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ...learning import DualProblem
from ..contract import Setting
from .data import Data
from .judge import Judge
from .memory import forget_peak, peak_gb
from .methods import TRUNCATED, run
from .packing import packed
from .traces import Trace, Weights

WARM_UP = 0.3  # CPU seconds on tiny pictures


def method_part(setting: Setting, method: str) -> dict[str, Any]:
    """Run a method, then judge the weights that it left."""
    data = Data(setting)
    compile_method(method, setting["hog"], setting["alpha"])
    forget_peak()
    X, Y = data.training()
    found = run(method, X, Y, setting["alpha"], setting["tol"], setting["budget"])
    memory = peak_gb()
    judge = Judge(data)
    problem = judge.problem(X, Y)
    return {
        "converged": bool(found.converged),
        "memory_gb": memory,
        "pixels": int(sum(y.size for y in Y)),
        "curves": {
            name: judged(name, trace, judge, problem) for name, trace in found.traces.items()
        },
    }


@cache
def compile_method(method: str, hog: bool, alpha: float) -> None:
    """Compile what a method needs, so that it is not timed."""
    X, Y = Data({"hog": hog}).tiny()
    run(method, X, Y, alpha, 1e-3, WARM_UP)


def judged(name: str, trace: Trace, judge: Judge, problem: DualProblem) -> dict[str, Any]:
    """What is kept of a trace."""
    setting = judge.data.setting
    chosen = trace.at(setting["moments"])
    errors = judge.errors(judge.data.test, [weights.theta for weights in chosen])
    return {
        "certificates": [list(row) for row in trace.certificates],
        "values": [list(row) for row in trace.values],
        "snapshots": [
            {
                **_when(weights),
                "map_errors": np.round(errors[:, k, 0], 6).tolist(),
                "marginal_errors": np.round(errors[:, k, 1], 6).tolist(),
                "primal": judge.likelihood(problem, weights.theta),
                "theta": weights.theta.tolist(),
            }
            for k, weights in enumerate(chosen)
        ],
        "path": path(name, trace, judge),
        "shown": shown(trace, judge),
    }


def path(name: str, trace: Trace, judge: Judge) -> list[dict[str, Any]]:
    """Errors on the picture that is shown, at many moments."""
    setting = judge.data.setting
    iterations = setting["iterations"] if name.startswith(TRUNCATED) else ()
    chosen = trace.at(setting["path"], iterations)
    errors = judge.path(setting["picture"], [weights.theta for weights in chosen])
    return [
        {**_when(weights), "map_error": float(by_map), "marginal_error": float(by_marginals)}
        for weights, (by_map, by_marginals) in zip(chosen, errors, strict=True)
    ]


def shown(trace: Trace, judge: Judge) -> list[dict[str, Any] | None]:
    """Marginals of the picture that is shown, at the moments of its figure."""
    setting = judge.data.setting
    images, _ = judge.data.pictures([setting["picture"]])
    found: list[dict[str, Any] | None] = []
    for moment in setting["shown"]:
        weights = trace.known_at(moment)
        found.append(None if weights is None else packed(judge.marginals(images[0], weights.theta)))
    return found


def picture_part(setting: Setting) -> dict[str, Any]:
    """The picture that is shown, and its mask; and the share of the figure in all pictures."""
    data = Data(setting)
    images, masks = data.pictures([setting["picture"]])
    _, tested = data.pictures(data.test)
    return {
        "image": packed(images[0]),
        "mask": packed(masks[0]),
        "shares": [round(float(mask.mean()), 6) for mask in tested],
    }


def _when(weights: Weights) -> dict[str, Any]:
    return {"cpu": weights.cpu, "wall": weights.wall, "iteration": weights.iteration}
