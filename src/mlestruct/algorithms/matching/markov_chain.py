"""Random matchings of any graph from P(y) proportional to exp(total score), by Markov chains.

Local swaps cannot lead from every perfect matching of a sparse graph to every other: a cycle of six
nodes has two, and nothing in between. As Jerrum and Sinclair (1989) do, a chain therefore also
visits matchings with two holes. It walks one of them through the graph (Prokof'ev and Svistunov's
worms, 2001; for perfect matchings Sandvik and Moessner, 2006):

* A random node u, the tail, gives up its partner v, who becomes the head.
* The head draws a partner w among all its neighbours with probability proportional to
  exp(score(v, w) - price(w)), whether w is taken or not. Whoever w was paired with is the new head.
* When the head draws the tail, all nodes have partners again and the walk is over.

*Balance.* Give the state with holes u and v the weight exp(score - prices) D_v / n, where D_v sums
exp(score(v, w) - price(v) - price(w)) over all w. A step from head v by w to head x then has the
flow exp(score of what remains and of (v, w) and (w, x)) / n, which is symmetric in v and x, and so
has its reverse; beginning and closing a walk balance in the same way. A walk and its reverse have
the same length, so those that do not close soon can be taken back: no sample waits forever and
nothing is biased.

*Nodes that may stay single.* The head draws that as well, with the weight of its single score, and
the hole moves outside the graph; it does so too if w was single, and it begins there if the tail
was. From outside it returns by a random free node w: a single one becomes the head, and one with a
partner x is made single with probability exp(single(w) - price(w)), which makes x the head. The
walk also closes when the tail is made single so. Prices are at least the single scores.

*Irreducibility.* Two admissible matchings differ by alternating cycles and paths, and the ends of
paths may be single. A cycle is changed by one walk, from any of its nodes around it. So is a path,
from an end that is single, if there is one: the hole is outside, comes in at the other end and
walks back to the tail. If both ends have partners, it walks from one to the other, leaves there,
and the tail is made single from outside. This takes at most n + 2 steps, and walks may be longer.

*Nudges.* Between walks, random edges are tried out as in Jerrum and Sinclair's chain: two pairs are
re-paired, an edge is added, removed or slides by one node. Where holes get lost in odd groups of
nodes that would rather stay among themselves, so that walks hardly ever close, they do most of the
work.

*Prices* change nothing about admissible matchings but by a constant; they only say how much time is
spent with which holes. Those of the best matching keep heads from insisting on partners that they
cannot get. They are then balanced, so that the weights of every node's options sum to about 1.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from ...exceptions import InfeasibleError
from ..markov_chains import Draws, draw
from . import _markov_chain_kernels as kernels
from .blossom import best_matching
from .swap_chain import N_FUNCTIONS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

BALANCING = 10  # rounds of balancing prices
PATIENCE = 10  # steps per node, after which a walk is taken back; about 1 is usual
TRIAL = 10  # steps per node that are tried out to see how long walks are


class Paths(NamedTuple):
    """The graph as walks see it: entries ptr[v]:ptr[v+1] are the neighbours of node v.

    `sums` has running sums of the weights of a node's options, `total` the sum with the single one.
    """

    ptr: Ints
    col: Ints
    twin: Ints  # the same edge's entry at its other end
    sums: Floats
    total: Floats
    free_nodes: Ints
    leaving: Floats  # chance to be made single from outside


class Memory(NamedTuple):
    """What the nodes that a walk has touched had before."""

    last: Ints  # the walk that touched a node last
    node: Ints
    slot: Ints
    clock: Ints  # number of this walk, of nodes it touched, and of walks taken back so far


def sample_in_graph(
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
    They grow until they agree (`markov_chains`); what is watched are the total score and a few
    random functions of the matching.

    Parameters
    ----------
    tail, head : arrays of shape (n_edges,), the nodes that each edge joins; every pair once
    scores : array of shape (n_edges,)
    free : bool or array of shape (n_nodes,), which nodes may stay single
    single : array of shape (n_nodes,), scores of staying single; 0 by default
    sweeps : first length of the chains; a sweep has as many walks as take about a step per node,
        and some nudges
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
    >>> from mlestruct.algorithms.matching.markov_chain import sample_in_graph
    >>> rng = np.random.default_rng(0)
    >>> square = [0, 1, 2, 3], [1, 2, 3, 0]
    >>> sample_in_graph(4, *square, [0.0, 30.0, 0.0, 0.0], 1, rng=rng).states
    array([[3, 2, 1, 0]])
    """
    space = _Matchings(n_nodes, (tail, head), scores, free, single, start, rng)
    what = "matching chain"
    found = draw(
        space, n_samples, what=what, n_chains=n_chains, sweeps=sweeps, max_sweeps=max_sweeps,
        tol_rhat=tol_rhat, rng=rng, stacklevel=stacklevel,
    )  # fmt: skip
    if found.converged and space.is_stuck:
        warnings.warn(
            f"{what}: no walk ever led to another matching, and some were taken back after "
            f"{space.limit} steps",
            ConvergenceWarning,
            stacklevel=stacklevel - 1,
        )
        found = replace(found, converged=False)
    return found


