"""Binary activity of many neurons under stimuli: generated, and read from files."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._random import generator
from .parameters import check_counts, check_range

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class SpikeData:
    """A recording.

    Attributes
    ----------
    spikes : ndarray of shape (n_frames, n_neurons), 0 and 1
    stimuli : ndarray of shape (n_frames, n_stimuli), 0 and 1; no columns without stimuli
    coords : ndarray of shape (n_neurons, 2), or None
    ensembles : list of arrays of neurons, one per stimulus, where they are known; else None
    name : str
    """

    spikes: Ints
    stimuli: Ints
    coords: Floats | None = None
    ensembles: list[Ints] | None = None
    name: str = "spikes"


def make_spikes(
    n_neurons: int = 100,
    n_frames: int = 5000,
    n_stimuli: int = 2,
    ensemble_size: int = 10,
    rate: float = 0.03,
    event_rate: float = 0.5,
    response: float = 0.5,
    n_spontaneous: int = 0,
    trial: int = 20,
    random_state: int | None = None,
) -> SpikeData:
    """Activity with planted ensembles, each active under a stimulus of its own.

    Every neuron fires by itself with probability `rate`. Trials of `trial` frames show a random
    stimulus; pauses between them have a random length of the same mean. In a frame with a stimulus
    its ensemble is active with probability `event_rate`, and then each of its members fires with
    probability `response`. Ensembles do not overlap.

    Parameters
    ----------
    n_spontaneous : int
        Further ensembles of the same size that no stimulus drives: they are active as often as the
        others, at random times.
    """
    check_counts(
        1, n_frames=n_frames, n_neurons=n_neurons, trial=trial, ensemble_size=ensemble_size
    )
    check_counts(0, n_stimuli=n_stimuli, n_spontaneous=n_spontaneous)
    check_range(0.0, 1.0, rate=rate, event_rate=event_rate, response=response)
    n_ensembles = n_stimuli + n_spontaneous
    if ensemble_size * max(n_ensembles, 1) > n_neurons:
        raise ValueError(
            f"ensemble_size: {n_ensembles} ensembles of {ensemble_size} do not fit into "
            f"{n_neurons} neurons"
        )
    rng = generator(random_state)
    stimuli = _trials(n_frames, n_stimuli, trial, rng)
    order = rng.permutation(n_neurons)
    spikes = rng.random((n_frames, n_neurons)) < rate
    share = 0.5 / max(n_stimuli, 1)  # of frames with one stimulus
    for k in range(n_ensembles):
        members = order[k * ensemble_size : (k + 1) * ensemble_size]
        driven = stimuli[:, k] == 1 if k < n_stimuli else rng.random(n_frames) < share
        active = driven & (rng.random(n_frames) < event_rate)
        spikes[:, members] |= active[:, None] & (rng.random((n_frames, ensemble_size)) < response)
    groups = order[: n_stimuli * ensemble_size].reshape(n_stimuli, ensemble_size)
    return SpikeData(
        spikes.astype(np.int64),
        stimuli,
        rng.uniform(0.0, 500.0, size=(n_neurons, 2)),
        [np.sort(members) for members in groups],
    )


def _trials(n_frames: int, n_stimuli: int, trial: int, rng: np.random.Generator) -> Ints:
    """Trials of random stimuli with random pauses between them."""
    shown = np.zeros((n_frames, n_stimuli), dtype=np.int64)
    start = 0
    while n_stimuli and start < n_frames:
        start += int(rng.integers(1, 2 * trial))
        shown[start : start + trial, rng.integers(n_stimuli)] = 1
        start += trial
    return shown
