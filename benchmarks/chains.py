"""Learning linear chains: ChainCRF beside python-crfsuite, same data and objective.

    python -m benchmarks.chains             # 600 and 6,000 words, about two minutes
    python -m benchmarks.chains --quick     # 60 words, for a first look
    python -m benchmarks.chains --sparse    # 1,500 to 20,000 addresses, about 15 minutes
    python -m benchmarks.chains --compile   # CPU seconds of a first fit and prediction
    python -m benchmarks.record chains      # a table of docs/benchmarks.md; others with --sparse
                                            # and --compile

Words of 26 letters, 129 features each (16 x 8 pixels and a constant). Both sides maximise the same
regularised log-likelihood over the same weights (crfsuite: L-BFGS, c1 = 0, c2 = alpha/2, all states
and transitions), each in one thread. CPU seconds are those of training alone: data are converted
before (ChainCRF's own stacking counts), kernels compiled before. Both sets of weights are judged
by one exact function. Memory is what converting and training one side add to a fresh process.

Addresses have 29 labels and about 5,000 string features in dictionaries, with a weight for every
feature and label ("all") or for those that occur together ("observed"). CPU seconds count all from
the dictionaries on. crfsuite runs with its default stopping rule, with 6 (its default) and 20 pairs
of L-BFGS; the faster run is shown. "to 1e-4": until the objective is within 1e-4 of the better one.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from benchmarks.addresses import make_addresses
from benchmarks.record import power, show
from mlestruct.datasets.words import make_words
from mlestruct.models.chain import ChainCRF

N_STATES = 26
CLOSE = 1e-4  # relative difference of objectives that counts as reached


def words(n_words: int, n_states: int = N_STATES) -> tuple[list, list]:
    """Generated words with a constant feature."""
    X, Y = make_words(n_words, n_states, random_state=0)
    return [np.hstack([x, np.ones((x.shape[0], 1), dtype=x.dtype)]) for x in X], Y


def objective(model: ChainCRF, X: list, Y: list, coef: np.ndarray, alpha: float) -> float:
    """Exact regularised log-likelihood of any weights."""
    judge = ChainCRF()
    judge._restore(model._layout)
    judge.coef_ = coef
    return float(judge.log_likelihood(X, Y).sum() - 0.5 * alpha * coef @ coef)


# ---------------------------------------------------------------------- crfsuite
def crfsuite_trainer(
    X: list, Y: list, alpha: float, weights: str = "all", num_memories: int = 6
) -> Any:
    """A trainer that holds the data: lists of dictionaries, lists of labels."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params(
        {
            "c1": 0.0,
            "c2": alpha / 2.0,
            "feature.possible_states": weights == "all",
            "feature.possible_transitions": weights == "all",
            "max_iterations": 10_000,
            "num_memories": num_memories,
        }
    )
    for x, y in zip(X, Y, strict=True):
        trainer.append(pycrfsuite.ItemSequence(x), y)
    return trainer


def word_items(X: list, Y: list) -> tuple[list, list]:
    """Words as crfsuite reads them."""
    items = [[{str(k): float(row[k]) for k in np.flatnonzero(row)} for row in x] for x in X]
    return items, [[str(state) for state in y] for y in Y]


def crfsuite_coef(path: Path, n_features: int) -> np.ndarray:
    """Weights of a crfsuite model in the order of ChainCRF's."""
    import pycrfsuite

    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    info = tagger.info()
    n_states = 1 + max(int(label) for label in info.labels)
    nodes = np.zeros((n_states, n_features))
    for (name, label), weight in info.state_features.items():
        nodes[int(label), int(name)] = weight
    edges = np.zeros((n_states, n_states))
    for (a, b), weight in info.transitions.items():
        edges[int(a), int(b)] = weight
    return np.concatenate([nodes.ravel(), edges.ravel()])


def train_crfsuite(X: list, Y: list, alpha: float) -> tuple[float, np.ndarray, int]:
    """CPU seconds, weights and iterations."""
    trainer = crfsuite_trainer(*word_items(X, Y), alpha)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        before = time.process_time()
        trainer.train(str(path))
        seconds = time.process_time() - before
        coef = crfsuite_coef(path, X[0].shape[1])
    return seconds, coef, int(trainer.logparser.last_iteration["num"])


# ---------------------------------------------------------------------- mlestruct
class Clock:
    """CPU seconds and best proven objective at every certificate, the last one's excluded."""

    def __init__(self) -> None:
        self.rows: list[tuple[float, float, float]] = []

    def __call__(self, progress: Any) -> None:
        self.rows.append((time.process_time(), progress.primal, progress.gap))


