"""Readers of recordings: MATLAB files of graph_ensemble and Pat-Map, .npz and CSV.

* neurons: `data`, frames x neurons
* stimuli: `stimuli` (graph_ensemble) or `udf` (Pat-Map), frames x stimuli, or one column with the
  number of the stimulus of each frame, 0 for none
* positions: `coords`, neurons x 2 or 3, or `rois`, the same or a cell array of outlines
* CSV: one row a frame, one column a neuron; columns whose names start with `stim` or `udf` are
  stimuli
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat

from .._arrays import as_path
from .landmarks import data_folder
from .spikes import SpikeData

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NEURONS = ("data", "spikes")
STIMULI = ("stimuli", "udf", "udfs", "stim")
POSITIONS = ("coords", "rois", "coordinates")
HDF5 = b"\x89HDF"


def read_spikes(path: str | Path) -> SpikeData:
    """A recording from a .mat, .npz or .csv file, with the names above.

    Names in files are taken in upper or lower case. Activity must be 0 and 1.
    """
    file = as_path(path, "path")
    if not file.is_file():
        raise FileNotFoundError(f"{file} does not exist")
    readers = {".mat": _read_mat, ".npz": _read_npz, ".csv": _read_csv}
    suffix = file.suffix.lower()
    if suffix not in readers:
        raise ValueError(f"{file}: expected a .mat, .npz or .csv file, got {suffix or 'no suffix'}")
    fields = {name.lower(): value for name, value in readers[suffix](file).items()}
    spikes = _binary(_pick(fields, NEURONS, file, "activity"), f"{file}: activity")
    shown = _pick(fields, STIMULI, None, "stimuli")
    stimuli = _stimuli(shown, spikes.shape, file)
    coords = _positions(_pick(fields, POSITIONS, None, "positions"), spikes.shape[1], file)
    return SpikeData(spikes, stimuli, coords, None, file.stem)


def load_neural_demo(path: str | Path | None = None) -> SpikeData:
    """The example recording of graph_ensemble: 100 frames of 10 neurons, two stimuli.

    Reads neural_demo/experiment_demo.mat in `path`, or in the folder that the environment variable
    MLESTRUCT_DATA names.
    """
    return read_spikes(data_folder(path) / "neural_demo" / "experiment_demo.mat")


# ---------------------------------------------------------------------- files
def _read_mat(file: Path) -> dict[str, Any]:
    """Variables of a MATLAB file; version 7.3 is HDF5, stored with its axes reversed."""
    with file.open("rb") as stream:
        is_hdf5 = HDF5 in stream.read(520)
    if not is_hdf5:
        try:
            return dict(loadmat(file))
        except Exception as error:  # SciPy raises many kinds
            raise ValueError(f"{file} is not a MATLAB file: {error}") from error
    try:
        h5py = import_module("h5py")
    except ImportError as error:
        raise ImportError(
            f"{file} is a MATLAB 7.3 file, which needs h5py: pip install 'mlestruct[matlab]', or "
            "save it with -v7 in MATLAB"
        ) from error
    try:
        with h5py.File(file) as stored:
            parts = {name: part for name, part in stored.items() if hasattr(part, "shape")}
            return {name: np.asarray(part).T for name, part in parts.items()}
    except OSError as error:
        raise ValueError(f"{file} is not a MATLAB 7.3 file: {error}") from error


def _read_npz(file: Path) -> dict[str, Any]:
    try:
        with np.load(file, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except Exception as error:
        raise ValueError(f"{file} is not a file of arrays: {error}") from error


def _read_csv(file: Path) -> dict[str, Any]:
    """Columns by their names; without a header all columns are neurons."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: not UTF-8 at byte {error.start}") from None
    lines = [line for line in text.splitlines() if line.strip()]
    first = [name.strip().strip('"') for name in lines[0].split(",")] if lines else []
    named = not all(_is_number(name) for name in first)
    if len(lines) <= named:
        raise ValueError(f"{file} has no frames")
    try:
        rows = np.loadtxt(lines[named:], delimiter=",", ndmin=2)
    except ValueError as error:
        raise ValueError(f"{file}: expected numbers separated by commas: {error}") from None
    if not named:
        return {"data": rows}
    shown = np.array([name.lower().startswith(("stim", "udf")) for name in first])
    return {"data": rows[:, ~shown], **({"stimuli": rows[:, shown]} if shown.any() else {})}


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# ---------------------------------------------------------------------- their contents
def _pick(fields: Mapping[str, Any], names: tuple[str, ...], file: Path | None, what: str) -> Any:
    found = next((fields[name] for name in names if name in fields), None)
    if found is None and file is not None:
        there = ", ".join(name for name in fields if not name.startswith("__")) or "nothing"
        raise ValueError(f"{file}: {what} should be named {' or '.join(names)}; there is {there}")
    return found


def _binary(table: Any, where: str) -> Ints:
    array = np.asarray(table.toarray() if hasattr(table, "toarray") else table)
    if array.ndim != 2 or 0 in array.shape or array.dtype.kind not in "biuf":
        raise ValueError(
            f"{where} should be a matrix of frames x columns, got shape {array.shape} of "
            f"{array.dtype}"
        )
    if not np.isin(array, (0, 1)).all():
        strange = array[~np.isin(array, (0, 1))].ravel()[0].item()
        raise ValueError(
            f"{where} should be 0 and 1, found {strange!r}; detect spikes first, or apply a "
            "threshold"
        )
    return array.astype(np.int64)


def _stimuli(shown: Any, shape: tuple[int, ...], file: Path) -> Ints:
    """Columns of 0 and 1; one column of numbers above 1 has the stimulus of each frame, 0 none."""
    n_frames = shape[0]
    if shown is None:
        return np.zeros((n_frames, 0), dtype=np.int64)
    table = np.atleast_1d(np.asarray(shown))
    if table.ndim == 1 or (table.ndim == 2 and table.shape[0] == 1 != n_frames):
        table = table.reshape(-1, 1)
    if table.ndim != 2 or table.shape[0] != n_frames:
        hint = " (transposed?)" if n_frames in table.shape else ""
        raise ValueError(
            f"{file}: stimuli have shape {table.shape}{hint}, but there are {n_frames} frames of "
            f"{shape[1]} neurons"
        )
    numbers = table[:, 0]
    if table.shape[1] == 1 and table.dtype.kind in "iuf" and not np.isin(numbers, (0, 1)).all():
        if (numbers < 0).any() or (numbers != np.round(numbers)).any():
            raise ValueError(f"{file}: one column of stimuli should be 0 and 1, or numbers from 0")
        which = np.unique(numbers[numbers > 0])
        return (numbers[:, None] == which).astype(np.int64)
    return _binary(table, f"{file}: stimuli")


def _positions(given: Any, n_neurons: int, file: Path) -> Floats | None:
    """Positions of neurons, or centres of their outlines."""
    if given is None:
        return None
    array = np.asarray(given)
    if array.dtype == object:  # a cell array of outlines
        outlines = [np.asarray(part, dtype=np.float64) for part in array.ravel()]
        if not all(part.ndim == 2 and part.shape[1] >= 2 and part.size for part in outlines):
            return None
        array = np.array([part[:, :2].mean(axis=0) for part in outlines])
    if array.dtype.kind not in "iuf" or array.ndim != 2 or array.shape[1] < 2:
        return None
    if array.shape[0] != n_neurons:
        raise ValueError(
            f"{file}: positions of {array.shape[0]} neurons, but activity of {n_neurons}"
        )
    return array[:, :2].astype(np.float64)
