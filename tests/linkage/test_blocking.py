"""Candidate pairs against plain loops, and against ranking all records of the other table."""

from collections import Counter
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from mlestruct.datasets import make_people
from mlestruct.linkage import _blocking_kernels as kernels
from mlestruct.linkage import candidate_pairs
from mlestruct.linkage.blocking import FEW, READERS, CommonTokens
from mlestruct.linkage.comparisons import distinct
from mlestruct.linkage.text import normal

KINDS = {"birth": "date"}


def frame(**columns):
    table = pd.DataFrame(columns, dtype=object).astype(str)
    return table.set_axis([f"i{k}" for k in range(len(table))])


def as_set(pairs):
    return set(zip(*map(np.ndarray.tolist, pairs), strict=True))


def true_pairs(left, right, links):
    rows, cols = left.index.get_indexer(links["left"]), right.index.get_indexer(links["right"])
    return set(zip(rows.tolist(), cols.tolist(), strict=True))


# ---------------------------------------------------------------------- rules
@pytest.mark.parametrize("rules", [["a", "b"], [["a", "b"]], [["a", "b"], "c"]])
def test_rules_compare_what_agrees(rules):
    rng = np.random.default_rng(0)
    left, right = (
        frame(
            a=rng.choice(["x", "Y ", ""], size=n),
            b=rng.choice(list("pqrs"), size=n),
            c=rng.choice(list("uvwxyz"), size=n),
        )
        for n in (30, 25)
    )

    def agree(i, j):
        one, other = left.iloc[i].str.strip().str.lower(), right.iloc[j].str.strip().str.lower()
        each = [[rule] if isinstance(rule, str) else rule for rule in rules]
        return any(all(one[c] == other[c] != "" for c in rule) for rule in each)

    wanted = {(i, j) for i in range(30) for j in range(25) if agree(i, j)}
    assert as_set(candidate_pairs(left, right, rules)) == wanted


def test_a_rule_that_makes_too_many_pairs_is_refused_before_it_makes_them():
    left = frame(town=["york"] * 3_000, id=map(str, range(3_000)))
    with pytest.raises(ValueError, match=r"town makes 9,000,000, the value 'york' alone 9,000,000"):
        candidate_pairs(left, left, ["town"])
    assert candidate_pairs(left, left, [["town", "id"]])[0].size == 3_000


# ---------------------------------------------------------------------- tokens
def test_common_words_find_the_nearest_records():
    left = frame(name=["anna maria kerr", "bob lee", "carl kerr", ""])
    right = frame(name=["lee bob", "kerr anna", "zoe"])
    pairs = as_set(candidate_pairs(left, right, neighbours=1))
    assert {(0, 1), (1, 0)} <= pairs
    assert not {i for i, _ in pairs} & {3}  # nothing to compare
    assert not {j for _, j in pairs} & {2}


def test_names_in_swapped_columns_are_found():
    left = frame(first=["Anna", "Bob"], last=["Kerr", "Lee"])
    right = frame(first=["Lee", "Kerr"], last=["Bob", "Anna"])
    assert {(0, 1), (1, 0)} <= as_set(candidate_pairs(left, right, neighbours=1))


def test_frequent_words_count_together():
    """100 given names times 100 surnames, each in 100 records: only both together are rare."""
    names = [(f"given{a:02d}", f"sur{b:02d}") for a in range(100) for b in range(100)]
    left = frame(given=[a for a, _ in names], surname=[b for _, b in names])
    order = np.random.default_rng(0).permutation(len(left))
    right = left.iloc[order].set_axis(left.index)
    place = np.argsort(order)
    pairs = as_set(candidate_pairs(left, right, neighbours=3))
    assert all((i, int(place[i])) in pairs for i in range(len(left)))


@pytest.mark.parametrize("neighbours", [3, 6])
def test_every_record_chooses_at_most_its_number_of_neighbours(neighbours):
    left, right, _ = make_people(200, random_state=0)
    rows, cols = candidate_pairs(left, right, neighbours=neighbours)
    assert rows.size <= neighbours * (len(left) + len(right))
    swapped = as_set(candidate_pairs(right, left, neighbours=neighbours)[::-1])
    assert abs(len(as_set((rows, cols)) ^ swapped)) <= 0.02 * rows.size  # ties only


def test_slices_and_threads_do_not_change_the_candidates(monkeypatch):
    left, right, _ = make_people(150, random_state=1)
    whole = candidate_pairs(left, right, kinds=KINDS)
    monkeypatch.setattr("mlestruct.linkage.blocking.SLICE", 7)
    for n_jobs in (1, 3):
        found = candidate_pairs(left, right, n_jobs=n_jobs, kinds=KINDS)
        for one, other in zip(whole, found, strict=True):
            np.testing.assert_array_equal(one, other)


def test_tables_without_records_have_no_candidates():
    left, right, _ = make_people(20, random_state=0)
    for one, other in ((left[:0], right), (left, right[:0]), (left[:0], right[:0])):
        assert all(side.size == 0 for side in candidate_pairs(one, other))
        assert all(side.size == 0 for side in candidate_pairs(one, other, ["surname"]))


