"""`mlestruct warmup`: compile the kernels of the estimators in advance, by tiny fits.

The machine code stays in numba's cache on disk.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numba.core.event import install_recorder
from scipy import sparse

from ._compile import cache_place
from .exceptions import UsageProblem
from .models import (
    BipartiteMatchingCRF,
    ChainCRF,
    GraphCRF,
    GridCRF,
    IsingMRF,
    MatchingCRF,
    MultiLabelCRF,
    PairInput,
)


def run_warmup(names: Sequence[str] = ()) -> int:
    """Compile what the named estimators (default: all) use; returns the exit status."""
    place, asked = cache_place(), os.environ.get("NUMBA_CACHE_DIR")
    fits = list(tiny_fits())
    known = list(dict.fromkeys(type(model).__name__ for model, _ in fits))
    if unknown := sorted(set(names) - set(known)):
        raise UsageProblem(f"no estimator {', '.join(unknown)}; there are {' '.join(known)}")
    if place is None:
        print("no folder for compiled kernels is writable: set NUMBA_CACHE_DIR to one that is")
        return 1
    if asked and not os.access(asked, os.W_OK):
        print(f"NUMBA_CACHE_DIR: the folder {asked} is not writable")
        return 1
    print(f"compiling into {place}")
    os.environ["MLESTRUCT_QUIET"] = "1"
    for name in names or known:
        began = time.perf_counter()
        with warnings.catch_warnings(), install_recorder("numba:compile") as events:
            warnings.simplefilter("ignore")
            for model, data in fits:
                if type(model).__name__ == name:
                    use(model, *data)
        compiled = sum(event.is_start for _, event in events.buffer)
        print(f"{name:<22}{time.perf_counter() - began:>7.1f} s {compiled:>5} compiled", flush=True)
    return 0


def use(model: Any, X: Any, *Y: Any) -> None:
    """Fit a model and ask for predictions."""
    model.fit(X, *Y)
    if Y:
        model.predict(X)
        model.predict_marginals(X)
    model.score(X, *Y)


def tiny_fits() -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Models with data that reach their kernels."""
    rng = np.random.default_rng(0)
    for n in (8, 40):
        pairs = rng.normal(size=(4, n, n, 3))
        partners = [rng.permutation(n) for _ in pairs]
        yield BipartiteMatchingCRF(), (pairs, partners)
        yield MatchingCRF(), (pairs + pairs.transpose(0, 2, 1, 3), [np.arange(n) ^ 1] * 4)
    singles = [np.where(y < n // 2, y, -1) for y in partners]
    yield BipartiteMatchingCRF(perfect=False), (pairs, singles)
    mask = sparse.random_array((n, n), density=0.1, rng=rng) + sparse.eye_array(n)
    mask = sparse.csr_array(mask).astype(bool)
    candidates = PairInput(rng.normal(size=(mask.nnz, 3)), mask=mask)
    matched = np.where(np.arange(n) < n // 2, np.arange(n), -1)
    yield BipartiteMatchingCRF(perfect=False), ([candidates], [matched])
    for n_states, kind in ((2, np.float64), (3, np.float32)):
        labels = rng.integers(0, n_states, size=(3, 12, 12))
        nodes = np.eye(n_states)[labels] + rng.normal(size=(3, 12, 12, n_states))
        yield GridCRF(), (nodes, labels)
        edges = [(rng.normal(size=(12, 11, 2)), rng.normal(size=(11, 12, 2))) for _ in nodes]
        yield GridCRF(), (list(zip(nodes, edges, strict=True)), labels)
        ring = np.stack([np.arange(12), (np.arange(12) + 1) % 12], axis=1)
        yield GraphCRF(), ([(x[0], ring) for x in nodes], labels[:, 0])
        yield ChainCRF(), (list(nodes[:, 0].astype(kind)), list(labels[:, 0]))
    tokens = [[{f"letter={state}": 1.0} for state in y[0]] for y in labels]
    yield ChainCRF(), (tokens, list(labels[:, 0]))
    answers = rng.integers(0, 2, size=(40, 5))
    yield MultiLabelCRF(), (rng.normal(size=(40, 3)), answers)
    yield IsingMRF(graph="full"), (answers,)
