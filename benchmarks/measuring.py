"""What the benchmarks share: the command line, CPU seconds, tables and generated problems."""

from __future__ import annotations

import argparse
import math
import re
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import min_weight_full_bipartite_matching
from threadpoolctl import threadpool_limits

Data = tuple[list[Any], list[Any]]
NOTHING = "\u2013"  # an empty cell

TABLES: list[dict[str, Any]] = []
"""The tables that this process has shown."""


def command(doc: str, run: Callable[[bool], None]) -> Callable[[Sequence[str] | None], None]:
    """The function `main` of a benchmark: `run(quick)` with one thread of BLAS, without warnings.

    Threads of BLAS that wait for each other would count as CPU seconds.
    """

    def main(arguments: Sequence[str] | None = None) -> None:
        parser = argparse.ArgumentParser(description=doc.splitlines()[0])
        parser.add_argument("--quick", action="store_true", help="small problems, a few seconds")
        quick = parser.parse_args(arguments).quick
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run(quick)

    return main


def has(module: str, package: str | None = None) -> bool:
    """Whether a rival is installed; if not, print how to install it."""
    found = find_spec(module) is not None
    if not found:
        print(f"{module} is not installed and left out: pip install {package or module}")
    return found


# ---------------------------------------------------------------------- time and memory
def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of one call, and what it returns."""
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def least(work: Callable[[], Any], repeat: int = 5) -> float:
    """Least CPU seconds of several calls, after one that compiles."""
    work()
    return min(timed(work)[0] for _ in range(repeat))


def peak_megabytes() -> float:
    """The largest memory of this process so far."""
    import resource  # not on Windows

    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


# ---------------------------------------------------------------------- tables
def show(title: str, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table and keep it for `benchmarks.record`."""
    cells = [[cell(value) for value in row] for row in rows]
    TABLES.append({"title": title, "head": list(head), "rows": cells})
    print(f"\n{markdown(TABLES[-1])}", flush=True)


def markdown(table: dict[str, Any]) -> str:
    """A table as Markdown, numbers to the right."""
    lines = [table["head"], *table["rows"]]
    wide = [max(len(line[k]) for line in lines) for k in range(len(table["head"]))]
    right = [all(is_number(row[k]) for row in table["rows"]) for k in range(len(wide))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            one.rjust(size) if to_right else one.ljust(size)
            for one, size, to_right in zip(cells, wide, right, strict=True)
        ]
        return f"| {' | '.join(padded)} |"

    rule = [
        "-" * (size - 1) + (":" if to_right else "-")
        for size, to_right in zip(wide, right, strict=True)
    ]
    body = [line(table["head"]), line(rule), *map(line, table["rows"])]
    return f"{table['title']}:\n\n" + "\n".join(body) + "\n"


def is_number(text: str) -> bool:
    return text == NOTHING or re.fullmatch(r"-?[\d,.]+(e-?\d+)?", text) is not None


def cell(value: Any) -> str:
    """Three significant digits, and all digits before the point."""
    if isinstance(value, str):
        return value
    if value is None or not math.isfinite(value):
        return NOTHING
    if value == 0 or isinstance(value, int | np.integer):
        return f"{int(value):,}"
    exponent = math.floor(math.log10(abs(float(f"{value:.2e}"))))
    if exponent < -3:
        return f"{value / 10.0**exponent:.2f}e{exponent}"
    return f"{value:,.{max(0, 2 - exponent)}f}"


# ---------------------------------------------------------------------- problems
def assignments(n_samples: int, size: int, n_features: int = 6, seed: int = 0) -> Data:
    """Tables of features of pairs, and the partner of every row."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(size, size, n_features)) for _ in range(n_samples)]
    Y = [rng.permutation(size) for _ in X]
    for x, y in zip(X, Y, strict=True):
        x[np.arange(size), y] += 0.7
    return X, Y


def groups(n_samples: int, size: int, seed: int = 0) -> Data:
    """Symmetric tables of features, and the partner of every member."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(size, size, 4)) for _ in range(n_samples)]
    X = [x + x.transpose(1, 0, 2) for x in X]
    partner = np.arange(size) ^ 1
    for x in X:
        x[np.arange(size), partner] += 1.0
    return X, [partner for _ in X]


