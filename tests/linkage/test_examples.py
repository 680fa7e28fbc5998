"""Learning from links alone: records without a partner are made up, and their share estimated."""

import warnings

import numpy as np
import pandas as pd
import pytest

import mlestruct
from mlestruct.datasets import make_people
from mlestruct.features import Rows
from mlestruct.linkage import RecordLinker
from mlestruct.linkage.examples import Examples, estimate_single_share


def test_copies_have_all_candidates_but_the_partner():
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random((6, 8)) < 0.5)
    partner = np.full(6, -2)
    for i in (0, 2, 5):
        partner[i] = cols[rows == i][0]
    used = np.isin(rows, (0, 2, 5))
    features = rng.normal(size=(used.sum(), 3))
    found = Examples(rows[used], cols[used], Rows(features), partner, 6).with_singles()
    for i in (0, 2, 5):
        own = cols[rows == i]
        np.testing.assert_array_equal(found.cols[found.rows == i], own)
        np.testing.assert_array_equal(found.cols[found.rows == i + 6], own[own != partner[i]])
        np.testing.assert_array_equal(
            found.features.matrix[found.rows == i + 6], features[rows[used] == i][own != partner[i]]
        )
        assert found.partner[i + 6] == -1
    assert found.labelled.tolist() == [0, 2, 5, 6, 8, 11]
    part = found.of(np.array([2]))
    assert part.labelled.tolist() == [2, 8]
    assert set(part.rows.tolist()) == {2, 8}


def test_records_without_another_candidate_have_no_copy():
    rows, cols = np.array([0, 1, 1]), np.array([3, 2, 3])
    links = Examples(rows, cols, np.ones((3, 1)), np.array([3, 2]), 2)
    assert links.with_singles().labelled.tolist() == [0, 1, 3]


def test_the_share_is_that_of_a_mixture():
    """Scores of any scale: the share follows from what they are with and without a partner."""
    rng = np.random.default_rng(1)
    n, n_known, share = 4000, 400, 0.35
    alone = np.arange(n) >= n_known + (1 - share) * (n - n_known)
    partner = np.where(np.arange(n) < n_known, np.arange(n), -2)
    low, high = rng.beta(2, 8, size=n), rng.beta(6, 3, size=n)

    def single(coef, gone):
        return np.where(alone | np.isin(np.arange(n), gone), high, low)

    parts = np.array_split(np.arange(n_known), 3)
    found, error = estimate_single_share(partner, parts, lambda held: held, single)
    expected = (single(None, [])[n_known:].mean() - low[:n_known].mean()) / (
        high[:n_known].mean() - low[:n_known].mean()
    )
    assert found == pytest.approx(expected)
    assert abs(found - share) < 3 * error
    assert error < 0.03


def test_the_stated_error_is_that_of_repetitions():
    rng = np.random.default_rng(2)

    def once():
        alone = rng.random(360) < 0.3
        alone[:60] = False
        low, high = rng.beta(2, 8, size=360), rng.beta(6, 3, size=360)
        partner = np.where(np.arange(360) < 60, np.arange(360), -2)
        return estimate_single_share(
            partner,
            [np.arange(60)],
            lambda held: held,
            lambda _, gone: np.where(alone | np.isin(np.arange(360), gone), high, low),
        )

    shares, errors = zip(*(once() for _ in range(300)), strict=True)
    assert np.std(shares) == pytest.approx(np.mean(errors), rel=0.2)


def test_where_nothing_tells_records_apart_the_share_is_not_known():
    partner = np.array([0, 1, -2])
    _, error = estimate_single_share(
        partner, [np.arange(2)], lambda held: held, lambda coef, gone: np.full(3, 0.5)
    )
    assert error == np.inf


@pytest.mark.parametrize("single", [0.1, 0.5])
def test_from_links_alone_the_promised_precision_holds(single, tmp_path):
    left, right, links = make_people(500, overlap=1.0 - single, random_state=4)
    known = links.sample(80, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        linker = RecordLinker().fit(left, right, known)
    rest = left.index.difference(known["left"])
    share = 1.0 - rest.isin(links["left"]).mean()
    assert linker.learned_singles_
    assert abs(linker.single_share_ - share) < max(0.05, 2.5 * linker.single_share_error_)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = linker.link(left, right, precision=0.95, known=known)
    proposed = found.proposed[found.proposed["left"].isin(rest)]
    truth = set(links.itertuples(index=False, name=None))
    pairs = proposed[["left", "right"]].itertuples(index=False, name=None)
    precision = np.mean([pair in truth for pair in pairs])
    assert precision > proposed["probability"].mean() - 0.03
    assert len(proposed) > 0.8 * (len(truth) - len(known))
    linker.save(tmp_path / "model.mls")
    again = mlestruct.load(tmp_path / "model.mls")
    assert again.single_share_error_ == linker.single_share_error_
    pd.testing.assert_frame_equal(again.link(left, right, 0.95, known).pairs, found.pairs)


def test_known_singles_are_counted_and_nothing_is_estimated():
    left, right, links = make_people(200, random_state=5)
    alone = pd.DataFrame({"left": left.index.difference(links["left"])[:10], "right": ""})
    linker = RecordLinker(alpha=1.0).fit(left, right, pd.concat([links.iloc[:30], alone]))
    assert linker.single_share_ == 0.25
    assert linker.single_share_error_ is None


def test_from_too_few_links_or_without_others_no_share_is_estimated():
    left, right, links = make_people(60, overlap=1.0, random_state=6)
    for known in (links.iloc[:29], links):  # all left records have a known partner
        with pytest.warns(UserWarning, match="known: .*list some left ids"):
            linker = RecordLinker(alpha=1.0).fit(left, right, known)
        assert not linker.learned_singles_
        assert linker.single_share_error_ is None
