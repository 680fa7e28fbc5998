"""Running an experiment: parts that outlive an interruption, then JSON, CSV and PNG files."""

from __future__ import annotations

import csv
import json
import os
import platform
import signal
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import date
from functools import partial
from importlib.metadata import version
from itertools import product
from typing import Any

import numpy as np

from mlestruct import __version__


# ---------------------------------------------------------------------- what a report is made of
@dataclass(frozen=True)
class Table:
    """Rows under heads, printed and written to NAME.csv."""

    name: str
    title: str
    head: list[str]
    rows: list[list[Any]]

    @classmethod
    def of(cls, name, title, columns):
        """From columns by their heads."""
        return cls(
            name, title, list(columns), [list(r) for r in zip(*columns.values(), strict=True)]
        )


@dataclass(frozen=True)
class Picture:
    """A matplotlib figure, written to NAME.png."""

    name: str
    caption: str
    figure: Any


@dataclass(frozen=True)
class Comparison:
    """A published number beside ours.

    ours : None if it was not measured
    spread : smallest and largest of ours over repetitions
    protocol : how ours was measured, if there are several ways
    """

    what: str
    published: float
    ours: float | None
    spread: tuple[float, float] | None = None
    note: str = ""
    protocol: str = ""


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, or of ours, and the measurement that decides it.

    holds : None if the results cannot decide it
    """

    sentence: str
    holds: bool | None
    measured: str
    whose: str = "paper"


@dataclass(frozen=True)
class Report:
    tables: list[Table]
    claims: list[Claim]
    pictures: list[Picture] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    summary: list[str] = field(default_factory=list)


def listed(values, digits):
    """Names and numbers in one line, for the measured text of claims."""
    return ", ".join(f"{name} {value:{digits}}" for name, value in values.items())


# ---------------------------------------------------------------------- parts
class SettingError(ValueError):
    """The folder holds parts of another setting."""


def part_name(**key):
    """Such as "gap 10, rho 0.5" for gap=10 and rho=0.5."""
    return ", ".join(f"{axis} {value}" for axis, value in key.items())


def grid(work, setting, **axes):
    """A part for each combination of values; `work` is called with the setting and these."""
    keys = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    return {part_name(**key): partial(work, setting, **key) for key in keys}


def plain(value):
    """`value` as JSON knows it: arrays become lists, numbers that are not finite None."""
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | range):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def write_json(file, value):
    """All of it or nothing: an interruption leaves the old file."""
    unfinished = file.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(plain(value), indent=1, allow_nan=False) + "\n")
    unfinished.replace(file)


def finished_parts(folder, setting, fresh):
    """The parts on disk by name, if they have this setting; with `fresh` they are removed."""
    folder.mkdir(parents=True, exist_ok=True)
    if fresh:
        for file in folder.glob("*.json"):
            file.unlink()
    kept = {file.stem: json.loads(file.read_text()) for file in folder.glob("*.json")}
    there = kept.pop("setting", setting)
    if different := [key for key in {**there, **setting} if there.get(key) != setting.get(key)]:
        raise SettingError(
            f"{folder} has results of another setting ({', '.join(different)} differ). "
            "Choose another --out, or start again with --fresh."
        )
    write_json(folder / "setting.json", setting)
    return kept


class Interrupted(BaseException):
    """Ctrl-C in a part."""


@contextmanager
def interruptible():
    """Within, Ctrl-C raises Interrupted, outside KeyboardInterrupt.

    On a KeyboardInterrupt estimators keep the best model so far; a part must not return it.
    """

    def stop(number, frame):
        raise Interrupted

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    except Interrupted:
        raise KeyboardInterrupt from None
    finally:
        signal.signal(signal.SIGINT, before)


# ---------------------------------------------------------------------- a run
def reproduce(name, experiment, out, quick=False, fresh=False):
    """Run the parts that are missing and write out/NAME; returns what NAME.json holds."""
    folder = out / name
    setting = plain(experiment.setting(quick))
    parts = experiment.parts(setting)
    kept = finished_parts(folder / "parts", setting, fresh)
    why = f" ({setting['why']})" if "why" in setting else ""
    print(f"\n{name}: {experiment.TITLE}\n  data: {setting['data']}{why}", flush=True)
    for k, (part, work) in enumerate(parts.items(), start=1):
        if part in kept:
            print(f"  {k}/{len(parts)}  {part}: there already")
            continue
        print(f"  {k}/{len(parts)}  {part} ... ", end="", flush=True)
        began = time.perf_counter()
        with interruptible():
            result = work()
        kept[part] = plain({"seconds": time.perf_counter() - began, "result": result})
        write_json(folder / "parts" / f"{part}.json", kept[part])
        print(f"{kept[part]['seconds']:.1f} s", flush=True)
    report = experiment.report(setting, {part: kept[part]["result"] for part in parts})
    record = plain(
        {
            "name": name,
            "title": experiment.TITLE,
            "place": experiment.PLACE,
            "solvers": experiment.SOLVERS,
            "quick": quick,
            "setting": setting,
            "environment": environment(),
            "seconds": round(sum(kept[part]["seconds"] for part in parts), 1),
            **asdict(report, dict_factory=without_figures),
        }
    )
    for table in report.tables:
        with (folder / f"{table.name}.csv").open("w", newline="") as stream:
            csv.writer(stream, lineterminator="\n").writerows(plain([table.head, *table.rows]))
    for picture in report.pictures:
        picture.figure.savefig(folder / f"{picture.name}.png", dpi=150)
    write_json(folder / f"{name}.json", record)
    return record


def without_figures(items):
    return {key: value for key, value in items if key != "figure"}


def environment():
    """What the numbers were made with."""
    return {
        "date": date.today().isoformat(),
        "mlestruct": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy", "numba", "scikit-learn")},
        "machine": platform.machine(),
        "cores": os.cpu_count(),
    }


# ---------------------------------------------------------------------- a record in words
HOLDS = {True: "yes", False: "no", None: "not judged"}


def shown(record):
    """Published numbers beside ours, claims and tables of a record, as Markdown."""
    blocks = [
        f"## {record['name']}: {record['title']}",
        f"{record['place']}. {record['solvers']}",
        *record["summary"],
    ]
    compared = [
        [one["what"], one["protocol"], one["published"], one["ours"],
         " to ".join(map(cell, one["spread"] or ())), one["note"]]
        for one in record["comparisons"]
    ]  # fmt: skip
    if compared:
        head = ["", "protocol", "published", "ours", "range", "note"]
        blocks += [markdown_table(head, compared)]
    for whose, title in (("paper", "Claims of the paper"), ("ours", "Claims of ours")):
        claims = [one for one in record["claims"] if one["whose"] == whose]
        lines = [
            f"* {HOLDS[one['holds']]}: {one['sentence']} ({one['measured']})" for one in claims
        ]
        blocks += ["\n".join([f"{title}:", "", *lines])] if lines else []
    for one in record["tables"]:
        blocks += [f"{one['title']}:", markdown_table(one["head"], one["rows"])]
    return "\n\n".join(blocks) + "\n"


def summary(records):
    """A row for each record: what was compared, and how many claims hold."""
    rows = []
    for record in records:
        claims = [one["holds"] for one in record["claims"] if one["whose"] == "paper"]
        rows.append(
            [record["name"], record["title"], record["place"],
             f"{claims.count(True)} of {len(claims)}", len(record["comparisons"]),
             record["environment"]["date"]]
        )  # fmt: skip
    head = ["experiment", "shows", "in the paper", "claims that hold", "numbers compared", "run"]
    return markdown_table(head, rows)


def cell(value):
    if value is None:
        return ""
    if isinstance(value, bool):
        return HOLDS[value]
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def markdown_table(head, rows):
    lines = [[cell(value).replace("|", "\\|") for value in row] for row in [head, *rows]]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |"
        for line in lines
    )
