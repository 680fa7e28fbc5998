"""Exact marginals, log Z and samples, of problems small enough to be counted.

Matchings are counted by dynamic programming over sets of nodes (`exact_matchings`), labellings on a
junction tree, and chains by forward-backward passes, which are exact at any size.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ..algorithms.matching.counting import CountedMatchings
from ..algorithms.pairwise.forward_backward import forward_backward, sample_sequences
from ..algorithms.pairwise.junction_tree import JunctionTree
from ..algorithms.pairwise.separators import require_width
from ..exceptions import InfeasibleError
from ..structures import (
    BinaryPairwise,
    BipartiteMatching,
    Chains,
    Grid,
    LocalMatching,
    MissingCapability,
    Pairwise,
)

Floats = NDArray[np.float64]


class ExactDistribution(Protocol):
    """P(y) = exp(<scores, y>) / Z over the outputs of a structure."""

    @property
    def log_partition(self) -> float: ...

    @property
    def tau(self) -> Floats:
        """Marginals of all coordinates."""

    def sample(self, n_samples: int, rng: np.random.Generator) -> Any:
        """Independent labels."""


@singledispatch
def exact_distribution(structure: Any, scores: Floats) -> ExactDistribution:
    """The distribution of a structure's outputs at scores of its coordinates.

    Raises
    ------
    TooLargeToCount : before any work, where counting would take too much memory
    MissingCapability : for structures that are not known here
    """
    raise MissingCapability(
        f"method='exact' does not know how to count the outputs of {type(structure).__name__}"
    )


class _Matchings:
    """Matchings of one group, or of two sides whose columns are numbered after the rows."""

    def __init__(self, structure: Any, counted: CountedMatchings):
        self._structure, self._counted = structure, counted
        self.log_partition = counted.log_partition

    @property
    def tau(self) -> Floats:
        structure, counted = self._structure, self._counted
        if structure.n_coordinates == structure.n_scored:
            return counted.edge_marginals
        unused = counted.unused
        if isinstance(structure, BipartiteMatching):
            n_rows = structure.graph.n_rows
            parts = [unused[:n_rows]] * structure.free_rows + [
                unused[n_rows:]
            ] * structure.free_cols
            unused = np.concatenate(parts)
        return np.concatenate([counted.edge_marginals, unused])

    def sample(self, n_samples: int, rng: np.random.Generator) -> Any:
        drawn = self._counted.sample(n_samples, rng)
        structure, graph = self._structure, self._structure.graph
        if not structure.is_simple:
            ends = np.stack([graph.row, graph.col], axis=1)
            return [ends[chosen] for chosen in drawn]
        bipartite = isinstance(structure, BipartiteMatching)
        size = graph.n_rows if bipartite else graph.n_nodes
        labels = np.full((n_samples, size), -1, dtype=np.int64)
        which, edge = np.nonzero(drawn)
        labels[which, graph.row[edge]] = graph.col[edge]
        if not bipartite:
            labels[which, graph.col[edge]] = graph.row[edge]
        return labels


@exact_distribution.register
def _(structure: BipartiteMatching, scores: Floats) -> ExactDistribution:
    graph = structure.graph
    n, m = graph.n_rows, graph.n_cols
    free = np.repeat([structure.free_rows, structure.free_cols], [n, m])
    single = np.zeros(n + m)
    single[free] = scores[structure.n_scored :]
    counted = CountedMatchings(
        n + m, graph.row, n + graph.col, scores[: structure.n_scored], 1, free, single
    )
    return _Matchings(structure, counted)


@exact_distribution.register
def _(structure: LocalMatching, scores: Floats) -> ExactDistribution:
    graph = structure.graph
    single = None
    if structure.n_coordinates > structure.n_scored:
        single = scores[structure.n_scored :]
    counted = CountedMatchings(
        graph.n_nodes, graph.row, graph.col, scores[: structure.n_scored],
        structure.capacity, structure.free, single,
    )  # fmt: skip
    return _Matchings(structure, counted)


_ORDERS: WeakKeyDictionary[Any, dict[int, Any]] = WeakKeyDictionary()  # of elimination, by graph


class _Labellings:
    def __init__(self, structure: Any, tree: JunctionTree):
        self._structure, self._tree = structure, tree
        self.log_partition = tree.log_partition

    @property
    def tau(self) -> Floats:
        tree = self._tree
        tau: Floats = self._structure.from_tables(tree.node_marginals, tree.edge_marginals)
        return tau

    def sample(self, n_samples: int, rng: np.random.Generator) -> Any:
        return self._tree.sample(n_samples, rng)


@exact_distribution.register(BinaryPairwise)
@exact_distribution.register(Pairwise)
def _(structure: Any, scores: Floats) -> ExactDistribution:
    graph = structure.graph
    if isinstance(graph, Grid):  # its treewidth is known, which saves the search
        require_width(min(graph.height, graph.width), structure.n_states)
    known = _ORDERS.get(graph, {})
    tail, head = structure.ends
    nodes, edges = structure.score_tables(scores)
    order = known.get(structure.n_states)
    tree = JunctionTree(graph.n_nodes, tail, head, nodes, edges, order)
    _ORDERS[graph] = {**known, structure.n_states: tree.order}
    return _Labellings(structure, tree)


class _Chains:
    def __init__(self, structure: Chains, scores: Floats):
        self._structure, self._tables = structure, structure.score_tables(scores)
        with np.errstate(invalid="ignore"):  # of chains whose labellings are all forbidden
            found = forward_backward(structure.starts, *self._tables)
        self.log_partition = float(found.log_z.sum())
        if not np.isfinite(self.log_partition):
            raise InfeasibleError("every labelling of some chain is forbidden", [], "nodes")
        self.tau = structure.from_tables(found.nodes, found.edges)

    def sample(self, n_samples: int, rng: np.random.Generator) -> Any:
        return sample_sequences(self._structure.starts, *self._tables, n_samples, rng)


@exact_distribution.register
def _(structure: Chains, scores: Floats) -> ExactDistribution:
    return _Chains(structure, scores)
