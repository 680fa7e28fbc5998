"""Record linkage: candidates and comparisons against plain loops, links against the truth."""

import sys
import warnings
from datetime import date
from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import mlestruct
from mlestruct.datasets import make_people
from mlestruct.linkage import Comparison, RecordLinker
from mlestruct.linkage.comparisons import guess_comparisons
from mlestruct.linkage.examples import pair_input
from mlestruct.linkage.linker import margins
from mlestruct.linkage.records import as_records


def frame(**columns):
    table = pd.DataFrame(columns, dtype=object).astype(str)
    return table.set_axis([f"i{k}" for k in range(len(table))])


# ---------------------------------------------------------------------- comparisons
def compared(kind, pairs, **options):
    left, right = (pd.Series(list(side), dtype=object) for side in zip(*pairs, strict=True))
    comparison = Comparison("c", kind, **options)
    places = np.arange(len(pairs))
    found = comparison.features(left, right, places, places)
    names = [name.removeprefix("c: ") for name in comparison.feature_names]
    return {name: found[:, k] for k, name in enumerate(names)}


def test_text():
    found = compared("text", [("Martha", "marhta"), ("a b c", "c a"), ("x", "x"), ("", "x")])
    assert found["similarity"][0] == pytest.approx(0.9611, abs=1e-4)  # Winkler's own example
    np.testing.assert_allclose(found["common words"][1:3], 1.0)
    np.testing.assert_array_equal(found["equal"], [0, 0, 1, 0])
    assert found["equal and rare"][2] == pytest.approx(np.log(8 / 3))  # 3 of 8 cells
    np.testing.assert_array_equal(found["missing"], [0, 0, 0, 1])


def test_dates():
    pairs = [("2001-03-04", "2001-04-03"), ("2001-03-04", "2002-03-04"), ("2001-03-04", "junk")]
    found = compared("date", pairs, format="%Y-%m-%d")
    np.testing.assert_array_equal(found["day and month swapped"], [1, 0, 0])
    np.testing.assert_array_equal(found["same year"], [1, 0, 0])
    np.testing.assert_allclose(found["close"], [np.exp(-30 / 365), np.exp(-1.0), 0.0])


def test_numbers_on_the_scale_of_the_column():
    found = compared("number", [("1", "1.0"), ("3", "5"), ("x", "2")])
    np.testing.assert_allclose(found["close"], [1.0, np.exp(-2.0), 0.0])  # median deviation 1


def test_kinds_are_guessed():
    rng = np.random.default_rng(0)
    n = 60
    table = frame(
        day=[f"19{k:02d}-01-02" for k in range(n)],
        price=rng.normal(size=n).round(2),
        colour=rng.choice(["red", "blue"], size=n),
        phone=[f"0{k:07d}" for k in range(n)],
        name=[f"n{k} m" for k in range(n)],
        nothing=[""] * n,
    )
    kinds = {c.column: c.kind for c in guess_comparisons(table, table, list(table.columns))}
    assert kinds == {
        "day": "date", "price": "number", "colour": "category", "phone": "text", "name": "text",
        "nothing": "text",
    }  # fmt: skip


# ---------------------------------------------------------------------- links
@pytest.fixture(scope="module")
def linked():
    left, right, links = make_people(300, random_state=0)
    alone = pd.DataFrame({"left": left.index.difference(links["left"]), "right": ""})
    known = pd.concat([links.iloc[:100], alone.iloc[:25]])
    linker = RecordLinker().fit(left, right, known)
    return left, right, links, known, linker, linker.link(left, right)


def test_links_are_found_and_their_probabilities_hold(linked):
    _left, _right, links, known, linker, found = linked
    truth = set(links.itertuples(index=False, name=None))
    new = found.pairs[~found.pairs["left"].isin(known["left"])]
    proposed = new[new["proposed"]]
    right_ones = [pair in truth for pair in zip(proposed["left"], proposed["right"], strict=True)]
    assert np.mean(right_ones) > 0.93
    assert abs(np.mean(right_ones) - proposed["probability"].mean()) < 0.05
    assert linker.converged_
    assert linker.blocking_recall_ > 0.95


def test_one_to_one_is_better_than_pair_by_pair(linked):
    """Logistic regression on the same features, candidates and known records."""
    left, right, links, known, linker, found = linked
    rows, cols = linker._candidates(left, right)
    features = linker._features(left, right, rows, cols)
    truth = dict(links.itertuples(index=False, name=None))
    label = np.array(
        [truth.get(left.index[i]) == right.index[j] for i, j in zip(rows, cols, strict=True)]
    )
    taught = left.index[rows].isin(known["left"])
    other = LogisticRegression(max_iter=2000).fit(features[taught], label[taught])
    ours = np.clip(found.pairs["probability"].to_numpy()[~taught], 1e-9, 1 - 1e-9)
    theirs = other.predict_proba(features[~taught])[:, 1]
    assert log_loss(label[~taught], ours) < log_loss(label[~taught], theirs)


