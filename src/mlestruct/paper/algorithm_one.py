"""Algorithm 1 beside the default solver, on one problem of every experiment that fits by it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ..learning import BlockFrankWolfe
from .contract import Claim, Table

AUTO, PAPER, SEARCH = "auto", "Algorithm 1", "Algorithm 1, line search"


def solved_by_each(model: Any, X: Any, Y: Any, seconds: float) -> dict[str, Any]:
    """The same problem by each algorithm, for at most about so many CPU seconds.

    Returns by algorithm: "solver", "objective" (the least L(tau)), "gap" (certified), "seconds" of
    CPU time, "calls" of the oracle (MAP, or marginals).
    """
    solvers = {
        AUTO: "auto",
        PAPER: BlockFrankWolfe.paper(),
        SEARCH: BlockFrankWolfe.paper(line_search=True),
    }
    found = {}
    for name, solver in solvers.items():
        own = clone(model).set_params(solver=solver, random_state=0)
        began = time.process_time()
        if name != AUTO:
            own.set_params(max_iter=10**6, callback=_until(began + seconds))
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            own.fit(X, Y)
        found[name] = {
            "solver": own.solver_,
            "objective": float(own.objective_),
            "gap": float(own.duality_gap_),
            "seconds": time.process_time() - began,
            "calls": int(own.n_oracle_calls_),
        }
    return found


def _until(moment: float) -> Callable[[Any], bool]:
    return lambda progress: time.process_time() >= moment


def algorithms_table(problem: str, found: Mapping[str, Any]) -> Table:
    """What each algorithm has proven, and its seconds."""
    rows = [
        [name, row["solver"], row["objective"], row["gap"] / scale(found), row["seconds"],
         row["calls"]]
        for name, row in found.items()
    ]  # fmt: skip
    head = ["algorithm", "solver", "least L(tau)", "certified gap, relative", "CPU s", "calls"]
    return Table("algorithms", f"Algorithm 1 beside auto: {problem}", head, rows)


def scale(found: Mapping[str, Any]) -> float:
    return max(1.0, abs(float(found[AUTO]["objective"])))


def same_optimum(problem: str, found: Mapping[str, Any]) -> Claim:
    low = max(row["objective"] - (row["gap"] or 0.0) for row in found.values())
    high = min(row["objective"] for row in found.values())
    short = {name: (row["objective"] - high) / scale(found) for name, row in found.items()}
    told = "; ".join(
        f"{name} {short[name]:.2g} in {found[name]['seconds']:.3g} s" for name in found
    )
    return Claim(
        f"{problem}: Algorithm 1 and auto have the same optimum, within their certificates",
        low <= high + 1e-9 * scale(found),
        f"L(tau) above the least, relative, and CPU seconds: {told}",
        "ours",
    )
