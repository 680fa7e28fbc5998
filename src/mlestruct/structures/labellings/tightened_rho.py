"""The tightest of the upper bounds log Z_rho of log Z: rho chosen for the scores at hand.

log Z_rho is convex in rho, with slope -I_e, the mutual information of the ends of edge e under its
optimal tau. Frank-Wolfe over the spanning-tree polytope needs a spanning tree of the largest total
information in each step (Wainwright, Jaakkola and Willsky 2005). Trees are directed away from a
root, so that mixtures of them stay split into conditional entropies, which the certificate of log
Z_rho rests on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree
from scipy.special import xlogy

from ..rho import SMALLEST_RHO, Reweighting, reweighting

if TYPE_CHECKING:
    from .pairwise import Pairwise

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TightenedWeights:
    """A rho found by `tighten`.

    Attributes
    ----------
    rho : (n_edges,)
    structure : the structure with that rho
    upper_bound : proven, log Z <= log Z_rho <= upper_bound
    start_bound : the same of the rho at the start
    gap : proven, no rho in the spanning-tree polytope has log Z_rho < upper_bound - gap
    iterations : steps made
    """

    rho: Floats
    structure: Pairwise
    upper_bound: float
    start_bound: float
    gap: float
    iterations: int


def tighten(
    structure: Pairwise,
    scores: Floats,
    max_iter: int = 30,
    tol: float = 1e-3,
    callback: Callable[[TightenedWeights], bool | None] | None = None,
) -> TightenedWeights:
    """Lower log Z_rho(scores) over the rho of spanning trees; every bound on the way is proven.

    Starts from the structure's own rho, or from that of uniformly random trees if it is better or
    the own one lies outside the polytope. On a forest rho = 1 is exact.

    Parameters
    ----------
    structure : Pairwise
    scores : array of shape (n_coordinates,)
    max_iter : steps at most
    tol : the gap at which to stop
    callback : gets the weights after each step; a true answer stops

    Examples
    --------
    >>> from mlestruct.structures import Pairwise, PairwiseGraph
    >>> triangle = Pairwise(PairwiseGraph(3, [[0, 1], [1, 2], [0, 2]]), 2)
    >>> nodes = np.array([[0.0, -2.0], [0.0, -4.0], [0.0, -2.0]])
    >>> edges = np.array([4.0, 4.0, 0.1])[:, None, None] * [[0, 0], [0, 1]]
    >>> found = tighten(triangle, triangle.from_tables(nodes, edges))
    >>> round(found.start_bound, 2), round(found.upper_bound, 2)  # log Z is 0.988
    (1.25, 0.99)
    >>> found.rho.round(1)
    array([1., 1., 0.])
    """
    scores = np.asarray(scores, dtype=np.float64)
    if scores.shape != (structure.n_coordinates,) or not np.isfinite(scores).all():
        raise ValueError(
            f"scores: expected {structure.n_coordinates} finite numbers, got shape {scores.shape}"
        )
    if max_iter < 0 or not tol >= 0.0:
        raise ValueError(f"max_iter and tol must be 0 or more, got {max_iter!r} and {tol!r}")
    forests = _SpanningForests(structure.graph)
    state, start_bound, even = _start(structure, scores, tol)
    share, steps, told = 0.05, 0, 0  # what marginals may leave open, as a share of what rho does
    while True:
        information = _mutual_information(state.structure, state.tau)
        tree = forests.heaviest(information)
        inside = float(information @ (tree.sum(axis=0) - state.split.sum(axis=0)))
        gap = max(state.upper_bound - state.value + inside, 0.0)
        found = TightenedWeights(
            state.structure.reweighting.rho,
            state.structure,
            state.upper_bound,
            start_bound,
            gap,
            steps,
        )
        if steps > told and callback is not None and callback(found):
            return found
        told = steps
        if gap <= tol or steps >= max_iter:
            return found
        target = _at_least_smallest(tree, even)
        accuracy = share * max(inside, tol)
        following = _line_search(state, target, scores, accuracy, 2.0 / (steps + 3.0))
        if following is not None:
            state = following
            steps += 1
        elif share > 1e-5:  # what marginals leave open may hide an improvement
            share *= 0.1
            state = _refined(state, scores, 0.1 * accuracy)
        else:
            return found


@dataclass(frozen=True, eq=False)
class _State:
    """A structure with its rho, as the parts into tails and into heads, and its marginals."""

    structure: Pairwise
    split: Floats
    tau: Floats
    value: float
    upper_bound: float
    warm: Any


def _start(structure: Pairwise, scores: Floats, tol: float) -> tuple[_State, float, Floats]:
    """Where to start, the bound of the structure's own rho, and the split of uniform trees."""
    uniform: Any = reweighting(structure.graph, "uniform")
    own = structure.reweighting
    even = np.stack([uniform.into_tail, uniform.into_head])
    first = _solve(structure, even, scores, None, tol)
    if not own.is_concave:
        return first, first.upper_bound, even
    assert own.into_tail is not None
    assert own.into_head is not None
    second = _solve(structure, np.stack([own.into_tail, own.into_head]), scores, None, tol)
    best = min(first, second, key=lambda state: state.upper_bound)
    return best, second.upper_bound, even


