"""`GraphCRF`: learn to label the nodes of graphs from labelled ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._arrays import check_unmasked
from .._deadline import in_time
from ..features.graphs import edge_pairs, is_networkx, is_undirected, rows_of_nodes
from ..features.pairwise import MergedEdges
from ..features.rows import ConstantRows, DenseRows, FeatureRows, SparseRows
from ..learning.result import Progress
from ..structures.graphs.pairwise import PairwiseGraph, check_edges
from .pairwise import GraphSample, PairwiseEstimator
from .validation import check_finite

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
    rho : "auto", "uniform", float, or array of shape (n_edges,)
        Weights of the edges in the entropy. "uniform" (and "auto") takes the probability of each
        edge to be in a random spanning tree, which is 1 on trees; where that takes long, its share
        in 32 spanning trees that use the edges evenly. An array has an entry for each
        listed edge (of edges listed several times the first counts) and applies to every sample, a
        float applies to every edge; outside the spanning-tree polytope a warning says that
        concavity and bounds are lost.
    edge_weights : "full", "symmetric" or "potts"
        Whether each pair of states has weights of its own ("full"), those of (s, t) and (t, s) are
        the same, or there is one for all pairs of equal states and 0 for all others (Potts): fewer
        weights to learn where samples are few or states many. `edge_coef_` has all of them.
    solver : "auto", "lbfgs", "bcfw", "fw", or a solver object
        "fw" and "bcfw" need only MAP decoding; `learning.BlockFrankWolfe.paper()` is the
        algorithm as printed in the paper.
    tol : float
        Stop when the duality gap is at most tol * max(1, |objective|).
    max_iter : int
        Iterations (for "bcfw": passes over the samples).
    max_time : float, optional
        Seconds after which to stop, set-up included.
    n_states : int, optional
        The states are 0 .. n_states-1, whether they occur in Y or not; by default those that do.
    unknown : int, str or NaN, optional
        The label that means "not known", beside None. By default -1 where the other labels are
        0, 1, ... without a gap; a warning tells if that was assumed.
    missing : "drop" or "marginalise"
        What becomes of nodes without a label: left out of the likelihood, with their edges; or
        summed over, which learns from log Z(x, labels) - log Z(x) by rounds of certified fits that
        start from the first (`likelihood_path_` has its value after each).
    fit_intercept : bool
        Learn a constant for each state, unless a feature is constant already.
    standardize : bool
        Penalise the weights of standardised features: divided by their standard deviation, those of
        nodes also centred if there are constants. `coef_` is in the original units.
    feature_names : sequence of str, optional
        Names of the C node features.
    l1_ratio : float
        Share of the penalty on the absolute values of the weights, 0 to less than 1; then some
        weights are 0. The penalty is alpha * (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2).
    warm_start : bool
        Start from the previous fit of this object.
    callback : callable, optional
        Called with a `Progress` at every certificate; returning True stops.
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
    times add up.

    In place of edges there may be a symmetric SciPy adjacency matrix, whose values do not matter
    (edges are its entries above the diagonal, row by row), or a networkx graph: nodes in its order,
    or rows of a data frame by the names of its nodes. Undirected edges count in both directions.
    `mlestruct.features.networkx_sample` takes features and labels from attributes.

    Y holds for each sample an array (n_nodes,) of labels, integers or strings. Nodes whose label
    is `unknown` are left out of the likelihood together with their edges. Predictions cover all
    nodes. Unlabelled nodes should form contiguous parts: scattered ones thin
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
        solver: Any = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_time: float | None = None,
        n_states: int | None = None,
        unknown: Any = None,
        missing: str = "drop",
        fit_intercept: bool = True,
        standardize: bool = False,
        feature_names: Sequence[str] | None = None,
        l1_ratio: float = 0.0,
        warm_start: bool = False,
        callback: Callable[[Progress], Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        edge_weights: str = "full",
    ):
        self.alpha = alpha
        self.rho = rho
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.n_states = n_states
        self.unknown = unknown
        self.missing = missing
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.feature_names = feature_names
        self.l1_ratio = l1_ratio
        self.warm_start = warm_start
        self.callback = callback
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.edge_weights = edge_weights

    def _read(self, X: Sequence[Any]) -> list[GraphSample]:
        known: dict[int, tuple[PairwiseGraph, MergedEdges | None]] = {}
        listed = enumerate(in_time(X, "reading X"))
        return [_read_graph(x, f"X[{m}]", known) for m, x in listed]


def _read_graph(
    x: Any, where: str, known: dict[int, tuple[PairwiseGraph, MergedEdges | None]]
) -> GraphSample:
    """Validate one sample; samples with the same edges object share their graph."""
    if not isinstance(x, tuple | list) or len(x) not in (2, 3):
        found = f"{len(x)} parts" if isinstance(x, tuple | list) else type(x).__name__
        raise ValueError(
            f"{where}: expected a tuple (node_features, edges, edge_features), got {found}"
        )
    features = x[0]
    try:
        if is_networkx(x[1]) and hasattr(features, "loc"):
            features = rows_of_nodes(features, x[1])
        nodes = read_rows(features, f"{where}: node_features")
        key = id(x[1])
        shared = key in known and known[key][0].n_nodes == len(nodes)
        listed = x[1] if shared else edge_pairs(x[1], len(nodes))
        both_ways = is_undirected(x[1])  # then no direction may have weights of its own
        if both_ways and not shared:
            listed = np.concatenate([listed, listed[:, ::-1]])
    except ValueError as error:
        raise ValueError(str(error) if where in str(error) else f"{where}: {error}") from None
    n_nodes = len(nodes)
    if n_nodes == 0:
        raise ValueError(f"{where}: node_features has no rows; a graph needs at least one node")
    if not shared:
        known[key] = _merge(n_nodes, check_edges(listed, n_nodes, f"{where}: edges"))
    graph, merged = known[key]
    n_listed = graph.n_edges if merged is None else merged.edge.shape[0]
    edge_features = x[2] if len(x) == 3 else None
    first = None if merged is None else np.unique(merged.edge, return_index=True)[1]
    if edge_features is None:
        rows = ConstantRows(n_listed)
        return GraphSample(
            graph, nodes, rows, (n_nodes,), None, merged, first, n_listed, undirected=both_ways
        )
    edges = read_rows(edge_features, f"{where}: edge_features")
    n_given = n_listed // 2 if both_ways else n_listed
    if len(edges) != n_given:
        raise ValueError(
            f"{where}: edge_features has {len(edges)} rows, but there are {n_given} edges"
        )
    if both_ways:
        edges = edges.take(np.tile(np.arange(n_given), 2))
    size = edges.n_features
    return GraphSample(
        graph, nodes, edges, (n_nodes,), size, merged, first, n_listed, undirected=both_ways
    )


def _merge(n_nodes: int, pairs: Ints) -> tuple[PairwiseGraph, MergedEdges | None]:
    """The graph of listed edges; those listed several times become one."""
    low, high = pairs.min(axis=1, initial=n_nodes), pairs.max(axis=1, initial=-1)
    _, first, edge = np.unique(low * n_nodes + high, return_index=True, return_inverse=True)
    if first.shape[0] == pairs.shape[0]:
        return PairwiseGraph(n_nodes, pairs), None
    kept = pairs[first]
    flipped = kept[edge, 0] != pairs[:, 0]
    return PairwiseGraph(n_nodes, kept), MergedEdges(edge.astype(np.int64), flipped)


def read_rows(features: Any, where: str) -> FeatureRows:
    """Features of nodes or edges as rows: a 2-D array, a SciPy sparse matrix, or rows already."""
    if isinstance(features, FeatureRows):
        return features
    if sparse.issparse(features):
        if features.dtype.kind not in "fiub":
            raise ValueError(f"{where}: expected numbers, got dtype {features.dtype}")
        check_finite(features.data, where)
        return SparseRows(features)
    check_unmasked(features, where)
    array = np.asarray(features)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{where}: expected numbers, got dtype {array.dtype}")
    if array.ndim != 2:
        raise ValueError(f"{where}: expected 2 dimensions, got shape {array.shape}")
    check_finite(array, where)
    return DenseRows(array)
