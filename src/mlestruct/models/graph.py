"""`GraphCRF`: learn to label the nodes of graphs from labelled ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._deadline import in_time
from ..features.labellings import MergedEdges
from ..features.rows import Rows
from ..structures.graphs.pairwise import PairwiseGraph, check_edges
from .pairwise import GraphSample, PairwiseEstimator, read_rows

Ints = NDArray[np.int64]


class GraphCRF(PairwiseEstimator):
    """Conditional random field over labellings of graphs.

    p(y | x) is proportional to exp(sum over nodes n of <F[y_n], u_n> + sum over edges (i, j) of
    <G[y_i, y_j], v_ij>). The weights maximise the approximate log-likelihood (tree-reweighted
    entropy on the local polytope; exact on trees) of the observed labellings minus
    alpha/2 |weights|^2, with a duality-gap certificate.

    Parameters
    ----------
    alpha : float
        Regularisation, on the summed log-likelihood (the paper's lambda).
    rho : "auto", float, or array of shape (n_edges,)
        Weights of the edges in the entropy. "auto" takes the share of each edge in 32 spanning
        trees that use the edges evenly, which is 1 on trees. An array has an entry for each
        listed edge (of edges listed several times the first counts) and applies to every sample, a
        float applies to every edge; outside the spanning-tree polytope a warning says that
        concavity and bounds are lost.
    edge_weights : "full", "symmetric" or "potts"
        Whether each pair of states has weights of its own ("full"), those of (s, t) and (t, s) are
        the same, or there is one for all pairs of equal states and 0 for all others (Potts): fewer
        weights to learn from few samples or for many states. `edge_coef_` has all of them.
    fit_intercept : bool
        Learn a constant for each state, unless a feature is constant already.
    standardize : bool
        Penalise the weights of standardised features: divided by their standard deviation, those of
        nodes also centred if there are constants. `coef_` is in the original units.
    l1_ratio : float
        Share of the penalty on the absolute values of the weights, 0 to less than 1; then some
        weights are 0. The penalty is alpha * (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2).
    tol : float
        Stop when the duality gap is at most tol * max(1, |objective|).
    max_iter : int
    solver : solver object, optional
        `LBFGS()` by default; `FrankWolfe()` and `BlockFrankWolfe()` need only MAP decoding. Budgets
        in seconds and callbacks are options of the solver.
    n_jobs : int, optional
        Threads over samples.
    random_state : int, RandomState, Generator or None
    verbose : int
        1 shows a progress bar with the gap.

    Attributes
    ----------
    node_coef_ : ndarray of shape (n_states, C)
    edge_coef_ : ndarray of shape (n_states, n_states, D), tail state first
    coef_ : both in a row
    classes_ : ndarray of shape (n_states,), the label of each state
    objective_ : float, an upper bound of the best attainable value of the (regularised,
        approximate) log-likelihood
    duality_gap_ : float, absolute: coef_ is within it of that best value
    converged_ : bool
    history_ : History with seconds, oracle_calls, dual, primal, gap, fw_gap; `.to_frame()`
    n_iter_, n_oracle_calls_, solver_, n_features_in_, feature_names_in_

    Notes
    -----
    X is a sequence of samples, each a tuple (node_features, edges, edge_features): arrays of shape
    (n_nodes, C), (n_edges, 2) and (n_edges, D), as in PyStruct's EdgeFeatureGraphCRF. Node
    features may be SciPy sparse or a data frame. Without edge_features (None, or a pair) the only
    edge feature is the constant 1. Edges are ordered pairs: a -> b and b -> a are different weights
    unless `edge_weights` ties them or you list edges in both directions; edges listed several
    times add up. `np.stack(adjacency.nonzero(), axis=1)` lists the edges of a symmetric matrix in
    both directions.

    Y holds for each sample an array (n_nodes,) of labels, integers or strings. Nodes whose label
    is None or NaN are left out of the likelihood together with their edges (see `fit`). Predictions
    cover all nodes. Unlabelled nodes should form contiguous parts: scattered ones thin
    out the graph that is learned from, and its weights smooth too much on the whole one.

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct import GraphCRF
    >>> rng = np.random.default_rng(0)
    >>> ring = np.stack([np.arange(12), (np.arange(12) + 1) % 12], axis=1)
    >>> Y = [np.repeat(rng.integers(2, size=4), 3) for _ in range(40)]
    >>> X = [(np.eye(2)[y] + 0.6 * rng.normal(size=(12, 2)), ring) for y in Y]
    >>> model = GraphCRF(alpha=1.0).fit(X, Y)
    >>> bool(model.converged_), model.edge_coef_.shape
    (True, (2, 2, 1))
    >>> model.score(X, Y) > 0.85
    True
    """

    def __init__(
        self,
        alpha: float = 1.0,
        rho: Any = "auto",
        edge_weights: str = "full",
        fit_intercept: bool = True,
        standardize: bool = False,
        l1_ratio: float = 0.0,
        tol: float = 1e-3,
        max_iter: int = 1000,
        solver: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.alpha = alpha
        self.rho = rho
        self.edge_weights = edge_weights
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.l1_ratio = l1_ratio
        self.tol = tol
        self.max_iter = max_iter
        self.solver = solver
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _read(self, X: Sequence[Any]) -> list[GraphSample]:
        known: dict[tuple[int, int], tuple[PairwiseGraph, MergedEdges | None]] = {}
        listed = enumerate(in_time(X, "reading X"))
        return [_read_graph(x, f"X[{m}]", known) for m, x in listed]


def _read_graph(
    x: Any, where: str, known: dict[tuple[int, int], tuple[PairwiseGraph, MergedEdges | None]]
) -> GraphSample:
    """Validate one sample; samples with the same edges object share their graph."""
    if not isinstance(x, tuple | list) or len(x) not in (2, 3):
        found = f"{len(x)} parts" if isinstance(x, tuple | list) else type(x).__name__
        raise ValueError(
            f"{where}: expected a tuple (node_features, edges, edge_features), got {found}"
        )
    nodes = read_rows(x[0], f"{where}: node_features")
    n_nodes = len(nodes)
    if n_nodes == 0:
        raise ValueError(f"{where}: node_features has no rows; a graph needs at least one node")
    key = id(x[1]), n_nodes
    if key not in known:
        known[key] = _merge(n_nodes, _read_edges(x[1], n_nodes, f"{where}: edges"))
    graph, merged = known[key]
    n_listed = graph.n_edges if merged is None else merged.edge.shape[0]
    edges, size = Rows.ones(n_listed), None
    if len(x) == 3 and x[2] is not None:
        edges = read_rows(x[2], f"{where}: edge_features")
        size = edges.n_features
    if len(edges) != n_listed:
        raise ValueError(
            f"{where}: edge_features has {len(edges)} rows, but there are {n_listed} edges"
        )
    first = None if merged is None else np.unique(merged.edge, return_index=True)[1]
    return GraphSample(graph, nodes, edges, (n_nodes,), size, n_listed, merged, first)


def _read_edges(given: Any, n_nodes: int, name: str) -> Ints:
    """Listed edges, shape (n_edges, 2)."""
    if sparse.issparse(given) or hasattr(given, "adj"):
        raise ValueError(
            f"{name}: expected an array (n_edges, 2), got {type(given).__name__}. List edges in "
            "both directions: np.stack(adjacency.nonzero(), axis=1)"
        )
    try:
        return check_edges(given, n_nodes, name)
    except ValueError as error:  # rows of different lengths have no name yet
        raise ValueError(str(error) if name in str(error) else f"{name}: {error}") from None


def _merge(n_nodes: int, pairs: Ints) -> tuple[PairwiseGraph, MergedEdges | None]:
    """The graph of listed edges; those listed several times become one."""
    low, high = pairs.min(axis=1, initial=n_nodes), pairs.max(axis=1, initial=-1)
    _, first, edge = np.unique(low * n_nodes + high, return_index=True, return_inverse=True)
    if first.shape[0] == pairs.shape[0]:
        return PairwiseGraph(n_nodes, pairs), None
    kept = pairs[first]
    flipped = kept[edge, 0] != pairs[:, 0]
    return PairwiseGraph(n_nodes, kept), MergedEdges(edge.astype(np.int64), flipped)
