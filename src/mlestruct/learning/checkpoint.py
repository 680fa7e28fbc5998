"""Checkpoints: the state of a fit, written whole every so often, from which it continues.

A folder holds one file, `checkpoint.mlc`: arrays and one JSON text, nothing executable. Its header
names the fit; a fit to other data or with other settings refuses it. The solver hands over all that
decides its next step, so that a resumed run makes the same steps as an unbroken one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from .._arguments import as_path
from .._files import Arrays, packed, unpacked, write_whole
from ..exceptions import CheckpointError

FORMAT = 2  # of the files; others are refused
PACKAGE = "mlestruct."  # whose data classes are states of oracles, by their import paths
State = dict[str, Any]


class Checkpoint:
    """Where a fit keeps its state.

    Parameters
    ----------
    folder : made if it does not exist
    every : seconds between two writes
    """

    def __init__(self, folder: str | Path, every: float = 30.0):
        number = isinstance(every, int | float | np.number) and not isinstance(every, bool)
        if not (number and every >= 0):
            raise ValueError(f"`every` must be a number of seconds, at least 0; got {every!r}.")
        self.folder, self.every = as_path(folder, "checkpoint"), float(every)
        self.state: State | None = None  # to continue from
        self.setup_calls = 0  # of oracles before the solver, in all runs
        self._settings: dict[str, str] = {}
        self._written = perf_counter()

    @property
    def path(self) -> Path:
        return self.folder / "checkpoint.mlc"

    def open(self, settings: Mapping[str, str], setup_calls: int = 0) -> None:
        """Read the state of an interrupted fit with the same settings, if there is one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._settings, self.state, self.setup_calls = dict(settings), None, setup_calls
        if not self.path.exists():
            return
        if not self.path.is_file():  # reading a pipe would wait for ever
            raise CheckpointError(f"{self.path} is not a file; remove it, or name another folder")
        try:
            with self.path.open("rb") as file:
                header, arrays = unpacked(file)
            found, version = dict(header["settings"]), header["format"]
            state = header["state"] if version == FORMAT else None
            self.setup_calls += int(header["setup_calls"]) if version == FORMAT else 0
        except Exception as error:  # zipfile, json and NumPy raise many kinds
            raise self._damaged() from error
        if version != FORMAT:
            raise CheckpointError(f"{self.path}: format {version!r}, expected {FORMAT}")
        for name in sorted(found.keys() | self._settings.keys()):
            if found.get(name) != self._settings.get(name):
                raise CheckpointError(
                    f"{self.path} belongs to another fit: {name} is {found.get(name)} there and "
                    f"{self._settings.get(name)} here; name another folder, or remove it"
                )
        try:
            self.state = _decoded(state, arrays)
        except Exception as error:
            raise self._damaged() from error

    def _damaged(self) -> CheckpointError:
        return CheckpointError(
            f"{self.path} is not a checkpoint, or a damaged one; remove it to start anew"
        )

    def keep(self, make: Callable[[], State]) -> None:
        """Write the state that `make` returns, if it is time."""
        if perf_counter() - self._written < self.every:
            return
        arrays = Arrays()
        header = {"format": FORMAT, "settings": self._settings, "setup_calls": self.setup_calls}
        header["state"] = _encoded(make(), arrays)
        write_whole(self.path, packed(header, arrays))
        self._written = perf_counter()


def _encoded(value: Any, arrays: Arrays) -> Any:
    """Plain types and names of arrays."""
    if value is None or isinstance(value, bool | str | int | float):
        return value
    if isinstance(value, np.bool_ | np.integer | np.floating):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        name = f"a{len(arrays)}"
        arrays[name] = value
        return {"array": name}
    if isinstance(value, list):
        return [_encoded(part, arrays) for part in value]
    if isinstance(value, tuple):
        return {"tuple": [_encoded(part, arrays) for part in value]}
    if isinstance(value, dict):
        return {"dict": {str(key): _encoded(part, arrays) for key, part in value.items()}}
    kind = type(value)
    if dataclasses.is_dataclass(kind) and kind.__module__.startswith(PACKAGE):
        parts = {f.name: getattr(value, f.name) for f in dataclasses.fields(kind)}
        named = {name: _encoded(part, arrays) for name, part in parts.items()}
        return {"kind": f"{kind.__module__}:{kind.__name__}", "fields": named}
    raise CheckpointError(
        f"checkpoint: the state of an oracle is a {type(value).__name__}, which no file can hold"
    )


def _decoded(value: Any, arrays: Arrays) -> Any:
    if isinstance(value, list):
        return [_decoded(part, arrays) for part in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "tuple" in value:
        return tuple(_decoded(part, arrays) for part in value["tuple"])
    if "dict" in value:
        return {name: _decoded(part, arrays) for name, part in value["dict"].items()}
    module, _, name = value["kind"].partition(":")
    kind: Any = getattr(import_module(module), name) if module.startswith(PACKAGE) else None
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        raise ValueError(f"there is no state {value['kind']!r}")
    return kind(**{name: _decoded(part, arrays) for name, part in value["fields"].items()})
