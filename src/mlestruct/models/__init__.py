"""The estimators: thin, with scikit-learn's manners."""

from typing import Any

from .base import RegularizationPath
from .bipartite import BipartiteMatchingCRF
from .pairs import PairInput
from .persistence import load

ESTIMATORS: dict[str, Any] = {"BipartiteMatchingCRF": BipartiteMatchingCRF}

__all__ = ["ESTIMATORS", "BipartiteMatchingCRF", "PairInput", "RegularizationPath", "load"]
