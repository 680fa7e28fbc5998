"""Many samples over one graph: exact and reweighted answers, with known states."""

import numpy as np
import pytest
from enumerated_answers import Enumerated

from mlestruct.structures.graphs.pairwise import PairwiseGraph
from mlestruct.structures.labellings.pairwise import Pairwise
from mlestruct.structures.labellings.repeated import CHUNK, RepeatedBinary

CYCLE = PairwiseGraph(5, [[0, 1], [1, 2], [2, 3], [3, 4], [4, 0], [0, 2]])
TREE = PairwiseGraph(5, [[0, 1], [1, 2], [1, 3], [3, 4]])


def scores(rng, graph, n=7):
    return rng.normal(size=(n, graph.n_nodes)), rng.normal(size=(n, graph.n_edges))


def pairs_of(graph):
    return np.stack([graph.tail, graph.head], axis=1)


@pytest.mark.parametrize("inference", ["exact", "reweighted"])
def test_conditioning_on_a_tree_is_exact(inference):
    rng = np.random.default_rng(0)
    fields, couplings = scores(rng, TREE)
    known = rng.integers(-1, 2, size=fields.shape)
    known[0], known[1] = -1, 1
    model = RepeatedBinary(TREE, inference=inference)
    found = model.marginals(fields, couplings, known, tol=1e-10)
    best, _ = model.best(fields, couplings, known)
    for m in range(len(fields)):
        exact = Enumerated(pairs_of(TREE), fields[m], couplings[m], known[m])
        np.testing.assert_allclose(found.nodes[m], exact.nodes, atol=1e-4)
        np.testing.assert_allclose(found.edges[m], exact.edges, atol=1e-4)
        assert (best[m] == exact.answers[exact.scores.argmax()]).all()


def test_copies_are_independent():
    """The reweighted marginals of a sample do not depend on those beside it."""
    rng = np.random.default_rng(1)
    fields, couplings = scores(rng, CYCLE, CHUNK + 3)
    model, single = RepeatedBinary(CYCLE, inference="reweighted"), Pairwise(CYCLE, 2)
    found = model.marginals(fields, couplings, tol=1e-10)
    for m in (0, 100, CHUNK + 2):
        alone = single.marginals(model.scores(fields[m, None], couplings[m, None]), tol=1e-9)
        nodes, edges = single.node_marginals(alone.tau), single.edge_marginals(alone.tau)
        np.testing.assert_allclose(found.nodes[m], nodes[:, 1], atol=1e-3)
        np.testing.assert_allclose(found.edges[m], edges[:, 1, 1], atol=1e-3)


def test_clamping_equals_very_large_scores():
    rng = np.random.default_rng(2)
    fields, couplings = scores(rng, CYCLE)
    known = np.full(fields.shape, -1)
    known[:, 0], known[:, 3] = 1, 0
    model = RepeatedBinary(CYCLE, inference="reweighted")
    forced = fields.copy()
    forced[:, 0], forced[:, 3] = 40.0, -40.0
    given = model.marginals(fields, couplings, known, tol=1e-10)
    pushed = model.marginals(forced, couplings, tol=1e-10)
    np.testing.assert_allclose(given.nodes, pushed.nodes, atol=1e-3)


@pytest.mark.parametrize("inference", ["exact", "reweighted"])
def test_bounds_contain_log_z(inference):
    rng = np.random.default_rng(3)
    fields, couplings = scores(rng, CYCLE)
    lower, upper = RepeatedBinary(CYCLE, inference=inference).log_partition_bounds(
        fields, couplings
    )
    for m in range(len(fields)):
        log_z = Enumerated(pairs_of(CYCLE), fields[m], couplings[m]).log_partition
        assert lower[m] - 1e-9 <= log_z <= upper[m] + 1e-9


def test_spaces_have_the_same_coordinates():
    rng = np.random.default_rng(4)
    fields, couplings = scores(rng, TREE, 3)
    flat = RepeatedBinary(TREE).scores(fields, couplings)
    for tables in (flat, flat + rng.normal(size=flat.size)):  # any
        exact = RepeatedBinary(TREE).space(3).marginals(tables)
        passed = RepeatedBinary(TREE, inference="reweighted").space(3).marginals(tables, tol=1e-10)
        assert exact.value == pytest.approx(passed.value, abs=1e-6)
        np.testing.assert_allclose(exact.tau, passed.tau, atol=1e-4)


def test_scores_and_points_are_those_of_the_samples():
    rng = np.random.default_rng(5)
    fields, couplings = scores(rng, CYCLE, 3)
    states = rng.integers(2, size=fields.shape)
    model = RepeatedBinary(CYCLE, inference="reweighted")
    expected = model.scores_of(states, fields, couplings)
    vertex = model.space(3).encode(states.ravel())
    assert vertex.dot(model.scores(fields, couplings)) == pytest.approx(expected.sum())
    both = states[:, CYCLE.tail] * states[:, CYCLE.head]
    points = [model.point(*own).dense(34) for own in zip(states, both, strict=True)]
    encoded = [model.space(1).encode(own).dense(34) for own in states]
    np.testing.assert_array_equal(points, encoded)
    mean = model.point(states.mean(axis=0), both.mean(axis=0)).dense(34)
    np.testing.assert_allclose(mean, np.mean(encoded, axis=0), atol=1e-15)


def test_inference_must_be_known():
    with pytest.raises(ValueError, match="inference"):
        RepeatedBinary(TREE, inference="fast")