def test_answers_are_consistent(linked):
    left, right, _, _, _, found = linked
    pairs = found.pairs
    assert pairs["proposed"].groupby(pairs["left"]).sum().max() == 1
    assert pairs["proposed"].groupby(pairs["right"]).sum().max() == 1
    sums = pairs.groupby("left")["probability"].sum().reindex(left.index, fill_value=0.0)
    np.testing.assert_allclose(sums + found.single_left, 1.0, atol=1e-9)
    assert (found.single_right >= 0).all()
    assert len(found.single_right) == len(right)
    queue = (found.review_queue["probability"] - 0.5).abs().to_numpy()
    assert (np.diff(queue) >= 0).all()
    table = found.thresholds((0.0, 0.5, 0.99))
    assert table["expected_precision"].is_monotonic_increasing
    assert table["expected_recall"].is_monotonic_decreasing


def test_a_higher_precision_proposes_fewer_links(linked):
    left, right, _, _, linker, found = linked
    usual = found.proposed["probability"]
    wanted = (usual.mean() + 1.0) / 2.0
    fewer = linker.link(left, right, precision=wanted).proposed["probability"]
    assert fewer.mean() >= wanted
    assert 0 < fewer.size < usual.size


def test_margins_against_loops():
    rng = np.random.default_rng(0)
    keys = rng.choice(48, size=20, replace=False)
    rows, cols, chance = keys // 8, keys % 8, rng.random(20).round(1)  # with ties
    for k, found in enumerate(margins(rows, cols, chance)):
        rivals = [
            chance[j] for j in range(20) if j != k and (rows[j] == rows[k] or cols[j] == cols[k])
        ]
        assert found == pytest.approx(chance[k] - max(rivals, default=0.0))


def test_saved_linkers_link_the_same(linked, tmp_path):
    left, right, _, _, linker, found = linked
    linker.save(tmp_path / "model.mls")
    again = mlestruct.load(tmp_path / "model.mls").link(left, right)
    pd.testing.assert_frame_equal(again.pairs, found.pairs)


def test_contributions_sum_to_the_score(linked):
    left, right, links, _, linker, _ = linked
    some = links.iloc[:5]
    terms = linker.contributions(left, right, some)
    assert list(terms.columns) == list(linker.feature_names_in_)
    rows, cols = linker._candidates(left, right)
    features = linker._features(left, right, rows, cols)
    for k, (one, other) in enumerate(zip(some["left"], some["right"], strict=True)):
        place = np.flatnonzero((left.index[rows] == one) & (right.index[cols] == other))
        if place.size:
            np.testing.assert_allclose(terms.iloc[k], features[place[0]] * linker.coef_)
    with pytest.raises(ValueError, match="pairs: there is no id 'nobody', in column 'left'"):
        linker.contributions(left, right, some.assign(left="nobody"))


def test_tables_of_other_kinds_are_refused():
    with pytest.raises(TypeError, match="right: expected a DataFrame of pandas, got list"):
        RecordLinker().fit(pd.DataFrame({"name": ["x"]}), [{"name": "x"}], [(0, 0)])


