"""States of labellings: numbering, unknown labels, errors that name the sample."""

import warnings

import numpy as np
import pytest

from mlestruct.labels import UNKNOWN, States, check_states, is_named


def test_integers_are_states_and_strings_are_numbered_in_order():
    numbers = States.learn([[0, 2, UNKNOWN], [1]])
    assert numbers.classes.tolist() == [0, 1, 2]
    assert numbers.encode([2, -1, 0], "Y[0]").tolist() == [2, UNKNOWN, 0]
    names = States.learn([["b", None], ["a"]])
    assert names.classes.tolist() == ["a", "b"]
    assert names.encode([["b", None, "a"]], "Y[0]").tolist() == [[1, UNKNOWN, 0]]
    for states in (numbers, names):
        again = States(states.to_list())
        codes = np.arange(len(states))
        np.testing.assert_array_equal(again.encode(again.decode(codes), "Y"), codes)
        np.testing.assert_array_equal(States.from_classes(states.classes).classes, states.classes)


def test_strings_that_are_no_states():
    names = States(["a", "b"])
    with pytest.raises(ValueError, match=r"Y\[3\]: found the label 'c' at position 1; .*'a', 'b'"):
        names.encode(["a", "c", None], "Y[3]")
    found = names.encode(["a", "c", None], "Y[3]", allow_others=True)
    assert found[0] == 0
    assert found[1] not in (0, 1, UNKNOWN)
    assert found[2] == UNKNOWN


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ([0, 1], r"Y\[0\]: expected shape \(3,\), a label for every node, got \(2,\)"),
        ([0, 1, 3], r"Y\[0\]: found the label 3 at position 2; expected 0 to 2, or -1"),
        ([0, 1, -2], r"Y\[0\]: found the label -2 at position 2"),
        ([0, 1, 0.5], r"Y\[0\]: found 0.5 at position 2; labels must be whole numbers"),
        (["a", "b", "c"], r"Y\[0\]: expected integers like the classes, found strings"),
        ([0, 1, (1, 2)], r"Y\[0\]: labels do not form an array"),
    ],
)
def test_wrong_labels_are_named(label, message):
    with pytest.raises(ValueError, match=message):
        States(3).encode(label, "Y[0]", (3,))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([[0, 0]], "only the label 0"),
        ([["a"], [None]], "only the label 'a'"),
        ([[-1], [None]], "only the label -1"),
        ([[None], [None]], "no label is known"),
        ([[0, 1], ["a"]], r"Y\[1\] holds strings, earlier samples integers"),
        ([[-3]], "only the label -3"),
    ],
)
def test_labels_that_teach_nothing_are_named(labels, message):
    with pytest.raises(ValueError, match=message):
        States.learn(labels)
    assert len(States.learn([[0, 255]], 256)) == 256


def test_kinds_of_labels():
    assert is_named(["a", None], "Y") is True
    assert is_named([0, -1], "Y") is False
    assert is_named([None, None], "Y") is None


def test_state_numbers_of_a_structure():
    np.testing.assert_array_equal(check_states([1, 0, 2], 3, 3), [1, 0, 2])
    with pytest.raises(ValueError, match=r"expected 3 states, got shape \(2,\)"):
        check_states([1, 0], 3, 3)
    with pytest.raises(ValueError, match="expected states from 0 to 1, found 0 to 2"):
        check_states([1, 0, 2], 3, 2)


def test_states_read_booleans_whole_floats_and_any_shape():
    states = States.learn([np.array([[True, False]]), np.array([[1.0, -1.0]])])
    assert len(states) == 2
    np.testing.assert_array_equal(
        states.encode([[1.0, -1.0], [False, True]], "Y"), [[1, -1], [0, 1]]
    )
    np.testing.assert_array_equal(states.encode([None, 1], "Y"), [-1, 1])
    named = States.learn([["b", "a"], [["", None]]])
    assert named.classes.tolist() == ["", "a", "b"]
    np.testing.assert_array_equal(named.encode([["a", None]], "Y"), [[1, -1]])
    assert named.decode(np.array([[2]])).tolist() == [["b"]]
    with pytest.raises(ValueError, match=r"Z: found the label 'c' at position \(0, 1\); expected"):
        named.encode([["a", "c"]], "Z")


