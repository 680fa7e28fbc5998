"""Tokens described by names, against python-crfsuite's reading of the same items."""

import pickle
from decimal import Decimal

import numpy as np
import pytest

from mlestruct.features.dictionaries import Vocabulary, describes_tokens

SAMPLES = [
    [{"word": "Main", "digit": False, "length": 4}, {"word": "St", "capital": True, "length": 2}],
    [{"next": {"word": "St", "shape": {"end": "t"}}, "parts": ["a", "b"], "weight": -0.5}],
    [["word:St", "capital"], {"word": "Main", "nothing": 0.0}],
    [{"length": 3, "weight": np.float64(1.5)}, {"length": 0, "weight": 2.5, "capital": True}],
    [{"length": 5, "new": 0.5, "weight": float("inf")}],
    [{"digit": False, "never": 0, "weight": 0.0}, {"capital": True, "word": "St"}],
    [{"capital": True, "word": "St", "length": 1}, {"capital": False, "word": "x", "weight": 0.5}],
    [["capital", "one"], ("one", "word:St"), []],
]
CHUNKS = [1, 3, 1000]  # tokens read at a time


@pytest.fixture(params=CHUNKS)
def chunk(request, monkeypatch):
    monkeypatch.setattr("mlestruct.features.dictionaries.CHUNK", request.param)


def named_rows(vocabulary, table):
    names = list(vocabulary.columns)
    return [
        {names[k]: float(v) for k, v in zip(row.indices, row.data, strict=True)}
        for row in (table[[t]] for t in range(table.shape[0]))
    ]


def test_features_are_those_of_crfsuite(chunk):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    vocabulary = Vocabulary()
    table, starts = vocabulary.read(SAMPLES, learn=True)
    theirs = [
        {name: value for name, value in item.items() if value != 0.0}
        for sample in SAMPLES
        for item in pycrfsuite.ItemSequence(sample).items()
    ]
    assert named_rows(vocabulary, table) == theirs
    np.testing.assert_array_equal(starts, [0, 2, 3, 5, 7, 8, 10, 12, 15])


def test_zeros_are_stored_on_request(chunk):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    vocabulary = Vocabulary()
    table, _ = vocabulary.read(SAMPLES, learn=True, keep_zeros=True)
    theirs = [item for sample in SAMPLES for item in pycrfsuite.ItemSequence(sample).items()]
    assert named_rows(vocabulary, table) == theirs


def test_columns_are_in_the_order_of_the_text(chunk):
    vocabulary = Vocabulary()
    vocabulary.read(SAMPLES, learn=True)
    one_by_one = Vocabulary()
    for sample in SAMPLES:
        for token in sample:
            for name, value in token.items() if isinstance(token, dict) else ():
                one_by_one.read([[{name: value}]], learn=True)
            one_by_one.read([[token]], learn=True)
    assert list(vocabulary.columns.items()) == list(one_by_one.columns.items())
    assert not {"digit", "never", "nothing"} & set(vocabulary.columns)


def test_unknown_features_are_left_out(chunk):
    vocabulary = Vocabulary(["word:Main", "length"])
    tokens = [{"word": "Main", "length": 3}, {"word": "Side"}, {"length": 2, "width": 5}]
    table, _ = vocabulary.read([tokens], learn=False)
    np.testing.assert_array_equal(table.toarray(), [[1.0, 3.0], [0.0, 0.0], [0.0, 2.0]])
    assert list(vocabulary.columns) == ["word:Main", "length"]


def test_repeated_features_add_up():
    vocabulary = Vocabulary()
    table, _ = vocabulary.read([[["a", "b", "a"]]], learn=True)
    np.testing.assert_array_equal(table.toarray(), [[2.0, 1.0]])
    table, _ = vocabulary.read([[{"c": "d:e", "c:d": "e"}]], learn=True)
    np.testing.assert_array_equal(table.toarray(), [[0.0, 0.0, 2.0]])


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


@pytest.mark.parametrize("value", [None, 1j, Decimal(1), [1.0]])
def test_other_values_are_named(value, chunk):
    tokens = [[{"b": 1.0}], [{}, {"a": {"b": 1}}, {"a": {"b": value}}]]
    with pytest.raises(ValueError, match=r"X\[1\]\[2\]: feature 'a:b' has the value"):
        Vocabulary().read(tokens, learn=True)
    with pytest.raises(ValueError, match=r"X\[0\]\[1\]: feature 'b' has the value"):
        Vocabulary().read([[{"b": 1}, {"b": value}, {"b": True}]], learn=True)


def test_without_tokens():
    table, starts = Vocabulary(["a"]).read([[]], learn=True)
    assert table.shape == (0, 1)
    assert starts.tolist() == [0, 0]


def test_texts_that_are_no_features_are_not_kept(chunk):
    vocabulary = Vocabulary(["word:a", "b"])
    tokens = [{"word": "a", "b": True}, {"word": "new", "b": False, "c": True}]
    for _ in range(2):  # the second time, known entries are there
        table, _ = vocabulary.read([tokens], learn=False)
        np.testing.assert_array_equal(table.toarray(), [[1.0, 1.0], [0.0, 0.0]])
        assert vocabulary._known == {("word", "a"): 0, ("b", True): 1}
    again = pickle.loads(pickle.dumps(vocabulary))
    assert again.columns == vocabulary.columns
    assert not again._known
