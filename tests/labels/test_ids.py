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
    ("call", "given", "message"),
    [
        (partners_from_pairs, (["a", "a"], []), "'a' occurs twice"),
        (partners_from_pairs, (["a", "b"], [("a", "c")]), "'c' is not among the ids"),
        (partners_from_pairs, (["a", "b"], [("a", "c")], ["line 7"]), "line 7: 'c' is not among"),
        (partners_from_pairs, (["a", "b", "c"], [("a", "b"), ("b", "c")]), "'b' is in two pairs"),
        (partners_from_pairs, (["a", "b"], [("a", "a")]), "its own partner"),
        (pairs_from_partners, (["a", "b", "c"], [1, 0]), r"partner: expected shape \(3,\)"),
        (pairs_from_partners, (["a", "b", "c"], [1, 2, 1]), "node 0 .* but node 1 has 2.*mutual"),
    ],
)
def test_errors(call, given, message):
    with pytest.raises(ValueError, match=message):
        call(*given)
