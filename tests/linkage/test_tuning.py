"""Choosing alpha."""

import numpy as np
import pytest

from mlestruct import LBFGS, BipartiteMatchingCRF
from mlestruct.linkage.tuning import choose_alpha


@pytest.mark.filterwarnings("ignore:.*interrupted")
@pytest.mark.parametrize("alphas", [(10.0, 1.0, 0.1), (1.0,)])
def test_an_interruption_ends_the_choice(alphas):
    fits = []

    def interrupt(progress):
        fits.append(progress)
        raise KeyboardInterrupt

    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(6, 4, 4, 2)), [rng.permutation(4) for _ in range(6)]
    with pytest.raises(KeyboardInterrupt):
        choose_alpha(BipartiteMatchingCRF(solver=LBFGS(callback=interrupt)), X, Y, alphas)
    assert len(fits) == 1


def test_the_likelihood_of_held_out_samples_decides():
    """Features that tell nothing: the strongest penalty predicts best."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(6, 5, 5, 8)), [rng.permutation(5) for _ in range(6)]
    alphas = (1e3, 1.0, 1e-3)
    chosen, held_out = choose_alpha(BipartiteMatchingCRF(), X, Y, alphas)
    losses = []
    for alpha in alphas:
        folds = [(np.delete(X, k, axis=0), Y[:k] + Y[k + 1 :], k) for k in range(6)]
        fits = [(BipartiteMatchingCRF(alpha=alpha).fit(x, y), k) for x, y, k in folds]
        losses.append(-sum(m.approximate_log_likelihood([X[k]], [Y[k]])[0] for m, k in fits))
    assert chosen == alphas[int(np.argmin(losses))] == 1e3
    assert held_out.events == 6 * 25


def test_the_grid_is_extended_at_its_ends():
    """Labels that follow from the feature, and labels that do not."""
    rng = np.random.default_rng(0)
    Y = [rng.permutation(4) for _ in range(6)]
    X = np.array([np.eye(4)[y] for y in Y])[..., None]
    model = BipartiteMatchingCRF(fit_intercept=False)
    chosen, held_out = choose_alpha(model, X, Y, (100.0, 10.0))
    assert chosen < 1.0
    assert held_out.score == 1.0
    noise = rng.normal(size=(6, 4, 4, 20))
    assert choose_alpha(model, noise, Y, (1e-2, 1e-3))[0] > 1.0


def test_one_sample_cannot_be_held_out():
    with pytest.raises(ValueError, match="needs at least 2 samples, got 1; pass a number"):
        choose_alpha(BipartiteMatchingCRF(), np.zeros((1, 2, 2, 1)), [[0, 1]])
