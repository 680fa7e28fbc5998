"""The estimators: thin, with scikit-learn's manners."""

from .base import RegularizationPath
from .bipartite import BipartiteMatchingCRF
from .pairs import PairInput
from .persistence import load

__all__ = ["BipartiteMatchingCRF", "PairInput", "RegularizationPath", "load"]
