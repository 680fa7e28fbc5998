"""Records of experiments that a folder holds."""

from __future__ import annotations

import json
from pathlib import Path

from .catalogue import NAMES
from .contract import ReproductionError
from .runner import Record


def read_records(folder: Path) -> list[Record]:
    """All of them, in the order of the catalogue."""
    files = [folder / name / f"{name}.json" for name in NAMES]
    return [_read(file) for file in files if file.is_file()]


def _read(file: Path) -> Record:
    try:
        record: Record = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ReproductionError(
            f"{file} cannot be read ({error}): remove it and run its experiment again"
        ) from None
    return record
