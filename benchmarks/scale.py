"""How far it goes: candidate pairs by number beside logistic regression, threads, Dask workers.

    python -m benchmarks.scale [--quick]

* Two tables with about eight candidate pairs a record, six features of a pair; a matching is
  learned to a certified relative gap of 1e-3. The rival is scikit-learn's logistic regression on
  the pairs, with SciPy's assignment of its log-odds. Both are tested on a second pair of tables.
  Every side is a process of its own; memory is what the fit and the predictions add to its peak.
* Threads: CPU seconds of a fit with one thread over those of the main thread plus half of those of
  all others with two. Other work on the machine does not change this bound; it leaves out waiting.
* Workers: wall time of the same fit from lists, from parts that this process reads when it needs
  them, and on two Dask workers with one thread each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from benchmarks.measuring import (
    Data,
    assignments,
    best_links,
    candidate_pairs,
    command,
    groups,
    has,
    images,
    pair_input,
    peak_megabytes,
    random_edges,
    sentences,
    show,
    timed,
)
from mlestruct import BipartiteMatchingCRF, ChainCRF, GraphCRF, GridCRF, MatchingCRF, Parts


# ---------------------------------------------------------------------- candidate pairs
def sample(n_records: int, seed: int) -> Data:
    row, col, features, partner = candidate_pairs(n_records, seed)
    return [pair_input(row, col, features, (n_records, n_records))], [partner]


def pairs_row(side: str, n_records: int) -> dict[str, float]:
    """CPU seconds, memory and quality of one side."""
    shape = (n_records, n_records)
    row, col, features, partner = candidate_pairs(n_records, 0)
    new_row, new_col, new_features, truth = candidate_pairs(n_records, 1)
    before = peak_megabytes()
    if side == "CRF":
        new = [pair_input(new_row, new_col, new_features, shape)]
        given = [pair_input(row, col, features, shape)], [partner]
        fit, model = timed(lambda: BipartiteMatchingCRF(perfect=False).fit(*given))
        marginals, found = timed(lambda: model.predict_marginals(new)[0])
        chance = np.asarray(found.tocsr()[new_row, new_col]).ravel()
        decode, links = timed(lambda: model.predict(new)[0])
    else:
        fit, model = timed(
            lambda: LogisticRegression(max_iter=1000).fit(features, partner[row] == col)
        )
        marginals, chance = timed(lambda: model.predict_proba(new_features)[:, 1])
        odds = model.decision_function(new_features)
        decode, links = timed(lambda: best_links(new_row, new_col, odds, shape))
    hits = int((links[truth >= 0] == truth[truth >= 0]).sum())
    return {
        "pairs": row.size, "fit": fit, "marginals": marginals, "decode": decode,
        "loss": log_loss(truth[new_row] == new_col, np.clip(chance, 1e-12, 1 - 1e-12)),
        "f1": 2 * hits / int((links >= 0).sum() + (truth >= 0).sum()),
        "memory": peak_megabytes() - before,
    }  # fmt: skip


def in_process(side: str, n_records: int) -> dict[str, float]:
    """`pairs_row` in a process of its own, kernels compiled before."""
    code = (
        "import json, warnings; warnings.simplefilter('ignore'); import benchmarks.scale as b; "
        f"b.pairs_row({side!r}, 50); print(json.dumps(b.pairs_row({side!r}, {n_records})))"
    )
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False,
                          env={**os.environ, **threads})  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{side}, {n_records} records: {done.stderr.strip().splitlines()[-1]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def by_pairs(sizes: tuple[int, ...]) -> None:
    rows = []
    for n in sizes:
        ours, theirs = in_process("CRF", n), in_process("logistic", n)
        rows.append([int(ours["pairs"]), ours["fit"], *(ours[k] / theirs[k] for k in
                     ("fit", "marginals", "decode")), ours["memory"], theirs["memory"],
                     ours["loss"], theirs["loss"], ours["f1"], theirs["f1"]])  # fmt: skip
    show(
        "Candidate pairs of two tables: `BipartiteMatchingCRF(perfect=False)` beside logistic "
        "regression and SciPy's assignment",
        ["pairs", "CPU s of fit", "fit, logistic = 1", "marginals, logistic = 1",
         "best matching, SciPy = 1", "MB", "MB: logistic", "log loss", "log loss: logistic", "F1",
         "F1: logistic"],
        rows,
    )  # fmt: skip


# ---------------------------------------------------------------------- threads
def graphs(n_samples: int, n_nodes: int) -> Data:
    rng = np.random.default_rng(0)
    Y = [rng.integers(2, size=n_nodes) for _ in range(n_samples)]
    return [(rng.normal(size=(n_nodes, 3)) + y[:, None], random_edges(n_nodes, rng)) for y in Y], Y


CASES: dict[str, tuple[Any, Callable[..., Data], tuple[int, ...], tuple[int, ...]]] = {
    "assignments": (BipartiteMatchingCRF, assignments, (500, 30), (8, 5)),
    "large assignments": (BipartiteMatchingCRF, assignments, (4, 500), (2, 20)),
    "groups": (MatchingCRF, groups, (40, 80), (4, 6)),
    "images": (GridCRF, images, (8, 200), (2, 12)),
    "images with 3 states": (GridCRF, images, (8, 80, 3), (2, 12, 3)),
    "graphs": (GraphCRF, graphs, (8, 10_000), (2, 30)),
    "sentences": (ChainCRF, sentences, (2_000,), (20,)),
}


def cpu_of_threads(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """CPU seconds of this thread and of all others, and what the call returns."""
    main, all_threads = time.thread_time(), time.process_time()
    found = work()
    main = time.thread_time() - main
    return main, time.process_time() - all_threads - main, found


def by_threads(quick: bool) -> None:
    rows: list[list[Any]] = []
    for name, (make, draw, large, small) in CASES.items():
        for n_jobs in (1, 2):
            make(n_jobs=n_jobs).fit(*draw(*small))  # compiles
        size = small if quick else large
        X, Y = draw(*size)
        found = []
        for n_jobs in (1, 2):
            runs = [cpu_of_threads(lambda: make(n_jobs=n_jobs).fit(X, Y))  # noqa: B023
                    for _ in range(1 if quick else 3)]  # fmt: skip
            found.append(min(runs, key=lambda run: run[0] + run[1] / n_jobs))
        (main, others, alone), (main_of_two, others_of_two, shared) = found
        gain = (main + others) / (main_of_two + others_of_two / 2)
        shown = ", ".join(f"{number:,}" for number in size[:2])
        rows.append(
            [name, shown, main + others, gain, float(np.abs(alone.coef_ - shared.coef_).max())]
        )
    show(
        "A second thread: CPU seconds of a fit with one thread, what a second thread gains at "
        "most, and the largest difference of weights",
        ["", "samples, size", "CPU s", "gain at most", "difference"],
        rows,
    )


# ---------------------------------------------------------------------- workers
def by_workers(n_parts: int, n_records: int) -> None:
    read = partial(sample, n_records)
    lists = [[item for seed in range(n_parts) for item in read(seed)[k]] for k in range(2)]

    def fit(*given: Any) -> tuple[float, Any]:
        start = time.perf_counter()
        model = BipartiteMatchingCRF(perfect=False).fit(*given)
        return time.perf_counter() - start, model

    fit(*sample(50, 0))  # compiles
    found = {
        "lists, one process": fit(*lists),
        "parts, one process": fit(Parts(read, range(n_parts))),
    }
    if has("distributed", "'mlestruct[dask]'"):
        from distributed import Client, LocalCluster

        cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
        with cluster, Client(cluster) as client:
            fit(Parts(read, range(2), client))  # workers read compiled kernels
            found["parts, two Dask workers"] = fit(Parts(read, range(n_parts), client))
    first, alone = next(iter(found.values()))
    rows = [
        [name, seconds / first, model.n_iter_, float(np.abs(model.coef_ - alone.coef_).max())]
        for name, (seconds, model) in found.items()
    ]
    show(
        f"{n_parts} parts of {n_records:,} records: wall time of a fit, lists = 1 ({first:.2f} s)",
        ["", "time, lists = 1", "iterations", "difference of weights"],
        rows,
    )


def run(quick: bool) -> None:
    by_pairs((100,) if quick else (1_250, 12_500, 125_000))
    by_threads(quick)
    by_workers(2 if quick else 8, 40 if quick else 4_000)


main = command(__doc__, run)

if __name__ == "__main__":
    main()
