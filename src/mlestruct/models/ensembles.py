"""Neuronal ensembles: which neurons of an Ising model predict a stimulus, beyond chance.

The log odds of a neuron given all others, with stimuli switched off, is its prediction of a
stimulus (Carrillo-Reid et al. 2021); the area below the ROC curve says how good it is. It is
compared with two null distributions:

* models fitted to shuffled recordings, in which every neuron keeps its activity but not its
  timing: no couplings, no response;
* circular shifts of the stimulus against the log odds of the model: couplings, but no response.

A neuron that is coupled to an ensemble by mistake passes both, so that its own activity must
predict the stimulus as well, again compared with circular shifts. The p-value is the largest of the
three; q-values are those of Benjamini and Hochberg (1995) over all
neurons and stimuli.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed

from .._random import generator
from ..metrics.event_auc import event_auc, shifted_event_auc
from .ising import IsingMRF
from .ising_variables import read_frames
from .validation import check_count

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

SHUFFLES = ("circular", "frames", "exchange")


@dataclass(frozen=True)
class Ensembles:
    """The neurons of every stimulus, and what the choice rests on.

    Attributes
    ----------
    members : boolean ndarray of shape (n_stimuli, n_neurons)
    auc : ndarray of shape (n_stimuli, n_neurons), of the log odds of neurons
    control_auc : the same under a model that was fitted without stimuli
    p_shuffled : share of the AUC of shuffled models, of all neurons, that are at least as large
    p_shifted : share of circular shifts of the stimulus with an AUC at least as large
    p_activity : the same for the neuron's own activity instead of its log odds
    q_values : false-discovery rate at which a neuron would be a member
    strengths : ndarray of shape (n_neurons,), sums of couplings
    p_strengths : share of the strengths in shuffled models that are at least as large
    fdr : the false-discovery rate of `members`
    n_shuffles : int
    model : the fitted IsingMRF
    """

    members: Bools
    auc: Floats
    control_auc: Floats
    p_shuffled: Floats
    p_shifted: Floats
    p_activity: Floats
    q_values: Floats
    strengths: Floats
    p_strengths: Floats
    fdr: float
    n_shuffles: int
    model: IsingMRF

    def neurons(self, stimulus: int) -> Ints:
        """The members of one ensemble, best predictor first."""
        found = np.flatnonzero(self.members[stimulus])
        return found[np.argsort(-self.auc[stimulus, found], kind="stable")]

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary for every stimulus and neuron."""
        return [
            {
                "stimulus": s,
                "neuron": i,
                "member": bool(self.members[s, i]),
                "auc": float(self.auc[s, i]),
                "control_auc": float(self.control_auc[s, i]),
                "p_shuffled": float(self.p_shuffled[s, i]),
                "p_shifted": float(self.p_shifted[s, i]),
                "p_activity": float(self.p_activity[s, i]),
                "q_value": float(self.q_values[s, i]),
                "strength": float(self.strengths[i]),
                "p_strength": float(self.p_strengths[i]),
            }
            for s in range(self.auc.shape[0])
            for i in range(self.auc.shape[1])
        ]

    def report(self) -> str:
        """A printable summary."""
        lines = [
            f"{self.auc.shape[1]} neurons, {self.auc.shape[0]} stimuli, "
            f"{len(self.model.edges_)} couplings; false-discovery rate {self.fdr:g}, "
            f"{self.n_shuffles} shuffled models"
        ]
        for s in range(self.auc.shape[0]):
            found = self.neurons(s)
            named = " ".join(str(i) for i in found.tolist()) or "none"
            best = f", AUC {self.auc[s, found].max():.3f}" if found.size else ""
            lines.append(f"stimulus {s}: {found.size} neurons{best}: {named}")
        return "\n".join(lines)


