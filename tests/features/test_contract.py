"""What a feature map must have, and what it gets from the contract."""

import numpy as np
import pytest

from mlestruct.features import FeatureMap
from mlestruct.features.rows import as_feature_map


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
    features = as_feature_map(Plain(matrix))
    assert isinstance(features, FeatureMap)
    assert as_feature_map(features) is features
    np.testing.assert_array_equal(features.scores(np.ones(2)), matrix.sum(axis=1))
    np.testing.assert_array_equal(features.moments_at(np.array([2]), np.array([3.0])), [12, 15])
    assert features.score_range(np.ones(2)) == 8.0
    assert features.second_moments() is None


def test_an_adapted_map_keeps_its_names():
    plain = Plain(np.ones((3, 2)))
    plain.feature_names = ["a", "b"]
    assert as_feature_map(plain).feature_names == ["a", "b"]


def test_what_is_missing_is_named():
    with pytest.raises(TypeError, match=r"`features` must be a matrix or have .* dict lacks"):
        as_feature_map({})
