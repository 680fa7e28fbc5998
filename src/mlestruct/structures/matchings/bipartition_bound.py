"""A proven lower bound of log Z for matchings in any graph, from a cut of the nodes into two sides.

In a general graph the Bethe value is no bound. But leaving out all pairs within either side only
takes matchings away, and what remains is bipartite, where the Bethe value is a lower bound (Gurvits
2011 for perfect matchings, Ruozzi 2012 and Csikvari 2017 in general): log Z >= log Z of the cut >=
its Bethe value. The sides are chosen such that the best matching and as much marginal mass as
possible cross.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array

from ..graphs.bipartite import BipartiteGraph
from ..graphs.simple import SimpleGraph
from .bipartite import BipartiteMatching

if TYPE_CHECKING:
    from .local import LocalMatching

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def bipartition_bound(structure: LocalMatching, scores: Floats, mass: Floats, tol: float) -> float:
    """A lower bound of log Z, at least the score of the best matching.

    Parameters
    ----------
    structure : LocalMatching or MatchingPolytope of capacity 1, all nodes or none free
    scores : array of shape (n_coordinates,)
    mass : array of shape (n_edges,), marginals that guide the cut; any values give a bound
    tol : certified gap of the Bethe value

    Examples
    --------
    >>> from mlestruct.structures import LocalMatching
    >>> ten = LocalMatching(10)  # has 945 perfect matchings, 120 of which cross an even cut
    >>> bound = bipartition_bound(ten, np.zeros(45), np.ones(45), 1e-6)
    >>> round(bound, 2), round(float(np.log(120)), 2), round(float(np.log(945)), 2)
    (3.58, 4.79, 6.85)
    """
    best = structure.decode_integral(scores)
    side = cut(structure.graph, structure.label(best.vertex), mass)
    return max(best.score, _bethe_across(structure, scores, side, tol))


def cut(graph: SimpleGraph, partner: Ints, mass: Floats) -> Bools:
    """Which nodes are on the first side: partners never are on the same.

    Starting from any sides, each pair of partners changes sides while more mass crosses then.
    """
    nodes = np.arange(partner.shape[0])
    first = (partner < 0) | (partner > nodes)
    unit = np.empty(partner.shape[0], dtype=np.int64)
    unit[first] = np.arange(int(first.sum()))
    unit[~first] = unit[partner[~first]]
    sign = np.where(first, 1.0, -1.0)
    # An edge crosses if its ends' signs, each times that of its unit, differ.
    apart = unit[graph.row] != unit[graph.col]
    i, j = unit[graph.row[apart]], unit[graph.col[apart]]
    value = -(mass * sign[graph.row] * sign[graph.col])[apart]
    size = int(first.sum())
    ends = np.concatenate([i, j]), np.concatenate([j, i])
    coupling = coo_array((np.concatenate([value, value]), ends), shape=(size, size)).tocsr()
    turn = np.ones(size)
    field = coupling @ turn
    for _ in range(20):  # rounds; the last ones turn few
        wrong = np.flatnonzero(turn * field < 0.0)
        for k in wrong.tolist():
            if turn[k] * field[k] < 0.0:
                turn[k] = -turn[k]
                own = slice(coupling.indptr[k], coupling.indptr[k + 1])
                field[coupling.indices[own]] += 2.0 * turn[k] * coupling.data[own]
        if not wrong.size:
            break
    return sign * turn[unit] > 0.0


def _bethe_across(structure: LocalMatching, scores: Floats, side: Bools, tol: float) -> float:
    """The Bethe value of the matchings all of whose pairs have an end on each side."""
    row, col = structure.graph.row, structure.graph.col
    crossing = np.flatnonzero(side[row] != side[col])
    if crossing.size == 0:
        return -np.inf
    place = np.where(side, np.cumsum(side), np.cumsum(~side)) - 1
    turned = side[col[crossing]]
    i = place[np.where(turned, col[crossing], row[crossing])]
    j = place[np.where(turned, row[crossing], col[crossing])]
    order = np.lexsort((j, i))
    n_rows, n_cols = int(side.sum()), int((~side).sum())
    ptr = np.searchsorted(i[order], np.arange(n_rows + 1)).astype(np.int64)
    graph = BipartiteGraph(n_rows, n_cols, ptr, j[order])
    parts = [scores[crossing[order]]]
    if structure.free.any():
        single = scores[structure.n_scored :]
        parts += [single[side], single[~side]]
    bipartite = BipartiteMatching(graph, 1.0, perfect=not structure.free.any())
    value = bipartite.marginals(np.concatenate(parts), None, tol).value
    return float(value) if np.isfinite(value) else -np.inf
