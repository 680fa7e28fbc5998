"""Tables of the documentation, from what benchmarks measure.

    python -m benchmarks.record graphs                # runs it and puts its tables into their page
    python -m benchmarks.record linkage --sizes 1e4   # with arguments of the benchmark
    python -m benchmarks.record chains --sparse       # a mode of it, which has tables of its own
    python -m benchmarks.record                       # the pages from the records that are there

A benchmark hands its tables to `show`, which prints them. This command keeps them in
docs/benchmarks/NAME.json, with the command and the environment, and writes them between the lines
`<!-- NAME -->` and `<!-- end of NAME -->` of the page of docs/ that has these; all else there is
written by hand. NAME is that of the benchmark and its first argument, such as chains-sparse, where
a page has a place of that name, else that of the benchmark.
"""

from __future__ import annotations

import importlib
import math
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mlestruct.paper.document import DETAILS, Rows, listed, shown, table
from mlestruct.paper.runner import environment
from mlestruct.paper.store import plain, read_json, write_json, write_text

DOCS = Path(__file__).parents[1] / "docs"

_shown: list[dict[str, Any]] = []  # tables of this process


def show(title: str, head: Sequence[str], rows: Rows, keep: bool = True) -> None:
    """Print a table, and keep it for the record of this run unless it is too long for a page."""
    one = plain({"title": title, "head": head, "rows": rows})
    if keep:
        _shown.append(one)
    print(f"\n{title}\n\n{table(head, one['rows'], cells)}", flush=True)


def power(value: float) -> str:
    """1e-2 for 0.01."""
    return f"{value:.0e}".replace("e-0", "e-")


def cells(values: Sequence[Any]) -> list[str]:
    """A column of a table: three significant digits, and all those before the point."""
    return [_cell(value) for value in values]


def _cell(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return shown(value)
    if isinstance(value, int) or value == 0.0:
        return f"{value:,.0f}"
    exponent = math.floor(math.log10(abs(float(f"{value:.2e}"))))
    if not -3 <= exponent < 6:
        return f"{value / 10.0**exponent:.2f}e{exponent}"
    return f"{value:,.{max(0, 2 - exponent)}f}"


def measure(name: str, module: str, arguments: list[str], folder: Path) -> None:
    """Run a benchmark and write its record into a folder, unless it fails or shows no table."""
    main = importlib.import_module(f"benchmarks.{module}").main
    _shown.clear()
    start = time.perf_counter()
    status = main(arguments)
    if not _shown:
        raise SystemExit(f"benchmarks.{module} hands no table to benchmarks.record.show")
    record = {
        "name": name,
        "command": " ".join(["python -m", f"benchmarks.{module}", *arguments]),
        "passed": status in (None, 0),
        "seconds": round(time.perf_counter() - start, 1),
        "environment": environment(),
        "tables": _shown,
    }
    folder.mkdir(exist_ok=True)
    write_json(folder / f"{name}.json", record)


def section(record: dict[str, Any]) -> str:
    """A record as Markdown."""
    blocks = [
        f"{one['title']}:\n\n{table(one['head'], one['rows'], cells)}" for one in record["tables"]
    ]
    failed = "" if record["passed"] else " It did not meet the limits that it sets itself."
    made = f"`{record['command']}`, {record['seconds']:g} seconds.{failed} Environment: "
    made += f"{listed(record['environment'])}."
    return "\n".join([*blocks, DETAILS, f"{made}\n", "</details>\n"])


def place(name: str) -> re.Pattern[str]:
    """Where the tables of a record stand in a page."""
    start, end = map(re.escape, _marks(name))
    return re.compile(f"{start}.*?{end}", re.DOTALL)


def _marks(name: str) -> tuple[str, str]:
    return f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"


def pages_of(name: str, docs: Path) -> list[Path]:
    """The page of every place of a record."""
    pages = {page: page.read_text(encoding="utf-8") for page in sorted(docs.glob("*.md"))}
    return [page for page, text in pages.items() for _ in place(name).finditer(text)]


def page_of(name: str, docs: Path) -> Path:
    """The page with the place of a record."""
    found = pages_of(name, docs)
    if len(found) != 1:
        raise SystemExit(f"the pages of {docs} have {len(found)} places <!-- {name} -->, not 1")
    return found[0]


def filled(text: str, record: dict[str, Any]) -> str:
    """A page with a record in its place."""
    start, end = _marks(record["name"])
    return place(record["name"]).sub(lambda _: f"{start}\n{section(record)}\n{end}", text)


def write_pages(docs: Path) -> None:
    """All records of `docs`/benchmarks into their places."""
    for file in sorted((docs / "benchmarks").glob("*.json")):
        record = read_json(file)
        page = page_of(record["name"], docs)
        write_text(page, filled(page.read_text(encoding="utf-8"), record))


def record_name(module: str, arguments: list[str], docs: Path) -> str:
    """The name of the benchmark, with its first argument where a page has a place for that."""
    mode = f"{module}-{arguments[0].lstrip('-')}" if arguments else module
    return mode if pages_of(mode, docs) else module


def main(arguments: list[str] | None = None) -> None:
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments:
        module, *rest = arguments
        name = record_name(module, rest, DOCS)
        page_of(name, DOCS)  # a record without a place is refused before it takes long
        measure(name, module, rest, DOCS / "benchmarks")
    write_pages(DOCS)


if __name__ == "__main__":
    importlib.import_module("benchmarks.record").main()  # the module that benchmarks import