def train_ours(X: list, Y: list, alpha: float, tol: float) -> tuple[float, ChainCRF, list]:
    """CPU seconds of the whole fit, conversion included; the model; seconds to each objective."""
    clock = Clock()
    model = ChainCRF(alpha=alpha, tol=tol, callback=clock)
    before = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model.fit(X, Y)
    seconds = time.process_time() - before
    return seconds, model, [(now - before, primal, gap) for now, primal, gap in clock.rows]


WORD_HEAD = [
    "words", "letters", "crfsuite: CPU s", "`ChainCRF`: CPU s", "times", "with a certified gap",
    "crfsuite: evaluations", "`ChainCRF`: evaluations", "crfsuite: MB", "`ChainCRF`: MB",
    "objective beside crfsuite's",
]  # fmt: skip


def compare(n_words: int, alpha: float, tol: float, with_memory: bool) -> tuple[list[Any], bool]:
    """A row of the table, and whether crfsuite's objective is reached no later."""
    X, Y = words(n_words)
    theirs, coef, iterations = train_crfsuite(X, Y, alpha)
    ours, model, rows = train_ours(X, Y, alpha, tol)
    target = objective(model, X, Y, coef, alpha)
    reached = objective(model, X, Y, model.coef_, alpha)
    close = target - CLOSE * abs(target)
    first = next((now for now, primal, _ in rows if primal >= close), np.inf)
    ratio = theirs / first
    row = [n_words, sum(map(len, Y)), theirs, first, ratio, ours, iterations, model.n_oracle_calls_,
           *both_memories(n_words, alpha, None, with_memory),
           (reached - target) / abs(target)]  # fmt: skip
    print(f"{n_words} words: {ratio:.1f} times as fast as python-crfsuite", flush=True)
    return row, bool(reached >= close and ratio >= 1.0)


# ---------------------------------------------------------------------- addresses
class Run(NamedTuple):
    """CPU seconds of all, iterations, and (CPU seconds, objective) after each."""

    seconds: float
    iterations: int
    path: list[tuple[float, float]]

    @property
    def objective(self) -> float:
        return self.path[-1][1]

    def seconds_to(self, objective: float) -> float:
        return next((now for now, value in self.path if value >= objective), np.inf)


def run_crfsuite(X: list, Y: list, alpha: float, weights: str, num_memories: int = 6) -> Run:
    before = time.process_time()
    trainer = crfsuite_trainer(X, Y, alpha, weights, num_memories)
    converted = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        trainer.train(str(Path(folder) / "model"))
    end = time.process_time()
    rows = trainer.logparser.iterations
    each = (end - converted) / len(rows)
    path = [(converted - before + each * (k + 1), -row["loss"]) for k, row in enumerate(rows)]
    return Run(end - before, len(rows), path)


def run_ours(X: list, Y: list, alpha: float, weights: str, tol: float) -> Run:
    clock = Clock()
    model = ChainCRF(
        alpha=alpha, tol=tol, callback=clock, state_features=weights, transitions=weights
    )
    before = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model.fit(X, Y)
    seconds = time.process_time() - before
    path = [(now - before, primal) for now, primal, _ in clock.rows]
    return Run(seconds, model.n_iter_, path)


ADDRESS_HEAD = [
    "addresses", "tokens", "weights", "crfsuite: CPU s", "`ChainCRF`: CPU s", "times",
    "with a certified gap", "crfsuite: iterations", "`ChainCRF`: iterations", "crfsuite: MB",
    "`ChainCRF`: MB",
]  # fmt: skip


def compare_addresses(
    n: int, weights: str, alpha: float, tol: float, with_memory: bool
) -> tuple[list[Any], bool]:
    """A row of the table; whether half the time and three times the memory are enough."""
    X, Y = make_addresses(n)
    ours = run_ours(X, Y, alpha, weights, tol)
    both = [run_crfsuite(X, Y, alpha, weights, memories) for memories in (6, 20)]
    best = max(run.objective for run in (ours, *both))
    close = best - CLOSE * abs(best)
    theirs = min(both, key=lambda run: run.seconds_to(close))
    added = both_memories(n, alpha, weights, with_memory)
    ratio = theirs.seconds_to(close) / ours.seconds_to(close)
    row = [n, sum(map(len, Y)), weights, theirs.seconds_to(close), ours.seconds_to(close), ratio,
           ours.seconds, theirs.iterations, ours.iterations, *added]  # fmt: skip
    print(f"{n} addresses, weights {weights}: {ratio:.1f} times as fast", flush=True)
    passed = ours.objective >= close and ratio >= 2.0 and not added[1] > 3.0 * added[0]
    return row, bool(passed)


