"""Feature maps: linear scores, moments as their adjoint, and errors that name the culprit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_scores import generators
from scipy import sparse

from mlestruct.features import (
    DenseFeatures,
    FeatureMap,
    IdentityFeatures,
    LazyFeatures,
    SparseFeatures,
    TableFeatures,
    as_feature_map,
)
from mlestruct.structures import BipartiteGraph, SimpleGraph

examples = settings(deadline=None, max_examples=40)
PAIR_FEATURES = {
    "squared": lambda x, y: -((x - y) ** 2),
    "absolute": lambda x, y: -np.abs(x - y),
    "product": lambda x, y: x * y,
}


def tables(rng, n=4, m=6, k=3):
    return rng.normal(size=(n, k)), rng.normal(size=(m, k))


def explicit(kind, left, right):
    """The (n, m, k) array that TableFeatures never makes."""
    return PAIR_FEATURES[kind](left[:, None, :], right[None, :, :])


def make_map(name, rng):
    """A feature map and the matrix G that it stands for."""
    matrix = rng.normal(size=(24, 3))
    if name == "dense":
        return DenseFeatures(matrix), matrix
    if name == "sparse":
        matrix[rng.random(matrix.shape) < 0.7] = 0.0
        return SparseFeatures(sparse.coo_array(matrix)), matrix
    if name == "identity":
        return IdentityFeatures(24), np.eye(24)
    if name == "identity-masked":
        mask = rng.random((4, 6)) < 0.5
        graph = BipartiteGraph.from_mask(mask)
        return IdentityFeatures((4, 6)).on_pairs(graph, one_group=False), np.eye(24)[mask.ravel()]
    if name == "identity-group":
        graph = SimpleGraph.from_edges(6, [(0, 1), (0, 5), (2, 3), (4, 5)])[0]
        return IdentityFeatures((6, 6)).on_pairs(graph, one_group=True), np.eye(15)[[0, 4, 9, 14]]
    if name.startswith("lazy"):
        block = matrix.reshape(4, 6, 3)
        chunk = int(name.removeprefix("lazy"))
        return LazyFeatures(lambda i, j: block[i:j], 4, 6, 3, chunk=chunk), matrix
    kind, _, shape = name.partition("-")
    left, right = tables(rng)
    matrix = explicit(kind, left, right)
    if shape == "all":
        return TableFeatures(left, right, kind), matrix.reshape(24, 3)
    mask = rng.random((4, 6)) < 0.5
    graph = BipartiteGraph.from_mask(mask)
    return TableFeatures(left, right, kind, graph), matrix[mask]


NAMES = ["dense", "sparse", "identity", "identity-masked", "identity-group", "lazy1", "lazy3",
         "lazy64"]  # fmt: skip
NAMES += [f"{kind}-{shape}" for kind in PAIR_FEATURES for shape in ("all", "graph")]


@pytest.mark.parametrize("name", NAMES)
@examples
@given(rng=generators)
def test_map_equals_its_matrix(name, rng):
    features, matrix = make_map(name, rng)
    assert isinstance(features, FeatureMap)
    assert (features.n_scored, features.n_features) == matrix.shape
    theta = rng.normal(size=features.n_features)
    tau = rng.normal(size=features.n_scored)
    np.testing.assert_allclose(features.scores(theta), matrix @ theta, atol=1e-12)
    np.testing.assert_allclose(features.moments(tau), matrix.T @ tau, atol=1e-12)
    # The adjoint identity, in the map's own words.
    assert features.scores(theta) @ tau == pytest.approx(theta @ features.moments(tau), abs=1e-10)


@pytest.mark.parametrize("name", NAMES)
@examples
@given(rng=generators, size=st.integers(0, 8))
def test_moments_at_a_few_coordinates_equal_those_of_the_dense_vector(name, rng, size):
    features, matrix = make_map(name, rng)
    size = min(size, features.n_scored)
    indices = rng.choice(features.n_scored, size=size, replace=False)
    values = rng.normal(size=size)
    tau = np.zeros(features.n_scored)
    tau[indices] = values
    np.testing.assert_allclose(features.moments_at(indices, values), matrix.T @ tau, atol=1e-12)


@pytest.mark.parametrize("kind", PAIR_FEATURES)
def test_table_features_restricted_to_a_graph_keep_their_values(kind):
    rng = np.random.default_rng(0)
    left, right = tables(rng)
    mask = rng.random((4, 6)) < 0.5
    theta = rng.normal(size=3)
    everywhere = TableFeatures(left, right, kind)
    restricted = everywhere.on_pairs(BipartiteGraph.from_mask(mask))
    assert restricted.n_scored == mask.sum()
    np.testing.assert_allclose(
        restricted.scores(theta), everywhere.scores(theta).reshape(4, 6)[mask], atol=1e-12
    )


def test_lazy_features_never_ask_for_more_than_a_chunk():
    asked = []

    def function(start, stop):
        asked.append(stop - start)
        return np.ones((stop - start, 2, 1))

    features = LazyFeatures(function, 10, 2, 1, chunk=4)
    features.scores(np.ones(1))
    features.moments(np.ones(20))
    assert max(asked) == 4
    assert sum(asked) == 20


def test_only_maps_that_hold_a_matrix_offer_it():
    matrix = np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(DenseFeatures(matrix).matrix, matrix)
    assert SparseFeatures(sparse.csr_array(matrix)).matrix is None
    np.testing.assert_array_equal(IdentityFeatures(3).matrix, np.eye(3))
    assert IdentityFeatures(10_000).matrix is None


class Plain:
    """A feature map that knows nothing of the contract's class."""

    n_features, n_scored = 2, 3

    def __init__(self, matrix):
        self._matrix = matrix

    def scores(self, theta):
        return self._matrix @ theta

    def moments(self, tau):
        return tau @ self._matrix


