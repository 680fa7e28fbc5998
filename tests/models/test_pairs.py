"""Reading of matchings: every form of a label is read the same, every error names its cause."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from random_scores import generators

from mlestruct import PairInput
from mlestruct.models.pairs import edge_values, read_label, read_sample


def sample(n, m=None, mask=None):
    """A sample of n rows and m columns, or of a group of n nodes."""
    shape = (n, n if m is None else m)
    return read_sample(PairInput(np.ones((*shape, 1)), mask=mask), "X[0]", group=m is None)


def draw_matching(rng, group):
    """A sample, partners, and pairs listed one by one."""
    n = int(rng.integers(1, 9))
    m = None if group else int(rng.integers(3, 9))
    partner = np.full(n, -1)
    if group:
        order = rng.permutation(n)[: 2 * rng.integers(0, n // 2 + 1)]
        partner[order[::2]], partner[order[1::2]] = order[1::2], order[::2]
    else:
        size = rng.integers(0, min(n, m) + 1)
        partner[rng.permutation(n)[:size]] = rng.permutation(m)[:size]
    pairs = [(i, j) for i, j in enumerate(partner) if j >= 0 and (not group or i < j)]
    return sample(n, m), partner, np.array(pairs, dtype=np.int64).reshape(-1, 2)


@settings(deadline=None, max_examples=60)
@given(generators, st.booleans())
def test_all_forms_of_a_matching_are_read_the_same(rng, group):
    x, partner, pairs = draw_matching(rng, group)
    matrix = np.zeros(x.shape, dtype=bool)
    matrix[pairs[:, 0], pairs[:, 1]] = True
    if group:
        matrix |= matrix.T
    shuffled = rng.permutation(pairs)
    if group and len(pairs):
        shuffled = rng.permuted(shuffled, axis=1)
    table = np.zeros(x.shape)
    table[pairs[:, 0], pairs[:, 1]] = 1.0
    expected = table[x.graph.row, x.graph.col]
    listed = list(map(tuple, shuffled.tolist()))
    forms = [partner, partner.astype(float), partner.tolist(), listed, matrix, 1.0 * matrix]
    for label in [*forms, sp.csr_array(matrix), sp.coo_matrix(matrix)]:
        read = read_label(label, x, "Y[0]")
        assert read.whole
        np.testing.assert_array_equal(read.pairs, pairs)
        np.testing.assert_array_equal(edge_values(read, x, "Y[0]", False), expected)
    for label in (listed, sp.csr_array(matrix)):  # nothing is known of other pairs
        values = edge_values(read_label(label, x, "known[0]", known=True), x, "known[0]", False)
        np.testing.assert_array_equal(values, np.where(expected == 1.0, 1.0, np.nan))


WRONG = [
    ([0, 1], (3, 3), r"expected shape \(3,\), the partner of each row, got"),
    ([0, 3, 1], (3, 3), "row 1 has partner 3; expected 0 to 2, or -1 for single"),
    ([0, 0.5, 1], (3, 3), "partners must be integers, found 0.5"),
    (list("abc"), (3, 3), "partners must be integers, got dtype"),
    ([[0], [1, 2]], (3, 3), "expected an array of whole numbers"),
    (np.ma.masked_equal([0, 1, 2], 1), (3, 3), "masked"),
    ([1, 0], (3, None), r"expected shape \(3,\), the partner of each node"),
    ([1, 0, 2], (3, None), "node 2 is its own partner; single nodes are -1"),
    ([1, 2, 1], (3, None), "node 0 has partner 1, but node 1 has 2; .* mutual"),
    ([1, -1, -1], (3, None), "node 0 has partner 1, but node 1 has -1; .* mutual"),
    ([1, 0, -2], (3, None), "node 2 has partner -2; expected 0 to 2, or -1"),
    ([[0, 1, 2]], (3, 3), r"expected shape \(1, 2\), one row per pair"),
    ([[0, 3]], (3, 3), r"pair 0 is \[0, 3\], outside of the shape \(3, 3\)"),
    ([[0, 1], [0, 1]], (3, 3), r"the pair \[0, 1\] occurs twice"),
    ([[0, 1], [1, 0]], (3, None), r"the pair \[0, 1\] occurs twice"),
    ([[1, 1]], (3, None), "pair 0 joins node 1 to itself"),
    (np.ones((2, 3), bool), (3, 3), r"a matrix of shape \(3, 3\), got \(2, 3\)"),
    (sp.csr_array(np.ones((2, 3))), (3, 3), r"a matrix of shape \(3, 3\), got \(2, 3\)"),
    (np.full((3, 3), 2.0), (3, 3), "found 2.0 in a matrix of pairs"),
    (np.triu(np.ones((3, 3), bool), 1), (3, None), "must be symmetric"),
    ([[1, 0], [0, 1]], (2, 2), r"0 and 1 of shape \(2, 2\) may be pairs or a matrix"),
]


@pytest.mark.parametrize(("label", "sizes", "message"), WRONG)
def test_wrong_labels_are_named(label, sizes, message):
    with pytest.raises(ValueError, match=rf"^Y\[4\]: .*{message}"):
        read_label(label, sample(*sizes), "Y[4]")


def test_both_readings_of_zeros_and_ones_can_be_given():
    x, numbers = sample(2, 2), np.array([[1, 0], [0, 1]])
    matrix = read_label(numbers.astype(bool), x, "Y[0]")
    pairs = read_label([(1, 0), (0, 1)], x, "Y[0]")
    assert matrix.pairs.tolist() == [[0, 0], [1, 1]]
    assert pairs.pairs.tolist() == [[0, 1], [1, 0]]


def test_what_is_not_known_stays_open():
    x = sample(3, 3)
    read = read_label([0.0, -1.0, np.nan], x, "Y[0]")
    values = edge_values(read, x, "Y[0]", False).reshape(3, 3)
    assert values[0, 0] == 1.0
    assert not values[1].any()
    assert np.isnan(values[2]).all()
    table = np.array([[np.nan, 0.0, 1.0]] * 3)
    np.testing.assert_array_equal(
        edge_values(read_label(table, x, "Y[0]"), x, "Y[0]", False).reshape(3, 3), table
    )
    masked = sample(3, 3, mask=~np.eye(3, dtype=bool))
    with pytest.raises(ValueError, match=r"Y\[0\]: row 1 and column 1 are a pair, which is not"):
        edge_values(read_label([[1, 1]], masked, "Y[0]"), masked, "Y[0]", True)