def _solve(structure: Pairwise, split: Floats, scores: Floats, warm: Any, tol: float) -> _State:
    """Marginals under another rho."""
    other = structure.with_rho(Reweighting(structure.graph, split.sum(axis=0), split[0], split[1]))
    found = other.marginals(scores, warm, tol)
    return _State(other, split, found.tau, found.value, found.upper_bound, found.warm)


def _refined(state: _State, scores: Floats, tol: float) -> _State:
    """The same rho, its marginals to a smaller gap; never worse ones, nor a worse bound."""
    finer = _solve(state.structure, state.split, scores, state.warm, tol)
    bound = min(finer.upper_bound, state.upper_bound)
    return replace(max(state, finer, key=lambda one: one.value), upper_bound=bound)


def _line_search(
    state: _State, target: Floats, scores: Floats, tol: float, first: float, trials: int = 5
) -> _State | None:
    """The best certain improvement on the way to `target`, None if there is none.

    log Z_rho is convex along the way: its slope is followed to where a fifth of it is left. At the
    end of the way, which is not reached, other edges than those of the tree have hardly any weight.
    """
    direction = target - state.split
    along = direction.sum(axis=0)

    def slope(at: _State) -> float:
        return -float(_mutual_information(at.structure, at.tau) @ along)

    low, slope_low = 0.0, slope(state)
    if slope_low >= 0.0:
        return None
    least, high, slope_high = -0.2 * slope_low, 0.9, np.inf
    step, best, near = first, None, state
    for _ in range(trials):
        split = state.split + step * direction
        # Messages times rho are what beliefs are made of, so these are kept.
        ratio = (near.split.sum(axis=0) / split.sum(axis=0))[:, None]
        warm = tuple(messages * ratio for messages in near.warm)
        trial = _solve(state.structure, split, scores, warm, tol)
        if trial.upper_bound < (state if best is None else best).upper_bound:
            best = trial
        if trial.upper_bound - trial.value > tol:  # unsolved: its slope says little
            high, slope_high, step = step, np.inf, low + 0.5 * (step - low)
            continue
        near, now = trial, slope(trial)
        if abs(now) <= least or (now < 0.0 and step >= high):
            break
        if now < 0.0:
            low, slope_low = step, now
        else:
            high, slope_high = step, now
        if np.isfinite(slope_high):
            share = slope_low / (slope_low - slope_high)
            step = low + (high - low) * min(max(share, 0.1), 0.9)
        else:
            step = min(3.0 * step, high)
    return best


def _at_least_smallest(tree: Floats, even: Floats) -> Floats:
    """The tree, mixed with uniform trees as far as it takes to leave no edge without weight."""
    share = min(SMALLEST_RHO / float(even.sum(axis=0).min(initial=1.0)), 1.0)
    return (1.0 - share) * tree + share * even


def _mutual_information(structure: Pairwise, tau: Floats) -> Floats:
    """Of the two ends of every edge."""
    tables = structure.edge_marginals(tau)
    rows, columns = tables.sum(axis=2), tables.sum(axis=1)
    joint = xlogy(tables, tables).sum(axis=(1, 2))
    apart = xlogy(rows, rows).sum(axis=1) + xlogy(columns, columns).sum(axis=1)
    return np.maximum(joint - apart, 0.0)


class _SpanningForests:
    """Spanning trees of every component of a graph, directed away from its first node."""

    def __init__(self, graph: Any):
        self.n_nodes = graph.n_nodes
        self.tail, self.head = graph.tail.astype(np.int64), graph.head.astype(np.int64)
        keys = self._keys(self.tail, self.head)
        self.by_key = np.argsort(keys)
        self.keys = keys[self.by_key]
        _, component = connected_components(self._links(self.tail, self.head), directed=False)
        self.roots = np.unique(component, return_index=True)[1]

    def heaviest(self, weight: Floats) -> Floats:
        """Edges of the heaviest forest: whether one points into its tail, into its head."""
        n = self.n_nodes
        cost = 1.0 + weight.max(initial=0.0) - weight  # SciPy takes 0 for no edge
        forest = minimum_spanning_tree(self._links(self.tail, self.head, cost)).tocoo()
        # A node joined to all roots makes one tree of them.
        above = np.full(self.roots.shape[0], n)
        joined = self._links(
            np.concatenate([forest.row, above]), np.concatenate([forest.col, self.roots])
        )
        _, parent = breadth_first_order(joined, n, directed=False)
        child = np.flatnonzero((parent[:n] >= 0) & (parent[:n] < n))
        wanted = self._keys(parent[child].astype(np.int64), child)
        edge = self.by_key[np.searchsorted(self.keys, wanted)]
        into = np.zeros((2, self.tail.shape[0]))
        into[(self.head[edge] == child).astype(np.int64), edge] = 1.0
        return into

    def _keys(self, i: Ints, j: Ints) -> Ints:
        return np.minimum(i, j) * (self.n_nodes + 1) + np.maximum(i, j)

    def _links(self, i: Ints, j: Ints, values: Floats | None = None) -> Any:
        size = self.n_nodes + 1
        data = np.ones(i.shape[0]) if values is None else values
        ends = i.astype(np.int32), j.astype(np.int32)  # SciPy 1.15 finds no trees with others
        return coo_array((data, ends), shape=(size, size)).tocsr()
