"""Duplicates within one table: clusters, probabilities, known pairs, the command."""

import json
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.special import expit, logit
from sklearn.base import clone

from mlestruct.cli import main
from mlestruct.datasets import make_people, people
from mlestruct.linkage import Deduplicator
from mlestruct.linkage.clusters import LEAST, bounded_clusters
from mlestruct.linkage.expected_duplicates import ExpectedDuplicates, of_couples, of_pairs


def make_duplicates(n_people, shares, seed=0, household=0.3, errors=0.15):
    """One table in which people are listed once, twice, ... with these shares, and who is who."""
    rng = np.random.default_rng(seed)
    rows, truth = [], []
    for k, one in enumerate(people._draw(n_people, household, rng)):
        copies = int(rng.choice(len(shares), p=shares))
        rows += [one, *(people._changed(one, errors, rng) for _ in range(copies))]
        truth += [k] * (copies + 1)
    order = rng.permutation(len(rows))
    index = [f"r{k}" for k in range(len(rows))]
    table = pd.DataFrame([people._blank(rows, 0.05, rng)[k] for k in order], index)
    return table, pd.Series(np.array(truth)[order], index)


def pairs_of(labels):
    """All pairs of places with one label."""
    groups = pd.Series(range(len(labels))).groupby(np.asarray(labels)).apply(list)
    return {pair for group in groups for pair in combinations(sorted(group), 2)}


def f1(labels, truth):
    found, true = pairs_of(labels), pairs_of(truth)
    return 2 * len(found & true) / (len(found) + len(true))


# ---------------------------------------------------------------------- clusters
@given(st.integers(0, 10_000), st.integers(2, 12))
@settings(max_examples=30, deadline=None)
def test_clusters_without_a_bound_are_average_linkage_of_scipy(seed, n):
    rng = np.random.default_rng(seed)
    rows, cols = np.triu_indices(n, 1)
    odds = rng.normal(scale=2, size=rows.size)
    found = bounded_clusters(rows, cols, expit(odds), n, n)
    # Distances may not be negative; a constant on all pairs does not change average linkage.
    odds = np.maximum(odds, LEAST)
    expected = fcluster(linkage(20.0 - odds, "average"), 20.0, "distance")
    assert pairs_of(found) == pairs_of(expected)


@given(st.integers(0, 10_000), st.integers(2, 5))
@settings(max_examples=30, deadline=None)
def test_clusters_are_at_most_as_large_as_asked_and_joined_for_a_reason(seed, size):
    rng = np.random.default_rng(seed)
    rows, cols = np.triu_indices(12, 1)
    kept = rng.random(rows.size) < 0.5
    rows, cols = rows[kept], cols[kept]
    chance = rng.random(rows.size)
    found = bounded_clusters(rows, cols, chance, 12, size)
    assert np.bincount(found).max() <= size
    values = dict(zip(zip(rows.tolist(), cols.tolist(), strict=True), chance, strict=True))
    for own in range(found.max() + 1):
        pairs = [*combinations(np.flatnonzero(found == own).tolist(), 2)]
        odds = [logit(max(values.get(pair, 0.0), 0.01)) for pair in pairs]
        assert not odds or np.mean(odds) > 0


# ---------------------------------------------------------------------- probabilities
def test_probabilities_of_planted_duplicates_are_those_of_bayes():
    """Levels are drawn from the model: six columns, related pairs agree in four of them."""
    rng = np.random.default_rng(0)
    n, shares = 100, np.array([0.05, 0.15, 0.8])  # duplicates, related, others, of all pairs
    ends = np.triu_indices(n, 1)
    kind = rng.choice(3, ends[0].size, p=shares)
    likely = np.array([[0.85] * 6, [0.95] * 4 + [0.05] * 2, [0.05] * 6])
    levels = [np.where(rng.random(kind.size) < likely[kind, c], 2, 1) for c in range(6)]
    at_random = [np.where(rng.random(50_000) < 0.05, 2, 1) for _ in range(6)]
    model = ExpectedDuplicates(levels, at_random, ends, n)
    model.chance = np.array([0.5, 0.1, 0.1])[kind]
    model.related = np.array([0.3, 0.6, 0.3])[kind]
    chance = model.learn(expit, of_pairs)
    # Bayes' rule with the true shares.
    k = np.stack([level == 2 for level in levels], axis=1)
    joint = shares * np.prod(np.where(k[:, None, :], likely[None], 1.0 - likely[None]), axis=2)
    best = joint[:, 0] / joint.sum(axis=1)
    assert np.abs(chance - best).mean() < 0.02


