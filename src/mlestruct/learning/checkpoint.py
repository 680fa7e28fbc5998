"""Checkpoints: the state of a fit, written whole every so often, from which it continues.

A folder holds one file, `checkpoint.mlc`: arrays and one JSON text, nothing executable. Its header
says of which fit it is; a fit to other data or with other settings refuses it. All that decides
what a solver does next is in it, so that a resumed run makes the same steps as an unbroken one.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from .._archive import Arrays, packed, unpacked
from .._files import write_whole
from ..algorithms.matching.edge_dual import EdgeSolution
from ..algorithms.matching.newton import Solution
from ..algorithms.matching.odd_set_dual import OddSets
from ..exceptions import CheckpointError
from ..structures.contract import Marginals, Vertex
from ..structures.matchings.matching_polytope import WarmStart
from .problem import DualProblem

FORMAT = 1
KINDS: dict[str, type] = {
    kind.__name__: kind for kind in (EdgeSolution, Marginals, OddSets, Solution, Vertex, WarmStart)
}

State = dict[str, Any]


class Checkpoint:
    """Where a fit keeps its state.

    Parameters
    ----------
    folder : made if it does not exist
    every : seconds between two writes
    """

    def __init__(self, folder: str | Path, every: float = 30.0):
        if isinstance(every, bool) or not every >= 0:
            raise ValueError(f"every: expected seconds, at least 0, got {every!r}")
        self.folder, self.every = Path(folder), float(every)
        self.state: State | None = None  # to continue from
        self._settings: dict[str, str] = {}
        self._written = perf_counter()

    @property
    def path(self) -> Path:
        return self.folder / "checkpoint.mlc"

    def open(self, settings: Mapping[str, str]) -> None:
        """Read the state of an interrupted fit with the same settings, if there is one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._settings, self.state = dict(settings), None
        if not self.path.exists():
            return
        try:
            with self.path.open("rb") as file:
                header, arrays = unpacked(file)
            found, version = dict(header["settings"]), header["format"]
            state = _decoded(header["state"], arrays)
        except Exception as error:  # zipfile, json and NumPy raise many kinds
            raise CheckpointError(
                f"{self.path} is not a checkpoint, or a damaged one; remove it to start anew"
            ) from error
        if version != FORMAT:
            raise CheckpointError(f"{self.path}: format {version!r}, expected {FORMAT}")
        for name in sorted(found.keys() | self._settings.keys()):
            if found.get(name) != self._settings.get(name):
                raise CheckpointError(
                    f"{self.path} belongs to another fit: {name} is {found.get(name)} there and "
                    f"{self._settings.get(name)} here; name another folder, or remove it"
                )
        self.state = state

    def keep(self, make: Callable[[], State]) -> None:
        """Write the state that `make` returns, if it is time."""
        if perf_counter() - self._written < self.every:
            return
        arrays: Arrays = {}
        state = _encoded(make(), arrays)
        header = {"format": FORMAT, "settings": self._settings, "state": state}
        write_whole(self.path, packed(header, arrays))
        self._written = perf_counter()


def fingerprint(problem: DualProblem) -> str:
    """A hash of the data: features, by the scores of some weights, observed outputs, weights."""
    digest = hashlib.blake2b(digest_size=16)
    theta = np.random.default_rng(0).normal(size=problem.n_features)
    for block in problem.blocks:
        scores = block.scores(theta)
        for array in (scores, block.observed.indices, block.observed.values):
            digest.update(np.ascontiguousarray(array).tobytes())
        digest.update(f"{block.weight!r} {type(block.structure).__name__}".encode())
    return digest.hexdigest()


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
    if type(value) in KINDS.values():
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        parts = {name: _encoded(part, arrays) for name, part in fields.items()}
        return {"kind": type(value).__name__, "fields": parts}
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
    return KINDS[value["kind"]](
        **{name: _decoded(part, arrays) for name, part in value["fields"].items()}
    )
