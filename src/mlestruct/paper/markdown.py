"""The same as a Markdown file, for the documentation.

Tables, pictures and claims come from the JSON files. What needs an explanation is written by hand,
in a file `notes.md` beside the JSON file of an experiment, and is put into its section.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .catalogue import NAMES
from .contract import ReproductionError
from .document import Rows, Writer, numeric_columns, overview, read_records, section, shown_rows
from .runner import Record
from .store import write_json, write_text

NOTES = "notes.md"
HEAD = """# The paper, reproduced

Every figure and table of *Bethe Learning of Conditional Random Fields via MAP Decoding*, published
numbers beside ours. Written by `mlestruct reproduce all{quick} --markdown FILE` from the files in
`{folder}/`: tables and claims from the JSON files, explanations from `notes.md` beside them.
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
        for picture in record["pictures"]:
            if not picture["shows_data"]:
                shutil.copyfile(out / record["name"] / picture["file"], target / picture["file"])
    write_text(file, markdown(folder))


def markdown(folder: Path) -> str:
    """The text for the records and notes in a folder, beside which it will be."""
    records, writer = read_records(folder), Markdown(folder)
    quick = " --quick" if any(record["quick"] for record in records) else ""
    head, rows = overview(records)
    linked = [[f"[{row[0]}](#{row[0]})", *row[1:]] for row in rows]
    blocks = [HEAD.format(quick=quick, folder=folder.name), writer.table(head, linked)]
    return "\n".join([*blocks, *(section(record, writer) for record in records)])


class Markdown(Writer):
    def __init__(self, folder: Path):
        self.folder = folder

    def title(self, record: Record) -> str:
        name, quick = record["name"], " --quick" if record["quick"] else ""
        return (
            f"## {name}\n\n{record['title']} ({record['place']}). "
            f"`mlestruct reproduce {name}{quick}`, {record['seconds']:.4g} seconds.\n"
        )

    def heading(self, text: str) -> str:
        return f"**{text}**\n"

    def paragraph(self, text: str) -> str:
        return f"{text}\n"

    def notes(self, record: Record) -> str:
        file = self.folder / record["name"] / NOTES
        return file.read_text(encoding="utf-8") if file.is_file() else ""

    def picture(self, record: Record, picture: Mapping[str, Any]) -> str:
        if picture["shows_data"]:
            return f"*{picture['caption']}* (`{picture['file']}`: written, not shipped)\n"
        place = f"{self.folder.name}/{record['name']}/{picture['file']}"
        return f"![{picture['caption']}]({place})\n"

    def table(self, head: Sequence[str], rows: Rows, kinds: Sequence[str] = ()) -> str:
        numeric = numeric_columns(rows)
        lines = [
            _line(head),
            "|" + "|".join("---:" if right else "---" for right in numeric) + "|",
            *(_line(row) for row in shown_rows(rows)),
        ]
        return "\n".join(lines) + "\n"

    def claims(self, claims: Sequence[Mapping[str, Any]]) -> str:
        lines = []
        for one in claims:
            measured = f" ({one['measured']})" if one["measured"] else ""
            lines.append(f"* **{'yes' if one['holds'] else 'no'}**: {one['sentence']}{measured}")
        return "\n".join(lines) + "\n"

    def details(self, lines: Sequence[str]) -> str:
        return "\n".join(f"{line}.\n" for line in lines)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
