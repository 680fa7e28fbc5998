"""Functions of users in model files: as import paths "module:name", never as code.

Importing a module runs it, so `load` imports only what its caller has declared as trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from operator import attrgetter
from types import BuiltinFunctionType, FunctionType
from typing import Any

from ..exceptions import UntrustedImport


def is_function(value: Any) -> bool:
    """Whether a parameter is a function, possibly with some keywords fixed, or a class."""
    if isinstance(value, partial):
        return not value.args and is_function(value.func)
    return isinstance(value, FunctionType | BuiltinFunctionType | type)


def import_path(name: str, value: Any) -> str:
    """The import path of a function or class; TypeError unless that leads back to it."""
    module, place = value.__module__, value.__qualname__
    try:
        found = attrgetter(place)(import_module(module))
    except (AttributeError, ImportError, ValueError):
        found = None
    if found is not value or module == "__main__":
        raise TypeError(
            f"parameter {name}={value!r} cannot be saved: files hold import paths of functions, "
            f"and {module}:{place} is none. Define it at the top level of a module"
        )
    return f"{module}:{place}"


def import_trusted(path: str, trusted: Sequence[str]) -> Any:
    """What an import path leads to, if it or its module is trusted."""
    module, _, place = path.partition(":")
    if not {path, module} & set(trusted) and module.split(".")[0] != "mlestruct":
        raise UntrustedImport(
            f"the model uses {path}, and loading it imports that module. If you trust it, call "
            f"load(path, trusted=[{path!r}])"
        )
    return attrgetter(place)(import_module(module))
