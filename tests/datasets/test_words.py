"""Generated words."""

import numpy as np
import pytest

from mlestruct.datasets.words import make_words
from mlestruct.models.chain import ChainCRF


def test_words_have_the_promised_form():
    X, Y = make_words(50, 5, random_state=1)
    again, _ = make_words(50, 5, random_state=1)
    assert all(np.array_equal(a, b) for a, b in zip(X, again, strict=True))
    assert {x.shape[1] for x in X} == {128}
    assert set(np.unique(np.concatenate(X))) == {0.0, 1.0}
    lengths = [len(y) for y in Y]
    assert min(lengths) >= 5
    assert max(lengths) <= 15
    assert np.concatenate(Y).max() == 4
    model = ChainCRF(tol=1e-2).fit(X[:40], Y[:40])
    assert model.score(X[40:], Y[40:]) > 0.8
    with pytest.raises(ValueError, match="`n_words` must be a whole number of at least 1"):
        make_words(0)
