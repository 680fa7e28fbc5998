"""Seconds that the first use of each estimator takes: an empty cache, then a second process.

    python -m benchmarks.first_use [--only NAME ...] [--other CHECKOUT]
    python -m benchmarks.record first_use    # the table of docs/estimators.md

For every row a fresh process fits and predicts on a small generated problem with an empty cache of
compiled kernels, and a second one does the same with the cache that the first one has left. CPU
seconds of the whole process; those of compiling are between numba's compile events, and `kernels`
counts them. "README blocks" runs all Python blocks of README.md in one process. skglm's Lasso is
another library with numba kernels (`pip install skglm`). With `--other` another checkout is
measured in the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numba.core.event import Event, Listener, install_listener

import mlestruct
from benchmarks.record import show

ROOT = Path(__file__).parents[1]
LASSO = "skglm's Lasso"


def nothing() -> None:
    """Only the import."""
    from mlestruct import BipartiteMatchingCRF  # noqa: F401


def bipartite() -> None:
    from mlestruct import BipartiteMatchingCRF

    rng = np.random.default_rng(0)
    X = rng.normal(size=(5, 8, 8, 3))
    BipartiteMatchingCRF().fit(X, [rng.permutation(8) for _ in X]).predict(X)


def sparse() -> None:
    from scipy.sparse import csr_array, eye_array, random_array

    from mlestruct import BipartiteMatchingCRF, PairInput
    from mlestruct.features import DenseFeatures

    rng = np.random.default_rng(0)
    mask = csr_array(random_array((300, 300), density=0.02, rng=rng) + eye_array(300)).astype(bool)
    x = PairInput(DenseFeatures(rng.normal(size=(mask.nnz, 3))), mask=mask)
    partner = np.where(np.arange(300) < 200, np.arange(300), -1)
    BipartiteMatchingCRF(perfect=False).fit([x], [partner]).predict([x])


def group() -> None:
    from mlestruct import MatchingCRF

    X = np.random.default_rng(0).normal(size=(3, 10, 10, 3))
    X += X.transpose(0, 2, 1, 3)
    MatchingCRF().fit(X, [np.arange(10) ^ 1] * 3).predict(X)


def labelled_grid(n_states: int) -> None:
    from mlestruct import GridCRF

    X = np.random.default_rng(0).normal(size=(3, 12, 12, n_states))
    GridCRF().fit(X, X.argmax(axis=3)).predict(X)


def grid_2() -> None:
    labelled_grid(2)


def grid_3() -> None:
    labelled_grid(3)


def labelled_graph(n_states: int) -> None:
    from mlestruct import GraphCRF

    rng = np.random.default_rng(0)
    ring = np.stack([np.arange(10), (np.arange(10) + 1) % 10], axis=1)
    X = [(rng.normal(size=(10, n_states)), ring) for _ in range(6)]
    GraphCRF().fit(X, [nodes.argmax(axis=1) for nodes, _ in X]).predict(X)


def graph_2() -> None:
    labelled_graph(2)


def graph_3() -> None:
    labelled_graph(3)


def chain() -> None:
    from mlestruct import ChainCRF
    from mlestruct.datasets import make_words

    letters, words = make_words(20, random_state=0)
    ChainCRF().fit(letters, words).predict(letters)


def readme() -> None:
    page = Path(mlestruct.__file__).parents[2] / "README.md"
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, str(page), "exec"), names)


def lasso() -> None:
    from skglm import Lasso

    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 20))
    Lasso(alpha=0.1).fit(X, X[:, 0]).predict(X)


ROWS: dict[str, Callable[[], None]] = {
    "import": nothing,
    "bipartite": bipartite,
    "bipartite, sparse": sparse,
    "group": group,
    "grid, 2 states": grid_2,
    "grid, 3 states": grid_3,
    "graph, 2 states": graph_2,
    "graph, 3 states": graph_3,
    "chain": chain,
    "README blocks": readme,
    LASSO: lasso,
}


class Compiling(Listener):
    """Number of compiled kernels and CPU seconds that they took, nested ones counted once."""

    def __init__(self) -> None:
        self.kernels = self.depth = 0
        self.started = self.seconds = 0.0

    def on_start(self, event: Event) -> None:
        if self.depth == 0:
            self.started = time.process_time()
        self.depth += 1
        self.kernels += 1

    def on_end(self, event: Event) -> None:
        self.depth -= 1
        if self.depth == 0:
            self.seconds += time.process_time() - self.started


def compile_row(name: str) -> tuple[float, float, int]:
    """CPU seconds of this process from its start, those of compiling, and the kernels."""
    warnings.simplefilter("ignore")
    compiling = Compiling()
    with install_listener("numba:compile", compiling):
        ROWS[name]()
    return time.process_time(), compiling.seconds, compiling.kernels


def in_fresh_process(name: str, checkout: Path, cache: str) -> tuple[float, float, int]:
    environment = {
        **os.environ,
        "PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{ROOT}",
        "NUMBA_CACHE_DIR": cache,
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "agg",
        "MLESTRUCT_QUIET": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.first_use", "--row", name],
        capture_output=True, text=True, env=environment, cwd=cache,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{name}, {checkout}: {done.stderr.strip().splitlines()[-1]}")
    total, compiling, kernels = json.loads(done.stdout.splitlines()[-1])
    return total, compiling, kernels


def measured_row(name: str, checkout: Path) -> list[str | float]:
    with tempfile.TemporaryDirectory() as cache:
        first = in_fresh_process(name, checkout, cache)
        again, left, _ = in_fresh_process(name, checkout, cache)
    return [name if checkout == ROOT else f"{name}, {checkout.name}", *first, again, left]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=ROWS, default=list(ROWS), metavar="NAME")
    parser.add_argument("--other", type=Path, metavar="CHECKOUT", help="measured beside this one")
    parser.add_argument("--row", choices=ROWS, help=argparse.SUPPRESS)  # the work of one process
    options = parser.parse_args(arguments)
    if options.row:
        print(json.dumps(compile_row(options.row)))
        return
    rows = []
    for name in options.only:
        if name == LASSO and not find_spec("skglm"):
            print(f"{name}: not installed (pip install skglm)")
            continue
        rows.append(measured_row(name, ROOT))
        if options.other and name != LASSO:
            rows.append(measured_row(name, options.other.resolve()))
    show(
        "CPU seconds of a first process, of compiling in it, and of the next process",
        ["", "first", "compiling", "kernels", "next", "compiling"],
        rows,
    )


if __name__ == "__main__":
    main()
