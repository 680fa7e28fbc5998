"""Seconds of the first use: an empty cache of compiled kernels, then a second process.

    python -m benchmarks.first_use [--quick]

For every row a fresh process fits and predicts on a small problem with an empty cache of compiled
kernels, and a second one with the cache that the first has left. CPU seconds of the whole process;
`kernels` are numba's compilations. The rival is skglm's Lasso, another library with numba kernels.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import (
    assignments,
    candidate_pairs,
    command,
    groups,
    has,
    images,
    pair_input,
    random_edges,
    sentences,
    show,
)

ROOT = Path(__file__).parents[1]
LASSO = "skglm's Lasso"


def used(name: str, data: Any, **options: Any) -> None:
    """Fit and predict with an estimator of mlestruct."""
    import mlestruct

    X, Y = data
    getattr(mlestruct, name)(**options).fit(X, Y).predict(X)


def pairs() -> Any:
    row, col, features, partner = candidate_pairs(300)
    return [pair_input(row, col, features, (300, 300))], [partner]


def graphs(n_states: int) -> Any:
    rng = np.random.default_rng(0)
    Y = [rng.integers(n_states, size=30) for _ in range(4)]
    return [(np.eye(n_states)[y], random_edges(30, rng)) for y in Y], Y


def nothing() -> None:
    import mlestruct

    _ = mlestruct.BipartiteMatchingCRF


def lasso() -> None:
    from skglm import Lasso

    X = np.random.default_rng(0).normal(size=(50, 20))
    Lasso(alpha=0.1).fit(X, X[:, 0]).predict(X)


ROWS: dict[str, Callable[[], None]] = {
    "import": nothing,
    "assignments": lambda: used("BipartiteMatchingCRF", assignments(5, 8)),
    "candidate pairs": lambda: used("BipartiteMatchingCRF", pairs(), perfect=False),
    "pairs of a group": lambda: used("MatchingCRF", groups(3, 10)),
    "images, 2 states": lambda: used("GridCRF", images(3, 12, 2)),
    "images, 3 states": lambda: used("GridCRF", images(3, 12, 3)),
    "graphs, 2 states": lambda: used("GraphCRF", graphs(2)),
    "graphs, 3 states": lambda: used("GraphCRF", graphs(3)),
    "sequences": lambda: used("ChainCRF", sentences(20)),
    LASSO: lasso,
}


def count(name: str) -> None:
    """Print CPU seconds of this process from its start, and the number of compiled kernels."""
    from numba.core.event import Listener, install_listener

    class Counter(Listener):
        kernels = 0

        def on_start(self, event: Any) -> None:
            self.kernels += 1

        def on_end(self, event: Any) -> None:
            pass

    counter = Counter()
    with install_listener("numba:compile", counter):
        ROWS[name]()
    print(json.dumps([time.process_time(), counter.kernels]))


def in_fresh_process(name: str, cache: str) -> tuple[float, int]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
        ),
        "NUMBA_CACHE_DIR": cache,
        "OMP_NUM_THREADS": "1",
        "MLESTRUCT_QUIET": "1",
    }
    code = f"import benchmarks.first_use as b; b.count({name!r})"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True,
                          text=True, env=environment, cwd=cache, check=False)  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr.strip().splitlines()[-1]}")
    seconds, kernels = json.loads(done.stdout.splitlines()[-1])
    return seconds, kernels


def run(quick: bool) -> None:
    names = ["import"] if quick else [name for name in ROWS if name != LASSO or has("skglm")]
    rows = []
    for name in names:
        with tempfile.TemporaryDirectory() as cache:
            first, kernels = in_fresh_process(name, cache)
            again, left = in_fresh_process(name, cache)
        rows.append([name, first, kernels, again, left])
    show(
        "CPU seconds of a first process with an empty cache, and of the next process",
        ["", "first", "kernels", "next", "kernels"],
        rows,
    )


main = command(__doc__, run)

if __name__ == "__main__":
    main()
