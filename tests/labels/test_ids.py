"""From ids to partner arrays and back."""

import numpy as np
import pytest

from mlestruct.labels import pairs_from_partners, partners_from_pairs


def test_round_trip():
    rng = np.random.default_rng(0)
    ids = [f"s{k}" for k in rng.permutation(20)]
    pairs = [(ids[2 * k], ids[2 * k + 1]) for k in range(7)]
    partner = partners_from_pairs(ids, pairs)
    assert (partner == -1).sum() == 6
    matched = np.flatnonzero(partner >= 0)
    np.testing.assert_array_equal(partner[partner[matched]], matched)
    assert pairs_from_partners(ids, partner) == pairs


@pytest.mark.parametrize(
    ("ids", "pairs", "message"),
    [
        (["a", "a"], [], "'a' occurs twice"),
        (["a", "b"], [("a", "c")], "'c' is not among the ids"),
        (["a", "b", "c"], [("a", "b"), ("b", "c")], "'b' is in two pairs"),
        (["a", "b"], [("a", "a")], "its own partner"),
    ],
)
def test_what_does_not_fit_is_named(ids, pairs, message):
    with pytest.raises(ValueError, match=message):
        partners_from_pairs(ids, pairs)


def test_one_partner_for_each_id():
    with pytest.raises(ValueError, match=r"partner: expected shape \(3,\)"):
        pairs_from_partners(["a", "b", "c"], [1, 0])
    with pytest.raises(ValueError, match=r"node 0 has partner 1, but node 1 has 2.*mutual"):
        pairs_from_partners(["a", "b", "c"], [1, 2, 1])


def test_pairs_have_the_names_of_the_caller():
    with pytest.raises(ValueError, match="line 7: 'c' is not among the ids"):
        partners_from_pairs(["a", "b"], [("a", "c")], ["line 7"])
