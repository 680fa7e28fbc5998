"""Learning from the tables alone, and from few known links."""

import warnings
from itertools import permutations

import numpy as np
import pandas as pd
import pytest

import mlestruct
from mlestruct import BipartiteMatchingCRF
from mlestruct.datasets import make_people
from mlestruct.features import Rows
from mlestruct.linkage import RecordLinker, unlabelled
from mlestruct.linkage.examples import ExpectedLinks, pair_input
from mlestruct.linkage.unlabelled import expected_links


def enumerated(rows, cols, shape):
    """Marginals of pairs by listing all one-to-one links of n records to m, singles allowed."""
    place = {pair: k for k, pair in enumerate(zip(rows.tolist(), cols.tolist(), strict=True))}
    n, m = shape
    found = set()
    for choice in permutations([*range(m), *[-1] * n], n):
        pairs = [(i, j) for i, j in enumerate(choice) if j >= 0]
        if all(pair in place for pair in pairs):
            found.add(tuple(place[pair] for pair in pairs))

    def marginals(scores):
        weights = {links: np.exp(sum(scores[k] for k in links)) for links in found}
        total = sum(weights.values())
        out = np.zeros(scores.size)
        for links, weight in weights.items():
            out[list(links)] += weight / total
        return out

    return marginals


def test_the_result_is_a_fixed_point(monkeypatch):
    """m are the shares of levels among expected links, and these follow from m, u and their sum."""
    rng = np.random.default_rng(0)
    rows, cols = (part.ravel() for part in np.indices((4, 4)))
    levels = [np.where(rows == cols, 2, rng.integers(0, 2, 16)), rng.integers(0, 3, 16)]
    at_random = [rng.integers(0, 3, 200) * (rng.random(200) < 0.3), rng.integers(0, 3, 200)]
    marginals = enumerated(rows, cols, (4, 4))
    monkeypatch.setattr(unlabelled, "CHANGE", 1e-9)
    monkeypatch.setattr(unlabelled, "ROUNDS", 10_000)
    chance = expected_links(levels, at_random, (rows, cols), (4, 4), 4, marginals)
    share = min(chance.sum() / 4, 1 - 0.5 / 4)
    scores = np.full(16, np.log(share / 4 / (1 - share) ** 2))
    for level, other in zip(levels, at_random, strict=True):
        m = np.array([chance[level == k].sum() + 1 for k in range(3)])
        u = np.array([(other == k).sum() + 1 for k in range(3)])
        weights = np.log(m[1:] / m[1:].sum() / (u[1:] / u[1:].sum()))
        scores += np.concatenate([[0.0], weights])[level]  # missing is not evidence
    np.testing.assert_allclose(marginals(scores), chance, atol=1e-6)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_planted_links_are_found(share):
    """Levels are drawn from the model itself: few columns, each of which errs."""
    rng = np.random.default_rng(1)
    n = 100
    rows, cols = (part.ravel() for part in np.indices((n, n)))
    true = (rows == cols) & (rows < share * n)
    match, other = [0.05, 0.15, 0.8], [0.05, 0.85, 0.1]
    levels = [np.where(true, rng.choice(3, true.size, p=match), rng.choice(3, true.size, p=other))
              for _ in range(6)]  # fmt: skip
    at_random = [rng.choice(3, 20_000, p=other) for _ in range(6)]

    def marginals(scores):
        model = BipartiteMatchingCRF(rho=0.95, perfect=False, fit_intercept=False)
        model._reload(np.ones(1), ["score"], None)
        (chance,) = model.predict_marginals([pair_input(rows, cols, Rows(scores[:, None]), (n, n))])
        return np.asarray(chance[rows, cols]).ravel()

    found = expected_links(levels, at_random, (rows, cols), (n, n), n, marginals)
    assert abs(found.sum() - true.sum()) < 0.15 * true.sum() + 5
    best = np.full(true.size, np.log(share / n / (1 - share) ** 2))
    for level in levels:
        best += np.log(np.array(match) / other)[level]
    best = marginals(best)  # at the probabilities that drew the levels
    loss = [-np.where(true, np.log(p), np.log1p(-p)).sum() for p in (found, best)]
    assert loss[0] < 1.4 * loss[1] + 5


