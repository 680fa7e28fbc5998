"""Tiny samples of every output space: outputs enumerated, features added up by hand."""

from dataclasses import dataclass, field
from itertools import permutations, product
from typing import Any

import highspy
import numpy as np

from mlestruct import BipartiteMatchingCRF, ChainCRF, GraphCRF, GridCRF, MatchingCRF

GROUP_OF_FOUR = [np.array(p) for p in ([1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0])]


@dataclass
class Samples:
    """X and Y, all outputs that a sample has, and its features as a function of an output."""

    kind: type  # of estimator
    X: list[Any]
    Y: list[Any]
    outputs: list[Any]
    features: Any  # (x, y) -> vector
    options: dict[str, Any] = field(default_factory=dict)  # of the estimator
    graph: tuple[int, list[tuple[int, int]], int] | None = None  # nodes, edges, states
    scores: Any = None  # x -> matrix from weights to overcomplete node and edge scores

    def estimator(self, **options):
        """An estimator over this output space."""
        return self.kind(**{"fit_intercept": False, **self.options, **options})

    def hinge(self, theta, alpha, weights=None):
        """The regularised hinge loss, by enumeration."""
        weights = np.ones(len(self.X)) if weights is None else weights
        total = 0.5 * alpha * theta @ theta
        for x, y, w in zip(self.X, self.Y, weights, strict=True):
            own = theta @ self.features(x, y)
            total += w * max(
                np.mean(other != y) + theta @ self.features(x, other) - own
                for other in self.outputs
            )
        return total

    def differences(self):
        """Features of the observed minus those of every other output, and the share wrong."""
        found = []
        for m, (x, y) in enumerate(zip(self.X, self.Y, strict=True)):
            for other in self.outputs:
                if not np.array_equal(other, y):
                    change = self.features(x, y) - self.features(x, other)
                    found.append((m, change, float(np.mean(other != y))))
        return found


def one_hot_features(nodes, edges, edge_features, n_states):
    """A function from states to the features of a labelling, laid out as `coef_`."""

    def features(states):
        u = np.zeros((n_states, nodes.shape[1]))
        v = np.zeros((n_states, n_states, edge_features.shape[1]))
        for n, state in enumerate(states):
            u[state] += nodes[n]
        for (a, b), row in zip(edges, edge_features, strict=True):
            v[states[a], states[b]] += row
        return np.concatenate([u.ravel(), v.ravel()])

    return features


def score_matrix(nodes, edges, edge_features, n_states):
    """The matrix from `coef_` to scores of all node states, then of all pairs of states."""
    n_node_weights = n_states * nodes.shape[1]
    width = n_node_weights + n_states**2 * edge_features.shape[1]
    out = np.zeros((len(nodes) * n_states + len(edges) * n_states**2, width))
    for n, row in enumerate(nodes):
        for s in range(n_states):
            out[n * n_states + s, s * len(row) : (s + 1) * len(row)] = row
    first = len(nodes) * n_states
    for e, row in enumerate(edge_features):
        for pair in range(n_states**2):
            at = n_node_weights + pair * len(row)
            out[first + e * n_states**2 + pair, at : at + len(row)] = row
    return out


def labelling_samples(kind, rng, n_samples, split, shape, edges, n_states):
    """Samples over one graph; `split` turns an x into node features and edge features."""
    n_nodes = int(np.prod(shape))
    outputs = [np.array(s).reshape(shape) for s in product(range(n_states), repeat=n_nodes)]
    X, Y = [], []
    for m in range(n_samples):
        y = rng.integers(n_states, size=shape)
        if m < 2:  # all states occur, also in halves of the samples
            y.flat[:n_states] = np.arange(n_states)
        X.append(split(np.eye(n_states)[y] + 0.8 * rng.normal(size=(*shape, n_states))))
        Y.append(y)

    def parts(x):
        nodes = x[0] if isinstance(x, tuple) else x
        return nodes.reshape(n_nodes, -1), edges, np.ones((len(edges), 1)), n_states

    return Samples(
        kind,
        X,
        Y,
        outputs,
        lambda x, y: one_hot_features(*parts(x))(np.ravel(y)),
        {},
        (n_nodes, edges, n_states),
        lambda x: score_matrix(*parts(x)),
    )


def bipartite(rng, n_samples=4):
    X = [rng.normal(size=(3, 3, 2)) for _ in range(n_samples)]
    outputs = [np.array(p) for p in permutations(range(3))]
    Y = [outputs[k] for k in rng.integers(len(outputs), size=n_samples)]
    return Samples(BipartiteMatchingCRF, X, Y, outputs, lambda x, y: x[np.arange(3), y].sum(axis=0))


def group(rng, n_samples=4):
    X = [x + x.swapaxes(0, 1) for x in rng.normal(size=(n_samples, 4, 4, 2))]
    Y = [GROUP_OF_FOUR[k] for k in rng.integers(3, size=n_samples)]
    return Samples(
        MatchingCRF, X, Y, GROUP_OF_FOUR, lambda x, y: x[np.arange(4), y].sum(axis=0) / 2,
        {"polytope": "exact"},
    )  # fmt: skip


def grid(rng, n_samples=4):
    edges = [(0, 1), (2, 3), (0, 2), (1, 3)]  # right, then down
    return labelling_samples(GridCRF, rng, n_samples, lambda x: x, (2, 2), edges, 2)


def triangle(rng, n_samples=3):
    edges = [(0, 1), (1, 2), (2, 0)]
    given = np.array(edges)
    return labelling_samples(GraphCRF, rng, n_samples, lambda x: (x, given), (3,), edges, 3)


def tree(rng, n_samples=3):
    edges = [(0, 1), (2, 0)]
    given = np.array(edges)
    return labelling_samples(GraphCRF, rng, n_samples, lambda x: (x, given), (3,), edges, 3)


def chain(rng, n_samples=4):
    edges = [(0, 1), (1, 2)]
    return labelling_samples(ChainCRF, rng, n_samples, lambda x: x, (3,), edges, 2)


SPACES = {
    space.__name__: space for space in (bipartite, group, grid, triangle, tree, chain)
}  # by name


def samples_of(name, seed=0, **options):
    return SPACES[name](np.random.default_rng(seed), **options)


def quadratic_program(curvature, cost, matrix, lower):
    """min 1/2 sum curvature z^2 + cost z  subject to  matrix z >= lower, by HiGHS."""
    n = cost.shape[0]
    model = highspy.HighsModel()
    lp, hessian = model.lp_, model.hessian_
    lp.num_col_, lp.num_row_ = n, matrix.shape[0]
    lp.col_cost_ = cost
    lp.col_lower_ = np.full(n, -highspy.kHighsInf)
    lp.col_upper_ = np.full(n, highspy.kHighsInf)
    lp.row_lower_ = lower
    lp.row_upper_ = np.full(matrix.shape[0], highspy.kHighsInf)
    rows, columns = np.nonzero(matrix)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = np.searchsorted(rows, np.arange(matrix.shape[0] + 1))
    lp.a_matrix_.index_ = columns
    lp.a_matrix_.value_ = matrix[rows, columns]
    hessian.dim_ = n
    hessian.format_ = highspy.HessianFormat.kTriangular
    (curved,) = np.nonzero(curvature)
    hessian.start_ = np.searchsorted(curved, np.arange(n + 1))
    hessian.index_ = curved
    hessian.value_ = curvature[curved]
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.passModel(model)
    highs.run()
    assert highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return np.array(highs.getSolution().col_value), highs.getInfo().objective_function_value