def test_objects_with_the_required_members_are_adapted_once():
    matrix = np.arange(6.0).reshape(3, 2)
    plain = Plain(matrix)
    features = as_feature_map(plain)
    assert isinstance(features, FeatureMap)
    assert as_feature_map(features) is features
    assert features == as_feature_map(plain)
    assert hash(features) == hash(as_feature_map(plain))
    assert features != as_feature_map(Plain(matrix))
    np.testing.assert_array_equal(features.scores(np.ones(2)), matrix.sum(axis=1))
    np.testing.assert_array_equal(features.moments_at(np.array([2]), np.array([3.0])), [12, 15])
    assert features.matrix is None
    assert features.second_moments() is None
    assert features.shape is None
    assert features.stream(np.ones(2)) is None


def test_an_adapted_map_keeps_what_else_it_has():
    plain = Plain(np.arange(6.0).reshape(3, 2))
    plain.matrix, plain.feature_names, plain.shape = plain._matrix, ["a", "b"], (1, 3)
    plain.second_moments = lambda: [(np.eye(2), np.ones(1))]
    features = as_feature_map(plain)
    assert features.matrix is plain._matrix
    assert (features.feature_names, features.shape) == (["a", "b"], (1, 3))
    assert features.second_moments()[0][1] == 1.0


def test_identity_does_not_hand_out_its_input():
    theta = np.ones(3)
    IdentityFeatures(3).scores(theta)[0] = 7.0
    IdentityFeatures(3).moments(theta)[0] = 7.0
    assert (theta == 1).all()


@pytest.mark.parametrize("kind", ["squared", "absolute"])
def test_tables_far_from_zero(kind):
    """Metres of a map grid, seconds since 1970: features are differences, of order 1."""
    rng = np.random.default_rng(0)
    left, right = (1.7e9 + table for table in tables(rng))
    far, matrix = TableFeatures(left, right, kind), explicit(kind, left, right).reshape(24, 3)
    theta, tau = rng.normal(size=3), rng.random(24)
    np.testing.assert_allclose(far.scores(theta), matrix @ theta, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(far.moments(tau), tau @ matrix, rtol=1e-9)


ONES, WIDER = np.ones((2, 3)), np.ones((2, 4))
INFINITE = np.full((3, 2, 1), np.inf)


def lazy(block):
    return LazyFeatures(lambda start, stop: block, 3, 2, 1).scores(np.ones(1))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: as_feature_map({}), TypeError, r"dict is no feature map: it lacks \['n_features'"),
        (lambda: IdentityFeatures((3,)), ValueError, "size: expected"),
        (lambda: IdentityFeatures((0, 4)), ValueError, "size: expected"),
        (lambda: IdentityFeatures((2, 2, 2)), ValueError, "size: expected"),
        (lambda: DenseFeatures(np.ones(3)), ValueError, r"matrix.*2 dimensions"),
        (lambda: SparseFeatures(ONES), TypeError, r"matrix.*sparse"),
        (lambda: TableFeatures(ONES, ONES, "cosine"), ValueError, r"kind.*cosine"),
        (lambda: TableFeatures(ONES, np.ones(3)), ValueError, "right: expected shape"),
        (lambda: TableFeatures(np.nan * ONES, ONES), ValueError, "left: contains NaN"),
        (lambda: TableFeatures(ONES, WIDER), ValueError, "same number of features.*3 and 4"),
        (lambda: lazy(np.ones((1, 2, 2))), ValueError, r"must give shape \(3, 2, 1\)"),
        (lambda: lazy(INFINITE), ValueError, "NaN or infinity"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_errors_of_pairs():
    with pytest.raises(ValueError, match=r"size: found \(3, 4\), the pairs are of \(4, 6\)"):
        IdentityFeatures((3, 4)).on_pairs(BipartiteGraph.complete(4, 6), one_group=False)
    with pytest.raises(ValueError, match="graph: expected 2 rows and 2 columns, got 2 and 5"):
        TableFeatures(ONES, ONES, graph=BipartiteGraph.complete(2, 5))
