"""Labels of labellings: numbering, labels that are not known, errors that name the sample."""

import warnings

import numpy as np
import pytest

from mlestruct.models.labelling import OTHER, UNKNOWN, Labels, States

NAN = np.nan


def read(labels, shapes=None, name="Y"):
    if shapes is None:
        shapes = [np.shape(label) for label in labels]
    return Labels(labels, shapes, name, "node")


def encoded(states, labels, shapes=None, **options):
    return [own.tolist() for own in states.encode(read(labels, shapes), **options)]


@pytest.mark.parametrize(
    ("labels", "classes", "numbers"),
    [
        ([[0, 2], [1]], [0, 1, 2], [[0, 2], [1]]),
        ([[2, 0, None], [2]], [0, 2], [[1, 0, UNKNOWN], [1]]),
        ([[-1, 1]], [-1, 1], [[0, 1]]),
        ([np.array([0, 255], dtype=np.uint8)], [0, 255], [[0, 1]]),
        ([[0.0, NAN, 1.0]], [0, 1], [[0, UNKNOWN, 1]]),
        ([np.array([True, False]), [5]], [0, 1, 5], [[1, 0], [2]]),
        ([["b", None], ["a"]], ["a", "b"], [[1, UNKNOWN], [0]]),
        ([["b", NAN, "a"]], ["a", "b"], [[1, UNKNOWN, 0]]),
        ([np.array(["b", "a"]), ("", None)], ["", "a", "b"], [[2, 1], [0, UNKNOWN]]),
        ([np.array([["b"], ["a"]])], ["a", "b"], [[1, 0]]),
        ([np.array([3, 7]), [None, 7], [7, NAN]], [3, 7], [[0, 1], [UNKNOWN, 1], [1, UNKNOWN]]),
        ([np.array([10**18 + 1, 5])], [5, 10**18 + 1], [[1, 0]]),
    ],
)
def test_labels_are_numbered_in_order(labels, classes, numbers):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        states = States.learn(read(labels))
    assert states.classes.tolist() == classes
    assert encoded(states, labels) == numbers
    assert encoded(States.learn(read(labels), classes[::-1]), labels) == numbers
    assert encoded(states, [None], [(2, 1)]) == [[UNKNOWN, UNKNOWN]]


def test_listed_classes_need_not_occur():
    states = States.learn(read([["b"]]), np.array(["c", "b"]))
    assert states.classes.tolist() == ["b", "c"]
    assert encoded(states, [["a", "c", None]], others=True) == [[OTHER, 1, UNKNOWN]]
    assert encoded(States([0, 1]), [[2, -1, 0]], others=True) == [[OTHER, OTHER, 0]]


@pytest.mark.parametrize(
    ("labels", "classes", "message"),
    [
        ([[0, 0]], None, "only the label 0"),
        ([["a"], [None]], None, "only the label 'a'"),
        ([[None], [NAN]], None, "no label is known"),
        ([[0, 1], ["a"]], None, r"Y\[0\]: found 0 at position 0; labels must be all strings or"),
        ([[0, 1, 0.5]], None, r"Y\[0\]: found 0.5 at position 2; labels must be whole numbers"),
        ([[0, 1], [1, (1, 2)]], None, r"Y\[1\]: labels do not form an array"),
        ([[1, 2j]], None, r"Y\[0\]: labels must be integers or strings, got dtype complex"),
        ([[0], [1, None, object]], None, r"Y\[1\]: found <class 'object'> at position 2"),
        (
            [np.array([0, 2**63], dtype=np.uint64)],
            None,
            r"Y\[0\]: found 9223372036854775808 at position 1; labels must be at",
        ),
        ([np.ma.array([0, 1], mask=[0, 1])], None, r"Y\[0\]: found masked entries"),
        ([["a"]], ["a"], "`classes` must hold at least two"),
        ([["a"]], ["a", "a"], "`classes` must hold at least two"),
        ([["a"]], ["a", 1], "`classes` must hold at least two"),
        ([["a"]], 3, "`classes` must be a list of all labels; got 3"),
        ([[0, 1, 3]], [0, 1, 2], r"Y\[0\]: found 3 at position 2; expected 0 to 2, or None"),
        ([[1], [[0, -1]]], [0, 1], r"Y\[1\]: found -1 at position \(0, 1\); expected 0 to 1"),
        ([["a", "c"]], ["a", "b"], r"Y\[0\]: found 'c' at position 1; expected one of 'a', 'b'"),
        ([["a"]], [0, 1], r"Y\[0\]: found 'a' at position 0; expected integers like the classes"),
        ([[0]], ["a", "b"], r"Y\[0\]: found 0 at position 0; expected strings like the classes"),
    ],
)
def test_wrong_labels_are_named(labels, classes, message):
    def numbers():
        found = read(labels, [np.shape(np.array(label, dtype=object)) for label in labels])
        return States.learn(found, classes).encode(found)

    with pytest.raises((ValueError, TypeError), match=message):
        numbers()


def test_wrong_shapes_are_named():
    with pytest.raises(ValueError, match=r"Y\[1\]: expected shape \(3,\), a label for every node"):
        read([[0, 1, 2], [0, 1]], [(3,), (3,)])
    with pytest.raises(ValueError, match=r"known\[0\]: .* got the one label 'abc'"):
        read(["abc"], [(3,)], "known")


def test_minus_one_beside_other_labels_is_a_class_with_a_warning():
    with pytest.warns(UserWarning, match="Y: -1 is a class like 0, 1, ...; give None or NaN"):
        assert States.learn(read([[0, 1, -1]])).classes.tolist() == [-1, 0, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert States.learn(read([[0, 1, -1]]), [-1, 0, 1]).classes.tolist() == [-1, 0, 1]
