"""A proven lower bound of log Z for matchings in any graph, from a cut of the nodes into two sides.

In a general graph the Bethe value is no bound. But leaving out all pairs within either side only
takes matchings away, and what remains is bipartite, where the Bethe value is a lower bound (Gurvits
2011 for perfect matchings, Ruozzi 2012 and Csikvari 2017 in general): log Z >= log Z of the cut >=
its Bethe value. The sides are chosen such that the best matching and as much marginal mass as
possible cross.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array

from ..graphs.bipartite import BipartiteGraph
from .bipartite import BipartiteMatching

if TYPE_CHECKING:
    from .local import LocalMatching

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def bipartition_bound(
    structure: LocalMatching, scores: Floats, tol: float = 1e-6, n_improve: int = 60
) -> float:
    """A lower bound of log Z, at least the score of the best matching.

    It is far above the bound from swaps around the best matching where many matchings matter,
    and can be below it where few do; the larger of the two is a bound as well.

    Parameters
    ----------
    structure : LocalMatching or MatchingPolytope
        With capacities above 1 or of 0, or where only some nodes may stay single, the answer is
        -inf.
    scores : array of shape (n_coordinates,)
    tol : certified gap of the Bethe value
    n_improve : rounds of search for a good cut

    Examples
    --------
    >>> from mlestruct.structures.matchings.local import LocalMatching
    >>> ten = LocalMatching(10)  # has 945 perfect matchings, 120 of which cross an even cut
    >>> bound = bipartition_bound(ten, np.zeros(45))
    >>> round(bound, 2), round(float(np.log(120)), 2), round(float(np.log(945)), 2)
    (3.58, 4.79, 6.85)
    """
    scores = np.asarray(scores, dtype=np.float64)
    if scores.shape != (structure.n_coordinates,) or not np.isfinite(scores).all():
        raise ValueError(
            f"scores: expected {structure.n_coordinates} finite numbers, got shape {scores.shape}"
        )
    free = structure.free
    if (structure.capacity != 1).any() or (free.any() and not free.all()):
        return -np.inf
    best = structure.decode_integral(scores)
    side = _sides(structure, scores, structure.label(best.vertex), n_improve)
    return max(best.score, _bethe_across(structure, scores, side, tol))


def _sides(structure: LocalMatching, scores: Floats, partner: Ints, n_improve: int) -> Bools:
    """Which nodes are on the first side: partners never are on the same."""
    nodes = np.arange(partner.shape[0])
    first = (partner < 0) | (partner > nodes)
    unit = np.empty(partner.shape[0], dtype=np.int64)
    unit[first] = np.arange(int(first.sum()))
    unit[~first] = unit[partner[~first]]
    sign = np.where(first, 1.0, -1.0)
    row, col = structure.graph.row, structure.graph.col
    mass = _marginal_mass(structure, scores)
    # An edge crosses if its ends' signs, each times that of its unit, differ.
    apart = unit[row] != unit[col]
    i, j = unit[row[apart]], unit[col[apart]]
    value = -(mass * sign[row] * sign[col])[apart]
    size = int(first.sum())
    coupling: Any = coo_array(
        (np.concatenate([value, value]), (np.concatenate([i, j]), np.concatenate([j, i]))),
        shape=(size, size),
    ).tocsr()
    # From a tenth of nonzero couplings on, a full matrix is faster.
    if coupling.nnz > 0.1 * size**2:
        coupling = coupling.toarray()
    return (sign * _best_signs(coupling, n_improve)[unit]) > 0.0


def _marginal_mass(structure: LocalMatching, scores: Floats) -> Floats:
    """Marginals of the edges over the local polytope; they are a guide and need not be exact."""
    found = structure.local_marginals(scores, 1e-3 * structure.n_nodes)
    mass: Floats = np.nan_to_num(found.tau[: structure.n_scored])
    return mass


def _best_signs(coupling: Any, n_improve: int) -> Floats:
    """Signs s with a large sum of coupling_ij s_i s_j: all equal at first, and random starts.

    In each round about half of those that would do better turned are turned, if that helps.
    """
    rng = np.random.default_rng(0)
    size = coupling.shape[0]
    # Eight searches side by side.
    signs = np.where(rng.random((size, 8)) < 0.5, 1.0, -1.0)
    signs[:, 0] = 1.0
    field = coupling @ signs
    value = (signs * field).sum(axis=0)
    for _ in range(n_improve):
        wrong = signs * field < 0.0
        if not wrong.any():
            break
        trial = np.where(wrong & (rng.random(signs.shape) < 0.5), -signs, signs)
        field_there = coupling @ trial
        value_there = (trial * field_there).sum(axis=0)
        better = value_there > value
        signs = np.where(better, trial, signs)
        field = np.where(better, field_there, field)
        value = np.maximum(value, value_there)
    chosen: Floats = signs[:, int(np.argmax(value))]
    return chosen


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
