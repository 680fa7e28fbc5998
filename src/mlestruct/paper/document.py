"""Records of experiments as Markdown: for the documentation, the terminal and beside the results.

Tables, pictures and claims come from the JSON files. What needs an explanation is written by hand,
in a file `notes.md` beside the JSON file of an experiment, and is put into its section.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .catalogue import NAMES
from .contract import ReproductionError
from .runner import Record
from .store import read_json, write_json, write_text

Rows = Sequence[Sequence[Any]]

NOTES = "notes.md"
NOT_JUDGED = "not judged"
VERDICTS = {True: "yes", False: "no", None: NOT_JUDGED}
HEAD = """# The paper, reproduced

Every figure and table of *Bethe Learning of Conditional Random Fields via MAP Decoding*
(arXiv 1503.01228), published numbers beside ours, and what the paper claims. Written by
`mlestruct reproduce all{quick} --markdown FILE` from the files in `{folder}/`: tables and claims
from the JSON files, explanations from `notes.md` beside them. "Algorithm 1" is the paper's as
printed (`BlockFrankWolfe.paper()`: uniform start, uniform sampling, fixed steps); "auto" is the
default solver of the library, which uses marginal oracles. Competitors are implementations of this
library, not the original programs; what differs is told with each experiment. Abstract and
conclusion of the paper sum up the claims below and are not counted again.
"""


def read_records(folder: Path) -> list[Record]:
    """Records of all experiments that a folder holds, in the order of the catalogue."""
    files = [folder / name / f"{name}.json" for name in NAMES]
    return [read_json(file) for file in files if file.is_file()]


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


def markdown(folder: Path, ship: bool = True) -> str:
    """The text for the records and notes in a folder; beside it, or inside if it is not shipped."""
    records = read_records(folder)
    quick = " --quick" if any(record["quick"] for record in records) else ""
    blocks = [HEAD.format(quick=quick, folder=folder.name), overview(records)]
    claims = ["## What the paper claims\n", claims_table(records)]
    return "\n".join([*blocks, *claims, *(section(record, folder, ship) for record in records)])


def overview(records: Sequence[Record]) -> str:
    """How the experiments compare with the paper."""
    head = ["", "in the paper", "published numbers: ours are", "finished", "seconds"]
    rows = []
    for record in records:
        name, numbers = record["name"], counted(record["comparisons"])
        finished = record["parts"]["last finished"][:10]
        rows.append([f"[{name}](#{name})", record["place"], numbers, finished, record["seconds"]])
    return table(head, rows)


def claims_table(records: Sequence[Record]) -> str:
    """All claims of the paper, each once: whether it holds, and what decides it."""
    rows = [
        [one["sentence"], VERDICTS[one["holds"]], one["measured"],
         f"[{record['name']}](#{record['name']})"]
        for record in records
        for one in record["claims"]
        if one["whose"] == "paper"
    ]  # fmt: skip
    told = [row[1] for row in rows]
    open_ones = f", {told.count(NOT_JUDGED)} cannot be judged" if NOT_JUDGED in told else ""
    said = f"Of {len(rows)} claims of the paper {told.count('yes')} hold{open_ones}.\n"
    return said + "\n" + table(["claim", "holds", "measured", "experiment"], rows)


def counted(comparisons: Sequence[Mapping[str, Any]]) -> str:
    """How many published numbers of the paper's method ours are better than, and so on."""
    words = {"other": "not comparable as better or worse", "missing": "not measured"}
    kinds = ("better", "equal", "worse", "other", "missing")
    told = []
    for protocol in dict.fromkeys(one["protocol"] for one in comparisons):
        mine = [
            one for one in comparisons if one["protocol"] == protocol and one["whose"] == "ours"
        ]
        found = [one["verdict"] for one in mine]
        tally = [f"{found.count(kind)} {words.get(kind, kind)}" for kind in kinds if kind in found]
        told.append((f"{protocol}: " if protocol else "") + ", ".join(tally))
    return "; ".join(told) or "not compared"


