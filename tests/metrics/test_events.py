"""Events of estimators, against listing them one by one for scikit-learn."""

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import average_precision_score, brier_score_loss, log_loss, roc_auc_score

from mlestruct import BipartiteMatchingCRF, ChainCRF, MatchingCRF, MultiLabelCRF, StructuredCRF
from mlestruct.metrics import Events, as_events
from mlestruct.metrics.events import join_events


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
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: as_events([1], [0.1, 0.2]), r"happened: expected shape \(2,\)"),
        (lambda: as_events([1, 2], [0.1, 0.2]), "happened: expected 0 and 1"),
        (lambda: as_events([1, np.nan], [0.1, 0.2]), "happened: expected 0 and 1"),
        (lambda: as_events([1], [-1e-8]), "`probability` must be from 0 to 1"),
        (lambda: as_events([1], ["a"]), "probability: expected an array of numbers"),
        (lambda: as_events([1], [0.1], [1, 2]), r"weight: expected shape \(1,\)"),
        (lambda: as_events([1], [0.1], [-1]), "weight: .*at least 0"),
        (lambda: as_events([1], [0.1], [np.inf]), "weight: .*at least 0"),
    ],
)
def test_errors_name_the_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_rounding_is_removed_and_no_events_are_empty_arrays():
    assert as_events([0, 1], [-5e-10, 1 + 5e-10]).probability.tolist() == [0.0, 1.0]
    empty = join_events([])
    assert isinstance(empty, Events)
    assert [part.size for part in empty] == [0, 0, 0]
