"""Model files (.mls): plain arrays and one JSON text. No code is stored.

A file is a zip archive whose members are not compressed, so that nothing can grow when it is read:
`header.json`, `coef.npy` and one `.npy` file for every parameter that is an array. Two saves of a
model are equal byte for byte. `format` in the header counts the changes of this layout.

Files may be hostile. Members are checked against their checksums, arrays for type, shape and
finiteness, classes are those of mlestruct, and the header is valid only if the model made from it
would be saved with the same one. Functions of users are import paths "module:name". Importing a
module runs it, so `load` follows only the paths that its caller trusts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .. import __version__
from .._arguments import as_path
from .._files import Arrays, packed, unpacked, write_whole
from ..exceptions import ModelFileError, UntrustedImport
from ..learning.solver import COLUMNS, History, Solver

FORMAT = 4
OWN = "mlestruct."  # classes and functions of this package are trusted
LEARNED: dict[str, type[Any]] = {
    "objective_": float,
    "objective_bound_": float,
    "duality_gap_": float,
    "stationarity_": float,  # only of fits without a bound
    "certified_": bool,
    "converged_": bool,
    "n_iter_": int,
    "n_oracle_calls_": int,
    "solver_": str,
}
NOT_NEGATIVE = ("duality_gap_", "stationarity_", "n_iter_", "n_oracle_calls_")
UNSAVED = ("callback", "checkpoint", "n_jobs", "random_state", "verbose")  # belong to a run


# ---------------------------------------------------------------------- saving
def save(estimator: Any, path: str | Path) -> None:
    """Write `estimator` to `path`, whole or not at all."""
    arrays: Arrays = {}
    header = _header(estimator, arrays)
    arrays["coef"] = np.asarray(estimator.coef_)
    write_whole(as_path(path, "path"), packed(header, arrays))


def _header(estimator: Any, arrays: Arrays) -> dict[str, Any]:
    """All of a model but its weights, in plain types; arrays among the parameters go apart."""
    names, layout = estimator._learned_names()
    return {
        "format": FORMAT,
        "mlestruct": __version__,
        **_described(estimator, arrays),
        "learned": {
            name: _plain(name, getattr(estimator, name))
            for name in LEARNED
            if hasattr(estimator, name)
        },
        "history": estimator.history_.to_dict(),
        "feature_names": names,
        "layout": layout,
    }


def _described(value: BaseEstimator | Solver, arrays: Arrays) -> dict[str, Any]:
    """The class of an estimator or solver, and its parameters."""
    kind = type(value)
    if not kind.__module__.startswith(OWN):
        raise TypeError(f"{kind.__name__} cannot be saved: files hold classes of mlestruct only")
    if isinstance(value, Solver):
        names = [f.name for f in fields(value) if f.init]
    else:
        names = list(value.get_params(deep=False))
    kept = [name for name in names if name not in UNSAVED]
    return {
        "class": f"{kind.__module__}:{kind.__name__}",
        "parameters": {name: _encode(name, getattr(value, name), arrays) for name in kept},
    }


def _encode(name: str, value: Any, arrays: Arrays) -> Any:
    if isinstance(value, BaseEstimator | Solver):
        return _described(value, arrays)
    if isinstance(value, tuple):
        return {"tuple": [_encode(name, part, arrays) for part in value]}
    if isinstance(value, list | set | frozenset):
        return [_encode(name, part, arrays) for part in value]
    if isinstance(value, dict):
        return {"dict": {str(key): _encode(name, part, arrays) for key, part in value.items()}}
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        key = f"array{len(arrays)}"
        arrays[key] = value
        return {"array": key}
    if isinstance(value, partial) and not value.args:
        keywords = {key: _encode(key, part, arrays) for key, part in value.keywords.items()}
        return {"import": _import_path(name, value.func), "keywords": keywords}
    if isinstance(value, FunctionType | BuiltinFunctionType | type):
        return {"import": _import_path(name, value)}
    return _plain(name, value)


def _plain(name: str, value: Any) -> Any:
    """Plain types; indexes of pandas and arrays of text become lists."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list):
        return [_plain(name, part) for part in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(
        f"parameter {name}={value!r} cannot be saved: files hold numbers, text, arrays, solvers of "
        "mlestruct and import paths of functions (an output space: structure= a function of the "
        "sample)"
    )


def _import_path(name: str, value: Any) -> str:
    """The import path of a function or class; TypeError unless that leads back to it."""
    module, place = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    try:
        found = attrgetter(place)(import_module(module or ""))
    except (AttributeError, ImportError, ValueError):
        found = None
    if found is not value or module == "__main__":
        raise TypeError(
            f"parameter {name}={value!r} cannot be saved: files hold import paths of functions, "
            f"and {module}:{place} does not lead to it. Define it at the top level of a module"
        )
    return f"{module}:{place}"


# ---------------------------------------------------------------------- loading
def load(path: str | Path, trusted: Sequence[str] = ()) -> Any:
    """Read a model written by `save`.

    Parameters
    ----------
    path : of the file
    trusted : import paths "module:name", or modules, of functions that the model may use
        A `StructuredCRF` has the import path of its decoder in the file. Loading imports that
        module only if it is named here; otherwise the error names the path.

    Raises
    ------
    ModelFileError
        The file is damaged, not a model file, of another format, or uses a function that is not
        trusted (`UntrustedImport`).
    """
    header, arrays = _read(as_path(path, "path"))
    found = header.get("format")
    if type(found) is not int or found != FORMAT:
        raise ModelFileError(
            f"{path}: format {found!r}, written by mlestruct {header.get('mlestruct')!r}; "
            f"this is {__version__}, which reads format {FORMAT}"
        )
    try:
        return _rebuilt(header, arrays, trusted)
    except UntrustedImport as error:
        raise UntrustedImport(f"{path}: {error}") from None
    except Exception as error:  # whatever a wrong header leads to
        why = f"{error} is missing" if isinstance(error, KeyError) else error
        raise ModelFileError(
            f"{path}: not a model that mlestruct {__version__} can have written: {why}"
        ) from error


def _read(path: Path) -> tuple[dict[str, Any], Arrays]:
    """The header and the arrays of a file."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        # A pipe would wait for somebody to write, some devices have no end.
        raise ModelFileError(f"{path}: is a pipe or a device, expected a file")
    with open(path, "rb") as file:
        try:
            header, arrays = unpacked(file)
        except Exception as error:  # zipfile, zlib, struct, json and NumPy raise many kinds
            raise ModelFileError(f"{path}: not a mlestruct model file, or a damaged one") from error
    if not isinstance(header, dict):
        raise ModelFileError(f"{path}: not a mlestruct model file: the header is not an object")
    return header, arrays


def _rebuilt(header: dict[str, Any], arrays: Arrays, trusted: Sequence[str]) -> Any:
    """The model of a header, which must be the header of that model."""
    coef = arrays.pop("coef")
    if coef.dtype != np.float64 or coef.ndim != 1 or not np.isfinite(coef).all():
        raise ValueError("the weights are not a row of finite numbers")
    layout = header["layout"]
    if any(type(value) is int and value > coef.size for value in (layout or {}).values()):
        raise ValueError("the layout counts more than there are weights")
    estimator = _made(header, arrays, trusted)
    estimator._reload(coef, header["feature_names"], layout)
    for name, kind in LEARNED.items():
        if name == "stationarity_" and name not in header["learned"]:
            continue
        value: Any = header["learned"][name]
        # A gap is infinite if a fit was cut off, NaN for learners without a certificate.
        if type(value) is not kind or (name in NOT_NEGATIVE and value < 0):
            raise ValueError(f"{name} is {value!r}")
        setattr(estimator, name, value)
    estimator.history_ = _history(header["history"])
    if len(estimator.named_coef()) != coef.size:
        raise ValueError(f"{coef.size} weights for {len(estimator.named_coef())} names")
    if not _agrees({**header, "mlestruct": __version__}, _header(estimator, {})):
        raise ValueError("the header says what no model has")
    return estimator


def _history(columns: dict[str, list[float]]) -> History:
    """A history of columns of equal length."""
    values = {name: columns[name] for name in COLUMNS}
    numbers = all(type(value) in (int, float) for column in values.values() for value in column)
    if len({len(column) for column in values.values()}) != 1 or not numbers:
        raise ValueError("the history is not a table of numbers")
    return History(**values)  # type: ignore[arg-type]


def _made(described: dict[str, Any], arrays: Arrays, trusted: Sequence[str]) -> Any:
    """An estimator or solver of this package from what `_described` has made of it."""
    path = str(described["class"])
    module, _, name = path.partition(":")
    kind: Any = getattr(import_module(module), name, None) if module.startswith(OWN) else None
    known = isinstance(kind, type) and issubclass(kind, BaseEstimator | Solver)
    if not (known and kind.__module__ == module):
        raise ValueError(f"mlestruct has no class {path!r}")
    parameters = described["parameters"].items()
    return kind(**{key: _decoded(value, arrays, trusted) for key, value in parameters})


def _decoded(value: Any, arrays: Arrays, trusted: Sequence[str]) -> Any:
    if isinstance(value, list):
        return [_decoded(part, arrays, trusted) for part in value]
    if not isinstance(value, dict):
        return value
    if "class" in value:
        return _made(value, arrays, trusted)
    if "tuple" in value:
        return tuple(_decoded(part, arrays, trusted) for part in value["tuple"])
    if "import" in value:
        found = _import_trusted(value["import"], trusted)
        keywords = _decoded({"dict": value.get("keywords", {})}, arrays, trusted)
        return partial(found, **keywords) if "keywords" in value else found
    if "dict" in value:
        return {key: _decoded(part, arrays, trusted) for key, part in value["dict"].items()}
    array = arrays[value["array"]]
    if array.dtype.kind not in "fiub":
        raise ValueError(f"an array of {array.dtype}")
    return array


def _import_trusted(path: str, trusted: Sequence[str]) -> Any:
    """The object at an import path, if it or its module is trusted."""
    module, _, place = path.partition(":")
    if not {path, module} & set(trusted) and not module.startswith(OWN):
        raise UntrustedImport(
            f"the model uses {path}, and loading it imports that module. If you trust it, call "
            f"load(path, trusted=[{path!r}])"
        )
    return attrgetter(place)(import_module(module))


def _agrees(stored: Any, own: Any) -> bool:
    """Whether a model would store all that was stored; parameters that are newer have defaults."""
    if isinstance(stored, dict) and isinstance(own, dict):
        return all(name in own and _agrees(value, own[name]) for name, value in stored.items())
    return json.dumps(stored) == json.dumps(own)
