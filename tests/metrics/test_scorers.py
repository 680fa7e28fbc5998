"""Scores over all parts, against scikit-learn's on the parts laid side by side."""

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import calibration_curve
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, f1_score, log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score

from mlestruct import (
    BipartiteMatchingCRF,
    ChainCRF,
    GridCRF,
    MatchingCRF,
    MultiLabelCRF,
    PairInput,
)
from mlestruct.metrics import neg_calibration_error, neg_log_loss, pair_f1, token_accuracy


def chains(seed=0):
    rng = np.random.default_rng(seed)
    Y = [rng.choice(["a", "b", "c"], size=k) for k in (3, 9, 5, 7, 2, 6)]
    names = np.array(["a", "b", "c"])
    return [(y[:, None] == names) + 1.5 * rng.normal(size=(len(y), 3)) for y in Y], Y


def test_tokens_count_equally():
    X, Y = chains()
    model = ChainCRF().fit(X, Y)
    flat, found = np.concatenate(Y), np.concatenate(model.predict(X))
    assert token_accuracy(model, X, Y) == pytest.approx(accuracy_score(flat, found))
    table = np.concatenate(model.predict_marginals(X))
    expected = log_loss(flat, table, labels=["a", "b", "c"])
    assert neg_log_loss(model, X, Y) == pytest.approx(-expected)
    happened, p = (flat[:, None] == model.classes_).ravel(), table.ravel()
    true, predicted = calibration_curve(happened, p, n_bins=10)
    count, _ = np.histogram(p, np.linspace(0.0, 1.0, 11))
    error = np.average(np.abs(true - predicted), weights=count[count > 0])
    assert neg_calibration_error(model, X, Y) == pytest.approx(-error)


def test_unknown_and_new_labels():
    X, Y = chains()
    model = ChainCRF().fit(X, Y)
    hidden = [np.where(np.arange(len(y)) == 0, None, y.astype(object)) for y in Y]
    flat = np.concatenate([y[1:] for y in Y])
    found = np.concatenate([y[1:] for y in model.predict(X)])
    assert token_accuracy(model, X, hidden) == pytest.approx(accuracy_score(flat, found))
    other = [np.array(["z"] * len(y)) for y in Y]
    assert token_accuracy(model, X, other) == 0.0
    assert neg_log_loss(model, X, other) == pytest.approx(np.log(np.finfo(float).eps))
    for scorer in (token_accuracy, neg_log_loss):
        with pytest.raises(ValueError, match="no label is known"):
            scorer(model, X, [[None] * len(y) for y in Y])
        with pytest.raises(ValueError, match="X has 6 samples but Y has 5"):
            scorer(model, X, Y[:5])
    with pytest.raises(ValueError, match=r"Y\[0\]: expected shape \(3,\), got \(2,\)"):
        token_accuracy(model, X, [Y[0][:2], *Y[1:]])


def test_models_that_are_not_fitted():
    X, Y = chains()
    for scorer in (token_accuracy, neg_log_loss, neg_calibration_error):
        with pytest.raises(NotFittedError):
            scorer(ChainCRF(), X, Y)


def test_they_are_scorers_of_scikit_learn():
    X, Y = chains()
    found = cross_val_score(ChainCRF(), X, Y, cv=2, scoring=token_accuracy)
    assert found.shape == (2,)
    assert ((found >= 0.0) & (found <= 1.0)).all()
    search = GridSearchCV(ChainCRF(), {"alpha": [1.0, 1e4]}, cv=2, scoring=neg_log_loss)
    clear = [10 * (y[:, None] == np.array(["a", "b", "c"])) for y in Y]
    assert search.fit(clear, Y).best_params_["alpha"] == 1.0


def test_images():
    rng = np.random.default_rng(0)
    Y = [rng.integers(2, size=(4, 5)) for _ in range(4)]
    X = [np.stack([np.ones((4, 5)), y + rng.normal(size=(4, 5))], axis=-1) for y in Y]
    model = GridCRF().fit(X, Y)
    flat = np.concatenate([y.ravel() for y in Y])
    table = np.concatenate([tau.reshape(-1, 2) for tau in model.predict_marginals(X)])
    assert neg_log_loss(model, X, Y) == pytest.approx(-log_loss(flat, table), rel=1e-6)


def test_label_sets():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    Y = (X + rng.normal(size=(60, 3)) > 0).astype(int)
    model = MultiLabelCRF().fit(X, Y)
    expected = log_loss(Y.ravel(), model.predict_proba(X).ravel())
    assert neg_log_loss(model, X, Y) == pytest.approx(-expected)
    assert np.isfinite(cross_val_score(MultiLabelCRF(), X, Y, cv=2, scoring=neg_log_loss)).all()
    with pytest.raises(TypeError, match="token_accuracy: is for labellings, MultiLabelCRF"):
        token_accuracy(model, X, Y)


def test_pairs():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(5, 6, 2)) for _ in range(6)]
    Y = [np.where(rng.random(5) < 0.7, rng.permutation(6)[:5], -1) for _ in X]
    model = BipartiteMatchingCRF(perfect=False).fit(X, Y)
    cells = [[(y[:, None] == np.arange(6)).ravel() for y in labels]
             for labels in (Y, model.predict(X))]  # fmt: skip
    expected = f1_score(np.concatenate(cells[0]), np.concatenate(cells[1]), zero_division=0.0)
    assert pair_f1(model, X, Y) == pytest.approx(expected)
    tables = np.concatenate([tau.ravel() for tau in model.predict_marginals(X)])
    loss = log_loss(np.concatenate(cells[0]), tables)
    assert neg_log_loss(model, X, Y) == pytest.approx(-loss, rel=1e-6)
    rooms = MatchingCRF().fit([np.ones((4, 4, 1))] * 2, [[1, 0, 3, 2], [2, 3, 0, 1]])
    assert rooms._pair_counts([np.ones((4, 4, 1))], [[1, 0, 3, 2]])[1:] == (2, 2)


def test_pairs_by_ids():
    ids = pd.MultiIndex.from_product([["a", "b"], ["x", "y"]])
    frame = pd.DataFrame({"same": [2.0, -1.0, -1.0, 2.0], "bias": 1.0}, index=ids)
    sample, links = PairInput.from_frame(frame), ids[[0, 3]]
    model = BipartiteMatchingCRF(perfect=False, alpha=0.1).fit([sample], [links])
    assert pair_f1(model, [sample], [links]) == 1.0
    assert pair_f1(model, [sample], [ids[[1, 2]]]) == 0.0
