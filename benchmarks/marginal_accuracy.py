"""How close pseudo-marginals are to the exact ones, by rho, on matchings small enough to count.

    python -m benchmarks.marginal_accuracy

Prints the mean and worst over random score tables of max |tau - exact marginal|.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np

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


def main(n_tables: int = 50) -> None:
    print("mean (worst) over random tables of max |pseudo-marginal - exact marginal|")
    print(f"{'n':>3}{'score std':>11}" + "".join(f"{f'rho={rho:g}':>16}" for rho in RHOS))
    for n in (4, 6, 7):
        for spread in (0.5, 1.0, 2.0, 4.0):
            found = errors(n, spread, n_tables)
            cells = "".join(f"{e.mean():>9.3f} ({e.max():.2f})" for e in found.values())
            print(f"{n:>3}{spread:>11g}{cells}", flush=True)


if __name__ == "__main__":
    main()
