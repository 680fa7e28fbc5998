"""Calibration of matchings, against counting pair by pair."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from random_scores import generators
from reliability_curves import assert_same

from mlestruct.metrics import pair_reliability, reliability

examples = settings(deadline=None, max_examples=60)


strategies = st.sampled_from(["uniform", "quantile"])


# ---------------------------------------------------------------- pairs
def draw_matching(rng, bipartite):
    n = int(rng.integers(2, 9))
    m = int(rng.integers(1, 9)) if bipartite else n
    table = rng.random((n, m)) * (rng.random((n, m)) < 0.6) / max(n, m)
    partner = np.full(n, -1)
    if bipartite:
        size = rng.integers(0, min(n, m) + 1)
        partner[rng.permutation(n)[:size]] = rng.permutation(m)[:size]
    else:
        table = np.triu(table, 1) + np.triu(table, 1).T
        order = rng.permutation(n)[: 2 * rng.integers(0, n // 2 + 1)]
        partner[order[::2]], partner[order[1::2]] = order[1::2], order[::2]
    return table, partner


def listed(table, partner, bipartite, events, drop_zeros):
    """The events, one by one."""
    n, m = table.shape
    found = []
    if events != "singles":
        for i in range(n):
            for j in range(0 if bipartite else i + 1, m):
                happened = partner[i] == j
                if table[i, j] > 0 or happened or not drop_zeros:
                    found.append((table[i, j], happened))
    if events != "pairs":
        found += [(1 - table[i].sum(), partner[i] == -1) for i in range(n)]
        if bipartite:
            found += [(1 - table[:, j].sum(), j not in partner) for j in range(m)]
    return found


def as_pairs(partner, bipartite):
    pairs = [(i, j) for i, j in enumerate(partner) if j >= 0 and (bipartite or i < j)]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


@examples
@given(
    generators, st.booleans(), st.sampled_from(["pairs", "singles", "both"]), st.booleans(),
    strategies,
)  # fmt: skip
def test_pairs_are_counted_one_by_one(rng, bipartite, events, drop_zeros, strategy):
    """Ragged tables, dense and sparse, with partners and with pairs as labels."""
    samples = [draw_matching(rng, bipartite) for _ in range(4)]
    samples.append((np.array([[0.0, 0.5], [0.5, 0.0]]), np.array([1, 0])))
    expected = [
        event
        for table, partner in samples
        for event in listed(table, partner, bipartite, events, drop_zeros)
    ]
    wanted = reliability([p for p, _ in expected], [y for _, y in expected], 7, strategy)
    tables = [table for table, _ in samples]
    partners = [partner for _, partner in samples]
    options = {"events": events, "drop_zeros": drop_zeros, "n_bins": 7, "strategy": strategy}
    found = pair_reliability(tables, partners, bipartite=bipartite, **options)
    assert_same(found, wanted)
    mixed = [kind(t) for kind, t in zip([sp.csr_array, sp.coo_matrix] * 2, tables, strict=False)]
    labels = [as_pairs(partner, bipartite) for partner in partners]
    found = pair_reliability([*mixed, tables[-1]], labels, bipartite=bipartite, **options)
    assert_same(found, wanted)


def test_group_is_recognised_and_zeros_of_sparse_tables_are_counted():
    n = 30_000
    pairs = np.arange(n).reshape(-1, 2)
    rows, cols = np.r_[pairs[:, 0], pairs[:, 1]], np.r_[pairs[:, 1], pairs[:, 0]]
    table = sp.csr_array((np.full(n, 0.75), (rows, cols)), shape=(n, n))  # dense: 7 GB
    truth = pairs[: 3 * n // 8]  # three quarters of them
    found = pair_reliability(table, truth, n_bins=4)
    assert found.count.tolist() == [n * (n - 1) // 2 - n // 2, 0, n // 2, 0]
    assert found.observed[2] == 0.75
    assert found.ece == 0.0
    dropped = pair_reliability(table, truth, n_bins=4, drop_zeros=True)
    assert dropped.n == n // 2
    singles = pair_reliability(table, truth, n_bins=4, events="singles")
    assert singles.n == n
    assert singles.observed[0] == 0.25
    assert singles.ece == 0.0


def test_impossible_pairs_that_happened_are_never_dropped():
    for table in (np.zeros((2, 3)), sp.csr_array((2, 3))):
        found = pair_reliability(table, [2, -1], drop_zeros=True)
        assert found.n == 1
        assert found.ece == 1.0


def test_pairs_of_higher_capacity():
    table = np.array([[1.0, 1.0, 0.0], [0.5, 0.5, 1.0]])
    found = pair_reliability(table, [[0, 0], [0, 1], [1, 2], [1, 0]], n_bins=2)
    assert found.count.tolist() == [3, 3]
    assert found.observed.tolist() == [pytest.approx(1 / 3), 1.0]
    with pytest.raises(ValueError, match=r"labels: .*one is in 2.*capacity 1"):
        pair_reliability(table, [[0, 0], [0, 1]], events="singles")
    with pytest.raises(ValueError, match=r"tables: .*sums of at most 1"):
        pair_reliability(table, [[0, 0]], events="singles")


@pytest.mark.parametrize(
    ("tables", "labels", "options", "message"),
    [
        ([np.eye(2)], [[0, 1], [1, 0]], {}, "labels: expected 1 samples like tables, got 2"),
        ([], [], {}, "tables: no events"),
        (np.zeros((2, 3)), [0], {}, r"labels: expected shape \(2,\)"),
        ([np.zeros((2, 3))], [[0, 3]], {}, r"labels\[0\]: row 1 has partner 3"),
        ([np.zeros((2, 2))], [[1, -1]], {}, r"labels\[0\]: .*mutual"),
        ([np.eye(2)], [[0, 1]], {}, r"tables\[0\]: .*diagonal.*bipartite=True"),
        ([np.array([[0, 0.9], [0.1, 0]])], [[1, 0]], {}, r"tables\[0\]: .*symmetric"),
        ([sp.csr_array([[0, 0.9], [0.1, 0]])], [[1, 0]], {}, r"tables\[0\]: .*symmetric"),
        ([np.zeros((2, 3))], [[0, 1]], {"bipartite": False}, r"tables\[0\]: .*square.* 2 x 3"),
        ([np.full((2, 3), np.nan)], [[0, 1]], {}, r"tables\[0\]: .*nan at position \(0, 0\)"),
        ([sp.csr_array([[0, 1.5, 0]])], [[0]], {}, r"tables\[0\] .*1\.5"),
        ([0.5, 0.5], [[0]], {}, r"tables: expected a matrix"),
        ([np.zeros((2, 3))], [[0, 1]], {"events": "all"}, "events: expected one of pairs, singles"),
        ([np.zeros((2, 3))], [[-1, -1]], {"drop_zeros": True}, "tables: no events"),
    ],
)
def test_errors_of_pairs(tables, labels, options, message):
    with pytest.raises(ValueError, match=message):
        pair_reliability(tables, labels, **options)


def test_matchings_drawn_from_their_marginals_are_calibrated():
    """Two by two, perfect: the marginals of the model are those of two permutations, exactly."""
    rng = np.random.default_rng(3)
    n = 4000
    same = rng.random(n)
    tables = [np.array([[p, 1 - p], [1 - p, p]]) for p in same]
    labels = [[0, 1] if u < p else [1, 0] for u, p in zip(rng.random(n), same, strict=True)]
    found = pair_reliability(tables, labels, bipartite=True)
    assert found.n == 4 * n
    # Both entries of p go together, which doubles the variance of a bin; one sample moves the ECE
    # by 1/n at most.
    bound = np.sqrt(2) * found.ece_if_calibrated
    assert found.ece <= bound + np.sqrt(np.log(1e9) / (2 * n))


def test_labels_that_are_a_single_number():
    with pytest.raises(ValueError, match="labels: expected 1 samples like tables, got 0"):
        pair_reliability([np.eye(2)], np.array(3))
