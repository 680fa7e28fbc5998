"""Times until the marginals of one matching are within given errors, for several methods.

Every method runs with a range of limits. For each error (largest distance of a marginal from the
true Bethe one) the fastest limit that reaches it counts. Times are CPU times of one thread, the
least of several repetitions in which all methods take turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import LatentDirichletAllocation

from ..algorithms.frank_wolfe import Step, frank_wolfe_marginals
from ..datasets.topics import make_topic_counts, topic_similarity
from ..structures import BipartiteMatching

Floats = NDArray[np.float64]
Calls = dict[tuple[str, float], Callable[[], Any]]
Errors = dict[tuple[str, float], float]

FIXED, SEARCH, BP, AUTO = "FW, fixed steps", "FW, line search", "BP", "auto"
METHODS = (FIXED, SEARCH, BP, AUTO)
STEP_RULES: dict[str, Step] = {FIXED: "fixed", SEARCH: "line_search"}  # both are the paper's


def random_graphs(n: int, graphs: int, seed: int) -> list[Floats]:
    """Weights unif[0, 1] of all pairs."""
    return [np.random.default_rng([seed, n, graph]).random((n, n)) for graph in range(graphs)]


def topic_graphs(
    n_topics: int, graphs: int, seed: int, n_documents: int, scale: float
) -> list[Floats]:
    """Scores of aligning the topics of two fits, each pair of fits from starts of its own."""
    counts, _ = make_topic_counts(n_documents, n_topics=n_topics, random_state=seed)

    def topics(start: int) -> Floats:
        model = LatentDirichletAllocation(
            n_topics, learning_method="batch", max_iter=10, random_state=start
        )
        return np.asarray(model.fit(counts).components_)

    return [
        scale * topic_similarity(topics(2 * graph), topics(2 * graph + 1))
        for graph in range(graphs)
    ]


def cpu_seconds(calls: Mapping[Any, Callable[[], Any]], repetitions: int) -> dict[Any, float]:
    """The least time of each call, all of them taking turns; their first round is a warm-up.

    At least a millisecond is measured, short calls being repeated. Calls of 50 milliseconds are
    measured three times at most, those of a second once.
    """
    best: dict[Any, float] = {}
    number: dict[Any, int] = {}
    for key, call in calls.items():
        began = time.process_time()
        call()
        best[key] = time.process_time() - began
        number[key] = max(1, round(1e-3 / max(best[key], 1e-6)))
    for repetition in range(repetitions):
        for key, call in calls.items():
            if best[key] >= (1.0 if repetition < 2 else 0.05):
                continue
            began = time.process_time()
            for _ in range(number[key]):
                call()
            best[key] = min(best[key], (time.process_time() - began) / number[key])
    return best


def step_counts(most: int) -> list[int]:
    """0, 1, 2, ... in a geometric grid up to `most`."""
    grid = np.unique(np.round(np.sqrt(2.0) ** np.arange(2 * np.log2(most) + 1)).astype(int))
    return [0, *(int(k) for k in grid[grid < most]), most]


def frank_wolfe_errors(
    structure: BipartiteMatching,
    scores: Floats,
    truth: Floats,
    levels: Sequence[float],
    most: int,
    step: Step = "fixed",
) -> dict[int, float]:
    """Errors after the step counts of the grid, until the smallest level is reached.

    Fewer steps take the same way, so one run shows the errors of all limits.
    """
    grid = set(step_counts(most))
    errors: dict[int, float] = {}

    def watch(steps: int, tau: Floats) -> bool:
        if steps in grid:
            errors[steps] = float(np.abs(tau - truth).max())
            return errors[steps] <= min(levels)
        return False

    frank_wolfe_marginals(structure, scores, structure.interior(), 0.0, most, watch, False, step)
    return errors


def first_reaching(errors: Mapping[int, float], levels: Sequence[float]) -> dict[int, float]:
    """The fewest steps for each level, and the most there are if some level is out of reach."""
    kept = {}
    for level in levels:
        steps = next((k for k, error in errors.items() if error <= level), max(errors))
        kept[steps] = errors[steps]
    return kept


class MethodTimes:
    """All methods on one matching.

    Parameters
    ----------
    table : scores of shape (n, n)
    structure : the matchings of n and n at rho = 1
    setting : with "levels", "steps", "sweeps", "tols" and "repetitions"
    """

    def __init__(self, table: Floats, structure: BipartiteMatching, setting: Mapping[str, Any]):
        self.table = np.ascontiguousarray(table)
        self.scores = self.table.ravel()
        self.structure = structure
        self.setting = setting
        found = structure.marginals(self.scores, None, 1e-12)
        self.truth, self.truth_gap = found.tau, float(found.gap)

    def run(self) -> dict[str, Any]:
        """The fastest limit of every method for every level.

        Where no limit reaches a level, the one that took longest stands for what was spent.
        """
        calls, errors = self.limits()
        seconds = cpu_seconds(calls, self.setting["repetitions"])
        cells = [
            self.fastest(method, level, errors, seconds)
            for level in self.setting["levels"]
            for method in METHODS
        ]
        return {"cells": cells, "truth_gap": self.truth_gap}

    def limits(self) -> tuple[Calls, Errors]:
        """A call for every method and limit, and the error it ends with."""
        levels = self.setting["levels"]
        calls: Calls = {}
        errors: Errors = {}
        for name, rule in STEP_RULES.items():
            steps = frank_wolfe_errors(
                self.structure, self.scores, self.truth, levels, self.setting["steps"], rule
            )
            for k, error in first_reaching(steps, levels).items():
                errors[name, k] = error
                calls[name, k] = partial(self.frank_wolfe, k, rule)
        for k in self.setting["sweeps"]:
            calls[BP, k] = partial(self.beliefs, k)
            errors[BP, k] = self.error(calls[BP, k]())
            if errors[BP, k] <= min(levels):
                break  # more sweeps take more time
        for tol in self.setting["tols"]:
            calls[AUTO, tol] = partial(self.auto, tol)
            errors[AUTO, tol] = self.error(calls[AUTO, tol]())
        return calls, errors

    def frank_wolfe(self, steps: int, rule: Step = "fixed") -> Floats:
        start = self.structure.interior()
        return frank_wolfe_marginals(
            self.structure, self.scores, start, 0.0, steps, None, False, rule
        )[0]

    def beliefs(self, sweeps: int) -> Floats:
        return self.structure.belief_propagation(self.scores, 0.0, sweeps, 0.0).tau

    def auto(self, tol: float) -> Floats:
        return np.asarray(self.structure.marginals(self.scores, None, tol).tau)

    def error(self, tau: Floats) -> float:
        return float(np.abs(tau.ravel() - self.truth).max())

    def fastest(
        self, method: str, level: float, errors: Errors, seconds: Mapping[Any, float]
    ) -> dict[str, Any]:
        limits = [key for key in errors if key[0] == method]
        good = [key for key in limits if errors[key] <= level]
        key = min(good, key=seconds.__getitem__) if good else max(limits, key=seconds.__getitem__)
        return {
            "method": method,
            "level": level,
            "reached": bool(good),
            "limit": key[1],
            "microseconds": 1e6 * seconds[key],
        }
