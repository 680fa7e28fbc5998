"""Held-out quality against scikit-learn."""

import json

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

from mlestruct.metrics import HeldOut


def test_weighted_events_of_several_samples():
    rng = np.random.default_rng(0)
    samples = []
    for _ in range(3):
        chance = rng.random(400)
        samples.append((chance, rng.random(400) < chance, rng.integers(0, 3, 400).astype(float)))
    chance, happened, weight = (np.concatenate(part) for part in zip(*samples, strict=True))
    found = HeldOut.of(0.5, samples)
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
    found = HeldOut.of(1.0, [(np.array([0.9, 0.8]), np.array([True, True]), np.ones(2))])
    assert found.auc is None
    assert found.false_positive_rate == []


def test_bins_without_events_are_left_out():
    """Two of the ten bins have events."""
    samples = [(np.array([0.15, 0.15, 0.95]), np.array([False, True, True]), np.ones(3))]
    found = HeldOut.of(0.0, samples)
    assert found.count == [2.0, 1.0]
    np.testing.assert_allclose(found.predicted, [0.15, 0.95])
    assert found.observed == [0.5, 1.0]
