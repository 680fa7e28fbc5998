"""Events and their probabilities, from marginals and labels, in the order of scikit-learn.

An event is "row i is paired with column j" or "node n has state s". scikit-learn's `roc_auc_score`,
`log_loss`, `brier_score_loss` and `precision_recall_curve` take `happened`, `probability` and
`sample_weight=weight`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from .._arrays import as_floats
from ..labels import UNKNOWN, States, read_pairs

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

NUMBERS = "fiubO"  # kinds of arrays that are read; not text
ROUNDING = 1e-9  # how far outside of [0, 1] a probability may be before it is an error


class Events(NamedTuple):
    """Flat arrays of equal length: whether events happened, their probabilities, their weights."""

    happened: Bools
    probability: Floats
    weight: Floats


def as_events(happened: ArrayLike, probability: ArrayLike, weight: Any = None) -> Events:
    """Events from arrays of one shape: 0 and 1 or booleans, probabilities, and weights if any."""
    p = _probabilities(probability, "probability")
    y = as_floats(happened, "happened", NUMBERS)
    w = np.ones(p.shape) if weight is None else as_floats(weight, "weight", NUMBERS)
    for name, array in (("happened", y), ("weight", w)):
        if array.shape != p.shape:
            raise ValueError(
                f"{name}: expected shape {p.shape} like probability, got {array.shape}"
            )
    if not ((y == 0) | (y == 1)).all():
        raise ValueError("happened: expected 0 and 1 or booleans only")
    if not ((w >= 0) & np.isfinite(w)).all():
        raise ValueError("weight: expected finite numbers of at least 0")
    return Events(y.ravel() == 1, p.ravel(), w.ravel())


def pair_events(tables: Iterable[Any], labels: Iterable[Any], *, bipartite: bool) -> Events:
    """The events "i is paired with j" of all samples.

    Parameters
    ----------
    tables : list of arrays or SciPy sparse matrices
        Probabilities of pairs as `predict_marginals` returns them. The pairs that a sparse matrix
        does not store have probability 0; they are one event (two if some of them happened),
        weighted by their number.
    labels : list of observed matchings
        Partners of the rows, -1 for unmatched rows, or pairs of shape (n_pairs, 2).
    bipartite : bool
        False: one group; each pair i < j is one event, read above the diagonal.

    Returns
    -------
    Events, of arrays row by row

    Examples
    --------
    >>> found = pair_events([[[0.9, 0.1], [0.1, 0.9]]], [[0, 1]], bipartite=True)
    >>> found.happened.tolist(), found.probability.tolist()
    ([True, False, False, True], [0.9, 0.1, 0.1, 0.9])
    """
    parts = []
    for name, table, label_name, label in _samples(tables, labels):
        matrix = sp.csr_array(table) if sp.issparse(table) else _probabilities(table, name)
        if matrix.ndim != 2:
            raise ValueError(f"{name}: expected a matrix, got shape {matrix.shape}")
        n, m = matrix.shape
        if not bipartite and n != m:
            raise ValueError(f"{name}: expected a square matrix of one group, got {n} x {m}")
        pairs = read_pairs(label, n, m if bipartite else None, label_name)
        if sp.issparse(matrix):
            parts.append(_stored_pairs(matrix, pairs, bipartite, name))
            continue
        happened = np.zeros((n, m), dtype=np.bool_)
        happened[pairs[:, 0], pairs[:, 1]] = True
        chosen = np.ones((n, m), dtype=np.bool_) if bipartite else ~np.tri(n, dtype=np.bool_)
        p = matrix[chosen]
        parts.append(Events(happened[chosen], p, np.ones(p.size)))
    return join_events(parts)


def _stored_pairs(matrix: Any, pairs: NDArray[np.int64], bipartite: bool, name: str) -> Events:
    """Stored pairs one by one; the others, which have probability 0, as events with weights."""
    n, m = matrix.shape
    stored = sp.coo_array(matrix if bipartite else sp.triu(matrix, 1))
    stored.sum_duplicates()
    p = _probabilities(stored.data, f"{name} (stored entries)")
    row, col = (np.asarray(place, dtype=np.int64) for place in stored.coords)
    happened = np.isin(row * m + col, pairs[:, 0] * m + pairs[:, 1])
    missed = pairs.shape[0] - int(happened.sum())
    others = (n * m if bipartite else n * (n - 1) // 2) - p.size - missed
    rest = [(y, count) for y, count in ((False, others), (True, missed)) if count]
    return Events(
        np.append(happened, [y for y, _ in rest]).astype(np.bool_),
        np.append(p, np.zeros(len(rest))),
        np.append(np.ones(p.size), [count for _, count in rest]),
    )


def state_events(
    tables: Iterable[Any], labels: Iterable[Any], classes: Any = None, *, unknown: Any = None
) -> Events:
    """The events "node n has state s" of all samples, for every known label and every state.

    Parameters
    ----------
    tables : list of arrays of shape (..., n_states)
        Probabilities as `predict_marginals` returns them for chains, grids and graphs.
    labels : list of arrays of shape (...)
        Observed states. A label that is not among `classes` is none of the states.
    classes : sequence, optional
        `classes_` of the estimator: the label of each state. Needed if labels are strings.
    unknown : the label, beside None, of nodes whose state is not known
        These nodes are left out. By default -1 if the states are 0, 1, ...

    Returns
    -------
    Events, node by node: `reshape(-1, n_states)` of an array has a row for each node

    Examples
    --------
    >>> table = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]]  # a chain of three nodes
    >>> found = state_events([table], [["a", "b", None]], ["a", "b"])
    >>> found.happened.tolist(), found.probability.tolist()
    ([True, False, False, True], [0.9, 0.1, 0.8, 0.2])
    """
    parts = []
    states = None if classes is None else States.from_classes(classes, unknown)
    for name, table, label_name, label in _samples(tables, labels):
        p = _probabilities(table, name)
        if p.ndim < 2 or p.shape[-1] == 0:
            raise ValueError(f"{name}: expected shape (..., n_states), got {p.shape}")
        states = States(p.shape[-1], unknown) if states is None else states
        if p.shape[-1] != len(states):
            raise ValueError(f"{name}: expected {len(states)} states, got {p.shape[-1]}")
        truth = states.encode(label, label_name, p.shape[:-1], allow_others=classes is not None)
        known = truth != UNKNOWN
        happened = truth[known][:, None] == np.arange(len(states))
        parts.append(Events(happened.ravel(), p[known].ravel(), np.ones(happened.size)))
    return join_events(parts)


def join_events(parts: Iterable[Events]) -> Events:
    """The events of all parts, one after the other."""
    empty = Events(np.zeros(0, dtype=np.bool_), np.zeros(0), np.zeros(0))
    return Events(*map(np.concatenate, zip(empty, *parts, strict=True)))


def _samples(tables: Iterable[Any], labels: Iterable[Any]) -> Iterator[tuple[str, Any, str, Any]]:
    """Name and table, name and label of each sample."""
    if sp.issparse(tables):
        raise ValueError("tables: expected a list of tables, got one sparse matrix")
    try:
        first, second = list(tables), list(labels)
    except TypeError as error:
        raise ValueError(f"tables, labels: expected an item for each sample: {error}") from None
    if len(first) != len(second):
        raise ValueError(f"labels: expected {len(first)} samples like tables, got {len(second)}")
    for k, (table, label) in enumerate(zip(first, second, strict=True)):
        yield f"tables[{k}]", table, f"labels[{k}]", label


def _probabilities(values: Any, name: str) -> Floats:
    """Numbers within [0, 1], rounding removed."""
    p = as_floats(values, name, NUMBERS)
    wrong = ~((p >= -ROUNDING) & (p <= 1.0 + ROUNDING))
    if wrong.any():
        at = tuple(int(k) for k in np.argwhere(wrong)[0])
        raise ValueError(f"{name}: expected probabilities from 0 to 1, got {p[at]} at {at}")
    return np.clip(p, 0.0, 1.0)