# ---------------------------------------------------------------------- memory
def both_memories(n: int, alpha: float, weights: str | None, wanted: bool) -> list[float]:
    """Megabytes that crfsuite and ChainCRF add; nothing known where it is not wanted."""
    sides = ("crfsuite", "ours")
    return [added_memory(side, n, alpha, weights) if wanted else np.nan for side in sides]


def added_memory(side: str, n: int, alpha: float, weights: str | None) -> float:
    """Megabytes that converting the data and training one side add to a fresh process.

    n words, or n addresses where `weights` is given.
    """
    code = f"import benchmarks.chains as b; b.train_alone({side!r}, {n}, {alpha}, {weights!r})"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return float(finished.stdout) if finished.returncode == 0 else np.nan


def train_alone(side: str, n: int, alpha: float, weights: str | None) -> None:
    with threadpool_limits(limits=1, user_api="blas"):
        # Kernels and libraries are loaded first.
        if weights is None:
            train_ours(*words(20), alpha, 0.1)
            X, Y = words(n)
        else:
            run_ours(*make_addresses(50), alpha, weights, 0.1)
            X, Y = make_addresses(n)
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # what is free is not there to be used again
        before = memory("VmRSS")
        if weights is None:
            if side == "crfsuite":
                train_crfsuite(X, Y, alpha)
            else:
                train_ours(X, Y, alpha, 1e-3)
        elif side == "crfsuite":
            run_crfsuite(X, Y, alpha, weights)
        else:
            run_ours(X, Y, alpha, weights, 1e-3)
    print(memory("VmHWM") - before)


def memory(entry: str) -> float:
    """Megabytes now (VmRSS) or at most so far (VmHWM); getrusage would count the parent's too."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:  # not Linux
        return np.nan
    return next(float(line.split()[1]) / 1e3 for line in lines if line.startswith(entry))


# ---------------------------------------------------------------------- compilation
def first_use(kind: str) -> float:
    """CPU seconds of a fit and a prediction in a process without compiled kernels."""
    code = f"import benchmarks.chains as b; b.fit_and_predict({kind!r})"
    with tempfile.TemporaryDirectory() as folder:
        finished = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "NUMBA_CACHE_DIR": folder},
            capture_output=True,
            text=True,
            check=True,
        )
    return float(finished.stdout)


def fit_and_predict(kind: str) -> None:
    X, Y = words(20) if kind == "arrays" else make_addresses(20)
    before = time.process_time()
    ChainCRF(tol=0.1).fit(X, Y).predict(X)
    print(time.process_time() - before)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Benchmarks of learning linear chains")
    parser.add_argument("--words", type=int, nargs="*", default=[600, 6000])
    parser.add_argument("--sparse", action="store_true", help="addresses instead of words")
    parser.add_argument("--compile", action="store_true", help="time of the first use")
    parser.add_argument("--addresses", type=int, nargs="*", default=[1500, 6000, 20_000])
    parser.add_argument("--weights", nargs="*", default=["all", "observed"])
    parser.add_argument("--alpha", type=float, default=1.0)
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args(arguments)
    if options.compile:
        rows = [[kind, first_use(kind)] for kind in ("arrays", "dictionaries")]
        show("A first fit and prediction, which compile, once", ["features", "CPU s"], rows)
        return 0
    alpha, tol, with_memory = options.alpha, options.tol, not options.quick
    with threadpool_limits(limits=1, user_api="blas"):
        if options.sparse:
            run_ours(*make_addresses(50), alpha, "all", 0.1)  # compile first
            sizes = [100] if options.quick else options.addresses
            found = [
                compare_addresses(n, weights, alpha, tol, with_memory)
                for n in sizes
                for weights in options.weights
            ]
            what, head = "the best objective, from the dictionaries on", ADDRESS_HEAD
        else:
            ChainCRF(tol=0.1).fit(*words(20))
            sizes = [60] if options.quick else options.words
            found = [compare(n, alpha, tol, with_memory) for n in sizes]
            what, head = "python-crfsuite's final objective", WORD_HEAD
    show(
        f"CPU seconds to within {power(CLOSE)} of {what}, alpha = {alpha:g}, one thread each; "
        f"`ChainCRF` also to a certified gap of {power(tol)}",
        head,
        [row for row, _ in found],
    )
    passed = all(fine for _, fine in found)
    print("chains: " + ("pass" if passed else "FAIL"))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
