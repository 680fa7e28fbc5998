"""Whether time limits hold: fits with `max_time`, inference under `time_limit`, on large samples.

    python -m benchmarks.time_limits [--seconds 1] [--only graph] [--quick]

Kernels are compiled before, on small samples. Allowed are 10 % and one second more than the limit.
A machine that does other work as well needs more: CPU seconds are printed beside.
"""

from __future__ import annotations

import argparse
import contextlib
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mlestruct import (
    BipartiteMatchingCRF,
    ChainCRF,
    GraphCRF,
    GridCRF,
    MatchingCRF,
    OutOfTimeError,
    StructuredCRF,
    time_limit,
)

Data = tuple[list[Any], list[Any]]


def graphs(n_nodes: int, n_states: int, rng: np.random.Generator) -> Data:
    """Two random graphs with three edges a node."""
    X, Y = [], []
    for _ in range(2):
        edges = np.stack([np.tile(np.arange(n_nodes), 3), rng.integers(n_nodes, size=3 * n_nodes)])
        edges = np.unique(np.sort(edges[:, edges[0] != edges[1]], axis=0), axis=1).T
        X.append((rng.normal(size=(n_nodes, 3)), edges, np.ones((len(edges), 1))))
        Y.append(rng.integers(n_states, size=n_nodes))
    return X, Y


def chains(n_tokens: int, length: int, n_states: int, rng: np.random.Generator) -> Data:
    X = [rng.normal(size=(length, 5)) for _ in range(n_tokens // length)]
    return X, [rng.integers(n_states, size=length) for _ in X]


def grids(size: int, n_states: int, rng: np.random.Generator) -> Data:
    X = [rng.normal(size=(size, size, 3)) for _ in range(2)]
    return X, [rng.integers(n_states, size=(size, size)) for _ in X]


def pairs(size: int, rng: np.random.Generator) -> Data:
    X = [rng.normal(size=(size, size, 3)) for _ in range(2)]
    return X, [rng.permutation(size) for _ in X]


def groups(size: int, rng: np.random.Generator) -> Data:
    X, _ = pairs(size, rng)
    return [x + x.transpose(1, 0, 2) for x in X], [np.arange(size) ^ 1 for _ in X]


def slow_signs(scores: Any) -> Any:
    """A decoder of independent signs that takes a tenth of a second."""
    time.sleep(0.1)
    return (scores > 0).astype(int)


def rows(size: int, rng: np.random.Generator) -> Data:
    X = [rng.normal(size=(size, 3)) for _ in range(20)]
    return X, [(x[:, 0] > 0).astype(int) for x in X]


CASES: dict[str, tuple[Callable[..., Any], Callable[..., Data], tuple[int, ...], tuple[int, ...]]]
CASES = {
    "graph, 20,000 nodes": (GraphCRF, graphs, (20_000, 2), (30, 2)),
    "graph fw": (lambda **kw: GraphCRF(solver="fw", **kw), graphs, (20_000, 2), (30, 2)),
    "graph bcfw": (lambda **kw: GraphCRF(solver="bcfw", **kw), graphs, (20_000, 2), (30, 2)),
    "graph, 3 states": (GraphCRF, graphs, (20_000, 3), (30, 3)),
    "chains, 300,000 tokens": (ChainCRF, chains, (300_000, 30, 5), (90, 30, 5)),
    "chains fw": (lambda **kw: ChainCRF(solver="fw", **kw), chains, (300_000, 30, 5), (90, 30, 5)),
    "chains bcfw": (
        lambda **kw: ChainCRF(solver="bcfw", **kw), chains, (300_000, 30, 5), (90, 30, 5),
    ),
    "one chain": (ChainCRF, chains, (300_000, 300_000, 5), (90, 30, 5)),
    "chain, 2,000 states": (ChainCRF, chains, (6_000, 300, 2000), (90, 30, 7)),
    "grid, 1,000 x 1,000": (GridCRF, grids, (1000, 2), (10, 2)),
    "grid bcfw": (lambda **kw: GridCRF(solver="bcfw", **kw), grids, (600, 2), (10, 2)),
    "grid, 3 states": (GridCRF, grids, (300, 3), (10, 3)),
    "grid bcfw, 3 states": (lambda **kw: GridCRF(solver="bcfw", **kw), grids, (200, 3), (10, 3)),
    "assignments": (BipartiteMatchingCRF, pairs, (1000,), (10,)),
    "assignments bcfw": (
        lambda **kw: BipartiteMatchingCRF(solver="bcfw", **kw), pairs, (1000,), (10,),
    ),
    "group": (MatchingCRF, groups, (1000,), (40,)),
    "group bcfw": (lambda **kw: MatchingCRF(solver="bcfw", **kw), groups, (1000,), (40,)),
    "group, exact": (lambda **kw: MatchingCRF(polytope="exact", **kw), groups, (240,), (40,)),
    "own decoder, .1 s": (lambda **kw: StructuredCRF(decode=slow_signs, **kw), rows, (50,), (5,)),
}  # fmt: skip


def measured(work: Callable[[], Any], allowed: float) -> str:
    """Seconds and CPU seconds; a dash where nothing came in time, ! where it took too long."""
    begin, cpu = time.perf_counter(), time.process_time()
    try:
        work()
        ended = " "
    except OutOfTimeError:
        ended = "-"
    seconds = time.perf_counter() - begin
    ended = "!" if seconds > allowed else ended
    return f"{seconds:7.2f}{time.process_time() - cpu:7.2f}{ended}"


def limited(seconds: float, work: Callable[[Any], Any], X: Any) -> Callable[[], Any]:
    def run() -> None:
        with time_limit(seconds):
            work(X)

    return run


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--quick", action="store_true", help="small samples")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    allowed = 1.1 * options.seconds + 1.0
    print(f"limit {options.seconds:g} s, allowed {allowed:.2f} s; seconds, CPU")
    print(f"{'':24}{'fit':>15}{'predict':>15}{'marginals':>15}")
    for name, (make, draw, large, small) in CASES.items():
        if options.only not in name:
            continue
        rng = np.random.default_rng(0)
        X, Y = draw(*small, rng)
        compiled = make(max_time=5.0).fit(X, Y)
        compiled.predict(X)
        with contextlib.suppress(OutOfTimeError), time_limit(20.0):  # compiling is not divided
            compiled.predict_marginals(X)
        X, Y = draw(*(small if options.quick else large), rng)
        model = make(max_time=options.seconds)
        columns = [measured(lambda m=model, x=X, y=Y: m.fit(x, y), allowed)]
        for question in (model.predict, model.predict_marginals):
            columns.append(measured(limited(options.seconds, question, X), allowed))
        print(f"{name:24}{''.join(columns)}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
