"""Allowed pairs among the members of one group: an undirected simple graph.

Every edge is stored once, at its smaller end, in the order of the strict upper triangle. The
*double cover* sees every edge from both ends; it is a bipartite graph (nodes as rows and again as
columns), which is what fractional matchings in general graphs reduce to.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from ..._arguments import check_memory
from .bipartite import BipartiteGraph

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SimpleGraph:
    """Edges ptr[i]:ptr[i+1] lead from node i to the larger nodes col[...], in rising order."""

    n_nodes: int
    ptr: Ints
    col: Ints

    @classmethod
    def complete(cls, n_nodes: int) -> SimpleGraph:
        """Every pair allowed."""
        check_memory(0.5 * n_nodes * (n_nodes - 1.0), f"all pairs of {n_nodes} nodes")
        counts = np.arange(n_nodes - 1, -1, -1, dtype=np.int64)
        ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        first = np.arange(n_nodes, dtype=np.int64) + 1
        col = np.arange(ptr[-1], dtype=np.int64) + np.repeat(first - ptr[:-1], counts)
        return cls(n_nodes, ptr, col)

    @classmethod
    def from_mask(cls, mask: Any) -> SimpleGraph:
        """Pairs where a symmetric dense or SciPy sparse matrix is nonzero; the diagonal is idle."""
        n_nodes = mask.shape[0]
        if not sparse.issparse(mask):
            mask = np.asarray(mask, dtype=bool)
            if np.all(mask | np.eye(n_nodes, dtype=bool)):
                return cls.complete(n_nodes)
        csr = sparse.csr_array(mask != 0)
        if (csr != csr.T).nnz:
            i, j = (int(k[0]) for k in sparse.coo_array(csr != csr.T).coords)
            raise ValueError(f"mask is not symmetric: pair ({i}, {j}) differs from ({j}, {i})")
        upper = sparse.csr_array(sparse.triu(csr, 1))
        upper.sort_indices()
        return cls(n_nodes, upper.indptr.astype(np.int64), upper.indices.astype(np.int64))

    @classmethod
    def from_edges(cls, n_nodes: int, pairs: ArrayLike) -> tuple[SimpleGraph, Ints]:
        """The graph of given pairs (in any order and direction), and each pair's edge."""
        ends = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
        low, high = ends.min(axis=1), ends.max(axis=1)
        if ends.size and (low.min() < 0 or high.max() >= n_nodes):
            k = int(np.argmax((low < 0) | (high >= n_nodes)))
            raise ValueError(
                f"edge {k} joins {ends[k].tolist()}; nodes are numbered 0 to {n_nodes - 1}"
            )
        if (low == high).any():
            k = int(np.argmax(low == high))
            raise ValueError(f"edge {k} joins node {low[k]} to itself")
        keys, first, edge = np.unique(low * n_nodes + high, return_index=True, return_inverse=True)
        if keys.shape[0] != ends.shape[0]:
            again = np.setdiff1d(np.arange(ends.shape[0]), first)
            raise ValueError(f"the pair {ends[again[0]].tolist()} occurs twice (edge {again[0]})")
        counts = np.bincount(keys // n_nodes, minlength=n_nodes)
        ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(n_nodes, ptr, keys % n_nodes), edge.astype(np.int64)

    @classmethod
    def from_bipartite(cls, graph: BipartiteGraph) -> SimpleGraph:
        """Rows as nodes 0 .. n_rows-1, columns after them; the edges keep their order."""
        ptr = np.concatenate([graph.ptr, np.full(graph.n_cols, graph.n_edges, dtype=np.int64)])
        return cls(graph.n_rows + graph.n_cols, ptr, graph.col + graph.n_rows)

    def with_edges(self, keep: NDArray[np.bool_]) -> SimpleGraph:
        """The same nodes with only the edges where `keep` is True."""
        counts = np.bincount(self.row[keep], minlength=self.n_nodes)
        ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return SimpleGraph(self.n_nodes, ptr, self.col[keep])

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_nodes, self.n_nodes

    @property
    def n_edges(self) -> int:
        return int(self.col.shape[0])

    @property
    def is_complete(self) -> bool:
        return self.n_edges == self.n_nodes * (self.n_nodes - 1) // 2

    @property
    def row(self) -> Ints:
        """Smaller end of every edge."""
        return np.repeat(np.arange(self.n_nodes, dtype=np.int64), np.diff(self.ptr))

    @cached_property
    def degree(self) -> Ints:
        counts = np.diff(self.ptr) + np.bincount(self.col, minlength=self.n_nodes)
        return counts.astype(np.int64)

    def edge_between(self, i: Ints, j: Ints) -> Ints:
        """Index of the edge of each pair, -1 where it is not allowed."""
        low, high = np.minimum(i, j), np.maximum(i, j)
        if self.is_complete:
            return np.where(low == high, -1, self.ptr[low] + high - low - 1)
        if self.n_edges == 0:
            return np.full(low.shape, -1, dtype=np.int64)
        keys = self.row * self.n_nodes + self.col
        wanted = low * self.n_nodes + high
        found = np.minimum(np.searchsorted(keys, wanted), self.n_edges - 1)
        return np.where(keys[found] == wanted, found, -1)

    def subgraph(self, keep: NDArray[np.bool_]) -> tuple[SimpleGraph, Ints, Ints]:
        """The graph of the kept edges on the nodes they touch; those nodes; the kept edges."""
        edges = np.flatnonzero(keep)
        row, col = self.row[edges], self.col[edges]
        nodes, ends = np.unique(np.concatenate([row, col]), return_inverse=True)
        graph, _ = SimpleGraph.from_edges(nodes.shape[0], ends.reshape(2, -1).T)
        return graph, nodes.astype(np.int64), edges

    def double_cover(self) -> tuple[BipartiteGraph, Ints]:
        """Every edge from both ends, nodes as rows and as columns; the edge of every entry."""
        row = self.row
        ends = np.concatenate([row, self.col]), np.concatenate([self.col, row])
        order = np.lexsort((ends[1], ends[0]))
        ptr = np.concatenate([[0], np.cumsum(self.degree)]).astype(np.int64)
        edge = np.concatenate([np.arange(self.n_edges)] * 2)[order]
        return BipartiteGraph(self.n_nodes, self.n_nodes, ptr, ends[1][order]), edge

    @cached_property
    def components(self) -> tuple[int, Ints]:
        """Number of connected components, and that of every node."""
        if self.is_complete and self.n_nodes:
            return 1, np.zeros(self.n_nodes, dtype=np.int64)
        ones = np.ones(self.n_edges, dtype=np.int8)
        matrix = sparse.csr_array((ones, self.col, self.ptr), shape=(self.n_nodes,) * 2)
        count, label = connected_components(matrix, directed=False)
        return int(count), label.astype(np.int64)

    @cached_property
    def is_bipartite(self) -> bool:
        """Whether no cycle is odd: then each component's double cover falls into two."""
        if self.is_complete:
            return self.n_nodes <= 2
        cover, _ = self.double_cover()
        both = SimpleGraph.from_bipartite(cover)
        return both.components[0] == 2 * self.components[0]

    def dense(self, values: NDArray[np.float64], fill: float = 0.0) -> NDArray[np.float64]:
        """The symmetric matrix of values of the edges, `fill` elsewhere."""
        out = np.full((self.n_nodes, self.n_nodes), fill)
        if self.is_complete:
            for i in range(self.n_nodes):
                out[i, i + 1 :] = out[i + 1 :, i] = values[self.ptr[i] : self.ptr[i + 1]]
            return out
        row = self.row
        out[row, self.col] = out[self.col, row] = values
        return out

    @property
    def table_form(self) -> str:
        """The form of a table of pairs, for messages."""
        return f"symmetric table ({self.n_nodes}, {self.n_nodes})"

    def values_of(self, table: NDArray[np.float64], name: str) -> NDArray[np.float64]:
        """Values of the edges from a symmetric table of pairs; inverse of `dense`."""
        shape = (self.n_nodes, self.n_nodes)
        if table.shape != shape:
            raise ValueError(f"{name}: expected a table of shape {shape}, got {table.shape}")
        values: NDArray[np.float64] = table[self.row, self.col]
        other = table[self.col, self.row]
        differs = ~((values == other) | (np.isnan(values) & np.isnan(other)))
        if differs.any() and not np.allclose(values, other, rtol=1e-9, atol=1e-12):
            k = int(np.argmax(differs))
            i, j = int(self.row[k]), int(self.col[k])
            raise ValueError(f"{name}: the table is not symmetric at ({i}, {j})")
        return values
