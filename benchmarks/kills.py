"""Fits that are killed at random moments and resumed from their checkpoints.

    python -m benchmarks.kills [--kills 200]

Each fit runs in a process of its own, which writes checkpoints as often as it can and gets SIGKILL
after a random time. Then it is started again, until it ends. Its weights and its history must be
those of a fit that nobody has killed.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import numpy as np

from mlestruct import BipartiteMatchingCRF, ChainCRF, Checkpoint, GridCRF
from mlestruct.partitions import LocalBackend

PARTITIONS = 3
SOLVERS = (
    "bcfw", "fw", "lbfgs", "newton", "lbfgs of chains", "lbfgs of grids",
    "bcfw in partitions", "newton in partitions",
)  # fmt: skip


def fitted(solver: str, folder: str | None) -> tuple[np.ndarray, list[float]]:
    """Weights and dual values of one fit of a second or less."""
    rng = np.random.default_rng(0)
    budget = {"tol": 1e-9, "max_iter": 60, "random_state": 0}
    if solver.endswith("chains"):
        X = [rng.normal(size=(30, 8)) for _ in range(40)]
        Y = [x[:, :4].argmax(axis=1) for x in X]
        model = ChainCRF(solver="lbfgs", alpha=1e-3, **budget)
    elif solver.endswith("grids"):
        X = [rng.normal(size=(20, 20, 3)) for _ in range(10)]
        Y = [(x[:, :, 0] + rng.normal(size=(20, 20)) > 0).astype(int) for x in X]
        model = GridCRF(solver="lbfgs", **budget)
    else:
        X = [rng.normal(size=(12, 12, 4)) for _ in range(30)]
        Y = [rng.permutation(12) for _ in X]
        model = BipartiteMatchingCRF(solver=solver.split()[0], alpha=0.1, **budget)
    parts = LocalBackend(n_partitions=PARTITIONS) if "partitions" in solver else nullcontext()
    with parts:
        model.fit(X, Y, checkpoint=None if folder is None else Checkpoint(folder, every=0))
    return model.coef_, model.history_.dual


def killed(solver: str, folder: str, seconds: float) -> bool:
    """Fit in a child process that is killed after some seconds; whether it was still at work."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            fitted(solver, folder)
            status = 0
        finally:
            os._exit(status)
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            if status:
                raise RuntimeError(f"{solver}: the fit failed")
            return False
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    options = parser.parse_args(arguments)
    if not sys.warnoptions:
        import warnings

        warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    truth, seconds = {}, {}
    for solver in SOLVERS:
        fitted(solver, None)  # compiles
        with tempfile.TemporaryDirectory() as folder:
            started = time.perf_counter()
            truth[solver] = fitted(solver, folder)
            seconds[solver] = time.perf_counter() - started
    kills = equal = fits = left = 0
    while kills < options.kills:
        solver = SOLVERS[fits % len(SOLVERS)]
        fits += 1
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(4):
                if not killed(solver, folder, float(rng.uniform(0, 0.6 * seconds[solver]))):
                    break
                kills += 1
            coef, dual = fitted(solver, folder)
            equal += np.array_equal(coef, truth[solver][0]) and dual == truth[solver][1]
            files = 1 + PARTITIONS * ("partitions" in solver)  # the state of each partition
            left += len(list(Path(folder).iterdir())) - files
    print(f"{kills} kills of {fits} fits: {equal} ended with the weights and the history of an")
    print(f"unbroken fit, to the last bit; {fits - equal} did not; files left behind: {left}")
    return int(equal != fits)


if __name__ == "__main__":
    raise SystemExit(main())
