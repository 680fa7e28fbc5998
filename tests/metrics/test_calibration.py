"""Calibration against scikit-learn, SciPy, closed forms and counting pair by pair."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from random_scores import generators
from scipy.stats import binomtest
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, log_loss

from mlestruct import BipartiteMatchingCRF, ChainCRF, MatchingCRF
from mlestruct.metrics import pair_reliability, reliability, state_reliability
from mlestruct.plotting.calibration import plot_reliability

examples = settings(deadline=None, max_examples=60)
strategies = st.sampled_from(["uniform", "quantile"])
ARRAYS = ("edges", "predicted", "observed", "lower", "upper", "count")


def draw(rng, n=None):
    """Probabilities, with ties half of the time, and outcomes that need not fit them."""
    n = int(rng.integers(1, 80)) if n is None else n
    p = rng.random(n) if rng.random() < 0.5 else rng.integers(0, 6, n) / 5
    return p, rng.random(n) < rng.random()


def assert_same(found, expected, tol=1e-12):
    for name in ARRAYS:
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=tol)
    for name, value in expected.summary().items():
        assert found.summary()[name] == pytest.approx(value, abs=tol, rel=1e-9), name


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


# ---------------------------------------------------------------- pairs
def draw_matching(rng, bipartite):
    n = int(rng.integers(2, 9))
    m = int(rng.integers(1, 9)) if bipartite else n
    table = rng.random((n, m)) * (rng.random((n, m)) < 0.6) / max(n, m)
    partner = np.full(n, -1)
    if bipartite:
        size = rng.integers(0, min(n, m) + 1)
        partner[rng.permutation(n)[:size]] = rng.permutation(m)[:size]
    else:
        table = np.triu(table, 1) + np.triu(table, 1).T
        order = rng.permutation(n)[: 2 * rng.integers(0, n // 2 + 1)]
        partner[order[::2]], partner[order[1::2]] = order[1::2], order[::2]
    return table, partner


def listed(table, partner, bipartite, events, drop_zeros):
    """The events, one by one."""
    n, m = table.shape
    found = []
    if events != "singles":
        for i in range(n):
            for j in range(0 if bipartite else i + 1, m):
                happened = partner[i] == j
                if table[i, j] > 0 or happened or not drop_zeros:
                    found.append((table[i, j], happened))
    if events != "pairs":
        found += [(1 - table[i].sum(), partner[i] == -1) for i in range(n)]
        if bipartite:
            found += [(1 - table[:, j].sum(), j not in partner) for j in range(m)]
    return found


def as_pairs(partner, bipartite):
    pairs = [(i, j) for i, j in enumerate(partner) if j >= 0 and (bipartite or i < j)]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


@examples
@given(
    generators, st.booleans(), st.sampled_from(["pairs", "singles", "both"]), st.booleans(),
    strategies,
)  # fmt: skip
def test_pairs_are_counted_one_by_one(rng, bipartite, events, drop_zeros, strategy):
    """Ragged tables, dense and sparse, with partners and with pairs as labels."""
    samples = [draw_matching(rng, bipartite) for _ in range(4)]
    samples.append((np.array([[0.0, 0.5], [0.5, 0.0]]), np.array([1, 0])))
    expected = [
        event
        for table, partner in samples
        for event in listed(table, partner, bipartite, events, drop_zeros)
    ]
    wanted = reliability([p for p, _ in expected], [y for _, y in expected], 7, strategy)
    tables = [table for table, _ in samples]
    partners = [partner for _, partner in samples]
    options = {"events": events, "drop_zeros": drop_zeros, "n_bins": 7, "strategy": strategy}
    found = pair_reliability(tables, partners, bipartite=bipartite, **options)
    assert_same(found, wanted)
    mixed = [kind(t) for kind, t in zip([sp.csr_array, sp.coo_matrix] * 2, tables, strict=False)]
    labels = [as_pairs(partner, bipartite) for partner in partners]
    found = pair_reliability([*mixed, tables[-1]], labels, bipartite=bipartite, **options)
    assert_same(found, wanted)


def test_group_is_recognised_and_zeros_of_sparse_tables_are_counted():
    n = 30_000
    pairs = np.arange(n).reshape(-1, 2)
    rows, cols = np.r_[pairs[:, 0], pairs[:, 1]], np.r_[pairs[:, 1], pairs[:, 0]]
    table = sp.csr_array((np.full(n, 0.75), (rows, cols)), shape=(n, n))  # dense: 7 GB
    truth = pairs[: 3 * n // 8]  # three quarters of them
    found = pair_reliability(table, truth, n_bins=4)
    assert found.count.tolist() == [n * (n - 1) // 2 - n // 2, 0, n // 2, 0]
    assert found.observed[2] == 0.75
    assert found.ece == 0.0
    dropped = pair_reliability(table, truth, n_bins=4, drop_zeros=True)
    assert dropped.n == n // 2
    singles = pair_reliability(table, truth, n_bins=4, events="singles")
    assert singles.n == n
    assert singles.observed[0] == 0.25
    assert singles.ece == 0.0


def test_impossible_pairs_that_happened_are_never_dropped():
    for table in (np.zeros((2, 3)), sp.csr_array((2, 3))):
        found = pair_reliability(table, [2, -1], drop_zeros=True)
        assert found.n == 1
        assert found.ece == 1.0


def test_pairs_of_higher_capacity():
    table = np.array([[1.0, 1.0, 0.0], [0.5, 0.5, 1.0]])
    found = pair_reliability(table, [[0, 0], [0, 1], [1, 2], [1, 0]], n_bins=2)
    assert found.count.tolist() == [3, 3]
    assert found.observed.tolist() == [pytest.approx(1 / 3), 1.0]
    with pytest.raises(ValueError, match=r"labels: .*one is in 2.*capacity 1"):
        pair_reliability(table, [[0, 0], [0, 1]], events="singles")
    with pytest.raises(ValueError, match=r"tables: .*sums of at most 1"):
        pair_reliability(table, [[0, 0]], events="singles")


@pytest.mark.parametrize(
    ("tables", "labels", "options", "message"),
    [
        ([np.eye(2)], [[0, 1], [1, 0]], {}, "labels: expected 1 samples like tables, got 2"),
        ([], [], {}, "tables: no events"),
        (np.zeros((2, 3)), [0], {}, r"labels: expected shape \(2,\)"),
        ([np.zeros((2, 3))], [[0, 3]], {}, r"labels\[0\]: row 1 has partner 3"),
        ([np.zeros((2, 2))], [[1, -1]], {}, r"labels\[0\]: .*mutual"),
        ([np.eye(2)], [[0, 1]], {}, r"tables\[0\]: .*diagonal.*bipartite=True"),
        ([np.array([[0, 0.9], [0.1, 0]])], [[1, 0]], {}, r"tables\[0\]: .*symmetric"),
        ([sp.csr_array([[0, 0.9], [0.1, 0]])], [[1, 0]], {}, r"tables\[0\]: .*symmetric"),
        ([np.zeros((2, 3))], [[0, 1]], {"bipartite": False}, r"tables\[0\]: .*square.* 2 x 3"),
        ([np.full((2, 3), np.nan)], [[0, 1]], {}, r"tables\[0\]: .*nan at position \(0, 0\)"),
        ([sp.csr_array([[0, 1.5, 0]])], [[0]], {}, r"tables\[0\] .*1\.5"),
        ([0.5, 0.5], [[0]], {}, r"tables: expected a matrix"),
        ([np.zeros((2, 3))], [[0, 1]], {"events": "all"}, "events: expected one of pairs, singles"),
        ([np.zeros((2, 3))], [[-1, -1]], {"drop_zeros": True}, "tables: no events"),
    ],
)
def test_errors_of_pairs(tables, labels, options, message):
    with pytest.raises(ValueError, match=message):
        pair_reliability(tables, labels, **options)


def test_matchings_drawn_from_their_marginals_are_calibrated():
    """Two by two, perfect: the marginals of the model are those of two permutations, exactly."""
    rng = np.random.default_rng(3)
    n = 4000
    same = rng.random(n)
    tables = [np.array([[p, 1 - p], [1 - p, p]]) for p in same]
    labels = [[0, 1] if u < p else [1, 0] for u, p in zip(rng.random(n), same, strict=True)]
    found = pair_reliability(tables, labels, bipartite=True)
    assert found.n == 4 * n
    # Both entries of p go together, which doubles the variance of a bin; one sample moves the ECE
    # by 1/n at most.
    bound = np.sqrt(2) * found.ece_if_calibrated
    assert found.ece <= bound + np.sqrt(np.log(1e9) / (2 * n))


# ---------------------------------------------------------------- states
@examples
@given(generators, st.booleans())
def test_states_are_counted_one_by_one(rng, named):
    n_states = int(rng.integers(2, 5))
    classes = list("abcd"[:n_states]) if named else list(range(n_states))
    shapes = [(3, 4), (5,), (1,), (0,)]
    tables = [rng.dirichlet(np.ones(n_states), shape) for shape in shapes]
    codes = [rng.integers(-1, n_states, shape) for shape in shapes]
    codes[0][0, 0] = 0
    labels = codes
    if named:
        labels = [np.array([*classes, None], dtype=object)[code].tolist() for code in codes]
    every, top, second = [], [], []
    for table, code in zip(tables, codes, strict=True):
        for at in np.ndindex(code.shape):
            if code[at] < 0:
                continue
            row = table[at]
            every += [(row[s], code[at] == s) for s in range(n_states)]
            top.append((row.max(), row.argmax() == code[at]))
            second.append((row[1], code[at] == 1))
    for expected, options in (
        (every, {}),
        (top, {"top": True}),
        (second, {"state": classes[1]}),
    ):
        wanted = reliability([p for p, _ in expected], [y for _, y in expected])
        assert_same(state_reliability(tables, labels, classes, **options), wanted)
        if not named:
            assert_same(state_reliability(tables, labels, **options), wanted)


def test_one_table_and_stacked_tables():
    rng = np.random.default_rng(0)
    tables = rng.dirichlet(np.ones(3), (4, 6))
    labels = rng.integers(0, 3, (4, 6))
    expected = state_reliability(list(tables), list(labels))
    assert_same(state_reliability(tables, labels), expected)
    one = state_reliability(tables[0].tolist(), labels[0].tolist())
    assert_same(one, state_reliability([tables[0]], [labels[0]]))


def test_strings_that_no_state_stands_for_are_misses():
    """As in `score`, which counts them as wrong."""
    found = state_reliability([[0.9, 0.1]], ["new"], ["a", "b"])
    assert found.n == 2
    assert found.observed[found.count > 0].max() == 0.0
    assert found.brier == pytest.approx((0.81 + 0.01) / 2)


@pytest.mark.parametrize(
    ("tables", "labels", "classes", "options", "message"),
    [
        ([np.eye(2)], [[0, 1], [0]], None, {}, "labels: expected 1 samples"),
        ([np.eye(2)], [[0, 1, 1]], None, {}, r"labels\[0\]: expected shape \(2,\).*\(3,\)"),
        ([np.eye(2)], [[0, 2]], None, {}, r"labels\[0\]: found the label 2"),
        ([np.eye(2)], [["a", "b"]], None, {}, r"labels\[0\]: expected integers.*classes_"),
        ([np.eye(2)], [[0, 1]], ["a", "b"], {}, r"labels\[0\]: expected strings.*classes_"),
        ([np.eye(2), np.eye(3)], [[0, 1], [0, 1, 2]], None, {}, r"tables\[1\]: expected 2 states"),
        ([np.eye(2)], [[0, 1]], [1, 2], {}, "classes: expected strings, or the numbers"),
        ([np.eye(2)], [[-1, -1]], None, {}, "labels: no events"),
        ([2 * np.eye(2)], [[0, 1]], None, {}, r"tables\[0\]: .*2\.0 at position \(0, 0\)"),
        ([0.1, 0.9], [1], None, {}, r"tables: expected shape \(\.\.\., n_states\)"),
        ([np.eye(2)], [[0, 1]], None, {"state": 2}, "state: expected one of"),
        ([np.eye(2)], [[0, 1]], None, {"state": 1, "top": True}, "state: cannot be combined"),
    ],
)
def test_errors_of_states(tables, labels, classes, options, message):
    with pytest.raises(ValueError, match=message):
        state_reliability(tables, labels, classes, **options)


# ---------------------------------------------------------------- with the estimators
def test_marginals_of_the_estimators_are_accepted():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 4, 2)) for n in (4, 5, 3)]
    Y = [np.r_[rng.permutation(4)[:3], [-1] * (x.shape[0] - 3)] for x in X]
    model = BipartiteMatchingCRF(perfect=False).fit(X, Y)
    found = pair_reliability(model.predict_marginals(X), Y, bipartite=True, events="both")
    assert found.n == 4 * (4 + 5 + 3) + (4 + 5 + 3) + 3 * 4

    distances = [-np.abs(np.subtract.outer(a, a))[..., None] for a in rng.normal(size=(3, 6))]
    partners = [np.array([1, 0, 3, 2, 5, 4])] * 3
    group = MatchingCRF().fit(distances, partners)
    found = pair_reliability(group.predict_marginals(distances), partners)
    assert found.n == 3 * 15

    tokens = [rng.normal(size=(n, 2)) for n in (3, 6, 4)]
    words = [np.where(x[:, 0] > 0, "up", "down").tolist() for x in tokens]
    chain = ChainCRF().fit(tokens, words)
    found = state_reliability(chain.predict_marginals(tokens), words, chain.classes_)
    assert found.n == 2 * 13


# ---------------------------------------------------------------- the picture
def test_picture(tmp_path):
    rng = np.random.default_rng(0)
    p = rng.random(500) ** 3
    y = rng.random(500) < p
    results = {"model": reliability(p, y), "sharper": reliability(p**2, y, strategy="quantile")}
    figure = plot_reliability(results, path=tmp_path / "calibration.png")
    assert (tmp_path / "calibration.png").stat().st_size > 10_000
    diagram, counts = figure.axes
    texts = [text.get_text() for text in diagram.get_legend().get_texts()]
    assert texts[0] == f"model, ECE {results['model'].ece:.4f}"
    assert len(texts) == 3
    drawn = [line for line in diagram.lines if line.get_label() == texts[0]]
    full = results["model"].count > 0
    np.testing.assert_allclose(drawn[0].get_ydata(), results["model"].observed[full])
    assert counts.get_yscale() == "log"

    mine = Figure()
    left, right = mine.subplots(1, 2)
    assert plot_reliability(results["model"], ax=left) is mine
    plot_reliability(reliability([0.5], [1], sample_weight=[0.1]), ax=right)
    free = mine.add_axes([0.1, 0.1, 0.3, 0.3])
    plot_reliability(results, ax=free, path=tmp_path / "mine.pdf")
    assert len(mine.axes) == 6
    with pytest.raises(ValueError, match=r"results: .*empty mapping"):
        plot_reliability({})
