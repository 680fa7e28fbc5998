"""What a second thread gains: fit, predict and marginals with n_jobs=1 and n_jobs=2.

    python -m benchmarks.threads                    # all estimators, about four minutes
    python -m benchmarks.threads --only grid        # cases whose name contains this
    python -m benchmarks.threads --quick            # small samples: only whether answers are equal
    python -m benchmarks.threads --soak 120         # memory of fits and predictions over and over
    python -m benchmarks.record threads             # the table of docs/scale.md; with --soak 100
                                                    # that of docs/long_runs.md

Wall seconds on two cores, of which a compiled loop tells how much this process has, least of three
runs after one that compiles; BLAS has one thread on both sides. "bound": CPU seconds with one
thread over those of the main thread plus half of those of the workers, with two; it does not depend
on other work of the machine, and leaves out waiting for the GIL. "difference" is the largest one of
any weight, label or marginal.
"""

from __future__ import annotations

import argparse
import gc
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

from benchmarks.linkage import candidates, sample
from benchmarks.record import show
from mlestruct import (
    BipartiteMatchingCRF,
    ChainCRF,
    GraphCRF,
    GridCRF,
    IsingMRF,
    MatchingCRF,
    MultiLabelCRF,
    StructuredCRF,
)
from mlestruct._compile import kernel
from mlestruct.datasets import make_words

Floats = NDArray[np.float64]
Data = tuple[Any, Any]
RNG = np.random.default_rng
QUESTIONS = ("fit", "predict", "marginals")


def assignments(n_samples: int, size: int) -> Data:
    rng = RNG(0)
    X = [rng.normal(size=(size, size, 6)) for _ in range(n_samples)]
    Y = [rng.permutation(size) for _ in X]
    for x, y in zip(X, Y, strict=True):
        x[np.arange(size), y] += 0.7
    return X, Y


def groups(n_samples: int, size: int) -> Data:
    rng = RNG(0)
    X = [rng.normal(size=(size, size, 4)) for _ in range(n_samples)]
    X = [x + x.transpose(1, 0, 2) for x in X]
    partner = np.arange(size) ^ 1
    for x in X:
        x[np.arange(size), partner] += 1.0
    return X, [partner for _ in X]


def components(n_parts: int, size: int) -> Data:
    """Candidate pairs of one pair of tables, in components of at most `size` records a side."""
    row, col, features, partner = candidates(n_parts * size, n_parts * size, 7, 6, 0)
    kept = row // size == col // size
    return [sample(row[kept], col[kept], features[kept], (partner.size,) * 2)], [partner]


def one_component(n_records: int) -> Data:
    row, col, features, partner = candidates(n_records, n_records, 7, 6, 0)
    return [sample(row, col, features, (n_records, n_records))], [partner]


