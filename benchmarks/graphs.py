"""Labelling large irregular graphs: time, memory and quality of `GraphCRF` by size.

    python -m benchmarks.graphs                            # 1,000 to 100,000 nodes, two minutes
    python -m benchmarks.graphs --other /path/to/checkout  # another checkout beside it, small sizes
    python -m benchmarks.record graphs                     # the tables of docs/benchmarks.md

Two kinds of graphs with about three edges a node: *geometric* ones join points of a square that are
close, *random* ones join every node to random others and have no small separators. Labels come from
Gibbs sampling with attracting neighbours, features are labels plus noise. Each size is fitted on
one graph to a relative gap of 1e-3 and judged on another one. Beside it: logistic regression on the
features of the node, and on these with the sums over its neighbours, with scikit-learn's defaults.

Every row is a process of its own, with one thread, kernels compiled before. Times are CPU seconds,
memory is the peak of the process above what it takes on a graph of 200 nodes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.spatial import cKDTree
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from benchmarks.record import show
from mlestruct import GraphCRF

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

KINDS = ("geometric", "random")
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
COUPLING = {"geometric": 0.35, "random": 0.15}  # weak enough that both states stay frequent
NOISE = 1.5  # standard deviation, labels being 1 apart
ROUNDS = 30  # of Gibbs sampling
SIDES = {"": "CRF", "_alone": "alone", "_around": "with sums"}
OTHER_LIMIT = 3_000  # nodes; before rho came from trees, 20,000 took minutes and gigabytes


def random_edges(n: int, rng: np.random.Generator) -> Ints:
    """Three random partners for every node; repeated pairs are dropped."""
    pairs = np.stack([np.tile(np.arange(n), 3), rng.integers(n, size=3 * n)], axis=1)
    return np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)


def geometric_edges(n: int, rng: np.random.Generator) -> Ints:
    """Points of the unit square, joined within a distance at which there are 6 others."""
    radius = np.sqrt(6.0 / (np.pi * n))
    found = cKDTree(rng.random((n, 2))).query_pairs(radius, output_type="ndarray")
    return np.asarray(found, dtype=np.int64)


def make_sample(kind: str, n: int, seed: int) -> tuple[Floats, Ints, Ints]:
    """Node features (with a constant), edges and labels."""
    rng = np.random.default_rng(seed)
    edges = (geometric_edges if kind == "geometric" else random_edges)(n, rng)
    links = adjacency(n, edges)
    spins = rng.choice([-1.0, 1.0], size=n)
    for _ in range(2 * ROUNDS):  # about half of the nodes at a time
        odds = np.exp(-2.0 * COUPLING[kind] * (links @ spins))
        drawn = np.where(rng.random(n) < 1.0 / (1.0 + odds), 1.0, -1.0)
        spins = np.where(rng.random(n) < 0.5, drawn, spins)
    labels = (spins > 0).astype(np.int64)
    features = labels[:, None] + NOISE * rng.normal(size=(n, 3))
    return np.hstack([features, np.ones((n, 1))]), edges, labels


def adjacency(n: int, edges: Ints) -> Any:
    links = coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(n, n)).tocsr()
    return links + links.T


def clocked(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(kind: str, n: int) -> dict[str, float]:
    """One row: the CRF and logistic regression, on the same graphs."""
    for small in KINDS:  # compiles
        features, edges, labels = make_sample(small, 200, 2)
        model = GraphCRF().fit([(features, edges)], [labels])
        model.predict([(features, edges)])
        model.predict_marginals([(features, edges)])
    features, edges, labels = make_sample(kind, n, 0)
    new_features, new_edges, new_labels = make_sample(kind, n, 1)
    before = peak_megabytes()
    row: dict[str, float] = {"nodes": n, "edges": len(edges)}
    row["fit"], model = clocked(lambda: GraphCRF(tol=1e-3).fit([(features, edges)], [labels]))
    row["gap"] = model.duality_gap_ / max(1.0, abs(model.objective_))
    new = [(new_features, new_edges)]
    row["predict"], (found,) = clocked(lambda: model.predict(new))
    row["marginals"], (tables,) = clocked(lambda: model.predict_marginals(new))
    row["memory"] = peak_megabytes() - before
    row["error"] = float(np.mean(found != new_labels))
    row["log_loss"] = log_loss(new_labels, tables[:, 1])
    for name, columns in (("alone", features_alone), ("around", features_around)):
        seen, unseen = columns(features, edges), columns(new_features, new_edges)
        row[f"fit_{name}"], other = clocked(
            lambda seen=seen: LogisticRegression().fit(seen, labels)
        )
        chances = other.predict_proba(unseen)[:, 1]
        row[f"error_{name}"] = float(np.mean((chances > 0.5) != new_labels))
        row[f"log_loss_{name}"] = log_loss(new_labels, chances)
    return row


def features_alone(features: Floats, edges: Ints) -> Floats:
    return features


def features_around(features: Floats, edges: Ints) -> Floats:
    """Features of the node, and summed over its neighbours."""
    return np.hstack([features, adjacency(len(features), edges) @ features])


def run(checkout: Path, kind: str, n: int) -> dict[str, float]:
    """A row, measured in a process of its own with the package of a checkout."""
    paths = [str(checkout / "src"), str(Path(__file__).parents[1])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--row", kind, str(n)]
    for _ in range(2):  # the first process may have had to compile
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode:
            raise SystemExit(f"{checkout}: {done.stderr.strip().splitlines()[-1]}")
        row = dict(json.loads(done.stdout.splitlines()[-1]))
        if n > 1000:
            break
    return row


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Benchmarks of large irregular graphs")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--other", type=Path, help="another checkout, to compare with")
    parser.add_argument("--other-limit", type=int, default=OTHER_LIMIT, help="its largest size")
    parser.add_argument("--row", nargs=2, metavar=("KIND", "NODES"), help="print one row as JSON")
    options = parser.parse_args(arguments)
    if options.row:
        print(json.dumps(measure(options.row[0], int(options.row[1]))))
        return 0
    here, rows = Path(__file__).parents[1], {}
    for kind in options.kinds:
        rows |= {(kind, n): run(here, kind, n) for n in options.sizes}
        first, last = (rows[kind, n] for n in (options.sizes[0], options.sizes[-1]))
        if first is not last:
            growth = np.log(last["fit"] / first["fit"]) / np.log(last["edges"] / first["edges"])
            print(f"{kind}: the time of a fit grows as edges to the power {growth:.2f}")
    converged = all(row["gap"] <= 1e-3 for row in rows.values())
    columns = {key: key for key in ("nodes", "edges", "gap")} | {
        "CPU s of fit": "fit", "`predict`": "predict", "`predict_marginals`": "marginals",
        "MB": "memory",
    }  # fmt: skip
    show(
        "`GraphCRF` by the size of the graph, fitted to a relative gap of 1e-3",
        ["graph", *columns],
        [[kind, *(row[key] for key in columns.values())] for (kind, _), row in rows.items()],
    )
    quality = [f"{what}{side}" for what in ("error", "log_loss") for side in SIDES]
    show(
        "Error and log loss on a second graph; logistic regression on the features of the node "
        "alone, and with their sums over its neighbours",
        ["graph", "nodes", *(f"{what}, {who}" for what in ("error", "log loss") for who in
         SIDES.values()), "CPU s of regression"],
        [[kind, n, *(row[key] for key in quality), row["fit_around"]]
         for (kind, n), row in rows.items()],
    )  # fmt: skip
    if options.other:
        print("\n   nodes  CPU s of fit, predict, marginals: other, here, ratio")
        for (kind, n), row in rows.items():
            if n <= options.other_limit:
                other = run(options.other, kind, n)
                cells = [
                    f"{other[key]:8.3f} {row[key]:8.3f} {row[key] / other[key]:6.3f}"
                    for key in ("fit", "predict", "marginals")
                ]
                print(f"{n:8.0f}  " + "  ".join(cells))
    print("\ngraphs: " + ("pass" if converged else "FAIL, a gap is above 1e-3"))
    return 0 if converged else 1


if __name__ == "__main__":
    sys.exit(main())