def test_prior_odds():
    """Of pairs: their share. Of couples: the share of matched records, at these marginals."""
    assert expit(of_pairs(6.0, 10)) == pytest.approx(6 / 45)
    n, share = 200, 0.4  # on a complete graph, tau = exp(score) * single_i * single_j
    tau = np.exp(of_couples(share * n / 2, n)) * (1 - share) ** 2
    assert tau * n == pytest.approx(share)


PAIRS, MIXED, MANY = (0.7, 0.3), (0.6, 0.25, 0.1, 0.05), (0.2, 0.2, *[0.1] * 6)


@pytest.mark.parametrize(
    ("size", "shares", "least"),
    [(2, PAIRS, 0.93), (10, PAIRS, 0.88), (10, MIXED, 0.91), (10, MANY, 0.91)],
)
def test_duplicates_are_found_without_labels(size, shares, least):
    table, truth = make_duplicates(300, shares)
    found = Deduplicator(size=size).fit(table)
    assert f1(found.labels_, truth) > least
    assert np.bincount(found.labels_).max() <= size
    pairs = found.pairs_
    true = truth[pairs["left"]].to_numpy() == truth[pairs["right"]].to_numpy()
    assert pairs["probability"].sum() == pytest.approx(true.sum(), rel=0.12)
    assert (pairs["left"] != pairs["right"]).all()
    assert not pairs[["left", "right"]].apply(frozenset, axis=1).duplicated().any()


def test_a_table_without_duplicates_stays_as_it_is():
    left, _, _ = make_people(300, random_state=0)
    assert np.bincount(Deduplicator().fit(left).labels_).max() == 1


@pytest.mark.parametrize("size", [2, 5])
def test_conflicts_and_labels_agree_with_pairs(size):
    table, _ = make_duplicates(200, MIXED, household=0.6, errors=0.3)
    found = Deduplicator(size=size).fit(table)
    label = pd.Series(found.labels_, table.index)
    pairs = found.pairs_
    same = label[pairs["left"]].to_numpy() == label[pairs["right"]].to_numpy()
    np.testing.assert_array_equal(pairs["same_cluster"], same)
    np.testing.assert_array_equal(pairs["conflict"], same != (pairs["probability"] > 0.5))
    assert pairs["conflict"].any() == (size > 2)  # couples of more than 1/2 do not overlap


def test_known_pairs_are_kept():
    table, truth = make_duplicates(200, PAIRS, household=0.5, errors=0.3)
    first = Deduplicator(size=4).fit(table)
    doubt = first.pairs_.assign(far=(first.pairs_["probability"] - 0.5).abs())
    asked = doubt.sort_values("far").head(20)[["left", "right", "probability"]]
    same = truth[asked["left"]].to_numpy() == truth[asked["right"]].to_numpy()
    alone = first.pairs_.loc[first.pairs_["probability"].idxmax()]
    far_apart = (table.index[0], table.index[-1])  # no candidates
    known = pd.concat([
        asked.assign(checked=np.where(same, "yes", "no")),
        pd.DataFrame([[alone["left"], "", "yes"], [*far_apart, "yes"]],
                     columns=["left", "right", "checked"]),
    ])  # fmt: skip
    again = Deduplicator(size=4).fit(table, known)
    chance = again.pairs_.set_index(["left", "right"])["probability"]
    for left, right, is_link in zip(asked["left"], asked["right"], same, strict=True):
        assert chance[left, right] == pytest.approx(float(is_link), abs=1e-6)
    beside = again.pairs_[(again.pairs_[["left", "right"]] == alone["left"]).any(axis=1)]
    assert beside["probability"].max() < 1e-6
    assert chance[far_apart] > 0.999
    assert f1(again.labels_, truth) >= f1(first.labels_, truth)


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ([("a1", "nobody")], "no id 'nobody'"),
        ([("a1", "a1")], "beside itself"),
        ([("a1", ""), ("a2", "a1")], "'a1' has no duplicate here, and one in another row"),
        (pd.DataFrame([["a1", "a2", "yes"], ["a2", "a1", "no"]], columns=["x", "y", "checked"]),
         "are a link and none; see row 1"),
    ],
)  # fmt: skip
def test_known_pairs_that_contradict(known, message):
    left, _, _ = make_people(50, random_state=0)
    with pytest.raises(ValueError, match=message):
        Deduplicator().fit(left, known)


