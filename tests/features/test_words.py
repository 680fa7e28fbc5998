"""Features of plain words, by hand."""

import pytest

from mlestruct.features import token_features


def test_features_of_a_word_and_its_neighbours():
    first, second = token_features(["Main42-", "st"], window=1, affix=2)
    assert set(first) == {
        "bias", "prefix=m", "prefix=ma", "suffix=-", "suffix=2-",
        "-1 end of sentence", "+0 word=main42-", "+0 shape=Aa1-", "+1 word=st", "+1 shape=a",
    }  # fmt: skip
    assert set(second) == {
        "bias", "prefix=s", "prefix=st", "suffix=t", "suffix=st",
        "-1 word=main42-", "-1 shape=Aa1-", "+0 word=st", "+0 shape=a", "+1 end of sentence",
    }  # fmt: skip
    assert all(value is True for value in first.values())


def test_further_columns():
    features = token_features([("Main", "NNP"), ("st", "NN")], window=1, affix=0)
    assert features[0]["+0 column 2=NNP"]
    assert features[0]["+1 column 2=NN"]
    assert token_features([("a",), ("b",)]) == token_features(["a", "b"])


def test_without_neighbours():
    found = token_features(["a", "b", "c"], window=0, affix=0)
    assert set(found[1]) == {"bias", "+0 word=b", "+0 shape=a"}
    wide = token_features(["a", "b", "c"], window=5, affix=0)
    assert sum("end of sentence" in name for name in wide[1]) == 2
    assert token_features([]) == []


def test_bad_arguments():
    with pytest.raises(TypeError, match="`sentence` must be a list of words; got 'the Dog'"):
        token_features("the Dog")
    with pytest.raises(ValueError, match="`window` must be at least 0; got -1"):
        token_features(["a"], window=-1)
