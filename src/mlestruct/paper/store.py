"""Results of parts on disk: what is there already is not computed again."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from .contract import ReproductionError
from .parts import Part, Setting


def plain(value: Any) -> Any:
    """`value` as JSON knows it: arrays become lists, numbers that are not finite None."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"results must be plain data, got {type(value).__name__}")


def read_json(file: Path) -> dict[str, Any]:
    """A record that `write_json` has written."""
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise ReproductionError(
            f"{file} cannot be read ({error}): remove it, or start again with --fresh"
        ) from None


def write_json(file: Path, value: Any) -> None:
    """All of it or nothing: an interruption leaves the old file."""
    write_text(file, json.dumps(plain(value), indent=1, allow_nan=False, ensure_ascii=False) + "\n")


def write_text(file: Path, text: str) -> None:
    """The same for any text."""
    unfinished = file.with_name(f"{file.name}.{os.getpid()}.unfinished")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)


class Store:
    """The finished parts of one experiment, one file each.

    Parameters
    ----------
    folder : of the experiment
    setting : of the results that are wanted
    fresh : forget what is there

    Attributes
    ----------
    kept : by the name of a part: "result", "seconds", "finished" and "version"
    """

    def __init__(self, folder: Path, setting: Setting, fresh: bool = False):
        self.folder = folder / "parts"
        self.setting = plain(setting)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.kept: dict[str, dict[str, Any]] = {}
        for file in sorted(self.folder.glob("*.json")):
            if fresh:
                file.unlink()
            else:
                record = self._read(file)
                self.kept[record["part"]] = record

    def _read(self, file: Path) -> dict[str, Any]:
        record = read_json(file)
        theirs = record.get("setting", {})
        if theirs != self.setting:
            raise ReproductionError(
                f"{file.parent} holds results of another setting "
                f"({_difference(theirs, self.setting)}): choose another --out, or start again "
                "with --fresh"
            )
        return record

    def keep(self, part: Part, result: Any, seconds: float) -> None:
        record = {
            "part": part.name,
            "setting": self.setting,
            "seconds": round(seconds, 3),
            "finished": datetime.now().isoformat(timespec="seconds"),
            "version": __version__,
            "result": plain(result),
        }
        write_json(self.folder / f"{file_name(part.name)}.json", record)
        self.kept[part.name] = record


def file_name(text: str) -> str:
    """A name that every file system takes."""
    return re.sub(r"[^A-Za-z0-9.=+-]+", "_", text).strip("_") or "_"


def _difference(theirs: Setting, ours: Setting) -> str:
    """What differs between two settings; three entries at most are named."""
    keys = [key for key in {**theirs, **ours} if theirs.get(key) != ours.get(key)]
    told = [f"{k}: {_short(theirs.get(k))} there, {_short(ours.get(k))} wanted" for k in keys]
    more = [f"{len(told) - 3} more"] if len(told) > 3 else []
    return "; ".join(told[:3] + more)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."
