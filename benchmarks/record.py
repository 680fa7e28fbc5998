"""The tables of docs/benchmarks.md, from what the benchmarks print.

    python -m benchmarks.record chains decoders    # run these and write their tables into the page
    python -m benchmarks.record                    # write the page again from the records

The tables of a run are kept in docs/benchmarks/NAME.json and written between the lines
`<!-- NAME -->` and `<!-- end of NAME -->` of the page; the rest of the page is written by hand.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import re
import sys
import time
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.measuring import TABLES, markdown

DOCS = Path(__file__).parents[1] / "docs"


def place(name: str) -> re.Pattern[str]:
    """The part of the page that belongs to a benchmark."""
    return re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->\n)", re.DOTALL)


def section(record: dict[str, Any]) -> str:
    """Tables, and one line that says how they were made."""
    tables = "\n".join(map(markdown, record["tables"]))
    return f"\n{tables}\n`{record['command']}`, {record['made']}.\n\n"


def measure(name: str) -> dict[str, Any]:
    """Run a benchmark."""
    TABLES.clear()
    start = time.perf_counter()
    importlib.import_module(f"benchmarks.{name}").main([])
    spent = time.perf_counter() - start
    packages = ("numpy", "scipy", "numba", "scikit-learn")
    return {
        "command": f"python -m benchmarks.{name}",
        "made": f"{spent:.0f} seconds; {date.today()}, Python {platform.python_version()}, "
        + ", ".join(f"{one} {version(one)}" for one in packages)
        + f", {os.cpu_count()} cores",
        "tables": list(TABLES),
    }


def write_page(docs: Path) -> None:
    """Write all records into their places."""
    page = docs / "benchmarks.md"
    text = page.read_text(encoding="utf-8")
    for file in sorted((docs / "benchmarks").glob("*.json")):
        record = json.loads(file.read_text(encoding="utf-8"))
        text = place(file.stem).sub(
            lambda found, own=record: found[1] + section(own) + found[2], text
        )
    page.write_text(text, encoding="utf-8")


def main(names: list[str] | None = None) -> None:
    names = sys.argv[1:] if names is None else names
    text = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    for name in names:
        if not place(name).search(text):
            raise SystemExit(f"docs/benchmarks.md must have the lines <!-- {name} --> and "
                             f"<!-- end of {name} -->. Add them.")  # fmt: skip
    for name in names:
        record = measure(name)
        file = DOCS / "benchmarks" / f"{name}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        write_page(DOCS)
    write_page(DOCS)


if __name__ == "__main__":
    main()
