"""Matchers on tables as they come: typed columns, missing cells, ids of any type."""

import numpy as np
import pandas as pd
import pytest

from mlestruct.pairing import GroupMatcher, SideMatcher


@pytest.fixture
def group():
    rng = np.random.default_rng(0)
    people = pd.DataFrame(
        {"year": [2020] * 8 + [2021] * 6, "noise": rng.integers(1, 4, 14).astype(float)},
        index=100 + np.arange(14),
    )
    people.loc[103, "noise"] = np.nan
    return people, pd.DataFrame({"a": [100, 102, 104, 106], "b": [101, 103, 105, 107]})


def test_typed_tables_are_matched_as_their_text(group):
    people, pairs = group
    text = people.astype("Int64").astype(str).where(people.notna(), "")
    text = text.map(lambda cell: f" {cell}").set_axis(people.index.astype(str))
    typed, plain = GroupMatcher("year", alpha=1.0), GroupMatcher("year", alpha=1.0)
    typed.fit(people, pairs)
    plain.fit(text, pairs.astype(str))
    np.testing.assert_array_equal(typed.coef_, plain.coef_)
    found, wanted = typed.match(people).pairs, plain.match(text).pairs
    assert found["left"].astype(str).tolist() == wanted["left"].tolist()
    np.testing.assert_array_equal(found["probability"], wanted["probability"])


def test_tables_that_cannot_be_matched_are_named(group):
    people, pairs = group
    with pytest.raises(ValueError, match="people: id 100 occurs twice"):
        GroupMatcher().fit(people.set_axis([100, *people.index[:-1]]), pairs)
    with pytest.raises(ValueError, match="group: there is no column 'term'"):
        GroupMatcher("term").fit(people, pairs)
    with pytest.raises(ValueError, match="group: id 108 has none in 'year'"):
        GroupMatcher("year").fit(
            people.assign(year=people["year"].where(people.index != 108)), pairs
        )


def test_two_typed_sides():
    papers = pd.DataFrame({"topic": [1, 2, 1, 2, 1]})
    people = pd.DataFrame({"topic": [1, 2, None], "load": [3, 2.0, 1]}, index=[7, 8, 9])
    pairs = pd.DataFrame({"paper": [0, 1, 2, 3], "reviewer": [7, 8, 7, 8]})
    matcher = SideMatcher(capacity="load", alpha=1.0).fit(papers, people, pairs)
    found = matcher.match(papers, people).pairs.query("proposed")
    assert found["right"].tolist()[:2] == [7, 8]


def test_partners_that_people_have_are_within_their_capacity():
    papers, people = (
        pd.DataFrame({"topic": [1, 2, 1]}),
        pd.DataFrame({"topic": [1, 2], "load": [2, 2]}),
    )
    pairs = pd.DataFrame({"paper": [0, 1, 2], "reviewer": [0, 1, 0]})
    matcher = SideMatcher(capacity="load", alpha=1.0).fit(papers, people, pairs)
    with pytest.raises(ValueError, match="used: id 1 has 3 partners, it should have at most 2"):
        matcher.match(papers, people, used=np.array([0, 3]))


def test_columns_that_are_named_must_be_questions():
    papers = pd.DataFrame({"topic": [1, 2, 1]})
    people = pd.DataFrame({"topic": [1, 2], "name": ["only one"] * 2})
    pairs = pd.DataFrame({"paper": [0, 1], "reviewer": [0, 1]})
    SideMatcher(alpha=1.0).fit(papers, people, pairs)
    with pytest.raises(ValueError, match="column 'name' has 1 different answers"):
        SideMatcher(columns=["topic", "name"], alpha=1.0).fit(papers, people, pairs)


def test_the_chance_of_no_partner_is_not_told_where_there_may_be_several():
    papers = pd.DataFrame({"topic": [1, 2, 1], "wanted": [2, 2, 1]})
    people = pd.DataFrame({"topic": [1, 2, 1]})
    pairs = pd.DataFrame({"paper": [0, 1], "reviewer": [0, 1]})
    matcher = SideMatcher(left_capacity="wanted", singles=True, alpha=1.0)
    alone = matcher.fit(papers, people, pairs).match(papers, people).single_left
    assert alone.isna().tolist() == [True, True, False]


def test_contributions_of_ids_that_are_not_there_are_refused(group):
    people, pairs = group
    matcher = GroupMatcher("year", alpha=1.0).fit(people, pairs)
    some = pd.DataFrame({"left": [100, 100], "right": [101, 1]})
    with pytest.raises(ValueError, match="pairs: there is no id 1, in column 'right'"):
        matcher.contributions(people, some)


def test_columns_may_be_numbers():
    """Positions of questions are not confused with their names."""
    rng = np.random.default_rng(0)
    people = pd.DataFrame(
        {"town": rng.choice(["x", "y"], 16), "noise": rng.integers(1, 4, 16), "rest": [1, 2] * 8}
    )
    pairs = pd.DataFrame({"a": range(0, 16, 2), "b": range(1, 16, 2)})
    named = GroupMatcher(alpha=1.0).fit(people, pairs)
    numbered = GroupMatcher(alpha=1.0).fit(people.set_axis([1, 2, 0], axis=1), pairs)
    np.testing.assert_array_equal(named.coef_, numbered.coef_)
