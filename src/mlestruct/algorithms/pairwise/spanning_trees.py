"""Edge weights rho of tree-reweighted entropies: spanning trees and the forest polytope.

H_rho = sum_n (1 - sum_{e at n} rho_e) H(mu_n) + sum_e rho_e H(mu_e) is concave and an upper bound
when rho is an average of forests, i.e. rho >= 0 and rho(E(S)) <= |S| - 1 for every set S of nodes.
Dividing each rho_e between the ends of e so that no node gets more than 1 writes H_rho as a sum of
conditional entropies, which shows concavity directly.

Graphs are (n_nodes, tail, head): unique undirected edges without loops, connected or not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import lapack
from scipy.sparse.csgraph import connected_components, reverse_cuthill_mckee

from ..._deadline import wait_for
from ..elimination import minimum_degree_columns
from . import _spanning_tree_kernels as kernels

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# Nodes up to which a dense inverse takes no longer than a sparse elimination; nothing is compiled.
SMALL = 100


@dataclass(frozen=True)
class TreeWeights:
    """The share of spanning trees that have each edge, by the end the edge points into.

    Attributes
    ----------
    rho, into_tail, into_head : ndarray of shape (n_edges,)
        rho = into_tail + into_head. What points into a node sums to 1, into a root to 0.
    """

    rho: Floats
    into_tail: Floats
    into_head: Floats


def tree_weights(n_nodes: int, tail: Ints, head: Ints) -> TreeWeights:
    """`tree_probabilities` where elimination is cheap, otherwise `even_trees`.

    Cheap is about 10 microseconds an edge, a small part of a fit: 10,000 as the sum of squared
    column sizes of the factor, which admits images and most planar graphs.
    """
    found = _probabilities(n_nodes, tail, head, 1e4 * len(tail))
    return even_trees(n_nodes, tail, head) if found is None else found


def tree_probabilities(n_nodes: int, tail: Ints, head: Ints) -> TreeWeights:
    """Edges of uniformly random spanning trees, one per component, directed from its first node.

    rho is the effective resistance between the ends of an edge (Kirchhoff). The edge points into
    its head with probability (R_th + R_rh - R_rt) / 2, where r is the root. Resistances of edges
    come from a sparse elimination of all nodes and the same run backwards (Takahashi), in small
    graphs from a dense inverse.

    Examples
    --------
    >>> triangle = tree_probabilities(3, np.array([0, 0, 1]), np.array([1, 2, 2]))
    >>> triangle.rho.round(3)
    array([0.667, 0.667, 0.667])
    >>> triangle.into_head.round(3)
    array([0.667, 0.667, 0.333])
    """
    found = _probabilities(n_nodes, tail, head, np.inf)
    assert found is not None
    return found


def even_trees(n_nodes: int, tail: Ints, head: Ints, n_trees: int = 32) -> TreeWeights:
    """Shares of edges in a greedy packing of spanning trees, in time linear in the edges.

    Each tree is a minimum spanning tree by the number of earlier trees that have an edge, so that
    shares are as even as dense parts of the graph allow, within about 1 / n_trees (Thorup 2007).
    There are more than `n_trees` if these leave out an edge. An average of trees lies in the
    polytope whatever they are. With 32 trees log Z_rho is within a tenth of the default tolerance
    of marginals, 1e-3 a node, of what a thousand give.

    Examples
    --------
    >>> even_trees(3, np.array([0, 0, 1]), np.array([1, 2, 2]), 3).rho.round(3)
    array([0.667, 0.667, 0.667])
    """
    into = np.zeros((2, len(tail)))
    # In the order of a list of edges the first trees would be stars or long paths.
    order = np.random.default_rng(0).permutation(len(tail))
    problem = n_nodes, tail[order], head[order], n_trees, into[0], into[1]
    seconds = 1e-5 * len(tail)
    count = wait_for("spanning trees", kernels.even_forests, *problem, seconds=seconds)
    into_tail, into_head = np.empty_like(into)
    into_tail[order], into_head[order] = into / count
    return TreeWeights(into_tail + into_head, into_tail, into_head)


def orientation(n_nodes: int, tail: Ints, head: Ints, rho: Floats) -> tuple[Floats, Floats] | None:
    """Divide rho >= 0 as into_tail + into_head so that no node gets more than 1, if possible.

    It is possible exactly when rho(E(S)) <= |S| for every set S of nodes (Hakimi). Edges stay
    whole if some order of the nodes allows that, each pointing into the earlier of its nodes.
    """
    if len(tail) == 0:
        return np.zeros(0), np.zeros(0)
    flow, order, at_head = _flow(n_nodes, tail, head, rho)
    if len(kernels.orient(flow, order)):
        return None
    into_head = np.minimum(flow.weight[at_head], rho)
    return rho - into_head, into_head


def violating_nodes(
    n_nodes: int, tail: Ints, head: Ints, rho: Floats, tol: float = 1e-9
) -> Ints | None:
    """Nodes S with rho(E(S)) > |S| - 1 + tol, or None if rho >= 0 is in the forest polytope.

    The weight that points into a node is moved off it by augmenting paths, node after node
    (Cunningham 1985). This is exact, and local enough for graphs of many thousand nodes.
    """
    if len(tail) == 0:
        return None
    flow, order, _ = _flow(n_nodes, tail, head, rho)
    # A whole component is the most frequent violation, and the slowest to find by paths.
    _, component = connected_components(_adjacency(n_nodes, tail, head), directed=False)
    size = np.bincount(component)
    excess = np.bincount(component[tail], rho, minlength=len(size)) - (size - 1)
    if excess.max() > tol + 1e-6:  # more than the rounding of a long sum
        return np.flatnonzero(component == excess.argmax())
    nodes = kernels.orient(flow, order)
    if len(nodes) == 0:
        nodes = kernels.overfull_set(flow, order, tol)
    return np.sort(nodes) if len(nodes) else None


def in_tree_polytope(n_nodes: int, tail: Ints, head: Ints, rho: Floats, tol: float = 1e-9) -> bool:
    """Whether rho >= 0 and rho(E(S)) <= |S| - 1 (up to tol) for every nonempty set S of nodes."""
    inside = (rho >= -tol) & (rho <= 1 + tol)
    if not inside.all():
        return False
    return violating_nodes(n_nodes, tail, head, np.clip(rho, 0.0, 1.0), tol) is None


def uniform_scalar(n_nodes: int, tail: Ints, head: Ints) -> float:
    """Largest rho that all edges may have in common: the least (|S| - 1) / |E(S)|.

    >>> uniform_scalar(3, np.array([0, 0, 1]), np.array([1, 2, 2]))
    0.6666666666666666
    """
    rho = 1.0
    while True:  # Dinkelbach: each set found is denser than the one before
        nodes = violating_nodes(n_nodes, tail, head, np.full(len(tail), rho))
        if nodes is None:
            return rho
        inside = np.isin(tail, nodes) & np.isin(head, nodes)
        denser = (len(nodes) - 1) / int(inside.sum())
        if denser >= rho:  # the same set again, by rounding
            return rho
        rho = denser


def _flow(n_nodes: int, tail: Ints, head: Ints, rho: Floats) -> tuple[kernels.Flow, Ints, Ints]:
    """Every edge divided evenly, an order of neighbours after neighbours, the heads' halves."""
    if np.shape(rho) != np.shape(tail) or not np.all(rho >= 0):
        raise ValueError(f"rho must be {len(tail)} numbers >= 0, one per edge; got {rho!r}")
    n_edges = len(tail)
    at = np.concatenate([tail, head])
    by_node = np.argsort(at, kind="stable")
    place = np.argsort(by_node)
    weight = 0.5 * np.concatenate([rho, rho])[by_node]
    load = np.bincount(at[by_node], weight, minlength=n_nodes)
    flow = kernels.Flow(
        ptr=np.searchsorted(at[by_node], np.arange(n_nodes + 1)),
        node=np.concatenate([head, tail])[by_node].astype(np.int64),
        mate=np.roll(place, n_edges)[by_node],
        weight=weight,
        load=load,
        degree=2 * load,
        alive=np.ones(n_nodes, dtype=bool),
        capacity=np.ones(n_nodes),
        level=np.full(n_nodes, -1),
        arc=np.empty(n_nodes, dtype=np.int64),
        queue=np.empty(n_nodes, dtype=np.int64),
        path=np.empty(n_nodes, dtype=np.int64),
    )
    order = reverse_cuthill_mckee(_adjacency(n_nodes, tail, head), symmetric_mode=True)
    return flow, order, place[n_edges:]


