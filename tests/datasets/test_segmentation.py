"""Generated pictures."""

import numpy as np
import pytest

from mlestruct.datasets.segmentation import make_segmentation
from reproduction.horse_features import node_features


# ---- generated pictures -----------------------------------------------------------------------
@pytest.mark.parametrize("n_states", [2, 5])
def test_generated_pictures(n_states):
    images, masks = make_segmentation(
        8, ((20, 30), (25, 40)), n_states=n_states, noise=0.1, random_state=0
    )
    assert len({image.shape for image in images}) > 1
    for image, mask in zip(images, masks, strict=True):
        assert image.shape == (*mask.shape, 3)
        assert 20 <= mask.shape[0] <= 30
        assert 25 <= mask.shape[1] <= 40
        assert image.dtype == np.float32
        assert mask.dtype == np.int64
        assert image.min() >= 0.0
        assert image.max() <= 1.0
    assert set(np.unique(np.concatenate([m.ravel() for m in masks]))) == set(range(n_states))


def test_the_seed_decides_the_pictures():
    one, other = make_segmentation(2, random_state=4), make_segmentation(2, random_state=4)
    for part, same in zip(one, other, strict=True):
        for a, b in zip(part, same, strict=True):
            np.testing.assert_array_equal(a, b)
    assert (one[1][0] != make_segmentation(1, random_state=5)[1][0]).any()


def test_generated_pictures_are_hard_for_pixels_and_neighbours_help():
    from scipy import ndimage
    from sklearn.linear_model import LogisticRegression

    train, test = (make_segmentation(20, random_state=seed) for seed in (0, 1))
    X = [node_features(image, hog=False).reshape(2500, -1)[::10] for image in train[0]]
    y = [mask.ravel()[::10] for mask in train[1]]
    model = LogisticRegression(C=0.1, max_iter=300).fit(np.concatenate(X), np.concatenate(y))
    alone, together = [], []
    for image, mask in zip(*test, strict=True):
        score = model.decision_function(node_features(image, hog=False).reshape(2500, -1))
        score = score.reshape(mask.shape)
        alone.append(((score > 0) != mask).mean())
        together.append(((ndimage.gaussian_filter(score, 1.0) > 0) != mask).mean())
    assert 0.08 < np.mean(alone) < 0.2
    assert np.mean(together) < 0.9 * np.mean(alone)


def test_bad_arguments_of_generated_pictures_are_named():
    for arguments, name in (
        ({"n_images": -1}, "n_images"),
        ({"n_states": 1}, "n_states"),
        ({"n_states": 6}, "n_states"),
        ({"noise": -0.1}, "noise"),
        ({"noise": np.nan}, "noise"),
        ({"shape": (0, 5)}, "shape"),
        ({"shape": (5, 5, 3)}, "shape"),
        ({"shape": 5}, "shape"),
        ({"shape": ((9, 5), (3, 4))}, "shape"),
    ):
        with pytest.raises(ValueError, match=f"`?{name}`?(: expected| must be)"):
            make_segmentation(**{"n_images": 1, **arguments})
