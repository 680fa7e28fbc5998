"""Events in bins: mean probability, observed frequency, and the calibration errors.

The numbers are those of scikit-learn's `calibration_curve`, `brier_score_loss` and `log_loss`, as
the tests check. They are computed here because `calibration_curve` takes no weights and returns no
counts, and because the two losses take 17 and 8 times as long on 3 million events.
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from .samples import read_numbers

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Events = tuple[Floats, Bools, Floats]  # probabilities, whether they happened, how often counted

ROUNDING = 1e-9  # how far outside of [0, 1] a probability may be before it is an error
MOST_BINS = 1_000_000  # more are no summary, and far more no array
STRATEGIES = ("uniform", "quantile")


@dataclass(frozen=True, eq=False)
class Reliability:
    """Predicted probabilities and observed frequencies in bins; no attribute is ever NaN.

    An empty bin has count 0, its midpoint as `predicted` and `observed`, and the interval [0, 1].

    Attributes
    ----------
    edges : ndarray of shape (n_bins + 1,)
        Bin k has the probabilities p with edges[k] < p <= edges[k + 1]; the first one has its
        lower edge too.
    predicted : ndarray of shape (n_bins,), mean probability of the events in each bin
    observed : ndarray of shape (n_bins,), share of them that happened
    lower, upper : ndarrays of shape (n_bins,), Wilson's interval of `observed`
    count : ndarray of shape (n_bins,), number of events, or the sum of their weights
    confidence : float, of the interval
    ece : float
        Expected calibration error: mean of |predicted - observed|, weighted by `count`.
    ece_if_calibrated : float
        The mean `ece` of calibrated predictors with the same probabilities is at most this, for
        independent events; chance alone makes it positive, and single ones can be above.
    mce : float
        Maximum calibration error: largest |predicted - observed| of a bin that is not empty.
    brier : float
        Mean of (probability - outcome)^2.
    log_loss : float
        Mean of -log(probability of what happened) in nats. Probabilities are kept within
        [eps, 1 - eps], eps = 2.2e-16, so an event that was ruled out costs 36 and not infinity.
    reliability, resolution, uncertainty : float
        Murphy's parts: were every probability replaced by the mean of its bin, the Brier score
        would be reliability - resolution + uncertainty. Reliability is the mean of
        (predicted - observed)^2, smaller is better; resolution is the variance of `observed`
        between bins, larger is better; uncertainty is that of the outcomes.
    n : float, number of events, or the sum of their weights
    """

    edges: Floats
    predicted: Floats
    observed: Floats
    lower: Floats
    upper: Floats
    count: Floats
    confidence: float
    ece: float
    ece_if_calibrated: float
    mce: float
    brier: float
    log_loss: float
    reliability: float
    resolution: float
    uncertainty: float
    n: float

    def summary(self) -> dict[str, float]:
        """The totals by name: a column of a table that compares several predictors."""
        names = ("n", "ece", "ece_if_calibrated", "mce", "brier", "log_loss")
        murphy = ("reliability", "resolution", "uncertainty")
        return {name: getattr(self, name) for name in names + murphy}

    def __str__(self) -> str:
        interval = f"{100 * self.confidence:g}% interval"
        lines = [f"{'bin':>16}  {'predicted':>9}  {'observed':>9}  {interval:>17}  {'count':>14}"]
        for k, count in enumerate(self.count):
            low, high = self.edges[k : k + 2]
            place = f"{'[' if k == 0 else '('}{_shown(low)}, {_shown(high)}]"
            cells = ("-", "-", "-")
            if count > 0:
                span = f"{_shown(self.lower[k])} - {_shown(self.upper[k])}"
                cells = (_shown(self.predicted[k]), _shown(self.observed[k]), span)
            lines.append(
                f"{place:>16}  {cells[0]:>9}  {cells[1]:>9}  {cells[2]:>17}  {_counted(count):>14}"
            )
        lines += [
            f"{_counted(self.n)} events, ECE {_shown(self.ece)} (calibrated: on average at most "
            f"{_shown(self.ece_if_calibrated)}), MCE {_shown(self.mce)}, "
            f"log loss {_shown(self.log_loss)}",
            f"Brier {_shown(self.brier)}; in bins: reliability {_shown(self.reliability)} "
            f"- resolution {_shown(self.resolution)} + uncertainty {_shown(self.uncertainty)}",
        ]
        return "\n".join(lines)


def reliability(
    probabilities: ArrayLike,
    outcomes: ArrayLike,
    n_bins: int = 10,
    strategy: str = "uniform",
    sample_weight: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
) -> Reliability:
    """Compare probabilities of events with whether they happened.

    Parameters
    ----------
    probabilities : array of any shape, from 0 to 1; 1e-9 outside is taken for rounding
    outcomes : array of the same shape, 0 and 1 or booleans
    n_bins : int
    strategy : "uniform" or "quantile"
        Bins of equal width, or with about equally many events. Equal probabilities always share
        a bin, so with ties there may be fewer than `n_bins` quantile bins; none is empty. If many
        probabilities are 0 they are a bin of their own, from 0 to 0.
    sample_weight : array of the same shape, optional
        How many times each event counts; 2 is the same as listing it twice.
    confidence : float, of the intervals of the observed frequencies

    Examples
    --------
    >>> found = reliability([0.1, 0.1, 0.8, 0.8], [0, 0, 1, 0], n_bins=2)
    >>> found.predicted.tolist(), found.observed.tolist()
    ([0.1, 0.8], [0.0, 0.5])
    >>> round(found.ece, 3), round(found.brier, 3)
    (0.2, 0.175)
    """
    values = check_probabilities(probabilities, "probabilities")
    happened = read_numbers(outcomes, "outcomes")
    if happened.shape != values.shape:
        raise ValueError(
            f"outcomes: expected shape {values.shape} like probabilities, got {happened.shape}"
        )
    if not ((happened == 0) | (happened == 1)).all():
        raise ValueError("outcomes: expected 0 and 1 or booleans only")
    weight = np.ones(values.shape)
    if sample_weight is not None:
        weight = read_numbers(sample_weight, "sample_weight")
        if weight.shape != values.shape:
            raise ValueError(
                f"sample_weight: expected shape {values.shape} like probabilities, "
                f"got {weight.shape}"
            )
        if not (weight >= 0).all() or not np.isfinite(weight.sum()):
            raise ValueError("sample_weight: expected finite numbers of at least 0")
    events = (values.ravel(), happened.ravel() == 1, weight.ravel())
    return compare_events([events], n_bins, strategy, confidence, "probabilities")


def check_probabilities(values: Any, name: str) -> Floats:
    """Values as floats within [0, 1], rounding removed."""
    array = read_numbers(values, name)
    wrong = ~((array >= -ROUNDING) & (array <= 1.0 + ROUNDING))
    if wrong.any():
        at = tuple(int(k) for k in np.argwhere(wrong)[0])
        raise ValueError(
            f"{name}: expected probabilities from 0 to 1, got {array[at]} at position {at}"
        )
    return np.clip(array, 0.0, 1.0, out=array)


def compare_events(
    samples: list[Events], n_bins: int, strategy: str, confidence: float, name: str
) -> Reliability:
    """The events of all samples in bins."""
    if isinstance(n_bins, bool) or not isinstance(n_bins, numbers.Integral):
        raise ValueError(f"n_bins: expected a whole number >= 1, got {n_bins!r}")
    if not 1 <= n_bins <= MOST_BINS:
        raise ValueError(f"n_bins: expected 1 to {MOST_BINS}, got {n_bins!r}")
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy: expected one of {', '.join(STRATEGIES)}, got {strategy!r}")
    if not isinstance(confidence, numbers.Real) or not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence: expected a number between 0 and 1, got {confidence!r}")
    values, happened, weight = _join(samples)
    if values.size == 0:
        raise ValueError(f"{name}: no events (of positive weight), so there is nothing to compare")
    if strategy == "uniform":
        edges = np.linspace(0.0, 1.0, int(n_bins) + 1)
    else:
        edges = _quantile_edges(values, weight, int(n_bins))

    place = np.searchsorted(edges[1:-1], values)

    def binned(amount: Floats) -> Floats:
        return np.bincount(place, amount, minlength=edges.size - 1)

    count, true = binned(weight), binned(weight * happened)
    full = count > 0
    total = count.sum()
    share, some = count / total, np.where(full, count, 1.0)
    middle = 0.5 * (edges[1:] + edges[:-1])
    mean = np.clip(binned(weight * values) / some, edges[:-1], edges[1:])  # rounding
    predicted = np.where(full, mean, middle)
    observed = np.where(full, np.minimum(true / some, 1.0), middle)
    lower, upper = _wilson(observed, count, confidence)
    gap = np.abs(predicted - observed)
    base = float(min(true.sum() / total, 1.0))
    eps = float(np.finfo(np.float64).eps)
    clipped = np.clip(values, eps, 1.0 - eps)
    surprise = -np.where(happened, np.log(clipped), np.log1p(-clipped))
    return Reliability(
        edges=edges,
        predicted=predicted,
        observed=observed,
        lower=lower,
        upper=upper,
        count=count,
        confidence=float(confidence),
        ece=float(share @ gap),
        # E|sum of (outcome - p)| <= its standard deviation, bin by bin.
        ece_if_calibrated=float(np.sqrt(binned(weight * values * (1.0 - values))).sum() / total),
        mce=float(gap[full].max()),
        brier=float(weight @ (values - happened) ** 2 / total),
        log_loss=float(weight @ surprise / total),
        reliability=float(share @ gap**2),
        resolution=float(share @ (observed - base) ** 2),
        uncertainty=base * (1.0 - base),
        n=float(total),
    )


def _join(samples: list[Events]) -> Events:
    """All events of positive weight."""
    if not samples:
        return np.zeros(0), np.zeros(0, dtype=np.bool_), np.zeros(0)
    values, happened, weight = samples[0]
    if len(samples) > 1:
        values, happened, weight = (np.concatenate(part) for part in zip(*samples, strict=True))
    counted = weight > 0
    if counted.all():
        return values, happened, weight
    return values[counted], happened[counted], weight[counted]


def _quantile_edges(values: Floats, weight: Floats, n_bins: int) -> Floats:
    """Edges at probabilities that occur, each once, so that no bin is empty and ties stay whole."""
    order = np.argsort(values)
    reached = np.cumsum(weight[order])
    # Rounded down, so that three tenths of 10 events are 3.
    wanted = np.arange(1, n_bins) / n_bins * reached[-1] * (1.0 - 1e-12)
    inner = np.unique(values[order[np.searchsorted(reached, wanted)]])
    return np.concatenate([[0.0], inner[inner < values[order[-1]]], [1.0]])


def _wilson(observed: Floats, count: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Wilson's interval of a frequency; all of [0, 1] where there are no observations."""
    z = float(ndtri(0.5 + 0.5 * confidence))
    centre = (observed * count + 0.5 * z**2) / (count + z**2)
    spread = z * np.sqrt(observed * (1.0 - observed) * count + 0.25 * z**2) / (count + z**2)
    lower = np.where(observed > 0.0, np.clip(centre - spread, 0.0, observed), 0.0)
    upper = np.where(observed < 1.0, np.clip(centre + spread, observed, 1.0), 1.0)
    empty = count == 0
    return np.where(empty, 0.0, lower), np.where(empty, 1.0, upper)


def _shown(value: float) -> str:
    return f"{value:.4f}" if value == 0.0 or abs(value) >= 1e-3 else f"{value:.1e}"


def _counted(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:,.6g}"
