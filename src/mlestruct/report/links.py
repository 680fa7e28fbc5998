"""The report of a record linkage: answers, an explorer of candidates, weights, thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..linkage import Links, RecordLinker
from ..linkage.linker import POSSIBLE
from . import page as html
from .figures import convergence

MOST_RECORDS = 3_000  # in the explorer, the most doubtful ones: a page of a few megabytes
MOST_CANDIDATES = 5
MOST_GROUPS = 20


def links_report(linker: RecordLinker, links: Links, left: Any, right: Any, words: str = "") -> str:
    """A self-contained HTML page; `words` is a summary that comes first."""
    sections = [
        html.paragraph(line, "lead" if k == 0 else "") for k, line in enumerate(words.splitlines())
    ]
    sections += [
        explorer(linker, links, left, right),
        weights(linker),
        thresholds(links),
        contested(links),
        convergence(linker),
    ]
    return html.page("Links between two tables", sections)


def explorer(linker: RecordLinker, links: Links, left: Any, right: Any) -> str:
    """Pick a record, see its candidates and what speaks for each."""
    columns = [one.column for one in linker.comparisons_]
    records = _records(linker, links, left[columns], right[columns])
    note = "The most doubtful records come first. Bars tell how much a column speaks for a pair."
    if len(left) > MOST_RECORDS:
        note += f" These are the {MOST_RECORDS} most doubtful of {len(left)} records."
    frame = (
        '<div class="explorer"><div>'
        '<label class="soft" for="search">Find a record by id or content</label>'
        '<input type="search" id="search" autocomplete="off">'
        '<p class="soft" id="count" role="status"></p><ul class="list" id="list"></ul></div>'
        '<div class="panel" id="detail" aria-live="polite"></div></div>'
    )
    plain = html.data("records", {"columns": columns, "records": records})
    return html.section(
        "Look at a record", html.paragraph(note, "soft"), frame, plain, html.script("explorer.js")
    )


def _records(linker: RecordLinker, links: Links, left: Any, right: Any) -> list[dict[str, Any]]:
    """The records of the left table, most doubtful first, with their best candidates."""
    pairs = links.pairs.sort_values("probability", ascending=False, kind="stable")
    pairs = pairs[pairs.groupby("left").cumcount() < MOST_CANDIDATES]
    sure = links.single_left.copy()
    proposed = links.proposed.set_index("left")["probability"]
    sure[proposed.index] = proposed
    kept = sure.sort_values(kind="stable").index[:MOST_RECORDS]
    pairs = pairs[pairs["left"].isin(set(kept))]
    terms = _terms_by_column(linker, linker.contributions(left, right, pairs).to_numpy())
    cells = right.loc[pairs["right"]].to_numpy()
    found: dict[Any, list[dict[str, Any]]] = {key: [] for key in kept}
    best = dict.fromkeys(kept, -1)
    for k, (one, other, chance, is_best) in enumerate(
        zip(pairs["left"], pairs["right"], pairs["probability"], pairs["proposed"], strict=True)
    ):
        if is_best:
            best[one] = len(found[one])
        found[one].append(
            {
                "id": str(other),
                "cells": [str(cell) for cell in cells[k]],
                "p": round(float(chance), 6),
                "terms": np.round(terms[k], 3).tolist(),
            }
        )
    own = left.loc[kept].to_numpy()
    return [
        {
            "id": str(key),
            "cells": [str(cell) for cell in own[k]],
            "none": round(float(links.single_left[key]), 6),
            "best": best[key],
            "candidates": found[key],
        }
        for k, key in enumerate(kept)
    ]


def _terms_by_column(linker: RecordLinker, terms: Any) -> Any:
    """Terms summed over the features of each column, shape (n_pairs, n_columns)."""
    sizes = [len(one.feature_names) for one in linker.comparisons_]
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(int)
    return np.add.reduceat(terms[:, : sum(sizes)], starts, axis=1)


def weights(linker: RecordLinker) -> str:
    """What was learned, strongest first."""
    rows = sorted(linker.named_coef().items(), key=lambda item: -abs(item[1]))
    shown = [(_meaning(name), weight) for name, weight in rows]
    note = (
        "A weight of 0.7 doubles the odds of a link where the comparison is 1, one of -0.7 halves "
    )
    note += "them. Similarities are between 0 and 1; 'equal and rare' is the larger the rarer."
    return html.section(
        "What counts", html.paragraph(note, "soft"), html.table(["comparison", "weight"], shown)
    )


def _meaning(name: str) -> str:
    return "constant: log-odds where all comparisons are 0" if name == "link" else name


def thresholds(links: Links) -> str:
    """Expected precision and recall by probability."""
    found = links.thresholds()
    rows = [
        (row.threshold, int(row.links), row.expected_precision, row.expected_recall)
        for row in found.itertuples(index=False)
    ]
    columns = ["probability at least", "links", "expected precision", "expected recall"]
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
        for row in group.sort_values("probability", ascending=False).itertuples(index=False):
            mark = "proposed" if row.proposed else ""
            rows.append((int(row.group), row.left, row.right, row.probability, mark))
    if not rows:
        return html.section("Who competes", html.paragraph("No two pairs compete for a record."))
    shown = min(len(groups), MOST_GROUPS)
    note = f"{len(groups)} groups of records compete for each other; the {shown} most doubtful:"
    columns = ["group", "left", "right", "probability", ""]
    return html.section("Who competes", html.paragraph(note), html.table(columns, rows))
