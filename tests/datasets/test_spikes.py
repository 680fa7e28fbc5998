"""Generated recordings: rates, responses, trials."""

import numpy as np
import pytest

from mlestruct.datasets import make_spikes


def test_ensembles_respond_to_their_stimulus():
    data = make_spikes(40, 6000, n_stimuli=2, ensemble_size=8, random_state=0)
    assert data.spikes.shape == (6000, 40)
    assert set(np.unique(data.spikes)) == {0, 1}
    assert (data.stimuli.sum(axis=1) <= 1).all()
    for s, members in enumerate(data.ensembles):
        on = data.stimuli[:, s] == 1
        expected = 1 - (1 - 0.03) * (1 - 0.5 * 0.5)
        assert data.spikes[np.ix_(on, members)].mean() == pytest.approx(expected, abs=0.02)
        assert data.spikes[np.ix_(~on, members)].mean() == pytest.approx(0.03, abs=0.01)
    together = np.concatenate(data.ensembles)
    assert len(set(together.tolist())) == 16


def test_spontaneous_ensembles_are_coupled_but_not_driven():
    data = make_spikes(30, 6000, 1, 10, n_spontaneous=1, random_state=1)
    rates = data.spikes.mean(axis=0)
    spontaneous = np.setdiff1d(np.argsort(-rates)[:20], data.ensembles[0])
    correlation = np.corrcoef(data.spikes[:, spontaneous].T)
    assert correlation[np.triu_indices(10, 1)].mean() > 0.2
    on = data.stimuli[:, 0] == 1
    driven = data.spikes[np.ix_(on, spontaneous)].mean()
    assert driven == pytest.approx(data.spikes[np.ix_(~on, spontaneous)].mean(), abs=0.03)


def test_the_seed_decides():
    one, other = (make_spikes(20, 50, 1, 5, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(one.spikes, other.spikes)


def test_no_stimuli():
    data = make_spikes(20, 50, n_stimuli=0, random_state=0)
    assert data.stimuli.shape == (50, 0)
    assert data.ensembles == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_neurons": 10}, "do not fit"),
        ({"rate": 1.5}, "rate: expected a number from 0 to 1"),
        ({"n_frames": 0}, "n_frames: expected a whole number"),
    ],
)
def test_errors(options, message):
    with pytest.raises(ValueError, match=message):
        make_spikes(**options)
