"""Data and labels as people have them are right, an error or a warning; never silently wrong."""

import numpy as np
import pytest
from scipy import sparse

from mlestruct import BipartiteMatchingCRF, ChainCRF, GraphCRF, GridCRF, PairInput
from mlestruct.baselines import StructuredPerceptron

RNG = np.random.default_rng(0)
MASKS = [RNG.integers(2, size=(6, 6)) for _ in range(6)]
IMAGES = [mask[..., None] + 0.5 * RNG.normal(size=(6, 6, 1)) for mask in MASKS]
NODES = np.array([[1.0], [-1.0], [0.9], [-1.2], [-0.8]])
STATES = np.array([0, 1, 0, 1, 1])


@pytest.mark.parametrize(
    "labels",
    [[-1, 1], [1, 2], [0, 255], ["off", "on"], [False, True]],
    ids=["-1/+1", "1/2", "0/255", "strings", "booleans"],
)
def test_any_two_labels_learn_the_same(labels):
    own = np.array(labels, dtype=np.uint8 if labels == [0, 255] else None)
    Y = [own[mask] for mask in MASKS]
    plain, model = GridCRF().fit(IMAGES, MASKS), GridCRF().fit(IMAGES, Y)
    assert model.classes_.tolist() == labels
    np.testing.assert_allclose(model.coef_, plain.coef_)
    for found, same in zip(model.predict(IMAGES), plain.predict(IMAGES), strict=True):
        np.testing.assert_array_equal(found, np.array(labels)[same])
    assert model.score(IMAGES, Y) == plain.score(IMAGES, MASKS) < 1.0


def test_one_class_is_refused():
    for model, X, Y in (
        (GridCRF(), IMAGES, [0 * mask for mask in MASKS]),
        (ChainCRF(), [NODES], [["a"] * 5]),
        (GraphCRF(), [(NODES, [[0, 1]])], [np.ones(5, dtype=int)]),
    ):
        with pytest.raises(ValueError, match="only the label"):
            model.fit(X, Y)


def test_ties_do_not_decode_to_the_identity():
    X = [RNG.normal(size=(8, 8, 3)) for _ in range(40)]
    identity = [np.arange(8)] * 40
    flat = BipartiteMatchingCRF(alpha=1e12).fit(X, identity)
    untrained = BipartiteMatchingCRF(solver=StructuredPerceptron(max_iter=1)).fit(X, identity)
    untrained.coef_ = np.zeros_like(untrained.coef_)
    for model in (flat, untrained):
        assert model.score(X, identity) < 0.3  # chance is 1/8


def test_single_nodes_without_a_constant_feature():
    partners = np.where(np.arange(8) < 5, np.arange(8), -1)
    X = [np.eye(8)[..., None] + 0.3 * RNG.normal(size=(8, 8, 1)) for _ in range(20)]
    model = BipartiteMatchingCRF(perfect=False).fit(X, [partners] * 20)
    assert model.intercept_ < 0.0 < model.named_coef()["x0"]
    assert np.mean([(found >= 0).mean() for found in model.predict(X)]) > 0.3


def test_rows_of_features_beside_a_sparse_mask():
    mask = sparse.csr_array(np.array([[1, 0, 1], [0, 1, 1], [1, 1, 0]]))
    rows, columns = mask.tocoo().coords
    table = (rows == columns).astype(float)[:, None]
    samples = [PairInput(table, mask=mask)] * 3
    model = BipartiteMatchingCRF(perfect=False, alpha=0.1).fit(samples, [np.array([0, 1, -1])] * 3)
    assert model.predict(samples)[0].tolist() == [0, 1, -1]
    with pytest.raises(ValueError, match="6"):
        model.predict([PairInput(table[:4], mask=mask)])


def test_images_and_masks_of_bytes():
    bytes_ = [(200 * mask + RNG.integers(50, size=(6, 6))).astype(np.uint8) for mask in MASKS]
    masks = [(255 * mask).astype(np.uint8) for mask in MASKS]
    model = GridCRF(standardize=True).fit(bytes_, masks)
    assert model.score(bytes_, masks) == 1.0
    assert model.predict(bytes_)[0].max() == 255


def test_sequences_of_dictionaries_with_features_that_are_new():
    X = [[{"word": "a", "length": 1.0}, {"word": "b"}]] * 2
    model = ChainCRF(alpha=0.1).fit(X, [["X", "Y"]] * 2)
    assert model.predict([[{"word": "never seen"}, {"word": "b"}]])[0].tolist() == ["X", "Y"]


def test_frames_of_polars():
    polars = pytest.importorskip("polars")
    pairs = polars.DataFrame({"l": ["a", "a", "b"], "r": ["x", "y", "y"], "s": [1.0, 0.2, 0.9]})
    sample = PairInput.from_frame(pairs, ids=("l", "r"))
    links = polars.DataFrame({"l": ["a", "b"], "r": ["x", "y"]})
    model = BipartiteMatchingCRF(perfect=False, alpha=0.1).fit([sample], [links])
    found = model.predict_links([sample])[0]
    assert isinstance(found, polars.DataFrame)
    assert found["linked"].to_list() == [True, False, True]
