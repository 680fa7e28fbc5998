"""The explorer of records: pick one, see its candidates and what speaks for each."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import page as html

MOST_RECORDS = 3_000  # the most doubtful ones: a page of a few megabytes


def explorer(
    found: Any, left: Any, right: Any, terms: Any, start: float | None = None,
    words: str = "record",
) -> str:  # fmt: skip
    """Records of the left table with their candidates in the right one.

    Parameters
    ----------
    found : `Links` or `Matches`
    left, right : DataFrames of text, indexed by ids
    terms : function that turns rows of `found.pairs` into a DataFrame, what each column adds to
        their score
    start : score of a pair before any column counts, compared with that of no pair, which is 0;
        with it, pairs that are improbable although their score is higher name what they compete
        with
    words : what a record is called
    """
    records, columns = _records(found, left, right, terms, start)
    note = (
        f"Each {words} has its candidates, the most probable first, and for each what its columns "
        "add to the score, one after the other: to the right for a pair, to the left against it. "
        f"The most doubtful {words}s come first."
    )
    if len(left) > MOST_RECORDS:
        note += f" These are the {MOST_RECORDS} most doubtful of {len(left)}."
    frame = (
        '<div class="explorer"><div>'
        f'<label class="soft" for="search">Find a {html.text(words)} by its id or content, or by '
        "the id of a candidate</label>"
        '<input type="search" id="search" autocomplete="off">'
        '<p class="soft" id="count" role="status"></p><ul class="list" id="list"></ul></div>'
        '<div class="panel" id="detail" aria-live="polite" tabindex="-1"></div></div>'
    )
    data = {"columns": columns, "records": records, "start": round(float(start or 0.0), 3)}
    plain = html.data("records", {**data, "words": words})
    return html.section(
        f"Look at a {words}",
        html.paragraph(note, "soft"),
        frame,
        plain,
        html.script("explorer.js"),
    )


def _records(
    found: Any, left: Any, right: Any, terms: Any, start: float | None
) -> tuple[list[Any], list[str]]:
    """The records of the left table, most doubtful first, with their best candidates."""
    pairs = found.pairs.sort_values("probability", ascending=False, kind="stable")
    pairs = pairs[(pairs.groupby("left").cumcount() < 5) | pairs["proposed"]]
    sure = found.single_left.copy()
    proposed = pairs[pairs["proposed"]].groupby("left")["probability"].min()
    sure[proposed.index] = proposed
    kept = sure.sort_values(kind="stable").index[:MOST_RECORDS]
    pairs = pairs[pairs["left"].isin(set(kept))].reset_index(drop=True)
    added = terms(pairs)
    columns = [str(name) for name in added.columns]
    values = np.round(added.to_numpy(), 3)
    cells = _cells(right, columns, pairs["right"])
    competing = np.zeros(len(pairs), dtype=bool)
    if start is not None:
        competing = (added.to_numpy().sum(axis=1) + start > 0) & (pairs["probability"] < 0.5)
    rivals = _rivals(found.pairs, pairs[competing])
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
            "none": _rounded(found.single_left[key]),
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
