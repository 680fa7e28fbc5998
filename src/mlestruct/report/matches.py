"""The report of proposed pairs: an explorer of people and candidates, weights, quality."""

from __future__ import annotations

from typing import Any

from ..pairing import GroupMatcher, Matches, SideMatcher
from . import page as html
from .explorer import explorer
from .figures import convergence
from .learned import held_out, weights


def matches_report(
    matcher: GroupMatcher | SideMatcher, found: Matches, tables: list[Any], words: str = "",
    records: bool = True,
) -> str:  # fmt: skip
    """A self-contained HTML page; `words` is a summary that comes first.

    Without `records` it tells of no person: no ids, no cells.
    """

    def terms(pairs: Any) -> Any:
        if isinstance(matcher, GroupMatcher):
            return matcher.contributions(tables[0], pairs)
        return matcher.contributions(tables[0], tables[1], pairs)

    word = "person" if isinstance(matcher, GroupMatcher) else "record"
    sections = [
        html.lead(words),
        explorer(found, tables[0], tables[-1], terms, words=word) if records else "",
        look_again(found, isinstance(matcher, GroupMatcher)) if records else "",
        weights(matcher, meaning),
        held_out(matcher, "people with the right partner"),
        convergence(matcher),
    ]
    return html.page("Proposed pairs", sections)


def meaning(name: str) -> str:
    """A feature in plain words."""
    column, _, kind = name.partition(": ")
    if kind == "difference":
        return f"per step that the two differ in {column}"
    if name == "pair":
        return "any two, before all answers"
    return f"{column}: {kind}" if kind else name


def look_again(found: Matches, both_ways: bool) -> str:
    """Proposed pairs to which the model gives least, compared with the best for either side.

    `both_ways` says that each pair is there twice, as of one group.
    """
    pairs = found.pairs[found.pairs["proposed"]].sort_values("margin", kind="stable")
    shown = pairs[(pairs["left"] < pairs["right"]) | (not both_ways)].head(20)
    note = (
        "Proposed pairs that are farthest behind the best other one of either side: the whole "
        "proposal is the most probable one, these two alone would choose differently."
    )
    rows = shown[["left", "right", "probability", "margin"]].itertuples(index=False)
    return html.section(
        "Pairs to look at again",
        html.paragraph(note, "soft"),
        html.table(["", "partner", "probability", "margin"], rows),
    )
