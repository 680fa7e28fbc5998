"""Held-out quality against scikit-learn."""

import json

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

from mlestruct.linkage.held_out import HeldOut
from mlestruct.metrics import Events


def test_weighted_events_of_several_samples():
    rng = np.random.default_rng(0)
    samples = []
    for _ in range(3):
        chance = rng.random(400)
        weight = rng.integers(1, 4, 400).astype(float)
        samples.append(Events(rng.random(400) < chance, chance, weight))
    happened, chance, weight = (np.concatenate(part) for part in zip(*samples, strict=True))
    excluded = Events(np.zeros(1, dtype=bool), np.zeros(1), np.array([1e6]))
    found = HeldOut.of(0.5, [*samples, excluded])  # pairs that are no candidates do not count
    assert np.isclose(found.auc, roc_auc_score(happened, chance, sample_weight=weight))
    assert np.isclose(found.log_loss, log_loss(happened, chance, sample_weight=weight))
    assert found.events == weight.sum()
    area = np.trapezoid(found.true_positive_rate, found.false_positive_rate)
    assert abs(area - found.auc) < 0.01
    assert len(found.false_positive_rate) <= 100
    assert found.false_positive_rate[0] == 0.0
    assert found.true_positive_rate[-1] == 1.0
    assert HeldOut(**json.loads(json.dumps(found.to_dict()))) == found


def test_without_both_outcomes_there_is_no_curve():
    found = HeldOut.of(1.0, [Events(np.ones(2, dtype=bool), np.array([0.9, 0.8]), np.ones(2))])
    assert found.auc is None
    assert found.false_positive_rate == []


def test_bins_without_events_are_left_out():
    """Two of the ten bins have events."""
    samples = [Events(np.array([False, True, True]), np.array([0.15, 0.15, 0.95]), np.ones(3))]
    found = HeldOut.of(0.0, samples)
    assert found.count == [2.0, 1.0]
    np.testing.assert_allclose(found.predicted, [0.15, 0.95])
    assert found.observed == [0.5, 1.0]
