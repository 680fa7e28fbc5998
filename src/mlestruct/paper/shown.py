"""Numbers and tables as text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

MISSING = "\u2013"  # a dash
DIGITS = 4  # that matter
WIDE = 100.0  # numbers of sizes further apart do not share their decimals
SMALL, LARGE = 1e-3, 1e5  # beyond, numbers are written with an exponent


def shown(value: Any) -> str:
    """A cell of a table."""
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.{DIGITS}g}"
    return str(value)


def shown_rows(rows: Sequence[Sequence[Any]]) -> list[list[str]]:
    """All cells; the numbers of a column have the same decimals where they are of one size."""
    columns = [_shown_column(column) for column in zip(*rows, strict=True)]
    return [list(row) for row in zip(*columns, strict=True)]


def _shown_column(values: Sequence[Any]) -> list[str]:
    sizes = [abs(value) for value in values if isinstance(value, float) and value]
    if not sizes or min(sizes) < max(sizes) / WIDE or not SMALL <= max(sizes) < LARGE:
        return [shown(value) for value in values]
    decimals = max(0, DIGITS - 1 - math.floor(math.log10(max(sizes))))
    return [f"{v:.{decimals}f}" if isinstance(v, float) else shown(v) for v in values]


def is_number(value: Any) -> bool:
    """Numbers are set to the right."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def text_table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Columns side by side."""
    cells = [[str(name) for name in head], *shown_rows(rows)]
    widths = [max(len(row[k]) for row in cells) for k in range(len(head))]
    numeric = [any(is_number(row[k]) for row in rows) for k in range(len(head))]
    lines = []
    for row in cells:
        padded = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        )
        lines.append("  " + "  ".join(padded).rstrip())
    return "\n".join(lines)


def overview_rows(records: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of all experiments: how they compare, and what holds."""
    head = ["", "in the paper", "published numbers: ours are", "claims that hold", "seconds"]
    rows = []
    for record in records:
        held = [one["holds"] for one in record["verdicts"]]
        claims = f"{sum(held)} of {len(held)}"
        numbers = counted(record["comparisons"])
        rows.append([record["name"], record["place"], numbers, claims, shown(record["seconds"])])
    return head, rows


def comparison_rows(comparisons: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of published numbers beside ours; the range only if there is one."""
    ranges = any(one["spread"] is not None for one in comparisons)
    head = ["", "published", "ours", *(["range"] if ranges else []), "difference"]
    rows = []
    for one in comparisons:
        row = [one["what"], _as_printed(one), shown(one["ours"])]
        if ranges:
            row.append(spread_text(one["spread"]))
        rows.append([*row, one["sentence"]])
    return head, rows


def _as_printed(one: Mapping[str, Any]) -> str:
    """A published number with its digits."""
    digit = one["digit"]
    if not 0.0 < digit < 1.0 or not one["published"]:
        return f"{one['published']:g}"
    return f"{one['published']:.{math.ceil(-math.log10(digit) - 1e-9)}f}"


def spread_text(spread: Sequence[float] | None) -> str:
    return "" if spread is None else f"{shown(float(spread[0]))} to {shown(float(spread[1]))}"


def counted(comparisons: Sequence[Mapping[str, Any]], whose: str = "ours") -> str:
    """How many published numbers ours are better than, equal to and worse than."""
    found = [one["verdict"] for one in comparisons if one["whose"] == whose]
    kinds = [kind for kind in ("better", "equal", "worse", "other", "missing") if kind in found]
    words = {"other": "not comparable as better or worse", "missing": "not measured"}
    return (
        ", ".join(f"{found.count(kind)} {words.get(kind, kind)}" for kind in kinds)
        or "not compared"
    )


def setting_text(setting: Mapping[str, Any]) -> str:
    """The setting in one line."""

    def one(value: Any) -> str:
        if isinstance(value, list):
            return ", ".join(one(item) for item in value)
        if isinstance(value, Mapping):
            return "{" + setting_text(value) + "}"
        return shown(value)

    return "; ".join(f"{key.replace('_', ' ')}: {one(value)}" for key, value in setting.items())
