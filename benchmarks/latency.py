"""Milliseconds for one sample: `predict` and `predict_marginals` of every estimator after fitting.

    python -m benchmarks.latency [--quick]

CPU milliseconds of a call with one sample, the least of several after a warm-up, beside the call of
a rival for the same sample: python-crfsuite's tagger for sequences (marginals: of all tokens and
labels), SciPy's `linear_sum_assignment` for assignments, thinqpbo and PyMaxflow for the scores of
an image with two states, scikit-learn's classifier chain for label sets. All rivals but crfsuite's
tagger and the classifier chain are given scores, and only find the best output.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import ClassifierChain

from benchmarks.chains import crfsuite_trainer
from benchmarks.measuring import (
    assignments,
    candidate_pairs,
    command,
    groups,
    has,
    images,
    least,
    pair_input,
    random_edges,
    sentences,
    show,
)
from mlestruct import (
    BipartiteMatchingCRF,
    ChainCRF,
    GraphCRF,
    GridCRF,
    IsingMRF,
    MatchingCRF,
    MultiLabelCRF,
    StructuredCRF,
)

Rivals = dict[str, tuple[Callable[[], Any], Callable[[], Any] | None]]


def crfsuite(X: Any, Y: Any) -> Rivals:
    if not has("pycrfsuite", "python-crfsuite"):
        return {}
    import pycrfsuite

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model")
        crfsuite_trainer(X, Y, 1.0).train(path)
        tagger = pycrfsuite.Tagger()
        tagger.open(path)  # reads the whole file

    def marginals() -> None:
        tagger.set(X[0])
        for label in tagger.labels():
            for t in range(len(X[0])):
                tagger.marginal(label, t)

    return {"python-crfsuite": (lambda: tagger.tag(X[0]), marginals)}


def minimum_cuts(scores: Any, bonus: float) -> Rivals:
    """Two states: a minimum cut, with a bonus for equal neighbours."""
    odds = scores[:, :, 1] - scores[:, :, 0]
    nodes = np.arange(odds.size).reshape(odds.shape)
    ends = [(nodes[:, :-1], nodes[:, 1:]), (nodes[:-1], nodes[1:])]
    pairs = np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in ends])

    def by_maxflow() -> None:
        import maxflow

        flow = maxflow.GraphFloat()
        grid = flow.add_grid_nodes(odds.shape)
        flow.add_grid_edges(grid, bonus)
        flow.add_grid_tedges(grid, np.maximum(odds, 0), np.maximum(-odds, 0))
        flow.maxflow()
        flow.get_grid_segments(grid)

    def by_qpbo() -> None:
        import thinqpbo

        solver = thinqpbo.QPBODouble(odds.size, len(pairs))
        solver.add_node(odds.size)
        for i, score in enumerate(odds.ravel().tolist()):
            solver.add_unary_term(i, 0.0, -score)
        for i, j in pairs.tolist():
            solver.add_pairwise_term(i, j, 0.0, bonus, bonus, 0.0)
        solver.solve()

    packages = {"PyMaxflow": ("maxflow", by_maxflow), "thinqpbo": ("thinqpbo", by_qpbo)}
    return {name: (call, None) for name, (module, call) in packages.items() if has(module, name)}


def best_tenth(scores: Any) -> Any:
    chosen = np.zeros(scores.size, dtype=np.int64)
    chosen[np.argsort(-scores)[: scores.size // 10]] = 1
    return chosen


def cases(quick: bool) -> Any:
    """Name, fitted model, one sample as a list, and rivals."""
    side = 12 if quick else 50
    X, Y = assignments(5, 30)
    model: Any = BipartiteMatchingCRF().fit(X, Y)
    scipy: Rivals = {"SciPy": (lambda: linear_sum_assignment(X[0] @ model.coef_, True), None)}
    yield "assignment, 30 x 30", model, X[:1], scipy
    n = 50 if quick else 500
    row, col, features, partner = candidate_pairs(n)
    pairs = [pair_input(row, col, features, (n, n))]
    yield (
        f"{row.size:,} candidate pairs",
        BipartiteMatchingCRF(perfect=False).fit(pairs, [partner]),
        pairs,
        {},
    )
    X, Y = groups(5, 20)
    yield "pairs of 20", MatchingCRF().fit(X, Y), X[:1], {}
    for n_states in (2, 3):
        X, Y = images(3, side, n_states)
        model = GridCRF().fit(X, Y)
        rivals = minimum_cuts(np.asarray(X[0]), 1.0) if n_states == 2 else {}
        yield f"image, {side} x {side}, {n_states} states", model, X[:1], rivals
    n = 60 if quick else 1_000
    edges, rng = random_edges(n, np.random.default_rng(0)), np.random.default_rng(1)
    y = rng.integers(2, size=n)
    graph = [(rng.normal(size=(n, 3)) + y[:, None], edges)]
    yield f"graph, {n:,} nodes", GraphCRF().fit(graph, [y]), graph, {}
    X, Y = sentences(100)
    yield f"sequence, {len(X[0])} tokens of strings", ChainCRF().fit(X, Y), X[:1], crfsuite(X, Y)
    X, Y = make_multilabel_classification(200, 20, n_classes=8, random_state=0)
    chain = ClassifierChain(LogisticRegression(max_iter=1000)).fit(X, Y)
    calls = (lambda: chain.predict(X[:1]), lambda: chain.predict_proba(X[:1]))
    yield "8 labels", MultiLabelCRF().fit(X, Y), X[:1], {"classifier chain": calls}
    states = (np.random.default_rng(0).random((500, 20)) < 0.3).astype(int)
    states[:, 1::2] |= states[:, ::2]
    half = np.where(np.arange(20) % 2 == 0, states[:1], -1)
    yield "20 variables, half unknown", IsingMRF().fit(states), half, {}
    X = list(np.random.default_rng(0).normal(size=(10, 40, 4)))
    Y = [best_tenth(x[:, 0]) for x in X]
    yield (
        "own decoder, 4 of 40",
        StructuredCRF(best_tenth, tol=0.05, random_state=0).fit(X, Y),
        X[:1],
        {},
    )


def run(quick: bool) -> None:
    rows = []
    for name, model, sample, rivals in cases(quick):
        repeat = 3 if quick else 30
        predict = None if isinstance(model, IsingMRF) else model.predict
        marginals = getattr(model, "predict_marginals", None) or model.predict_proba
        ours = [1e3 * least(lambda: ask(sample), repeat) if ask else None  # noqa: B023
                for ask in (predict, marginals)]  # fmt: skip
        for rival, calls in (rivals or {"": (None, None)}).items():
            theirs = [1e3 * least(call, repeat) if call else None for call in calls]
            ratios = [b / a if a and b else None for a, b in zip(ours, theirs, strict=True)]
            rows.append([name, type(model).__name__, *ours, rival, *ratios])
    show(
        "One sample: CPU milliseconds, and how many times as long the rival takes",
        ["sample", "estimator", "`predict`", "`predict_marginals`", "rival", "`predict`: times",
         "marginals: times"],
        rows,
    )  # fmt: skip


main = command(__doc__, run)

if __name__ == "__main__":
    main()
