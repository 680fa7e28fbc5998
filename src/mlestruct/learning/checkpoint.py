"""Checkpoints: the state of a fit, written whole every so often, from which it continues.

A folder holds one file, `checkpoint.mlc`: arrays and one JSON text, nothing executable. Its header
says of which fit it is; a fit to other data or with other settings refuses it. All that decides
what a solver does next is in it, so that a resumed run makes the same steps as an unbroken one.
States that are elsewhere, with the samples of a partition, are written there, to files of their own
in the same folder.
"""

from __future__ import annotations

import dataclasses
import hashlib
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from .._archive import Arrays, packed, unpacked
from .._arrays import as_path
from .._files import write_whole
from ..exceptions import CheckpointError
from .problem import Block, DualProblem

FORMAT = 1  # of the files; others are refused
STATES = ".states.mlc"  # of names of files
PACKAGE = "mlestruct."  # whose data classes are states of oracles, by their import paths
State = dict[str, Any]


class Elsewhere(ABC):
    """A state that is not in this process. Those of checkpoints are made by `Block.load`.

    place, number : the block, and which of its states
    """

    place: int
    number: int

    @abstractmethod
    def save(self, path: Path) -> bool:
        """Have it written to a file; False if it is not known any more."""


class Checkpoint:
    """Where a fit keeps its state.

    Parameters
    ----------
    folder : made if it does not exist
    every : seconds between two writes
    """

    def __init__(self, folder: str | Path, every: float = 30.0):
        if (
            isinstance(every, bool)
            or not isinstance(every, int | float | np.number)
            or not every >= 0
        ):
            raise ValueError(f"every: expected seconds, at least 0, got {every!r}")
        self.folder, self.every = as_path(folder, "checkpoint"), float(every)
        self.state: State | None = None  # to continue from
        self.setup_calls = 0  # of oracles before the solver, in all runs
        self._settings: dict[str, str] = {}
        self._written = perf_counter()

    @property
    def path(self) -> Path:
        return self.folder / "checkpoint.mlc"

    def open(
        self, settings: Mapping[str, str], blocks: Sequence[Block], setup_calls: int = 0
    ) -> None:
        """Read the state of an interrupted fit with the same settings, if there is one."""
        self.setup_calls = setup_calls
        self.folder.mkdir(parents=True, exist_ok=True)
        self._settings, self.state = dict(settings), None
        if not self.path.exists():
            return
        if not self.path.is_file():  # reading a pipe would wait for ever
            raise CheckpointError(f"{self.path} is not a file; remove it, or name another folder")
        damaged = f"{self.path} is not a checkpoint, or a damaged one; remove it to start anew"
        with _errors_as(damaged), self.path.open("rb") as file:
            header, arrays = unpacked(file)
            found, version = dict(header["settings"]), header["format"]
            named = dict(header["elsewhere"])
        if version != FORMAT:
            raise CheckpointError(f"{self.path}: format {version!r}, expected {FORMAT}")
        for name in sorted(found.keys() | self._settings.keys()):
            if found.get(name) != self._settings.get(name):
                raise CheckpointError(
                    f"{self.path} belongs to another fit: {name} is {found.get(name)} there and "
                    f"{self._settings.get(name)} here; name another folder, or remove it"
                )
        self._remove_others(set(named.values()))
        with _errors_as(damaged):
            self.setup_calls += int(header.get("setup_calls", 0))
            self.state = _decoded(header["state"], arrays, _Loaded(self.folder, named, blocks))

    def keep(self, make: Callable[[], State]) -> None:
        """Write the state that `make` returns, if it is time."""
        if perf_counter() - self._written < self.every:
            return
        arrays, elsewhere = Arrays(), dict[str, Elsewhere]()
        state = _encoded(make(), arrays, elsewhere)
        header = {"format": FORMAT, "settings": self._settings, "state": state}
        header["setup_calls"] = self.setup_calls
        named = header["elsewhere"] = self._saved(elsewhere)
        write_whole(self.path, packed(header, arrays))
        self._remove_others(set(named.values()))
        self._written = perf_counter()

    def _saved(self, elsewhere: Mapping[str, Elsewhere]) -> dict[str, str]:
        """The names of the files to which states are written; they are new."""
        named, moment = {}, uuid.uuid4().hex
        for key, state in elsewhere.items():
            path = self.folder.resolve() / f"{moment}-{key}{STATES}"
            if state.save(path):
                named[key] = path.name
                if not path.exists():
                    raise CheckpointError(
                        f"checkpoint: a worker has written {path}, which is not here; name a "
                        "folder that all workers share"
                    )
        return named

    def _remove_others(self, named: Collection[str]) -> None:
        """Remove states of earlier checkpoints, and of those that were never finished."""
        for path in self.folder.glob(f"*{STATES}"):
            if path.name not in named:
                path.unlink(missing_ok=True)


