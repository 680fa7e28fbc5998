"""Generated text as counts of words, in the manner of latent Dirichlet allocation."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._arrays import as_floats
from .._random import generator
from .parameters import check_counts

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def make_topic_counts(
    n_documents: int = 400,
    n_words: int = 500,
    n_topics: int = 20,
    n_tokens: int = 60,
    random_state: int | None = None,
) -> tuple[Ints, Floats]:
    """Documents of `n_tokens` words each, from topics that share words.

    Topics are Dirichlet distributions over words, a document's shares of topics a Dirichlet
    distribution too, and each of its words comes from a topic of these shares. Documents are short,
    so a model with as many topics finds them again only in part, and differently from start to
    start.

    Returns
    -------
    counts : array of shape (n_documents, n_words), how often each word occurs
    topics : array of shape (n_topics, n_words), the true distributions of words

    Examples
    --------
    >>> from mlestruct.datasets.topics import make_topic_counts
    >>> counts, topics = make_topic_counts(5, random_state=0)
    >>> counts.shape, topics.shape, counts.sum(axis=1)
    ((5, 500), (20, 500), array([60, 60, 60, 60, 60]))
    """
    check_counts(1, n_documents=n_documents, n_words=n_words, n_topics=n_topics, n_tokens=n_tokens)
    rng = generator(random_state)
    # A few dozen words carry most of a topic, a handful of topics most of a document.
    topics = rng.dirichlet(np.full(n_words, 0.1), size=n_topics)
    shares = rng.dirichlet(np.full(n_topics, 0.2), size=n_documents)
    words = shares @ topics
    words /= words.sum(axis=1, keepdims=True)
    counts: Ints = rng.multinomial(n_tokens, words)
    return counts, topics


def topic_similarity(first: ArrayLike, second: ArrayLike) -> Floats:
    """Cosines between the word weights of two sets of topics, 0 (no common word) to 1 (equal).

    Parameters
    ----------
    first, second : arrays of shape (n_topics, n_words), not negative, on any scale

    Returns
    -------
    ndarray of shape (n_topics of first, n_topics of second)

    Examples
    --------
    >>> from mlestruct.datasets.topics import topic_similarity
    >>> topic_similarity([[2, 0], [1, 1]], [[1, 0], [0, 3]]).round(2)
    array([[1.  , 0.  ],
           [0.71, 0.71]])
    """
    one, other = _unit_rows(first, "first"), _unit_rows(second, "second")
    if one.shape[1] != other.shape[1]:
        raise ValueError(f"second: expected {one.shape[1]} words like first, got {other.shape[1]}")
    similarity: Floats = one @ other.T
    return similarity


def _unit_rows(topics: ArrayLike, name: str) -> Floats:
    rows = as_floats(topics, name)
    if rows.ndim != 2 or not (np.isfinite(rows).all() and (rows >= 0.0).all()):
        raise ValueError(f"{name}: expected weights of at least 0 of shape (n_topics, n_words)")
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    if (norms == 0.0).any():
        raise ValueError(f"{name}: topic {int(np.argmin(norms))} has no words")
    unit: Floats = rows / norms
    return unit
