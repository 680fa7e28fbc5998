"""Diagnostics of Markov chains on series whose answers are known."""

import numpy as np
import pytest

from mlestruct.algorithms.markov_chains import effective_size, split_rhat


def test_diagnostics_of_known_series():
    rng = np.random.default_rng(0)
    independent = rng.normal(size=(4, 4000, 1))
    assert split_rhat(independent) == pytest.approx(1.0, abs=2e-3)
    assert effective_size(independent) == pytest.approx(16_000, rel=0.1)
    correlated = independent.copy()
    for t in range(1, 4000):  # autocorrelation time (1 + 0.8) / (1 - 0.8) = 9
        correlated[:, t] = 0.8 * correlated[:, t - 1] + independent[:, t]
    assert effective_size(correlated) == pytest.approx(16_000 / 9, rel=0.25)
    apart = independent + np.array([0.0, 0.0, 2.0, 2.0])[:, None, None]
    assert split_rhat(apart) == pytest.approx(np.sqrt(1 + 8 / 7), rel=0.05)
    assert split_rhat(np.ones((2, 10, 1))) == 1.0
    assert split_rhat(np.arange(2.0)[:, None, None] * np.ones((2, 10, 1))) == np.inf
