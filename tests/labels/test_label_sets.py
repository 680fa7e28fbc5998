"""Matrices of answers: classes per column, unknown answers, errors."""

import numpy as np
import pytest
from scipy import sparse

from mlestruct.labels.label_sets import LabelSets


def test_zeros_and_ones_stay_what_they_are():
    Y = np.array([[0, 1], [0, 0]])
    sets = LabelSets.learn(Y)
    np.testing.assert_array_equal(sets.encode(Y), Y)
    np.testing.assert_array_equal(sets.encode(sparse.csr_array(Y)), Y)
    np.testing.assert_array_equal(sets.decode(Y), Y)


def test_two_classes_a_column():
    Y = np.array([["no", "a"], ["yes", "b"], ["no", "b"]])
    sets = LabelSets.learn(Y)
    states = sets.encode(Y)
    np.testing.assert_array_equal(states, [[0, 0], [1, 1], [0, 1]])
    np.testing.assert_array_equal(sets.decode(states), Y)
    again = LabelSets(sets.to_list())
    np.testing.assert_array_equal(again.decode(states), Y)


def test_one_column_without_second_axis():
    sets = LabelSets.learn(["b", "a", "b"])
    assert sets.encode(["a", "b"]).tolist() == [[0], [1]]
    assert sets.decode(np.array([[0], [1]])).tolist() == ["a", "b"]


@pytest.mark.parametrize("unknown", [-1, np.nan, None])
def test_unknown_answers(unknown):
    sets = LabelSets.learn([[0, 1], [1, 0]])
    states = sets.encode(np.array([[unknown, 1]], dtype=object), "known", partly=True)
    assert states.tolist() == [[-1, 1]]
    with pytest.raises(ValueError, match=r"known\[0, 0\]"):
        sets.encode(np.array([[unknown, 1]], dtype=object), "known")


@pytest.mark.parametrize(
    ("Y", "message"),
    [
        ([[0, 2], [1, 1], [1, 0]], "Column 1 of Y has 3 classes"),
        ([["a"], ["a"]], "has 1 class,"),
        ([[0.5], [0.25]], "continuous"),
        ([[0.0], [np.nan]], "NaN"),
        (np.zeros((2, 2, 2)), "shape"),
        (np.zeros((2, 0)), "shape"),
    ],
)
def test_errors(Y, message):
    with pytest.raises(ValueError, match=message):
        LabelSets.learn(Y)


def test_another_number_of_labels():
    with pytest.raises(ValueError, match="expected 2 labels, got 3"):
        LabelSets.learn([[0, 1]]).encode([[0, 1, 1]])