def find_ensembles(
    Y: Any,
    stimuli: Any,
    model: IsingMRF | None = None,
    *,
    n_shuffles: int = 100,
    fdr: float = 0.05,
    shuffle: str = "circular",
    n_jobs: int | None = None,
    random_state: Any = None,
) -> Ensembles:
    """The neurons whose log odds predict each stimulus better than chance.

    Parameters
    ----------
    Y : array of shape (n_frames, n_neurons), 0 and 1
    stimuli : array of shape (n_frames, n_stimuli)
    model : IsingMRF, optional
        Its parameters are used for all fits; by default IsingMRF().
    n_shuffles : number of models fitted to shuffled recordings
    fdr : expected share of false members among all members
    shuffle : "circular", "frames" or "exchange"
        "circular" shifts every neuron by a random number of frames, which keeps its rate and its
        autocorrelation; "frames" permutes its frames; "exchange" keeps the rates of neurons and the
        number of active neurons of every frame.
    n_jobs : processes over shuffles
    random_state : int, Generator or None

    Examples
    --------
    >>> from mlestruct.datasets import make_spikes
    >>> data = make_spikes(20, 1500, n_stimuli=1, ensemble_size=6, random_state=0)
    >>> found = find_ensembles(data.spikes, data.stimuli, n_shuffles=10, random_state=0)
    >>> sorted(found.neurons(0).tolist()) == data.ensembles[0].tolist()
    True
    """
    frames, shown = read_frames(Y, stimuli)
    if shown is None:
        raise ValueError("stimuli: expected an array of shape (n_frames, n_stimuli), got None")
    if shuffle not in SHUFFLES:
        raise ValueError(f"shuffle: expected one of {list(SHUFFLES)}, got {shuffle!r}")
    if not 0.0 < fdr < 1.0:
        raise ValueError(f"fdr: expected a rate between 0 and 1, got {fdr!r}")
    n_shuffles = check_count(n_shuffles, "n_shuffles")
    settings = clone(IsingMRF() if model is None else model).set_params(n_jobs=None)
    fitted, odds, strengths = _fit(settings, frames, shown)
    events = shown[settings.time_span - 1 :]
    auc = event_auc(odds, events)
    control = event_auc(_fit(settings, frames, None)[1], events)

    streams = generator(random_state).spawn(n_shuffles)
    null = Parallel(n_jobs=n_jobs)(
        delayed(_shuffled_fit)(settings, frames, shown, shuffle, stream) for stream in streams
    )
    null_auc = np.stack([each for each, _ in null])  # (n_shuffles, n_stimuli, n_neurons)
    p_shuffled = np.stack(
        [_exceedance(null_auc[:, s].ravel(), auc[s]) for s in range(auc.shape[0])]
    )
    p_shifted = _shift_p_values(odds, events)
    p_activity = _shift_p_values(frames[settings.time_span - 1 :], events)
    q_values = benjamini_hochberg(np.maximum.reduce([p_shuffled, p_shifted, p_activity]))
    return Ensembles(
        members=q_values <= fdr,
        auc=auc,
        control_auc=control,
        p_shuffled=p_shuffled,
        p_shifted=p_shifted,
        p_activity=p_activity,
        q_values=q_values,
        strengths=strengths,
        p_strengths=_exceedance(np.concatenate([each for _, each in null]), strengths),
        fdr=fdr,
        n_shuffles=n_shuffles,
        model=fitted,
    )


def _fit(settings: IsingMRF, frames: Ints, stimuli: Any) -> tuple[IsingMRF, Floats, Floats]:
    """A fitted model, the log odds of its neurons with stimuli off, and their strengths."""
    fitted = clone(settings).fit(frames, stimuli)
    return fitted, fitted.log_odds(frames), fitted.node_strengths()


def _shuffled_fit(
    settings: IsingMRF, frames: Ints, stimuli: Ints, shuffle: str, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    _, odds, strengths = _fit(settings, shuffled(frames, shuffle, rng), stimuli)
    return event_auc(odds, stimuli[settings.time_span - 1 :]), strengths


def shuffled(frames: Ints, shuffle: str, rng: np.random.Generator) -> Ints:
    """A recording in which neurons fire as often as before, independently of each other."""
    n_frames, n_neurons = frames.shape
    if shuffle == "circular":
        shifts = rng.integers(n_frames, size=n_neurons)
        rows = (np.arange(n_frames)[:, None] - shifts) % n_frames
        return frames[rows, np.arange(n_neurons)]
    if shuffle == "frames":
        return rng.permuted(frames, axis=0)
    return _exchanged(frames, rng)


def _exchanged(frames: Ints, rng: np.random.Generator) -> Ints:
    """Keep row and column sums: exchange the frames of two spikes where that makes no double."""
    found = frames.copy()
    time, neuron = np.nonzero(found)
    for _ in range(5):  # after so many exchanges of every spike little is left of the given order
        order = rng.permutation(time.size)
        for a, b in zip(order[::2].tolist(), order[1::2].tolist(), strict=False):
            s, t, i, j = time[a], time[b], neuron[a], neuron[b]
            if not (found[t, i] or found[s, j]):
                found[s, i] = found[t, j] = 0
                found[t, i] = found[s, j] = 1
                time[a], time[b] = t, s
    return found


def _shift_p_values(predictions: NDArray[Any], events: Ints) -> Floats:
    """Share of the circular shifts, the given timing among them, that predict as well."""
    n_frames, n_neurons = predictions.shape
    found = np.empty((events.shape[1], n_neurons))
    for i in range(n_neurons):  # one neuron at a time: all shifts of all are large
        shifted = shifted_event_auc(predictions[:, i], events)[:, :, 0]
        as_good = shifted >= shifted[0] - 1e-9  # of rounding, in the transform
        found[:, i] = as_good.sum(axis=0) / n_frames
    return found


def _exceedance(null: Floats, values: Floats) -> Floats:
    """(1 + number of null values that are at least as large) / (1 + number of null values)."""
    ordered = np.sort(null)
    as_large = ordered.size - np.searchsorted(ordered, values - 1e-12, side="left")
    return np.asarray((1.0 + as_large) / (1.0 + ordered.size))


def benjamini_hochberg(p_values: Floats) -> Floats:
    """Smallest false-discovery rate at which each hypothesis is rejected."""
    flat = p_values.ravel()
    order = np.argsort(flat)
    scaled = flat[order] * flat.size / np.arange(1, flat.size + 1)
    found = np.empty_like(flat)
    found[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return found.reshape(p_values.shape)
