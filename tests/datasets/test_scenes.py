"""Generated scenes."""

from itertools import pairwise

import numpy as np
import pytest

from mlestruct.datasets import (
    frame_pairs,
    make_landmark_sequence,
    shape_context,
    split_in_three,
    toy_house,
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


def test_a_body_is_turned_then_tilted():
    """Against rotation matrices, without perspective."""
    body = np.random.default_rng(0).normal(size=(5, 3))
    views = make_landmark_sequence(
        n_frames=2, degrees_per_frame=30.0, noise=0.0, perspective=0.0, body=body,
        first_degrees=10.0, elevation=25.0,
    )  # fmt: skip
    turn, tilt = np.deg2rad(40.0), np.deg2rad(25.0)
    about_y = np.array(
        [[np.cos(turn), 0, np.sin(turn)], [0, 1, 0], [-np.sin(turn), 0, np.cos(turn)]]
    )
    about_x = np.array(
        [[1, 0, 0], [0, np.cos(tilt), np.sin(tilt)], [0, -np.sin(tilt), np.cos(tilt)]]
    )
    np.testing.assert_allclose(views.points[1], (body @ about_y.T @ about_x.T)[:, :2])
    with pytest.raises(ValueError, match="gap"):
        frame_pairs(make_landmark_sequence(4, 5), gap=5)
    with pytest.raises(ValueError, match=r"body: expected shape \(n, 3\)"):
        make_landmark_sequence(body=body[:, :2])


def test_faces_of_the_house_are_flat_and_turned_outwards():
    """Volume by the divergence theorem: positive only if faces are counter-clockwise from outside;
    x, y, z (away) is a left-handed system, so the sign is the other one."""
    house = toy_house()
    assert house.points.shape == (30, 3)
    assert len(house.faces) == len(house.colours)
    assert {i for face in house.faces for i in face} == set(range(30))
    volume = 0.0
    for face in house.faces[:6]:
        corners = house.points[list(face)]
        normals = np.cross(corners[1] - corners[0], corners[2:] - corners[0])
        assert np.linalg.matrix_rank(normals, tol=1e-9) == 1
    for face in (*house.faces[:6], (0, 3, 2, 1)):
        a, *rest = house.points[list(face)]
        volume -= sum(np.linalg.det([a, b, c]) for b, c in pairwise(rest)) / 6
    assert volume == pytest.approx(2.0 * (1.4 * 0.9 + 1.4 * 0.65 / 2))  # length times the gable
