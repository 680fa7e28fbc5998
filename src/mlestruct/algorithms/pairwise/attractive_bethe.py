"""A proven lower bound of log Z for binary models whose edges can all be made attractive.

Where every edge prefers equal states, possibly after exchanging the two states of some nodes, the
Bethe value <scores, tau> + H(tau), rho = 1, of *any* locally consistent tau is at most log Z
(Ruozzi 2012, "The Bethe partition function of log-supermodular graphical models"). It is usually
much closer than the mean-field bound. Belief propagation gives node marginals, and the best edge
tables given those (Welling and Teh 2001) make a consistent tau, converged or not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.special import expit, logit, xlogy

from . import _mean_field_kernels as kernels
from .mean_field import check_model, check_starts

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

LARGEST_LOGIT = 100.0  # of a node: products of probabilities do not underflow


def attractive_bethe_bound(
    n_nodes: int,
    tail: ArrayLike,
    head: ArrayLike,
    node_scores: ArrayLike,
    edge_scores: ArrayLike,
    starts: Sequence[ArrayLike] | None = None,
    tol: float = 1e-6,
    max_sweeps: int = 200,
) -> float | None:
    """A large Bethe value of a binary model, at most log Z; None where it is no bound.

    It is one if the couplings  s(0,0) + s(1,1) - s(0,1) - s(1,0)  of the edges are balanced: along
    every cycle the number of negative ones is even.

    Parameters
    ----------
    n_nodes : int
    tail, head : integer arrays of shape (n_edges,), every undirected edge once
    node_scores : array of shape (n_nodes, 2)
    edge_scores : array of shape (n_edges, 2, 2), tail state first
    starts : arrays of shape (n_nodes, 2), distributions up to scale
        Tried besides the two starts in which all nodes have the same state (after the exchange of
        states), from which belief propagation converges; None adds nothing. With the distributions
        of `mean_field` among them, the bound is at least its value.
    tol : stop when ten sweeps change the value by no more than this per node

    Examples
    --------
    >>> edge = np.array([[[1.0, 0.0], [0.0, 1.0]]])
    >>> bound = attractive_bethe_bound(2, [0], [1], np.zeros((2, 2)), edge)
    >>> round(bound, 6), round(float(np.log(2 * np.e + 2)), 6)
    (2.006409, 2.006409)
    """
    graph, nodes, pairs = check_model(n_nodes, tail, head, node_scores, edge_scores)
    if nodes.shape[1] != 2:
        raise ValueError(f"node_scores: expected two states, got {nodes.shape[1]}")
    given = [] if starts is None else check_starts(starts, n_nodes, 2)
    score, coupling, constant = _minimal(graph[2], graph[3], nodes, pairs)
    flipped = _balancing_flip(n_nodes, graph[2], graph[3], coupling)
    if flipped is None:
        return None
    score, coupling, more = _flip(graph[2], graph[3], score, coupling, flipped)
    sign = np.where(flipped, -1.0, 1.0)
    logits = [np.full(n_nodes, LARGEST_LOGIT), np.full(n_nodes, -LARGEST_LOGIT)]
    logits += [sign * np.clip(logit(q[:, 1]), -LARGEST_LOGIT, LARGEST_LOGIT) for q in given]
    most = max(_propagated(graph, score, coupling, start, tol, max_sweeps) for start in logits)
    return constant + more + most


def _minimal(tail: Ints, head: Ints, nodes: Floats, pairs: Floats) -> tuple[Floats, Floats, float]:
    """The same scores as  constant + sum_i score_i x_i + sum_e coupling_e x_i x_j.

    A coupling that is only rounding becomes 0 by lowering one score, which cannot raise log Z.
    """
    n_nodes = nodes.shape[0]
    neither, second, first, both = pairs.reshape(-1, 4).T
    coupling = (neither - second) + (both - first)
    idle = np.abs(coupling) <= 1e-14 * np.abs(pairs).max(axis=(1, 2), initial=0.0)
    lowered = np.where(idle, np.minimum(coupling, 0.0), 0.0)
    coupling = np.where(idle, 0.0, coupling)
    score = nodes[:, 1] - nodes[:, 0]
    score = score + np.bincount(tail, first - neither, minlength=n_nodes)
    score = score + np.bincount(head, second + lowered - neither, minlength=n_nodes)
    return score, coupling, float(nodes[:, 0].sum() + neither.sum())


def _balancing_flip(n_nodes: int, tail: Ints, head: Ints, coupling: Floats) -> Bools | None:
    """Nodes whose states to exchange so that no coupling is negative; None if that is impossible.

    Each node has two copies, unchanged and exchanged; an attractive edge joins equal copies, a
    repulsive one unequal copies. A node joined to its other copy lies on a frustrated cycle.
    """
    used = coupling != 0.0
    i, j = tail[used], head[used]
    other = np.where(coupling[used] < 0.0, n_nodes, 0)
    rows, columns = (
        np.concatenate([i, i + n_nodes]),
        np.concatenate([j + other, j + n_nodes - other]),
    )
    size = 2 * n_nodes
    links = coo_array((np.ones(rows.shape[0]), (rows, columns)), shape=(size, size))
    _, part = connected_components(links, directed=False)
    if (part[:n_nodes] == part[n_nodes:]).any():
        return None
    flipped: Bools = part[:n_nodes] > part[n_nodes:]
    return flipped


def _flip(
    tail: Ints, head: Ints, score: Floats, coupling: Floats, flipped: Bools
) -> tuple[Floats, Floats, float]:
    """Scores in x' = 1 - x at the flipped nodes, and the constant that this adds."""
    n_nodes = score.shape[0]
    a, b = flipped[tail], flipped[head]
    constant = float(score[flipped].sum() + coupling[a & b].sum())
    # (1 - x) y = y - x y: a flipped end adds to the score of the other
    changed = score + np.bincount(head, np.where(a, coupling, 0.0), minlength=n_nodes)
    changed = changed + np.bincount(tail, np.where(b, coupling, 0.0), minlength=n_nodes)
    return np.where(flipped, -changed, changed), np.where(a != b, -coupling, coupling), constant


