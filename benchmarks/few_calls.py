"""Learning from a decoder alone: calls of the decoder per sample, and seconds outside of it.

    python -m benchmarks.few_calls [--quick]

Spaces: subsets under a budget (dynamic programme), spanning arborescences (networkx), schedules of
jobs on machines (SciPy's milp), spanning trees (SciPy), assignments (SciPy) with the Bethe entropy.
If `decode` takes the sample, each sample has a hull of outputs of its own; otherwise all samples
share one. Calls count everything that `fit` does: interior points, checks of Y, learning.

Rivals: the paper's block-coordinate Frank-Wolfe on the same problem, and the perturbed
Fenchel-Young loss (Berthet et al. 2020) as PyEPO trains it, rewritten in NumPy: Adam, the best of
its settings by the test error itself, with as many calls of the decoder or ten times as many.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import networkx
import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linear_sum_assignment, milp
from scipy.sparse import csr_array
from scipy.sparse.csgraph import minimum_spanning_tree

from benchmarks.measuring import command, show
from mlestruct import BipartiteMatchingCRF, BlockFrankWolfe, FullyCorrective, StructuredCRF
from mlestruct.structures import BipartiteMatching

TOLS = (1e-2, 1e-3, 1e-4)
K = 6  # features


class Counted:
    """A decoder that counts its calls and their CPU seconds."""

    def __init__(self, decode: Callable[..., Any]):
        self.decode, self.calls, self.seconds = decode, 0, 0.0

    def __call__(self, scores: Any) -> Any:
        start = time.process_time()
        found = self.decode(scores)
        self.calls += 1
        self.seconds += time.process_time() - start
        return found


class PerSample(Counted):
    """The same for a function of (scores, x): samples do not share outputs."""

    def __call__(self, scores: Any, x: Any) -> Any:
        return super().__call__(scores)


# ---------------------------------------------------------------------- decoders
def subset(scores: Any) -> Any:
    """Items within a budget of weight, by the dynamic programme of the knapsack."""
    n = scores.size
    weights, budget = 1 + np.arange(n) * 7 % 5, n
    best = np.zeros(budget + 1)
    taken = np.zeros((n, budget + 1), dtype=bool)
    for i, weight in enumerate(weights):
        offer = best[: budget + 1 - weight] + scores[i]
        taken[i, weight:] = offer > best[weight:]
        best[weight:] = np.maximum(offer, best[weight:])
    out, left = np.zeros(n, dtype=np.int64), budget
    for i in reversed(range(n)):
        if taken[i, left]:
            out[i], left = 1, left - weights[i]
    return out


def arborescence(scores: Any) -> Any:
    """Directed trees that leave node 0 and reach all others; coordinates are ordered pairs."""
    n = int((1 + np.sqrt(1 + 4 * scores.size)) / 2)
    ends = [(i, j) for i in range(n) for j in range(n) if i != j]
    graph = networkx.DiGraph()
    graph.add_weighted_edges_from(
        (i, j, float(s)) for (i, j), s in zip(ends, scores, strict=True) if j
    )
    tree = networkx.maximum_spanning_arborescence(graph)
    return np.array([tree.has_edge(i, j) for i, j in ends], dtype=np.int64)


JOBS, MACHINES = 10, 4


def schedule(scores: Any) -> Any:
    """Each job on one machine, at most three jobs and seven hours on each."""
    hours = 1 + np.arange(JOBS) % 3
    each = np.kron(np.eye(JOBS), np.ones(MACHINES))
    limits = np.vstack([np.tile(np.eye(MACHINES), JOBS), np.kron(hours, np.eye(MACHINES))])
    rules = [LinearConstraint(each, 1, 1), LinearConstraint(limits, 0, [3] * 4 + [7] * 4)]
    found = milp(
        -scores,
        constraints=rules,
        integrality=1,
        bounds=Bounds(0, 1),
        options={"mip_rel_gap": 0.0},
    )
    return np.round(found.x).astype(np.int64)


def spanning_tree(scores: Any) -> Any:
    """Trees over all nodes; coordinates are pairs i < j."""
    n = int((1 + np.sqrt(1 + 8 * scores.size)) / 2)
    row, col = np.triu_indices(n, 1)
    costs = scores.max() + 1.0 - scores  # positive
    tree = minimum_spanning_tree(csr_array((costs, (row, col)), shape=(n, n))).toarray()
    return (tree[row, col] > 0).astype(np.int64)


def assignment(scores: Any) -> Any:
    n = int(np.sqrt(scores.size))
    vector = np.zeros((n, n), dtype=np.int64)
    vector[linear_sum_assignment(scores.reshape(n, n), maximize=True)] = 1
    return vector.ravel()


class Matchings(BipartiteMatching):
    """Assignments of which a solver takes only the decoder and the Bethe entropy."""

    def __init__(self, n: int):
        super().__init__((n, n))
        self.calls, self.seconds = 0, 0.0

    def decode(self, *arguments: Any, **options: Any) -> Any:
        start = time.process_time()
        found = super().decode(*arguments, **options)
        self.calls += 1
        self.seconds += time.process_time() - start
        return found


class Space(NamedTuple):
    name: str
    decode: Callable[[Any], Any]
    size: int  # number of coordinates


SUBSETS = Space("subsets of 30", subset, 30)
SPACES = (
    SUBSETS,
    Space("arborescences of 9 nodes", arborescence, 72),
    Space(f"schedules of {JOBS} jobs", schedule, JOBS * MACHINES),
    Space("spanning trees of 10 nodes", spanning_tree, 45),
)


# ---------------------------------------------------------------------- learning
def drawn(space: Space, n_samples: int, seed: int = 0) -> tuple[Any, Any, Any]:
    """Features, outputs that are best under perturbed scores, and the true weights."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=K)
    X = rng.normal(size=(n_samples, space.size, K))
    return X, [space.decode(x @ truth + rng.gumbel(size=space.size)) for x in X], truth


