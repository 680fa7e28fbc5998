"""Which entropy for outputs that only a decoder describes.

    python -m benchmarks.entropies
    python -m benchmarks.record entropies    # the table of docs/decoders.md

Samples are drawn exactly from a known model over subsets, spanning trees, assignments and paths.
Each entropy learns from the same samples, by decoding alone. Judged on new samples, a sample: the
exact log-likelihood of the learned weights, the log loss of the predicted marginals, and the
distance of those from the exact marginals of the same weights. Exact maximum likelihood is the
reference.
"""

from __future__ import annotations

import argparse
import warnings
from time import process_time
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.record import show
from mlestruct import StructuredCRF
from mlestruct.baselines import ExactMLE
from mlestruct.structures import (
    BipartiteMatching,
    Paths,
    SeparableEntropy,
    SpanningTrees,
    Subsets,
    coordinate_entropy,
    factor_entropy,
)
from mlestruct.structures.decoder import DecoderSpace

TRUTH = np.array([1.5, -1.0, 0.5])
TRAIN, TEST = 40, 100


class Assignments(DecoderSpace):
    """Assignments of n to n, as 0/1 vectors, with exact counting."""

    def __init__(self, n: int, entropy: Any = None):
        self._matching = BipartiteMatching((n, n))
        super().__init__(self._best, n * n, entropy=entropy)

    def _best(self, scores: Any) -> Any:
        return self._matching.decode(scores).vertex

    def exact(self, scores: Any) -> Any:
        return _Vectors(self._matching, scores)


class _Vectors:
    """The exact distribution of a matching, with 0/1 vectors as samples."""

    def __init__(self, known: BipartiteMatching, scores: Any):
        self._known, self._exact = known, known.exact(scores)
        self.log_partition, self.tau = self._exact.log_partition, self._exact.tau

    def sample(self, n_samples: int, rng: np.random.Generator) -> Any:
        labels = self._exact.sample(n_samples, rng)
        n = self._known.n_coordinates
        return np.array([self._known.encode(label).dense(n) for label in labels], dtype=np.int64)


def unpaired(n: int) -> SeparableEntropy:
    """H = - sum of tau log tau, without the complement of each coordinate."""
    return SeparableEntropy(np.ones(n), np.zeros(n))


def rows_and_columns(n: int) -> tuple[list[Any], list[Any]]:
    table = np.arange(n * n).reshape(n, n)
    return list(table), list(table.T)


def grid_edges(n: int) -> Any:
    """Edges to the right and down between n x n nodes."""
    nodes = np.arange(n * n).reshape(n, n)
    right = np.stack([nodes[:, :-1].ravel(), nodes[:, 1:].ravel()], axis=1)
    return np.concatenate([right, np.stack([nodes[:-1].ravel(), nodes[1:].ravel()], axis=1)])


def spaces() -> dict[str, dict[str, Any]]:
    """Output spaces under each entropy; the default first."""
    rows, columns = rows_and_columns(5)
    edges = grid_edges(5)
    return {
        "3 of 10 items": {
            "coordinates": Subsets(10, 3),
            "- sum tau log tau": Subsets(10, 3, unpaired(10)),
        },
        "spanning trees of 6 nodes": {
            "coordinates": SpanningTrees(6),
            "- sum tau log tau": SpanningTrees(6, entropy=unpaired(15)),
        },
        "assignments of 5 to 5": {
            "coordinates": Assignments(5),
            "- sum tau log tau: rows are one-of-5 groups": Assignments(5, factor_entropy(25, rows)),
            "Bethe: rows and columns with c = 1, d = -1": Assignments(
                5, factor_entropy(25, rows + columns, 1.0, coordinates=-1.0)
            ),
        },
        "monotone paths, 5 x 5 grid": {
            "coordinates": Paths(edges, 0, 24, coordinate_entropy(len(edges))),
            "- sum tau log tau": Paths(edges, 0, 24, unpaired(len(edges))),
        },
    }


def log_loss(tau: Any, labels: Any) -> float:
    """Mean over samples of the summed log loss of all coordinates."""
    chance = np.clip(np.where(np.array(labels) == 1, tau, 1.0 - np.array(tau)), 1e-12, 1.0)
    return float(-np.log(chance).sum(axis=1).mean())


def judge(model: Any, space: Any, X: Any, Y: Any, marginals: Any) -> list[float]:
    """Exact log-likelihood, log loss of marginals, distance from the exact ones."""
    exact = [space.exact(x @ model.coef_) for x in X]
    pairs = zip(X, Y, exact, strict=True)
    likelihood = np.mean([y @ x @ model.coef_ - e.log_partition for x, y, e in pairs])
    tau = [e.tau for e in exact] if marginals is None else marginals
    distance = np.mean([np.abs(t - e.tau).mean() for t, e in zip(tau, exact, strict=True)])
    return [float(likelihood), log_loss(tau, Y), float(distance)]


def run(name: str, entropies: dict[str, Any], seed: int, tol: float) -> dict[str, list[float]]:
    """What each entropy reaches on one draw of samples."""
    rng = np.random.default_rng(seed)
    space = next(iter(entropies.values()))
    X = [rng.normal(size=(space.n_coordinates, 3)) for _ in range(TRAIN + TEST)]
    Y = [space.exact(x @ TRUTH).sample(1, rng)[0] for x in X]
    new = X[TRAIN:], Y[TRAIN:]
    out = {}
    for kind, candidate in entropies.items():
        start = process_time()
        model = StructuredCRF(structure=candidate, tol=tol, random_state=0)
        model.fit(X[:TRAIN], Y[:TRAIN])
        tau = model.predict_marginals(new[0], tol=1e-2)
        out[kind] = [*judge(model, space, *new, tau), process_time() - start]
    start = process_time()
    best = ExactMLE(StructuredCRF(structure=space, tol=1e-6)).fit(X[:TRAIN], Y[:TRAIN])
    out["exact likelihood"] = [*judge(best, space, *new, None), process_time() - start]
    return out


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tol", type=float, default=0.01)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", ConvergenceWarning)
    rows = []
    for name, entropies in spaces().items():
        runs = [run(name, entropies, seed, options.tol) for seed in range(options.repeats)]
        for kind in runs[0]:
            rows.append([name, kind, *np.mean([each[kind] for each in runs], axis=0)])
    show(
        f"{TRAIN} samples to learn from, {TEST} new ones, means of {options.repeats} draws",
        ["outputs", "entropy", "log-likelihood", "log loss", "distance", "CPU s"],
        rows,
    )


if __name__ == "__main__":
    main()