def _propagated(
    graph: tuple[Ints, Ints, Ints, Ints],
    score: Floats,
    coupling: Floats,
    start: Floats,
    tol: float,
    max_sweeps: int,
) -> float:
    """The largest Bethe value of the iterates of belief propagation from the logits `start`."""
    tail, head = graph[2], graph[3]
    to_head = np.logaddexp(0.0, start[tail] + coupling) - np.logaddexp(0.0, start[tail])
    to_tail = np.logaddexp(0.0, start[head] + coupling) - np.logaddexp(0.0, start[head])
    logits = start.copy()

    def value_at(logits: Floats) -> float:
        on = expit(np.clip(logits, -LARGEST_LOGIT, LARGEST_LOGIT))
        return _bethe_value(tail, head, score, coupling, on)

    most = last = value_at(start)
    for done in range(0, max_sweeps, 10):
        n_sweeps = min(10, max_sweeps - done)
        kernels.propagate(*graph, score, coupling, to_tail, to_head, logits, n_sweeps)
        value = value_at(logits)
        most = max(most, value)
        if abs(value - last) <= tol * score.shape[0]:
            break
        last = value
    return most


def _bethe_value(tail: Ints, head: Ints, score: Floats, coupling: Floats, on: Floats) -> float:
    """The Bethe value at P(x_i = 1) = on and the best tables of edges, clipped to consistency."""
    a, b = on[tail], on[head]
    g = np.maximum(np.exp(-coupling), 1e-60)  # squares of smaller ones underflow
    spread = ((1 - g) * (a - b)) ** 2 + g**2 + 2 * g * (1 - g) * (a * (1 - b) + b * (1 - a))
    both = 2 * a * b / (g + (1 - g) * (a + b) + np.sqrt(spread))
    both = np.clip(both, np.maximum(a + b - 1.0, 0.0), np.minimum(a, b))
    tables = np.maximum([both, a - both, b - both, 1.0 - a - b + both], 0.0)
    degree = np.bincount(tail, minlength=len(on)) + np.bincount(head, minlength=len(on))
    at_nodes = (degree - 1.0) * (xlogy(on, on) + xlogy(1.0 - on, 1.0 - on))
    linear = score @ on + coupling @ both
    return float(linear + at_nodes.sum() - xlogy(tables, tables).sum())