def images(n_samples: int, side: int, n_states: int) -> Data:
    """Patches of 12 x 12 pixels with noise."""
    rng = RNG(0)
    X, Y = [], []
    for _ in range(n_samples):
        patches = rng.integers(n_states, size=(side // 12 + 1,) * 2)
        Y.append(np.kron(patches, np.ones((12, 12), dtype=np.int64))[:side, :side])
        X.append(np.eye(n_states)[Y[-1]] + rng.normal(size=(side, side, n_states)))
    return X, Y


def graphs(n_samples: int, n_nodes: int) -> Data:
    """Random graphs with three edges a node."""
    rng = RNG(0)
    X, Y = [], []
    for _ in range(n_samples):
        edges = np.stack([np.tile(np.arange(n_nodes), 3), rng.integers(n_nodes, size=3 * n_nodes)])
        edges = np.unique(np.sort(edges[:, edges[0] != edges[1]], axis=0), axis=1).T
        Y.append(rng.integers(2, size=n_nodes))
        nodes = rng.normal(size=(n_nodes, 3)) + Y[-1][:, None]
        X.append((nodes, edges, np.ones((len(edges), 1))))
    return X, Y


def sentences(n_sentences: int) -> Data:
    """Words as dictionaries of strings, ten labels."""
    X, Y = make_words(n_sentences, 10, random_state=0)
    names = [[f"{k}.{v}" for v in range(4)] for k in range(64)]
    read = [x[:, ::2].astype(int) + 2 * x[:, 1::2].astype(int) for x in X]
    return [[{names[k][v]: 1.0 for k, v in enumerate(t)} for t in x.tolist()] for x in read], Y


def label_sets(n_samples: int, n_labels: int) -> Data:
    rng = RNG(0)
    X = rng.normal(size=(n_samples, 20))
    shared = rng.normal(size=(n_samples, 1))
    Y = X @ rng.normal(size=(20, n_labels)) / 4 + shared + rng.normal(size=(n_samples, n_labels))
    return X, (Y > 0).astype(int)


def spikes(n_frames: int, n_neurons: int) -> Data:
    rng = RNG(0)
    common = rng.random((n_frames, n_neurons // 5)) < 0.3
    on = (rng.random((n_frames, n_neurons)) < 0.2) | (
        np.repeat(common, 5, axis=1) & (rng.random((n_frames, n_neurons)) < 0.5)
    )
    return on.astype(int), None


def best_tenth(scores: Floats) -> NDArray[np.int64]:
    """The tenth of the items with the largest scores, by a sort without the GIL."""
    chosen = np.zeros(scores.size, dtype=np.int64)
    chosen[np.argsort(-scores)[: scores.size // 10]] = 1
    return chosen


def choices(n_samples: int, size: int) -> Data:
    rng = RNG(0)
    X = [rng.normal(size=(size, 4)) for _ in range(n_samples)]
    return X, [best_tenth(x @ [1.0, -1.0, 0.5, 0.0] + rng.gumbel(size=size)) for x in X]


class Case(NamedTuple):
    make: Callable[..., Any]
    draw: Callable[..., Data]
    large: tuple[int, ...]
    small: tuple[int, ...]


CASES = {
    "assignments, 1,000 of 30 x 30": Case(BipartiteMatchingCRF, assignments, (1_000, 30), (40, 5)),
    "assignments, 8 of 500 x 500": Case(BipartiteMatchingCRF, assignments, (8, 500), (4, 305)),
    "candidate pairs, 1,000 components": Case(
        partial(BipartiteMatchingCRF, perfect=False), components, (1_000, 25), (8, 5)
    ),
    "candidate pairs, one component": Case(
        partial(BipartiteMatchingCRF, perfect=False), one_component, (25_000,), (50,)
    ),
    "groups, 80 of 80": Case(MatchingCRF, groups, (80, 80), (4, 40)),
    "grids, 2 states": Case(GridCRF, images, (8, 200, 2), (4, 12, 2)),
    "grids, 3 states": Case(GridCRF, images, (8, 80, 3), (4, 24, 3)),
    "graphs": Case(GraphCRF, graphs, (8, 10_000), (4, 30)),
    "sequences, dense": Case(ChainCRF, partial(make_words, random_state=0), (4_000,), (20,)),
    "sequences, strings": Case(ChainCRF, sentences, (2_000,), (20,)),
    "label sets": Case(MultiLabelCRF, label_sets, (8_000, 10), (40, 4)),
    "neurons": Case(IsingMRF, spikes, (5_000, 100), (200, 10)),
    "own decoder": Case(
        partial(StructuredCRF, best_tenth, tol=0.01, random_state=0), choices, (20, 400), (4, 20)
    ),
    "assignments, bcfw": Case(
        partial(BipartiteMatchingCRF, solver="bcfw", random_state=0), assignments, (40, 40), (4, 5)
    ),
}  # fmt: skip


class Clock:
    """Wall seconds of a block, and CPU seconds of this thread and of all others."""

    def __enter__(self) -> Clock:
        self._start = time.perf_counter(), time.thread_time(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        wall, main, all_threads = self._start
        self.wall = time.perf_counter() - wall
        self.main = time.thread_time() - main
        self.others = time.process_time() - all_threads - self.main


def answers(model: Any, X: Any, Y: Any) -> Iterator[tuple[Clock, Any]]:
    """Fit, predict and marginals."""
    with Clock() as clock:
        model.fit(X, Y) if Y is not None else model.fit(X)
    yield clock, model.coef_
    predict = model.predict_neurons if isinstance(model, IsingMRF) else model.predict
    with Clock() as clock:
        found = predict(X)
    yield clock, found
    if isinstance(model, IsingMRF):  # half of the neurons are not known
        X = np.where(np.arange(X.shape[1]) % 2 == 0, -1, X)
    with Clock() as clock:
        found = model.predict_marginals(X)
    yield clock, found


def differ(one: Any, other: Any) -> float:
    """The largest difference of two answers."""
    if isinstance(one, list | tuple):
        return max((differ(a, b) for a, b in zip(one, other, strict=True)), default=0.0)
    if sparse.issparse(one):
        return float(abs(one - other).max())
    if isinstance(one, np.ndarray) and one.dtype.kind in "fiub":
        return float(np.max(np.abs(one.astype(float) - other.astype(float)), initial=0.0))
    if isinstance(one, np.ndarray):
        return float(np.any(one != other))
    return differ(one.tau, other.tau)


@kernel
def compiled_loop(n: int) -> float:
    """What threads can gain at most."""
    total = 0.0
    for i in range(n):
        total += np.log(1.0 + i)
    return total


def ceiling() -> float:
    """The gain of a loop without Python: how much of two cores this process has."""
    compiled_loop(1)
    with Clock() as one:
        list(map(compiled_loop, [10**6] * 100))
    with ThreadPoolExecutor(2) as pool, Clock() as two:
        list(pool.map(compiled_loop, [10**6] * 100))
    return one.wall / two.wall


def _wall(run: tuple[Clock, Any]) -> float:
    return run[0].wall


def compare(name: str, case: Case, quick: bool) -> list[Any]:
    """A row of the table, with the largest difference of answers at its end."""
    X, Y = case.draw(*(case.small if quick else case.large))
    runs: dict[int, list[Any]] = {1: [], 2: []}
    for _ in range(1 if quick else 4):  # the first compiles
        for n_jobs, own in runs.items():
            own.append(list(answers(case.make(n_jobs=n_jobs), X, Y)))
    row: list[Any] = [name]
    difference = 0.0
    for one, two in zip(zip(*runs[1], strict=True), zip(*runs[2], strict=True), strict=True):
        (alone, found), (shared, other) = (min(own, key=_wall) for own in (one, two))
        bound = (alone.main + alone.others) / (shared.main + shared.others / 2)
        row += [alone.wall, alone.wall / shared.wall, bound]
        difference = max(difference, differ(found, other))
    print(f"{name}: done", flush=True)
    return [*row, difference]


def resident() -> float:
    """Memory of this process now, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def soak(seconds: float, cases: dict[str, Case]) -> None:
    """Fit and predict small samples over and over; memory after the first tenth is to stay."""
    data = [(case, *case.draw(*case.small)) for case in cases.values()]
    start, rounds = time.perf_counter(), 0
    rows: list[list[float]] = []
    for mark in (0.1, 0.4, 0.7, 1.0):
        while (passed := time.perf_counter() - start) < mark * seconds or not rounds:
            for case, X, Y in data:
                list(answers(case.make(n_jobs=2), X, Y))
            rounds += 1
        gc.collect()
        rows.append([passed, rounds, resident()])
    show(
        "Fits and predictions of all estimators over and over, on two threads",
        ["s", "rounds", "MB"],
        rows,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--quick", action="store_true", help="small samples")
    parser.add_argument("--soak", type=float, help="seconds of repeated fits and predictions")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    cases = {name: case for name, case in CASES.items() if options.only in name}
    with threadpool_limits(1, "blas"):
        if options.soak:
            soak(options.soak, cases)
            return 0
        gain = ceiling()
        rows = [compare(*case, options.quick) for case in cases.items()]
    show(
        "Wall seconds with one thread, the gain of a second one, and its bound; a compiled loop "
        f"gained {gain:.2f}",
        ["", *(f"{what}, {column}" for what in QUESTIONS for column in ("s", "gain", "bound")),
         "difference"],
        rows,
    )  # fmt: skip
    return int(max(row[-1] for row in rows) > 1e-6)


if __name__ == "__main__":
    raise SystemExit(main())
