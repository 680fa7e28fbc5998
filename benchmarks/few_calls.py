"""Learning from a decoder alone: calls of the decoder per sample, and seconds outside of it.

    python -m benchmarks.few_calls [--quick]

Spaces: subsets under a budget (dynamic programme), spanning arborescences (networkx), schedules of
jobs on machines (SciPy's milp), spanning trees (SciPy), assignments (SciPy) with the Bethe entropy.
If `decode` takes the sample, each sample has a hull of outputs of its own; otherwise all samples
share one. Calls count everything that `fit` does: interior points, checks of Y, learning.

Rivals: the paper's block-coordinate Frank-Wolfe on the same problem, and PyEPO's perturbed
Fenchel-Young loss (Berthet et al. 2020): Adam, a sample at a time, the best of its settings by the
test data themselves, with as many calls of the decoder or ten times as many.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import permutations, product
from typing import Any, NamedTuple

import networkx
import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linear_sum_assignment, milp
from scipy.sparse import csr_array
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.special import logsumexp

from benchmarks.measuring import command, has, show, timed
from mlestruct import BipartiteMatchingCRF, BlockFrankWolfe, FullyCorrective, StructuredCRF
from mlestruct.structures import BipartiteMatching

TOLS = (1e-2, 1e-3, 1e-4)
K = 6  # features


class Counted:
    """A decoder that counts its calls and their CPU seconds, and may wait in each."""

    def __init__(self, decode: Callable[..., Any], wait: float = 0.0):
        self.decode, self.wait, self.calls, self.seconds = decode, wait, 0, 0.0

    def __call__(self, scores: Any) -> Any:
        start = time.process_time()
        found = self.decode(scores)
        if self.wait:
            time.sleep(self.wait)
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
    outputs: Callable[[], Any] | None = None  # all of them, if they are few


SUBSETS = Space("subsets of 30", subset, 30)
SPACES = (
    SUBSETS,
    Space("arborescences of 9 nodes", arborescence, 72),
    Space(f"schedules of {JOBS} jobs", schedule, JOBS * MACHINES),
    Space("spanning trees of 10 nodes", spanning_tree, 45),
)


def every_assignment(n: int) -> Any:
    return np.array([np.eye(n, dtype=np.int64)[list(p)].ravel() for p in permutations(range(n))])


SMALL = (
    SUBSETS,
    SPACES[3],
    Space("assignments 5 x 5", assignment, 25, partial(every_assignment, 5)),
)


# ---------------------------------------------------------------------- learning
def drawn(space: Space, n_samples: int, seed: int = 0) -> tuple[Any, Any, Any]:
    """Features, outputs that are best under perturbed scores, and the true weights."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=K)
    X = rng.normal(size=(n_samples, space.size, K))
    return X, [space.decode(x @ truth + rng.gumbel(size=space.size)) for x in X], truth


def row(name: str, how: str, model: Any, decoder: Any, seconds: float, n: int) -> list[Any]:
    """Calls a sample until the bounds have reached each tolerance, and those of set-up."""
    history = model.history_
    size = np.maximum(1.0, np.minimum(np.abs(history.objective), np.abs(history.objective_bound)))
    calls, gaps = np.array(history.oracle_calls), np.array(history.gap) / size
    set_up = decoder.calls - calls[-1]
    reached = [calls[gaps <= tol] for tol in TOLS]
    each = [(set_up + found[0]) / n if found.size else None for found in reached]
    return [name, how, *each, seconds - decoder.seconds, decoder.seconds]


def of_decoder(space: Space, n_samples: int, how: str) -> list[Any]:
    X, Y, _ = drawn(space, n_samples)
    decode = Counted(space.decode) if how == "shared" else PerSample(space.decode)
    solver = BlockFrankWolfe(max_iter=600) if how == "paper" else None
    model = StructuredCRF(decode, tol=TOLS[-1], solver=solver, random_state=0)
    seconds, model = timed(lambda: model.fit(list(X), Y))
    return row(space.name, how, model, decode, seconds, n_samples)


