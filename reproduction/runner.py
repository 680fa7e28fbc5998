"""Running an experiment: parts that outlive an interruption, then JSON, CSV and PNG files."""

from __future__ import annotations

import csv
import json
import os
import platform
import signal
import subprocess
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from functools import cache, partial
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from mlestruct import __version__

from . import NAMES


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


HOLDS, FAILS, OPEN = VERDICTS = ("holds", "does not hold", "not decided here")


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, or of ours, and the figure that decides it.

    holds : None if the results cannot decide it
    figure : what was measured, in one line
    reason : why it is not decided: budget, noise, other data
    """

    sentence: str
    holds: bool | None
    figure: str
    reason: str = ""
    whose: str = "paper"

    @property
    def verdict(self):
        return {True: HOLDS, False: FAILS, None: OPEN}[self.holds]


def sign_beyond_spread(differences, independent):
    """1 or -1 if the mean of paired differences exceeds its spread, otherwise None.

    The spread of independent repetitions (seeds, graphs, test pictures) is two standard errors.
    Splits of the same data are not independent: theirs is the range of the differences.
    """
    values = np.asarray(differences, dtype=float).ravel()
    if values.size < 2:
        return None
    standard_error = np.std(values, ddof=1) / np.sqrt(values.size)
    spread = 2.0 * standard_error if independent else np.ptp(values)
    return int(np.sign(values.mean())) if abs(values.mean()) > spread else None


def is_less(one, other, independent):
    """Whether paired errors `one` are less than `other`; None if noise decides it."""
    sign = sign_beyond_spread(np.asarray(other) - np.asarray(one), independent)
    return None if sign is None else sign > 0


@dataclass(frozen=True)
class Report:
    tables: list[Table]
    claims: list[Claim]
    pictures: list[Picture] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    summary: list[str] = field(default_factory=list)


def listed(values, digits):
    """Names and numbers in one line, for the figures of claims."""
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
        seconds = time.perf_counter() - began
        kept[part] = plain({"seconds": seconds, "made": environment(), "result": result})
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
            "made": summarised([kept[part]["made"] for part in parts]),
            "hours": round(sum(kept[part]["seconds"] for part in parts) / 3600, 3),
            **asdict(report, dict_factory=without_figures),
            "claims": [] if quick else [judged(claim, setting) for claim in report.claims],
            "comparisons": [] if quick else [asdict(one) for one in report.comparisons],
        }
    )
    for table in report.tables:
        with (folder / f"{table.name}.csv").open("w", newline="") as stream:
            csv.writer(stream, lineterminator="\n").writerows(plain([table.head, *table.rows]))
    for picture in report.pictures:
        picture.figure.savefig(folder / f"{picture.name}.png", dpi=150)
    write_json(folder / f"{name}.json", record)
    return record


def judged(claim, setting):
    """Generated data that stand in for the paper's decide none of its claims."""
    if "why" in setting and claim.whose == "paper":
        claim = replace(claim, holds=None, reason=STAND_IN)
    if claim.holds is not None:
        claim = replace(claim, reason="")
    return {**asdict(claim), "verdict": claim.verdict}


def without_figures(items):
    return {key: value for key, value in items if key != "figure" or isinstance(value, str)}


def write_manifest(out):
    """One file for all experiments in a folder: versions, machines and hours."""
    found = (out / name / f"{name}.json" for name in NAMES)
    records = [json.loads(file.read_text()) for file in found if file.is_file()]
    each = {one["name"]: {**one["made"], "hours": one["hours"]} for one in records}
    total = summarised([one["made"] for one in records])
    hours = round(sum(one["hours"] for one in records), 2)
    write_json(out / "manifest.json", {**total, "hours": hours, "experiments": each})


def environment():
    """What a part is made with."""
    return {
        "date": date.today().isoformat(),
        "commit": commit(),
        "mlestruct": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy", "numba", "scikit-learn")},
        "machine": f"{processor()}, {os.cpu_count()} cores",
    }


def summarised(environments):
    """Each entry with all its values, such as "2026-11-17; 2026-11-18"."""
    values = {key: set() for key in environments[0]}
    for one in environments:
        for key, text in one.items():
            values[key] |= set(text.split("; "))
    return {key: "; ".join(sorted(known)) for key, known in values.items()}


@cache
def commit():
    """The commit of the clone, with "+" if tracked files differ from it."""

    def git(*words):
        asked = ["git", "-C", str(Path(__file__).parent), *words]
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def processor():
    """The name of the processor, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return platform.machine()


# ---------------------------------------------------------------------- a record in words
SMOKE_TEST = "**Smoke test on generated data, no verdicts.**"
STAND_IN = "generated data stand in for the paper's"
HEADINGS = {
    "paper": "Claims of the paper",
    "ours": "What we add",
    "stand-in": "On generated data, which decide no claim of the paper",
}


def shown(record):
    """Published numbers beside ours, claims and tables of a record, as Markdown."""
    blocks = [
        f"## {record['name']}: {record['title']}",
        *([SMOKE_TEST] if record["quick"] else []),
        f"Data: {record['setting']['data']}. In the paper: {record['place']}. {record['solvers']}",
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
    for heading in HEADINGS:
        rows = claim_rows(record, heading)
        blocks += [f"{HEADINGS[heading]}:", claims_table(rows)] if rows else []
    for one in record["tables"]:
        blocks += [f"{one['title']}:", markdown_table(one["head"], one["rows"])]
    return "\n\n".join(blocks) + "\n"


def claim_rows(record, heading):
    return [
        [record["name"], one["sentence"], verdict_of(one), one["figure"]]
        for one in record["claims"]
        if heading == ("stand-in" if one["reason"] == STAND_IN else one["whose"])
    ]


def verdict_of(claim):
    why = claim["reason"] if claim["reason"] != STAND_IN else ""
    return f"{claim['verdict']}: {why}" if why else claim["verdict"]


def claims_table(rows):
    """Without padding: sentences are long."""
    lines = [["experiment", "claim", "verdict", "deciding figure"], ["---"] * 4, *rows]
    return "\n".join(
        "| " + " | ".join(t.replace("|", "\\|") for t in line) + " |" for line in lines
    )


def summary(records):
    """All claims under their headings, then what the records were made with."""
    blocks = []
    for heading, title in HEADINGS.items():
        rows = [row for record in records for row in claim_rows(record, heading)]
        blocks += [f"### {title}", claims_table(rows)] if rows else []
    rows = [
        [one["name"], one["made"]["date"], one["made"]["commit"], one["made"]["mlestruct"],
         one["hours"], one["made"]["machine"]]
        for one in records
    ]  # fmt: skip
    head = ["experiment", "run", "commit", "mlestruct", "hours", "machine"]
    return "\n\n".join([*blocks, "### Records", markdown_table(head, rows)])


def cell(value):
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def markdown_table(head, rows):
    lines = [[cell(value).replace("|", "\\|") for value in row] for row in [head, *rows]]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |"
        for line in lines
    )
