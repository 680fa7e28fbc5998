"""`mlestruct warmup`: compile the kernels of the estimators in advance, in parallel processes.

Every workload uses one estimator (or one way of inference) on small generated problems that reach
its kernels; the machine code stays in numba's cache on disk.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
from numba.core.event import install_recorder
from scipy import sparse

from ._compile import cache_place
from .algorithms.pairwise.spanning_trees import SMALL
from .baselines import StructuredPerceptron, StructuredSVM
from .datasets import generate_campus, make_segmentation, make_words
from .features import DenseFeatures, TableFeatures, edge_features, node_features
from .inference import log_partition_bounds, marginals, sample
from .models import (
    BipartiteMatchingCRF,
    ChainCRF,
    EdgeList,
    GraphCRF,
    GridCRF,
    IsingMRF,
    MatchingCRF,
    MultiLabelCRF,
    PairInput,
)
from .structures import BipartiteMatching, LocalMatching, Pairwise, grid

Pairs = tuple[list[np.ndarray], list[np.ndarray]]


def run_warmup(names: Sequence[str] = (), jobs: int | None = None) -> int:
    """Compile what the named workloads (default: all) reach; returns the exit status."""
    place, asked = cache_place(), os.environ.get("NUMBA_CACHE_DIR")
    if place is None:
        print("no folder for compiled kernels is writable: set NUMBA_CACHE_DIR to one that is")
        return 1
    if asked and not os.access(asked, os.W_OK):
        print(f"NUMBA_CACHE_DIR: the folder {asked} is not writable")
        return 1
    chosen = names or list(WORKLOADS)
    print(f"compiling into {place}")
    started, failed = time.perf_counter(), 0
    pool = ProcessPoolExecutor(
        min(jobs or os.cpu_count() or 1, len(chosen)),
        mp_context=get_context("spawn"),
        max_tasks_per_child=1,
    )
    try:
        running = {pool.submit(run_workload, name): name for name in chosen}
        for done in as_completed(running):
            name = running[done]
            try:
                seconds, n_kernels = done.result()
            except Exception as error:
                failed += 1
                print(f"{name:<22} failed: {error!r}", flush=True)
            else:
                print(f"{name:<22}{seconds:>7.1f} s {n_kernels:>5} compiled", flush=True)
    finally:
        pool.shutdown(cancel_futures=True)  # after Ctrl-C, those that have not begun
    print(f"{'in all':<22}{time.perf_counter() - started:>7.1f} s")
    return 1 if failed else 0


def run_workload(name: str) -> tuple[float, int]:
    """Seconds, and the number of kernels that were not in the cache."""
    os.environ["MLESTRUCT_QUIET"] = "1"
    started = time.perf_counter()
    with warnings.catch_warnings(), install_recorder("numba:compile") as events:
        warnings.simplefilter("ignore")
        WORKLOADS[name]()
    return time.perf_counter() - started, sum(event.is_start for _, event in events.buffer)


def _use(model: Any, X: Sequence[Any], Y: Sequence[Any]) -> None:
    """Fit, and everything that a fitted model answers."""
    model.fit(X, Y)
    model.score(X, Y)
    model.predict_marginals(X)
    model.approximate_log_likelihood(X, Y)
    model.log_likelihood_bounds(X, Y)
    model.sample(X[:1], 2, random_state=0)


def _two_sides(n: int, m: int, n_samples: int = 4) -> Pairs:
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, m, 3)) for _ in range(n_samples)]
    return X, [rng.permutation(m)[:n] for _ in X]


def _group(n: int, n_samples: int = 3) -> Pairs:
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, n, 3)) for _ in range(n_samples)]
    return [x + x.transpose(1, 0, 2) for x in X], [np.arange(n) ^ 1] * n_samples


def _bipartite() -> None:
    for n, m in ((8, 8), (5, 8), (40, 40)):
        _use(BipartiteMatchingCRF(), *_two_sides(n, m))
    rng = np.random.default_rng(0)
    for kind in ("squared", "absolute"):
        sides = rng.normal(size=(3, 2, 8, 3))
        tables = [TableFeatures(left, right, kind) for left, right in sides]
        BipartiteMatchingCRF().fit(tables, [np.arange(8)] * 3).predict(tables)


def _bethe() -> None:
    for n in (8, 40):
        _use(BipartiteMatchingCRF(rho=1.0), *_two_sides(n, n))


def _imperfect() -> None:
    X, Y = _two_sides(8, 8)
    _use(BipartiteMatchingCRF(perfect=False), X, [np.where(y < 6, y, -1) for y in Y])


def _sparse() -> None:
    rng = np.random.default_rng(0)
    n = 60
    mask = sparse.random_array((n, n), density=0.1, rng=rng) + sparse.eye_array(n)
    mask = sparse.csr_array(mask).astype(bool)
    x = PairInput(DenseFeatures(rng.normal(size=(mask.nnz, 3))), mask=mask)
    single = np.where(np.arange(n) < n // 2, np.arange(n), -1)
    _use(BipartiteMatchingCRF(), [x], [np.arange(n)])
    _use(BipartiteMatchingCRF(perfect=False), [x], [single])


def _capacities() -> None:
    rng = np.random.default_rng(0)
    X = list(rng.normal(size=(4, 9, 6, 2)))
    best = [np.argsort(-x[..., 0], axis=1)[:, :2] for x in X]
    Y = [np.stack([np.repeat(np.arange(9), 2), b.ravel()], axis=1) for b in best]
    _use(BipartiteMatchingCRF(capacity=(2, 9), perfect="rows"), X, Y)


def _matching() -> None:
    for n in (10, 40):
        _use(MatchingCRF(), *_group(n))
    campus = generate_campus(120, n_years=2, random_state=0)
    years = [campus.features(year) for year in campus.years]
    model = MatchingCRF(alpha=10.0).fit(years, [year.partner for year in campus.years])
    model.predict(years)
    model.predict_marginals(years)
    model.top_candidates(years, k=3)


def _matching_variants() -> None:
    X, Y = _group(10)
    _use(MatchingCRF(polytope="exact"), X, Y)
    triangles = np.kron(np.eye(4), np.ones((3, 3)))  # what odd sets forbid scores best
    chosen = np.array([1, 0, 3, 2, 5, 4, 7, 6, 10, 11, 8, 9])
    _use(MatchingCRF(polytope="exact", alpha=0.1), [triangles[..., None]], [chosen])
    _use(MatchingCRF(perfect=False), X, [np.where(y < 6, y, -1) for y in Y])
    rng = np.random.default_rng(0)
    n = 30
    ring = np.stack([np.arange(n), (np.arange(n) + 1) % n], axis=1)
    chords = np.stack([np.arange(n // 2), np.arange(n // 2) + n // 2], axis=1)
    x = EdgeList(n, np.concatenate([ring, chords]), rng.normal(size=(3 * n // 2, 3)))
    _use(MatchingCRF(), [x], [np.arange(n) ^ 1])


def _grid(n_states: int) -> None:
    if n_states == 2:
        images, masks = make_segmentation(4, shape=(12, 16), random_state=0)
        X: list[Any] = [(node_features(i, hog=False), edge_features(i)) for i in images]
        _use(GridCRF(alpha=10.0), X, masks)
    rng = np.random.default_rng(0)
    for shape in ((4, 5), (12, 12)):
        Y = [rng.integers(0, n_states, size=shape) for _ in range(3)]
        X = [np.eye(n_states)[y] + rng.normal(size=(*shape, n_states)) for y in Y]
        _use(GridCRF(), X, Y)
    GridCRF(neighbours=8).fit(X, Y).predict(X)


def _graph() -> None:
    rng = np.random.default_rng(0)
    n = SMALL + 2  # so that rho comes from a sparse elimination
    ring = np.stack([np.arange(n), (np.arange(n) + 1) % n], axis=1)
    for n_states, edges in ((2, ring), (3, ring), (2, ring[1:]), (3, ring[1:])):
        Y = [np.repeat(rng.integers(0, n_states, size=n // 2), 2) for _ in range(6)]
        X = [(np.eye(n_states)[y] + rng.normal(size=(n, n_states)), edges) for y in Y]
        _use(GraphCRF(n_states=n_states), X, Y)


def _chain() -> None:
    letters, words = make_words(8, random_state=0)
    _use(ChainCRF(), letters, words)
    tokens = [[{f"letter={letter}": 1.0} for letter in word] for word in words]
    _use(ChainCRF(), tokens, words)


def _yes_no() -> None:
    """Binary answers, with exact and with reweighted marginals."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(40, 3)), rng.integers(0, 2, size=(40, 5))
    for inference in ("exact", "reweighted"):
        model = MultiLabelCRF(inference=inference).fit(X, Y)
        model.score(X, Y)
        model.predict_proba(X, known=np.where(Y == 1, 1, -1))
        model.log_likelihood_bounds(X[:2], Y[:2])
        IsingMRF(graph="full", inference=inference).fit(Y).score(Y)


