"""Any input to a metric gives a number that is one, or an error that names the argument."""

import numpy as np
import pytest
from changed_arrays import answer, anything_like, fuzzed
from hypothesis import given
from hypothesis import strategies as st

from mlestruct import metrics

RNG = np.random.default_rng(0)
SQUARE = RNG.random((5, 5)) / 5
TABLE = SQUARE + SQUARE.T - 2 * np.diag(np.diag(SQUARE))
PARTNER = np.array([1, 0, 3, 2, -1])
EVENTS = RNG.integers(0, 2, 20)
STATES = RNG.dirichlet(np.ones(3), 7)
OPTIONS = {
    "bipartite": [None, True, False, "x", 3],
    "events": ["pairs", "singles", "both", "x", None, 1],
    "drop_zeros": [True, False, "x"],
    "n_bins": [1, 10, 0, -1, 2.5, True, "x", None, np.int64(3), 1000],
    "strategy": ["uniform", "quantile", "x", None, 1],
    "confidence": [0.5, 0.0, 1.0, np.nan, "x", None, True],
    "top": [True, False, "x"],
    "state": [None, 0, 2, 7, "x", np.nan, [0]],
    "unknown": [None, -1, 0, "x"],
    "classes": [None, [0, 1, 2], ["a", "b", "c"], [0, 0, 1], "abc", [], 3],
    "k": [1, 3, 0, -1, 2.5, True, "x", None, 10**6],
    "threshold": [None, 0.1, np.nan, np.inf, "x", True],
    "share": [None, 0.1, 0.0, 1.0, -1, np.nan, "x"],
}
CALIBRATION = ("n_bins", "strategy", "confidence")
CALLS = {
    "reliability": (RNG.random(20), EVENTS, CALIBRATION),
    "pair_reliability": (TABLE, PARTNER, (*CALIBRATION, "bipartite", "events", "drop_zeros")),
    "state_reliability": (
        STATES, np.arange(7) % 3, (*CALIBRATION, "top", "state", "unknown", "classes"),
    ),
    "pair_roc": (TABLE, PARTNER, ("bipartite",)),
    "pair_auc": (TABLE, PARTNER, ("bipartite",)),
    "rank_of_partner": (TABLE, PARTNER, ("bipartite",)),
    "flag_pairs": (TABLE, PARTNER, ("bipartite", "threshold", "share")),
}  # fmt: skip


def check(found):
    """Areas, rates, frequencies and bins are numbers where there is something to count."""
    if isinstance(found, metrics.Reliability):
        assert 0.0 <= found.ece <= 1.0 + 1e-12
        assert found.log_loss >= 0.0
        assert np.isclose(found.count.sum(), found.n)
        observed = found.observed[found.count > 0]
        assert ((observed >= 0.0) & (observed <= 1.0 + 1e-12)).all()
    elif isinstance(found, metrics.PairROC):
        assert 0.0 <= found.auc <= 1.0 + 1e-12
    elif isinstance(found, float):
        assert 0.0 <= found <= 1.0 + 1e-12
    else:  # ranks are NaN where there is no partner
        known = np.asarray(found, dtype=float)
        assert (known[~np.isnan(known)] >= 0.0).all()


@fuzzed
@given(data=st.data())
@pytest.mark.parametrize("name", CALLS)
def test_metrics_of_two_arguments(name, data):
    values, truth, options = CALLS[name]
    values = data.draw(anything_like(values), "values")
    truth = data.draw(anything_like(truth), "truth")
    chosen = (
        data.draw(st.lists(st.sampled_from(options), max_size=2, unique=True)) if options else []
    )
    given_options = {name: data.draw(st.sampled_from(OPTIONS[name]), name) for name in chosen}
    found = answer(getattr(metrics, name), values, truth, **given_options)
    if found is not None:
        check(found)


@fuzzed
@given(table=anything_like(TABLE), k=st.sampled_from(OPTIONS["k"]))
def test_candidates(table, k):
    found = answer(metrics.top_candidates, table, k)
    if found is not None:
        partners, values = found
        assert partners.shape == values.shape
        assert partners.min(initial=0) >= -1


@fuzzed
@given(p=anything_like(STATES))
def test_label_sets(p):
    found = answer(metrics.expected_f1_sets, p)
    if found is not None:
        assert found.shape == np.shape(p)
        assert np.isin(found, (0, 1)).all()
