"""Adjacency matrices and networkx graphs as edges, against lists of edges."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import mlestruct
from mlestruct import GraphCRF
from mlestruct.features import networkx_sample
from mlestruct.features.graphs import edge_pairs


def ring(n=10):
    return np.stack([np.arange(n), (np.arange(n) + 1) % n], axis=1)


def samples(seed=0, n_graphs=12):
    rng = np.random.default_rng(seed)
    Y = [np.repeat(rng.integers(2, size=5), 2) for _ in range(n_graphs)]
    return [np.eye(2)[y] + rng.normal(size=(10, 2)) for y in Y], Y


def test_every_form_of_a_graph_is_the_same_problem(tmp_path):
    nodes, Y = samples()
    pairs = np.sort(ring(), axis=1)
    upper = np.array(sorted(map(tuple, pairs.tolist())))
    adjacency = sparse.coo_array((np.full(10, 7.0), pairs.T), shape=(10, 10))
    adjacency = (adjacency + adjacency.T).tocsc()
    graph = nx.from_edgelist(upper.tolist())
    names = [f"n{k}" for k in range(10)]
    named = nx.Graph()
    named.add_nodes_from(np.random.default_rng(0).permutation(names).tolist())
    named.add_edges_from((names[a], names[b]) for a, b in upper.tolist())
    place = [names.index(node) for node in named.nodes]
    frames = [pd.DataFrame(x, columns=["u", "v"], index=names) for x in nodes]
    both_ways = np.concatenate([pairs, pairs[:, ::-1]])
    order = list(graph.nodes)
    weight = np.linspace(0.5, 1.5, 10)[:, None]  # of the edges in their order
    of_edge = dict(zip(map(frozenset, upper.tolist()), weight, strict=True))
    others = [of_edge[frozenset(edge)] for edge in graph.edges]
    for features in (False, True):
        plain = [
            np.concatenate([weight[[np.flatnonzero((upper == p).all(1))[0] for p in pairs]]] * 2)
        ]
        inputs = {
            "edges": ([(x, both_ways, *plain * features) for x in nodes], Y),
            "adjacency": ([(x, adjacency, *[weight] * features) for x in nodes], Y),
            "networkx": (
                [(x[order], graph, *[others] * features) for x in nodes],
                [y[order] for y in Y],
            ),
        }
        if not features:
            inputs["frame"] = [(x, named) for x in frames], [y[place] for y in Y]
        models = {form: GraphCRF(tol=1e-8).fit(*data) for form, data in inputs.items()}
        for form, model in models.items():
            np.testing.assert_allclose(model.coef_, models["edges"].coef_, atol=2e-3, err_msg=form)
            swapped = model.edge_coef_.transpose(1, 0, 2)
            np.testing.assert_allclose(model.edge_coef_, swapped, atol=2e-3, err_msg=form)
    model = GraphCRF().fit([(x, named) for x in frames], [y[place] for y in Y])
    assert model.feature_names_in_.tolist() == ["u", "v"]
    model.save(tmp_path / "model.mls")
    again = mlestruct.load(tmp_path / "model.mls")
    assert again.named_coef() == model.named_coef()
    with pytest.raises(ValueError, match="feature 0 is 'v', in fit it was 'u'"):
        again.predict([(frames[0][["v", "u"]], named)])
    with pytest.raises(ValueError, match=r"X\[0\]: the index of a data frame must name every node"):
        again.predict([(frames[0].reset_index(drop=True), named)])


def test_attributes_become_features_and_labels():
    graph = nx.Graph()
    for k in range(6):
        graph.add_node(f"n{k}", size=float(k), flag=k % 2 == 0)
    graph.add_edge("n0", "n1", weight=2.0)
    graph.add_edge("n4", "n3", weight=0.5)
    nx.set_node_attributes(graph, {"n0": "a", "n1": "b", "n2": "a"}, "kind")
    (nodes, edges, between), y = networkx_sample(graph, ["size", "flag"], ["weight"], label="kind")
    np.testing.assert_array_equal(nodes, [[k, k % 2 == 0] for k in range(6)])
    np.testing.assert_array_equal(between, [[2.0], [0.5]])
    assert edges.tolist() in ([[0, 1], [3, 4]], [[0, 1], [4, 3]])
    assert y.tolist() == ["a", "b", "a", None, None, None]
    assert networkx_sample(nx.empty_graph(0), ["size"])[0][0].shape == (0, 1)
    with pytest.raises(ValueError, match="node 'n0' has no attribute 'colour'"):
        networkx_sample(graph, ["colour"])
    nx.set_edge_attributes(graph, "x", "text")
    with pytest.raises(ValueError, match="edge_features: expected attributes that are numbers"):
        networkx_sample(graph, ["size"], ["text"])
    with pytest.raises(TypeError, match="names of attributes in a list"):
        networkx_sample(graph, "size")


def test_odd_graphs_are_told():
    one_way = sparse.csr_array(([1.0], ([0], [1])), shape=(3, 3))
    with pytest.raises(ValueError, match=r"not symmetric: \(0, 1\) differs"):
        edge_pairs(one_way, 3)
    with pytest.raises(ValueError, match=r"has shape \(3, 3\), expected \(4, 4\)"):
        edge_pairs(one_way, 4)
    with pytest.raises(ValueError, match=r"X\[0\]: edges have the shape \(3, 3\) of an adjacency"):
        GraphCRF().fit([(np.ones((3, 1)), np.ones((3, 3)))], [[0, 1, 0]])
    with pytest.raises(ValueError, match="to itself"):
        edge_pairs(sparse.eye_array(3), 3)
    with pytest.raises(ValueError, match=r"X\[0\]: the graph has 4 nodes, node_features 3 rows"):
        GraphCRF().fit([(np.ones((3, 1)), nx.path_graph(4))], [[0, 1, 0]])
    with pytest.raises(ValueError, match="parallel edges"):
        edge_pairs(nx.MultiGraph([(0, 1), (0, 1)]), 2)
    assert edge_pairs(nx.empty_graph(3), 3).shape == (0, 2)
    directed = nx.DiGraph([(1, 0), (1, 2)])
    place = {node: k for k, node in enumerate(directed.nodes)}
    expected = [[place[1], place[0]], [place[1], place[2]]]
    assert edge_pairs(directed, 3).tolist() == expected