def _map_solvers() -> None:
    """The paper's solvers, on every output space."""
    rng = np.random.default_rng(0)
    for solver in ("bcfw", "fw"):
        budget: dict[str, Any] = {"solver": solver, "max_iter": 2, "random_state": 0}
        BipartiteMatchingCRF(**budget).fit(*_two_sides(8, 8))
        MatchingCRF(**budget).fit(*_group(10))
        ChainCRF(**budget).fit(*make_words(4, random_state=0))
        for n_states in (2, 3):
            Y = [rng.integers(0, n_states, size=(4, 5)) for _ in range(3)]
            GridCRF(**budget).fit([np.eye(n_states)[y] for y in Y], Y)


def _baselines() -> None:
    images, masks = make_segmentation(4, shape=(12, 16), random_state=0)
    X = [(node_features(i, hog=False), edge_features(i)) for i in images]
    for learner in (StructuredSVM, StructuredPerceptron):
        learner(BipartiteMatchingCRF(random_state=0)).fit(*_two_sides(8, 8))
        learner(GridCRF(alpha=1e5, tol=0.05, random_state=0)).fit(X, masks)


def _inference() -> None:
    """Marginals by every method, bounds and samples, without an estimator."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(10, 10))
    spaces: list[tuple[Any, Any]] = [
        (BipartiteMatching((10, 10), rho=1.0), table),
        (LocalMatching(10), table + table.T),
        (Pairwise(grid(4, 4), n_states=3), (rng.normal(size=(16, 3)), np.eye(3))),
    ]
    for space, scores in spaces:
        methods = ["auto", "fw", "perturb", "exact"]
        for method in methods if isinstance(space, Pairwise) else [*methods, "bp"]:
            marginals(space, scores, method=method)
        log_partition_bounds(space, scores)
        sample(space, scores, 5, random_state=0)


# Those that share few kernels first, so that parallel processes compile different ones.
WORKLOADS: dict[str, Callable[[], None]] = {
    "group": _matching,
    "bipartite": _bipartite,
    "grid-2-states": partial(_grid, 2),
    "chain": _chain,
    "grid-3-states": partial(_grid, 3),
    "inference": _inference,
    "graph": _graph,
    "yes-no": _yes_no,
    "bipartite-rho-1": _bethe,
    "group-variants": _matching_variants,
    "bipartite-sparse": _sparse,
    "bipartite-imperfect": _imperfect,
    "bipartite-capacities": _capacities,
    "bcfw": _map_solvers,
    "baselines": _baselines,
}