@pytest.mark.parametrize(
    ("labels", "unknown", "classes"),
    [
        ([[-1, 1]], None, [-1, 1]),
        ([[-1, 0]], None, [-1, 0]),
        ([[1, 2]], None, [1, 2]),
        ([[0, 255]], None, [0, 255]),
        ([[0, 1, 2, 2]], 0, [1, 2]),  # scribbles: 0 is nothing
        ([["a", "?", "b"]], "?", ["a", "b"]),
        ([[3, "?", 5]], "?", [3, 5]),
        ([[0.0, np.nan, 1.0]], np.nan, [0, 1]),
    ],
)
def test_states_are_the_labels_that_occur(labels, unknown, classes):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        states = States.learn(labels, unknown=unknown)
        codes = states.encode(labels[0], "Y[0]")
    assert states.classes.tolist() == classes
    hidden = codes == UNKNOWN
    assert states.decode(codes[~hidden]).tolist() == np.array(labels[0], object)[~hidden].tolist()
    again = States(states.to_list(), states.unknown)
    np.testing.assert_array_equal(again.encode(labels[0], "Y[0]"), codes)


def test_minus_one_is_assumed_to_be_unknown_only_with_a_warning():
    states = States.learn([[0, 1, -1]])
    with pytest.warns(UserWarning, match=r"Y\[4\]: -1 is taken for 'not known'"):
        assert states.encode([-1, 1], "Y[4]").tolist() == [UNKNOWN, 1]
    with pytest.warns(UserWarning, match="Y: -1 is a state like 0, 2"):
        assert States.learn([[0, 2, -1]]).classes.tolist() == [-1, 0, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        said = States.learn([[0, 1, -1]], unknown=-1)
        assert said.encode([-1, 1], "Y[4]").tolist() == [UNKNOWN, 1]
    with pytest.raises(ValueError, match="only the label 1"):
        States.learn([[1, -1]], unknown=-1)


@pytest.mark.parametrize(
    "labels",
    [
        [["a", "b"], ["b"], ["a", None, "b"]],
        [np.array(["a", "b"]), ("b", "?")],
        [np.array(["b", None], dtype=object), ["a"]],
        [["a", "b"], None, ["b"]],
        [np.array([0, 1]), np.array([1, 0, 0])],
        [np.array([0, 1]), np.array([-1, 0])],
        [np.array([3, 7]), np.array([7])],
        [np.array([0, 1], dtype=np.uint8), [1, 0]],
    ],
)
@pytest.mark.parametrize("unknown", [None, "?", -1])
def test_many_sequences_are_read_as_each_by_itself(labels, unknown):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        states = States.learn([y for y in labels if y is not None], unknown=unknown)
        lengths = [2 if y is None else len(y) for y in labels]
        found = states.encode_all(labels, lengths, "Y")
        for m, (label, length) in enumerate(zip(labels, lengths, strict=True)):
            expected = states.encode(label, f"Y[{m}]", (length,))
            np.testing.assert_array_equal(found[m], expected)
            assert found[m].dtype == np.int64
    whole = np.concatenate([np.array(y, dtype=object).ravel() for y in labels if y is not None])
    hidden = (None, unknown) if unknown is not None or 3 in whole or "a" in whole else (None, -1)
    assert states.to_list() == sorted({label for label in whole if label not in hidden})


def test_errors_in_many_sequences_name_the_one():
    named, counted = States(["a", "b"]), States(2)
    for states, labels, message in (
        (named, [["a"], ["b", "c"]], r"Y\[1\]: found the label 'c' at position 1"),
        (named, [["a", "b"], ["b"]], r"Y\[0\]: expected shape \(1,\)"),
        (named, [["a"], [0, 1]], r"Y\[1\]: expected strings like the classes, found integers"),
        (counted, [np.array([0]), np.array([0, 2])], r"Y\[1\]: found the label 2 at position 1"),
        (counted, [["a"], ["b", "c"]], r"Y\[0\]: expected integers like the classes"),
    ):
        with pytest.raises(ValueError, match=message):
            states.encode_all(labels, [1, 2], "Y")
    with pytest.warns(UserWarning, match=r"Y\[1\]: -1 is taken for 'not known'"):
        States.learn([[0, 1]]).encode_all([np.array([0]), np.array([1, -1])], [1, 2], "Y")
