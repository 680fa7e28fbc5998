"""Known links: what rows say, and which contradict each other."""

import warnings

import numpy as np
import pandas as pd
import pytest

from mlestruct.linkage.known import known_links, known_rows, read_known

LEFT, RIGHT = pd.Index(["a0", "a1", "a2"]), pd.Index(["b0", "b1"])


def table(*rows, columns=("left", "right", "checked")):
    cells = [row.split(",") for row in rows]
    return pd.DataFrame(cells, columns=list(columns)[: len(cells[0])])


def read(known):
    return known_links(read_known(known).rows, LEFT, RIGHT)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["a0,b0", "a0,b1"], "known: left id 'a0' has two partners: rows 1 and 2; .* one to one"),
        (["a0,b0", "a1,b0"], "known: right id 'b0' has two partners: rows 1 and 2"),
        (["a0,b0", ",b0"], "known: right id 'b0' has a partner and none: rows 1 and 2"),
        (["a0,b9"], "known, row 1: the right table has no id 'b9'"),
        (["z,b0"], "row 1: the left table has no id 'z'; its index begins with 'a0', 'a1'"),
        (["a0,b0,yes", "a0,b0,no"], "known: 'a0' and 'b0' are a link and none: rows 1 and 2"),
        (["a0,b0,perhaps"], "known, row 1, column 'checked': expected yes, true, .* 'perhaps'"),
    ],
)
def test_contradictions_are_refused(rows, message):
    with pytest.raises(ValueError, match=message):
        read(table(*rows))


def test_files_are_named_where_they_contradict():
    rows = known_rows(table("a0,b0"), "one.csv", 2) + known_rows(table("a0,b1"), "two.csv", 2)
    with pytest.raises(ValueError, match=r"two partners: one.csv, row 2, and two.csv, row 2;"):
        known_links(rows.rows, LEFT, RIGHT)


def test_the_same_row_may_be_there_twice():
    np.testing.assert_array_equal(read(table("a0,b1", "a0,b1")).partner, [1, -2, -2])


def test_lists_of_pairs():
    found = known_links(
        known_rows([(10, "b1"), (12, None), (None, "b0")]).rows, pd.Index([10, 11, 12]), RIGHT
    )
    np.testing.assert_array_equal(found.partner, [1, -2, -1])
    np.testing.assert_array_equal(found.alone, [True, False])


def test_sides_without_partner():
    found = read(table("a0,", ",b1", "a1,b0"))
    np.testing.assert_array_equal(found.partner, [-1, 0, -2])
    np.testing.assert_array_equal(found.alone, [False, True])
    assert found.refused.shape == (0, 2)


@pytest.mark.parametrize(
    "yes", ["yes", " Yes", "TRUE", "1", True, 1, "Y", "Ja", "j", "WAHR", "Oui", "si"]
)
@pytest.mark.parametrize("no", ["no", "False", "0", False, 0, "N", "nein", "Falsch", "NON"])
@pytest.mark.filterwarnings("ignore:known. 2 rows are not decided")
def test_checked_tells_links_from_other_pairs_and_rows_that_do_not_count(yes, no):
    cells = [("a0", "b0", no), ("a1", "b0", yes), ("a2", "b1", None), ("a2", "", None)]
    found = read(pd.DataFrame(cells, columns=["left", "right", "Checked"]))
    np.testing.assert_array_equal(found.partner, [-2, 0, -2])
    np.testing.assert_array_equal(found.refused, [[0, 0]])


@pytest.mark.filterwarnings("ignore:known. 1 rows are not decided")
def test_checked_may_be_numbers_with_gaps():
    cells = pd.DataFrame({"left": ["a0", "a1", "a2"], "right": ["b0", "b0", "b1"]})
    found = read(cells.assign(checked=[0.0, 1.0, np.nan]))
    np.testing.assert_array_equal(found.partner, [-2, 0, -2])
    np.testing.assert_array_equal(found.refused, [[0, 0]])