def test_certain_links_teach_as_labels_do():
    rng = np.random.default_rng(2)
    rows, cols = (part.ravel() for part in np.indices((5, 6)))
    partner = np.array([0, 1, -1, 5, -1])
    x = pair_input(rows, cols, Rows(rng.normal(size=(30, 3))), (5, 6))
    own = BipartiteMatchingCRF(perfect=False, fit_intercept=False, tol=1e-8)
    expected = (partner[rows] == cols).astype(float)
    found = ExpectedLinks.like(own).fit([x], [expected]).coef_
    np.testing.assert_allclose(found, own.fit([x], [partner]).coef_, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"overlap": 0.2}, {"household": 0.6, "errors": 0.25}])
def test_links_are_found_without_known_ones(options, tmp_path):
    left, right, links = make_people(600, random_state=3, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        linker = RecordLinker().fit(left, right)
        found = linker.link(left, right)
    truth = set(links.itertuples(index=False, name=None))
    proposed = found.proposed[found.proposed["probability"] > 0.5]
    right_ones = [
        pair in truth for pair in proposed[["left", "right"]].itertuples(index=False, name=None)
    ]
    assert np.mean(right_ones) > 0.95
    assert sum(right_ones) > (0.8 if "errors" in options else 0.93) * len(truth)
    assert abs(proposed["probability"].mean() - np.mean(right_ones)) < 0.04
    assert abs(linker.single_share_ - (1 - len(truth) / 600)) < 0.06
    assert linker.alpha_ is linker.held_out_ is linker.blocking_recall_ is None
    linker.save(tmp_path / "model.mls")
    again = mlestruct.load(tmp_path / "model.mls")
    pd.testing.assert_frame_equal(again.link(left, right).pairs, found.pairs)


def test_known_records_correct_the_weights():
    """Log loss a link, beside that without known links and that of few known records alone."""
    losses = np.zeros(3)
    for seed in (4, 6):
        left, right, links = make_people(800, household=0.6, errors=0.25, random_state=seed)
        partner = dict(links.to_numpy())
        known = left.index.to_series().sample(300, random_state=0)
        table = pd.DataFrame({"left": known, "right": known.map(partner).fillna("")})
        for k, given in enumerate((None, table[:20], table)):
            pairs = RecordLinker().fit(left, right, given).link(left, right).pairs
            pairs = pairs[~pairs["left"].isin(known)]
            true = pairs["left"].map(partner) == pairs["right"]
            p = pairs["probability"].clip(1e-6, 1 - 1e-6)
            losses[k] -= np.where(true, np.log(p), np.log1p(-p)).sum() / true.sum()
    none, few, many = losses
    assert few < 1.1 * none
    assert many < none


def test_links_alone_do_not_shift_the_share_of_singles():
    left, right, links = make_people(500, overlap=0.5, random_state=4)
    linker = RecordLinker().fit(left, right, links.sample(80, random_state=0))
    assert abs(linker.single_share_ - 0.5) < 0.06
    assert linker.alpha_ is None
    alone = pd.DataFrame({"left": left.index.difference(links["left"])[:10], "right": ""})
    both = RecordLinker(alpha=1.0).fit(left, right, pd.concat([links.iloc[:30], alone]))
    assert both.single_share_ == 0.25


def test_tables_that_have_nothing_in_common_give_no_links():
    left, right, _ = make_people(60, overlap=1.0, random_state=0)
    other = right.map(lambda cell: cell[::-1] + "x")
    found = RecordLinker().fit(left, other).link(left, other)
    assert not (found.pairs["probability"] > 0.5).any()


@pytest.mark.parametrize("rows", [slice(None), slice(0, 0)])
def test_tables_without_candidates_are_refused(rows):
    left = pd.DataFrame({"name": ["anna", "bob"]}, index=["a", "b"])
    right = pd.DataFrame({"name": ["xyz", "qqq"]}, index=["x", "y"])
    with pytest.raises(ValueError, match=r"no pair of \d x 2 records is a candidate"):
        RecordLinker().fit(left[rows], right)


def test_few_known_links_leave_no_place_for_others():
    """Expected links that meet at one record are no mixture of matchings, and have no bound."""
    left, right, truth = make_people(60, household=0.8, random_state=0)
    linker = RecordLinker().fit(left, right, truth[:20])
    assert linker.converged_
    assert linker.objective_ <= linker.objective_bound_ < np.inf
