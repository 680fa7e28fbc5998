"""Two checkouts side by side on the workloads of new users, as a Markdown table.

    python -m benchmarks.speed_table /path/to/other/checkout [--only NAME ...] [--limit 300]

Each cell is a process of its own with that checkout's `src` first on the path, one thread, kernels
compiled before. CPU seconds; a process ends after `--limit` of them or at 8 GB of memory. The rows
of first use start from an empty cache and count the seconds of compiling (`benchmarks.first_use`).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
MEMORY = 8 << 30  # bytes
NEW_ONLY = "python-crfsuite, the same addresses"


def linkage(size: str) -> dict[str, float]:
    from benchmarks.linkage import structured

    row = structured(size)
    return {"fit": row["fit"], "marginals": row["marginals"]}


def three_states(side: int) -> dict[str, float]:
    """A generated image of patches with noise."""
    from mlestruct import GridCRF

    def image(side: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(0)
        patches = rng.integers(3, size=(side // 12 + 1, side // 12 + 1))
        y = np.kron(patches, np.ones((12, 12), dtype=np.int64))[:side, :side]
        return np.eye(3)[y] + rng.normal(size=(side, side, 3)), y

    x, y = image(24)
    GridCRF(n_states=3).fit([x], [y]).predict([x])
    x, y = image(side)
    start = time.process_time()
    model = GridCRF(n_states=3).fit([x], [y])
    fitted = time.process_time()
    model.predict([x])
    return {"fit": fitted - start, "predict": time.process_time() - fitted}


def addresses(n: int) -> dict[str, float]:
    """Sequences of sparse rows, a column for every feature of the dictionaries."""
    from sklearn.feature_extraction import DictVectorizer

    from benchmarks.addresses import make_addresses
    from mlestruct import ChainCRF

    def sequences(n: int) -> tuple[list, list]:
        X, Y = make_addresses(n)
        ends = np.cumsum([len(x) for x in X])[:-1]
        rows = DictVectorizer().fit_transform([token for x in X for token in x]).tocsr()
        states = np.unique([label for y in Y for label in y], return_inverse=True)[1]
        cuts = zip([0, *ends], [*ends, rows.shape[0]], strict=True)
        return [rows[first:last] for first, last in cuts], np.split(states, ends)

    ChainCRF(max_iter=3).fit(*sequences(100))
    X, Y = sequences(n)
    start = time.process_time()
    ChainCRF(alpha=1.0, tol=1e-4).fit(X, Y)
    return {"fit": time.process_time() - start}


def crfsuite(n: int) -> dict[str, float]:
    from benchmarks.addresses import make_addresses
    from benchmarks.chains import run_crfsuite

    return {"fit": run_crfsuite(*make_addresses(n), 1.0, "all").seconds}


def graph(n: int) -> dict[str, float]:
    from benchmarks.graphs import measure

    return {"fit": measure("geometric", n)["fit"]}


def first_use(name: str) -> dict[str, float]:
    from benchmarks.first_use import compile_row

    return {"compiling": compile_row(name)[1]}


FIRST_USES = ("bipartite", "group", "grid, 2 states", "graph, 2 states", "chain", "README blocks")
ROWS: dict[str, Callable[[], dict[str, float]]] = {
    "sparse matching, 20,000 x 20,000, 160,279 pairs": partial(linkage, "1.6e5"),
    "linkage of 1,395 x 1,418, 15,405 pairs": partial(linkage, "small"),
    "grid of 240 x 240, 3 states": partial(three_states, 240),
    "ChainCRF, 6,000 addresses": partial(addresses, 6_000),
    NEW_ONLY: partial(crfsuite, 6_000),
    "GraphCRF, 8,000 nodes": partial(graph, 8_000),
    "GraphCRF, 20,000 nodes": partial(graph, 20_000),
    "GraphCRF, 100,000 nodes": partial(graph, 100_000),
    **{f"first use: {name}": partial(first_use, name) for name in FIRST_USES},
}


def measured(name: str, checkout: Path, limit: int) -> dict[str, float] | str:
    """The row of one checkout, or what ended it."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{ROOT}",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "MPLBACKEND": "agg",
            "MLESTRUCT_QUIET": "1",
        }
        if name.startswith("first use"):
            environment["NUMBA_CACHE_DIR"] = folder

        def limits() -> None:
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "benchmarks.speed_table", "--row", name],
            capture_output=True, text=True, env=environment, cwd=folder, preexec_fn=limits,
        )  # fmt: skip
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"> {limit}"
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return "> 8 GB" if "Memory" in last or "allocate" in last else last
    return dict(json.loads(done.stdout.splitlines()[-1]))


def cell(found: dict[str, float] | str) -> str:
    if isinstance(found, str):
        return found
    return ", ".join(f"{name} {seconds:.3g}" for name, seconds in found.items())


def print_table(other: Path, names: Iterable[str], limit: int) -> None:
    print(f"| CPU seconds | {other.name} | here |\n|---|---|---|", flush=True)
    for name in names:
        old = "" if name == NEW_ONLY else cell(measured(name, other, limit))
        print(f"| {name} | {old} | {cell(measured(name, ROOT, limit))} |", flush=True)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("other", type=Path, nargs="?", help="the checkout to compare with")
    parser.add_argument("--only", nargs="+", default=[""], metavar="PART", help="of rows' names")
    parser.add_argument("--limit", type=int, default=300, help="CPU seconds of a process")
    parser.add_argument("--row", choices=ROWS, help=argparse.SUPPRESS)  # the work of one process
    options = parser.parse_args(arguments)
    if options.row:
        warnings.simplefilter("ignore")
        print(json.dumps(ROWS[options.row]()))
        return
    if options.other is None:
        parser.error("other: the checkout to compare with is missing")
    names = [name for name in ROWS if any(part in name for part in options.only)]
    print_table(options.other.resolve(), names, options.limit)


if __name__ == "__main__":
    main()