def section(record: Record, folder: Path, ship: bool = True) -> str:
    """Everything about one experiment.

    folder : of records, pictures and notes
    ship : without the pictures in which real data can be seen
    """
    name, quick = record["name"], " --quick" if record["quick"] else ""
    command = f"`mlestruct reproduce {name}{quick}`"
    seconds = f"{shown(record['seconds'])} seconds"
    notes = folder / name / NOTES
    blocks = [
        f"## {name}\n",
        f"{record['title']} ({record['place']}). {command}, {seconds}.\n",
        f"Solvers: {record['solvers']}\n",
        *(f"{sentence}\n" for sentence in record["summary"]),
        *([notes.read_text(encoding="utf-8")] if notes.is_file() else []),
    ]
    for picture in record["pictures"]:
        if ship and picture["shows_data"]:
            blocks.append(f"*{picture['caption']}* (`{picture['file']}`: written, not shipped)\n")
        else:
            base = f"{folder.name}/" if ship else ""  # shipped text is beside the folder
            blocks.append(f"![{picture['caption']}]({base}{name}/{picture['file']})\n")
    for protocol in dict.fromkeys(one["protocol"] for one in record["comparisons"]):
        compared = [one for one in record["comparisons"] if one["protocol"] == protocol]
        head = "Beside the published numbers" + (f": {protocol}" if protocol else "")
        blocks += [f"**{head}**\n", comparison_table(compared)]
    ours = [one for one in record["claims"] if one["whose"] == "ours"]
    if ours:
        blocks += ["**Beyond the paper's claims**\n", *map(_claim, ours), ""]
    for one in record["tables"]:
        blocks += [f"**{one['title']}**\n", table(one["head"], one["rows"])]
    files = [f"{name}.json", *(one["file"] for one in record["tables"])]
    made = [f"{key.capitalize()}: {listed(record[key])}.\n" for key in MADE]
    return "\n".join([*blocks, DETAILS, *made, f"Files: {', '.join(files)}.\n", "</details>\n"])


MADE = ("setting", "environment", "parts")
DETAILS = "<details><summary>How it was made</summary>\n"


def _claim(one: Mapping[str, Any]) -> str:
    measured = f" ({one['measured']})" if one["measured"] else ""
    return f"* **{VERDICTS[one['holds']]}**: {one['sentence']}{measured}"


def comparison_table(comparisons: Sequence[Mapping[str, Any]]) -> str:
    """Published numbers beside ours; those of methods that the paper compares with in italics."""
    rows = []
    for one in comparisons:
        what = one["what"] if one["whose"] == "ours" else f"*{one['what']}*"
        spread = "" if one["spread"] is None else " to ".join(map(shown, one["spread"]))
        rows.append([what, _as_printed(one), shown(one["ours"]), spread, difference(one)])
    return table(["", "published", "ours", "range", "difference"], rows)


def difference(one: Mapping[str, Any]) -> str:
    """How ours relates to the published value, in words."""
    verdict, ours, published, spread = (one[k] for k in ("verdict", "ours", "published", "spread"))
    said = {"equal": "equal in the published digits", "missing": "not measured"}.get(verdict, "")
    if verdict in ("better", "worse"):
        said = f"{verdict} by {abs(ours - published):.2g}"
        if spread is not None and spread[0] <= published <= spread[1]:
            said += "; published value within the range"
    return "; ".join(text for text in (said, one["note"]) if text)


def _as_printed(one: Mapping[str, Any]) -> str:
    """A published number with its digits."""
    digit = one["digit"]
    if not 0.0 < digit < 1.0 or not one["published"]:
        return f"{one['published']:g}"
    return f"{one['published']:.{math.ceil(-math.log10(digit) - 1e-9)}f}"


def shown(value: Any) -> str:
    """A cell of a table; numbers have four digits."""
    if value is None:
        return "\u2013"  # a dash
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def shown_column(values: Sequence[Any]) -> list[str]:
    """Numbers have the same decimals where they are of one size."""
    sizes = [abs(value) for value in values if isinstance(value, float) and value]
    if not sizes or min(sizes) < 0.01 * max(sizes) or not 1e-3 <= max(sizes) < 1e5:
        return [shown(value) for value in values]
    decimals = max(0, 3 - math.floor(math.log10(max(sizes))))
    return [f"{v:.{decimals}f}" if isinstance(v, float) else shown(v) for v in values]


def table(
    head: Sequence[str],
    rows: Rows,
    cells: Callable[[Sequence[Any]], list[str]] = shown_column,
) -> str:
    """Columns side by side; those with numbers are set to the right.

    cells : the text of the values of a column
    """
    columns = list(zip(*rows, strict=True)) or [() for _ in head]
    lines = [[str(name).replace("|", "\\|")] for name in head]
    right = [any(_is_number(value) for value in column) for column in columns]
    for line, column, numeric in zip(lines, columns, right, strict=True):
        line += [cell.replace("|", "\\|") for cell in cells(column)]
        width = max(2, *map(len, line))  # "-:" is the least that marks a column
        line[:] = [cell.rjust(width) if numeric else cell.ljust(width) for cell in line]
        line.insert(1, "-" * (width - 1) + (":" if numeric else "-"))
    return "\n".join(f"| {' | '.join(line)} |" for line in zip(*lines, strict=True)) + "\n"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def listed(values: Mapping[str, Any]) -> str:
    """A setting in one line."""

    def one(value: Any) -> str:
        if isinstance(value, list):
            return ", ".join(one(item) for item in value)
        return "{" + listed(value) + "}" if isinstance(value, Mapping) else shown(value)

    return "; ".join(f"{key.replace('_', ' ')}: {one(value)}" for key, value in values.items())