class _Matchings:
    """Matchings of a graph; a state has every node's entry in its list of neighbours."""

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
        ptr, col, edge, twin = _both_ways(n, self.low, self.high)
        self.shift = ptr - np.searchsorted(self.low, np.arange(n + 1))
        prices = np.where(self.free, np.maximum(prices, self.single), prices)
        problem = ptr, col, self.score[edge], self.free, self.single, prices
        kernels.balance_prices(*problem, BALANCING)
        sums, total, leaving = np.empty(col.size), np.empty(n), np.empty(n)
        kernels.fill_choices(*problem, sums, total, leaving)
        self.paths = Paths(ptr, col, twin, sums, total, np.flatnonzero(self.free), leaving)
        self.limit = PATIENCE * n + 100
        touched = np.zeros((3, n), dtype=np.int64)
        self.memory = Memory(touched[0], touched[1], touched[2], np.zeros(3, dtype=np.int64))
        self.weights = rng.normal(size=(N_FUNCTIONS, n))
        self.starts = () if start is None else _checked_starts(start, self.free)
        self.n_started = 0
        self.moved = False
        self.n_walks, self.n_nudges = self._moves_per_sweep(rng)

    def _moves_per_sweep(self, rng: np.random.Generator) -> tuple[int, int]:
        """Walks that take about a step per node, and nudges: few, unless walks are in vain."""
        state, taken_back = self._slots(self.best), self.memory.clock[2:]
        for _ in range(2):  # what is counted first still depends on the start
            taken_back[:] = 0
            count = kernels.count_walks(
                self.paths, state, self.memory, self.limit, TRIAL * self.n, rng
            )
        n_walks = max(1, round(count / TRIAL))
        in_vain = n_walks * self.limit * int(taken_back[0]) / count
        taken_back[:] = 0
        return n_walks, int(max(self.n / 4, in_vain / 2)) if self.score.size else 0

    def _slots(self, partners: Ints) -> Ints:
        """The state of everyone's partners, who must be neighbours."""
        slots = np.empty(self.n, dtype=np.int64)
        stranger = kernels.find_slots(self.paths.ptr, self.paths.col, partners, slots)
        if stranger >= 0:
            raise ValueError(
                f"start: pairs node {stranger} with {partners[stranger]}, which is no edge"
            )
        return slots

    def start(self, rng: np.random.Generator, near_the_best: bool) -> Ints:
        if len(self.starts):
            self.n_started += 1
            return self._slots(self.starts[(self.n_started - 1) % len(self.starts)])
        if near_the_best:
            return self._slots(self.best)
        scores = rng.normal(size=self.low.size), self.free, rng.normal(size=self.n)
        return self._slots(best_partners(self.n, self.low, self.high, *scores)[0])

    def run(self, state: Ints, rng: np.random.Generator, n_sweeps: int) -> Floats:
        trace = np.empty((n_sweeps, 1 + N_FUNCTIONS))
        before = state.copy()
        kernels.sweep(
            self.paths, state, self.memory, self.limit, self.n_walks, self.n_nudges, self.free,
            self.score, self.shift, self.single, self.weights, rng, trace,
        )  # fmt: skip
        self.moved = self.moved or not np.array_equal(before, state)
        return trace

    def read(self, state: Ints) -> Ints:
        partner = np.full(self.n, -1, dtype=np.int64)
        paired = state != kernels.SINGLE
        partner[paired] = self.paths.col[state[paired]]
        return partner

    @property
    def is_stuck(self) -> bool:
        """Whether walks were taken back, none has led anywhere, and there is somewhere to go."""
        if self.moved or not self.memory.clock[2]:
            return False
        chosen = np.where(self.best[self.low] == self.high, -1.0, 0.0)
        alone = np.where(self.best < 0, -1.0, 0.0)
        another, _ = best_partners(self.n, self.low, self.high, chosen, self.free, alone)
        return not np.array_equal(another, self.best)


def best_partners(
    n: int, low: Ints, high: Ints, scores: Floats, free: Bools, single: Floats
) -> tuple[Ints, Floats]:
    """The best matching in which only free nodes may be single, and prices of the nodes.

    Edges are sorted by their lower, then by their higher end. Where only some nodes are free, two
    copies of the graph are matched perfectly, in which each free node may pair with its copy.
    """
    if not (free.all() or not free.any()):
        links = np.flatnonzero(free)
        ends = np.concatenate([low, low + n, links]), np.concatenate([high, high + n, links + n])
        order = np.lexsort(ends[::-1])
        doubled = np.concatenate([scores, scores, 2.0 * single[links]])[order]
        nobody = np.zeros(2 * n, dtype=bool)
        try:
            partner, prices = best_partners(
                2 * n, ends[0][order], ends[1][order], doubled, nobody, np.zeros(2 * n)
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


def _both_ways(n: int, low: Ints, high: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Neighbour lists (ptr, col), the edge of each entry, and the entry at its other end."""
    m = low.size
    index = np.int32 if 2 * m < 2**31 else np.int64
    down = np.argsort(high, kind="stable")  # edges as seen from their higher ends
    before = np.searchsorted(high[down], np.arange(n + 1))
    after = np.searchsorted(low, np.arange(n + 1))
    ptr = before + after
    # The list of a node has its lower neighbours first.
    from_high, from_low = np.empty(m, dtype=index), np.empty(m, dtype=index)
    from_high[down] = np.arange(m) + after[high[down]]
    from_low[:] = np.arange(m) + before[low + 1]
    col, edge, twin = np.empty((3, 2 * m), dtype=index)
    col[from_high], col[from_low] = low, high
    edge[from_high] = edge[from_low] = np.arange(m)
    twin[from_high], twin[from_low] = from_low, from_high
    return ptr, col, edge, twin


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
    order = np.lexsort((high, low))
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


def _checked_starts(start: ArrayLike, free: Bools) -> Ints:
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
    return found.astype(np.int64)
