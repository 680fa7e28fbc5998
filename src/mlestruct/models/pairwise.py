"""How samples of pairwise models become blocks, and what `GridCRF` and `GraphCRF` share."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from .._arrays import check_unmasked
from ..features.labellings import MergedEdges, StateFeatures, edge_ties
from ..features.rows import Rows
from ..learning.problem import NOTHING, Block
from ..structures.graphs.pairwise import PairwiseGraph
from ..structures.labellings.pairwise import Pairwise
from ..structures.rho import Reweighting, reweighting
from .labelling import UNKNOWN, LabellingEstimator, Labels, Shaped, States, observed_in
from .node_input import NodeInput, Offset, read_offset, split_offsets, with_offsets
from .validation import check_columns, check_finite, check_samples, column_names

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
T = TypeVar("T")

SCATTERED = 0.75  # a warning is due if fewer edges than this share survive


@dataclass(frozen=True, eq=False)
class GraphSample:
    """One validated sample.

    shape : of its labels
    n_edge_features : None if the only edge feature is the constant that was added
    listed : the place of each edge among the n_listed ones of the user, None if they are the same
    """

    graph: PairwiseGraph
    nodes: Rows
    edges: Rows
    shape: tuple[int, ...]
    n_edge_features: int | None
    n_listed: int
    merged: MergedEdges | None = None
    listed: Ints | None = None
    part_of_grid: bool = False
    offset: Offset | None = None

    def with_offset(self, given: NodeInput | None, n_states: int, where: str) -> GraphSample:
        """The same sample with the offsets that came with it."""
        offset = read_offset(given, self.shape, self.n_listed, n_states, where, self.merged)
        return self if offset is None else replace(self, offset=offset)

    def labelled(self, known: Bools) -> GraphSample:
        """The part of the graph whose labels are known, and the edges inside it."""
        nodes = np.flatnonzero(known)
        number = np.full(known.shape[0], -1)
        number[nodes] = np.arange(nodes.shape[0])
        tail, head = number[self.graph.tail], number[self.graph.head]
        kept = np.flatnonzero((tail >= 0) & (head >= 0))
        rows, merged = kept, None  # rows of edge features
        if self.merged is not None:
            place = np.full(self.graph.n_edges, -1)
            place[kept] = np.arange(kept.shape[0])
            rows = np.flatnonzero(place[self.merged.edge] >= 0)
            merged = MergedEdges(place[self.merged.edge[rows]], self.merged.flipped[rows])
        return replace(
            self,
            graph=PairwiseGraph(nodes.shape[0], np.stack([tail[kept], head[kept]], axis=1)),
            nodes=self.nodes.take(nodes),
            edges=self.edges.take(rows),
            shape=(nodes.shape[0],),
            merged=merged,
            listed=kept if self.listed is None else self.listed[kept],
            part_of_grid=self.graph.grid_shape is not None,
            offset=None if self.offset is None else self.offset.take(nodes, kept),
        )


class PairwiseEstimator(LabellingEstimator):
    """Base of the estimators over graphs; subclasses read samples."""

    rho: Any
    edge_weights: str

    @abstractmethod
    def _read(self, X: Sequence[Any]) -> list[GraphSample]:
        """Validated samples."""

    # ------------------------------------------------------------------ blocks
    def _reweighting(self, sample: GraphSample, m: int) -> Reweighting:
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
            features = StateFeatures(graph, sample.nodes, sample.edges, n, ties, sample.merged)
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
        samples = with_offsets(samples, offsets, len(states))
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
        samples = with_offsets(samples, offsets, len(self._states))
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
        given, shaped as Y, None where they are not, or None for a whole sample; all others are
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

    def decision_function(self, X: Any) -> list[Floats]:
        weights, out = np.ascontiguousarray(self._split_coef[0].T), []
        for sample in self._fitting(X):
            scores = sample.nodes.scores(weights)
            if sample.offset is not None:
                scores += sample.offset.nodes
            out.append(scores.reshape(*sample.shape, -1))
        return out

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
