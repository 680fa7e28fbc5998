"""Pair scores as a ranking: curves, candidates and ranks against scikit-learn and brute force."""

import time

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from random_scores import generators
from sklearn.metrics import auc, roc_auc_score, roc_curve

from mlestruct.metrics import (
    flag_pairs,
    pair_auc,
    pair_roc,
    rank_of_partner,
    top_candidates,
)

examples = settings(deadline=None, max_examples=100)


def draw_scores(rng, shape, symmetric):
    """Normal, or small integers with many ties."""
    table = rng.normal(size=shape) if rng.random() < 0.5 else rng.integers(0, 4, shape) * 1.0
    return np.triu(table, 1) + np.triu(table, 1).T if symmetric else table


def draw_partner(rng, n, m, symmetric):
    partner = np.full(n, -1)
    if symmetric:
        order = rng.permutation(n)[: 2 * rng.integers(1, n // 2 + 1)]
        partner[order[::2]], partner[order[1::2]] = order[1::2], order[::2]
    else:
        size = rng.integers(1, min(n, m) + 1)
        partner[rng.permutation(n)[:size]] = rng.permutation(m)[:size]
    return partner


def draw(rng, symmetric):
    n = int(rng.integers(3, 12))
    m = n if symmetric else int(rng.integers(2, 12))
    scores = draw_scores(rng, (n, m), symmetric)
    partner = draw_partner(rng, n, m, symmetric)
    mask = rng.random((n, m)) < 0.7
    mask[np.arange(n)[partner >= 0], partner[partner >= 0]] = True
    if symmetric:
        mask = mask | mask.T
        np.fill_diagonal(mask, False)
        np.fill_diagonal(scores, np.nan)  # the diagonal is ignored
    return scores, partner, mask


def sparse(scores, mask):
    """Stores allowed zeros too."""
    row, col = np.nonzero(mask)
    return sp.csr_matrix((scores[row, col], (row, col)), shape=scores.shape)


def listed(scores, partner, mask, symmetric):
    """Scores and truth of every allowed pair, one by one."""
    pairs = [p for p in np.argwhere(mask) if not symmetric or p[0] < p[1]]
    return (
        np.array([scores[i, j] for i, j in pairs]),
        np.array([partner[i] == j for i, j in pairs], bool),
    )


@examples
@given(generators, st.booleans())
def test_curve_is_scikit_learns(rng, symmetric):
    scores, partner, mask = draw(rng, symmetric)
    values, truth = listed(scores, partner, mask, symmetric)
    if truth.all():
        return
    for table in (np.where(mask, scores, -np.inf), sparse(scores, mask)):
        curve = pair_roc(table, partner, bipartite=not symmetric)
        assert curve.auc == pytest.approx(roc_auc_score(truth, values), abs=1e-12)
        assert auc(curve.false_positive_rate, curve.true_positive_rate) == pytest.approx(
            curve.auc, abs=1e-12
        )
        false, true, _ = roc_curve(truth, values, drop_intermediate=False)
        # Along the curve the sum of both rates rises.
        along = curve.false_positive_rate + curve.true_positive_rate
        ours = np.interp(false + true, along, curve.true_positive_rate)
        np.testing.assert_allclose(ours, true, atol=1e-12)
        for false_rate, true_rate, threshold in zip(
            curve.false_positive_rate, curve.true_positive_rate, curve.thresholds, strict=True
        ):
            accepted = values >= threshold
            assert accepted[~truth].mean() == pytest.approx(false_rate)
            assert accepted[truth].mean() == pytest.approx(true_rate)


@examples
@given(generators, st.booleans(), st.floats(0, 1))
def test_thresholds(rng, symmetric, share):
    scores, partner, mask = draw(rng, symmetric)
    values, truth = listed(scores, partner, mask, symmetric)
    if truth.all():
        return
    curve = pair_roc(sparse(scores, mask), partner, bipartite=not symmetric)
    choices = np.r_[np.unique(values), np.inf]
    fit = [t for t in choices if (values[~truth] >= t).mean() <= share + 1e-12]
    assert curve.threshold_at(false_positive_rate=share) == min(fit)
    cut = curve.rejecting(share=share)
    assert cut.threshold == max(t for t in choices if (values < t).mean() <= share + 1e-12)
    assert cut.rejected == pytest.approx((values < cut.threshold).mean())
    assert cut.lost == pytest.approx((values[truth] < cut.threshold).mean())


def test_shares_are_not_rounded_down():
    scores = np.arange(100.0).reshape(1, 100)
    curve = pair_roc(scores, [99])
    assert curve.rejecting(share=0.29).threshold == 29.0


@examples
@given(generators, st.booleans())
def test_samples_are_pooled(rng, symmetric):
    drawn = [draw(rng, symmetric) for _ in range(3)]
    tables = [np.where(mask, scores, -np.inf) for scores, _, mask in drawn]
    parts = [listed(*sample, symmetric) for sample in drawn]
    values, truth = (np.concatenate(part) for part in zip(*parts, strict=True))
    if truth.all():
        return
    curve = pair_roc(tables, [partner for _, partner, _ in drawn], bipartite=not symmetric)
    assert curve.auc == pytest.approx(roc_auc_score(truth, values), abs=1e-12)
    for area, (one_values, one_truth) in zip(curve.sample_aucs, parts, strict=True):
        if one_truth.all():
            assert np.isnan(area)
        else:
            assert area == pytest.approx(roc_auc_score(one_truth, one_values), abs=1e-12)


@examples
@given(generators, st.booleans(), st.integers(1, 14), st.sampled_from([1, 40, 1 << 21]))
def test_candidates(rng, symmetric, k, block):
    scores, _, mask = draw(rng, symmetric)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mlestruct.metrics.pair_tables.BLOCK", block)
        for table in (np.where(mask, scores, -np.inf), sparse(scores, mask)):
            indices, values = top_candidates(table, k, bipartite=not symmetric)
            assert indices.shape == values.shape == (scores.shape[0], k)
            for i, allowed in enumerate(mask):
                best = np.sort(scores[i, allowed])[::-1][:k]
                found = indices[i][indices[i] >= 0]
                assert allowed[found].all()
                assert len(set(found)) == len(found) == len(best)
                assert (scores[i, found] == best).all()
                assert (values[i, : len(best)] == best).all()
                assert (values[i, len(best) :] == -np.inf).all()
                assert (indices[i, len(best) :] == -1).all()


@examples
@given(generators, st.booleans(), st.sampled_from([1, 40, 1 << 21]))
def test_rank_of_partner(rng, symmetric, block):
    scores, partner, mask = draw(rng, symmetric)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mlestruct.metrics.pair_tables.BLOCK", block)
        for table in (np.where(mask, scores, -np.inf), sparse(scores, mask)):
            rank = rank_of_partner(table, partner, bipartite=not symmetric)
            for i, j in enumerate(partner):
                if j < 0:
                    assert np.isnan(rank[i])
                    continue
                others = scores[i, mask[i]]
                better, equal = (others > scores[i, j]).sum(), (others == scores[i, j]).sum()
                assert rank[i] == better + (equal + 1) / 2


def test_flagged_pairs_come_worst_first():
    scores = np.zeros((6, 6))
    for i, j, s in ((0, 3, 0.5), (1, 2, -1.0), (4, 5, 2.0)):
        scores[i, j] = scores[j, i] = s
    partner = [3, 2, 1, 0, 5, 4]
    assert flag_pairs(scores, partner, 1.0).tolist() == [[1, 2], [0, 3]]
    assert flag_pairs(scores, partner, -5.0).shape == (0, 2)
    scores[4, 5] = scores[5, 4] = -np.inf
    assert flag_pairs(scores, partner, 1.0).tolist()[0] == [4, 5]
    assert flag_pairs(np.array([[1.0, 3.0, 0.0]]), [1], 4.0).tolist() == [[0, 1]]


def test_pairs_of_higher_capacity():
    scores = np.array([[3.0, 2.0, 0.0], [1.0, 4.0, 5.0]])
    truth = np.array([[1, 1, 0], [0, 0, 1]])
    curve = pair_roc(scores, np.argwhere(truth))
    assert curve.auc == pytest.approx(roc_auc_score(truth.ravel(), scores.ravel()))


def test_one_table_that_is_not_square_makes_all_bipartite():
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=(3, 3)), rng.normal(size=(2, 3))]
    curve = pair_roc(tables, [[0, 1, 2], [2, 1]])
    assert curve.sample_aucs.shape == (2,)


