"""Errors of marginals by MAP calls, of Frank-Wolfe and perturb-and-MAP on random matchings."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from ..inference import marginals
from ..structures import BipartiteMatching

Floats = NDArray[np.float64]
Errors = dict[str, list[list[float]]]
"""By method, a list over graphs of lists over calls or temperatures."""

TOL = 1e-9  # gap of log Z_rho
FW, PLAIN, PERTURB = "FW", "FW, plain", "perturb-and-MAP"
METHODS = (FW, PLAIN, PERTURB)
LASTING = (PLAIN, PERTURB)  # cheap enough for many calls
STANDARD_ERROR = f"{PERTURB}, standard error"


def optimum_name(rho: float) -> str:
    return f"optimum, rho = {rho:g}"


def graph_scores(setting: Mapping[str, Any], beta: float) -> list[Floats]:
    """beta times weights unif[0, 1] of all pairs, for each graph."""
    size = setting["side"] ** 2
    return [
        beta * np.random.default_rng([setting["seed"], graph]).random(size)
        for graph in range(setting["graphs"])
    ]


def matchings(scores: Floats, rho: float = 1.0) -> BipartiteMatching:
    side = round(len(scores) ** 0.5)
    return BipartiteMatching((side, side), rho)


def exact_tau(scores: Floats) -> Floats:
    return np.asarray(marginals(matchings(scores), scores, "exact").tau)


def errors_by_calls(
    method: str, scores: Floats, exact: Floats, most: int, seed: int
) -> tuple[Floats, Any]:
    """Errors after 1, ..., `most` MAP calls; where a method ends earlier, its last one stays."""
    errors = np.full(most + 1, np.nan)

    def watch(calls: int, tau: Floats) -> bool:
        errors[calls] = np.abs(tau - exact).max()
        return calls >= most

    structure = matchings(scores)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the calls are what is limited
        if method == PERTURB:
            answer = marginals(
                structure, scores, "perturb", n_samples=most, random_state=seed, callback=watch
            )
        else:
            variant = {"variant": "plain"} if method == PLAIN else {}
            answer = marginals(
                structure, scores, "fw", tol=TOL, max_iter=most, callback=watch, **variant
            )
    last = int(np.flatnonzero(np.isfinite(errors))[-1])
    errors[last:] = errors[last]
    return errors[1:], answer


def traced(setting: Mapping[str, Any], beta: float) -> Errors:
    """Errors of all methods after each number of calls."""
    kept = np.array(setting["calls"]) - 1
    found: Errors = {name: [] for name in METHODS}
    for graph, scores in enumerate(graph_scores(setting, beta)):
        exact = exact_tau(scores)
        for name in METHODS:
            errors, _ = errors_by_calls(name, scores, exact, max(setting["calls"]), graph)
            found[name].append(errors[kept].tolist())
    return found


def limited(setting: Mapping[str, Any], beta: float) -> dict[str, list[float]]:
    """Errors after many calls and at optima, and the largest standard error of perturb-and-MAP."""
    found: dict[str, list[float]] = {}
    for graph, scores in enumerate(graph_scores(setting, beta)):
        exact = exact_tau(scores)
        for name in LASTING:
            errors, answer = errors_by_calls(name, scores, exact, setting["many"], graph)
            found.setdefault(name, []).append(float(errors[-1]))
            if name == PERTURB:
                noise = float(answer.report["standard_error"].max())
                found.setdefault(STANDARD_ERROR, []).append(noise)
        for rho in setting["rhos"]:
            tau = marginals(matchings(scores, rho), scores, tol=TOL).tau
            found.setdefault(optimum_name(rho), []).append(float(np.abs(tau - exact).max()))
    return found
