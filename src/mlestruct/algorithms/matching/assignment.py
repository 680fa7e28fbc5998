"""MAP decoding of matchings: the assignment problem, in scores to be maximised.

Shortest-augmenting-path kernels return the dual variables (prices) too and reuse them; sparse
graphs stay sparse. The best fractional matching of a general graph, a vertex of its local polytope,
is an assignment on the double cover, which has every node as a row and as a column: the mean of
both directions of an edge.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import maximum_bipartite_matching
from scipy.sparse.linalg import cg

from ..._running import wait_for
from ...exceptions import InfeasibleError
from ._assignment_kernels import assign_dense, assign_sparse, first_prices

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LARGE = 500_000  # pairs whose assignment may take seconds
NOWHERE = np.zeros(0)  # scores of single nodes where there are none


class Assignment(NamedTuple):
    """row_to_col (-1: single) and prices p: matched rows have their largest score[i, j] - p[j]."""

    row_to_col: Ints
    prices: Floats


class FractionalMatching(NamedTuple):
    """A vertex of the local polytope of a graph, and prices y that prove it optimal.

    `after` is the node itself where it stays single and its partner in a pair; all other nodes are
    on odd cycles of edges of value 1/2, and `after` is the next. score_e <= y_i + y_j on all edges,
    y_i >= single_i, and sum(y) is the score.
    """

    after: Ints
    prices: Floats


def assign(
    scores: Floats,
    *,
    row_single: Floats | None = None,
    col_single: Floats | None = None,
    warm: Floats | None = None,
) -> Assignment:
    """Best assignment of a dense score matrix of shape (n, m), -inf where a pair is not allowed.

    Parameters
    ----------
    row_single : array of shape (n,), scores of single rows; None: every row must be assigned (one
        that cannot be gets -2)
    col_single : array of shape (m,), scores of single columns; None: 0, if m > n
    warm : array of shape (m,), prices of a similar problem, used where no node may stay single
    """
    n, m = scores.shape
    columns = np.zeros(m) if col_single is None else col_single
    row_to_col = np.empty(n, np.int64)
    if row_single is not None or col_single is not None or n != m:
        v = np.zeros(m)
    elif warm is None:
        first_prices(scores, v := np.empty(m))
        np.negative(v, v)
    else:
        v = -warm
    cost = -scores if col_single is None else columns - scores
    skip = NOWHERE if row_single is None else -row_single
    problem = cost, row_single is not None, skip, v, row_to_col
    if scores.size > LARGE:
        wait_for("assignment", assign_dense, *problem)
    else:
        assign_dense(*problem)
    return Assignment(row_to_col, columns - v)


def assign_edges(
    ptr: Ints,
    col: Ints,
    scores: Floats,
    n_cols: int,
    *,
    row_single: Floats | None = None,
    col_single: Floats | None = None,
    warm: Floats | None = None,
) -> tuple[Ints, Floats]:
    """The same on the edges of a CSR graph; returns (edge per row or -1, prices)."""
    n = ptr.shape[0] - 1
    cost = -scores if col_single is None else col_single[col] - scores
    exact = row_single is None and col_single is None and n == n_cols
    v = -warm if (warm is not None and exact) else np.zeros(n_cols)
    choice = np.empty(n, np.int64)
    col_to_row = np.empty(n_cols, np.int64)
    skip = np.zeros(0) if row_single is None else -row_single
    row = np.repeat(np.arange(n), np.diff(ptr))
    problem = ptr, row, col, cost, row_single is not None, skip, v, choice, col_to_row
    if cost.size > LARGE:
        wait_for("assignment", assign_sparse, *problem)
    else:
        assign_sparse(*problem)
    return choice, -v if col_single is None else col_single - v


def fractional_matching(
    n: int,
    ptr: Ints,
    col: Ints,
    scores: Floats,
    *,
    single: Floats | None = None,
    warm: Floats | None = None,
) -> FractionalMatching:
    """Maximise the score over {tau >= 0, the edges at every node (and its single) sum to one}.

    Parameters
    ----------
    ptr, col : edges of a simple graph, each stored once at its smaller end (CSR)
    single : scores of leaving nodes single; None: every node must be covered
    warm : prices of a similar problem

    Raises `InfeasibleError` with nodes that have too few neighbours to be covered.
    """
    given = (("scores", scores, col.size), ("single", single, n), ("warm", warm, n))
    for name, values, size in given:
        if values is not None and (np.shape(values) != (size,) or not np.isfinite(values).all()):
            raise ValueError(f"{name} must be {size} finite numbers")
    scores = np.asarray(scores, np.float64)
    if n * n <= 8 * max(col.size, 2000):  # the dense kernel is faster
        row = np.repeat(np.arange(n), np.diff(ptr))
        table = np.full((n, n), -np.inf)
        table[row, col] = table[col, row] = scores
        after, prices = assign(table, row_single=single, col_single=single, warm=warm)
        own = table[np.arange(n), np.maximum(after, 0)]
    else:
        both = double_cover(n, ptr, col)
        start, node = both.indptr.astype(np.int64), both.indices.astype(np.int64)
        values = scores[both.data - 1]
        if single is None and warm is None:
            warm = _first_prices(start, node, values)
        edge, prices = assign_edges(
            start, node, values, n, row_single=single, col_single=single, warm=warm
        )
        after, own = np.where(edge < 0, edge, node[edge]), values[edge]
    if (after == -2).any():
        raise _uncovered(double_cover(n, ptr, col))
    of_row = own - prices[after]
    if single is not None:
        of_row = np.where(after < 0, single, of_row)
    return FractionalMatching(_rounded(after), 0.5 * (of_row + prices))


def double_cover(n: int, ptr: Ints, col: Ints) -> sparse.csr_array:
    """Every edge in both directions; the entries are the edges' numbers plus 1."""
    upper = sparse.csr_array((np.arange(1, col.size + 1), col, ptr), shape=(n, n))
    return sparse.csr_array(upper + upper.T)


