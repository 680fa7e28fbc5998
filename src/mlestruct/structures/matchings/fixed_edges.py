"""Fixed edges: used by no admissible (fractional) matching, or by all of them.

From one feasible point, others are reached by moving along cycles of the residual digraph of the
double cover: an edge that is not full can be filled, one that is not empty can be emptied, and
unused capacity leads through one further node. So an edge can vary exactly if its two ends lie in
one strongly connected component.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from ..graphs.simple import SimpleGraph

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def varying(
    graph: SimpleGraph, x: Floats, capacity: Floats, free: Bools, slack: Floats
) -> tuple[Bools, Bools]:
    """Edges, and nodes' unused capacities, that are not the same in all fractional b-matchings.

    `x` (n_edges,) with unused capacities `slack` (n_nodes,) is one of them.
    """
    n = graph.n_nodes
    row, col = graph.row, graph.col
    left, right = np.concatenate([row, col]), np.concatenate([col, row]) + n
    value = np.concatenate([x, x])
    nodes, ground = np.flatnonzero(free), 2 * n
    more, less = slack[nodes] < capacity[nodes], slack[nodes] > 0
    tails = [left[value < 1], right[value > 0], nodes[more], nodes[less] + n]
    heads = [right[value < 1], left[value > 0], nodes[more] * 0 + ground, nodes[less] * 0 + ground]
    tails += [nodes[less] * 0 + ground, nodes[more] * 0 + ground]
    heads += [nodes[less], nodes[more] + n]
    tail, head = np.concatenate(tails), np.concatenate(heads)
    arcs = sparse.csr_array(
        (np.ones(tail.shape[0], dtype=np.int8), (tail, head)), shape=(ground + 1, ground + 1)
    )
    _, component = connected_components(arcs, directed=True, connection="strong")
    edges = component[row] == component[col + n]
    touched = np.zeros(n, dtype=bool)
    touched[row[edges]] = touched[col[edges]] = True
    return edges, free & touched & (component[:n] == component[ground])
