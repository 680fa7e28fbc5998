"""`GraphCRF`, and the code that it shares with `GridCRF`: samples over graphs become blocks."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from .._arguments import check_samples, check_unmasked
from .._running import in_time
from ..features.labellings import StateFeatures, edge_ties
from ..features.rows import Rows, check_finite
from ..learning.problem import NOTHING, Block
from ..structures.graphs.pairwise import PairwiseGraph, check_edges
from ..structures.labellings.pairwise import Pairwise
from ..structures.rho import Reweighting, reweighting
from .base import check_columns, column_names
from .labelling import (
    UNKNOWN,
    LabellingEstimator,
    Labels,
    NodeInput,
    Offset,
    Shaped,
    States,
    observed_in,
    read_offset,
    split_offsets,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

SCATTERED = 0.75  # a warning is due if fewer edges than this share survive


@dataclass(frozen=True, eq=False)
class GraphSample:
    """One validated sample, or the part of one whose labels are known.

    shape : of its labels
    n_edge_features : None if the only edge feature is the constant that was added
    whole : the graph of which this is a part, or None
    kept : the places of the edges among those of `whole`
    """

    graph: PairwiseGraph
    nodes: Rows
    edges: Rows
    shape: tuple[int, ...]
    n_edge_features: int | None
    whole: PairwiseGraph | None = None
    kept: Ints | None = None
    offset: Offset | None = None

    def labelled(self, known: Bools) -> GraphSample:
        """The part of the graph whose labels are known, and the edges inside it."""
        nodes = np.flatnonzero(known)
        number = np.full(known.shape[0], -1)
        number[nodes] = np.arange(nodes.shape[0])
        tail, head = number[self.graph.tail], number[self.graph.head]
        kept = np.flatnonzero((tail >= 0) & (head >= 0))
        return replace(
            self,
            graph=PairwiseGraph(nodes.shape[0], np.stack([tail[kept], head[kept]], axis=1)),
            nodes=self.nodes.take(nodes),
            edges=self.edges.take(kept),
            shape=(nodes.shape[0],),
            whole=self.graph,
            kept=kept,
            offset=None if self.offset is None else self.offset.take(nodes, kept),
        )


class GraphEstimator(LabellingEstimator):
    """Base of the estimators over graphs; subclasses read samples."""

    rho: Any
    edge_weights: str

    @abstractmethod
    def _read(self, X: Sequence[Any]) -> list[GraphSample]:
        """Validated samples."""

    # ------------------------------------------------------------------ blocks
    def _reweighting(self, sample: GraphSample, m: int) -> Reweighting:
        """rho of one sample; an array has an entry for each edge that the user listed."""
        rho, whole = self.rho, sample.whole
        try:
            if whole is not None and isinstance(rho, str) and rho == "auto" and whole.grid_shape:
                rho = 1.0 if sample.graph.is_forest else 0.5  # as on the whole grid
            if whole is not None and np.ndim(rho) > 0:
                if np.shape(rho) != (whole.n_edges,):
                    raise ValueError(
                        f"`rho` must be a number or an array of shape ({whole.n_edges},); got "
                        f"{np.shape(rho)}."
                    )
                rho = np.asarray(rho)[sample.kept]
            return reweighting(sample.graph, rho)
        except ValueError as error:
            raise ValueError(f"X[{m}]: {error}") from None

    def _make_blocks(
        self, samples: Sequence[GraphSample], places: Sequence[int], ties: Ints | None = None
    ) -> list[Block]:
        """Blocks without observations; samples over the same graph share their output space.

        `places` are the samples' places in X.
        """
        known: dict[int, Pairwise] = {}
        blocks, n = [], len(self._states)
        for sample, m in zip(samples, places, strict=True):
            graph = sample.graph
            if id(graph) not in known:
                own = self._reweighting(sample, m)
                known[id(graph)] = Pairwise(graph, n, own)
            structure = known[id(graph)]
            features = StateFeatures(graph, sample.nodes, sample.edges, n, ties)
            offset = None if sample.offset is None else sample.offset.scores(structure)
            blocks.append(Block(structure, features, NOTHING, 1.0, offset, name=f"X[{m}]"))
        return blocks

    def _blocks(
        self, X: Sequence[Any], Y: Sequence[Any], weights: Floats, classes: Any
    ) -> list[Block]:
        X, offsets = split_offsets(X)
        samples = self._read(X)
        labels = Labels(Y, [sample.shape for sample in samples], "Y", self._part)
        states = States.learn(labels, classes)
        ties = edge_ties(self.edge_weights, len(states))
        samples = _with_offsets(samples, offsets, len(states))
        sizes = (samples[0].nodes.n_features, samples[0].n_edge_features)
        _check_sizes(samples, *sizes)
        layout = {
            "classes": states.classes.tolist(),
            "n_node_features": sizes[0],
            "n_edge_features": sizes[1],
            "missing": self._missing,
        }
        self._restore(layout, column_names(self._node_tables(X)))
        used = np.flatnonzero(weights > 0).tolist()
        found = self._observed_parts(samples, states.encode(labels), used)
        if not found:
            raise ValueError("Y: no sample of positive weight has a known label")
        _warn_if_scattered(samples, found)
        places = [m for m, _, _ in found]
        parts = [part for _, part, _ in found]
        rows = self._prepared(
            [(part.nodes, part.edges) for part in parts], weights[places].tolist()
        )
        parts = [
            replace(part, nodes=nodes, edges=edges)
            for part, (nodes, edges) in zip(parts, rows, strict=True)
        ]
        blocks = self._make_blocks(parts, places, ties)
        self._map = blocks[0].features.without_rows()  # type: ignore[attr-defined]
        return [
            replace(observed_in(block, own[seen]), weight=weights[m])
            for block, (m, _, (own, seen)) in zip(blocks, found, strict=True)
        ]

    def _observed_parts(
        self, samples: Sequence[GraphSample], labels: Sequence[Ints], places: Sequence[int]
    ) -> list[tuple[int, GraphSample, tuple[Ints, Any]]]:
        """What is labelled of each sample at these places, if anything is: its place, the part of
        the graph, the states, and which nodes are part of it.
        """
        found: list[tuple[int, GraphSample, tuple[Ints, Any]]] = []
        for m in places:
            seen = labels[m] != UNKNOWN
            if seen.all() or (self._missing == "marginalise" and seen.any()):
                found.append((m, samples[m], (labels[m], slice(None))))
            elif seen.any():
                found.append((m, samples[m].labelled(seen), (labels[m], seen)))
        return found

    def _fitting(self, X: Any) -> list[GraphSample]:
        """New samples, checked against what was fitted, with a constant if there is one."""
        check_is_fitted(self, "coef_")
        X, offsets = split_offsets(check_samples(X))
        samples = self._read(X)
        _check_sizes(samples, self.n_features_in_, self._n_edge_features)
        check_columns(self._node_tables(X), self.feature_names_in_.tolist())
        samples = _with_offsets(samples, offsets, len(self._states))
        if not self._intercept:
            return samples
        return [replace(sample, nodes=sample.nodes.with_constant()) for sample in samples]

    def _shaped(self, X: Any) -> list[Shaped]:
        samples = self._fitting(X)
        blocks = self._make_blocks(samples, range(len(samples)))
        return [Shaped(block, sample.shape) for block, sample in zip(blocks, samples, strict=True)]

    @staticmethod
    def _node_tables(X: Sequence[Any]) -> list[Any]:
        """The node features of samples that have been read."""
        return [x[0] if isinstance(x, tuple | list) else x for x in X]

    # ------------------------------------------------------------------ prediction
    def predict(self, X: Any, return_gap: bool = False, *, known: Any = None) -> Any:
        """The most probable labelling of each sample, as far as it can be found.

        Exact on chains and trees, and if two states attract each other; elsewhere found by
        message passing (QPBO with two states) and local search. `known` holds labels that are
        known, shaped as Y, None for unknown ones, or None for a whole sample; all others are
        predicted given these.

        Returns
        -------
        labels : list of arrays
        gaps : ndarray of shape (n_samples,), only with `return_gap`
            No labelling's log-probability exceeds the returned one's by more than this.
        """

        def one(query: Shaped) -> tuple[Any, float]:
            space = query.block.structure
            found = space.decode_integral(query.block.scores(self.coef_))
            return self._output(query, space.label(found.vertex)), found.gap

        answers = self._each(one, self._queries(X, known))
        labels = [label for label, _ in answers]
        return (labels, np.array([gap for _, gap in answers])) if return_gap else labels

    def _labelled(self, X: Any, Y: Any, known: Any) -> list[Block | None]:
        samples = self._fitting(X)
        labels = self._observations(Y, known, [sample.shape for sample in samples])
        found = self._observed_parts(samples, [own for own, _ in labels], range(len(samples)))
        places = [m for m, _, _ in found]
        blocks: list[Block | None] = [None] * len(samples)
        made = self._make_blocks([part for _, part, _ in found], places)
        for block, (m, _, (states, seen)) in zip(made, found, strict=True):
            fixed = labels[m][1]
            blocks[m] = observed_in(block, states[seen], None if fixed is None else fixed[seen])
        return blocks


def read_rows(features: Any, where: str) -> Rows:
    """Features of nodes or edges as rows: a 2-D array, a SciPy sparse matrix, or rows already."""
    if isinstance(features, Rows):
        return features
    check_unmasked(features, where)
    table: Any = features if sparse.issparse(features) else np.asarray(features)
    if table.dtype.kind not in "fiub":
        raise ValueError(f"{where}: expected numbers, got dtype {table.dtype}")
    if table.ndim != 2:
        raise ValueError(f"{where}: expected 2 dimensions, got shape {table.shape}")
    check_finite(table.data if sparse.issparse(table) else table, where)
    return Rows(table)


def _warn_if_scattered(
    samples: Sequence[GraphSample], parts: Sequence[tuple[int, GraphSample, Any]]
) -> None:
    """Warn if leaving out unlabelled nodes removes many edges, and not around contiguous parts."""
    whole = sum(samples[m].graph.n_edges for m, _, _ in parts)
    kept = sum(part.graph.n_edges for _, part, _ in parts)
    if kept >= SCATTERED * whole:
        return
    for m, _, (_, seen) in parts:
        if isinstance(seen, slice):
            continue
        tail, head = seen[samples[m].graph.tail], seen[samples[m].graph.head]
        if (tail != head).sum() > (1.0 - SCATTERED) * max((tail | head).sum(), 1):
            warnings.warn(
                f"Y: leaving out unlabelled nodes leaves {kept} of {whole} edges. If unlabelled "
                "nodes are scattered among labelled ones, weights learned on the thinned graph "
                "smooth too much on the whole one: use fit(..., missing='marginalise')",
                UserWarning,
                stacklevel=2,
            )
            return


def _with_offsets(
    samples: Sequence[GraphSample], given: Sequence[NodeInput | None], n_states: int
) -> list[GraphSample]:
    """Samples with the offsets that came with them."""
    return [
        replace(x, offset=read_offset(own, x.shape, x.graph.n_edges, n_states, f"X[{m}]"))
        for m, (x, own) in enumerate(zip(samples, given, strict=True))
    ]


def _check_sizes(
    samples: Sequence[GraphSample], n_node_features: int, n_edge_features: int | None
) -> None:
    """Raise unless all samples have these numbers of features."""
    for m, sample in enumerate(samples):
        found = (sample.nodes.n_features, sample.n_edge_features)
        for size, expected, kind in zip(
            found, (n_node_features, n_edge_features), ("node", "edge"), strict=True
        ):
            if size != expected:
                raise ValueError(
                    f"X[{m}] has {'no' if size is None else size} {kind} features, expected "
                    f"{'none' if expected is None else expected}"
                )


# ---------------------------------------------------------------------- the estimator
class GraphCRF(GraphEstimator):
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
        listed edge and applies to every sample, a
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
    objective_ : float, proven value of the (regularised, approximate) log-likelihood at `coef_`
    objective_bound_ : float, proven upper bound of the best value
    duality_gap_ : float, their difference
    certified_ : bool, whether both are proven ("What is proven" in the documentation)
    converged_ : bool, whether the gap is at most tol * max(1, |objective_|)
    history_ : History with seconds, oracle_calls, objective, objective_bound, gap, fw_gap;
        `.to_frame()`
    n_iter_, n_oracle_calls_, solver_, n_features_in_, feature_names_in_

    Notes
    -----
    X is a sequence of samples, each a tuple (node_features, edges, edge_features): arrays of shape
    (n_nodes, C), (n_edges, 2) and (n_edges, D), as in PyStruct's EdgeFeatureGraphCRF. Node
    features may be SciPy sparse or a data frame. Without edge_features (None, or a pair) the only
    edge feature is the constant 1. Each pair of nodes is listed once, and its order tells tail from
    head: if edges have no direction use `edge_weights="symmetric"`. The edges of a symmetric matrix
    are `np.stack(np.triu(adjacency).nonzero(), axis=1)`.

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
        known: dict[tuple[int, int], PairwiseGraph] = {}
        listed = enumerate(in_time(X, "reading X"))
        return [_read_graph(x, f"X[{m}]", known) for m, x in listed]


def _read_graph(x: Any, where: str, known: dict[tuple[int, int], PairwiseGraph]) -> GraphSample:
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
        known[key] = PairwiseGraph(n_nodes, _read_edges(x[1], n_nodes, f"{where}: edges"))
    graph = known[key]
    edges, size = Rows.ones(graph.n_edges), None
    if len(x) == 3 and x[2] is not None:
        edges = read_rows(x[2], f"{where}: edge_features")
        size = edges.n_features
    if len(edges) != graph.n_edges:
        raise ValueError(
            f"{where}: edge_features has {len(edges)} rows, but there are {graph.n_edges} edges"
        )
    return GraphSample(graph, nodes, edges, (n_nodes,), size)


def _read_edges(given: Any, n_nodes: int, name: str) -> Ints:
    """Listed edges, shape (n_edges, 2), each once."""
    if sparse.issparse(given) or hasattr(given, "adj"):
        raise ValueError(
            f"{name}: expected an array (n_edges, 2), got {type(given).__name__}. Pass "
            "np.stack(scipy.sparse.triu(adjacency).nonzero(), axis=1), or list(graph.edges)"
        )
    try:
        pairs = check_edges(given, n_nodes, name)
    except ValueError as error:  # rows of different lengths have no name yet
        raise ValueError(str(error) if name in str(error) else f"{name}: {error}") from None
    ends = np.sort(pairs, axis=1)
    first = np.unique(ends, axis=0, return_index=True)[1]
    if first.size < len(pairs):
        again = pairs[np.setdiff1d(np.arange(len(pairs)), first)[0]].tolist()
        raise ValueError(
            f"{name}: the pair {again} is listed twice. List each pair once, in one direction; "
            "edge_weights='symmetric' makes directions equal"
        )
    return pairs
