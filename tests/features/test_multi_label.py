"""Features of multi-label samples: a linear map and its adjoint."""

import numpy as np
import pytest
from scipy import sparse

from mlestruct.features.multi_label import MultiLabelFeatures
from mlestruct.features.rows import Rows


@pytest.mark.parametrize("by_features", [False, True])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_scores_and_moments_are_adjoint(by_features, kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 3))
    rows = Rows(kind(X))
    features = MultiLabelFeatures(rows, 4, 2, rows if by_features else None)
    theta, tau = rng.normal(size=features.n_features), rng.normal(size=features.n_scored)
    assert features.scores(theta) @ tau == pytest.approx(features.moments(tau) @ theta)
    f, g = theta[:12].reshape(4, 3), theta[12:].reshape(2, -1)
    scores = features.scores(theta)
    nodes, edges = scores[: 6 * 4 * 2].reshape(6, 4, 2), scores[6 * 4 * 2 :].reshape(6, 2, 2, 2)
    assert nodes[1, 2] == pytest.approx([0.0, X[1] @ f[2]])
    coupling = X[1] @ g[1] if by_features else g[1, 0]
    np.testing.assert_allclose(edges[1, 1], [[0.0, 0.0], [0.0, coupling]])
