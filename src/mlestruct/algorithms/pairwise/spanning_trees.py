"""Edge weights rho of tree-reweighted entropies: packings of spanning trees, the forest polytope.

H_rho = sum_n (1 - sum_{e at n} rho_e) H(mu_n) + sum_e rho_e H(mu_e) is concave and an upper bound
when rho is an average of forests, i.e. rho >= 0 and rho(E(S)) <= |S| - 1 for every set S of nodes.
Dividing each rho_e between the ends of e so that no node gets more than 1 writes H_rho as a sum of
conditional entropies, which shows concavity directly: arrays of shape (2, n_edges), what points
into the tail and into the head of every edge.

Graphs are (n_nodes, tail, head): unique undirected edges without loops, connected or not.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, reverse_cuthill_mckee

from ..._running import wait_for
from . import _spanning_tree_kernels as kernels

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def tree_weights(n_nodes: int, tail: Ints, head: Ints, n_trees: int = 32) -> Floats:
    """Shares of edges in a greedy packing of spanning trees, by direction, in linear time.

    Each tree is a minimum spanning tree by the number of earlier trees that have an edge, so that
    shares are as even as dense parts of the graph allow, within about 1 / n_trees (Thorup 2007).
    There are more than `n_trees` if these leave out an edge, fewer where all have the same share:
    exactly even on rings, 1 on forests. An average of trees lies in the
    polytope whatever they are. With 32 trees log Z_rho is within a tenth of the default tolerance
    of marginals, 1e-3 a node, of what a thousand give. What points into a node sums to at most 1.

    Examples
    --------
    >>> tree_weights(3, np.array([0, 0, 1]), np.array([1, 2, 2]), 3).sum(axis=0).round(3)
    array([0.667, 0.667, 0.667])
    """
    n_parts, part = connected_components(_links(n_nodes, tail, head), directed=False)
    # Each part by itself, so that its weights do not depend on what else is in a batch, nor on the
    # list of edges. They are shuffled: in this order the first trees would be stars or long paths.
    of_edge = part[tail]
    edges = np.lexsort((np.maximum(tail, head), np.minimum(tail, head), of_edge))
    stops = np.cumsum(np.bincount(of_edge, minlength=n_parts))
    place = np.arange(len(tail)) - np.append(0, stops)[of_edge[edges]]
    edges = edges[np.lexsort((np.random.default_rng(0).random(len(tail))[place], of_edge[edges]))]
    nodes = np.argsort(part, kind="stable")
    ends = np.cumsum(np.bincount(part, minlength=n_parts))
    number = np.empty(n_nodes, dtype=np.int64)  # of every node within its part
    number[nodes] = np.arange(n_nodes) - np.append(0, ends)[part[nodes]]
    found, into = np.zeros((2, len(tail))), np.empty((2, len(tail)))
    problem = stops, ends, number[tail[edges]], number[head[edges]], n_trees, found[0], found[1]
    wait_for("spanning trees", kernels.pack_parts, *problem, seconds=1e-5 * len(tail))
    into[:, edges] = found
    return into


def forest_split(
    n_nodes: int, tail: Ints, head: Ints, rho: Floats, tol: float = 1e-9
) -> Floats | None:
    """rho >= 0 divided between ends so that no node gets more than 1; None outside the polytope.

    Weight is moved along augmenting paths, node after node: exact, and local enough for graphs of
    many thousand nodes.

    Examples
    --------
    >>> triangle = 3, np.array([0, 0, 1]), np.array([1, 2, 2])
    >>> forest_split(*triangle, np.full(3, 0.6)).sum(axis=0)
    array([0.6, 0.6, 0.6])
    >>> forest_split(*triangle, np.full(3, 0.7))
    """
    n_edges = len(tail)
    if n_edges == 0:
        return np.zeros((2, 0))
    at = np.concatenate([tail, head])
    by_node = np.argsort(at, kind="stable")
    place = np.argsort(by_node)
    ptr = np.searchsorted(at[by_node], np.arange(n_nodes + 1))
    node = np.concatenate([head, tail])[by_node].astype(np.int64)
    # Whole edges into the later of their nodes, neighbours after neighbours: little is moved.
    order = reverse_cuthill_mckee(_links(n_nodes, tail, head), symmetric_mode=True)
    rank = np.argsort(order)
    weight = np.where(rank[at[by_node]] > rank[node], np.concatenate([rho, rho])[by_node], 0.0)
    load = np.bincount(at[by_node], weight, minlength=n_nodes)
    mate = np.roll(place, n_edges)[by_node]
    divided = kernels.divide(ptr, node, mate, weight, load, order, tol)
    if divided.size == 0:
        return None
    into_head = np.minimum(divided[place[n_edges:]], rho)
    return np.stack([rho - into_head, into_head])


def _links(n_nodes: int, tail: Ints, head: Ints) -> coo_array:
    i, j = np.concatenate([tail, head]), np.concatenate([head, tail])
    ends = i.astype(np.int32), j.astype(np.int32)  # as SciPy 1.15 takes them
    return coo_array((np.ones(len(i)), ends), shape=(n_nodes, n_nodes)).tocsr()