def of_matchings(n: int, n_samples: int, how: str, tol: float) -> list[Any]:
    """Assignments; the interval must contain the optimum that the marginal oracle finds."""
    X, vertices, _ = drawn(Space("", assignment, n * n), n_samples)
    Y = [vertex.reshape(n, n).argmax(axis=1) for vertex in vertices]
    tables = list(X.reshape(n_samples, n, n, K))
    optimum = BipartiteMatchingCRF(rho=1.0, tol=1e-8).fit(tables, Y).objective_bound_
    spaces = [Matchings(n)] * n_samples if how == "shared" else [Matchings(n) for _ in X]
    X = list(X)
    given = dict(zip(map(id, X), spaces, strict=True))
    model = StructuredCRF(structure=lambda x: given[id(x)], tol=tol, solver=FullyCorrective())
    seconds, model = timed(lambda: model.fit(X, Y))
    low, high = model.objective_, model.objective_bound_
    if not low - 1e-6 <= optimum <= high + 1e-6:
        raise SystemExit(f"the optimum {optimum} is not between {low} and {high}")
    counted = Matchings(1)
    counted.calls = sum(one.calls for one in set(spaces))
    counted.seconds = sum(one.seconds for one in set(spaces))
    return row(f"assignments {n} x {n}, Bethe entropy", how, model, counted, seconds, n_samples)


# ---------------------------------------------------------------------- slow decoders
def slow(quick: bool) -> list[list[Any]]:
    """Seconds with a decoder that waits; the paper's solver stops after half a minute."""
    n_samples, most = (6, 0.2) if quick else (30, 30.0)
    X, Y, _ = drawn(SUBSETS, n_samples)
    solvers = {"fully corrective": None,
               "block-coordinate": BlockFrankWolfe(max_iter=1000, max_time=most)}  # fmt: skip
    rows = []
    for milliseconds in (1,) if quick else (0, 1, 50):
        for (name, solver), threads in product(solvers.items(), (1, 8)):
            if solver is not None and threads > 1:  # one sample at a time
                continue
            decode = PerSample(subset, 0.001 * milliseconds)
            start = time.perf_counter()
            model = StructuredCRF(decode, tol=1e-2, solver=solver, n_jobs=threads, random_state=0)
            model.fit(list(X), Y)
            seconds, gap = time.perf_counter() - start, model.duality_gap_ / abs(model.objective_)
            rows.append([milliseconds, name, threads, decode.calls / n_samples, seconds, gap])
    return rows


