"""Algorithm 1 beside the default solver, on one problem of every experiment that learns a CRF."""

import time
import warnings
from dataclasses import replace
from functools import partial

from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from mlestruct.learning import LBFGS, BlockFrankWolfe

from .runner import Table

AUTO, PAPER, SEARCH = "auto", "Algorithm 1", "Algorithm 1, line search"


def solved_by_each(model, X, Y, seconds):
    """The same problem by each algorithm; Algorithm 1 has about so many CPU seconds.

    Returns by algorithm: "solver", "objective" (the least L(tau)), "gap" (certified), "seconds" of
    CPU time, "calls" of the oracle (MAP, or marginals).
    """
    solvers = {
        AUTO: None,
        PAPER: BlockFrankWolfe(step="fixed", max_iter=10**6),
        SEARCH: BlockFrankWolfe(max_iter=10**6),
    }
    found = {}
    for name, solver in solvers.items():
        own = clone(model).set_params(solver=solver, random_state=0)
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            short = LBFGS(max_iter=1) if solver is None else replace(solver, max_iter=1)
            clone(own).set_params(solver=short).fit(X[:1], Y[:1])  # compiles, which is not timed
            began = time.process_time()
            if solver is not None:
                own.set_params(solver=replace(solver, callback=partial(is_over, began + seconds)))
            own.fit(X, Y)
        found[name] = {
            "solver": own.solver_,
            "objective": own.objective_bound_,
            "gap": own.duality_gap_,
            "seconds": time.process_time() - began,
            "calls": own.n_oracle_calls_,
        }
    return found


def is_over(end, progress):
    return time.process_time() >= end


def algorithms_table(problem, found):
    scale = max(1.0, abs(found[AUTO]["objective"]))
    rows = [
        [name, row["solver"], row["objective"], row["gap"] / scale, row["seconds"], row["calls"]]
        for name, row in found.items()
    ]
    head = ["algorithm", "solver", "least L(tau)", "certified gap, relative", "CPU s", "calls"]
    return Table("algorithms", f"Algorithm 1 beside auto: {problem}", head, rows)
