"""Best matchings of a general graph, exactly: Edmonds' algorithm after a fractional start.

The search starts from the best fractional matching: each of its odd cycles of halves leaves one
node exposed, all others are matched. It runs on edges of small slack; the prices (dual variables)
of nodes and blossoms are then compared with all edges, which proves the optimum or gives the edges
to add.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ..._deadline import check_time
from ...exceptions import InfeasibleError
from . import _blossom_kernels as kernels
from ._fractional_kernels import HALF, break_cycle
from .fractional import (
    CANDIDATES,
    Candidates,
    Cover,
    best_cover,
    checked_scores,
    edge_indices,
    name_nodes,
)

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
    scores, single = checked_scores(n, ptr, scores, single)
    if single is None and n % 2:
        raise InfeasibleError(f"{n} nodes: an odd number cannot be matched perfectly", [], "nodes")
    try:
        cover = best_cover(n, ptr, col, scores, single, warm)
    except InfeasibleError as error:
        raise _infeasible(n, ptr, col, _neighbours(n, ptr, col, error.rows)) from None
    mate = cover.mate
    if (mate == HALF).any():
        mate = _repair(n, ptr, col, scores, single, cover)
    nodes = np.arange(n)
    lower = np.flatnonzero(mate > nodes)
    edges = np.sort(edge_indices(ptr, col, lower, mate[lower]))
    alone = np.flatnonzero(mate == nodes)
    score = float(scores[edges].sum())
    if single is not None:
        score += float(single[alone].sum())
    return Matching(edges, alone, cover.prices, score)


def _repair(
    n: int, ptr: Ints, col: Ints, scores: Floats, single: Floats | None, cover: Cover
) -> Ints:
    """The best matching, from the best fractional one."""
    may_skip = single is not None
    skip = np.zeros(0) if single is None else single
    begin = cover.mate.copy()
    for i in np.flatnonzero(begin == HALF).tolist():
        if begin[i] == HALF:
            break_cycle(i, begin, cover.cycle)
    sparse = Candidates(n, ptr, col, scores, cover.prices)
    paired = np.flatnonzero(begin > np.arange(n))
    sparse.chosen[edge_indices(ptr, col, paired, begin[paired])] = True
    mate = np.empty(n, np.int64)
    while True:
        s, d = kernels.without_blossoms(cover.prices, begin)
        outer, inner = _match_exactly(s, d, sparse.neighbours(), may_skip, skip)
        y, top = d[:n, kernels.Y].copy(), s[:n, kernels.TOP].copy()
        if outer.any():
            if not sparse.add_escapes(y, outer > 0, inner > 0, top):
                raise _infeasible(n, ptr, col, np.flatnonzero(inner == 1))
        elif not _add_violated(sparse, s, d, y, top):
            kernels.unfold(s, mate)
            return mate


def _match_exactly(
    s: Ints, d: Floats, neighbours: tuple[Ints, Ints, Floats], may_skip: bool, skip: Floats
) -> tuple[Ints, Ints]:
    """Cover every exposed vertex by an optimal matching, in the state (s, d).

    Returns the outer and inner vertices of stuck trees, marked with the number of the tree from 1.
    """
    start, node, weight = neighbours
    n = start.size - 1
    graph = start, node, np.repeat(np.arange(n), np.diff(start)), weight
    eps = 1e-15 * float(np.abs(d[:n, kernels.Y]).max(initial=0.0))
    members = np.empty(8 * n + 8, np.int64)
    scratch = np.empty(n, np.int64), np.empty(n, np.int64), members, np.zeros(2 * n, np.bool_)
    keys, items = np.empty(node.size + n), np.empty(node.size + n, np.int64)
    outer, inner = np.zeros(n, np.int64), np.zeros(n, np.int64)
    failed = 0
    for brief in (True, False):  # all trees briefly, then one after the other to the end
        for vertex in np.flatnonzero(s[s[:n, kernels.TOP], kernels.MATE_OUT] == -1).tolist():
            root = s[vertex, kernels.TOP]
            if s[root, kernels.MATE_OUT] != -1 or outer[vertex]:
                continue
            check_time("the best matching")
            count = kernels.search(
                s, d, root, brief, graph, may_skip, skip, eps, scratch, keys, items
            )
            if count:
                failed += 1
                label = s[s[:n, kernels.TOP], kernels.LABEL]
                known = (outer > 0) | (inner > 0)
                outer[(label == kernels.OUTER) & ~known] = failed
                inner[(label == kernels.INNER) & ~known] = failed
    return outer, inner


def _add_violated(sparse: Candidates, s: Ints, d: Floats, y: Floats, top: Ints) -> bool:
    """Add the edges that the prices of nodes and blossoms violate; False if there are none.

    `s` and `d` are the state of the kernels, y and top the prices and top nodes of the vertices.
    """
    if sparse.complete:
        return False
    around = kernels.nested_prices(s, d)
    items = np.empty((sparse.n, CANDIDATES), np.int64)
    limit = sparse.limit(y)
    kernels.violated(sparse.ptr, sparse.col, sparse.scores, s, y, top, around, limit, items)
    return sparse.add(items)


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
