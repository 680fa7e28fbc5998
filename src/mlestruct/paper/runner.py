"""Running an experiment: parts that are missing, then pictures, tables and numbers."""

from __future__ import annotations

import csv
import io
import os
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .. import __version__
from .contract import Experiment, Outcome, Part, Table
from .interruption import interruptible
from .progress import Progress
from .store import Store, file_name, plain, write_json, write_text

DPI = 150
LIBRARIES = ("numpy", "scipy", "numba", "scikit-learn")

Record = dict[str, Any]
"""What the JSON file of an experiment holds."""


def reproduce(
    experiment: Experiment,
    out: Path,
    quick: bool = False,
    fresh: bool = False,
    progress: Progress | None = None,
) -> Record:
    """Run what is missing and write out/NAME/: NAME.json, CSV files, PNG files.

    Returns
    -------
    what was written into the JSON file
    """
    told = progress or Progress(quiet=True)
    folder = out / experiment.name
    setting = plain(experiment.setting(quick))
    store = Store(folder, setting, fresh)
    parts = list(experiment.parts(setting))
    _check_names(parts)
    kept = sum(part in store for part in parts)
    told.say(f"\n{experiment.name}: {experiment.title}")
    if "data" in setting:
        why = f" ({setting['why']})" if "why" in setting else ""
        told.say(f"  data: {setting['data']}{why}")
    if kept:
        told.say(f"  {kept} of {len(parts)} parts are there already")
    for k, part in enumerate(parts):
        if part not in store:
            with told.working(f"  {experiment.name} {k + 1}/{len(parts)}  {part.name}"):
                compute(part, store)
    found = {part.name: store.get(part) for part in parts}
    with told.working("  tables and pictures"):
        outcome = experiment.outcome(setting, found)
        seconds = sum(store.seconds(part) for part in parts)
        made = [store.made(part) for part in parts]
        record = _record(experiment, setting, quick, seconds, made, outcome)
        _write(folder, outcome, record)
    return record


def compute(part: Part, store: Store) -> None:
    """Do the work of a part and keep its result."""
    began = time.perf_counter()
    with interruptible():
        result = part.work()
    store.keep(part, result, time.perf_counter() - began)


def environment() -> dict[str, Any]:
    """What the numbers were made with."""
    return {
        "date": date.today().isoformat(),
        "mlestruct": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in LIBRARIES},
        "machine": platform.machine(),
        "cores": os.cpu_count(),
    }


def _check_names(parts: Sequence[Part]) -> None:
    files = [file_name(part.name) for part in parts]
    if len(set(files)) != len(files):
        twice = sorted({name for name in files if files.count(name) > 1})
        raise ValueError(f"parts need different names, got {', '.join(twice)} twice")


def _record(
    experiment: Experiment,
    setting: Mapping[str, Any],
    quick: bool,
    seconds: float,
    made: Sequence[tuple[str, str]],
    outcome: Outcome,
) -> Record:
    comparisons = [
        asdict(one) | {"verdict": one.verdict, "sentence": one.sentence}
        for one in outcome.comparisons
    ]
    record = {
        "name": experiment.name,
        "title": experiment.title,
        "place": experiment.place,
        "quick": quick,
        "setting": setting,
        "environment": environment(),
        "parts": {
            "number": len(made),
            "first finished": min(finished for finished, _ in made),
            "last finished": max(finished for finished, _ in made),
            "versions": sorted({version for _, version in made}),
        },
        "seconds": round(seconds, 1),
        "summary": list(outcome.summary),
        "comparisons": comparisons,
        "verdicts": [asdict(one) for one in outcome.verdicts],
        "tables": [_table_record(table) for table in outcome.tables],
        "pictures": [
            {
                "file": f"{file_name(picture.name)}.png",
                "caption": picture.caption,
                "shows_data": picture.shows_data,
            }
            for picture in outcome.pictures
        ],
        "numbers": dict(outcome.numbers),
    }
    done: Record = plain(record)
    return done


def _table_record(table: Table) -> dict[str, Any]:
    for row in table.rows:
        if len(row) != len(table.head):
            raise ValueError(
                f"table {table.name!r}: a row has {len(row)} cells under {len(table.head)} heads"
            )
    record: dict[str, Any] = {"file": f"{file_name(table.name)}.csv", "title": table.title}
    if table.shown:
        record |= {"head": list(table.head), "rows": [list(row) for row in table.rows]}
    return record


def _write(folder: Path, outcome: Outcome, record: Record) -> None:
    for table in outcome.tables:
        stream = io.StringIO(newline="")
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(table.head)
        writer.writerows(plain(list(table.rows)))
        write_text(folder / f"{file_name(table.name)}.csv", stream.getvalue())
    for picture in outcome.pictures:
        picture.figure.savefig(folder / f"{file_name(picture.name)}.png", dpi=DPI)
    write_json(folder / f"{record['name']}.json", record)
