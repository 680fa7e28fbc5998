"""Calibration in bins, against scikit-learn, SciPy and closed forms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_scores import generators
from scipy.stats import binomtest
from sklearn.calibration import calibration_curve

from mlestruct.metrics import reliability

examples = settings(deadline=None, max_examples=60)
ARRAYS = ("predicted", "observed", "lower", "upper", "count")


def draw(rng):
    """Outcomes, and probabilities that need not fit them, with ties half of the time."""
    n = int(rng.integers(1, 80))
    p = rng.random(n) if rng.random() < 0.5 else rng.integers(0, 6, n) / 5
    return rng.random(n) < rng.random(), p


@examples
@given(generators, st.integers(1, 15))
def test_curve_and_error_are_those_of_scikit_learn(rng, n_bins):
    y, p = draw(rng)
    y, p = np.r_[y, True, False], np.r_[p, 1.0, 0.0]  # scikit-learn wants both outcomes
    found = reliability(y, p, n_bins=n_bins)
    true, predicted = calibration_curve(y, p, n_bins=n_bins)
    full = found.count > 0
    np.testing.assert_allclose(found.observed[full], true)
    np.testing.assert_allclose(found.predicted[full], predicted)
    error = np.average(np.abs(true - predicted), weights=found.count[full])
    assert found.ece == pytest.approx(error, abs=1e-12)
    assert found.count.sum() == p.size
    assert (found.lower[full] <= found.observed[full]).all()
    assert (found.observed[full] <= found.upper[full]).all()
    for name in ARRAYS[:-1]:
        assert np.isnan(getattr(found, name)[~full]).all()


@examples
@given(generators)
def test_weights_are_repetitions(rng):
    y, p = draw(rng)
    weight = rng.integers(0, 4, p.size)
    weight[0] = 1
    expected = reliability(np.repeat(y, weight), np.repeat(p, weight), n_bins=5)
    order = rng.permutation(p.size)
    found = reliability(y[order, None], p[order, None], weight[order, None], n_bins=5)
    for name in (*ARRAYS, "ece", "ece_if_calibrated"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-12)


def test_intervals_are_those_of_scipy():
    for n in (1, 2, 7, 400):
        for k in {0, 1, n // 3, n}:
            found = reliability(np.arange(n) < k, np.full(n, 0.4), n_bins=1)
            wanted = binomtest(k, n).proportion_ci(0.95, method="wilson")
            assert found.lower[0] == pytest.approx(wanted.low, abs=1e-12)
            assert found.upper[0] == pytest.approx(wanted.high, abs=1e-12)


def test_calibrated_predictions_have_an_error_of_chance_alone():
    """One outcome moves the ECE by 1/n at most, so it concentrates (McDiarmid) below its bound."""
    rng = np.random.default_rng(0)
    n = 20000
    p = rng.beta(0.4, 2.0, n)
    runs = [reliability(rng.random(n) < p, p, n_bins=20) for _ in range(50)]
    errors, bound = [run.ece for run in runs], runs[0].ece_if_calibrated
    assert max(errors) <= bound + np.sqrt(np.log(1e9) / (2 * n))
    assert 0.5 * bound <= np.mean(errors) <= bound  # E|normal| is 0.8 standard deviations
    inside = np.mean([(run.lower <= run.predicted) & (run.predicted <= run.upper) for run in runs])
    assert 0.93 < inside < 0.98


def test_matchings_drawn_from_their_marginals_are_calibrated():
    """Two by two, perfect: the marginals are the probabilities of the two permutations."""
    rng = np.random.default_rng(3)
    n = 4000
    same = rng.random(n)
    straight = rng.random(n) < same
    p = np.stack([same, 1 - same, 1 - same, same], axis=1)
    found = reliability(np.stack([straight, ~straight, ~straight, straight], axis=1), p)
    assert found.count.sum() == 4 * n
    # Both entries of p go together, which doubles the variance of a bin; one sample moves the ECE
    # by 1/n at most.
    bound = np.sqrt(2) * found.ece_if_calibrated
    assert found.ece <= bound + np.sqrt(np.log(1e9) / (2 * n))


def test_closed_forms():
    """A constant, the truth and its opposite; bins are closed on the right."""
    y = np.arange(40) < 10
    constant = reliability(y, np.full(40, 0.7))
    assert constant.ece == pytest.approx(0.45)
    assert constant.ece_if_calibrated == pytest.approx(np.sqrt(0.21 / 40))
    assert reliability(y, y * 1.0).ece == 0.0
    assert reliability(y, 1.0 - y).ece == 1.0
    closed = reliability([0, 0, 1, 1], [0.0, 0.25, 0.5, 1.0], n_bins=4)
    assert closed.count.tolist() == [2, 1, 0, 1]
    tiny = reliability([0, 1], [0.3, 0.8], weight=[1e-300, 1e-300])
    assert tiny.ece == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], []), "happened: no events"),
        (([1], [0.1], [0]), "happened: no events"),
        (([0.1, 0.9], [0, 1]), "happened: expected 0 and 1"),
        (([1], [0.1], None, 0), "`n_bins` must be .*got 0"),
        (([1], [0.1], None, 2.5), "`n_bins` must be .*got 2.5"),
    ],
)
def test_errors_name_the_argument(arguments, message):
    with pytest.raises(ValueError, match=message):
        reliability(*arguments)
