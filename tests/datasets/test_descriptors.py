"""Shape contexts by hand."""

import numpy as np
import pytest

from mlestruct.datasets import (
    shape_context,
)


def test_shape_context_of_a_square_by_hand():
    # Side 1, diagonal 1.414: mean distance 1.138, so sides lie within radius 1 (bin 3) and
    # diagonals within radius 2 (bin 4).
    points = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    expected = np.zeros((4, 60))
    for i in range(4):
        for j in range(4):
            if i != j:
                dx, dy = points[j] - points[i]
                radius = 3 if abs(dx) + abs(dy) == 1 else 4
                angle = int(np.degrees(np.arctan2(dy, dx)) % 360 // 30)
                expected[i, 12 * radius + angle] += 1
    np.testing.assert_array_equal(shape_context(points), expected)


def test_shape_context_ignores_place_and_scale_and_counts_all_others():
    points = np.random.default_rng(0).normal(size=(12, 2))
    found = shape_context(points)
    np.testing.assert_array_equal(found, shape_context(3.0 * points + 7.0))
    assert (found.sum(axis=1) == 11).all()


def test_shape_context_rejects_bad_points():
    for points in (np.zeros((1, 2)), np.zeros((3, 3)), np.full((3, 2), np.nan)):
        with pytest.raises(ValueError, match="points"):
            shape_context(points)
