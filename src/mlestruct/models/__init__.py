"""The estimators: thin, with scikit-learn's manners."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import attach

if TYPE_CHECKING:
    from .base import RegularizationPath
    from .chain import ChainCRF
    from .graph import GraphCRF
    from .grid import GridCRF
    from .ising import IsingMRF
    from .labelling import NodeInput
    from .matching import BipartiteMatchingCRF, MatchingCRF
    from .multi_label import MultiLabelCRF
    from .pairs import EdgeList, PairInput
    from .persistence import load
    from .structured import StructuredCRF

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "BipartiteMatchingCRF": ".matching",
        "ChainCRF": ".chain",
        "EdgeList": ".pairs",
        "GraphCRF": ".graph",
        "GridCRF": ".grid",
        "IsingMRF": ".ising",
        "MatchingCRF": ".matching",
        "MultiLabelCRF": ".multi_label",
        "NodeInput": ".labelling",
        "PairInput": ".pairs",
        "RegularizationPath": ".base",
        "StructuredCRF": ".structured",
        "load": ".persistence",
    },
)
