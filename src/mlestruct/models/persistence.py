"""Model files (.mls): plain arrays and one JSON text. No code is stored.

A file is a zip archive whose members are not compressed, so that nothing can grow when it is read:
`header.json`, `coef.npy` and one `.npy` file for every parameter that is an array. `format` in the
header counts the changes of this layout. A version of mlestruct reads its own format and all
earlier ones; what it does not find it sets to the default. Files of a later format are refused.

Files may be hostile. Members are checked against their checksums, arrays for type, shape and
finiteness, and the header is valid only if the model made from it would be saved with the same one.
Functions of users are import paths, which are followed only where the caller trusts them.
"""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .. import __version__
from .._archive import Arrays, arrays_of, members, packed, unpacked
from .._arrays import as_path
from .._files import write_whole
from ..exceptions import ModelFileError, UntrustedImport
from ..learning.result import COLUMNS, History
from ..learning.solvers import SOLVERS
from ..structures.entropy import SeparableEntropy
from .import_paths import import_path, import_trusted, is_function

FORMAT = 2  # of the files; earlier ones are read, too
LEARNED: dict[str, type | tuple[type, ...]] = {
    "objective_": float,
    "duality_gap_": float,
    "converged_": bool,
    "n_iter_": int,
    "n_oracle_calls_": int,
    "solver_": str,
}
NOT_NEGATIVE = ("duality_gap_", "n_iter_", "n_oracle_calls_")
HOMES = ("mlestruct.models", "mlestruct.baselines", "mlestruct.linkage")
UNSAVED = ("callback", "verbose", "n_jobs", "random_state", "warm_start")


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
    learned = {name: getattr(estimator, name) for name in LEARNED}
    return {
        "format": FORMAT,
        "mlestruct": __version__,
        **_describe(estimator, arrays),
        "learned": {name: _plain(name, value) for name, value in learned.items()},
        "history": estimator.history_.to_dict(),
        "feature_names": names,
        "layout": layout,
    }


def _describe(estimator: BaseEstimator, arrays: Arrays) -> dict[str, Any]:
    """The class and the parameters of an estimator."""
    parameters = {
        name: _encode(name, value, arrays)
        for name, value in estimator.get_params(deep=False).items()
        if name not in UNSAVED
    }
    return {"estimator": type(estimator).__name__, "parameters": parameters}


def _encode(name: str, value: Any, arrays: Arrays) -> Any:
    if isinstance(value, BaseEstimator):
        return _describe(value, arrays)
    if type(value) in SOLVERS.values():
        return {"solver": value.name, **dataclasses.asdict(value)}
    if isinstance(value, set | frozenset):
        value = list(value)
    if isinstance(value, tuple):
        return {"tuple": [_encode(name, part, arrays) for part in value]}
    if isinstance(value, list) and any(isinstance(part, tuple) for part in value):
        return {"list": [_encode(name, part, arrays) for part in value]}
    if isinstance(value, dict):
        return {"dict": {str(key): _encode(name, part, arrays) for key, part in value.items()}}
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        key = f"array{len(arrays)}"
        arrays[key] = value
        return {"array": key}
    if isinstance(value, SeparableEntropy):
        return {"entropy": [_encode(name, part, arrays) for part in (value.a, value.c)]}
    if isinstance(value, partial) and is_function(value):
        keywords = {key: _encode(key, part, arrays) for key, part in value.keywords.items()}
        return {**_encode(name, value.func, arrays), "keywords": keywords}
    if is_function(value):
        return {"import": import_path(name, value)}
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
        f"parameter {name}={value!r} cannot be saved: files hold numbers, text, arrays and import "
        "paths of functions (an output space: structure= a function of the sample)"
    )


# ---------------------------------------------------------------------- loading
def load(path: str | Path, trusted: Sequence[str] = ()) -> Any:
    """Read a model written by `save`.

    Parameters
    ----------
    path : of the file
    trusted : import paths "module:name", or modules, of functions that the model may use
        A `StructuredCRF` has the import path of its decoder in the file. Loading imports that
        module only if it is named here; otherwise an error tells what the file asks for.

    Raises
    ------
    ModelFileError
        The file is damaged, not a model file, of a later version, or uses a function that is not
        trusted (`UntrustedImport`).
    """
    header, arrays = read_archive(as_path(path, "path"))
    stored_format = header.get("format")
    if type(stored_format) is not int or not 1 <= stored_format <= FORMAT:
        raise ModelFileError(
            f"{path}: format {stored_format!r}, written by mlestruct {header.get('mlestruct')!r}; "
            f"this is {__version__}, which reads formats 1 to {FORMAT}"
        )
    try:
        return _rebuild(header, arrays, trusted)
    except UntrustedImport as error:
        raise UntrustedImport(f"{path}: {error}") from None
    except Exception as error:  # whatever a wrong header leads to
        raise ModelFileError(
            f"{path}: not a model that mlestruct {__version__} can have written: {error}"
        ) from error


