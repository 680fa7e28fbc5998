"""Tokens described by names, against python-crfsuite's reading of the same items."""

from decimal import Decimal
from itertools import chain

import numpy as np
import pytest

from mlestruct.models.tokens import Vocabulary

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
TOKENS = list(chain.from_iterable(SAMPLES))


@pytest.fixture(params=[1, 3, 1000], autouse=True)
def chunk(request, monkeypatch):
    """Tokens read at a time."""
    monkeypatch.setattr("mlestruct.models.tokens.CHUNK", request.param)


def test_features_are_those_of_crfsuite():
    pycrfsuite = pytest.importorskip("pycrfsuite")
    vocabulary = Vocabulary()
    table, names = vocabulary.read(TOKENS, learn=True), list(vocabulary)
    found = [
        {names[k]: float(v) for k, v in zip(row.indices, row.data, strict=True)}
        for row in (table[[t]] for t in range(table.shape[0]))
    ]
    theirs = [item for sample in SAMPLES for item in pycrfsuite.ItemSequence(sample).items()]
    assert found == theirs


def test_columns_are_in_the_order_of_the_text():
    vocabulary, one_by_one = Vocabulary(), Vocabulary()
    vocabulary.read(TOKENS, learn=True)
    for token in TOKENS:
        for entry in token.items() if isinstance(token, dict) else ():
            one_by_one.read([dict([entry])], learn=True)
        one_by_one.read([token], learn=True)
    assert list(vocabulary.items()) == list(one_by_one.items())


def test_unknown_features_are_left_out():
    vocabulary = Vocabulary(["word:Main", "length"])
    tokens = [{"word": "Main", "length": 3}, {"word": "Side"}, {"length": 2, "width": 5}]
    table = vocabulary.read(tokens, learn=False)
    np.testing.assert_array_equal(table.toarray(), [[1.0, 3.0], [0.0, 0.0], [0.0, 2.0]])
    assert list(vocabulary) == ["word:Main", "length"]
    assert vocabulary.read([], learn=False).shape == (0, 2)


def test_repeated_features_add_up():
    for token, row in ((["a", "b", "a"], [2.0, 1.0]), ({"c": "d:e", "c:d": "e"}, [2.0])):
        table = Vocabulary().read([token], learn=True)
        np.testing.assert_array_equal(table.toarray(), [row])
        assert table.nnz == len(row)


@pytest.mark.parametrize("value", [None, 1j, Decimal(1), [1.0]])
def test_other_values_are_named(value):
    for name, token in (("a:b", {"a": {"b": value}}), ("b", {"b": value})):
        with pytest.raises(ValueError, match=f"feature '{name}' has the value"):
            Vocabulary().read([{"b": 1.0}, {}, token, {"b": True}], learn=True)
