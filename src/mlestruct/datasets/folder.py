"""The folder with real data, which the user has."""

from __future__ import annotations

import os
from pathlib import Path

ENVIRONMENT = "MLESTRUCT_DATA"


def data_folder(path: str | Path | None = None) -> Path:
    """The folder with real data: `path`, or what the environment variable MLESTRUCT_DATA names."""
    chosen = path if path is not None else os.environ.get(ENVIRONMENT)
    if chosen is None or not str(chosen):
        raise FileNotFoundError(
            f"no data folder: pass path=... or set the environment variable {ENVIRONMENT}"
        )
    folder = Path(chosen)
    if not folder.is_dir():
        raise FileNotFoundError(f"data folder {folder} does not exist")
    return folder
