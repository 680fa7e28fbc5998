"""Maximum-likelihood learning for structured outputs, from nothing but a MAP decoder.

The public names are loaded on first use, so that importing the package is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "BipartiteMatchingCRF": "mlestruct.models",
    "ChainCRF": "mlestruct.models",
    "EdgeList": "mlestruct.models",
    "GraphCRF": "mlestruct.models",
    "GridCRF": "mlestruct.models",
    "MatchingCRF": "mlestruct.models",
    "PairInput": "mlestruct.models",
    "load": "mlestruct.models",
    "InfeasibleError": "mlestruct.exceptions",
    "BlockFrankWolfe": "mlestruct.learning",
    "BlockMarginals": "mlestruct.learning",
    "FrankWolfe": "mlestruct.learning",
    "LBFGS": "mlestruct.learning",
    "Newton": "mlestruct.learning",
    "MissingCapability": "mlestruct.structures",
}

__all__ = [*sorted(_HOMES), "__version__"]

if TYPE_CHECKING:
    from .exceptions import InfeasibleError
    from .learning import LBFGS, BlockFrankWolfe, BlockMarginals, FrankWolfe, Newton
    from .models import (
        BipartiteMatchingCRF,
        ChainCRF,
        EdgeList,
        GraphCRF,
        GridCRF,
        MatchingCRF,
        PairInput,
        load,
    )
    from .structures import MissingCapability


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'mlestruct' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