def test_three_million_pairs():
    """The area is scikit-learn's, which takes four times as long."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(2400, 2400))
    scores = scores + scores.T
    order = rng.permutation(2400)
    partner = np.empty(2400, int)
    partner[order[::2]], partner[order[1::2]] = order[1::2], order[::2]
    tail, head = np.triu_indices(2400, 1)
    truth = partner[tail] == head
    pair_roc(scores[:4, :4], np.array([1, 0, 3, 2]))  # compiles
    start = time.process_time()
    curve = pair_roc(scores, partner)
    between = time.process_time()
    expected = roc_auc_score(truth, scores[tail, head])
    assert between - start < 3 * (time.process_time() - between)
    assert curve.auc == pytest.approx(expected, abs=1e-12)
    assert curve.thresholds.size < 5000


square = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 3.0], [2.0, 3.0, 0.0]])


@pytest.mark.parametrize(
    ("scores", "partner", "message"),
    [
        (np.triu(square), [1, 0, -1], r"\(1, 2\) and \(2, 1\) differ by 3.*table \+ table.T"),
        (sp.csr_matrix(np.triu(square)), [1, 0, -1], "not stored.*bipartite=True"),
        (sp.csr_matrix(square + np.triu(square)), [1, 0, -1], "differ by 3"),
        (np.where(square == 3, np.nan, square), [1, 0, -1], r"got nan at \(1, 2\)"),
        (np.where(square == 3, -np.inf, square), [-1, 2, 1], r"true pair \(1, 2\)"),
        (square, [1, 2, 0], "node 0 has partner 1, but node 1 has 2; .*mutual"),
        (square, [0, -1, -1], "partner: node 0 is its own partner"),
        (square, [1, 0, 3], "node 2 has partner 3; expected 0 to 2, or -1"),
        (square, [1, 0], r"partner: expected shape \(3,\)"),
        (square, [1.5, 0.0, -1.0], "partners must be integers"),
        (square, [-1, -1, -1], "no true pair"),
        (square[:2, :2], [1, 0], "no wrong pair"),
        (square[:2], [1, 1], r"column 1 is the partner of rows \[0, 1\]"),
        (square[0], [1], "expected a matrix"),
        ([square, square], [[1, 0, -1]], "expected 2 samples"),
        ([square, square.T], [[1, 0, -1], [2, 0, -1]], r"partner\[1\]: node 0"),
    ],
)
def test_wrong_input_is_named(scores, partner, message):
    with pytest.raises(ValueError, match=message):
        pair_auc(scores, partner)


def test_wrong_numbers_are_named():
    curve = pair_roc(square, [1, 0, -1])
    with pytest.raises(ValueError, match="share: expected a share from 0 to 1, got 2"):
        curve.rejecting(share=2)
    with pytest.raises(ValueError, match="false_positive_rate"):
        curve.threshold_at(false_positive_rate=-0.1)
    with pytest.raises(ValueError, match="k: expected"):
        top_candidates(square, 0)
    with pytest.raises(ValueError, match="square"):
        pair_auc(square[:2], [1, -1], bipartite=False)
    with pytest.raises(ValueError, match="threshold"):
        flag_pairs(square, [1, 0, -1], np.nan)


def test_the_worst_share_of_proposed_pairs():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(10, 10))
    scores = scores + scores.T
    partner = np.array([1, 0, 3, 2, 5, 4, 7, 6, 9, 8])
    values = {(i, i + 1): scores[i, i + 1] for i in range(0, 10, 2)}
    worst = sorted(values, key=values.get)[:2]
    np.testing.assert_array_equal(flag_pairs(scores, partner, share=0.4), worst)
    for wrong in ({}, {"threshold": 0.0, "share": 0.1}, {"share": 1.5}):
        with pytest.raises(ValueError, match=r"share"):
            flag_pairs(scores, partner, **wrong)
