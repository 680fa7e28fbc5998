"""The estimators: thin, with scikit-learn's manners."""

from .base import RegularizationPath
from .bipartite import BipartiteMatchingCRF
from .chain import ChainCRF
from .graph import GraphCRF
from .grid import GridCRF
from .matching import MatchingCRF
from .pairs import EdgeList, PairInput
from .persistence import load

__all__ = [
    "BipartiteMatchingCRF",
    "ChainCRF",
    "EdgeList",
    "GraphCRF",
    "GridCRF",
    "MatchingCRF",
    "PairInput",
    "RegularizationPath",
    "load",
]
