"""Label sets of the largest expected F1, from probabilities of labels.

F1 of a predicted set against the true one is 2 |both| / (|predicted| + |true|), and 1 if both are
empty. With independent labels the best set of k labels is that of the k most probable ones; its
expectation follows from the distribution of the number of other true labels (Ye, Chai, Lee and
Chieu 2012).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import as_floats

Floats = NDArray[np.float64]


def expected_f1_sets(probabilities: Any) -> NDArray[np.int64]:
    """The set of labels with the largest expected F1, for each row.

    Parameters
    ----------
    probabilities : array of shape (n_samples, n_labels)
        Of each label; labels are taken to be independent.

    Returns
    -------
    ndarray of shape (n_samples, n_labels), 1 for the labels in the set

    Examples
    --------
    >>> expected_f1_sets([[0.4, 0.35, 0.05], [0.9, 0.1, 0.1]])
    array([[1, 1, 0],
           [1, 0, 0]])
    """
    p = as_floats(probabilities, "probabilities", "fiubO")
    if p.ndim != 2 or not ((p >= 0.0) & (p <= 1.0)).all():
        raise ValueError("probabilities: expected numbers from 0 to 1 of shape (samples, labels)")
    n, size = p.shape
    order = np.argsort(-p, axis=1, kind="stable")
    ranked = np.take_along_axis(p, order, axis=1)
    best, chosen = np.prod(1.0 - p, axis=1), np.zeros(n, dtype=np.int64)  # the empty set
    inside = np.zeros((n, size + 1))  # distribution of the number of true labels in the set
    inside[:, 0] = 1.0
    for k in range(1, size + 1):
        inside = _with_label(inside, ranked[:, k - 1])
        outside = np.zeros((n, size + 1))
        outside[:, 0] = 1.0
        for j in range(k, size):
            outside = _with_label(outside, ranked[:, j])
        hits, misses = np.arange(k + 1), np.arange(size - k + 1)
        f1 = 2.0 * hits[:, None] / (k + hits[:, None] + misses[None, :])
        value = np.einsum("na,ab,nb->n", inside[:, : k + 1], f1, outside[:, : size - k + 1])
        better = value > best
        best[better], chosen[better] = value[better], k
    rank = np.argsort(order, axis=1)
    return (rank < chosen[:, None]).astype(np.int64)


def _with_label(counts: Floats, p: Floats) -> Floats:
    """The distribution of a count after one more label of probability p."""
    found = counts * (1.0 - p)[:, None]
    found[:, 1:] += counts[:, :-1] * p[:, None]
    return found
