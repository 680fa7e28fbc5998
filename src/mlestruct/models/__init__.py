"""The estimators: thin, with scikit-learn's manners."""

from .base import RegularizationPath
from .bipartite import BipartiteMatchingCRF
from .chain import ChainCRF
from .graph import GraphCRF
from .grid import GridCRF
from .pairs import PairInput
from .persistence import load

__all__ = [
    "BipartiteMatchingCRF",
    "ChainCRF",
    "GraphCRF",
    "GridCRF",
    "PairInput",
    "RegularizationPath",
    "load",
]
