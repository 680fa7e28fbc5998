"""Texts of known topics, and how alike topics are."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import cosine_similarity

from mlestruct.datasets.topics import make_topic_counts, topic_similarity


def test_topic_counts_follow_their_distributions():
    counts, topics = make_topic_counts(3000, 30, 4, 50, random_state=1)
    assert counts.shape == (3000, 30)
    assert (counts.sum(axis=1) == 50).all()
    np.testing.assert_allclose(topics.sum(axis=1), 1.0)
    # Shares of topics are 1/4 each on average, so words follow the mean of the topics.
    np.testing.assert_allclose(counts.mean(axis=0) / 50, topics.mean(axis=0), atol=0.012)
    again, _ = make_topic_counts(3000, 30, 4, 50, random_state=1)
    np.testing.assert_array_equal(counts, again)
    assert (counts != make_topic_counts(3000, 30, 4, 50, random_state=2)[0]).any()


def test_topic_similarity_is_a_cosine():
    rng = np.random.default_rng(0)
    first, second = rng.random((3, 8)), 5.0 * rng.random((4, 8))
    np.testing.assert_allclose(topic_similarity(first, second), cosine_similarity(first, second))


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ([1.0, 2.0], [[1.0, 2.0]], "first: expected weights"),
        ([[1.0, -2.0]], [[1.0, 2.0]], "first: expected weights"),
        ([[1.0, 2.0]], [[np.nan, 2.0]], "second: expected weights"),
        ([[1.0, 2.0]], [[1.0, 2.0], [0.0, 0.0]], "second: topic 1 has no words"),
        ([[1.0, 2.0]], [[1.0, 2.0, 3.0]], "second: expected 2 words like first, got 3"),
    ],
)
def test_bad_topics_are_named(first, second, message):
    with pytest.raises(ValueError, match=message):
        topic_similarity(first, second)


@pytest.mark.parametrize("name", ["n_documents", "n_words", "n_topics", "n_tokens"])
def test_sizes_of_text_are_checked(name):
    with pytest.raises(ValueError, match=f"{name}: expected a whole number of at least 1, got 0"):
        make_topic_counts(**{name: 0})
