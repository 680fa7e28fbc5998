"""Events in bins of probability: mean probability, observed frequency, and calibration error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from .._arguments import as_count
from .events import as_events

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Reliability:
    """Predicted probabilities and observed frequencies in bins of equal width.

    Bin k of n has the probabilities p with k/n < p <= (k + 1)/n; the first bin has 0, too. The
    interval and `ece_if_calibrated` suppose independent events. Events of one matching or one
    labelling depend on each other, so frequencies can vary more.

    Attributes
    ----------
    predicted : ndarray of shape (n_bins,), mean probability of a bin's events, NaN if none
    observed : ndarray of shape (n_bins,), share of them that happened
    lower, upper : ndarrays of shape (n_bins,), 95 % interval of `observed` (Wilson 1927)
    count : ndarray of shape (n_bins,), sum of the weights of the events
    ece : float
        Expected calibration error: mean of |predicted - observed|, weighted by `count`.
    ece_if_calibrated : float
        Upper bound of the mean `ece` of a calibrated model with these probabilities: chance alone
        makes it positive.
    """

    predicted: Floats
    observed: Floats
    lower: Floats
    upper: Floats
    count: Floats
    ece: float
    ece_if_calibrated: float


def reliability(
    happened: ArrayLike,
    probability: ArrayLike,
    weight: ArrayLike | None = None,
    n_bins: int = 10,
) -> Reliability:
    """Compare probabilities of events with whether they happened.

    Unlike scikit-learn's `calibration_curve` it takes weights, and returns counts and intervals.

    Parameters
    ----------
    happened : array, 0 and 1 or booleans
    probability : array of the same shape, from 0 to 1
    weight : array of the same shape, optional; 2 is the same as listing the event twice
    n_bins : int

    Examples
    --------
    >>> found = reliability([0, 0, 1, 0], [0.1, 0.1, 0.8, 0.8], n_bins=2)
    >>> found.predicted.tolist(), found.observed.tolist(), round(found.ece, 3)
    ([0.1, 0.8], [0.0, 0.5], 0.2)
    """
    y, p, w = as_events(happened, probability, weight)
    n_bins = as_count(n_bins, "n_bins")
    if not w.any():
        raise ValueError("happened: no events of positive weight, there is nothing to compare")
    place = np.searchsorted(np.linspace(0.0, 1.0, n_bins + 1)[1:-1], p)
    count: Floats = np.bincount(place, w, n_bins).astype(np.float64)
    true, mass, variance = (
        np.bincount(place, amount, n_bins) for amount in (w * y, w * p, w * p * (1.0 - p))
    )
    some = np.where(count > 0, count, np.nan)
    observed = np.minimum(true / some, 1.0)
    z = float(ndtri(0.975))
    centre = (true + 0.5 * z**2) / (count + z**2)
    spread = z * np.sqrt(observed * (1.0 - observed) * count + 0.25 * z**2) / (count + z**2)
    return Reliability(
        predicted=np.minimum(mass / some, 1.0),
        observed=observed,
        lower=np.clip(centre - spread, 0.0, observed),
        upper=np.clip(centre + spread, observed, 1.0),
        count=count,
        ece=float(np.abs(mass - true).sum() / count.sum()),
        # E|sum of (happened - p)| <= its standard deviation, bin by bin.
        ece_if_calibrated=float(np.sqrt(variance).sum() / count.sum()),
    )
