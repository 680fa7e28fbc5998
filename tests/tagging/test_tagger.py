"""Sentences to features to labels, with probabilities."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

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
    with pytest.raises(ValueError, match="sentences: expected at least one that has tokens"):
        SequenceTagger().fit([[]], [[]])
    with pytest.raises(ValueError, match="window: expected a whole number of at least 0, got -1"):
        SequenceTagger(window=-1).fit([[("a",)]], [["X"]])


@pytest.mark.parametrize("alpha", [0.1, "auto"])
def test_empty_and_unlabelled_sentences(alpha):
    """Nothing is learned from them, and empty ones have empty answers."""
    plain = SequenceTagger(alpha=alpha).fit(SENTENCES, LABELS)
    more = [*SENTENCES[:1], [], *SENTENCES[1:], SENTENCES[0]]
    tagger = SequenceTagger(alpha=alpha).fit(more, [*LABELS[:1], [], *LABELS[1:], None])
    np.testing.assert_allclose(tagger.coef_, plain.coef_, atol=1e-9)
    found, tables = tagger.predict(more), tagger.predict_marginals(more)
    assert found[1].shape == (0,)
    assert found[1].dtype == found[0].dtype
    assert tables[1].shape == (0, 2)
    assert found[2].tolist() == LABELS[1]
    assert [y.tolist() for y in tagger.predict([[], []])] == [[], []]
    with pytest.raises(TypeError, match=r"SequenceTagger\.predict\(\) got an unexpected"):
        tagger.predict(SENTENCES, windows=2)


def test_searches_need_no_scoring():
    search = GridSearchCV(SequenceTagger(alpha=0.1), {"window": [0, 1]}, cv=2)
    search.fit(SENTENCES, LABELS)
    assert search.best_score_ == 1.0
    part = [["O", None], ["X", "ANIMAL", "O"]]
    assert search.score(SENTENCES[:2], part) == 0.75  # one of four known labels is wrong


@pytest.mark.parametrize("alpha", [0.1, "auto"])
def test_words_alone_are_tokens_of_one_column(alpha):
    words = [[word for word, _ in sentence] for sentence in SENTENCES]
    tuples = [[(word,) for word in sentence] for sentence in words]
    taggers = [SequenceTagger(alpha=alpha).fit(X, LABELS) for X in (words, tuples)]
    np.testing.assert_array_equal(taggers[0].coef_, taggers[1].coef_)
    assert taggers[0].n_columns_ == 1
    for tagger, X in zip(taggers, (tuples, words), strict=True):
        assert [y.tolist() for y in tagger.predict(X)] == LABELS
        assert tagger.score(X, LABELS) == 1.0
    tables = (tagger.predict_marginals(words) for tagger in taggers)
    for own, other in zip(*tables, strict=True):
        np.testing.assert_array_equal(own, other)
    assert token_features(words[0]) == token_features(tuples[0])
    refused = r"sentences\[0\]: expected a list of tokens, got the text 'the Dog'; split it"
    for ask in (taggers[0].predict, taggers[0].predict_marginals):
        with pytest.raises(ValueError, match=refused):
            ask(["the Dog"])
    with pytest.raises(ValueError, match=refused):
        SequenceTagger().fit(["the Dog", "a Cat sat"], LABELS[:2])
