"""How scores are made: linear maps with `scores(theta)` and their adjoint `moments(tau)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import attach

if TYPE_CHECKING:
    from .rows import FeatureMap, Rows
    from .words import token_features

__getattr__, __dir__, __all__ = attach(
    __name__,
    {"FeatureMap": ".rows", "Rows": ".rows", "token_features": ".words"},
)
