"""Graphs as people have them: SciPy adjacency matrices, and networkx graphs with attributes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Floats = NDArray[np.float64]


def is_networkx(graph: Any) -> bool:
    """Whether this is a graph of networkx, which need not be installed."""
    return hasattr(graph, "nodes") and hasattr(graph, "edges") and hasattr(graph, "adj")


def is_undirected(graph: Any) -> bool:
    """Whether this is an adjacency matrix or an undirected graph of networkx."""
    return bool(sparse.issparse(graph) or (is_networkx(graph) and not graph.is_directed()))


def edge_pairs(graph: Any, n_nodes: int) -> Any:
    """The edges of a graph in any form as (n_edges, 2); what is no graph is returned as it is.

    graph : a SciPy adjacency matrix, whose stored nonzero entries above the diagonal are the edges,
        row by row; or a networkx graph, with nodes numbered in the order of `graph.nodes`
    """
    if is_networkx(graph):
        if len(graph) != n_nodes:
            raise ValueError(f"the graph has {len(graph)} nodes, node_features {n_nodes} rows")
        if graph.is_multigraph():
            raise ValueError("the graph has parallel edges; make it a networkx.Graph")
        place = {node: k for k, node in enumerate(graph.nodes)}
        pairs = [(place[a], place[b]) for a, b in graph.edges]
        return np.array(pairs, dtype=np.int64).reshape(-1, 2)
    if not sparse.issparse(graph):
        try:
            shape = np.shape(graph)
        except ValueError as error:  # rows of different lengths
            raise ValueError(f"edges: expected an array: {error}") from None
        if n_nodes > 2 and shape == (n_nodes, n_nodes):
            raise ValueError(
                f"edges have the shape ({n_nodes}, {n_nodes}) of an adjacency matrix; give it as a "
                "SciPy sparse one, scipy.sparse.csr_array(edges)"
            )
        return graph
    if graph.shape != (n_nodes, n_nodes):
        raise ValueError(f"the adjacency has shape {graph.shape}, expected ({n_nodes}, {n_nodes})")
    pattern = sparse.csr_array(graph) != 0
    differs = sparse.coo_array(pattern != pattern.T)
    if differs.nnz:
        a, b = (int(k[0]) for k in differs.coords)
        raise ValueError(
            f"the adjacency is not symmetric: ({a}, {b}) differs from ({b}, {a}); add its "
            "transpose, or list the edges with their direction as (n_edges, 2)"
        )
    if pattern.diagonal().any():
        raise ValueError("the adjacency joins a node to itself; set its diagonal to 0")
    upper = sparse.csr_array(sparse.triu(pattern, 1))
    upper.sort_indices()
    return np.stack(upper.tocoo().coords, axis=1).astype(np.int64)


def rows_of_nodes(frame: Any, graph: Any) -> Any:
    """The rows of a pandas frame, whose index names nodes, in the order of a networkx graph."""
    missing = [node for node in graph.nodes if node not in frame.index]
    if missing or not frame.index.is_unique or len(frame) != len(graph):
        raise ValueError(
            "the index of a data frame must name every node of the networkx graph once"
            + (f"; it lacks {missing[0]!r}" if missing else "")
        )
    return frame.loc[list(graph.nodes)]


def networkx_sample(
    graph: Any,
    node_features: Sequence[Hashable],
    edge_features: Sequence[Hashable] | None = None,
    label: Hashable | None = None,
) -> tuple[Any, NDArray[np.object_] | None]:
    """A sample for `GraphCRF` from a networkx graph with attributes, and its labels.

    Parameters
    ----------
    graph : networkx.Graph or DiGraph
    node_features, edge_features : names of attributes that hold numbers
    label : the attribute with the label of a node, None where it is not known

    Returns
    -------
    x : (node_features, edges) or (node_features, edges, edge_features), nodes in the order of
        `graph.nodes`
    y : ndarray of labels, None where a node has none; None without `label`

    Examples
    --------
    >>> import networkx
    >>> from mlestruct.features import networkx_sample
    >>> graph = networkx.path_graph(3)
    >>> networkx.set_node_attributes(graph, {0: 0.5, 1: 1.0, 2: 2.0}, "size")
    >>> networkx.set_node_attributes(graph, {0: "a", 2: "b"}, "kind")
    >>> (nodes, edges), y = networkx_sample(graph, ["size"], label="kind")
    >>> nodes.ravel().tolist(), edges.tolist(), y.tolist()
    ([0.5, 1.0, 2.0], [[0, 1], [1, 2]], ['a', None, 'b'])
    """
    nodes = _attributes(graph.nodes(data=True), node_features, "node")
    edges = edge_pairs(graph, len(graph))
    y = None
    if label is not None:
        y = np.array([data.get(label) for _, data in graph.nodes(data=True)], dtype=object)
    if edge_features is None:
        return (nodes, edges), y
    between = (((a, b), data) for a, b, data in graph.edges(data=True))
    return (nodes, edges, _attributes(between, edge_features, "edge")), y


def _attributes(items: Any, names: Sequence[Hashable], kind: str) -> Floats:
    """Attributes of nodes or edges as an array of shape (n_items, n_names)."""
    if isinstance(names, str):
        raise TypeError(f"{kind}_features: expected names of attributes in a list, got {names!r}")
    rows = []
    for item, data in items:
        for name in names:
            if name not in data:
                raise ValueError(f"{kind}_features: {kind} {item!r} has no attribute {name!r}")
        rows.append([data[name] for name in names])
    try:
        return np.array(rows, dtype=np.float64).reshape(-1, len(names))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{kind}_features: expected attributes that are numbers ({error})"
        ) from None
