"""Labelling images and graphs: `GridCRF` and `GraphCRF` beside logistic regression.

    python -m benchmarks.grids [--quick]

Images have patches of equal labels, *geometric* graphs join points that are close, *random* graphs
have no small separators; two to six states. Every model learns from one image or graph and is
tested on another. The rivals, with scikit-learn's defaults, label each node from its own features,
or from its own features and the means over its neighbours.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.spatial import cKDTree
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from benchmarks.measuring import command, images, random_edges, show, timed
from mlestruct import GraphCRF, GridCRF

ATTRACTION = {"image": 0.0, "geometric": 0.7, "random": 0.3}  # in graphs: all states stay frequent


def lattice(side: int) -> Any:
    """Edges between neighbouring pixels."""
    nodes = np.arange(side * side).reshape(side, side)
    ends = [(nodes[:, :-1], nodes[:, 1:]), (nodes[:-1], nodes[1:])]
    return np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in ends])


def geometric_edges(n_nodes: int, rng: np.random.Generator) -> Any:
    """Points of the unit square, joined within a distance at which there are 6 others."""
    tree = cKDTree(rng.random((n_nodes, 2)))
    return tree.query_pairs(np.sqrt(6.0 / (np.pi * n_nodes)), output_type="ndarray")


def labelled_graph(
    edges: Any, n_nodes: int, n_states: int, attraction: float, rng: np.random.Generator
) -> Any:
    """Features and labels; states by Gibbs sampling with attraction between neighbours."""
    links = neighbours(edges, n_nodes)
    y = rng.integers(n_states, size=n_nodes)
    for _ in range(60):  # half of the nodes at a time
        noisy = attraction * (links @ np.eye(n_states)[y]) + rng.gumbel(size=(n_nodes, n_states))
        y = np.where(rng.random(n_nodes) < 0.5, noisy.argmax(axis=1), y)
    return np.eye(n_states)[y] + rng.normal(size=(n_nodes, n_states)), y


def neighbours(edges: Any, n_nodes: int) -> Any:
    """The adjacency matrix."""
    half = coo_array((np.ones(len(edges)), tuple(edges.T)), shape=(n_nodes, n_nodes)).tocsr()
    return half + half.T


def draw(kind: str, size: int, n_states: int, seed: int) -> tuple[Any, Any, Any, Any]:
    """A sample of the estimator, its labels; nodes' features and edges for the rivals."""
    if kind == "image":
        (x,), (y,) = images(1, size, n_states, seed)
        return x, y, x.reshape(-1, n_states), lattice(size)
    rng = np.random.default_rng(seed)
    edges = (geometric_edges if kind == "geometric" else random_edges)(size, rng)
    x, y = labelled_graph(edges, size, n_states, ATTRACTION[kind], rng)
    return (x, edges), y, x, edges


def with_means(x: Any, edges: Any) -> Any:
    """Features of the node, and their means over its neighbours."""
    links = neighbours(edges, len(x))
    return np.hstack([x, links @ x / np.maximum(links.sum(axis=1), 1)[:, None]])


def compare(kind: str, size: int, n_states: int) -> list[Any]:
    """A row of the table."""
    x, y, nodes, edges = draw(kind, size, n_states, 0)
    new, truth, new_nodes, new_edges = draw(kind, size, n_states, 1)
    truth = truth.ravel()
    make = GridCRF if kind == "image" else GraphCRF
    seconds, model = timed(lambda: make().fit([x], [y]))
    labels = np.ravel(model.predict([new])[0])
    tables = np.reshape(model.predict_marginals([new])[0], (-1, n_states))
    errors, losses = [np.mean(labels != truth)], [log_loss(truth, tables)]
    rivals = []
    for own, other in (
        (nodes, new_nodes),
        (with_means(nodes, edges), with_means(new_nodes, new_edges)),
    ):
        spent, rival = timed(lambda: LogisticRegression().fit(own, y.ravel()))  # noqa: B023
        rivals.append(spent)
        errors.append(np.mean(rival.predict(other) != truth))
        losses.append(log_loss(truth, rival.predict_proba(other)))
    return [kind, truth.size, n_states, *map(float, errors), *losses, seconds, seconds / rivals[1]]


def run(quick: bool) -> None:
    cases = [("image", 12, 2), ("random", 60, 3)] if quick else [
        *(("image", 240, s) for s in (2, 3, 6)),
        *((kind, n, 2) for kind in ("geometric", "random") for n in (1_000, 10_000, 100_000)),
        *((kind, 6_400, s) for kind in ("geometric", "random") for s in (3, 6)),
    ]  # fmt: skip
    for kind in ATTRACTION:
        for n_states in (2, 3):
            compare(kind, 12 if kind == "image" else 60 if quick else 1_000, n_states)  # compiles
    sides = ("CRF", "own features", "with means")
    show(
        "Another image or graph, labelled by a CRF fitted to a relative gap of 1e-3 and by "
        "logistic regression on a node's own features, or with means over its neighbours",
        ["", "nodes", "states", *(f"{what}: {side}" for what in ("error", "log loss") for side in
         sides), "CPU s of the CRF's fit", "beside logistic with means = 1"],
        [compare(*case) for case in cases],
    )  # fmt: skip


main = command(__doc__, run)

if __name__ == "__main__":
    main()
