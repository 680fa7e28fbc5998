"""Generated scenes, descriptors, and the loader of the real landmarks."""

import os

import numpy as np
import pytest

from mlestruct.datasets import (
    frame_pairs,
    load_cmu_landmarks,
    make_landmark_sequence,
    shape_context,
    split_in_three,
)

real_data = pytest.mark.skipif(
    "MLESTRUCT_DATA" not in os.environ, reason="MLESTRUCT_DATA does not name the real data"
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


def test_bad_gap_and_missing_data(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="gap"):
        frame_pairs(make_landmark_sequence(4, 5), gap=5)
    monkeypatch.delenv("MLESTRUCT_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="MLESTRUCT_DATA"):
        load_cmu_landmarks("house")
    with pytest.raises(FileNotFoundError, match=r"house\.csv"):
        load_cmu_landmarks("house", tmp_path)
    with pytest.raises(ValueError, match="'house' or 'hotel'"):
        load_cmu_landmarks("barn", tmp_path)


def test_loader_reads_and_checks_files(tmp_path):
    folder = tmp_path / "cmu_landmarks"
    folder.mkdir()
    (folder / "house.csv").write_text("frame,landmark,x,y\n0,0,1,2\n0,1,3,4\n1,0,5,6\n1,1,7,8\n")
    np.testing.assert_array_equal(
        load_cmu_landmarks("house", tmp_path).points, [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]
    )
    (folder / "hotel.csv").write_text("frame,landmark,x,y\n0,0,1,2\n1,1,7,8\n")
    with pytest.raises(ValueError, match="frame 0 has no landmark 1"):
        load_cmu_landmarks("hotel", tmp_path)


@real_data
def test_real_landmarks():
    assert load_cmu_landmarks("house").points.shape == (111, 30, 2)
    assert load_cmu_landmarks("hotel").points.shape == (101, 30, 2)
