"""What experiments share: verdicts, a folder to write to, CSV files, progress."""

from __future__ import annotations

import argparse
import csv
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


def verdict(text: str, holds: bool, remark: str = "") -> bool:
    """Print whether a claim holds."""
    print(f"{text}: {'yes' if holds else 'NO'}{f' ({remark})' if remark else ''}")
    return bool(holds)


def writable_folder(parser: argparse.ArgumentParser, name: str) -> Path:
    """The folder, made if need be; an error of the command line if nothing can be written there."""
    folder = Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        parser.error(f"--out: cannot write to {name!r} ({error.strerror})")
    return folder


def write_csv(file: Path, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(head)
        writer.writerows(rows)


def show_progress(text: str) -> None:
    """A line while something takes long."""
    print(f"  ... {text}", flush=True)
