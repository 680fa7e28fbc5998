"""What is loaded on first use: names of a package, pandas."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def attach(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package whose names have their homes elsewhere.

    `homes` maps each name to the module that defines it, relative to the package.
    """

    def load(name: str) -> Any:
        if name in homes:
            found = getattr(import_module(homes[name], package), name)
            setattr(sys.modules[package], name, found)  # for the next time
            return found
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    names = sorted(homes)
    return load, lambda: names, names


def pandas_module() -> Any:
    """pandas, or an error that says how to get it."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("tables need pandas: pip install 'mlestruct[link]'") from error
    return pandas
