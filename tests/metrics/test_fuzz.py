"""Any input to a metric gives numbers in their range, or an error that names the argument."""

import numpy as np
from changed_arrays import answer, anything_like, fuzzed
from hypothesis import given
from hypothesis import strategies as st

from mlestruct import metrics

RNG = np.random.default_rng(0)
N_BINS = [1, 10, 0, -1, 2.5, True, "x", None, np.int64(3), 1000]


@fuzzed
@given(data=st.data())
def test_any_input(data):
    drawn = [data.draw(anything_like(part)) for part in (RNG.integers(0, 2, 20), RNG.random(20))]
    found = answer(metrics.as_events, *drawn)
    if found is not None:
        assert found.happened.shape == found.probability.shape == found.weight.shape
        assert ((found.probability >= 0.0) & (found.probability <= 1.0)).all()
    binned = answer(metrics.reliability, *drawn, n_bins=data.draw(st.sampled_from(N_BINS)))
    if binned is not None:
        assert 0.0 <= binned.ece <= 1.0 + 1e-12
        assert binned.count.sum() > 0