@pytest.mark.filterwarnings("ignore:known. 1 rows are not decided")
def test_only_decided_rows_of_answers_count_unless_they_are_checked():
    names = ("left", "right", "decision", "checked")
    rows = ("a0,b0,review,", "a1,b1,link,", "a2,,no partner,")
    np.testing.assert_array_equal(read(table(*rows, columns=names)).partner, [-2, 1, -1])
    rows = ("a0,b0,review,yes", "a1,b1,link,no", "a2,,no partner,no")  # another partner, unknown
    found = read(table(*rows, columns=names))
    np.testing.assert_array_equal(found.partner, [0, -2, -2])
    np.testing.assert_array_equal(found.refused, [[1, 1]])
    with pytest.raises(ValueError, match=r"row 1, column 'decision': expected known, .*'reject'"):
        read(table("a0,b0,reject", columns=names))


def test_columns_that_are_not_used_are_named():
    known = table("a0,b0,ja,Meier", columns=("left", "right", "result", "by"))
    with pytest.warns(UserWarning, match=r"known: every row .* not used: 'result', 'by'\."):
        known_rows(known)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        known_rows(known.assign(checked="yes"))


def test_tables_in_a_list_count_each_by_its_own_columns():
    """Rows of a list of links have no column checked; appended to a review they do not count."""
    links, review = table("a0,b1"), table("a1,b0,no").assign(probability="0.4")
    np.testing.assert_array_equal(read([links, review]).partner, [1, -2, -2])
    np.testing.assert_array_equal(read([links, review]).refused, [[1, 0]])
    np.testing.assert_array_equal(read([[("a2", "b0")], links]).partner, [1, -2, 0])
    with pytest.raises(
        ValueError, match=r"two partners: known\[0\], row 1, and known\[1\], row 1;"
    ):
        read([links, table("a2,b1")])
    joined = pd.concat([links, review, table("a2,b0,").assign(probability="0.5")])
    with pytest.warns(
        UserWarning, match=r"known: 2 rows are not decided, .* 1 of these have no"
    ) as found:
        np.testing.assert_array_equal(read(joined).partner, [-2, -2, -2])
    assert "write yes in their column 'checked', or give several" in str(found[0].message)
    with pytest.warns(UserWarning, match="known: 1 rows are not decided, and passed over$"):
        read([links, table("a2,b0,").assign(probability="0.5")])
    np.testing.assert_array_equal(read(joined.fillna({"checked": "yes"})[:2]).partner, [1, -2, -2])


def test_checked_rows_without_ids_are_refused():
    """As where tables were appended whose columns of ids have different names."""
    links, review = table("a0,b1", columns=("one", "other")), table("a1,b0,yes")
    with pytest.raises(
        ValueError, match=r"known, row 2: is checked, and has no ids in the first .* one by"
    ):
        read(pd.concat([links, review]))


def test_reviewed_pairs_are_compared_with_their_probabilities():
    """Against the tails of the exact distribution of the number of links."""
    shown = np.linspace(0.2, 0.8, 20)
    exact = np.ones(1)
    for p in shown:
        exact = np.convolve(exact, [1 - p, p])
    mean = exact @ np.arange(21)
    error = np.sqrt(exact @ (np.arange(21) - mean) ** 2)
    ids = pd.DataFrame({"left": np.arange(20), "right": np.arange(20)})
    for n_links in range(21):
        known = ids.assign(probability=shown, checked=np.where(ids["left"] < n_links, "yes", "no"))
        found = known_rows(known).reviewed()
        assert (found.pairs, found.links) == (20, n_links)
        assert found.expected == pytest.approx(mean)
        assert found.error == pytest.approx(error)
        assert bool(found.surprise()) == (abs(n_links - mean) > 3 * error)
    assert found.surprise().startswith("20 of 20 reviewed pairs are links, 10.0 were expected: ")
    comma = known.assign(probability=[f"{p:.6f}".replace(".", ",") for p in shown])
    assert known_rows(comma).reviewed().expected == pytest.approx(mean)
    assert known_rows(ids).reviewed() is None
    assert known_rows(known.assign(checked="")).reviewed() is None
    assert known_rows(known.assign(probability="?")).reviewed() is None
