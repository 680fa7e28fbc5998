"""The marginal oracle of matchings on hard problems: how many it certifies, how many are wrong.

    python -m benchmarks.certificates [--quick]

The first table has 600 marginals: two sides and groups (their double covers), complete and sparse,
rings and bands, single nodes allowed or not, scores with a range of 1 to 5,000, rho from .5 to 1 or
of each node. One is *certified* if its gap is at most 1e-6. It is *wrong* if its sums are not 1, if
log Z_rho at its tau, recomputed here term by term, is below the value that it claims, or if some
other point has a larger value than its upper bound: the best vertex, and the marginals at a
hundredth of the tolerance.

The second table has 36 fits. One is certified if it converged; it is wrong if its interval of the
best objective does not meet that of a fit to a hundredth of the tolerance.

Only public calls are used, so that `PYTHONPATH=/other/checkout/src` measures another commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import xlogy

from benchmarks.measuring import command, show, timed
from mlestruct import BipartiteMatchingCRF
from mlestruct.structures import BipartiteGraph, BipartiteMatching, LocalMatching, SimpleGraph

RHOS = (0.5, 0.75, 0.95, 0.99, 1.0, 1.0, None)  # None: every node has its own

TOL = 1e-6  # the default of `mlestruct.inference.marginals`

KINDS = {  # the largest number of rows or nodes
    "square": 80,
    "rectangle": 60,
    "square, single nodes": 60,
    "rectangle, single nodes": 60,
    "sparse": 300,
    "sparse, single nodes": 300,
    "ring": 400,
    "band": 400,
    "ring or band, single nodes": 400,
    "group": 24,
    "sparse group": 100,
    "ring group": 100,
}


@dataclass(frozen=True)
class Problem:
    """An output space, its scores, rho of each node, and the range of the scores."""

    kind: str
    space: Any
    scores: Any
    rho: Any
    spread: float


def cyclic(n: int, width: int, closed: bool) -> Any:
    """The pairs of a ring, or of a band around the diagonal."""
    row, step = np.divmod(np.arange(n * width), width)
    col = row + step - (0 if closed else width // 2)
    mask = np.zeros((n, n), dtype=bool)
    keep = slice(None) if closed else (col >= 0) & (col < n)
    mask[row[keep], col[keep] % n] = True
    return mask


def draw(kind: str, seed: int, largest: int | None = None) -> Problem:
    """A random problem of a kind."""
    rng = np.random.default_rng([sorted(KINDS).index(kind), seed])
    n = int(np.exp(rng.uniform(np.log(4.0), np.log(largest or KINDS[kind]))))
    free = "single" in kind
    rho = RHOS[rng.integers(len(RHOS))]
    if "group" in kind:
        n += n % 2
        free = bool(rng.integers(2))
        of_nodes = rng.uniform(0.5, 1.0, n) if rho is None else np.full(n, rho)
        graph: Any = SimpleGraph.complete(n)
        if kind != "group" and n > 4:
            ends = np.stack([np.arange(n), (np.arange(n) + 1) % n], axis=1)
            more = np.stack([np.arange(n), (np.arange(n) + 2) % n], axis=1)
            if kind == "sparse group":
                more = rng.integers(n, size=(n, 2))
            pairs = np.unique(np.sort(np.concatenate([ends, more]), axis=1), axis=0)
            graph = SimpleGraph.from_edges(n, pairs[pairs[:, 0] < pairs[:, 1]])[0]
        space: Any = LocalMatching(graph, of_nodes, not free)
    else:
        m = n + int(rng.integers(1, n + 1)) if "rectangle" in kind else n
        mask = np.ones((n, m), dtype=bool)
        if "sparse" in kind:
            mask = (rng.random((n, m)) < rng.uniform(1.5, 6.0) / n) | np.eye(n, dtype=bool)
        elif "ring" in kind or "band" in kind:
            closed = kind == "ring" or (kind != "band" and bool(rng.integers(2)))
            mask = cyclic(n, min(int(rng.integers(2, 7)), n), closed) | np.eye(n, dtype=bool)
        of_nodes = rng.uniform(0.5, 1.0, n + m) if rho is None else np.full(n + m, rho)
        space = BipartiteMatching(BipartiteGraph.from_mask(mask), of_nodes, not free)
    scores = np.zeros(space.n_coordinates)
    scored = scores if free else scores[: space.n_scored]
    scored[:] = rng.normal(size=scored.size)
    if rng.random() < 0.2:
        scored[:] = np.round(scored)  # ties
    if rng.random() < 0.2:
        scores[space.decode(scores).vertex.indices] += 2.0  # one matching is likely
    spread = float(np.exp(rng.uniform(0.0, np.log(5000.0))))
    scored *= spread / max(float(np.ptp(scored)), 1e-9)
    return Problem(kind, space, scores, of_nodes, spread)


# ---------------------------------------------------------------------- one marginal
def node_sums(problem: Problem, tau: Any) -> Any:
    """The sum of every node, its probability to stay single included."""
    sums = problem.space.singles(tau)
    for end in problem.space.ends:
        sums += np.bincount(end, tau[: problem.space.n_scored], minlength=sums.size)
    return sums


def value(problem: Problem, tau: Any) -> float:
    """<scores, tau> + H_rho(tau), term by term."""
    space, rho = problem.space, problem.rho
    t, z = tau[: space.n_scored], space.singles(tau)
    one, other = space.ends
    c = rho[one] + rho[other] - 1.0
    entropy = (c * xlogy(1.0 - t, 1.0 - t) - xlogy(t, t)).sum() - (rho * xlogy(z, z)).sum()
    return float(problem.scores @ tau + entropy)


def is_wrong(problem: Problem, found: Any) -> bool:
    """Whether an answer contradicts itself or a better one."""
    space, scores = problem.space, problem.scores
    others = [
        found.tau,
        space.marginals(scores, None, 0.01 * TOL).tau,
        space.decode(scores).vertex.dense(space.n_coordinates),
    ]
    feasible = [np.abs(node_sums(problem, tau) - 1.0).max() <= 1e-9 for tau in others]
    values = [value(problem, tau) for tau, fine in zip(others, feasible, strict=True) if fine]
    slack = 1e-8 + 1e-13 * float(np.abs(scores).sum())
    # What sums that miss 1 by rounding may add: a node's price is about the range of the scores.
    slack += 2.0 * problem.spread * float(np.abs(node_sums(problem, found.tau) - 1.0).sum())
    return (
        not feasible[0]
        or found.value > values[0] + slack
        or found.upper_bound < max(values) - slack
        or found.value > found.upper_bound + slack
    )


def marginals(count: int, largest: int | None = None) -> None:
    """The table of marginals, `count` of each kind."""
    rows = []
    for kind in KINDS:
        for seed in range(max(count // 10, 1)):  # compiles
            one = draw(kind, 10_000 + seed, largest)
            one.space.marginals(one.scores, None, TOL)
        certified = wrong = 0
        spent = 0.0
        for seed in range(count):
            one = draw(kind, seed, largest)
            seconds, found = timed(lambda own=one: own.space.marginals(own.scores, None, TOL))
            spent += seconds
            certified += bool(found.gap <= TOL)
            wrong += is_wrong(one, found)
        rows.append([kind, count, certified, wrong, spent])
    rows.append(["all", *(sum(row[k] for row in rows) for k in range(1, 5))])
    show(
        "Marginals to a certified gap of 1e-6, scores with a range of 1 to 5,000",
        ["problem", "number", "certified", "wrong", "CPU s"],
        rows,
    )


# ---------------------------------------------------------------------- fits
def learning(quick: bool) -> Iterator[tuple[float, dict[str, Any], Any, Any]]:
    """rho, parameters and samples of the fits."""
    for n, n_samples in ((10, 20),) if quick else ((10, 40), (30, 8), (100, 2)):
        for rho in (0.5, 0.95, 1.0):
            for alpha in (30.0, 0.03):
                for noise in (0.5,) if quick else (0.5, 2.0):  # few or many wrong partners
                    rng = np.random.default_rng([n, int(10 * noise)])
                    X = [noise * rng.normal(size=(n, n, 6)) for _ in range(n_samples)]
                    Y = [rng.permutation(n) for _ in X]
                    for x, y in zip(X, Y, strict=True):
                        x[np.arange(n), y] += 1.0
                    yield rho, {"rho": rho, "alpha": alpha}, X, Y


def fits(quick: bool) -> None:
    """The table of fits."""
    tol = 1e-4
    rows: dict[float, list[float]] = {}
    for rho, given, X, Y in learning(quick):
        BipartiteMatchingCRF(**given, tol=tol, max_iter=3).fit(X, Y)  # compiles
        seconds, model = timed(
            lambda own=given, x=X, y=Y: BipartiteMatchingCRF(**own, tol=tol).fit(x, y)
        )
        finer = BipartiteMatchingCRF(**given, tol=0.01 * tol).fit(X, Y)
        one, other = ((found.objective_, found.objective_bound_) for found in (model, finer))
        apart = max(one[0], other[0]) - min(one[1], other[1])
        row = rows.setdefault(rho, [0, 0, 0, 0.0])
        row[0] += 1
        row[1] += bool(model.converged_)
        row[2] += bool(apart > 1e-10 * abs(model.objective_) + 1e-12)
        row[3] += seconds
    table = [[f"rho = {rho:g}", *row] for rho, row in rows.items()]
    table.append(["all", *(sum(row[k] for row in rows.values()) for k in range(4))])
    show(
        "Fits of `BipartiteMatchingCRF` to a relative gap of 0.0001, 10 to 100 rows",
        ["fits", "number", "certified", "wrong", "CPU s"],
        table,
    )


def run(quick: bool) -> None:
    marginals(1, 12) if quick else marginals(50)
    fits(quick)


main = command(__doc__, run)

if __name__ == "__main__":
    main()