def row(name: str, how: str, fit: Callable[[float], tuple[Any, Any]], n_samples: int) -> list[Any]:
    """Calls a sample for each tolerance; CPU seconds of the last fit, and of its decoder."""
    calls: list[Any] = []
    for tol in TOLS:
        start = time.process_time()
        model, decoder = fit(tol)
        seconds = time.process_time() - start
        calls.append(decoder.calls / n_samples if model.converged_ else None)
    return [name, how, *calls, seconds, decoder.seconds]


def of_decoder(space: Space, n_samples: int, how: str) -> list[Any]:
    X, Y, _ = drawn(space, n_samples)
    kind = Counted if how == "shared" else PerSample
    solver = BlockFrankWolfe(max_iter=200) if how == "paper" else None

    def fit(tol: float) -> tuple[Any, Counted]:
        decode = kind(space.decode)
        return StructuredCRF(decode, tol=tol, solver=solver, random_state=0).fit(list(X), Y), decode

    return row(space.name, how, fit, n_samples)


def of_matchings(n: int, n_samples: int, how: str) -> list[Any]:
    """Assignments; the interval must contain the optimum that the marginal oracle finds."""
    X, vertices, _ = drawn(Space("", assignment, n * n), n_samples)
    Y = [vertex.reshape(n, n).argmax(axis=1) for vertex in vertices]
    tables = list(X.reshape(n_samples, n, n, K))
    optimum = BipartiteMatchingCRF(rho=1.0, tol=1e-8).fit(tables, Y).objective_bound_

    def fit(tol: float) -> tuple[Any, Any]:
        spaces = [Matchings(n)] * n_samples if how == "shared" else [Matchings(n) for _ in X]
        given = dict(zip(map(id, X), spaces, strict=True))
        solver = BlockFrankWolfe(max_iter=200) if how == "paper" else FullyCorrective()
        model = StructuredCRF(
            structure=lambda x: given[id(x)], tol=tol, solver=solver, random_state=0
        ).fit(X, Y)
        low, high = model.objective_, model.objective_bound_
        if not low - 1e-6 <= optimum <= high + 1e-6:
            raise SystemExit(f"the optimum {optimum} is not between {low} and {high}")
        counted = Matchings(1)
        counted.calls = sum(one.calls for one in set(spaces))
        counted.seconds = sum(one.seconds for one in set(spaces))
        return model, counted

    X = list(X)
    return row(f"assignments {n} x {n}, Bethe entropy", how, fit, n_samples)


