"""Random matchings of any graph from P(y) proportional to exp(total score), by worm updates.

Local swaps do not connect all perfect matchings of a sparse graph: a cycle of six nodes has two
perfect matchings, which differ in all edges. As in Jerrum and Sinclair (1989), the Markov chain
therefore passes through matchings with two holes (nodes without a partner). A *worm update* moves
one of the holes through the graph (Prokof'ev and Svistunov 2001; for perfect matchings Sandvik and
Moessner 2006):

* A random node u, the tail, is separated from its partner v, the head.
* The head v draws a new partner w among all its neighbours, matched or not, with probability
  proportional to exp(score(v, w) - price(w)). The former partner of w is the new head.
* When the head draws the tail, all nodes have partners again and the update ends.

*Detailed balance.* Give the state with holes u and v the weight exp(score - prices) D_v / n, where
D_v sums exp(score(v, w) - price(v) - price(w)) over all w. A step from head v by w to head x has
the flow exp(score of the remaining edges and of (v, w) and (w, x)) / n, which is symmetric in v and
x, so it equals the flow of the reverse step; the first and the last step balance in the same way.
An update and its reverse have the same length, so undoing all updates that exceed a fixed number of
steps keeps the balance.

*Nodes that may stay single.* The head may also draw "single", with the weight of its single score;
the hole then leaves the graph. It also leaves if w was single, and it starts outside if the tail
was single. From outside it returns by a random free node w: a single node w becomes the head; a
node w with a partner x becomes single with probability exp(single(w) - price(w)), and x becomes the
head. The update also ends when the tail becomes single in this way. Prices are at least the single
scores.

*Irreducibility.* Two admissible matchings differ by alternating cycles and paths, and the ends of
the paths may be single. One update changes a cycle, from any of its nodes around it. One update
changes a path: from an end that is single, if there is one, the hole starts outside, enters at the
other end and moves back to the tail; if both ends have partners, it moves from one to the other,
leaves there, and the tail becomes single from outside. This takes at most n + 2 steps, and updates
may be longer.

*Local moves.* Between worm updates the chain proposes random edges as in Jerrum and Sinclair: it
re-pairs two pairs, or adds, removes or shifts an edge. They do most of the work where holes stay
for long inside odd groups of nodes with strong edges, so that most updates are undone.

*Prices* are dual variables of the nodes. They change the weights of admissible matchings by a
common factor only, and determine how much time the chain spends with which holes. They start from
the dual variables of the best matching and are then balanced, so that the weights of every node's
options sum to about 1.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from ...exceptions import InfeasibleError
from ..markov_chains import N_FUNCTIONS, Draws, draw
from . import _worm_chain_kernels as kernels
from .blossom import best_matching

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class WormGraph(NamedTuple):
    """Neighbour lists, entries ptr[v]:ptr[v+1] for node v, with the transition weights.

    `sums` has running sums of the weights of a node's options, `total` their sum including the
    option to stay single. Edges start[v]:start[v+1] lead from v to the larger nodes `high`.
    """

    start: Ints
    low: Ints
    high: Ints
    ptr: Ints
    col: Ints
    sums: Floats
    total: Floats
    free_nodes: Ints
    leaving: Floats  # probability to become single when the hole is outside


class UndoLog(NamedTuple):
    """Former partners of the nodes that the present worm update has changed."""

    last: Ints  # the update that last changed a node
    node: Ints
    partner: Ints
    counts: Ints  # number of this update, of the nodes it changed, and of updates undone so far


def sample_by_worms(
    n_nodes: int,
    tail: ArrayLike,
    head: ArrayLike,
    scores: ArrayLike,
    n_samples: int,
    *,
    free: ArrayLike = False,
    single: ArrayLike | None = None,
    n_chains: int = 2,
    sweeps: int = 100,
    max_sweeps: int = 50_000,
    tol_rhat: float = 1.05,
    rng: np.random.Generator,
    start: ArrayLike | None = None,
    stacklevel: int = 3,
) -> Draws:
    """Draw matchings of a graph from exp(scores of edges + single scores of unmatched nodes) / Z.

    Half of the chains start from the best matching, the others from the best one of random scores.
    They run until they agree (`markov_chains`) in the total score and a few random functions of the
    matching.

    Parameters
    ----------
    tail, head : arrays of shape (n_edges,), the nodes that each edge joins; every pair once
    scores : array of shape (n_edges,)
    free : bool or array of shape (n_nodes,), which nodes may stay single
    single : array of shape (n_nodes,), scores of staying single; 0 by default
    sweeps : first length of the chains; a sweep has as many worm updates as make about one step
        per node, and a few local moves
    max_sweeps : length at which chains that still disagree are used with a ConvergenceWarning
    start : array of shape (n_nodes,) or (n_starts, n_nodes), partners (-1: single) that the chains
        start from in turn, instead

    Returns
    -------
    Draws with states of shape (n_samples, n_nodes): partners, -1 for single

    Raises `InfeasibleError` if no matching covers all nodes that are not free.

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.algorithms.matching.worm_chain import sample_by_worms
    >>> rng = np.random.default_rng(0)
    >>> square = [0, 1, 2, 3], [1, 2, 3, 0]
    >>> sample_by_worms(4, *square, [0.0, 30.0, 0.0, 0.0], 1, rng=rng).states
    array([[3, 2, 1, 0]])
    """
    space = _WormChain(n_nodes, (tail, head), scores, free, single, start, rng)
    what = "worm chain of matchings"
    found = draw(
        space, n_samples, what=what, n_chains=n_chains, sweeps=sweeps, max_sweeps=max_sweeps,
        tol_rhat=tol_rhat, rng=rng, stacklevel=stacklevel,
    )  # fmt: skip
    if found.converged and space.is_stuck:
        warnings.warn(
            f"{what}: no worm update reached another matching, and some were undone after "
            f"{space.limit} steps",
            ConvergenceWarning,
            stacklevel=stacklevel - 1,
        )
        found = replace(found, converged=False)
    return found


class _WormChain:
    """A state has the partner of every node, -1 for single ones."""

    def __init__(
        self,
        n_nodes: int,
        ends: tuple[ArrayLike, ArrayLike],
        scores: ArrayLike,
        free: ArrayLike,
        single: ArrayLike | None,
        start: ArrayLike | None,
        rng: np.random.Generator,
    ):
        n = self.n = int(n_nodes)
        if n < 1:
            raise ValueError(f"n_nodes: expected at least 1, got {n_nodes}")
        self.low, self.high, order = _sorted_edges(n, *ends)
        self.score = finite_values("scores", scores, order.size, "edge")[order]
        self.free = _free_nodes(free, n)
        self.single = np.zeros(n)
        if single is not None:
            self.single = np.where(self.free, finite_values("single", single, n, "node"), 0.0)
        self.best, prices = best_partners(
            n, self.low, self.high, self.score, self.free, self.single
        )
        begin = np.searchsorted(self.low, np.arange(n + 1))
        ptr, col, edge = _both_ways(n, self.low, self.high, begin)
        prices = np.where(self.free, np.maximum(prices, self.single), prices)
        problem = ptr, col, self.score[edge], self.free, self.single, prices
        kernels.balance_prices(*problem, rounds=10)
        sums, total, leaving = np.empty(col.size), np.empty(n), np.empty(n)
        kernels.fill_weights(*problem, sums, total, leaving)
        self.graph = WormGraph(
            begin, self.low, self.high, ptr, col, sums, total, np.flatnonzero(self.free), leaving
        )
        self.limit = 10 * n + 100  # steps, after which an update is undone; about n is usual
        touched = np.zeros((3, n), dtype=np.int64)
        self.log = UndoLog(touched[0], touched[1], touched[2], np.zeros(3, dtype=np.int64))
        self.weights = rng.normal(size=(N_FUNCTIONS, n))
        self.starts = () if start is None else _checked_starts(start, self.free, self.graph)
        self.n_started = 0
        self.moved = False
        self.n_worms, self.n_local = self._moves_per_sweep(rng)

    def _moves_per_sweep(self, rng: np.random.Generator) -> tuple[int, int]:
        """Numbers of worm updates that make about n steps, and of local moves.

        There are half as many local moves as steps that are undone, and at least n / 16.
        """
        state, undone = self.best.copy(), self.log.counts[2:]
        for _ in range(2):  # the first count still depends on the start
            undone[:] = 0
            count = kernels.count_worms(self.graph, state, self.log, self.limit, 10 * self.n, rng)
        n_worms = max(1, round(count / 10))
        steps_undone = n_worms * self.limit * int(undone[0]) / count
        undone[:] = 0
        return n_worms, int(max(1 + self.n / 16, steps_undone / 2)) if self.score.size else 0

    def start(self, rng: np.random.Generator, near_the_best: bool) -> Ints:
        if len(self.starts):
            self.n_started += 1
            return self.starts[(self.n_started - 1) % len(self.starts)].copy()
        if near_the_best:
            return self.best.copy()
        scores = rng.normal(size=self.low.size), self.free, rng.normal(size=self.n)
        return best_partners(self.n, self.low, self.high, *scores)[0]

    def run(self, state: Ints, rng: np.random.Generator, n_sweeps: int) -> Floats:
        trace = np.empty((n_sweeps, 1 + N_FUNCTIONS))
        before = state.copy()
        kernels.sweep(
            self.graph, state, self.log, self.limit, self.n_worms, self.n_local, self.free,
            self.score, self.single, self.weights, rng, trace,
        )  # fmt: skip
        self.moved = self.moved or not np.array_equal(before, state)
        return trace

    def read(self, state: Ints) -> Ints:
        return state.copy()

    @property
    def is_stuck(self) -> bool:
        """Whether updates were undone, the state never changed, and another matching exists."""
        if self.moved or not self.log.counts[2]:
            return False
        chosen = np.where(self.best[self.low] == self.high, -1.0, 0.0)
        alone = np.where(self.best < 0, -1.0, 0.0)
        another, _ = best_partners(self.n, self.low, self.high, chosen, self.free, alone)
        return not np.array_equal(another, self.best)


def best_partners(
    n: int, low: Ints, high: Ints, scores: Floats, free: Bools, single: Floats
) -> tuple[Ints, Floats]:
    """The best matching in which only free nodes may be single, and the nodes' dual variables.

    Edges are sorted by their lower, then by their higher end. Where only some nodes are free, two
    copies of the graph are matched perfectly, in which each free node may pair with its copy.
    """
    if not (free.all() or not free.any()):
        links = np.flatnonzero(free)
        ends = np.concatenate([low, low + n, links]), np.concatenate([high, high + n, links + n])
        order = np.lexsort(ends[::-1])
        doubled = np.concatenate([scores, scores, 2.0 * single[links]])[order]
        none_free = np.zeros(2 * n, dtype=bool)
        try:
            partner, prices = best_partners(
                2 * n, ends[0][order], ends[1][order], doubled, none_free, np.zeros(2 * n)
            )
        except InfeasibleError as error:
            nodes = np.unique(np.array(error.rows, dtype=np.int64) % n)
            raise InfeasibleError(
                f"no matching covers all {n - links.size} nodes that may not stay single",
                nodes.tolist(),
                "nodes",
            ) from None
        return np.where(partner[:n] < n, partner[:n], -1), 0.5 * (prices[:n] + prices[n:])
    ptr = np.searchsorted(low, np.arange(n + 1))
    found = best_matching(n, ptr, high, scores, single=single if free.any() else None)
    partner = np.full(n, -1, dtype=np.int64)
    one, other = low[found.edges], high[found.edges]
    partner[one], partner[other] = other, one
    return partner, found.prices.copy()


def _both_ways(n: int, low: Ints, high: Ints, begin: Ints) -> tuple[Ints, Ints, Ints]:
    """Neighbour lists (ptr, col), and the edge of each entry; `begin` is where edges up start."""
    m = low.size
    index = np.int32 if 2 * m < 2**31 else np.int64
    down = np.argsort(high, kind="stable")  # edges as seen from their higher ends
    before = np.searchsorted(high[down], np.arange(n + 1))
    # The list of a node has its lower neighbours first.
    from_high, from_low = np.arange(m) + begin[high[down]], np.arange(m) + before[low + 1]
    col, edge = np.empty((2, 2 * m), dtype=index)
    col[from_high], col[from_low] = low[down], high
    edge[from_high], edge[from_low] = down, np.arange(m)
    return before + begin, col, edge


def _sorted_edges(n: int, tail: ArrayLike, head: ArrayLike) -> tuple[Ints, Ints, Ints]:
    """Lower and higher ends in their order, and which edges these are."""
    ends = []
    for name, values in (("tail", tail), ("head", head)):
        nodes = np.asarray(values)
        if nodes.size == 0:
            nodes = nodes.astype(np.int64)
        if nodes.ndim != 1 or nodes.dtype.kind not in "iu":
            raise ValueError(
                f"{name}: expected a row of whole numbers, got {nodes.dtype} of shape {nodes.shape}"
            )
        outside = (nodes < 0) | (nodes >= n)
        if outside.any():
            e = int(np.argmax(outside))
            raise ValueError(f"{name}: edge {e} ends at {nodes[e]}; nodes are 0 to {n - 1}")
        ends.append(nodes.astype(np.int64))
    if ends[0].shape != ends[1].shape:
        raise ValueError(f"tail and head: {ends[0].size} and {ends[1].size} ends, not as many")
    low, high = np.minimum(*ends), np.maximum(*ends)
    if (low == high).any():
        e = int(np.argmax(low == high))
        raise ValueError(f"tail and head: edge {e} joins node {low[e]} to itself")
    order = np.argsort(low * n + high, kind="stable")
    low, high = low[order], high[order]
    again = (np.diff(low) == 0) & (np.diff(high) == 0)
    if again.any():
        e = int(np.argmax(again))
        raise ValueError(f"tail and head: the pair ({low[e]}, {high[e]}) occurs twice")
    return low, high, order


def finite_values(name: str, values: ArrayLike, size: int, per: str) -> Floats:
    found = np.asarray(values, dtype=np.float64)
    if found.shape != (size,):
        raise ValueError(f"{name}: expected shape ({size},), one per {per}, got {found.shape}")
    if not np.isfinite(found).all():
        raise ValueError(f"{name}: must be finite; forbid pairs by leaving them out of the graph")
    return found


def _free_nodes(free: ArrayLike, n: int) -> Bools:
    found = np.asarray(free)
    if found.dtype.kind != "b" or found.shape not in ((), (n,)):
        raise ValueError(
            f"free: expected a bool or bools of shape ({n},), got {found.dtype} of shape "
            f"{found.shape}"
        )
    return np.broadcast_to(found, (n,)).copy()


def _checked_starts(start: ArrayLike, free: Bools, graph: WormGraph) -> Ints:
    """Partners of shape (n_starts, n), each the partner of their partner."""
    n = free.size
    found = np.atleast_2d(np.asarray(start))
    if found.ndim != 2 or found.shape[1] != n or found.dtype.kind not in "iu" or not len(found):
        raise ValueError(
            f"start: expected whole numbers of shape ({n},) or (n_starts, {n}), got "
            f"{found.dtype} of shape {np.shape(start)}"
        )
    if found.min() < -1 or found.max() >= n:
        raise ValueError(
            f"start: partners are 0 to {n - 1}, or -1; found {found.min()} to {found.max()}"
        )
    nodes = np.arange(n)
    own = np.where(found < 0, nodes, found)
    if (np.take_along_axis(own, own, axis=1) != nodes).any():
        raise ValueError("start: not a matching; the partner of a partner must be the node itself")
    alone = (found < 0) & ~free
    if alone.any():
        i = int(np.argwhere(alone)[0, 1])
        raise ValueError(f"start: node {i} is single, but not free to be")
    which, node = np.nonzero(found > nodes)
    edges = graph.low * n + graph.high
    pairs = node * n + found[which, node]
    if not np.isin(pairs, edges).all():
        v, w = divmod(int(pairs[np.argmin(np.isin(pairs, edges))]), n)
        raise ValueError(f"start: pairs node {v} with {w}, which is no edge")
    return found.astype(np.int64)
