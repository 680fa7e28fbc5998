"""Any input to a metric gives numbers in their range, or an error that names the argument."""

import numpy as np
import pytest
from changed_arrays import answer, anything_like, fuzzed
from hypothesis import given
from hypothesis import strategies as st

from mlestruct import metrics

RNG = np.random.default_rng(0)
OPTIONS = {
    "bipartite": [True, False],
    "n_bins": [1, 10, 0, -1, 2.5, True, "x", None, np.int64(3), 1000],
    "unknown": [None, -1, 0, "x"],
    "classes": [None, [0, 1, 2], ["a", "b", "c"], [0, 0, 1], "abc", [], 3],
}
CALLS = {
    "reliability": (RNG.integers(0, 2, 20), RNG.random(20), ["n_bins"]),
    "pair_events": (RNG.random((2, 5, 5)), [[1, 0, 3, 2, -1]] * 2, ["bipartite"]),
    "state_events": (RNG.dirichlet(np.ones(3), (2, 7)), [[0, 1, 2, 0, 1, 2, 0]] * 2,
                     ["unknown", "classes"]),
}  # fmt: skip


@fuzzed
@given(data=st.data())
@pytest.mark.parametrize("name", CALLS)
def test_any_input(name, data):
    first, second, options = CALLS[name]
    arguments = [data.draw(anything_like(np.array(part))) for part in (first, second)]
    chosen = {option: data.draw(st.sampled_from(OPTIONS[option]), option) for option in options}
    found = answer(getattr(metrics, name), *arguments, **chosen)
    if isinstance(found, metrics.Reliability):
        assert 0.0 <= found.ece <= 1.0 + 1e-12
        assert found.count.sum() > 0
    elif found is not None:
        assert found.happened.shape == found.probability.shape == found.weight.shape
        assert ((found.probability >= 0.0) & (found.probability <= 1.0)).all()
        assert (found.weight > 0.0).all()
