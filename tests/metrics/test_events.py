"""Events of marginals and labels, against listing them one by one and against scikit-learn."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from random_scores import generators
from sklearn.calibration import calibration_curve
from sklearn.metrics import average_precision_score, brier_score_loss, log_loss, roc_auc_score

from mlestruct import BipartiteMatchingCRF, ChainCRF, MatchingCRF, MultiLabelCRF, StructuredCRF
from mlestruct.metrics import Events, pair_events, state_events
from mlestruct.metrics.events import as_events

examples = settings(deadline=None, max_examples=60)


def counted(events):
    """Each event as often as its weight says, in order of probability."""
    times = events.weight.astype(int)
    assert (times == events.weight).all()
    happened, p = np.repeat(events.happened, times), np.repeat(events.probability, times)
    return sorted(zip(p.tolist(), happened.tolist(), strict=True))


# ---------------------------------------------------------------- pairs
def draw_matching(rng, bipartite):
    n = int(rng.integers(2, 9))
    m = int(rng.integers(1, 9)) if bipartite else n
    table = rng.random((n, m)) * (rng.random((n, m)) < 0.6)
    partner = np.full(n, -1)
    if bipartite:
        size = rng.integers(0, min(n, m) + 1)
        partner[rng.permutation(n)[:size]] = rng.permutation(m)[:size]
    else:
        table = np.triu(table, 1) + np.triu(table, 1).T
        order = rng.permutation(n)[: 2 * rng.integers(0, n // 2 + 1)]
        partner[order[::2]], partner[order[1::2]] = order[1::2], order[::2]
    return table, partner


@examples
@given(generators, st.booleans())
def test_pairs_are_counted_one_by_one(rng, bipartite):
    """Ragged tables, dense and sparse, with partners and with pairs as labels."""
    samples = [draw_matching(rng, bipartite) for _ in range(4)]
    tables, partners = zip(*samples, strict=True)
    expected, pairs = [], []
    for table, partner in samples:
        cells = [(i, j) for i, j in np.ndindex(table.shape) if bipartite or i < j]
        expected += [(table[cell], partner[cell[0]] == cell[1]) for cell in cells]
        pairs.append(np.reshape([c for c in cells if partner[c[0]] == c[1]], (-1, 2)).astype(int))
    dense = pair_events(tables, partners, bipartite=bipartite)
    assert (dense.weight == 1).all()
    assert list(zip(dense.probability, dense.happened, strict=True)) == expected
    kinds = [sp.csr_array, sp.coo_matrix, sp.csc_array, np.array]
    mixed = [kind(table) for kind, table in zip(kinds, tables, strict=True)]
    found = pair_events(mixed, pairs, bipartite=bipartite)
    assert counted(found) == sorted(expected)


def test_pairs_that_are_not_stored_are_never_listed():
    n = 30_000
    pairs = np.arange(n).reshape(-1, 2)
    rows, cols = np.r_[pairs[:, 0], pairs[:, 1]], np.r_[pairs[:, 1], pairs[:, 0]]
    table = sp.csr_array((np.full(n, 0.75), (rows, cols)), shape=(n, n))  # dense: 7 GB
    truth = np.concatenate([pairs[: 3 * n // 8], [[1, 2]]])
    happened, p, weight = pair_events([table], [truth], bipartite=False)
    assert p.tolist() == [0.75] * (n // 2) + [0.0, 0.0]
    assert happened.tolist()[-2:] == [False, True]
    assert weight[-2:].tolist() == [n * (n - 1) // 2 - n // 2 - 1, 1]
    assert happened.sum() == truth.shape[0]


def test_entries_that_are_stored_twice_are_summed():
    table = sp.coo_array(([0.25, 0.5], ([0, 0], [1, 1])), shape=(1, 2))
    assert counted(pair_events([table], [[1]], bipartite=True)) == [(0.0, False), (0.75, True)]


# ---------------------------------------------------------------- states
@examples
@given(generators, st.booleans())
def test_states_are_counted_one_by_one(rng, named):
    n_states = int(rng.integers(2, 5))
    classes = list("abcd"[:n_states]) if named else list(range(n_states))
    shapes = [(3, 4), (5,), (1,), (0,)]
    tables = [rng.dirichlet(np.ones(n_states), shape) for shape in shapes]
    codes = [rng.integers(-1, n_states, shape) for shape in shapes]
    labels = codes
    if named:
        labels = [np.array([*classes, None], dtype=object)[code].tolist() for code in codes]
    expected = [
        (table[at][s], code[at] == s)
        for table, code in zip(tables, codes, strict=True)
        for at in np.ndindex(code.shape)
        if code[at] >= 0
        for s in range(n_states)
    ]
    for found in (
        state_events(tables, labels, classes),
        state_events(tables, codes),
        state_events(tables, [code % 99 for code in codes], unknown=98),
    ):
        assert list(zip(found.probability, found.happened, strict=True)) == expected
        assert (found.weight == 1).all()


def test_labels_that_no_state_stands_for_are_misses():
    found = state_events([[[0.9, 0.1]]], [["new"]], ["a", "b"])
    assert counted(found) == [(0.1, False), (0.9, False)]


# ---------------------------------------------------------------- estimators
def top_two(scores):
    return (scores >= np.sort(scores)[-2]).astype(float)


def fitted(kind):
    """A model, samples, labels, and the probabilities and outcomes of its events."""
    rng = np.random.default_rng(0)
    if kind == "two sides":
        X, Y = rng.normal(size=(6, 4, 5, 2)), [rng.permutation(5)[:4] for _ in range(6)]
        model = BipartiteMatchingCRF(perfect=False).fit(X, Y)
        happened = np.array(Y)[..., None] == np.arange(5)
        return model, X, Y, happened.ravel(), np.ravel(model.predict_marginals(X))
    if kind == "group":
        X, Y = rng.normal(size=(6, 4, 4, 2)), [np.array([1, 0, 3, 2])] * 6
        X = X + X.transpose(0, 2, 1, 3)
        model = MatchingCRF(alpha=1.0).fit(X, Y)
        i, j = np.triu_indices(4, 1)
        p = np.array(model.predict_marginals(X))[:, i, j]
        return model, X, Y, np.tile(Y[0][i] == j, 6), p.ravel()
    if kind == "chain":
        Y = [rng.choice(["a", "b"], size=n) for n in (4, 6, 3)]
        X = [rng.normal(size=(len(y), 2)) for y in Y]
        model = ChainCRF().fit(X, Y)
        happened = np.concatenate(Y)[:, None] == np.array(["a", "b"])
        return model, X, Y, happened.ravel(), np.concatenate(model.predict_marginals(X)).ravel()
    if kind == "label sets":
        X = rng.normal(size=(30, 3))
        Y = (X + rng.normal(size=(30, 3)) > 0).astype(int)
        model = MultiLabelCRF().fit(X, Y)
        return model, X, Y, Y.ravel() == 1, model.predict_proba(X).ravel()
    X = list(rng.normal(size=(6, 5, 2)))
    Y = [top_two(x[:, 0]) for x in X]
    model = StructuredCRF(top_two, tol=0.05).fit(X, Y)
    return model, X, Y, np.concatenate(Y) == 1, np.concatenate(model.predict_marginals(X))


@pytest.mark.parametrize("kind", ["two sides", "group", "chain", "label sets", "decoder"])
def test_events_of_an_estimator_are_what_scikit_learn_takes(kind):
    model, X, Y, happened, p = fitted(kind)
    found = model.events(X, Y)
    for metric in (roc_auc_score, log_loss, brier_score_loss, average_precision_score):
        value = metric(found.happened, found.probability, sample_weight=found.weight)
        assert value == pytest.approx(metric(happened, p), abs=1e-9)
    curve, wanted = calibration_curve(*found[:2]), calibration_curve(happened, p)
    np.testing.assert_allclose(curve, wanted, atol=1e-9)


def test_options_are_those_of_predict_marginals():
    model, X, Y, _, _ = fitted("two sides")
    exact = np.ravel(model.predict_marginals(X, method="exact"))
    np.testing.assert_allclose(model.events(X, Y, method="exact").probability, exact, atol=1e-12)


# ---------------------------------------------------------------- errors
HALVES = np.full((2, 3), 0.5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pair_events([HALVES], [[0, 1], [1, 0]], bipartite=True), "labels: expected 1 sam"),
        (lambda: pair_events(3, [[0]], bipartite=True), "tables, labels: expected an item"),
        (lambda: pair_events([HALVES], np.array(3), bipartite=True), "tables, labels: expected an"),
        (lambda: pair_events(sp.eye_array(2), [[0]], bipartite=True), "tables: .*one sparse"),
        (lambda: pair_events(HALVES, [0, 1], bipartite=True), r"tables\[0\]: expected a matrix"),
        (lambda: pair_events([HALVES], [[0, 3]], bipartite=True), r"labels\[0\]: row 1 has"),
        (lambda: pair_events([HALVES], [[0, 1]], bipartite=False), r"tables\[0\]: .*square.*2 x 3"),
        (lambda: pair_events([HALVES[:, :2]], [[1, -1]], bipartite=False), r"labels\[0\]: .*mutu"),
        (lambda: pair_events([HALVES * np.nan], [[0, 1]], bipartite=True), r"\[0\]: .*nan at \(0,"),
        (lambda: pair_events([sp.csr_array([[1.5]])], [[0]], bipartite=True), r"\[0\] \(st.* 1\.5"),
        (lambda: state_events([np.eye(2)], [[0, 1], [0]]), "labels: expected 1 samples"),
        (lambda: state_events([np.eye(2)], [[0, 1, 1]]), r"labels\[0\]: expected shape \(2,\)"),
        (lambda: state_events([np.eye(2)], [[0, 2]]), r"labels\[0\]: found the label 2"),
        (lambda: state_events([np.eye(2)], [["a", "b"]]), r"labels\[0\]: .* found strings"),
        (lambda: state_events([np.eye(2)], [[0, 1]], ["a", "b"]), r"labels\[0\]: .* found int"),
        (lambda: state_events([np.eye(2)], [[0, 1]], [2, 1]), "classes: expected distinct strings"),
        (lambda: state_events([np.eye(2), np.eye(3)], [[0] * 2, [0] * 3]), r"\[1\]: expected 2 st"),
        (lambda: state_events([2 * np.eye(2)], [[0, 1]]), r"tables\[0\]: .*2\.0 at \(0, 0\)"),
        (lambda: state_events([[0.1, 0.9]], [1]), r"tables\[0\]: expected shape \(\.\.\., n_st"),
        (lambda: as_events([1], [0.1, 0.2]), r"happened: expected shape \(2,\)"),
        (lambda: as_events([1, 2], [0.1, 0.2]), "happened: expected 0 and 1"),
        (lambda: as_events([1, np.nan], [0.1, 0.2]), "happened: expected 0 and 1"),
        (lambda: as_events([1], [-1e-8]), "probability: .*from 0 to 1"),
        (lambda: as_events([1], ["a"]), "probability: expected an array of numbers"),
        (lambda: as_events([1], [0.1], [1, 2]), r"weight: expected shape \(1,\)"),
        (lambda: as_events([1], [0.1], [-1]), "weight: .*at least 0"),
        (lambda: as_events([1], [0.1], [np.inf]), "weight: .*at least 0"),
    ],
)  # fmt: skip
def test_errors_name_the_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_rounding_is_removed_and_no_events_are_empty_arrays():
    assert as_events([0, 1], [-5e-10, 1 + 5e-10]).probability.tolist() == [0.0, 1.0]
    empty = pair_events([], [], bipartite=True)
    assert isinstance(empty, Events)
    assert [part.size for part in empty] == [0, 0, 0]
