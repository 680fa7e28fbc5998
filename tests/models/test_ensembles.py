"""Planted ensembles are found; recordings without any have none."""

import numpy as np
import pytest
from joblib import parallel_config

from mlestruct import IsingMRF
from mlestruct.datasets import make_spikes
from mlestruct.models import find_ensembles
from mlestruct.models.ensembles import benjamini_hochberg, shuffled


@pytest.fixture(scope="module")
def found_and_data():
    data = make_spikes(30, 2500, n_stimuli=2, ensemble_size=7, random_state=0)
    return find_ensembles(data.spikes, data.stimuli, n_shuffles=12, random_state=0), data


def test_planted_ensembles(found_and_data):
    found, data = found_and_data
    for s, members in enumerate(data.ensembles):
        chosen = set(found.neurons(s).tolist())
        assert len(chosen & set(members.tolist())) >= 6
        assert len(chosen - set(members.tolist())) <= 1
        assert found.auc[s, members].min() > 0.6
        assert found.control_auc[s, members].min() > 0.6
    assert "stimulus 0: 7 neurons" in found.report()
    assert len(found.rows()) == 60
    assert (found.q_values >= np.maximum(found.p_shuffled, found.p_shifted) - 1e-12).all()


def test_best_predictor_first(found_and_data):
    found, _ = found_and_data
    values = found.auc[0, found.neurons(0)]
    assert (np.diff(values) <= 0).all()


@pytest.mark.parametrize("kind", ["independent", "spontaneous"])
def test_nothing_where_no_neuron_responds(kind):
    """Neither in independent neurons nor in ensembles that ignore the stimuli."""
    total = 0
    for seed in range(2):
        options = {"response": 0.0} if kind == "independent" else {"n_spontaneous": 2}
        n_stimuli = 2 if kind == "independent" else 0
        data = make_spikes(24, 1500, n_stimuli, 8, random_state=seed, **options)
        stimuli = make_spikes(24, 1500, 2, 8, random_state=100 + seed).stimuli
        found = find_ensembles(data.spikes, stimuli, n_shuffles=6, random_state=seed)
        total += found.members.sum()
    assert total == 0


@pytest.mark.parametrize("kind", ["circular", "frames", "exchange"])
def test_shuffles_keep_rates(kind):
    frames = make_spikes(20, 400, 1, 8, random_state=0).spikes
    mixed = shuffled(frames, kind, np.random.default_rng(0))
    np.testing.assert_array_equal(mixed.sum(axis=0), frames.sum(axis=0))
    assert (mixed != frames).any()
    if kind == "exchange":
        np.testing.assert_array_equal(mixed.sum(axis=1), frames.sum(axis=1))
    else:
        before, after = np.corrcoef(frames.T), np.corrcoef(mixed.T)
        upper = np.triu_indices(20, 1)
        assert np.abs(after[upper]).max() < np.abs(before[upper]).max()


def test_time_spans_and_workers():
    data = make_spikes(12, 600, 1, 5, random_state=0)
    settings = IsingMRF(time_span=2)
    one = find_ensembles(data.spikes, data.stimuli, settings, n_shuffles=4, random_state=0)
    with parallel_config(backend="threading"):  # processes take seconds to start
        two = find_ensembles(
            data.spikes, data.stimuli, settings, n_shuffles=4, random_state=0, n_jobs=2
        )
    np.testing.assert_array_equal(one.q_values, two.q_values)


def test_q_values():
    """Against the definition: reject the k smallest, k the largest with p_(k) <= k q / m."""
    p = np.random.default_rng(0).random((4, 6)) ** 2
    found = benjamini_hochberg(p)
    for level in (0.05, 0.2, 0.5):
        ordered = np.sort(p.ravel())
        passing = np.flatnonzero(ordered <= level * np.arange(1, 25) / 24)
        limit = ordered[passing[-1]] if passing.size else -1.0
        np.testing.assert_array_equal(found <= level, p <= limit)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"fdr": 1.0}, "fdr"), ({"shuffle": "none"}, "shuffle"), ({"n_shuffles": 0}, "n_shuffles")],
)
def test_errors(options, message):
    with pytest.raises(ValueError, match=message):
        find_ensembles(np.eye(4), np.eye(4), **options)
    with pytest.raises(ValueError, match="stimuli"):
        find_ensembles(np.eye(4), None)
