"""Grids and graphs with several states: cost per table entry against two states, quality of MAP.

    python -m benchmarks.multistate [/path/to/other/checkout] [--size 240] [--quick]

Edge tables have S^2 entries; the ratio of times to two states, divided by S^2 / 4, is at most 3
where the cost per entry is within three times the binary one. The other checkout runs the same work
in a process of its own with its own `src` first on the path. Graphs are images given as edges, and
random ones with three edges a node.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.record import show
from mlestruct.algorithms.pairwise.linear_program import LocalPolytope
from mlestruct.algorithms.pairwise.max_sum import MaxSum
from mlestruct.structures import BinaryPairwise, Pairwise, grid

LIMIT = 3.0  # times the cost of two states per table entry

WORK = r"""
import json, sys, time, warnings
import numpy as np
warnings.simplefilter("ignore")
from mlestruct import GraphCRF, GridCRF
size, repeat, states = int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])

def image(n_states, size, seed=0):
    rng = np.random.default_rng(seed)
    patch = min(12, size // 4)
    patches = rng.integers(n_states, size=(size // patch + 1, size // patch + 1))
    y = np.kron(patches, np.ones((patch, patch), int))[:size, :size]
    x = np.eye(n_states)[y] + rng.normal(size=(size, size, n_states))
    return np.concatenate([x, np.ones((size, size, 1))], -1), y

def as_graph(x, y):
    n = np.arange(y.size).reshape(y.shape)
    edges = np.concatenate([np.stack([n[:, :-1].ravel(), n[:, 1:].ravel()], 1),
                            np.stack([n[:-1].ravel(), n[1:].ravel()], 1)])
    return (x.reshape(-1, x.shape[-1]), edges), y.ravel()

def random_graph(n_states, n, seed=0):
    rng = np.random.default_rng(seed)
    edges = np.stack([np.tile(np.arange(n), 3), rng.integers(n, size=3 * n)], axis=1)
    edges = np.unique(np.sort(edges[edges[:, 0] != edges[:, 1]], axis=1), axis=0)
    y = rng.integers(n_states, size=n)
    for _ in range(30):  # about half of the nodes take a state that neighbours have
        agree = np.zeros((n, n_states))
        for own, other in (edges.T, edges.T[::-1]):
            np.add.at(agree, (own, y[other]), 0.3)
        drawn = (agree + rng.gumbel(size=agree.shape)).argmax(axis=1)
        y = np.where(rng.random(n) < 0.5, drawn, y)
    x = np.eye(n_states)[y] + rng.normal(size=(n, n_states))
    return (np.concatenate([x, np.ones((n, 1))], -1), edges), y

def measure(work):
    start = time.process_time()
    found = work()
    return found, time.process_time() - start

out = []
start = time.process_time()
x, y = image(3, 24)
GridCRF().fit([x], [y]).predict([x])
first = time.process_time() - start
for kind, side in (("grid", size), ("graph", size // 3), ("random", size // 3)):
    for s in states:
        x, y = image(s, side)
        small = image(s, 24)
        if kind == "graph":
            (x, y), small = as_graph(x, y), as_graph(*small)
        if kind == "random":
            (x, y), small = random_graph(s, side * side), random_graph(s, 24 * 24)
        make = GridCRF if kind == "grid" else GraphCRF
        make(max_iter=3, n_states=s).fit([small[0]], [small[1]]).predict([small[0]])
        fits, predictions = [], []
        for _ in range(repeat):
            model, spent = measure(lambda: make(n_states=s).fit([x], [y]))
            fits.append(spent)
            labels, spent = measure(lambda: model.predict([x]))
            predictions.append(spent)
        out.append((kind, side, s, min(fits), model.n_oracle_calls_, min(predictions),
                    float((labels[0] == y).mean())))
print(json.dumps([first, out]))
"""


def run(checkout: Path, size: int, repeat: int, states: list[int]) -> tuple[float, list]:
    """CPU seconds of a first fit and prediction, then of every workload in one checkout."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", WORK, str(size), str(repeat), json.dumps(states)],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{checkout}: {done.stderr.strip().splitlines()[-1]}")
    first, rows = json.loads(done.stdout.splitlines()[-1])
    return float(first), list(rows)


def speed(checkouts: list[Path], size: int, repeat: int, states: list[int]) -> bool:
    """A table for each checkout; whether the last one keeps the limit."""
    passed = True
    for checkout in checkouts:
        first, rows = run(checkout, size, repeat, states)
        print(f"\n{checkout}: first fit and prediction of 3 states in a process {first:.1f} CPU s")
        binary, table = {}, []
        for kind, side, s, fit, calls, predict, accuracy in rows:
            two = binary.setdefault(kind, (fit, predict))
            ratios = [
                spent / of / (s * s / 4.0) for spent, of in zip((fit, predict), two, strict=True)
            ]
            cells = (fit, calls, 1e3 * fit / calls, ratios[0], predict, ratios[1], accuracy)
            table.append([kind, side * side, s, *cells])
            if checkout == checkouts[-1]:
                passed &= max(ratios) <= LIMIT
        show(
            f"{'This' if checkout == checkouts[-1] else 'The other'} checkout, CPU seconds; "
            "per entry: the time for an entry of an edge's table beside that of two states",
            ["", "nodes", "states", "fit", "calls", "ms a call", "per entry", "`predict`",
             "per entry", "accuracy"],
            table,
        )  # fmt: skip
    return passed


def two_states(side: int) -> None:
    """Marginals of two states by their own kernels and by those for any number of states."""
    seconds = []
    for structure in (BinaryPairwise(grid(side, side)), Pairwise(grid(side, side), 2)):
        binary = BinaryPairwise(structure.graph)
        drawn = np.random.default_rng(0).normal(size=binary.n_coordinates)
        scores = drawn
        if structure.n_coordinates > drawn.size:
            scores = structure.from_tables(*binary.score_tables(drawn))
        times = []
        for _ in range(4):
            start = time.process_time()
            structure.marginals(scores, None, 1e-3 * side)
            times.append(time.process_time() - start)
        seconds.append(min(times))
    own, general = seconds
    print(
        f"\nMarginals of two states, {side} x {side}: {1e3 * own:.1f} ms by their own kernels, "
        f"{1e3 * general:.1f} ms by the general ones ({general / own:.1f} times)"
    )


def quality(n_states: int, side: int, draws: int) -> None:
    """Labellings, bounds and the linear program, on tables of three kinds; means of `draws`."""
    graph = grid(side, side)
    decoder = MaxSum(graph.n_nodes, graph.tail, graph.head, (side, side))
    program = LocalPolytope(graph.n_nodes, graph.tail, graph.head, n_states)
    print(f"\nMAP on {side} x {side}, {n_states} states: means over {draws} draws")
    print(f"{'tables':12s} {'value':>10s} {'bound':>10s} {'linear program':>14s} {'best':>10s}")
    for kind in ("attractive", "shared", "random"):
        rng, found = np.random.default_rng(0), []
        for _ in range(draws):
            nodes = rng.normal(size=(graph.n_nodes, n_states))
            tables = rng.normal(size=(graph.n_edges, n_states, n_states))
            if kind == "attractive":
                tables = tables * 0.0 + np.eye(n_states)
            elif kind == "shared":
                tables[:] = tables[0]
            answer = decoder.solve(nodes, tables)
            relaxed = program.solve(np.concatenate([nodes.ravel(), tables.ravel()]))[1]
            best = best_on_grid(side, nodes, tables)
            found.append((answer.value, answer.upper_bound, relaxed, best))
        value, bound, relaxed, best = np.mean(found, axis=0)
        print(f"{kind:12s} {value:10.4f} {bound:10.4f} {relaxed:14.4f} {best:10.4f}")


def best_on_grid(side: int, nodes: np.ndarray, tables: np.ndarray) -> float:
    """The largest score, pixel by pixel over all states of the last `side` pixels."""
    n_states = nodes.shape[1]
    best = np.zeros((n_states,) * side)
    for k in range(side * side):
        i, j = divmod(k, side)
        best = best[..., None] + nodes[k]
        if j > 0:
            best = best + tables[i * (side - 1) + j - 1]
        if i > 0:
            table = tables[side * (side - 1) + k - side]
            best = best + table.reshape(n_states, *(1,) * (side - 1), n_states)
        best = best.max(axis=0)
    return float(best.max())


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Several states against two")
    parser.add_argument("other", type=Path, nargs="?", help="a checkout to compare with")
    parser.add_argument("--size", type=int, default=240, help="pixels a side")
    parser.add_argument("--states", type=int, nargs="*", default=[2, 3, 4, 6])
    parser.add_argument("--repeat", type=int, default=2, help="the least time counts")
    parser.add_argument("--quick", action="store_true", help="tiny problems, a few seconds")
    options = parser.parse_args(arguments)
    here = Path(__file__).parents[1]
    checkouts = [here] if options.other is None else [options.other, here]
    size, repeat = (24, 1) if options.quick else (options.size, options.repeat)
    passed = speed(checkouts, size, repeat, options.states[:2] if options.quick else options.states)
    two_states(size)
    quality(3, 4 if options.quick else 8, 2 if options.quick else 10)
    print(f"\nwithin {LIMIT:g} times two states per table entry: {'yes' if passed else 'NO'}")
    return 0 if passed or options.quick else 1


if __name__ == "__main__":
    sys.exit(main())
