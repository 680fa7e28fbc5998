"""What a certificate says holds whatever the weights, penalties and tolerances are.

The likelihood is summed over all label sequences in extended precision. `MLESTRUCT_FUZZ` is the
number of fits.
"""

import os
import warnings
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize

from mlestruct import BipartiteMatchingCRF, ChainCRF, GraphCRF, PairInput
from mlestruct.learning import FrankWolfe

EXTENDED = np.finfo(np.longdouble).eps < 1e-18
N_FITS = int(os.environ.get("MLESTRUCT_FUZZ", "40"))


def moments(x, states, n_states):
    """Features of a label sequence: of tokens by state, and numbers of transitions."""
    nodes, steps = np.zeros((n_states, x.shape[1])), np.zeros((n_states, n_states))
    np.add.at(nodes, states, x)
    np.add.at(steps, (states[:-1], states[1:]), 1.0)
    return np.concatenate([nodes.ravel(), steps.ravel()])


class Enumerated:
    """The penalised log-likelihood of sequences, label sequence by label sequence."""

    def __init__(self, X, Y, weights, alpha, l1_ratio, n_states):
        every = [np.array([*product(range(n_states), repeat=len(x))]) for x in X]
        self.all = [
            np.array([moments(x, y, n_states) for y in labels]).astype(np.longdouble)
            for x, labels in zip(X, every, strict=True)
        ]
        self.observed = [moments(x, y, n_states) for x, y in zip(X, Y, strict=True)]
        self.weights, self.alpha, self.l1_ratio = weights, np.longdouble(alpha), l1_ratio

    def __call__(self, theta):
        theta = np.asarray(theta, dtype=np.longdouble)
        l1 = self.alpha * self.l1_ratio
        total = -0.5 * (self.alpha - l1) * (theta @ theta) - l1 * np.abs(theta).sum()
        for rows, own, weight in zip(self.all, self.observed, self.weights, strict=True):
            scores = rows @ theta - own.astype(np.longdouble) @ theta
            largest = scores.max()
            total -= weight * (largest + np.log(np.exp(scores - largest).sum()))
        return total


@pytest.mark.skipif(not EXTENDED, reason="needs extended precision")
@pytest.mark.parametrize("part", range(4))
def test_the_value_at_coef_and_the_optimum_are_within_the_bounds(part):
    rng = np.random.default_rng(part)
    for _ in range(-(-N_FITS // 4)):
        n_samples, n_tokens = rng.integers(1, 6), rng.integers(2, 5)
        X = [10.0 ** rng.uniform(-1, 1) * rng.normal(size=(n_tokens, 2)) for _ in range(n_samples)]
        Y = [rng.integers(2, size=n_tokens) for _ in X]
        Y[0] = np.arange(n_tokens) % 2
        weights = 10.0 ** rng.uniform(-3, 9, size=n_samples)
        options = {
            "alpha": 10.0 ** rng.uniform(-6, 6), "tol": 10.0 ** rng.uniform(-10, -3),
            "l1_ratio": rng.choice([0.0, 0.5]),
        }  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = ChainCRF(**options).fit(X, Y, weights)
        value = Enumerated(X, Y, weights, options["alpha"], options["l1_ratio"], 2)(model.coef_)
        assert model.certified_
        assert model.objective_ <= value <= model.objective_bound_, options
        assert model.duality_gap_ == pytest.approx(model.objective_bound_ - model.objective_)


def test_larger_objectives_are_better_fits():
    """Of all solvers and tolerances, since each is the proven value of its own coef_."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(5, 5, 3)) for _ in range(20)]
    Y = [rng.permutation(5) for _ in X]
    options = [{"tol": tol} for tol in (1e-1, 1e-3, 1e-6)]
    options += [{"solver": FrankWolfe(max_iter=n)} for n in (1, 20)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = [BipartiteMatchingCRF(alpha=0.1, **given).fit(X, Y) for given in options]
    penalty = [0.05 * model.coef_ @ model.coef_ for model in models]
    values = [
        model.approximate_log_likelihood(X, Y, tol=1e-10).sum() - own
        for model, own in zip(models, penalty, strict=True)
    ]
    for model, value in zip(models, values, strict=True):
        assert model.objective_ <= value + 1e-8
        assert max(values) <= model.objective_bound_ + 1e-8
    assert models[0].objective_ <= models[2].objective_
    assert models[3].objective_ < models[4].objective_ < models[2].objective_


@pytest.mark.parametrize("alpha", [1e1, 1e3, 1e6])
def test_all_weights_may_be_zero(alpha):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = [
            PairInput(rng.normal(size=(4, 4, 2)), offset=rng.normal(size=(4, 4))) for _ in range(5)
        ]
        Y = [rng.permutation(4) for _ in X]
        model = BipartiteMatchingCRF(alpha=alpha, l1_ratio=0.9, tol=1e-8).fit(X, Y)
        assert model.converged_
        if alpha > 10.0:
            np.testing.assert_array_equal(model.coef_, 0.0)


def test_stalls_end_by_themselves():
    rng = np.random.default_rng(0)
    X, Y = [rng.normal(size=(4, 2)) for _ in range(3)], [[0, 1, 0, 1], [0, 0, 1, 1], [1, 1, 0, 0]]
    with pytest.warns(UserWarning, match="does not fall any more"):
        model = ChainCRF(tol=1e-16, max_iter=10_000).fit(X, Y, sample_weight=[1e9] * 3)
    assert model.n_iter_ < 500
    assert model.objective_ < model.objective_bound_


def test_outputs_known_in_part_end_where_no_ascent_is_left():
    """30 random problems; L-BFGS of SciPy on the enumerated likelihood finds nothing better."""
    gains = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        edges = np.array([[0, 1], [1, 2], [2, 3]])
        X = [(rng.normal(size=(4, 2)), edges) for _ in range(6)]
        Y = [np.where(rng.random(4) < 0.4, np.nan, rng.integers(2, size=4)) for _ in X]
        Y[0] = np.array([0.0, 1.0, 1.0, 0.0])
        alpha = 10.0 ** rng.uniform(-2, 0)
        model = GraphCRF(alpha, fit_intercept=False, tol=1e-8).fit(X, Y, missing="marginalise")
        assert not model.certified_
        assert model.objective_bound_ == np.inf

        def value(theta, X=X, Y=Y, alpha=alpha):
            total = -0.5 * alpha * theta @ theta
            for (x, _), y in zip(X, Y, strict=True):
                every = np.array([*product(range(2), repeat=4)])
                scores = np.array([moments(x, states, 2) for states in every]) @ theta
                agree = (np.isnan(y) | (every == y)).all(axis=1)
                total += np.logaddexp.reduce(scores[agree]) - np.logaddexp.reduce(scores)
            return total

        assert value(model.coef_) >= model.objective_ - 1e-9
        assert np.all(np.diff(model.history_.objective) >= -1e-9)
        found = minimize(lambda t: -value(t), model.coef_, method="L-BFGS-B")
        gains.append(-found.fun - value(model.coef_))
    assert max(gains) < 1e-5