def test_manners_and_errors():
    left, _, _ = make_people(50, random_state=0)
    model = clone(Deduplicator(size=3, columns=["surname", "birth"]))
    labels = model.fit_predict(left)
    assert labels.shape == (50,)
    np.testing.assert_array_equal(labels, clone(model).fit(left).labels_)
    for size in (1, 0, 2.5, "2"):
        with pytest.raises(ValueError, match="size"):
            Deduplicator(size=size).fit(left)
    apart = pd.DataFrame({"name": ["anna", "zoe"]}, index=["p", "q"])
    with pytest.raises(ValueError, match="no pair of 2 records is a candidate"):
        Deduplicator().fit(apart)
    with pytest.raises(TypeError, match="expected a DataFrame"):
        Deduplicator().fit([1, 2])


# ---------------------------------------------------------------------- command
def test_the_command_writes_clusters_and_pairs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    table, _ = make_duplicates(100, MIXED)
    table.rename_axis("id").to_csv("people.csv")
    assert main(["dedupe", "people.csv", "-o", "clusters.csv", "--pairs", "pairs.csv"]) == 0
    said = capsys.readouterr().err
    assert f"{len(table)} records in" in said
    out = pd.read_csv("clusters.csv", dtype=str, keep_default_na=False).set_index("id")
    found = Deduplicator().fit(table)
    label = pd.Series(found.labels_, table.index)
    assert out["cluster"].astype(int).to_dict() == label.to_dict()
    counts = label.map(label.value_counts())
    assert out["records"].astype(int).to_dict() == counts.to_dict()
    pd.testing.assert_frame_equal(
        out.loc[table.index, list(table.columns)], table, check_names=False, check_dtype=False
    )
    pairs = pd.read_csv("pairs.csv")
    assert len(pairs) == len(found.pairs_)
    assert pairs["probability"].is_monotonic_decreasing

    best = pairs.iloc[0]
    (tmp_path / "known.csv").write_text(f"left,right,checked\n{best.left},{best.right},no\n")
    assert main(["dedupe", "people.csv", "--known", "known.csv", "-o", "again.csv"]) == 0
    again = pd.read_csv("again.csv", dtype=str).set_index("id")["cluster"]
    assert again[best.left] != again[best.right]


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--size", "1"], 2, "--size: expected at least 2"),
        (["--pairs", "-"], 2, "only one of them"),
        (["-o", "people.csv"], 2, "is an input, too"),
        (["--known", "known.csv"], 1, "known.csv, row 2: the table has no id 'nobody'"),
        (["--columns", "age"], 1, "people.csv: the left table has no column 'age'"),
    ],
)
def test_wrong_options(tmp_path, monkeypatch, capsys, words, status, said):
    monkeypatch.chdir(tmp_path)
    make_people(20, random_state=0)[0].to_csv("people.csv")
    (tmp_path / "known.csv").write_text(f"left,right\n{json.dumps('nobody')},a1\n")
    assert main(["dedupe", "people.csv", *words]) == status
    assert said in capsys.readouterr().err