def fingerprint(problem: DualProblem) -> str:
    """A hash of the data: features, by the scores of some weights, observed outputs, weights."""
    digest = hashlib.blake2b(digest_size=16)
    theta = np.random.default_rng(0).normal(size=problem.n_features)
    for block in problem.blocks:
        digest.update(block.digest(theta))
    return digest.hexdigest()


def write_state(path: Path, state: Any) -> None:
    """Write a state that is here to a file of its own."""
    arrays = Arrays()
    write_whole(path, packed(_encoded(state, arrays, {}), arrays))


def read_state(path: Path) -> Any:
    """The state that `write_state` has written."""
    damaged = f"{path} is not there, or damaged; remove {path.parent} to start anew"
    with _errors_as(damaged), path.open("rb") as file:
        return _decoded(*unpacked(file), None)


@contextmanager
def _errors_as(message: str) -> Iterator[None]:
    """What damaged files raise, as a CheckpointError."""
    try:
        yield
    except CheckpointError:
        raise
    except Exception as error:  # zipfile, json and NumPy raise many kinds
        raise CheckpointError(message) from error


class _Loaded:
    """States elsewhere, made known there again, each once."""

    def __init__(self, folder: Path, named: Mapping[str, str], blocks: Sequence[Block]):
        self._folder, self._named, self._blocks = folder.resolve(), named, blocks
        self._known: dict[str, Any] = {}

    def __call__(self, place: int, number: int) -> Any:
        key = f"{place}-{number}"
        if key not in self._known:
            name = self._named.get(key)
            path = None if name is None else self._folder / name
            self._known[key] = self._blocks[place].load(number, path)
        return self._known[key]


def _encoded(value: Any, arrays: Arrays, elsewhere: dict[str, Elsewhere]) -> Any:
    """Plain types and names of arrays."""

    def inner(part: Any) -> Any:
        return _encoded(part, arrays, elsewhere)

    if value is None or isinstance(value, bool | str | int | float):
        return value
    if isinstance(value, np.bool_ | np.integer | np.floating):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        name = f"a{len(arrays)}"
        arrays[name] = value
        return {"array": name}
    if isinstance(value, list):
        return [inner(part) for part in value]
    if isinstance(value, tuple):
        return {"tuple": [inner(part) for part in value]}
    if isinstance(value, dict):
        return {"dict": {str(key): inner(part) for key, part in value.items()}}
    if isinstance(value, Elsewhere):
        elsewhere[f"{value.place}-{value.number}"] = value
        return {"elsewhere": [value.place, value.number]}
    kind = type(value)
    if dataclasses.is_dataclass(kind) and kind.__module__.startswith(PACKAGE):
        parts = {f.name: inner(getattr(value, f.name)) for f in dataclasses.fields(kind)}
        return {"kind": f"{kind.__module__}:{kind.__name__}", "fields": parts}
    raise CheckpointError(
        f"checkpoint: the state of an oracle is a {type(value).__name__}, which no file can hold"
    )


def _decoded(value: Any, arrays: Arrays, elsewhere: Callable[[int, int], Any] | None) -> Any:
    def inner(part: Any) -> Any:
        return _decoded(part, arrays, elsewhere)

    if isinstance(value, list):
        return [inner(part) for part in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "tuple" in value:
        return tuple(inner(part) for part in value["tuple"])
    if "dict" in value:
        return {name: inner(part) for name, part in value["dict"].items()}
    if "elsewhere" in value and elsewhere is not None:
        return elsewhere(*value["elsewhere"])
    module, _, name = value["kind"].partition(":")
    kind: Any = getattr(import_module(module), name) if module.startswith(PACKAGE) else None
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        raise ValueError(f"there is no state {value['kind']!r}")
    return kind(**{name: inner(part) for name, part in value["fields"].items()})
