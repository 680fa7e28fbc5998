"""Running an experiment: parts that are missing, then pictures, tables and numbers."""

from __future__ import annotations

import csv
import io
import os
import platform
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Any

from .. import __version__
from .contract import Experiment, Outcome, Table
from .parts import Part
from .store import Store, file_name, plain, write_json, write_text

Record = dict[str, Any]
"""What the JSON file of an experiment holds."""


@dataclass(frozen=True)
class Progress:
    """Lines such as `rho 3/6  gap 10, method rho=1 ... 4.2 s`, unless `quiet`."""

    quiet: bool = False

    def say(self, text: str, end: str = "\n") -> None:
        if not self.quiet:
            print(text, end=end, flush=True)

    @contextmanager
    def working(self, text: str) -> Iterator[None]:
        """While the work is done; the line ends with its seconds, or with what ended it."""
        self.say(f"{text} ... ", end="")
        began, ending = time.perf_counter(), "interrupted"
        try:
            yield
            ending = f"{time.perf_counter() - began:.1f} s"
        except Exception:
            ending = "failed"
            raise
        finally:
            self.say(ending)


QUIET = Progress(quiet=True)


def reproduce(
    experiment: Experiment,
    out: Path,
    quick: bool = False,
    fresh: bool = False,
    progress: Progress = QUIET,
) -> Record:
    """Run what is missing and write out/NAME/: NAME.json, CSV files, PNG files.

    Returns
    -------
    what was written into the JSON file
    """
    folder = out / experiment.name
    setting = plain(experiment.setting(quick))
    store = Store(folder, setting, fresh)
    parts = list(experiment.parts(setting))
    _check_names(parts)
    kept = sum(part.name in store.kept for part in parts)
    progress.say(f"\n{experiment.name}: {experiment.title}")
    if "data" in setting:
        why = f" ({setting['why']})" if "why" in setting else ""
        progress.say(f"  data: {setting['data']}{why}")
    if kept:
        progress.say(f"  {kept} of {len(parts)} parts are there already")
    for k, part in enumerate(parts):
        if part.name not in store.kept:
            with progress.working(f"  {experiment.name} {k + 1}/{len(parts)}  {part.name}"):
                began = time.perf_counter()
                with interruptible():
                    result = part.work()
                store.keep(part, result, time.perf_counter() - began)
    with progress.working("  tables and pictures"):
        made = {part.name: store.kept[part.name] for part in parts}
        outcome = experiment.outcome(setting, {name: one["result"] for name, one in made.items()})
        record = _record(experiment, setting, quick, list(made.values()), outcome)
        _write(folder, outcome, record)
    return record


def _check_names(parts: Sequence[Part]) -> None:
    files = [file_name(part.name) for part in parts]
    twice = sorted({name for name in files if files.count(name) > 1})
    if twice:
        raise ValueError(f"parts need different names, got {', '.join(twice)} twice")


class Interrupted(BaseException):
    """Ctrl-C, in a form that no estimator answers."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Within, Ctrl-C ends everything; outside it is a KeyboardInterrupt again.

    Estimators answer a KeyboardInterrupt by keeping the best model so far, which is what a user at
    a prompt wants; a part must not take such a model for its result.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    except Interrupted:
        raise KeyboardInterrupt from None
    finally:
        signal.signal(signal.SIGINT, before)


def _record(
    experiment: Experiment,
    setting: Mapping[str, Any],
    quick: bool,
    made: Sequence[Mapping[str, Any]],
    outcome: Outcome,
) -> Record:
    finished = [part["finished"] for part in made]
    record: Record = plain(
        {
            "name": experiment.name,
            "title": experiment.title,
            "place": experiment.place,
            "solvers": experiment.solvers,
            "quick": quick,
            "setting": setting,
            "environment": environment(),
            "parts": {
                "number": len(made),
                "first finished": min(finished),
                "last finished": max(finished),
                "versions": sorted({part["version"] for part in made}),
            },
            "seconds": round(sum(part["seconds"] for part in made), 1),
            "summary": outcome.summary,
            "comparisons": [asdict(one) | {"verdict": one.verdict} for one in outcome.comparisons],
            "claims": [asdict(one) for one in outcome.claims],
            "tables": [_table_record(table) for table in outcome.tables],
            "pictures": [
                {
                    "file": f"{file_name(picture.name)}.png",
                    "caption": picture.caption,
                    "shows_data": picture.shows_data,
                }
                for picture in outcome.pictures
            ],
        }
    )
    return record


def environment() -> dict[str, Any]:
    """What the numbers were made with."""
    return {
        "date": date.today().isoformat(),
        "mlestruct": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy", "numba", "scikit-learn")},
        "machine": platform.machine(),
        "cores": os.cpu_count(),
    }


def _table_record(table: Table) -> dict[str, Any]:
    for row in table.rows:
        if len(row) != len(table.head):
            raise ValueError(
                f"table {table.name!r}: a row has {len(row)} cells under {len(table.head)} heads"
            )
    file = f"{file_name(table.name)}.csv"
    return {"file": file, "title": table.title, "head": table.head, "rows": table.rows}


def _write(folder: Path, outcome: Outcome, record: Record) -> None:
    for table in outcome.tables:
        stream = io.StringIO(newline="")
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(table.head)
        writer.writerows(plain(list(table.rows)))
        write_text(folder / f"{file_name(table.name)}.csv", stream.getvalue())
    for picture in outcome.pictures:
        picture.figure.savefig(folder / f"{file_name(picture.name)}.png", dpi=150)
    write_json(folder / f"{record['name']}.json", record)
