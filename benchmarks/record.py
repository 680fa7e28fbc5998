"""Tables of docs/benchmarks.md, from what benchmarks measure.

    python -m benchmarks.record graphs                # runs it and puts its tables into the page
    python -m benchmarks.record linkage --sizes 1e4   # with arguments of the benchmark
    python -m benchmarks.record                       # the page from the records that are there

A benchmark hands its tables to `show`, which prints them. This command keeps them in
docs/benchmarks/NAME.json, with the command and the environment, and writes them into the page
between the lines `<!-- NAME -->` and `<!-- end of NAME -->`; all else there is written by hand.
"""

from __future__ import annotations

import importlib
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mlestruct.paper.document import DETAILS, Rows, listed, table
from mlestruct.paper.runner import environment
from mlestruct.paper.store import plain, read_json, write_json, write_text

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"

_shown: list[dict[str, Any]] = []  # tables of this process


def show(title: str, head: Sequence[str], rows: Rows) -> None:
    """Print a table, and keep it for the record of this run."""
    _shown.append(plain({"title": title, "head": head, "rows": rows}))
    print(f"\n{title}\n\n{table(head, _shown[-1]['rows'])}", flush=True)


def measure(name: str, arguments: list[str], folder: Path) -> None:
    """Run a benchmark and write its record into a folder, unless it fails or shows no table."""
    main = importlib.import_module(f"benchmarks.{name}").main
    _shown.clear()
    start = time.perf_counter()
    status = main(arguments)
    if not _shown:
        raise SystemExit(f"benchmarks.{name} hands no table to benchmarks.record.show")
    record = {
        "name": name,
        "command": " ".join(["python -m", f"benchmarks.{name}", *arguments]),
        "passed": status in (None, 0),
        "seconds": round(time.perf_counter() - start, 1),
        "environment": environment(),
        "tables": _shown,
    }
    folder.mkdir(exist_ok=True)
    write_json(folder / f"{name}.json", record)


def section(record: dict[str, Any]) -> str:
    """A record as Markdown."""
    blocks = [f"{one['title']}:\n\n{table(one['head'], one['rows'])}" for one in record["tables"]]
    failed = "" if record["passed"] else " It did not meet the limits that it sets itself."
    made = f"`{record['command']}`, {record['seconds']:g} seconds.{failed} Environment: "
    made += f"{listed(record['environment'])}."
    return "\n".join([*blocks, DETAILS, f"{made}\n", "</details>\n"])


def filled(text: str, folder: Path) -> str:
    """A page with the records of a folder in their places."""
    for file in sorted(folder.glob("*.json")):
        record = read_json(file)
        start, end = f"<!-- {record['name']} -->\n", f"<!-- end of {record['name']} -->\n"
        place = re.compile(f"{re.escape(start)}.*?{re.escape(end)}", re.DOTALL)
        new = f"{start}\n{section(record)}\n{end}"
        text, found = place.subn(lambda _, new=new: new, text)
        if found != 1:
            raise SystemExit(f"the page has {found} places {start.strip()}, not 1")
    return text


def main(arguments: list[str] | None = None) -> None:
    arguments = sys.argv[1:] if arguments is None else arguments
    folder = PAGE.with_suffix("")
    if arguments:
        measure(arguments[0], arguments[1:], folder)
    write_text(PAGE, filled(PAGE.read_text(encoding="utf-8"), folder))


if __name__ == "__main__":
    importlib.import_module("benchmarks.record").main()  # the module that benchmarks import