def _adjacency(n_nodes: int, tail: Ints, head: Ints) -> sparse.csr_array:
    rows, columns = np.concatenate([tail, head]), np.concatenate([head, tail])
    return sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(n_nodes, n_nodes))


def _probabilities(n_nodes: int, tail: Ints, head: Ints, limit: float) -> TreeWeights | None:
    """Tree probabilities, or None if elimination has larger columns than `limit` allows."""
    if len(tail) == 0:
        return TreeWeights(np.zeros(0), np.zeros(0), np.zeros(0))
    if n_nodes <= SMALL:
        rho, to_root = _small_resistances(n_nodes, tail, head)
    else:
        columns = minimum_degree_columns(n_nodes, tail, head, limit)
        if columns is None:
            return None
        place, ptr, row = columns
        rho, to_root = _resistances(ptr, row, place[tail], place[head])
        to_root = to_root[place]
    into_head = np.clip((rho + to_root[head] - to_root[tail]) / 2, 0.0, rho)
    bridge = rho > 1 - 0.5 / n_nodes  # an edge on a cycle of k edges has rho <= 1 - 1/k
    rho[bridge] = 1.0
    into_head[bridge] = into_head[bridge].round()
    return TreeWeights(rho, rho - into_head, into_head)


def _small_resistances(n_nodes: int, tail: Ints, head: Ints) -> tuple[Floats, Floats]:
    """Effective resistance of every edge, and of every node to the first one.

    Edges between the first nodes of components make the graph connected and change no resistance
    within a component.
    """
    _, component = connected_components(_adjacency(n_nodes, tail, head), directed=False)
    first = np.unique(component, return_index=True)[1]
    conductance = np.zeros((n_nodes, n_nodes))
    conductance[tail, head] = conductance[head, tail] = 1.0
    conductance[0, first[1:]] = conductance[first[1:], 0] = 1.0
    resistance, to_last = _dense_resistances(conductance[::-1, ::-1])
    ends = n_nodes - 1 - np.sort([tail, head], axis=0)
    return resistance[ends[1], ends[0]], to_last[::-1]