def candidate_pairs(n_records: int, seed: int = 0, n_features: int = 6, degree: int = 7) -> Any:
    """Rows, columns and features of candidate pairs of two tables, and the partner of every row.

    Four records in five have a partner; every record has `degree` candidates more.
    """
    rng = np.random.default_rng(seed)
    partner = np.where(rng.random(n_records) < 0.8, np.arange(n_records), -1)
    row = np.repeat(np.arange(n_records), degree)
    col = (row + rng.integers(-20, 21, size=row.size)) % n_records
    known = np.flatnonzero(partner >= 0)
    keys = np.unique(np.concatenate([row * n_records + col, known * n_records + known]))
    row, col = np.divmod(keys, n_records)
    features = rng.normal(size=(row.size, n_features))
    features[partner[row] == col, :5] += np.array([1.5, 1.0, 1.0, 0.5, 0.5])[: n_features - 1]
    features[:, -1] = 1.0
    return row, col, features, partner


def pair_input(row: Any, col: Any, features: Any, shape: tuple[int, int]) -> Any:
    """Candidate pairs as a sample of `BipartiteMatchingCRF`."""
    from mlestruct import PairInput

    mask = sparse.csr_array((np.ones(row.size, dtype=bool), (row, col)), shape=shape)
    return PairInput(features, mask=mask)


def best_links(row: Any, col: Any, odds: Any, shape: tuple[int, int]) -> Any:
    """The partner of every row, or -1, with the largest sum of log-odds, by SciPy."""
    n, m = shape
    keep = odds > 0.0
    top = float(odds.max()) + 1.0
    costs = np.concatenate([top - odds[keep], np.full(n, top)])
    # A column for every row stands for no partner, at log-odds 0.
    ends = (
        np.concatenate([row[keep], np.arange(n)]),
        np.concatenate([col[keep], m + np.arange(n)]),
    )
    chosen = min_weight_full_bipartite_matching(sparse.csr_array((costs, ends), (n, m + n)))[1]
    return np.where(chosen < m, chosen, -1)


def images(n_samples: int, side: int, n_states: int = 2, seed: int = 0) -> Data:
    """Noisy features of pixels and labels in patches of up to 12 x 12 pixels."""
    rng = np.random.default_rng(seed)
    patch = max(2, min(12, side // 4))
    X, Y = [], []
    for _ in range(n_samples):
        patches = rng.integers(n_states, size=(side // patch + 1,) * 2)
        Y.append(np.kron(patches, np.ones((patch, patch), dtype=np.int64))[:side, :side])
        X.append(np.eye(n_states)[Y[-1]] + rng.normal(size=(side, side, n_states)))
    return X, Y


def random_edges(n_nodes: int, rng: np.random.Generator) -> Any:
    """About three edges a node, without small separators."""
    ends = np.stack([np.tile(np.arange(n_nodes), 3), rng.integers(n_nodes, size=3 * n_nodes)])
    return np.unique(np.sort(ends[:, ends[0] != ends[1]], axis=0), axis=1).T


def sentences(n_samples: int, n_labels: int = 20, seed: int = 0) -> Data:
    """Sequences of dictionaries of strings; the vocabulary grows with their number."""
    rng = np.random.default_rng(seed)
    letters = np.array(list("abcdefghiklmnoprstuw"))
    words = ["".join(rng.choice(letters, size=k)) for k in rng.integers(2, 9, size=100 * n_labels)]
    follows = rng.dirichlet(np.full(n_labels, 0.2), size=n_labels).cumsum(axis=1)
    X, Y = [], []
    for _ in range(n_samples):
        labels = [int(rng.integers(n_labels))]
        for drawn in rng.random(rng.integers(4, 14)):
            labels.append(min(int(np.searchsorted(follows[labels[-1]], drawn)), n_labels - 1))
        kind = np.where(rng.random(len(labels)) < 0.3, rng.integers(n_labels), labels)
        rank = np.minimum(rng.zipf(1.5, len(labels)) - 1, 99)
        tokens = ["", *(words[100 * a + b] for a, b in zip(kind, rank, strict=True)), ""]
        X.append([
            {"word": word, "ending": word[-2:], "before": before, "after": after}
            for before, word, after in zip(tokens, tokens[1:], tokens[2:], strict=False)
        ])  # fmt: skip
        Y.append([f"label {label}" for label in labels])
    return X, Y
