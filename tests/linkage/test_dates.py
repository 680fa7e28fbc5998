"""Dates in tables that write them differently, against the same tables with one format."""

import warnings
from datetime import date

import numpy as np
import pandas as pd
import pytest

import mlestruct
from mlestruct.datasets import make_people
from mlestruct.linkage import Comparison, RecordLinker, guess_comparisons
from mlestruct.linkage.dates import FORMATS, choose_formats, read_days


def written(column, pattern):
    """ISO dates in another format; empty cells stay empty."""
    return column.map(lambda cell: f"{date.fromisoformat(cell):{pattern}}" if cell else "")


@pytest.fixture(scope="module")
def people():
    left, right, links = make_people(80, random_state=0)
    alone = pd.DataFrame({"left": left.index.difference(links["left"])[:8], "right": ""})
    known = pd.concat([links.iloc[:40], alone])
    return left, right, known, RecordLinker(alpha=1.0).fit(left, right, known)


@pytest.mark.parametrize("pattern", FORMATS)
def test_all_formats_are_read(pattern):
    days = [date(1931, 5, 15), date(2004, 2, 29), date(1980, 12, 1)]
    texts = np.array([f"{day:{pattern}}" for day in days], dtype=object)
    wanted = [(day - date(1970, 1, 1)).days for day in days]
    np.testing.assert_array_equal(read_days(texts, pattern), wanted)
    assert choose_formats("day", [texts, texts]) == (pattern, pattern)


@pytest.mark.parametrize("block", [(), ("birth",)])
def test_each_table_may_have_its_format(people, block):
    left, right, known, _ = people
    plain = RecordLinker(alpha=1.0, block=block).fit(left, right, known)
    typed = pd.to_datetime(right["birth"].replace("", None))
    for other in (typed, written(right["birth"], "%m/%d/%Y")):
        tables = left.assign(birth=written(left["birth"], "%d.%m.%Y")), right.assign(birth=other)
        found = RecordLinker(alpha=1.0, block=block).fit(*tables, known)
        np.testing.assert_allclose(found.coef_, plain.coef_, rtol=1e-9, atol=1e-12)
        assert found.comparisons_[-1].formats[0] == "%d.%m.%Y"
        pairs, wanted = found.link(*tables).pairs, plain.link(left, right).pairs
        np.testing.assert_array_equal(pairs["probability"], wanted["probability"])
    assert str(found.comparisons_[-1]) == "birth (date DD.MM.YYYY and MM/DD/YYYY)"


def test_a_model_reads_the_formats_of_new_tables(people, tmp_path):
    left, right, _, linker = people
    linker.save(tmp_path / "model.mls")
    tables = left.assign(birth=written(left["birth"], "%d/%m/%Y")), right
    found = mlestruct.load(tmp_path / "model.mls").link(*tables).pairs
    np.testing.assert_array_equal(
        found["probability"], linker.link(left, right).pairs["probability"]
    )


def test_cells_that_are_no_dates_are_missing_and_named_where_they_are_many(people):
    left, right, _, linker = people
    days = pd.Series(["1957-12-32", "1957-12-31", ""]), pd.Series(["1957-12-31"] * 3)
    found = Comparison("birth", "date").features(*days, np.arange(3), np.arange(3))
    np.testing.assert_array_equal(found, [[0, 0, 0, 0, 1], [1, 1, 1, 0, 0], [0, 0, 0, 0, 1]])
    birth = right["birth"].copy()
    birth.iloc[:20] = "spring"
    share = 100 * 20 / (birth != "").sum()
    message = f"column 'birth' of the right table: {share:.1f} % .* YYYY-MM-DD, such as 'spring'"
    with pytest.warns(UserWarning, match=message):
        linker.link(left, right.assign(birth=birth))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        linker.link(left, right.assign(birth=birth.mask(birth == "spring", "")))


def test_columns_with_dates_in_one_table_only_are_named(people):
    left, right, *_ = people
    words = right.assign(birth=written(right["birth"], "%B %d %Y"))
    with pytest.warns(UserWarning, match=r"'birth' .* in the right one 100.0 % .* as text"):
        kinds = guess_comparisons(left, words, ["birth"])
    assert kinds[0].kind == "text"


def test_day_and_month_are_told_apart_by_the_other_table():
    rng = np.random.default_rng(0)
    days = [date(*map(int, day)) for day in rng.integers([1930, 1, 1], [2000, 13, 13], (60, 3))]

    def texts(pattern):
        return np.array([f"{day:{pattern}}" for day in days], dtype=object)

    for pattern in ("%d/%m/%Y", "%m/%d/%Y"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            sides = [texts(pattern), texts("%Y-%m-%d")]
            assert choose_formats("day", sides) == (pattern, "%Y-%m-%d")
            assert choose_formats("day", sides[::-1]) == ("%Y-%m-%d", pattern)
            both = [texts(pattern)] * 2  # a model that knows
            assert choose_formats("day", both, (pattern, pattern)) == (pattern, pattern)
        with pytest.warns(UserWarning, match="'day' of the left table: day and month cannot be"):
            assert choose_formats("day", both) == ("%d/%m/%Y", "%d/%m/%Y")
    later = [f"{date(2001, 1, k):%m/%d/%Y}" for k in range(1, 29)]  # days above 12 decide
    sides = [np.array(later, dtype=object), texts("%d/%m/%Y")]
    assert choose_formats("day", sides)[0] == "%m/%d/%Y"
