"""Marginals, partition functions, their bounds, and samples.

The public names are loaded on first use: structures import the oracles of this package.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    "Bounds": "result",
    "Inference": "result",
    "Samples": "result",
    "belief_propagation": "belief_propagation",
    "log_partition": "methods",
    "log_partition_bounds": "bounds",
    "marginals": "methods",
    "sample": "sampling",
    "tighten": "bounds",
}

__all__ = [*sorted(_HOMES)]

if TYPE_CHECKING:
    from .belief_propagation import belief_propagation
    from .bounds import log_partition_bounds, tighten
    from .methods import log_partition, marginals
    from .result import Bounds, Inference, Samples
    from .sampling import sample


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
