"""Tokens described by names, against python-crfsuite's reading of the same items."""

import numpy as np
import pytest

from mlestruct.features.dictionaries import Vocabulary, describes_tokens

SAMPLES = [
    [{"word": "Main", "digit": False, "length": 4}, {"word": "St", "capital": True, "length": 2}],
    [{"next": {"word": "St", "shape": {"end": "t"}}, "parts": ["a", "b"], "weight": -0.5}],
    [["word:St", "capital"], {"word": "Main", "nothing": 0.0}],
    [{"length": 3, "weight": np.float64(1.5)}, {"length": 0, "weight": 2.5, "capital": True}],
    [{"length": 5, "new": 0.5, "weight": float("inf")}],
]


def named_rows(vocabulary, table):
    names = list(vocabulary.columns)
    return [
        {names[k]: float(v) for k, v in zip(row.indices, row.data, strict=True)}
        for row in (table[[t]] for t in range(table.shape[0]))
    ]


def test_features_are_those_of_crfsuite():
    pycrfsuite = pytest.importorskip("pycrfsuite")
    vocabulary = Vocabulary()
    table, starts = vocabulary.read(SAMPLES, learn=True)
    theirs = [
        {name: value for name, value in item.items() if value != 0.0}
        for sample in SAMPLES
        for item in pycrfsuite.ItemSequence(sample).items()
    ]
    assert named_rows(vocabulary, table) == theirs
    np.testing.assert_array_equal(starts, [0, 2, 3, 5, 7, 8])


def test_zeros_are_stored_on_request():
    pycrfsuite = pytest.importorskip("pycrfsuite")
    vocabulary = Vocabulary()
    table, _ = vocabulary.read(SAMPLES, learn=True, keep_zeros=True)
    theirs = [item for sample in SAMPLES for item in pycrfsuite.ItemSequence(sample).items()]
    assert named_rows(vocabulary, table) == theirs


def test_unknown_features_are_left_out():
    vocabulary = Vocabulary(["word:Main", "length"])
    tokens = [{"word": "Main", "length": 3}, {"word": "Side"}, {"length": 2, "width": 5}]
    table, _ = vocabulary.read([tokens], learn=False)
    np.testing.assert_array_equal(table.toarray(), [[1.0, 3.0], [0.0, 0.0], [0.0, 2.0]])
    assert list(vocabulary.columns) == ["word:Main", "length"]


def test_repeated_features_add_up():
    vocabulary = Vocabulary()
    table, _ = vocabulary.read([[["a", "b", "a"]]], learn=True)
    np.testing.assert_array_equal(table.toarray(), [[2.0, 1.0]])


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ([{"a": 1}], True),
        ([["a"], []], True),
        ([{"a"}], True),
        ([[1.0, 2.0]], False),
        (np.zeros((2, 2)), False),
        ([], False),
        ("ab", False),
    ],
)
def test_what_describes_tokens(x, expected):
    assert describes_tokens(x) is expected


def test_other_values_are_named():
    with pytest.raises(ValueError, match=r"X\[0\]\[1\]: feature 'a:b' has the value None"):
        Vocabulary().read([[{}, {"a": {"b": None}}]], learn=True)
