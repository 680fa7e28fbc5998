"""Generated scenes."""

import numpy as np

from mlestruct.datasets import (
    frame_pairs,
    make_landmark_sequence,
    shape_context,
    split_in_three,
)


def test_a_sequence_is_a_rigid_turn():
    still = make_landmark_sequence(10, 5, degrees_per_frame=0.0, noise=0.0, random_state=0)
    for frame in still.points:
        np.testing.assert_array_equal(frame, still.points[0])
    around = make_landmark_sequence(
        10, 3, degrees_per_frame=180.0, noise=0.0, perspective=0.0, random_state=0
    )
    np.testing.assert_allclose(around.points[2], around.points[0], atol=1e-12)
    np.testing.assert_allclose(around.points[1, :, 0], -around.points[0, :, 0], atol=1e-12)


def test_pairs_follow_the_landmarks_through_the_shuffle():
    sequence = make_landmark_sequence(8, 20, random_state=0)
    pairs = frame_pairs(sequence, gap=5)
    assert len(pairs) == 15
    for (i, j), left, right, y in zip(pairs.frames, pairs.left, pairs.right, pairs.Y, strict=True):
        assert j - i == 5
        np.testing.assert_array_equal(left, sequence.points[i])
        np.testing.assert_array_equal(right[y], sequence.points[j])
    x = pairs.X[0]
    a, b = shape_context(pairs.left[0]), shape_context(pairs.right[0])
    np.testing.assert_array_equal(x[2, 3], -((a[2] - b[3]) ** 2))


def test_split_goes_by_i_mod_3():
    pairs = frame_pairs(make_landmark_sequence(4, 11, random_state=0), gap=1)
    train, validate, test = split_in_three(pairs)
    assert [f[0] for f in train.frames] == [0, 3, 6, 9]
    assert [f[0] for f in validate.frames] == [1, 4, 7]
    assert [f[0] for f in test.frames] == [2, 5, 8]
