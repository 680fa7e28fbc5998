"""Areas below ROC curves of events, against scikit-learn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from mlestruct.metrics import event_auc, shifted_event_auc


@settings(max_examples=25, deadline=None)
@given(n=st.integers(3, 60), levels=st.integers(1, 6), seed=st.integers(0, 10**6))
def test_agrees_with_scikit_learn(n, levels, seed):
    rng = np.random.default_rng(seed)
    scores, events = rng.integers(levels, size=(n, 3)), rng.integers(2, size=(n, 2))
    events[0], events[1] = 0, 1
    found, shifted = event_auc(scores, events), shifted_event_auc(scores, events)
    for k in (0, 1, n - 1):
        later = np.roll(events, k, axis=0)
        for s in range(2):
            for i in range(3):
                expected = roc_auc_score(later[:, s], scores[:, i])
                assert shifted[k, s, i] == pytest.approx(expected, abs=1e-9)
    np.testing.assert_allclose(found, shifted[0], atol=1e-9)


def test_events_that_never_happen():
    assert event_auc([1.0, 2.0], [0, 0]) == 0.5
    assert event_auc([1.0, 2.0], [1, 1]) == 0.5


@pytest.mark.parametrize(
    ("scores", "events"), [([1.0], [0, 1]), ([1.0, 2.0], [0, 2]), ([np.nan, 1.0], [0, 1]), ([], [])]
)
def test_errors(scores, events):
    with pytest.raises(ValueError, match="events"):
        event_auc(scores, events)