def read_archive(path: str | Path) -> tuple[dict[str, Any], Arrays]:
    """The header and the arrays of a file, which may be hostile."""
    if Path(path).exists() and not (Path(path).is_file() or Path(path).is_dir()):
        # A pipe would wait for somebody to write, some devices have no end.
        raise ModelFileError(f"{path}: is a pipe or a device, expected a file")
    with open(path, "rb") as file:
        size = file.seek(0, io.SEEK_END)
        try:
            return _read(file, size)
        except Exception as error:  # zipfile, zlib, struct, json and NumPy raise many kinds
            raise ModelFileError(
                f"{path} is not a mlestruct model file, or a damaged one"
            ) from error


def _read(file: Any, size: int) -> tuple[dict[str, Any], Arrays]:
    """The header and the arrays of a file of `size` bytes; no more memory than that is used."""
    with zipfile.ZipFile(file) as archive:
        early = "header.npy" in archive.namelist()
        # Format 1 was compressed, by deflate to a thousandth at best.
        contents = members(archive, 1_000 * size) if early else {}
    if early:
        arrays = arrays_of(contents)
        header = json.loads(str(arrays.pop("header")))
    else:
        header, arrays = unpacked(file)
    if not isinstance(header, dict):
        raise ValueError("the header is no object")
    return header, arrays


def _rebuild(header: dict[str, Any], arrays: Arrays, trusted: Sequence[str]) -> Any:
    """The model of a header, which must be the header of that model."""
    coef = arrays.pop("coef")
    if coef.dtype != np.float64 or coef.ndim != 1 or not np.isfinite(coef).all():
        raise ValueError("the weights are not a row of finite numbers")
    layout = header.get("layout")
    if any(type(value) is int and value > coef.size for value in (layout or {}).values()):
        raise ValueError("the layout counts more than there are weights")
    estimator = _make(header, arrays, trusted)
    estimator._reload(coef, header["feature_names"], layout)
    for name, kind in LEARNED.items():
        value = header["learned"][name]
        if type(value) is not kind:
            raise ValueError(f"{name} is {value!r}")
        # A gap is infinite where a fit was cut off, NaN of learners without a certificate.
        if name in NOT_NEGATIVE and header["learned"][name] < 0:
            raise ValueError(f"{name} is {value!r}")
        setattr(estimator, name, value)
    estimator.history_ = _history(header["history"])
    if len(estimator.named_coef()) != coef.size:
        raise ValueError(f"{coef.size} weights for {len(estimator.named_coef())} names")
    again: Arrays = {}
    if not _agrees({**header, "format": 0, "mlestruct": ""}, _header(estimator, again)):
        raise ValueError("the header says what no model has")
    return estimator


def _history(columns: dict[str, list[float]]) -> History:
    """A history of columns of equal length."""
    values = [columns[name] for name in COLUMNS]
    if len({len(column) for column in values}) != 1 or not all(
        type(value) in (int, float) for column in values for value in column
    ):
        raise ValueError("the history is no table of numbers")
    return History(**dict(zip(COLUMNS, values, strict=True)))  # type: ignore[arg-type]


def _make(described: dict[str, Any], arrays: Arrays, trusted: Sequence[str]) -> Any:
    """An estimator from what `_describe` made of it; only those of this library are known."""
    name = str(described["estimator"])
    for home in HOMES:  # imported at first use: it takes time
        module = import_module(home)
        kind = getattr(module, name) if name in module.__all__ else None
        if isinstance(kind, type) and issubclass(kind, BaseEstimator):
            parameters = described["parameters"].items()
            return kind(**{key: _decode(value, arrays, trusted) for key, value in parameters})
    raise ValueError(f"there is no estimator {name!r}")


def _decode(value: Any, arrays: Arrays, trusted: Sequence[str]) -> Any:
    if not isinstance(value, dict):
        return value
    if "estimator" in value:
        return _make(value, arrays, trusted)
    if "solver" in value:
        options = dict(value)
        return SOLVERS[options.pop("solver")](**options)
    if "tuple" in value:
        return tuple(_decode(part, arrays, trusted) for part in value["tuple"])
    if "list" in value:
        return [_decode(part, arrays, trusted) for part in value["list"]]
    if "entropy" in value:
        return SeparableEntropy(*(_decode(part, arrays, trusted) for part in value["entropy"]))
    if "import" in value:
        found = import_trusted(value["import"], trusted)
        keywords = value.get("keywords", {}).items()
        fixed = {key: _decode(part, arrays, trusted) for key, part in keywords}
        return partial(found, **fixed) if fixed else found
    if "dict" in value:
        return {key: _decode(part, arrays, trusted) for key, part in value["dict"].items()}
    array = arrays[value["array"]]
    if array.dtype.kind not in "fiub":
        raise ValueError(f"an array of {array.dtype}")
    return array


def _agrees(stored: Any, own: Any) -> bool:
    """Whether all that was stored is what the model itself would store.

    A model may say more: parameters that came after the file was written have their defaults.
    """
    if isinstance(stored, dict) and isinstance(own, dict):
        return all(
            key in ("format", "mlestruct") or (key in own and _agrees(value, own[key]))
            for key, value in stored.items()
        )
    return json.dumps(stored) == json.dumps(own)
