"""The same as a Markdown file, for the documentation: made from the JSON files, never typed."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .catalogue import NAMES
from .contract import ReproductionError
from .records import read_records
from .runner import Record
from .shown import comparison_rows, is_number, overview_rows, setting_text, shown, shown_rows
from .store import write_json, write_text

HEAD = """# The paper, reproduced

Every figure and table of *Bethe Learning of Conditional Random Fields via MAP Decoding*, published
numbers beside ours. Written by `{command}` from the JSON files in `{folder}/`;
nothing here is typed.
"""


def check_markdown(file: Path, out: Path) -> None:
    """Whether a Markdown file of this name can go beside the results in `out`."""
    folder = file.with_suffix("")
    if folder == file:
        raise ReproductionError(f"--markdown: {file} needs an ending, such as .md")
    if folder.resolve() == out.resolve():
        raise ReproductionError(f"--markdown: {folder} is the folder of results; take another name")
    if not file.parent.is_dir():
        raise FileNotFoundError(f"--markdown: the folder {file.parent} does not exist")


def write_markdown(out: Path, file: Path) -> None:
    """Write `file`, and beside it a folder of the same name with records and pictures.

    Pictures in which real data can be seen stay where they are: the data is not ours to ship.
    """
    folder = file.with_suffix("")
    records = read_records(out)
    folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:  # what an earlier run has left, and nothing else
        for old in [folder / name / f"{name}.json", *(folder / name).glob("*.png")]:
            old.unlink(missing_ok=True)
    for record in records:
        target = folder / record["name"]
        target.mkdir(exist_ok=True)
        write_json(target / f"{record['name']}.json", record)
        for picture in _shippable(record):
            shutil.copyfile(out / record["name"] / picture["file"], target / picture["file"])
    write_text(file, markdown(read_records(folder), folder.name))


def markdown(records: Sequence[Record], folder: str) -> str:
    """The text; pictures are in folder/NAME/."""
    quick = " --quick" if any(record["quick"] for record in records) else ""
    command = f"mlestruct reproduce all{quick} --markdown FILE"
    blocks = [HEAD.format(command=command, folder=folder), _overview(records)]
    blocks += [_section(record, folder) for record in records]
    return "\n".join(blocks)


def _overview(records: Sequence[Record]) -> str:
    head, rows = overview_rows(records)
    return _table(head, [[f"[{row[0]}](#{row[0]})", *row[1:]] for row in rows])


def _section(record: Record, folder: str) -> str:
    name = record["name"]
    quick = " --quick" if record["quick"] else ""
    lines = [
        f"## {name}",
        "",
        f"{record['title']} ({record['place']}). `mlestruct reproduce {name}{quick}`, "
        f"{shown(record['seconds'])} seconds.",
        "",
        *(f"{sentence}\n" for sentence in record["summary"]),
    ]
    for picture in _shippable(record):
        lines += [f"![{picture['caption']}]({folder}/{name}/{picture['file']})", ""]
    hidden = [picture for picture in record["pictures"] if picture["shows_data"]]
    lines += [f"*{one['caption']}* (`{one['file']}`: written, not shipped)\n" for one in hidden]
    if record["comparisons"]:
        head, rows = comparison_rows(record["comparisons"])
        lines += ["**Beside the published numbers**", "", _table(head, rows)]
    if record["verdicts"]:
        lines += ["**Claims**", "", *map(_claim, record["verdicts"]), ""]
    for table in record["tables"]:
        if "rows" in table:
            lines += [f"**{table['title']}**", "", _table(table["head"], table["rows"])]
    lines += [f"Setting: {setting_text(record['setting'])}.", ""]
    lines += [f"Environment: {setting_text(record['environment'])}.", ""]
    lines += [f"Parts: {setting_text(record.get('parts', {}))}.", ""]
    return "\n".join(lines)


def _shippable(record: Record) -> list[dict[str, Any]]:
    return [picture for picture in record["pictures"] if not picture["shows_data"]]


def _claim(one: Mapping[str, Any]) -> str:
    remark = f" ({one['remark']})" if one["remark"] else ""
    return f"* **{'yes' if one['holds'] else 'no'}**: {one['claim']}{remark}"


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    numeric = [any(is_number(row[k]) for row in rows) for k in range(len(head))]
    lines = [
        _line(head),
        "|" + "|".join("---:" if right else "---" for right in numeric) + "|",
        *(_line(row) for row in shown_rows(rows)),
        "",
    ]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
