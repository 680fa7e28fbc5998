"""Calibration of labellings."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..labels import UNKNOWN, States, is_named
from .reliability import Events, Reliability, check_probabilities, compare_events
from .samples import each_sample

Ints = NDArray[np.int64]

NAMES = ("tables", "labels")  # the arguments, in error messages


def state_reliability(
    tables: Any,
    labels: Any,
    classes: Any = None,
    *,
    top: bool = False,
    state: Any = None,
    unknown: Any = None,
    n_bins: int = 10,
    strategy: str = "uniform",
    confidence: float = 0.95,
) -> Reliability:
    """Calibration of predicted labellings: the events are "node n has state s", for every s.

    Parameters
    ----------
    tables : list of arrays of shape (..., n_states), or one of them
        Probabilities as `predict_marginals` returns them for chains, grids and graphs.
    labels : list of arrays of shape (...), or one of them
        Observed states. A label that is not among `classes` is one that no state stands for.
    classes : sequence, optional
        `classes_` of the estimator: the label of each state. Needed if labels are strings.
    top : bool
        Look at the most probable state of each node only (the first of equal ones): its
        probability against whether it is right.
    state : a label, optional
        Look at this state only. With two states, where the events of one mirror those of the
        other, this counts every node once.
    unknown : the label, beside None, of nodes whose state is not known; these are skipped
        By default -1 where the states are 0, 1, ...
    n_bins, strategy, confidence : as in `reliability`

    Examples
    --------
    >>> table = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]]  # a chain of three nodes
    >>> found = state_reliability(table, ["a", "b", None], ["a", "b"], top=True, n_bins=2)
    >>> found.n, found.predicted.round(2).tolist(), found.observed.tolist()
    (2.0, [0.25, 0.85], [0.25, 0.5])
    """
    found = state_events(tables, labels, classes, top=top, state=state, unknown=unknown)
    return compare_events(found, n_bins, strategy, confidence, "labels")


def state_events(
    tables: Any,
    labels: Any,
    classes: Any = None,
    *,
    top: bool = False,
    state: Any = None,
    unknown: Any = None,
) -> list[Events]:
    """The events of `state_reliability`, an item for each sample."""
    if top and state is not None:
        raise ValueError("state: cannot be combined with top=True; give one of them")
    found: list[Events] = []
    states = None if classes is None else States.from_classes(classes, unknown)
    for name, entry, label_name, label in each_sample(tables, labels, NAMES, stacked=True):
        table = check_probabilities(entry, name)
        if table.ndim < 2 or table.shape[-1] == 0:
            raise ValueError(f"{name}: expected shape (..., n_states), got {table.shape}")
        if states is None:
            states = States(table.shape[-1], unknown)
        if table.shape[-1] != len(states):
            raise ValueError(f"{name}: expected {len(states)} states, got {table.shape[-1]}")
        truth = _observed_states(label, states, table.shape[:-1], label_name, classes is not None)
        rows, truth = table[truth != UNKNOWN], truth[truth != UNKNOWN]
        if top:
            best = rows.argmax(axis=1)
            rows = np.take_along_axis(rows, best[:, None], axis=1)
            happened = (best == truth)[:, None]
        elif state is not None:
            at = int(_number(state, states))
            rows, happened = rows[:, at : at + 1], (truth == at)[:, None]
        else:
            happened = truth[:, None] == np.arange(len(states))
        found.append((rows.ravel(), happened.ravel(), np.ones(rows.size)))
    return found


def _number(state: Any, states: States) -> int:
    """The number of a state that was asked for."""
    at = np.flatnonzero(states.classes == state)
    if at.size != 1:
        raise ValueError(f"state: expected one of {states.classes.tolist()}, got {state!r}")
    return int(at[0])


def _observed_states(
    label: Any, states: States, shape: tuple[int, ...], name: str, allow_others: bool
) -> Ints:
    """State numbers: -1 for labels that are not known, -2 for none of the states."""
    if is_named(label, name) not in (None, states.named):
        wanted = "strings" if states.named else "integers"
        raise ValueError(
            f"{name}: expected {wanted} like classes; pass the estimator's classes_ as classes"
        )
    return states.encode(label, name, shape, allow_others=allow_others)
