"""Standard errors against finite differences of the gradient."""

import numpy as np
import pytest
from scipy import sparse

from mlestruct import BipartiteMatchingCRF, ChainCRF, MatchingCRF
from mlestruct.models.uncertainty import standard_errors


@pytest.mark.parametrize("kind", [BipartiteMatchingCRF, MatchingCRF])
def test_errors_are_the_inverse_curvature(kind):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(6, 6, 3)) for _ in range(4)]
    X = [x + x.transpose(1, 0, 2) for x in X]
    Y = [np.array([1, 0, 3, 2, 5, 4])] * 4
    model = kind(alpha=0.5, tol=1e-9).fit(X, Y)
    blocks = model._prepare(X)

    def gradient(theta):
        found = [b.structure.marginals(b.scores(theta), None, 1e-12) for b in blocks]
        return model.alpha * theta + sum(
            b.moments(f.tau) for b, f in zip(blocks, found, strict=True)
        )

    step = 1e-4
    curvature = np.array(
        [
            (gradient(model.coef_ + step * unit) - gradient(model.coef_ - step * unit)) / (2 * step)
            for unit in np.eye(3)
        ]
    )
    wanted = np.sqrt(np.diag(np.linalg.inv(curvature)))
    np.testing.assert_allclose(standard_errors(model, X), wanted, rtol=1e-3)


def test_where_there_is_no_covariance_there_are_no_errors():
    X, Y = [np.eye(3)] * 2, [np.array([0, 1, 1])] * 2
    assert standard_errors(ChainCRF().fit(X, Y), X) is None


def test_weights_of_long_vocabularies_need_no_matrix():
    """600,000 weights: the curvature would take terabytes."""
    X = [sparse.csr_array(([1.0, 1.0], ([0, 1], [0, 7])), shape=(2, 200_000))]
    model = ChainCRF(n_states=3).fit(X, [[0, 1]])
    assert standard_errors(model, X) is None
