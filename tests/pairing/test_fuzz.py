"""Any tables of people give proposed pairs, or an error that names the table."""

import numpy as np
import pytest
from changed_arrays import answer, frames_like, fuzzed, options_from
from hypothesis import given
from hypothesis import strategies as st

from mlestruct.pairing import GroupMatcher, SideMatcher, guess_questions

pandas = pytest.importorskip("pandas")
RNG = np.random.default_rng(0)
PEOPLE = pandas.DataFrame(
    {
        "noise": RNG.integers(1, 4, 16),
        "town": RNG.choice(["a", "b"], 16),
        "age": RNG.normal(size=16),
        "places": [1] * 16,
    },
    index=[f"p{k}" for k in range(16)],
)
PAIRS = pandas.DataFrame({"a": PEOPLE.index[::2], "b": PEOPLE.index[1::2]})
LEFT, RIGHT = PEOPLE.iloc[:8].add_prefix("own "), PEOPLE.iloc[8:]
SIDES = pandas.DataFrame({"a": LEFT.index, "b": RIGHT.index})
NAMES = ("table", "left", "right", "people", "pairs", "column", "group", "kind", "row")
SHARED = {
    "columns": [None, ["noise"], ["nothing"], [], "noise", 3],
    "kinds": [None, {"noise": "ordinal"}, {"noise": "x"}, {"x": "ordinal"}, ["x"], 3],
    "singles": [True, False, "x", None],
    "alpha": [1.0, -1.0, np.nan, "x", None, True],
    "random_state": [0, -1, "x", None],
}
GROUP = {"group": [None, "town", "nothing", 3], **SHARED}
CAPACITIES = [1, 2, 0, -1, 2.5, "places", "nothing", None, True]
SIDE = {"capacity": CAPACITIES, "left_capacity": CAPACITIES, "singles": SHARED["singles"]}
GROUP_MODEL = GroupMatcher(alpha=1.0).fit(PEOPLE, PAIRS)
SIDE_MODEL = SideMatcher(alpha=1.0).fit(LEFT, RIGHT, SIDES)
TOP = st.sampled_from([1, 5, 0, -1, 2.5, "x", None, True, 100])


def check(found):
    if found is not None:
        assert found.pairs["probability"].between(-1e-9, 1.0 + 1e-9).all()


@fuzzed
@given(people=frames_like(PEOPLE), pairs=frames_like(PAIRS), options=options_from(GROUP),
       which=st.integers(0, 2))  # fmt: skip
def test_group(people, pairs, options, which):
    tables = [people if which == 0 else PEOPLE, pairs if which == 1 else PAIRS]
    options = options if which == 2 else {}
    model = GroupMatcher(**{"alpha": 1.0, "tol": 0.1, **options})
    found = answer(model.fit, *tables, names=(*NAMES, *GROUP))
    assert found is None or np.isfinite(found.coef_).all()


@fuzzed
@given(left=frames_like(LEFT), right=frames_like(RIGHT), pairs=frames_like(SIDES),
       options=options_from(SIDE), which=st.integers(0, 3))  # fmt: skip
def test_sides(left, right, pairs, options, which):
    tables = [LEFT, RIGHT, SIDES]
    if which < 3:
        tables[which] = [left, right, pairs][which]
        options = {}
    model = SideMatcher(**{"alpha": 1.0, "tol": 0.1, **options})
    found = answer(model.fit, *tables, names=(*NAMES, *SIDE))
    assert found is None or np.isfinite(found.coef_).all()


@fuzzed
@given(people=frames_like(PEOPLE), right=frames_like(RIGHT), top=TOP)
def test_matches(people, right, top):
    check(answer(GROUP_MODEL.match, people, top, names=NAMES))
    check(answer(SIDE_MODEL.match, LEFT, right, top, names=NAMES))


@fuzzed
@given(pairs=frames_like(SIDES.set_axis(["left", "right"], axis=1)))
def test_contributions(pairs):
    answer(SIDE_MODEL.contributions, LEFT, RIGHT, pairs, names=NAMES)
    answer(GROUP_MODEL.contributions, PEOPLE, pairs, names=NAMES)


@fuzzed
@given(table=frames_like(PEOPLE), columns=st.sampled_from(SHARED["columns"]),
       kinds=st.sampled_from(SHARED["kinds"]))  # fmt: skip
def test_questions(table, columns, kinds):
    for question in answer(guess_questions, table, columns, kinds, names=NAMES) or []:
        codes = question.encode([*question.answers, "", "nothing"])
        assert np.isnan(codes[-2])