def all_tokens(table):
    """The set of (column, token) of each record."""
    readers = [READERS[KINDS.get(name, "text")] for name in table.columns]
    return [
        {(c, t) for c, (v, read) in enumerate(zip(record, readers, strict=True)) if v
         for t, _ in read(v, f"{c}=")}
        for record in table.itertuples(index=False, name=None)
    ]  # fmt: skip


def exhaustive(left, right, links, count):
    """The share of links whose right record is among the best ones, all records being ranked."""
    sides = [all_tokens(table) for table in (left, right)]
    total = Counter(t for side in sides for one in side for t in {token for _, token in one})
    weight = {t: np.log((1 + len(left) + len(right)) / n) for t, n in total.items()}
    holders = {}
    for j, one in enumerate(sides[1]):
        for t in {token for _, token in one}:
            holders.setdefault(t, []).append(j)
    hits = 0
    for i, mate in true_pairs(left, right, links):
        scores = np.zeros(len(right))
        for c in range(left.shape[1]):
            best = np.zeros(len(right))
            for t in (token for column, token in sides[0][i] if column == c):
                at = holders.get(t, [])
                best[at] = np.maximum(best[at], weight[t])
            scores += best
        hits += np.count_nonzero(scores > scores[mate]) < count
    return hits / len(links)


@pytest.mark.parametrize("n_people", [500, 3_000])
def test_recall_is_near_that_of_ranking_all_records(n_people):
    left, right, links = make_people(n_people, random_state=0)
    rows, cols = candidate_pairs(left, right, kinds=KINDS)
    assert rows.size <= 15 * n_people
    truth = true_pairs(left, right, links)
    recall = len(truth & as_set((rows, cols))) / len(truth)
    assert recall >= 0.99
    some = links.sample(300, random_state=0)
    assert recall >= exhaustive(left, right, some, 10) - 0.01


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_best_of_all_records(n_jobs):
    left, right, links = make_people(800, errors=0.4, random_state=1)
    columns = [
        (*distinct(normal, [left[name], right[name]]), KINDS.get(name, "text"))
        for name in left.columns
    ]
    some = links.sample(200, random_state=0)
    truth = true_pairs(left, right, some)
    asked = np.sort([i for i, _ in truth])
    found = as_set(CommonTokens.of(columns, len(left)).nearest(asked, 3, n_jobs))
    assert len(found) == 3 * len(asked)
    assert abs(len(truth & found) / 200 - exhaustive(left, right, some, 3)) <= 0.02  # ties


# ---------------------------------------------------------------------- kernels
def test_keys_are_rare_tokens_pairs_and_triples_of_frequent_ones():
    tokens = np.array([2, 3, 5, 7, 8], dtype=np.int32)
    words = np.array([0, 1, 16, 17, 31], dtype=np.int16)  # columns 0, 0, 1, 1, and all of 1
    frequent = np.array([0, 0, 1, 0, 0, 1, 0, 1, 1], dtype=bool)  # 3 is rare
    out = np.empty(kernels.MOST_KEYS, dtype=np.uint64)

    def keys(crowded):
        return set(out[: kernels.keys_of(tokens, words, 5, frequent, crowded, out)].tolist())

    apart = {frozenset(p) for p in combinations((2, 5, 7, 8), 2)} - {
        frozenset((5, 8)),
        frozenset((7, 8)),
    }
    alone = keys(np.zeros(2**16, dtype=bool))
    assert len(alone) == 1 + len(apart)
    crowded = np.ones(2**16, dtype=bool)  # 2, 5, 7 is the only triple of different words
    assert len(keys(crowded)) == 2
    assert len(keys(crowded) & alone) == 1  # the rare token


def test_tokens_are_the_rarest_ones_once_each():
    rng = np.random.default_rng(0)
    starts = np.concatenate([[0], np.cumsum(rng.integers(0, 9, size=50))])
    tokens = rng.integers(0, 12, size=starts[-1]).astype(np.int32)
    words = rng.integers(0, 40, size=starts[-1]).astype(np.int16)
    frequency, useful = rng.permutation(12), rng.random(12) < 0.8
    kept, origin, sizes = kernels.rarest(starts, tokens, words, frequency, useful, 3)
    for i in range(50):
        own = slice(starts[i], starts[i + 1])
        wanted = sorted({t for t in tokens[own].tolist() if useful[t]}, key=lambda t: frequency[t])
        assert kept[i, : sizes[i]].tolist() == sorted(wanted[:3])
        pairs = set(zip(tokens[own].tolist(), words[own].tolist(), strict=True))
        chosen = kept[i, : sizes[i]].tolist(), origin[i, : sizes[i]].tolist()
        assert set(zip(*chosen, strict=True)) <= pairs


def test_more_records_than_share_a_key_are_told_apart_by_further_tokens():
    n = 5 * FEW
    left = frame(given=["anna"] * n, surname=["kerr"] * n, town=[f"town{k}" for k in range(n)])
    pairs = as_set(candidate_pairs(left, left, neighbours=1))
    assert {(k, k) for k in range(n)} <= pairs
