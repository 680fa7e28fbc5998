"""One validator of observed matchings: every form is read the same, every error names its cause."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from random_scores import generators

from mlestruct.labels import check_counts, check_pairs, check_partners, pairs_of, read_pairs
from mlestruct.labels.partners import read_known


def draw_matching(rng, group):
    """Numbers of both sides (None for a group), partners, and pairs listed one by one."""
    n = int(rng.integers(1, 9))
    m = None if group else int(rng.integers(1, 9))
    partner = np.full(n, -1)
    if group:
        order = rng.permutation(n)[: 2 * rng.integers(0, n // 2 + 1)]
        partner[order[::2]], partner[order[1::2]] = order[1::2], order[::2]
    else:
        size = rng.integers(0, min(n, m) + 1)
        partner[rng.permutation(n)[:size]] = rng.permutation(m)[:size]
    pairs = [(i, j) for i, j in enumerate(partner) if j >= 0 and (not group or i < j)]
    return n, m, partner, np.array(pairs, dtype=np.int64).reshape(-1, 2)


@settings(deadline=None, max_examples=60)
@given(generators, st.booleans())
def test_all_forms_of_a_matching_are_read_the_same(rng, group):
    n, m, partner, pairs = draw_matching(rng, group)
    matrix = np.zeros((n, n if group else m), dtype=bool)
    matrix[pairs[:, 0], pairs[:, 1]] = True
    if group:
        matrix |= matrix.T
    shuffled = rng.permutation(pairs)
    if group and len(pairs):
        shuffled = rng.permuted(shuffled, axis=1)
    for label in (partner, partner.astype(float), partner.tolist(), shuffled, matrix):
        np.testing.assert_array_equal(check_partners(label, n, m, False), partner)
        np.testing.assert_array_equal(read_pairs(label, n, m), pairs)
    for label in (sp.csr_array(matrix), sp.coo_matrix(matrix)):
        np.testing.assert_array_equal(check_partners(label, n, m, False), partner)
        np.testing.assert_array_equal(check_pairs(label, n, m), pairs)
    np.testing.assert_array_equal(pairs_of(partner, not group), pairs)


@pytest.mark.parametrize(
    ("label", "sizes", "perfect", "message"),
    [
        ([0, 1], (3, 3), True, r"Y\[4\]: expected shape \(3,\), the partner of each row, got"),
        ([0, 3, 1], (3, 3), True, "row 1 has partner 3; expected 0 to 2$"),
        ([0, 3, 1], (3, 3), False, "row 1 has partner 3; expected 0 to 2, or -1 for single"),
        ([0, 3, 1], (3, 2), True, "row 1 has partner 3; expected 0 to 1, or -1 for single"),
        ([0, 2, 2], (3, 3), True, r"column 2 is the partner of rows \[1, 2\]"),
        ([0, 2, -1], (3, 3), True, "row 2 is single.*3 rows a partner.*perfect=False"),
        ([0, -1, -1], (3, 2), True, "row 1 is single.*2 rows a partner"),
        ([0, np.nan, 1], (3, 3), True, "found NaN; single nodes are -1"),
        ([0, 0.5, 1], (3, 3), True, "partners must be integers, got dtype float64"),
        ([[0, 0], [0, 1]], (3, 3), False, "row 0 is in 2 pairs, but its capacity is 1"),
        ([1, 0], (3, None), True, r"expected shape \(3,\), the partner of each node"),
        ([1, 0, 2], (3, None), False, "node 2 is its own partner; single nodes are -1"),
        ([1, 2, 1], (3, None), False, "node 0 has partner 1, but node 1 has 2; .* mutual"),
        ([1, -1, -1], (3, None), False, "node 0 has partner 1, but node 1 has -1; .* mutual"),
        ([1, 0, -1], (3, None), True, "node 2 is single.*3 nodes a partner.*perfect=False"),
        ([1, 0, -2], (3, None), False, "node 2 has partner -2; expected 0 to 2, or -1"),
        ([[0, 1], [1, 2]], (3, None), False, "node 1 is in 2 pairs, but its capacity is 1"),
    ],
)
def test_wrong_partners_are_named(label, sizes, perfect, message):
    with pytest.raises(ValueError, match=message) as error:
        check_partners(label, *sizes, perfect, "Y[4]")
    assert str(error.value).startswith("Y[4]: ")
    with pytest.raises(ValueError, match=r"^[^:]*$|^found NaN"):  # the caller adds the name
        check_partners(label, *sizes, perfect)


@pytest.mark.parametrize(
    ("label", "sizes", "message"),
    [
        ([[0, 1, 2]], (3, 3), r"expected shape \(1, 2\), one row per pair"),
        ([[0, 3]], (3, 3), r"pair 0 is \[0, 3\], outside of the shape \(3, 3\)"),
        ([[0, 1], [0, 1]], (3, 3), r"the pair \[0, 1\] occurs twice"),
        ([[0, 1], [1, 0]], (3, None), r"the pair \[0, 1\] occurs twice"),
        ([[1, 1]], (3, None), "pair 0 joins node 1 to itself"),
        (np.ones((2, 3), bool), (3, 3), r"a matrix of shape \(3, 3\), got \(2, 3\)"),
        (np.triu(np.ones((3, 3), bool), 1), (3, None), "must be symmetric"),
    ],
)
def test_wrong_pairs_are_named(label, sizes, message):
    with pytest.raises(ValueError, match=message):
        check_pairs(label, *sizes, "Y[0]")


def test_capacities():
    capacity, free = np.array([1, 2, 2]), np.array([False, True, False])
    check_counts(np.array([1, 1, 2]), capacity, free, "row")
    with pytest.raises(ValueError, match="row 1 has 3 partners, it must have at most 2"):
        check_counts(np.array([1, 3, 2]), capacity, free, "row")
    with pytest.raises(ValueError, match="column 0 has 0 partners, it must have exactly 1"):
        check_counts(np.array([0, 1, 2]), capacity, free, "column")


@pytest.mark.parametrize(
    ("label", "node", "partner"),
    [([-1, np.nan, 3], 2, 3), ([-1, -2, np.nan], 1, -2), ([0, -1, 1.5], 2, 1.5)],
)
def test_the_wrong_one_of_known_partners_is_named(label, node, partner):
    found = read_known([0.0, -1.0, np.nan], 3, 3)
    assert (found.pairs.tolist(), found.single.tolist()) == ([[0, 0]], [1])
    with pytest.raises(ValueError, match=rf"node {node} has partner {partner}[^\d]"):
        read_known(label, 3, 3)
