"""The explorer of records: pick one, see its candidates and the evidence for each."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._lazy import pandas_module
from . import html
from .linker import RecordLinker
from .links import Links

MOST_RECORDS = 3_000  # the most uncertain ones: a page of a few megabytes


def explorer(linker: RecordLinker, links: Links, left: Any, right: Any, shown: Any) -> str:
    """Records of the left table with their candidates in the right one.

    Parameters
    ----------
    left, right : DataFrames of text, indexed by ids
    shown : the right table as the page shows it, with dates in the format of the left one
    """
    start = linker.named_coef()["link"]
    records, columns = _records(linker, links, left, right, shown, start)
    note = (
        "Each record has its candidates, the most probable first, and what each column adds to "
        "the score: to the right for a link, to the left against it. The most uncertain records "
        "come first."
    )
    if len(left) > MOST_RECORDS:
        note += f" These are the {MOST_RECORDS} most uncertain of {len(left)}."
    frame = (
        '<div class="explorer"><div>'
        '<label class="soft" for="search">Find a record by its id or content, or by the id of a '
        "candidate</label>"
        '<input type="search" id="search" autocomplete="off">'
        '<p class="soft" id="count" role="status"></p><ul class="list" id="list"></ul></div>'
        '<div class="panel" id="detail" aria-live="polite" tabindex="-1"></div></div>'
    )
    plain = html.data("records", {"columns": columns, "records": records, "start": round(start, 3)})
    return html.section(
        "Look at a record",
        html.paragraph(note, "soft"),
        frame,
        plain,
        html.script("explorer.js"),
    )


def _terms(linker: RecordLinker, left: Any, right: Any, pairs: Any) -> Any:
    """What each column adds to the score of some pairs, a DataFrame."""
    added = linker.contributions(left, right, pairs).to_numpy()
    sizes = [len(one.feature_names) for one in linker.comparisons_]
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(int)
    columns = [one.column for one in linker.comparisons_]
    by_column = np.add.reduceat(added[:, :-1], starts, axis=1)
    return pandas_module().DataFrame(by_column, columns=columns)


def _records(
    linker: RecordLinker, links: Links, left: Any, right: Any, shown: Any, start: float
) -> tuple[list[Any], list[str]]:
    """The records of the left table, most uncertain first, with their best candidates."""
    pairs = links.pairs.sort_values("probability", ascending=False, kind="stable")
    pairs = pairs[(pairs.groupby("left").cumcount() < 5) | pairs["proposed"]]
    sure = links.single_left.copy()
    proposed = pairs[pairs["proposed"]].groupby("left")["probability"].min()
    sure[proposed.index] = proposed
    kept = sure.sort_values(kind="stable").index[:MOST_RECORDS]
    pairs = pairs[pairs["left"].isin(set(kept))].reset_index(drop=True)
    added = _terms(linker, left, right, pairs)
    columns = [str(name) for name in added.columns]
    values = np.round(added.to_numpy(), 3)
    cells = _cells(shown, columns, pairs["right"])
    competing = (added.to_numpy().sum(axis=1) + start > 0) & (pairs["probability"] < 0.5)
    rivals = _rivals(links.pairs, pairs[competing])
    candidates: dict[Any, list[dict[str, Any]]] = {key: [] for key in kept}
    for k, (one, other, chance, is_best) in enumerate(
        zip(pairs["left"], pairs["right"], pairs["probability"], pairs["proposed"], strict=True)
    ):
        candidates[one].append(
            {
                "id": str(other),
                "cells": cells[k],
                "p": round(float(chance), 6),
                "terms": values[k].tolist(),
                "best": bool(is_best),
                **({"rival": rivals[k]} if k in rivals else {}),
            }
        )
    own = _cells(left, columns, kept)
    return [
        {
            "id": str(key),
            "cells": own[k],
            "none": _rounded(links.single_left[key]),
            "sure": _rounded(sure[key]),
            "candidates": candidates[key],
        }
        for k, key in enumerate(kept)
    ], columns


def _rivals(pairs: Any, some: Any) -> dict[int, list[Any]]:
    """The most probable other pair of either record of some pairs: two ids and a probability."""
    order = pairs.sort_values("probability", ascending=False, kind="stable")
    best: dict[tuple[str, Any], list[tuple[float, Any, Any]]] = {}
    for side in ("left", "right"):
        ids = order[order[side].isin(set(some[side]))].groupby(side).head(2)  # itself, and another
        for own, one, other, chance in zip(
            ids[side], ids["left"], ids["right"], ids["probability"], strict=True
        ):
            best.setdefault((side, own), []).append((float(chance), one, other))
    found = {}
    for k, one, other in zip(some.index, some["left"], some["right"], strict=True):
        others = [
            rival
            for rival in (*best["left", one], *best["right", other])
            if rival[1:] != (one, other)
        ]
        if others:
            chance, first, second = max(others, key=lambda rival: rival[0])
            found[int(k)] = [str(first), str(second), round(chance, 6)]
    return found


def _rounded(chance: float) -> float | None:
    """A probability; None where it is not known."""
    return None if np.isnan(chance) else round(float(chance), 6)


def _cells(table: Any, columns: list[str], ids: Any) -> list[list[str]]:
    """Text of some records; "" for columns that their table does not have."""
    chosen = table.reindex(columns=columns, fill_value="").loc[ids].to_numpy()
    return [[str(cell) for cell in row] for row in chosen]
