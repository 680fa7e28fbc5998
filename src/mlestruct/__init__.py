"""Maximum-likelihood learning for structured outputs, from nothing but a MAP decoder.

Learning needs only a decoder (`StructuredCRF`; `FrankWolfe` and `BlockFrankWolfe` are the paper's
Algorithm 1). Built-in output spaces have marginal oracles as well; the default
solver uses these because it is faster (`python -m reproduction rho` prints both, with seconds).

The public names are loaded on first use, so that importing the package is quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._lazy import attach

__version__ = "0.2.0"

if TYPE_CHECKING:
    from ._running import time_limit
    from .exceptions import (
        CheckpointError,
        InfeasibleError,
        MissingCapability,
        ModelFileError,
        OutOfTimeError,
    )
    from .learning import LBFGS, BlockFrankWolfe, Checkpoint, FrankWolfe, FullyCorrective, Parts
    from .models import (
        BipartiteMatchingCRF,
        ChainCRF,
        EdgeList,
        GraphCRF,
        GridCRF,
        IsingMRF,
        MatchingCRF,
        MultiLabelCRF,
        NodeInput,
        PairInput,
        StructuredCRF,
        load,
    )
    from .structures import check_structure

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "BipartiteMatchingCRF": ".models",
        "BlockFrankWolfe": ".learning",
        "ChainCRF": ".models",
        "Checkpoint": ".learning",
        "CheckpointError": ".exceptions",
        "EdgeList": ".models",
        "FrankWolfe": ".learning",
        "FullyCorrective": ".learning",
        "GraphCRF": ".models",
        "GridCRF": ".models",
        "InfeasibleError": ".exceptions",
        "IsingMRF": ".models",
        "LBFGS": ".learning",
        "MatchingCRF": ".models",
        "MissingCapability": ".exceptions",
        "ModelFileError": ".exceptions",
        "MultiLabelCRF": ".models",
        "NodeInput": ".models",
        "OutOfTimeError": ".exceptions",
        "PairInput": ".models",
        "Parts": ".learning",
        "StructuredCRF": ".models",
        "check_structure": ".structures",
        "load": ".models",
        "time_limit": "._running",
    },
)
__all__ += ["__version__"]
