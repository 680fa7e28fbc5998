"""Sentences to features to labels, with probabilities."""

import numpy as np
import pytest

import mlestruct
from mlestruct.exceptions import FileProblem
from mlestruct.tagging import SequenceTagger, read_sentences, token_features

SENTENCES = [[("the", "D"), ("Dog", "N")], [("a", "D"), ("Cat", "N"), ("sat", "V")]] * 5
LABELS = [["O", "ANIMAL"], ["O", "ANIMAL", "O"]] * 5


def test_words_are_labelled_with_probabilities(tmp_path):
    tagger = SequenceTagger().fit(SENTENCES, LABELS)
    assert tagger.held_out_.score == 1.0
    for found, label in zip(tagger.predict(SENTENCES), LABELS, strict=True):
        assert found.tolist() == label
    tagger.save(tmp_path / "model.mls")
    again = mlestruct.load(tmp_path / "model.mls")
    tables = (model.predict_marginals(SENTENCES) for model in (tagger, again))
    for own, other in zip(*tables, strict=True):
        np.testing.assert_array_equal(own, other)
        np.testing.assert_allclose(own.sum(axis=1), 1.0)


def test_features_of_words_and_neighbours():
    first, second = token_features([("Main42", "N"), ("st", "V")], window=1, affix=2)
    assert {"+0 word=main42", "+0 form=Aa1", "+1 column 2=V", "-1 end of sentence"} <= set(first)
    assert {"begins:s", "begins:st", "ends:t", "ends:st", "+1 end of sentence"} <= set(second)
    assert token_features([("", "")])[0]["+0 word="]


def test_other_numbers_of_columns_are_refused():
    tagger = SequenceTagger(alpha=1.0).fit(SENTENCES, LABELS)
    with pytest.raises(ValueError, match=r"sentences\[0\]: a token has 1 columns, expected 2"):
        tagger.predict([[("the",)]])


def test_columns_are_separated_by_tabs_or_spaces():
    text = "\ufeffNew York\tX\n# a comment\nis\tO\n\n\n-DOCSTART- O\nbig\tO\r\n"
    found = read_sentences(text.splitlines(keepends=True), "file")
    assert found == [[("New York", "X"), ("is", "O")], [("big", "O")]]
    assert read_sentences(["a  b"], "file") == [[("a", "b")]]
    with pytest.raises(FileProblem, match="file, line 3: 1 columns"):
        read_sentences(["a b", "", "c"], "file")


def test_a_hash_may_be_a_word():
    text = "# newdoc\nPay VB O\n# # B-NP\n# of another form here\n5 CD I-NP\n\n# sent 2\nA DT O\n"
    found = read_sentences(text.splitlines(), "file")
    words = [[token[0] for token in sentence] for sentence in found]
    assert words == [["Pay", "#", "5"], ["A"]]
    found = read_sentences(["a b\tX", "# comment", "#\tY", "c\tX "], "file")
    assert found == [[("a b", "X"), ("#", "Y"), ("c", "X")]]


def test_what_cannot_be_learned_from_is_named():
    with pytest.raises(ValueError, match="sentences: expected at least one"):
        SequenceTagger().fit([], [])
    with pytest.raises(ValueError, match="sentences: expected at least one, and tokens in each"):
        SequenceTagger().fit([[("a",)], []], [["X"], []])
    with pytest.raises(ValueError, match="window: expected a whole number of at least 0, got -1"):
        SequenceTagger(window=-1).fit([[("a",)]], [["X"]])
