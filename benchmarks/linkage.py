"""Record linkage with candidate pairs: how the cost grows, and what a user would do today.

    python -m benchmarks.linkage                              # 10^4, 10^5 and 10^6 candidate pairs
    python -m benchmarks.linkage --quick                      # 10^4 only
    python -m benchmarks.linkage --other /path/to/checkout    # another commit beside it
    python -m benchmarks.record linkage                       # the table of docs/benchmarks.md

Two tables of n records, about eight candidate partners each, six features of a pair; four records
in five have a true partner. A matching of the candidates is learned to a certified relative gap of
1e-3, then asked for the probabilities of the pairs of a second data set. Beside it stands logistic
regression on the pairs with an optimal assignment of its log-odds. "small" is 1,395 x 1,418 records
with nine features. CPU seconds, one process for every row, kernels compiled before.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import min_weight_full_bipartite_matching
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from benchmarks.record import show
from mlestruct import BipartiteMatchingCRF, PairInput
from mlestruct.features import DenseFeatures

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SIZES = {  # rows, columns, candidates of a row, features
    "1e4": (1_250, 1_250, 7, 6),
    "small": (1_395, 1_418, 12, 9),
    "1e5": (12_500, 12_500, 7, 6),
    "1.6e5": (20_000, 20_000, 8, 6),
    "1e6": (125_000, 125_000, 7, 6),
}
COLUMNS = {
    "pairs": "pairs", "CPU s of fit": "fit", "marginals": "marginals", "best matching": "predict",
    "log loss": "loss", "F1": "f1", "MB": "memory",
}  # fmt: skip


def candidates(
    n_rows: int, n_cols: int, degree: int, n_features: int, seed: int
) -> tuple[Ints, Ints, Floats, Ints]:
    """Rows, columns and features of candidate pairs, and the true partner of every row or -1."""
    rng = np.random.default_rng(seed)
    partner = np.where(rng.random(n_rows) < 0.8, np.arange(n_rows) % n_cols, -1)
    partner[n_cols:] = -1
    row = np.repeat(np.arange(n_rows), degree)
    col = (row + rng.integers(-20, 21, size=row.size)) % n_cols
    known = np.flatnonzero(partner >= 0)
    keys = np.unique(np.concatenate([row, known]) * n_cols + np.concatenate([col, partner[known]]))
    row, col = keys // n_cols, keys % n_cols
    strength = np.array([1.5, 1.0, 1.0, 0.5, 0.5, 0.3, 0.2, 0.0])[: n_features - 1]
    features = rng.normal(size=(row.size, n_features))
    features[partner[row] == col, : strength.size] += strength
    features[:, -1] = 1.0
    return row, col, features, partner


def sample(row: Ints, col: Ints, features: Floats, shape: tuple[int, int]) -> PairInput:
    mask = sparse.csr_array((np.ones(row.size, dtype=bool), (row, col)), shape=shape)
    return PairInput(DenseFeatures(features), mask=mask)


def structured(size: str) -> dict[str, float]:
    """Fit, probabilities and assignment by the structured model."""
    n, m, *_ = SIZES[size]
    small = candidates(50, 50, 3, SIZES[size][3], 2)
    BipartiteMatchingCRF(perfect=False, tol=1e-3).fit(
        [sample(*small[:3], (50, 50))], [small[3]]
    ).predict_marginals([sample(*small[:3], (50, 50))])
    row, col, features, partner = candidates(*SIZES[size], seed=0)
    x = sample(row, col, features, (n, m))
    start = time.process_time()
    model = BipartiteMatchingCRF(perfect=False, tol=1e-3).fit([x], [partner])
    fitted = time.process_time()
    row, col, features, partner = candidates(*SIZES[size], seed=1)
    x = sample(row, col, features, (n, m))
    asked = time.process_time()
    (found,) = model.predict_marginals([x])
    answered = time.process_time()
    (decoded,) = model.predict([x])
    decoding = time.process_time() - answered
    probability = np.asarray(found.tocsr()[row, col] if sparse.issparse(found) else found[row, col])
    return _result(row, col, partner, probability.ravel(), decoded, fitted - start,
                   answered - asked, decoding)  # fmt: skip


def pairwise(size: str) -> dict[str, float]:
    """Logistic regression on the pairs, then an optimal assignment of its log-odds."""
    n, m, *_ = SIZES[size]
    row, col, features, partner = candidates(*SIZES[size], seed=0)
    start = time.process_time()
    model = LogisticRegression(max_iter=1000).fit(features, partner[row] == col)
    fitted = time.process_time()
    row, col, features, partner = candidates(*SIZES[size], seed=1)
    asked = time.process_time()
    probability = model.predict_proba(features)[:, 1]
    answered = time.process_time()
    # Staying single is a column of its own for every row, at log-odds 0.
    odds = model.decision_function(features)
    keep = odds > 0.0
    top = odds.max() + 1.0
    costs = sparse.csr_array(
        (
            np.concatenate([top - odds[keep], np.full(n, top)]),
            (
                np.concatenate([row[keep], np.arange(n)]),
                np.concatenate([col[keep], m + np.arange(n)]),
            ),
        ),
        shape=(n, m + n),
    )
    chosen = min_weight_full_bipartite_matching(costs)[1]
    decoded = np.where(chosen < m, chosen, -1)
    decoding = time.process_time() - answered
    return _result(row, col, partner, probability, decoded, fitted - start, answered - asked,
                   decoding)  # fmt: skip


def _result(
    row: Ints, col: Ints, partner: Ints, probability: Floats, decoded: Any, *seconds: float
) -> dict[str, float]:
    right = int((decoded[partner >= 0] == partner[partner >= 0]).sum())
    f1 = 2.0 * right / (int((decoded >= 0).sum()) + int((partner >= 0).sum()))
    loss = log_loss(partner[row] == col, np.clip(probability, 1e-12, 1.0 - 1e-12))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    names = ("fit", "marginals", "predict")
    return {"pairs": row.size, **dict(zip(names, seconds, strict=True)), "loss": loss, "f1": f1,
            "memory": memory}  # fmt: skip


def measure(what: str, size: str, checkout: Path) -> dict[str, float]:
    """One row, in a process of its own with the given checkout."""
    paths = os.pathsep.join([str(checkout / "src"), str(Path(__file__).parents[1])])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    code = Path(__file__).read_text() + f"\nprint(json.dumps({what}({size!r})))\n"
    code = code.replace('if __name__ == "__main__":\n    main()\n', "")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{what} of {size}: {done.stderr.strip().splitlines()[-1]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Record linkage with candidate pairs")
    parser.add_argument("--quick", action="store_true", help="10^4 pairs only")
    parser.add_argument("--other", type=Path, help="another checkout to compare with")
    parser.add_argument("--sizes", help=f"comma-separated, of {', '.join(SIZES)}")
    options = parser.parse_args(arguments)
    here = Path(__file__).parents[1]
    sizes = options.sizes.split(",") if options.sizes else ["1e4"] if options.quick else list(SIZES)
    unknown = [size for size in sizes if size not in SIZES]
    if unknown:
        parser.error(f"--sizes: expected {', '.join(SIZES)}, got {unknown[0]!r}")
    sides = [("structured", "matching CRF", here), ("pairwise", "logistic + assignment", here)]
    if options.other:
        sides.insert(1, ("structured", "matching CRF, other", options.other))
    rows = []
    for size in sizes:
        for what, name, checkout in sides:
            row = measure(what, size, checkout)
            rows.append([name, *(row[key] for key in COLUMNS.values())])
            print(f"{name}, {row['pairs']} pairs: fitted in {row['fit']:.2f} CPU s", flush=True)
    show("Candidate pairs of two tables, fitted to a certified relative gap of 1e-3; probabilities "
         "and the best matching of a second data set", ["", *COLUMNS], rows)  # fmt: skip


if __name__ == "__main__":
    main()
