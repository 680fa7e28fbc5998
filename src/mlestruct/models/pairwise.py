"""How samples of pairwise models become blocks, and what `GridCRF` and `GraphCRF` share."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from .._deadline import in_time
from ..features.contract import Columns
from ..features.pairwise import BinaryFeatures, MergedEdges, StateFeatures
from ..features.rows import FeatureRows
from ..labels import UNKNOWN, States
from ..learning.problem import Block
from ..structures.contract import Vertex
from ..structures.graphs.pairwise import PairwiseGraph
from ..structures.labellings.binary import BinaryPairwise
from ..structures.labellings.pairwise import Pairwise
from ..structures.rho import Reweighting, reweighting
from .labelling import LabellingEstimator, observed_in
from .node_input import NodeInput, Offset, read_offset, split_offsets, with_offsets
from .partitioned import over_partitions
from .probabilities import approximate_value, exact_log_likelihood, likelihood_bounds
from .validation import (
    check_columns,
    check_positive,
    check_samples,
    column_names,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
T = TypeVar("T")

SCATTERED = 0.75  # a warning is due where fewer edges than this share survive

NOTHING = Vertex(np.zeros(0, dtype=np.int64), np.zeros(0))


@dataclass(frozen=True, eq=False)
class GraphSample:
    """One validated sample.

    shape : of its labels
    n_edge_features : None where the only edge feature is the constant that was added
    undirected : whether listed edges are followed by the same in the other direction
    listed : the place of each edge among the n_listed ones of the user, None if they are the same
    """

    graph: PairwiseGraph
    nodes: FeatureRows
    edges: FeatureRows
    shape: tuple[int, ...]
    n_edge_features: int | None
    merged: MergedEdges | None = None
    listed: Ints | None = None
    n_listed: int = 0
    part_of_grid: bool = False
    undirected: bool = False
    offset: Offset | None = None

    def with_offset(self, given: NodeInput | None, n_states: int, where: str) -> GraphSample:
        """The same sample with the offsets that came with it."""
        n_given, merged = self.n_listed, self.merged
        if self.undirected and merged is not None:
            n_given //= 2
            merged = MergedEdges(merged.edge[:n_given], merged.flipped[:n_given])
        offset = read_offset(given, self.shape, n_given, n_states, where, merged)
        return self if offset is None else replace(self, offset=offset)

    def labelled(self, known: NDArray[np.bool_]) -> GraphSample:
        """The part of the graph whose labels are known, and the edges inside it."""
        nodes = np.flatnonzero(known)
        number = np.full(known.shape[0], -1)
        number[nodes] = np.arange(nodes.shape[0])
        tail, head = number[self.graph.tail], number[self.graph.head]
        kept = np.flatnonzero((tail >= 0) & (head >= 0))
        ends = np.stack([tail[kept], head[kept]], axis=1)
        edges, merged = self.edges, None
        if self.merged is None:
            edges = edges.take(kept)
        else:
            place = np.full(self.graph.n_edges, -1)
            place[kept] = np.arange(kept.shape[0])
            listed = np.flatnonzero(place[self.merged.edge] >= 0)
            edges = edges.take(listed)
            merged = MergedEdges(place[self.merged.edge[listed]], self.merged.flipped[listed])
        return GraphSample(
            PairwiseGraph(nodes.shape[0], ends),
            self.nodes.take(nodes),
            edges,
            (nodes.shape[0],),
            self.n_edge_features,
            merged,
            kept if self.listed is None else self.listed[kept],
            self.n_listed,
            self.graph.grid_shape is not None,
            self.undirected,
            None if self.offset is None else self.offset.take(nodes, kept),
        )


class PairwiseEstimator(LabellingEstimator):
    """Base of the estimators over graphs; subclasses read samples and say what rho is."""

    rho: Any
    edge_weights: str

    @abstractmethod
    def _read(self, X: Sequence[Any]) -> list[GraphSample]:
        """Validated samples."""

    def _weights(self, sample: GraphSample, m: int) -> Reweighting:
        """rho of one sample; an array has an entry for each edge that the user listed."""
        rho = self.rho
        try:
            if isinstance(rho, str) and rho == "auto" and sample.part_of_grid:
                rho = 1.0 if sample.graph.is_forest else 0.5  # as on the whole grid
            if np.ndim(rho) > 0 and sample.listed is not None:
                if np.shape(rho) != (sample.n_listed,):
                    raise ValueError(
                        f"rho: expected a number or shape ({sample.n_listed},), got {np.shape(rho)}"
                    )
                rho = np.asarray(rho)[sample.listed]
            return reweighting(sample.graph, rho)
        except ValueError as error:
            raise ValueError(f"X[{m}]: {error}") from None

    def _tying(self, columns: Sequence[Columns]) -> sparse.csr_array | None:
        n = len(self.classes_)
        tail, head = np.divmod(np.arange(n * n), n)
        if self.edge_weights == "full":
            return None
        if self.edge_weights == "symmetric":
            group = np.minimum(tail, head) * n + np.maximum(tail, head)
        elif self.edge_weights == "potts":
            group = np.where(tail == head, 0, -1)
        else:
            raise ValueError(
                f"edge_weights: expected 'full', 'symmetric' or 'potts', got {self.edge_weights!r}"
            )
        kept = np.flatnonzero(group >= 0)
        tie = np.unique(group[kept], return_inverse=True)[1]
        ties = sparse.csr_array((np.ones(kept.size), (kept, tie)), shape=(n * n, tie.max() + 1))
        nodes = sparse.eye_array(n * columns[0].total.size)
        edges = sparse.kron(ties, sparse.eye_array(columns[1].total.size))
        return sparse.csr_array(sparse.block_diag([nodes, edges]))

    # ------------------------------------------------------------------ blocks
    def _make_blocks(
        self, samples: Sequence[GraphSample], n_states: int, places: Sequence[int] | None = None
    ) -> list[Block]:
        """Blocks without observations; samples over the same graph share their output space.

        `places` are the samples' places in X.
        """
        known: dict[int, BinaryPairwise | Pairwise] = {}
        blocks = []
        for m, sample in enumerate(samples):
            graph = sample.graph
            if id(graph) not in known:
                weights = self._weights(sample, m if places is None else places[m])
                binary = n_states == 2
                known[id(graph)] = (
                    BinaryPairwise(graph, weights) if binary else Pairwise(graph, n_states, weights)
                )
            structure = known[id(graph)]
            parts = (graph, sample.nodes, sample.edges)
            if n_states == 2:
                features: Any = BinaryFeatures(*parts, sample.merged)
            else:
                features = StateFeatures(*parts, n_states, sample.merged)
            if self._intercept:
                features = features.with_constant()
            offset = None if sample.offset is None else sample.offset.scores(structure)
            blocks.append(Block(structure, features, NOTHING, 1.0, offset))
        return blocks

    def _blocks(
        self, X: Sequence[Any], Y: Sequence[Any], weights: Floats, separate: bool
    ) -> list[Block]:
        X, offsets = split_offsets(X)
        samples = self._read(X)
        states = self._learn_states(Y)
        samples = with_offsets(samples, offsets, len(states))
        listed = enumerate(in_time(samples, "reading Y"))
        labels = [self._encode(states, sample, Y[m], m) for m, sample in listed]
        sizes = (samples[0].nodes.n_features, samples[0].n_edge_features)
        _check_sizes(samples, *sizes)
        parts, places, states_of = [], [], []
        marginalise = self._marginalises()
        for m, (sample, label) in enumerate(zip(samples, labels, strict=True)):
            seen = label != UNKNOWN
            if weights[m] > 0 and seen.any():
                whole_sample = seen.all() or marginalise
                parts.append(sample if whole_sample else sample.labelled(seen))
                places.append(m)
                states_of.append(label if whole_sample else label[seen])
        whole = sum(samples[m].graph.n_edges for m in places)
        kept = sum(part.graph.n_edges for part in parts)
        if kept < SCATTERED * whole and any(
            _is_scattered(samples[m], labels[m] != UNKNOWN) for m in places
        ):
            warnings.warn(
                f"Y: leaving out unlabelled nodes leaves {kept} of {whole} edges. Where unlabelled "
                "nodes are scattered among labelled ones, weights learned on the thinned graph "
                "smooth too much on the whole one: use missing='marginalise'",
                UserWarning,
                stacklevel=4,
            )
        if not parts and not self._in_partition:
            raise ValueError("Y: no sample of positive weight has a known label")
        blocks = self._make_blocks(parts, len(states), places)
        self._restore(
            {
                "classes": states.to_list(),
                "n_node_features": sizes[0],
                "n_edge_features": sizes[1],
                "columns": column_names(self._node_tables(X)),
            }
        )
        self._states = states
        return [
            replace(observed_in(block, label), weight=weights[m])
            for block, label, m in zip(blocks, states_of, places, strict=True)
        ]

    def _encode(self, states: States, sample: GraphSample, label: Any, m: int) -> Ints:
        return states.encode(label, f"Y[{m}]", sample.shape).ravel()

    def _ends(self, x: Any, n_nodes: int) -> tuple[Ints, Ints]:
        graph = self._read(split_offsets([x])[0])[0].graph
        return graph.tail.astype(np.int64), graph.head.astype(np.int64)

    def _shaped(self, X: Any) -> list[tuple[Block, tuple[int, ...]]]:
        samples = self._fitting(X)
        blocks = self._make_blocks(samples, len(self._states))
        return [(block, sample.shape) for block, sample in zip(blocks, samples, strict=True)]

    def _fitting(self, X: Any) -> list[GraphSample]:
        """New samples, checked against what was fitted."""
        check_is_fitted(self, "coef_")
        X, offsets = split_offsets(check_samples(X))
        samples = self._read(X)
        _check_sizes(samples, self.n_features_in_, self._n_edge_features)
        check_columns(self._node_tables(X), self.feature_names_in_.tolist())
        return with_offsets(samples, offsets, len(self._states))

    @staticmethod
    def _node_tables(X: Sequence[Any]) -> list[Any]:
        """The node features of samples that have been read."""
        return [x[0] if isinstance(x, tuple | list) else x for x in X]

    # ------------------------------------------------------------------ prediction
    @over_partitions
    def predict(self, X: Any, return_gap: bool = False, *, known: Any = None) -> Any:
        """The most probable labelling of each sample, as far as it can be found.

        Exact on chains and trees, and where two states attract each other; elsewhere found by
        message passing (QPBO with two states) and local search. `known` holds labels that are
        given, shaped as Y, `unknown` (or None) where they are not, or None for a whole sample; all
        others are predicted given these.

        Returns
        -------
        labels : list of arrays
        gaps : ndarray of shape (n_samples,), only with `return_gap`
            No labelling's log-probability exceeds that of the one returned by more than this.
        """

        def one(pair: tuple[Block, tuple[int, ...]]) -> tuple[Any, float]:
            block, shape = pair
            found = block.structure.decode_integral(block.scores(self.coef_))
            label = block.structure.label(found.vertex)
            return self._states.decode(label.reshape(shape)), found.gap

        answers = self._each(one, self._given(X, known))
        labels = [label for label, _ in answers]
        return (labels, np.array([gap for _, gap in answers])) if return_gap else labels

    def decision_function(self, X: Any) -> list[Floats]:
        weights, constant = np.ascontiguousarray(self.node_coef_.T), self.intercept_
        out = []
        for sample in self._fitting(X):
            scores = sample.nodes.scores(weights) + constant
            if sample.offset is not None:
                scores += sample.offset.nodes
            out.append(scores.reshape(*sample.shape, -1))
        return out

    @over_partitions
    def predict_marginals(
        self,
        X: Any,
        tol: float = 1e-3,
        method: str = "auto",
        *,
        known: Any = None,
        **options: Any,
    ) -> list[Floats]:
        """Probabilities of the states of every node: arrays of shape (*shape of labels, n_states),
        given the `known` labels (as in `predict`).

        They maximise <scores, tau> + H_rho(tau); exact on chains and trees. `tol` is the certified
        gap of each log-partition function, per node. `method` is one of
        `mlestruct.inference.marginals`: "auto", "fw" (from MAP calls alone), "perturb" or, where
        the treewidth is small, "exact"; `options` are those of the method.
        """
        return self._marginals(X, tol, method, known, options)

    @over_partitions
    def log_likelihood_bounds(
        self, X: Any, Y: Any, tol: float = 1e-6, *, known: Any = None
    ) -> tuple[Floats, Floats]:
        """Proven bounds of the exact log p(y | x; coef_) of each sample, given `known` labels.

        The lower one rests on log Z_rho >= log Z for rho in the spanning-tree polytope ("auto"
        where the model's is not). The upper one on log Z >= the value of independent nodes, of the
        best labelling found, or where all edges attract (two states) the Bethe value. On chains
        and trees both are exact. See `mlestruct.inference.log_partition_bounds`.
        Nodes without a label are left out or summed over, as `missing` says; `known` is as in
        `log_likelihood`. `tol` is the certified gap per node.

        Returns
        -------
        lower, upper : ndarrays of shape (n_samples,)
        """
        tol = check_positive(tol, "tol")

        def one(block: Block) -> tuple[float, float]:
            return likelihood_bounds(block, self.coef_, tol)

        found = self._of_labels(X, Y, known, one, (0.0, 0.0))
        return np.array([low for low, _ in found]), np.array([high for _, high in found])

    @over_partitions
    def approximate_log_likelihood(
        self, X: Any, Y: Any, tol: float = 1e-6, *, known: Any = None
    ) -> Floats:
        """<scores, y> - log Z_rho of each sample: what `fit` maximises, without the penalty.

        Good for choosing alpha on held-out samples; a lower bound of the exact log-likelihood
        where rho lies in the spanning-tree polytope, as it does by default. `known` is as in
        `log_likelihood`.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        tol = check_positive(tol, "tol")

        def one(block: Block) -> float:
            return approximate_value(block, self.coef_, tol)

        return np.array(self._of_labels(X, Y, known, one, 0.0))

    @over_partitions
    def log_likelihood(self, X: Any, Y: Any, *, known: Any = None) -> Floats:
        """Exact log p(y | x; coef_) of each sample, on junction trees; small treewidth only.

        With `known` labels, as in `predict`, log p of the others given these. Y may have them too,
        and must agree.

        Returns
        -------
        ndarray of shape (n_samples,)
        """

        def one(block: Block) -> float:
            return exact_log_likelihood(block, self.coef_)

        return np.array(self._of_labels(X, Y, known, one, 0.0))

    def _of_labels(
        self, X: Any, Y: Any, known: Any, function: Callable[[Block], T], unlabelled: T
    ) -> list[T]:
        """`function` of what is labelled of each sample; `unlabelled` where nothing is."""
        samples = self._fitting(X)
        labels = self._observations(Y, known, [sample.shape for sample in samples])
        out = [unlabelled] * len(samples)
        parts = []
        for m, (sample, (states, given)) in enumerate(zip(samples, labels, strict=True)):
            seen = states != UNKNOWN
            if seen.any():
                whole = seen.all() or self._marginalises()
                part = sample if whole else sample.labelled(seen)
                kept = slice(None) if whole else seen
                parts.append((m, part, states[kept], None if given is None else given[kept]))
        places = [m for m, *_ in parts]
        blocks = self._make_blocks([part for _, part, *_ in parts], len(self._states), places)

        def one(entry: Any) -> T:
            (_, _, states, given), block = entry
            return function(observed_in(block, states, given))

        for m, found in zip(places, self._each(one, zip(parts, blocks, strict=True)), strict=True):
            out[m] = found
        return out


def _is_scattered(sample: GraphSample, seen: NDArray[np.bool_]) -> bool:
    """Whether many edges of labelled nodes lead to unlabelled ones."""
    tail, head = seen[sample.graph.tail], seen[sample.graph.head]
    return bool((tail != head).sum() > (1.0 - SCATTERED) * max((tail | head).sum(), 1))


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
