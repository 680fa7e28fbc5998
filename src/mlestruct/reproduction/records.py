"""Records of experiments that a folder holds."""

from __future__ import annotations

import json
from pathlib import Path

from .catalogue import NAMES
from .runner import Record


def read_records(folder: Path) -> list[Record]:
    """All of them, in the order of the catalogue."""
    files = [folder / name / f"{name}.json" for name in NAMES]
    return [json.loads(file.read_text(encoding="utf-8")) for file in files if file.is_file()]