# ---------------------------------------------------------------------- the rival
def perturbed(
    space: Space, X: Any, Y: Any, sigma: float, rate: float, draws: int, calls: int
) -> Any:
    """Weights after some calls: perturbed Fenchel-Young loss, Adam, a sample at a time."""
    rng = np.random.default_rng(0)
    theta, first, second = np.zeros(K), np.zeros(K), np.zeros(K)
    for t in range(1, calls // draws + 1):
        m = rng.integers(len(X))
        noisy = X[m] @ theta + sigma * rng.normal(size=(draws, space.size))
        mean = np.mean([space.decode(scores) for scores in noisy], axis=0)
        gradient = X[m].T @ (mean - Y[m])
        first += 0.1 * (gradient - first)
        second += 0.001 * (gradient**2 - second)
        theta -= rate * first / (1 - 0.9**t) / (np.sqrt(second / (1 - 0.999**t)) + 1e-8)
    return theta


def beside_rival(space: Space, n_train: int, n_test: int, settings: Any) -> list[list[Any]]:
    """Test errors of weights that were learned with equal numbers of calls."""
    X, Y, truth = drawn(space, n_train + n_test, seed=1)

    def error(theta: Any) -> float:
        """Coordinates that are predicted wrong, of those that are 1 in either."""
        pairs = [
            (space.decode(x @ theta), y) for x, y in zip(X[n_train:], Y[n_train:], strict=True)
        ]
        return float(np.mean([np.sum(a != b) / max(np.sum(a | b), 1) for a, b in pairs]))

    decode = Counted(space.decode)
    model = StructuredCRF(decode, tol=0.01, random_state=0).fit(list(X[:n_train]), Y[:n_train])
    rows = [[space.name, "weights that drew the labels", None, error(truth), None],
            [space.name, "`StructuredCRF`", decode.calls, error(model.coef_), None]]  # fmt: skip
    for allowed in (decode.calls, 10 * decode.calls):
        found = [
            error(perturbed(space, X[:n_train], Y[:n_train], *own, allowed)) for own in settings
        ]
        rows.append([space.name, "perturbed Fenchel-Young", allowed, min(found), np.median(found)])
    return rows


def run(quick: bool) -> None:
    many, few, small = (6, 3, (4,)) if quick else (100, 30, (15, 30))
    rows = []
    for space in SPACES[:2] if quick else SPACES:
        rows += [of_decoder(space, many, how) for how in ("per sample", "shared")]
    rows.append(of_decoder(SUBSETS, many, "paper"))
    if not quick:
        rows.append(of_decoder(SUBSETS, 4 * many, "shared"))
    for n in small:
        rows += [of_matchings(n, few, how) for how in ("per sample", "shared")]
    show(
        f"Calls of the decoder per sample to a relative gap, {many} samples (assignments {few})",
        [
            "outputs",
            "hulls",
            *[f"{tol:g}" for tol in TOLS],
            "CPU s to the last",
            "of which decoder",
        ],
        rows,
    )
    settings = list(product((0.3, 1.0, 3.0), (0.03, 0.1, 0.3), (1, 10)))[: 2 if quick else None]
    rows = []
    for space in (
        SPACES[:1]
        if quick
        else (SPACES[0], SPACES[3], Space("assignments 10 x 10", assignment, 100))
    ):
        rows += beside_rival(space, 4 if quick else 20, 10 if quick else 200, settings)
    show(
        f"Test errors, equal numbers of calls; the rival with the best of {len(settings)} settings",
        ["outputs", "", "calls", "test error", "median setting"],
        rows,
    )


main = command(__doc__, run)

if __name__ == "__main__":
    main()
