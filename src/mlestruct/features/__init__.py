"""How scores are made: linear maps with `scores(theta)` and their adjoint `moments(tau)`."""

from .arrays import DenseFeatures, IdentityFeatures, SparseFeatures
from .base import FeatureMap, dense_matrix
from .lazy import LazyFeatures
from .tables import TableFeatures

__all__ = [
    "DenseFeatures",
    "FeatureMap",
    "IdentityFeatures",
    "LazyFeatures",
    "SparseFeatures",
    "TableFeatures",
    "dense_matrix",
]
