"""Model files: a zip of plain arrays and one JSON text. Nothing executable is stored or loaded."""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from sklearn.base import BaseEstimator

from ..learning.result import COLUMNS, History
from ..learning.solvers import SOLVERS

FORMAT = 1
SCALARS = ("objective_", "duality_gap_", "converged_", "n_iter_", "n_oracle_calls_", "solver_")
UNSAVED = ("callback", "verbose", "n_jobs", "random_state", "warm_start")


def _encode(name: str, value: Any) -> Any:
    if isinstance(value, BaseEstimator):
        return _describe(value)
    if type(value) in SOLVERS.values():
        return {"solver": value.name, **dataclasses.asdict(value)}
    if hasattr(value, "tolist") and not isinstance(value, np.generic):
        return value.tolist()  # arrays, and pandas' indexes
    if isinstance(value, tuple):
        return {"tuple": [_encode(name, part) for part in value]}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str | list):
        return value
    raise TypeError(f"parameter {name}={value!r} cannot be saved")


def _describe(estimator: BaseEstimator) -> dict[str, Any]:
    """The class and the parameters of an estimator; plain types only."""
    parameters = {
        name: _encode(name, value)
        for name, value in estimator.get_params(deep=False).items()
        if name not in UNSAVED
    }
    return {"estimator": type(estimator).__name__, "parameters": parameters}


def _decode(value: Any) -> Any:
    if isinstance(value, dict) and "estimator" in value:
        return _make(value)
    if isinstance(value, dict) and "solver" in value:
        options = dict(value)
        return SOLVERS[options.pop("solver")](**options)
    if isinstance(value, dict) and "tuple" in value:
        return tuple(_decode(part) for part in value["tuple"])
    return value


def _make(described: dict[str, Any]) -> Any:
    """An estimator from what `_describe` made of it; only those of this library are known."""
    name = str(described.get("estimator"))
    for home in ("mlestruct.models", "mlestruct.baselines"):  # imported at first use: it takes time
        module = import_module(home)
        kind = getattr(module, name) if name in module.__all__ else None
        if isinstance(kind, type) and issubclass(kind, BaseEstimator):
            parameters = described["parameters"].items()
            return kind(**{name: _decode(value) for name, value in parameters})
    raise ValueError(f"there is no estimator {name!r}")


def save(estimator: Any, path: str | Path) -> None:
    """Write `estimator` to `path`, whole or not at all."""
    names, layout = estimator._learned_names()
    header = {
        "format": FORMAT,
        **_describe(estimator),
        "learned": {name: getattr(estimator, name) for name in SCALARS},
        "history": estimator.history_.to_dict(),
        "feature_names": names,
        "layout": layout,
    }
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot save {target}: folder {target.parent} does not exist")
    handle, temporary = tempfile.mkstemp(dir=target.parent or ".", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez_compressed(
                file, header=np.array(json.dumps(header, default=float)), coef=estimator.coef_
            )
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def load(path: str | Path) -> Any:
    """Read a model written by `save`."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            header = json.loads(str(stored["header"]))
            coef = stored["coef"]
    except (ValueError, KeyError, EOFError, TypeError, AttributeError, BadZipFile) as error:
        raise ValueError(f"{path} is not a mlestruct model file, or a damaged one") from error
    try:
        if header.get("format") != FORMAT:
            raise ValueError("unknown format")
        estimator = _make(header)
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"{path}: written by another version of mlestruct "
            f"(format {header.get('format')}, estimator {header.get('estimator')})"
        ) from error
    estimator._reload(coef, header["feature_names"], header.get("layout"))
    for name, value in header["learned"].items():
        setattr(estimator, name, value)
    estimator.history_ = History(**{name: header["history"][name] for name in COLUMNS})
    return estimator
