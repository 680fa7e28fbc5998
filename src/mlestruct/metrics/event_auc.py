"""How well scores of frames predict events: areas below ROC curves, by ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, rfft
from scipy.stats import rankdata

from .samples import read_numbers

Floats = NDArray[np.float64]


def event_auc(scores: Any, events: Any) -> Floats:
    """P(score in a frame with the event > in one without), ties counting one half.

    Parameters
    ----------
    scores : array of shape (n_frames,) or (n_frames, n_scores)
    events : array of shape (n_frames,) or (n_frames, n_events), 0 and 1

    Returns
    -------
    ndarray of shape (n_events, n_scores); 1/2 for an event that never or always occurs

    Examples
    --------
    >>> event_auc([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
    array([[0.75]])
    """
    values, happened = _columns(scores, events)
    return _from_rank_sums(happened.T @ rankdata(values, axis=0), happened)


def shifted_event_auc(scores: Any, events: Any) -> Floats:
    """`event_auc` after every circular shift of the events: (n_frames, n_events, n_scores).

    Entry k belongs to events k frames later; entry 0 to the events themselves.
    """
    values, happened = _columns(scores, events)
    n = values.shape[0]
    ranks = rfft(rankdata(values, axis=0), axis=0)
    spectrum = np.conj(rfft(happened, axis=0))
    sums = irfft(spectrum[:, :, None] * ranks[:, None, :], n, axis=0)
    return _from_rank_sums(sums, happened)


def _columns(scores: Any, events: Any) -> tuple[Floats, Floats]:
    values, happened = read_numbers(scores, "scores"), read_numbers(events, "events")
    values = values[:, None] if values.ndim == 1 else values
    happened = happened[:, None] if happened.ndim == 1 else happened
    if values.ndim != 2 or happened.ndim != 2 or len(values) != len(happened) or not len(values):
        raise ValueError(
            f"scores and events: expected as many frames, got {values.shape} and {happened.shape}"
        )
    if not np.isin(happened, (0.0, 1.0)).all() or np.isnan(values).any():
        raise ValueError("events must be 0 and 1, scores no NaN")
    return values, happened


def _from_rank_sums(sums: Floats, happened: Floats) -> Floats:
    with_event = happened.sum(axis=0)[:, None]
    pairs = with_event * (happened.shape[0] - with_event)
    wins = sums - 0.5 * with_event * (with_event + 1.0)
    return np.asarray(np.where(pairs > 0, wins / np.maximum(pairs, 1.0), 0.5))
