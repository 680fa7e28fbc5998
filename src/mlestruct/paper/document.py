"""Records of experiments as documents: what is said and in which order, for every format.

A `Writer` knows one format: HTML (`page.py`), Markdown (`markdown.py`) or the terminal's text
(`command.py`).
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .catalogue import NAMES
from .contract import ReproductionError
from .runner import Record

Rows = Sequence[Sequence[Any]]

MADE = ("setting", "environment", "parts")


class Writer(ABC):
    """One format. Every method returns a block of text."""

    @abstractmethod
    def title(self, record: Record) -> str: ...

    @abstractmethod
    def heading(self, text: str) -> str: ...

    @abstractmethod
    def paragraph(self, text: str) -> str: ...

    @abstractmethod
    def table(self, head: Sequence[str], rows: Rows, kinds: Sequence[str] = ()) -> str:
        """`kinds` has a word for each row that may decide its looks."""

    @abstractmethod
    def claims(self, claims: Sequence[Mapping[str, Any]]) -> str: ...

    def picture(self, record: Record, picture: Mapping[str, Any]) -> str:
        return ""

    def notes(self, record: Record) -> str:
        """Hand-written explanations, where the format has a place for them."""
        return ""

    def details(self, lines: Sequence[str]) -> str:
        return ""


def section(record: Record, writer: Writer) -> str:
    """Everything about one experiment."""
    blocks = [
        writer.title(record),
        *(writer.paragraph(sentence) for sentence in record["summary"]),
        writer.notes(record),
        *(writer.picture(record, picture) for picture in record["pictures"]),
    ]
    if record["comparisons"]:
        blocks += [writer.heading("Beside the published numbers"), comparisons(record, writer)]
    if record["claims"]:
        blocks += [writer.heading("Claims"), writer.claims(record["claims"])]
    for table in record["tables"]:
        if "rows" in table:
            blocks += [writer.heading(table["title"]), writer.table(table["head"], table["rows"])]
    files = [f"{record['name']}.json", *(table["file"] for table in record["tables"])]
    made = [f"{key.capitalize()}: {listed(record[key])}" for key in MADE]
    blocks.append(writer.details([*made, f"Files: {', '.join(files)}"]))
    return "\n".join(block for block in blocks if block)


def overview(records: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    """Heads and rows: how the experiments compare with the paper, and what holds."""
    head = ["", "in the paper", "published numbers: ours are", "claims that hold", "seconds"]
    rows = []
    for record in records:
        held = [one["holds"] for one in record["claims"]]
        rows.append(
            [
                record["name"],
                record["place"],
                counted(record["comparisons"]),
                f"{sum(held)} of {len(held)}",
                shown(record["seconds"]),
            ]
        )
    return head, rows


def counted(comparisons: Sequence[Mapping[str, Any]]) -> str:
    """How many published numbers of the paper's method ours are better than, and so on."""
    found = [one["verdict"] for one in comparisons if one["whose"] == "ours"]
    words = {
        "better": "better",
        "equal": "equal",
        "worse": "worse",
        "other": "not comparable as better or worse",
        "missing": "not measured",
    }
    told = [f"{found.count(kind)} {text}" for kind, text in words.items() if kind in found]
    return ", ".join(told) or "not compared"


# ---------------------------------------------------------------------- published numbers
def comparisons(record: Record, writer: Writer) -> str:
    """Published numbers beside ours; the range only if there is one."""
    found = record["comparisons"]
    ranges = any(one["spread"] is not None for one in found)
    head = ["", "published", "ours", *(["range"] if ranges else []), "difference"]
    rows = []
    for one in found:
        spread = "" if one["spread"] is None else " to ".join(map(shown, one["spread"]))
        row = [one["what"], _as_printed(one), shown(one["ours"]), *([spread] if ranges else [])]
        rows.append([*row, difference(one)])
    return writer.table(head, rows, [f"{one['whose']} {one['verdict']}" for one in found])


def difference(one: Mapping[str, Any]) -> str:
    """How ours relates to the published value, in words."""
    verdict, ours, published, spread = (one[k] for k in ("verdict", "ours", "published", "spread"))
    if verdict in ("better", "worse"):
        said = f"{verdict} by {abs(ours - published):.2g}"
        if spread is not None and spread[0] <= published <= spread[1]:
            said += "; published value within the range"
    else:
        said = {"equal": "equal in the published digits", "other": "", "missing": "not measured"}[
            verdict
        ]
    return "; ".join(text for text in (said, one["note"]) if text)


def _as_printed(one: Mapping[str, Any]) -> str:
    """A published number with its digits."""
    digit = one["digit"]
    if not 0.0 < digit < 1.0 or not one["published"]:
        return f"{one['published']:g}"
    return f"{one['published']:.{math.ceil(-math.log10(digit) - 1e-9)}f}"


# ---------------------------------------------------------------------- numbers as text
def shown(value: Any) -> str:
    """A cell of a table; numbers have four digits."""
    if value is None:
        return "\u2013"  # a dash
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def shown_rows(rows: Rows) -> list[list[str]]:
    """All cells; the numbers of a column have the same decimals where they are of one size."""
    columns = [_shown_column(column) for column in zip(*rows, strict=True)]
    return [list(row) for row in zip(*columns, strict=True)]


def _shown_column(values: Sequence[Any]) -> list[str]:
    sizes = [abs(value) for value in values if isinstance(value, float) and value]
    if not sizes or min(sizes) < 0.01 * max(sizes) or not 1e-3 <= max(sizes) < 1e5:
        return [shown(value) for value in values]
    decimals = max(0, 3 - math.floor(math.log10(max(sizes))))
    return [f"{v:.{decimals}f}" if isinstance(v, float) else shown(v) for v in values]


def numeric_columns(rows: Rows) -> list[bool]:
    """Which columns hold numbers, which are set to the right."""
    return [
        any(isinstance(value, int | float) and not isinstance(value, bool) for value in column)
        for column in zip(*rows, strict=True)
    ]


def listed(values: Mapping[str, Any]) -> str:
    """A setting in one line."""

    def one(value: Any) -> str:
        if isinstance(value, list):
            return ", ".join(one(item) for item in value)
        return "{" + listed(value) + "}" if isinstance(value, Mapping) else shown(value)

    return "; ".join(f"{key.replace('_', ' ')}: {one(value)}" for key, value in values.items())


# ---------------------------------------------------------------------- records of a folder
def read_records(folder: Path) -> list[Record]:
    """Records of all experiments that a folder holds, in the order of the catalogue."""
    files = [folder / name / f"{name}.json" for name in NAMES]
    return [_read(file) for file in files if file.is_file()]


def _read(file: Path) -> Record:
    try:
        record: Record = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ReproductionError(
            f"{file} cannot be read ({error}): remove it and run its experiment again"
        ) from None
    return record
