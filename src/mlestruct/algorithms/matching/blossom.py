"""Best matchings of a general graph, exactly: Edmonds' algorithm after a fractional start.

The search starts from the best fractional matching: each of its odd cycles of halves leaves one
node exposed, all others are matched. It runs on edges of small slack, and again with those that
the prices (dual variables) then violate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ..._running import check_time
from ...exceptions import InfeasibleError
from . import _blossom_kernels as kernels
from .assignment import FractionalMatching, chains, edges_between, fractional_matching, name_nodes

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Matching:
    """Chosen edges, nodes that stay single, and the fractional prices, for a warm start."""

    edges: Ints
    single_nodes: Ints
    prices: Floats
    score: float


def best_matching(
    n: int,
    ptr: Ints,
    col: Ints,
    scores: Floats,
    *,
    single: Floats | None = None,
    warm: Floats | None = None,
) -> Matching:
    """The matching of the largest total score.

    Parameters
    ----------
    ptr, col : edges of a simple graph, each stored once at its smaller end (CSR)
    single : scores of leaving nodes single; None: the matching must be perfect
    warm : prices of a similar problem.

    Raises `InfeasibleError` if there is no perfect matching: without the nodes it names the graph
    falls into more odd groups than there are such nodes to match them with (Tutte's theorem).
    """
    if single is None and n % 2:
        raise InfeasibleError(f"{n} nodes: an odd number cannot be matched perfectly", [], "nodes")
    try:
        relaxed = fractional_matching(n, ptr, col, scores, single=single, warm=warm)
    except InfeasibleError as error:
        raise _infeasible(n, ptr, col, _neighbours(n, ptr, col, error.rows)) from None
    nodes = np.arange(n)
    mate = relaxed.after
    if (mate[mate] != nodes).any():
        mate = _repair(n, ptr, col, scores, single, relaxed)
    lower = np.flatnonzero(mate > nodes)
    edges = np.sort(edges_between(n, ptr, col, lower, mate[lower]))
    alone = np.flatnonzero(mate == nodes)
    score = float(scores[edges].sum())
    if single is not None:
        score += float(single[alone].sum())
    return Matching(edges, alone, relaxed.prices, score)


def _repair(
    n: int,
    ptr: Ints,
    col: Ints,
    scores: Floats,
    single: Floats | None,
    relaxed: FractionalMatching,
) -> Ints:
    """The best matching, from the best fractional one."""
    y, begin = relaxed.prices, relaxed.after.copy()
    for odd in chains(begin):
        begin[odd[0]] = -1
        begin[odd[1::2]], begin[odd[2::2]] = odd[2::2], odd[1::2]
    row = np.repeat(np.arange(n), np.diff(ptr))
    slack = y[row] + y[col] - scores
    rounding = 1e-12 * float(np.abs(y).max())
    some = min(8 * n, slack.size - 1)
    near = slack <= max(float(np.partition(slack, some)[some]), rounding)
    while True:
        s, d = kernels.without_blossoms(y, begin)
        graph = _both_ways(n, row[near], col[near], scores[near])
        outer, inner = _match_exactly(s, d, graph, single)
        if outer.any() and near.all():
            raise _infeasible(n, ptr, col, np.flatnonzero(inner == 1))
        missing = np.ones(slack.size, np.bool_)
        if not outer.any():
            kernels.violated(ptr, col, scores, s, d, -rounding, missing)
        missing &= ~near
        if not missing.any():
            mate = np.empty(n, np.int64)
            kernels.unfold(s, mate)
            return mate
        near |= missing


def _both_ways(n: int, row: Ints, col: Ints, scores: Floats) -> tuple[Ints, Ints, Floats]:
    """The edges from both ends, as (start, node, weight)."""
    tail = np.r_[row, col]
    order = np.argsort(tail, kind="stable")
    start = np.r_[0, np.cumsum(np.bincount(tail, minlength=n))]
    return start, np.r_[col, row][order], np.r_[scores, scores][order]


def _match_exactly(
    s: Ints, d: Floats, neighbours: tuple[Ints, Ints, Floats], single: Floats | None
) -> tuple[Ints, Ints]:
    """Cover every exposed vertex by an optimal matching, in the state (s, d).

    Returns the outer and inner vertices of stuck trees, marked with the number of the tree from 1.
    """
    start, node, weight = neighbours
    n = start.size - 1
    skip = np.zeros(0) if single is None else single
    graph = start, node, np.repeat(np.arange(n), np.diff(start)), weight
    eps = 1e-15 * float(np.abs(d[:n, kernels.Y]).max(initial=0.0))
    members = np.empty(8 * n + 8, np.int64)
    scratch = np.empty(n, np.int64), np.empty(n, np.int64), members, np.zeros(2 * n, np.bool_)
    outer, inner = np.zeros(n, np.int64), np.zeros(n, np.int64)
    failed = 0
    for brief in (True, False):  # all trees briefly, then one after the other to the end
        for vertex in np.flatnonzero(s[s[:n, kernels.TOP], kernels.MATE_OUT] == -1).tolist():
            root = s[vertex, kernels.TOP]
            if s[root, kernels.MATE_OUT] != -1 or outer[vertex]:
                continue
            check_time("the best matching")
            if kernels.search(s, d, root, brief, graph, skip, eps, scratch):
                failed += 1
                label = s[s[:n, kernels.TOP], kernels.LABEL]
                known = (outer > 0) | (inner > 0)
                outer[(label == kernels.OUTER) & ~known] = failed
                inner[(label == kernels.INNER) & ~known] = failed
    return outer, inner


def _neighbours(n: int, ptr: Ints, col: Ints, nodes: list[int]) -> Ints:
    """All nodes with an edge to one of `nodes`."""
    inside = np.zeros(n, bool)
    inside[nodes] = True
    tail = np.repeat(np.arange(n), np.diff(ptr))
    return np.union1d(col[inside[tail]], tail[inside[col]])


def _infeasible(n: int, ptr: Ints, col: Ints, removed: Ints) -> InfeasibleError:
    """The error that names nodes whose removal leaves too many components of odd size."""
    kept = np.ones(n, bool)
    kept[removed] = False
    tail = np.repeat(np.arange(n), np.diff(ptr))
    stays = kept[tail] & kept[col]
    graph = coo_array((np.ones(stays.sum()), (tail[stays], col[stays])), shape=(n, n))
    group = connected_components(graph, directed=False)[1]
    odd = int((np.bincount(group[kept]) % 2).sum())
    if removed.size == 0:
        message = f"no perfect matching: the graph falls into {odd} groups of odd size"
    else:
        message = (
            f"no perfect matching: removing {name_nodes(removed)} leaves {odd} odd groups that "
            "cannot all be matched"
        )
    return InfeasibleError(message, removed.tolist(), "nodes")
