"""Calibration of single events against scikit-learn, SciPy and closed forms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_scores import generators
from reliability_curves import ARRAYS, assert_same
from scipy.stats import binomtest
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, log_loss

from mlestruct.metrics import reliability

examples = settings(deadline=None, max_examples=60)


strategies = st.sampled_from(["uniform", "quantile"])


def draw(rng, n=None):
    """Probabilities, with ties half of the time, and outcomes that need not fit them."""
    n = int(rng.integers(1, 80)) if n is None else n
    p = rng.random(n) if rng.random() < 0.5 else rng.integers(0, 6, n) / 5
    return p, rng.random(n) < rng.random()


# ---------------------------------------------------------------- events one by one
@examples
@given(generators, st.integers(1, 15))
def test_curve_is_that_of_scikit_learn(rng, n_bins):
    p, y = draw(rng)
    p, y = np.r_[p, 1.0, 0.0], np.r_[y, True, False]  # scikit-learn wants both outcomes
    found = reliability(p, y, n_bins)
    true, predicted = calibration_curve(y, p, n_bins=n_bins)
    full = found.count > 0
    np.testing.assert_allclose(found.observed[full], true)
    np.testing.assert_allclose(found.predicted[full], predicted)


@examples
@given(generators, st.integers(1, 8), st.integers(1, 9))
def test_quantile_curve_is_that_of_scikit_learn_without_ties(rng, n_bins, per_bin):
    """If the number of events is a multiple of that of bins, all definitions of quantiles agree."""
    n = n_bins * per_bin
    p, y = rng.permutation(n) / n + rng.random() / n, rng.permutation(n) % 2 == 0
    if n == 1:
        return  # scikit-learn wants both outcomes
    found = reliability(p, y, n_bins, "quantile")
    true, predicted = calibration_curve(y, p, n_bins=n_bins, strategy="quantile")
    np.testing.assert_allclose(found.observed, true)
    np.testing.assert_allclose(found.predicted, predicted)
    assert (found.count == per_bin).all()


@examples
@given(generators)
def test_losses_are_those_of_scikit_learn(rng):
    p, y = draw(rng)
    weight = rng.random(p.size) + 0.1
    found = reliability(p, y, sample_weight=weight)
    labels = [False, True]
    brier = brier_score_loss(y, p, sample_weight=weight, labels=labels)
    assert found.brier == pytest.approx(brier)
    assert found.log_loss == pytest.approx(log_loss(y, p, sample_weight=weight, labels=labels))


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_intervals_are_those_of_scipy(confidence):
    for n in (1, 2, 7, 400):
        for k in {0, 1, n // 3, n}:
            found = reliability(np.full(n, 0.4), np.arange(n) < k, 1, confidence=confidence)
            wanted = binomtest(k, n).proportion_ci(confidence, method="wilson")
            assert found.lower[0] == pytest.approx(wanted.low, abs=1e-12)
            assert found.upper[0] == pytest.approx(wanted.high, abs=1e-12)


@examples
@given(generators, strategies, st.integers(1, 12))
def test_murphys_parts_add_up_on_binned_probabilities(rng, strategy, n_bins):
    """Murphy (1973): an identity once all events of a bin have the same probability."""
    p, y = draw(rng)
    weight = rng.integers(1, 4, p.size)
    first = reliability(p, y, n_bins, strategy, weight)
    place = np.searchsorted(first.edges[1:-1], p)
    parts = first.reliability - first.resolution + first.uncertainty
    brier = np.average((first.predicted[place] - y) ** 2, weights=weight)
    assert parts == pytest.approx(brier, abs=1e-12)
    # The same from the outside, with a bin for each of the values.
    second = reliability(first.predicted[place], y, weight.sum(), "quantile", weight)
    parts = second.reliability - second.resolution + second.uncertainty
    assert parts == pytest.approx(second.brier, abs=1e-12)
    assert second.brier == pytest.approx(brier, abs=1e-12)


@examples
@given(generators, strategies, st.integers(1, 12))
def test_everything_is_finite_and_in_range(rng, strategy, n_bins):
    p, y = draw(rng)
    found = reliability(p, y, n_bins, strategy)
    for name in ARRAYS:
        assert np.isfinite(getattr(found, name)).all()
    for name in ("predicted", "observed", "lower", "upper"):
        assert (getattr(found, name) >= 0).all()
        assert (getattr(found, name) <= 1).all()
    assert (found.lower <= found.observed).all()
    assert (found.observed <= found.upper).all()
    assert 0 <= found.ece <= found.mce <= 1
    assert 0 <= found.brier <= 1
    assert found.ece**2 <= found.reliability + 1e-12  # Jensen
    assert found.count.sum() == found.n == p.size
    low, high = found.edges[:-1], found.edges[1:]
    assert (low <= found.predicted + 1e-12).all()
    assert (found.predicted <= high + 1e-12).all()
    if strategy == "quantile":
        assert (found.count > 0).all()
        assert found.count.size <= n_bins
    else:
        assert found.count.size == n_bins


@examples
@given(generators, strategies)
def test_order_does_not_matter_and_weights_are_repetitions(rng, strategy):
    p, y = draw(rng)
    weight = rng.integers(0, 4, p.size)
    weight[0] = 1
    expected = reliability(np.repeat(p, weight), np.repeat(y, weight), 5, strategy)
    order = rng.permutation(p.size)
    assert_same(reliability(p[order], y[order], 5, strategy, weight[order]), expected)
    square = reliability(p[:, None], y[:, None], 5, strategy, weight[:, None])
    assert_same(square, expected)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_calibrated_predictions_have_an_error_of_chance_alone(strategy):
    """One outcome moves the ECE by 1/n at most, so it concentrates (McDiarmid) below its bound."""
    rng = np.random.default_rng(0)
    n = 20000
    p = rng.beta(0.4, 2.0, n)
    errors = [reliability(p, rng.random(n) < p, 20, strategy).ece for _ in range(20)]
    bound = reliability(p, rng.random(n) < p, 20, strategy).ece_if_calibrated
    assert max(errors) <= bound + np.sqrt(np.log(1e9) / (2 * n))
    assert np.mean(errors) <= bound
    assert np.mean(errors) >= 0.5 * bound  # E|normal| is 0.8 standard deviations
    covered = [reliability(p, rng.random(n) < p, 20, strategy) for _ in range(50)]
    inside = np.mean([(r.lower <= r.predicted) & (r.predicted <= r.upper) for r in covered])
    assert 0.93 < inside < 0.98


def test_constant_predictor():
    """Predicting c at base rate b: ECE = MCE = |c - b|, no resolution, uncertainty b(1 - b)."""
    y = np.arange(40) < 10
    found = reliability(np.full(40, 0.7), y)
    assert found.ece == found.mce == pytest.approx(0.45)
    assert found.resolution == pytest.approx(0.0)
    assert found.uncertainty == pytest.approx(0.1875)
    assert found.reliability == pytest.approx(0.45**2)
    assert found.brier == pytest.approx(0.45**2 + 0.1875)
    assert found.log_loss == pytest.approx(-0.25 * np.log(0.7) - 0.75 * np.log(0.3))
    assert found.ece_if_calibrated == pytest.approx(np.sqrt(0.21 / 40))


def test_perfect_and_worst_predictions():
    y = np.array([True, False, True])
    right, wrong = reliability(y * 1.0, y), reliability(1.0 - y, y)
    assert right.ece == right.mce == right.brier == 0.0
    assert right.log_loss == pytest.approx(0.0, abs=1e-15)
    assert right.resolution == pytest.approx(right.uncertainty)
    assert wrong.ece == wrong.mce == wrong.brier == 1.0
    assert wrong.log_loss == pytest.approx(-np.log(np.finfo(float).eps))


def test_edges_close_bins_on_the_right_and_empty_bins_are_marked():
    found = reliability([0.0, 0.25, 0.5, 1.0], [0, 0, 1, 1], 4)
    assert found.count.tolist() == [2, 1, 0, 1]
    assert found.predicted.tolist() == [0.125, 0.5, 0.625, 1.0]
    assert found.observed.tolist() == [0.0, 1.0, 0.625, 1.0]
    assert (found.lower[2], found.upper[2]) == (0.0, 1.0)
    assert found.mce == 0.5


def test_quantile_bins_keep_ties_together():
    p = np.r_[np.zeros(50), np.full(30, 0.2), [0.3, 0.4]]
    found = reliability(p, p > 0.25, 10, "quantile")
    assert found.edges.tolist() == [0.0, 0.0, 0.2, 1.0]
    assert found.count.tolist() == [50, 30, 2]
    same = reliability(np.full(9, 0.5), np.arange(9) < 4, 10, "quantile")
    assert same.edges.tolist() == [0.0, 1.0]
    assert same.observed.tolist() == [pytest.approx(4 / 9)]


def test_small_inputs():
    one = reliability([1.0], [1])
    assert one.n == 1
    assert one.ece == 0
    assert one.count[-1] == 1
    zeros = reliability(np.zeros(5), np.zeros(5), strategy="quantile")
    assert zeros.brier == zeros.ece == 0
    assert zeros.predicted.tolist() == [0.0]
    single = reliability([0.2, 0.9], [0, 1], 1)
    assert single.predicted.tolist() == [pytest.approx(0.55)]
    rounded = reliability([-5e-10, 1 + 5e-10], [0, 1])
    assert rounded.brier == 0.0
    tiny = reliability([0.3, 0.8], [0, 1], sample_weight=[1e-300, 1e-300])
    assert tiny.ece == pytest.approx(0.25)
    assert np.isfinite(tiny.upper).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], []), "probabilities: no events"),
        (([0.1, 0.2], [1]), r"outcomes: expected shape \(2,\)"),
        (([0.1, np.nan], [1, 0]), r"probabilities: .*nan at position \(1,\)"),
        (([0.1, 1.1], [1, 0]), r"probabilities: .*1\.1 at"),
        (([-1e-8], [1]), "probabilities: .*from 0 to 1"),
        ((["a"], [1]), "probabilities: expected an array of numbers"),
        (([0.1, 0.2], [1, 2]), "outcomes: expected 0 and 1"),
        (([0.1, 0.2], [1, np.nan]), "outcomes: expected 0 and 1"),
        (([0.1], [1], 0), "n_bins: .*got 0"),
        (([0.1], [1], 2.5), "n_bins: .*got 2.5"),
        (([0.1], [1], 5, "equal"), "strategy: expected one of uniform, quantile"),
        (([0.1], [1], 5, "uniform", [1, 2]), r"sample_weight: expected shape \(1,\)"),
        (([0.1], [1], 5, "uniform", [-1]), "sample_weight: .*at least 0"),
        (([0.1], [1], 5, "uniform", [np.nan]), "sample_weight: .*at least 0"),
        (([0.1], [1], 5, "uniform", [0]), "no events"),
    ],
)
def test_errors_name_the_argument(arguments, message):
    with pytest.raises(ValueError, match=message):
        reliability(*arguments)
    with pytest.raises(ValueError, match="confidence"):
        reliability([0.5], [1], confidence=95)


def test_text_has_a_line_per_bin_and_the_totals():
    rng = np.random.default_rng(1)
    p = rng.random(3000) * 0.75
    found = reliability(p, rng.random(3000) < p, 4)
    lines = str(found).splitlines()
    assert len(lines) == 1 + 4 + 2
    assert "95% interval" in lines[0]
    assert f"{found.observed[1]:.4f}" in lines[2]
    assert lines[4].split()[-4:] == ["-", "-", "-", "0"]
    assert "3,000 events" in lines[5]
    assert f"ECE {found.ece:.4f}" in lines[5]
    assert f"Brier {found.brier:.4f}" in lines[6]
    assert found.summary()["ece"] == found.ece
