"""Choosing alpha."""

import numpy as np
import pytest

from mlestruct import BipartiteMatchingCRF
from mlestruct.models.model_selection import choose_alpha


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
        choose_alpha(BipartiteMatchingCRF(callback=interrupt), X, Y, alphas)
    assert len(fits) == 1


def test_samples_without_an_output_are_refused():
    with pytest.raises(ValueError, match="Y: expected 3 outputs, one per sample, got 2"):
        choose_alpha(BipartiteMatchingCRF(), np.zeros((3, 2, 2, 1)), [[0, 1]] * 2)
