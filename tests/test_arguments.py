"""Arguments read as arrays or counts: the same numbers, or an error that names the argument."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from mlestruct import ChainCRF, Checkpoint, GridCRF, load
from mlestruct._arguments import as_count, as_floats, as_numbers, as_places, as_table
from mlestruct.datasets import (
    descriptor_features,
    frame_pairs,
    make_segmentation,
    split_in_three,
)
from mlestruct.metrics import reliability

TABLE = np.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize(
    "same",
    [
        TABLE.tolist(), np.asfortranarray(TABLE), TABLE.astype(">f8"), TABLE.astype(object),
        np.matrix(TABLE), np.ma.masked_array(TABLE), TABLE.astype(np.longdouble),
        pd.DataFrame(TABLE, index=[7, 3, 5]),
    ],
)  # fmt: skip
def test_numbers_in_any_form_are_the_same(same):
    for read in (as_floats, as_numbers):
        found = read(same, "x")
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found.astype(np.float64), TABLE)


WRONG = {
    "complex": TABLE + 1j,
    "masked": np.ma.masked_equal(TABLE, 3.0),
    "sparse": sparse.csr_array(TABLE),
    "dates": TABLE.astype(np.int64).astype("M8[s]"),
    "huge": [[10**400, 0]],
    "ragged": [[1.0], [1.0, 2.0]],
    "text": "abc",
    "numbers as text": TABLE.astype(str),
    "numbers as text in an array of objects": TABLE.astype(str).astype(object),
    "object": [[object()]],
    "NA": [[pd.NA]],
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_what_is_no_array_of_numbers_is_refused_by_name(wrong):
    for read in (as_floats, as_numbers, lambda values, name: as_table(values, name, "n", 2)):
        with pytest.raises(ValueError, match=r"^x: expected an array of numbers: "):
            read(wrong, "x")


def test_shapes_and_places():
    assert as_table(TABLE, "x", "n", 2).shape == (3, 2)
    for shape in [(2, 3), ("n",), ("n", 2, 1), (3, 3)]:
        with pytest.raises(ValueError, match=r"x: expected shape \(.*\), got \(3, 2\)"):
            as_table(TABLE, "x", *shape)
    with pytest.raises(ValueError, match="x: contains NaN or infinity"):
        as_table([np.nan], "x", 1)
    np.testing.assert_array_equal(as_places([0.0, 2], "x", 0, 2, "n"), [0, 2])
    for wrong in ([3], [-1], [0.5]):
        with pytest.raises(
            ValueError, match=f"x: expected whole numbers from 0 to 2, got {wrong[0]}"
        ):
            as_places(wrong, "x", 0, 2, "n")


@pytest.mark.parametrize("wrong", [0, -1, 1.0, True, np.inf, None, "x", np.ma.masked, pd.NA, [1]])
def test_counts_are_whole_numbers(wrong):
    assert as_count(np.int32(3), "n") == 3
    with pytest.raises(ValueError, match="`size` must be a whole number of"):
        as_count(wrong, "size")


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_functions_name_what_is_no_array(wrong):
    for make, name in (
        (lambda: descriptor_features(wrong, TABLE), "left"),
        (lambda: reliability([0, 1], wrong), "probability"),
    ):
        with pytest.raises(ValueError, match=f"^{name}: "):
            make()


def test_frames_are_told_by_type():
    for wrong in (None, 3, "x", []):
        with pytest.raises(TypeError, match="`sequence` must be a LandmarkSequence"):
            frame_pairs(wrong, 1)
        with pytest.raises(TypeError, match="pairs: expected FramePairs"):
            split_in_three(wrong)


@pytest.mark.parametrize("wrong", [3, 2.5, None, b"x", [], "a\0b"])
def test_paths_are_told_by_type(wrong):
    model = ChainCRF(tol=0.1).fit([np.eye(2)], [[0, 1]])
    named = {Checkpoint: "checkpoint"}
    for read in (load, model.save, *named):
        name = named.get(read, "path")
        with pytest.raises(ValueError, match=f"^`{name}` must be the path of a file or folder"):
            read(wrong)


MASKED = np.ma.masked_equal(np.arange(12.0).reshape(6, 2), 3.0)
IMAGE = MASKED.reshape(2, 3, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ChainCRF().fit([MASKED], [[0, 1] * 3]), r"X\[0\]: .*found masked entries"),
        (lambda: GridCRF().fit([IMAGE], [[[0, 1, 0], [1, 0, 1]]]), r"X\[0\].*masked"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_noise_of_minus_zero_is_none():
    (one,), _ = make_segmentation(1, (5, 5), noise=-0.0, random_state=0)
    (other,), _ = make_segmentation(1, (5, 5), noise=0.0, random_state=0)
    np.testing.assert_array_equal(one, other)
