"""The page of a linkage (`mlestruct link --report`): links, candidates, weights, certificate."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import html
from .comparisons import same_dates
from .explorer import explorer
from .learned import convergence, held_out, weights
from .linker import RecordLinker
from .links import POSSIBLE, Links
from .records import as_records

MOST_GROUPS, MOST_PAIRS = 20, 12


def links_page(
    linker: RecordLinker, links: Links, left: Any, right: Any, words: str = "",
    doubted: Any = None, records: bool = True,
) -> str:  # fmt: skip
    """A self-contained HTML page.

    Parameters
    ----------
    words : a summary that comes first
    doubted : DataFrame of known links (left, right, probability), as the model sees them itself;
        NaN where it does not compare the two
    records : whether the page shows records, their cells and ids; without, it tells of no person
    """
    left, right = as_records(left, "left"), as_records(right, "right")

    def explored() -> str:
        shown = same_dates([one.for_tables(left, right) for one in linker.comparisons_], right)
        return explorer(linker, links, left, right, shown)

    sections = [
        html.lead(words),
        explored() if records else "",
        thresholds(links),
        contested(links) if records else "",
        refused(doubted) if records else "",
        weights(linker),
        held_out(linker),
        convergence(linker),
    ]
    return html.page("Links between two tables", sections)


def thresholds(links: Links) -> str:
    """Expected precision and recall by probability."""
    found = links.thresholds()
    columns = ["probability at least", "links", "expected precision", "expected recall"]
    rows = found.itertuples(index=False)
    return html.section("How many links at which probability", html.table(columns, rows))


def contested(links: Links) -> str:
    """Groups of records that compete for each other."""
    pairs = links.pairs[links.pairs["probability"] >= POSSIBLE]
    groups = [group for _, group in pairs.groupby("group") if len(group) > 1]
    groups.sort(
        key=lambda group: float(np.max(np.minimum(group["probability"], 1 - group["probability"])))
    )
    rows = []
    for group in groups[::-1][:MOST_GROUPS]:
        doubt = (group["probability"] - 0.5).abs()
        shown = group.loc[doubt.sort_values(kind="stable").index[:MOST_PAIRS]]
        for row in shown.sort_values("probability", ascending=False).itertuples(index=False):
            mark = "proposed" if row.proposed else ""
            rows.append((int(row.group), row.left, row.right, row.probability, row.margin, mark))
    if not rows:
        return html.section("Who competes", html.paragraph("No two pairs compete for a record."))
    note = (
        f"{len(groups)} groups of records compete for each other; the most doubtful ones and up to "
        f"{MOST_PAIRS} pairs of each. The margin is the distance from the best other pair of "
        "either record."
    )
    columns = ["group", "left", "right", "probability", "margin", ""]
    return html.section("Who competes", html.paragraph(note), html.table(columns, rows))


def refused(doubted: Any) -> str:
    """Known links to which the model itself gives less than 1/2, or that are not candidates."""
    title = "Known links that the model would refuse"
    if doubted is None:
        return ""
    wrong = doubted[~(doubted["probability"] >= 0.5)].sort_values("probability", kind="stable")
    if not len(wrong):
        return html.section(title, html.paragraph(f"None of {len(doubted)}."))
    note = (
        f"{len(wrong)} of {len(doubted)}, the most doubtful first. Some may be errors in the list."
    )
    if n_apart := int(wrong["probability"].isna().sum()):
        note += f" {n_apart} were not compared: they are not among the candidate pairs."
    wrong["probability"] = wrong["probability"].astype(object).fillna("not compared")
    rows = wrong[["left", "right", "probability"]].head(MOST_GROUPS).itertuples(index=False)
    return html.section(
        title, html.paragraph(note), html.table(["left", "right", "probability"], rows)
    )