@pytest.mark.parametrize(
    "call",
    [lambda: make_people(5), lambda: RecordLinker().fit([], [], [])],
    ids=["make_people", "fit"],
)
def test_without_pandas_they_say_how_to_get_it(call, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install 'mlestruct\[link\]'"):
        call()


def test_refused_pairs_are_no_candidates(linked):
    left, right, _, _, linker, found = linked
    one, other = found.proposed.iloc[0][["left", "right"]]
    known = pd.DataFrame({"left": [one], "right": [other], "checked": ["no"]})
    given = linker.link(left, right, known=known)
    assert not ((given.pairs["left"] == one) & (given.pairs["right"] == other)).any()
    assert len(given.pairs) == len(found.pairs) - 1
    before, after = (links.single_left[one] for links in (found, given))
    assert after > before + 0.5  # what the pair had goes to the rest
    rows, cols = linker._candidates(left, right)  # the estimator, told that the pair is none
    x = pair_input(rows, cols, linker._features(left, right, rows, cols), (len(left), len(right)))
    none = np.full((len(left), len(right)), np.nan)
    none[left.index.get_loc(one), right.index.get_loc(other)] = 0.0
    wanted = linker._fitted().predict_links([x], "f1", known=[none])[0]["probability"].to_numpy()
    kept = ~((left.index[rows] == one) & (right.index[cols] == other))
    np.testing.assert_allclose(given.pairs["probability"], wanted[kept], atol=1e-6)


def test_refused_pairs_of_records_without_a_known_partner_are_not_learned_from(linked):
    left, right, links, known, _, _ = linked
    stranger = links.iloc[150]["left"], links.iloc[151]["right"]
    settled = known.iloc[0]["left"], known.iloc[1]["right"]  # as known by the links already
    more = pd.DataFrame([stranger, settled], columns=["left", "right"]).assign(checked="no")
    both = pd.concat([known.assign(checked="yes"), more])
    coef = [RecordLinker(alpha=1.0).fit(left, right, one).coef_ for one in (known, both)]
    np.testing.assert_array_equal(*coef)


def test_right_records_known_to_have_no_partner_get_none(linked):
    left, right, _, _, linker, found = linked
    one = found.proposed["right"].iloc[0]
    given = linker.link(left, right, known=pd.DataFrame({"left": [""], "right": [one]}))
    assert one not in given.pairs["right"].tolist()
    assert given.single_right[one] == 1.0


def test_ids_that_are_no_longer_the_index_are_asked_for(linked, tmp_path):
    left, right, _, _, linker, _ = linked
    linker.save(tmp_path / "model.mls")
    for model in (linker, mlestruct.load(tmp_path / "model.mls")):
        with pytest.raises(
            ValueError, match=r"left: its index is \[0, 1, 2\], .*set_index\('id'\)"
        ):
            model.link(left.reset_index(), right)
        with pytest.raises(ValueError, match=r"right: its index is .* not ids as in `fit`"):
            model.link(left, right.reset_index(drop=True))
        with pytest.raises(ValueError, match=r"left: its index is .*set_index\('id'\)"):
            model.link(left.reset_index().set_index("street", drop=False)[:1], right)
        model.link(left.rename_axis(None), right.rename_axis("key"))


def test_answers_that_contradict_the_probabilities_are_told():
    """A person finds pairs to be links that the model had all but excluded."""
    left, right, links = make_people(300, random_state=0)
    known = links.iloc[:60]
    review = links.iloc[60:100].assign(checked="yes", probability=0.5)
    with pytest.warns(UserWarning, match="known: 40 of 40 reviewed pairs are links, 20"):
        RecordLinker(alpha=0.1).fit(left, right, [known, review])
    mended = review.assign(probability=0.95)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RecordLinker(alpha=0.1).fit(left, right, [known, mended])


def test_tables_without_candidate_pairs(linked):
    left, right, _, _, linker, _ = linked
    found = linker.link(left.iloc[:3].map(lambda cell: ""), right)
    assert len(found.pairs) == 0
    assert found.single_left.tolist() == [1.0, 1.0, 1.0]


def test_given_dates_have_the_format_of_most_values_and_given_kinds_some_value():
    days = [
        date(1980, 1, 31),
        date(1980, 1, 2),
        date(1979, 2, 1),
        date(1980, 2, 1),
        date(1700, 3, 3),
    ]
    table = pd.DataFrame({"born": [f"{one:%d.%m.%Y}" for one in days]})
    (found,) = guess_comparisons(table, table, ["born"], {"born": "date"})
    assert (found.kind, found.format) == ("date", "%d.%m.%Y")
    rows, cols = (places.ravel() for places in np.indices((5, 5)))
    features = found.features(table["born"], table["born"], rows, cols)
    for k, (one, other) in enumerate(product(days, days)):
        swapped = one.year == other.year and (one.month, one.day) == (other.day, other.month)
        close = np.exp(-abs((one - other).days) / 365)
        wanted = [close, one == other, one.year == other.year, swapped and one != other, 0]
        np.testing.assert_allclose(features[k], np.array(wanted, dtype=float))
    for kind in ("date", "number"):
        words = pd.DataFrame({"born": ["", "spring"]})
        with pytest.raises(ValueError, match=f"'born' is a {kind}: 'spring'"):
            guess_comparisons(words, words, ["born"], {"born": kind})


def test_bad_parameters_are_named():
    left, right, links = make_people(30, random_state=0)
    with pytest.raises(ValueError, match="no column 'phone'"):
        RecordLinker(columns=["phone"]).fit(left, right, links)
    with pytest.raises(ValueError, match="kinds: there is no column 'phone'"):
        RecordLinker(kinds={"phone": "text"}).fit(left, right, links)
    with pytest.raises(ValueError, match="kind of column 'town'"):
        RecordLinker(kinds={"town": "city"}).fit(left, right, links)
    with pytest.raises(ValueError, match="columns: expected at least one"):
        RecordLinker(columns=[]).fit(left, right, links)
    twice = RecordLinker(columns=["town", "town"], alpha=1.0).fit(left, right, links)
    assert [one.column for one in twice.comparisons_] == ["town"]
    with pytest.raises(ValueError, match="`neighbours` must be a whole number of at least 1; got 0"):
        RecordLinker(neighbours=0).fit(left, right, links)
    with pytest.raises(ValueError, match="alpha: expected a number or .auto., got .all."):
        RecordLinker(alpha="all").fit(left, right, links)
    with pytest.raises(ValueError, match="no column in common"):
        RecordLinker().fit(left[["town"]], right[["birth"]], links)


def test_typed_tables_are_linked_as_their_text():
    left, right, links = make_people(60, random_state=0)
    known = links.iloc[:30]
    tables = [left.assign(size=range(60)), right.assign(size=range(60))]
    typed = [table.replace("", None).set_axis(range(60)) for table in tables]
    numbers = pd.DataFrame(
        {
            "left": left.index.get_indexer(known["left"]),
            "right": right.index.get_indexer(known["right"]),
        }
    )
    numbers.loc[30] = [np.nan, right.index.get_loc(links["right"].iloc[40])]
    plain = RecordLinker(alpha=1.0).fit(*(table.astype(str) for table in tables), known)
    found = RecordLinker(alpha=1.0).fit(*typed, numbers)
    np.testing.assert_array_equal(found.coef_, plain.coef_)
    pairs = found.link(*typed).pairs
    np.testing.assert_array_equal(pairs["probability"], plain.link(*tables).pairs["probability"])
    with pytest.raises(ValueError, match="right: id 5 occurs twice"):
        found.link(typed[0], typed[1].set_axis([5, *range(59)]))
    with pytest.raises(ValueError, match="left: column 'size' occurs twice"):
        found.link(typed[0][["size", "size"]], typed[1])


def test_numbers_and_dates_are_equal_however_they_are_written():
    left, right = (pd.DataFrame({"a": a}, dtype=str) for a in (["1.0", "x", "7"], ["01", "x", "8"]))
    places = np.arange(3)
    equal = Comparison("a", "number").features(left["a"], right["a"], places, places)[:, 1]
    np.testing.assert_array_equal(equal, [1, 0, 0])  # x is not a number: missing
    days = pd.Series(["1.2.1980"]), pd.Series(["01.02.1980"])
    found = Comparison("a", "date", "%d.%m.%Y").features(*days, places[:1], places[:1])
    np.testing.assert_array_equal(found, [[1, 1, 1, 0, 0]])


def test_a_model_keeps_the_scale_of_its_numbers(tmp_path):
    left, right, links = make_people(60, random_state=0)
    rng = np.random.default_rng(0)
    left, right = (table.assign(size=rng.normal(170, 10, 60)) for table in (left, right))
    RecordLinker(alpha=1.0).fit(left, right, links.iloc[:30]).save(tmp_path / "model.mls")
    linker = mlestruct.load(tmp_path / "model.mls")
    sizes = np.concatenate([left["size"], right["size"]])
    scale = np.median(np.abs(sizes - np.median(sizes)))
    one, other = links.iloc[40]
    weight = linker.named_coef()["size: close"]
    for apart in (1.0, 100.0):  # in tables of one row, whose own scale is half of this
        tables = left.loc[[one]].assign(size=170.0), right.loc[[other]].assign(size=170.0 + apart)
        terms = linker.contributions(*tables, pd.DataFrame({"left": [one], "right": [other]}))
        np.testing.assert_allclose(terms["size: close"], weight * np.exp(-apart / scale))


def test_letters_with_accents_are_the_same_in_one_sign_or_two():
    one, two = ("Jos\u00e9 M\u00fcller", "Jose\u0301 Mu\u0308ller")
    table = as_records(pd.DataFrame({"name": [one, two]}), "table")
    assert table["name"].nunique() == 1
    assert as_records(table, "table").equals(table)


def test_columns_that_are_empty_in_both_tables_are_left_out_and_named():
    left, right, links = make_people(120, random_state=0)
    plain = RecordLinker(alpha=0.1).fit(left, right, links)
    for empty in ("", None, "  "):
        tables = [table.assign(notes=empty) for table in (left, right)]
        with pytest.warns(UserWarning, match="not compared, empty in both tables: notes"):
            found = RecordLinker(alpha=0.1).fit(*tables, links)
        assert found.feature_names_in_.tolist() == plain.feature_names_in_.tolist()
        np.testing.assert_array_equal(found.coef_, plain.coef_)
    one_side = RecordLinker(alpha=0.1).fit(left.assign(notes=""), right.assign(notes="x"), links)
    assert any(name.startswith("notes") for name in one_side.feature_names_in_)
    with pytest.raises(ValueError, match="columns: all are empty in both tables: notes"):
        RecordLinker(columns=["notes"]).fit(*tables, links)