def _resistances(ptr: Ints, row: Ints, tail: Ints, head: Ints) -> tuple[Floats, Floats]:
    """Effective resistance of every edge, and of every node to the last one of its component."""
    n_nodes = len(ptr) - 1
    keys = np.repeat(np.arange(n_nodes), np.diff(ptr)) * n_nodes + row
    edge = np.searchsorted(keys, np.minimum(tail, head) * n_nodes + np.maximum(tail, head))
    weight = np.zeros(len(row))
    weight[edge] = 1.0
    # The last columns are full, and left to dense linear algebra.
    full = np.diff(ptr) == np.arange(n_nodes)[::-1]
    stop = n_nodes - int(np.argmin(np.append(full[::-1], False)))
    first = ptr[stop]
    total, to_root, resistance = np.empty(n_nodes), np.empty(n_nodes), np.empty(len(row))
    kernels.eliminate(ptr, row, weight, stop, total)
    pairs = np.triu_indices(n_nodes - stop, 1)
    conductance = np.zeros((n_nodes - stop, n_nodes - stop))
    conductance[pairs] = weight[first:]
    dense, to_root[stop:] = _dense_resistances(conductance + conductance.T)
    resistance[first:] = dense[pairs]
    kernels.resistances(ptr, row, weight, stop, total, resistance, to_root)
    return resistance[edge], to_root


def _dense_resistances(conductance: Floats) -> tuple[Floats, Floats]:
    """Resistance of every pair of nodes, above the diagonal, and of every node to the last one."""
    laplacian = np.diag(conductance.sum(axis=1)) - conductance
    inverse = np.zeros_like(laplacian)
    inverse[:-1, :-1] = lapack.dpotri(lapack.dpotrf(laplacian[:-1, :-1])[0])[0]  # upper half
    to_last = np.diag(inverse).copy()
    return to_last[:, None] + to_last - 2 * inverse, to_last
