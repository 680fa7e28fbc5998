"""How close pseudo-marginals are to the exact ones, by rho, on matchings small enough to count.

    python -m benchmarks.marginal_accuracy
    python -m benchmarks.record marginal_accuracy    # the table of docs/choosing.md

Prints the mean and worst over random score tables of max |tau - exact marginal|.
"""

from __future__ import annotations

import argparse
from itertools import permutations

import numpy as np

from benchmarks.record import show
from mlestruct.structures import BipartiteMatching

RHOS = (0.5, 0.75, 0.95, 1.0)


def exact_marginals(scores: np.ndarray) -> np.ndarray:
    """Marginals of perfect matchings with p proportional to exp(score), by enumeration."""
    n = scores.shape[0]
    matchings = np.array(list(permutations(range(n))))
    totals = scores[np.arange(n), matchings].sum(axis=1)
    weights = np.exp(totals - totals.max())
    out = np.zeros((n, n))
    for i in range(n):
        np.add.at(out[i], matchings[:, i], weights)
    return out / weights.sum()


def errors(n: int, spread: float, n_tables: int, seed: int = 0) -> dict[float, np.ndarray]:
    """max |tau - exact| of each random table, by rho."""
    rng = np.random.default_rng(seed)
    tables = spread * rng.normal(size=(n_tables, n, n))
    exact = [exact_marginals(table) for table in tables]
    found = {}
    for rho in RHOS:
        structure = BipartiteMatching((n, n), rho)
        taus = [structure.marginals(table.ravel()).tau.reshape(n, n) for table in tables]
        found[rho] = np.array([np.abs(t - e).max() for t, e in zip(taus, exact, strict=True)])
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tables", type=int, default=50, help="random tables of each kind")
    n_tables, rows = parser.parse_args(arguments).tables, []
    for n in (4, 6, 7):
        for spread in (0.5, 1.0, 2.0, 4.0):
            found = errors(n, spread, n_tables).values()
            means, worst = [e.mean() for e in found], [e.max() for e in found]
            rows.append([n, f"{spread:g}", *means, *worst])
    show(
        f"Largest error of a pair, mean and largest of {n_tables} random tables of n x n scores",
        [
            "n",
            "spread",
            *(f"{what}, rho = {rho:g}" for what in ("mean", "largest") for rho in RHOS),
        ],
        rows,
    )


if __name__ == "__main__":
    main()