def _first_prices(start: Ints, node: Ints, values: Floats) -> Floats:
    """The least-squares fit of y_i + y_j to the values, or 0 where that is the tighter bound."""
    degree = np.diff(start)
    zero = np.zeros(degree.size)
    if not degree.all():
        return zero  # no matching covers all nodes
    links = sparse.csr_array((np.ones(node.size), node, start), shape=(zero.size, zero.size))
    system = links + sparse.diags_array(degree.astype(np.float64))
    fit = cg(system, np.add.reduceat(values, start[:-1]), rtol=1e-10, maxiter=100)[0]
    plain, fitted = (
        np.maximum.reduceat(values - y[node], start[:-1]).sum() + y.sum() for y in (zero, fit)
    )
    return zero if plain < fitted - 1e-13 * abs(fitted) else fit


def _rounded(to: Ints) -> Ints:
    """Pairs in place of paths and of even cycles; their ends are single, -1 stands for no node.

    Either way of pairing has the same score: their mean is the best point.
    """
    after = np.where(to < 0, np.arange(to.size), to)
    for chain in chains(to):
        if to[chain[-1]] < 0 or chain.size % 2 == 0:
            one, other = chain[: chain.size // 2 * 2].reshape(-1, 2).T
            after[one], after[other] = other, one
            after[chain[2 * one.size :]] = chain[2 * one.size :]
    return after


def chains(to: Ints) -> Iterator[Ints]:
    """The nodes of each path, and of each cycle of three nodes or more, in their order."""
    nodes = np.arange(to.size)
    linked = to >= 0
    first = linked.copy()
    first[to[linked]] = False
    follow, seen = to.tolist(), set[int]()
    for begin in np.r_[np.flatnonzero(first), np.flatnonzero(linked & (to[to] != nodes))].tolist():
        if begin in seen:
            continue
        chain = [begin]
        while follow[chain[-1]] not in (-1, begin):
            chain.append(follow[chain[-1]])
        seen.update(chain)
        yield np.array(chain)


def edges_between(n: int, ptr: Ints, col: Ints, a: Ints, b: Ints) -> Ints:
    """Where the edges a-b are stored."""
    low, high = np.minimum(a, b), np.maximum(a, b)
    if col.size == n * (n - 1) // 2:
        return ptr[low] + high - low - 1
    keys = np.repeat(np.arange(n), np.diff(ptr)) * n + col
    return np.searchsorted(keys, low * n + high)


def _uncovered(both: sparse.csr_array) -> InfeasibleError:
    """The error that names nodes with too few neighbours: all that alternating paths reach."""
    partner = maximum_bipartite_matching(both, perm_type="column")
    inside = np.arange(partner.size) == np.argmin(partner)
    while True:
        near = both @ inside > 0
        grown = inside | (near[partner] & (partner >= 0))
        if (grown == inside).all():
            break
        inside = grown
    nodes = np.flatnonzero(inside)
    return InfeasibleError(
        f"no fractional matching covers all {partner.size} nodes: {name_nodes(nodes)} together "
        f"have only {counted(int(near.sum()), 'neighbour')}",
        nodes.tolist(),
        "nodes",
    )


def counted(number: int, noun: str) -> str:
    """ "1 node" or "2 nodes"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def name_nodes(nodes: Ints, limit: int = 10) -> str:
    """The nodes for a message, not too many of them."""
    shown = ", ".join(map(str, nodes[:limit].tolist()))
    more = ", ..." if nodes.size > limit else ""
    return f"the {counted(nodes.size, 'node')} [{shown}{more}]"