# ---------------------------------------------------------------------- the rival
def perturbed(
    space: Space, X: Any, Y: Any, sigma: float, rate: float, draws: int, calls: int
) -> Any:
    """Weights after some calls of PyEPO's perturbed Fenchel-Young loss."""
    import torch
    from pyepo import EPO
    from pyepo.func import perturbedFenchelYoung
    from pyepo.model.opt import optModel

    class Model(optModel):
        modelSense = EPO.MAXIMIZE  # noqa: N815

        def _getModel(self) -> Any:  # noqa: N802
            return None, range(space.size)

        def setObj(self, c: Any) -> None:  # noqa: N802
            self.scores = np.asarray(c, dtype=np.float64)

        def solve(self) -> Any:
            found = space.decode(self.scores)
            return found, float(found @ self.scores)

    rng, loss = np.random.default_rng(0), perturbedFenchelYoung(Model(), draws, sigma, seed=0)
    features, labels = (torch.tensor(np.array(given), dtype=torch.float32) for given in (X, Y))
    theta = torch.zeros(K, requires_grad=True)
    adam = torch.optim.Adam([theta], lr=rate)
    for _ in range(calls // draws):
        m = rng.integers(len(X))
        adam.zero_grad()
        loss((features[m] @ theta)[None], labels[m][None]).backward()
        adam.step()
    return theta.detach().numpy().astype(np.float64)


def beside_rivals(space: Space, n_train: int, n_test: int, settings: Any) -> list[list[Any]]:
    """Test errors and log-likelihoods of weights that were learned with equal numbers of calls."""
    X, Y, truth = drawn(space, n_train + n_test, seed=1)
    outputs = None if space.outputs is None else space.outputs()
    test = list(zip(X[n_train:], Y[n_train:], strict=True))

    def judged(theta: Any) -> tuple[float, float | None]:
        """Coordinates predicted wrong, of those that are 1 in either, and log-likelihood."""
        pairs = [(space.decode(x @ theta), y) for x, y in test]
        error = np.mean([np.sum(a != b) / max(np.sum(a | b), 1) for a, b in pairs])
        if outputs is None:
            return float(error), None
        each = [y @ x @ theta - logsumexp(outputs @ (x @ theta)) for x, y in test]
        return float(error), float(np.mean(each))

    def learned(solver: Any) -> tuple[Any, int]:
        decode = Counted(space.decode)
        model = StructuredCRF(decode, tol=0.01, solver=solver, random_state=0)
        return model.fit(list(X[:n_train]), Y[:n_train]).coef_, decode.calls

    def row(how: str, calls: int | None, *found: tuple[float, float | None]) -> list[Any]:
        errors, values = zip(*found, strict=True)
        likely = [None] * 2 if values[0] is None else [max(values), np.median(values)]
        return [space.name, how, calls, min(errors), np.median(errors), *likely]

    coef, calls = learned(None)
    plain, own = learned(BlockFrankWolfe(max_iter=max(1, calls // n_train // 2)))
    rows = [row("weights that drew the labels", None, judged(truth)),
            row("fully corrective", calls, judged(coef)),
            row("block-coordinate", own, judged(plain))]  # fmt: skip
    if has("pyepo"):
        for allowed in (calls, 10 * calls):
            given = X[:n_train], Y[:n_train]
            found = [judged(perturbed(space, *given, *own, allowed)) for own in settings]
            rows.append(row("perturbed Fenchel-Young", allowed, *found))
    return rows


def run(quick: bool) -> None:
    many, few, small = (6, 3, ((4, 1e-4),)) if quick else (100, 30, ((15, 1e-4), (30, 1e-2)))
    rows = []
    for space in SPACES[:1] if quick else SPACES:
        rows += [of_decoder(space, many, how) for how in ("own", "shared")]
    rows.append(of_decoder(SUBSETS, many, "paper"))
    if not quick:
        more = SUBSETS._replace(name=f"{SUBSETS.name}, {4 * many} samples")
        rows.append(of_decoder(more, 4 * many, "shared"))
    for n, tol in small:
        rows += [of_matchings(n, few, how, tol) for how in ("own", "shared")]
    show(
        f"Calls of the decoder per sample to a relative gap, {many} samples (assignments {few}), "
        "and CPU seconds of the whole fit",
        ["outputs", "hulls", *[f"{tol:g}" for tol in TOLS], "outside the decoder", "inside"],
        rows,
    )
    show(
        "Learning subsets with a decoder that waits, to a relative gap of 0.01 or half a minute",
        ["ms a call", "solver", "threads", "calls a sample", "seconds", "relative gap"],
        slow(quick),
    )
    settings = list(product((0.3, 1.0, 3.0), (0.03, 0.1, 0.3), (1, 10)))[: 2 if quick else None]
    rows = []
    for space in SMALL[-1:] if quick else SMALL:
        rows += beside_rivals(space, 4 if quick else 20, 10 if quick else 200, settings)
    show(
        f"New samples, equal numbers of calls; the rival with the best of {len(settings)} settings",
        ["outputs", "weights", "calls", "error", "median setting", "log-likelihood",
         "median setting"],
        rows,
    )  # fmt: skip


main = command(__doc__, run)

if __name__ == "__main__":
    main()
