"""The loader of the real landmarks."""

import os

import numpy as np
import pytest

from mlestruct.datasets import (
    frame_pairs,
    load_cmu_landmarks,
    make_landmark_sequence,
)

real_data = pytest.mark.skipif(
    "MLESTRUCT_DATA" not in os.environ, reason="MLESTRUCT_DATA does not name the real data"
)


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
