"""How scores are made: linear maps with `scores(theta)` and their adjoint `moments(tau)`."""

from .arrays import DenseFeatures, IdentityFeatures, SparseFeatures
from .contract import FeatureMap, as_feature_map
from .graphs import networkx_sample
from .images import edge_feature_names, edge_features, node_feature_names, node_features
from .lazy import LazyFeatures, SquareFeatures
from .levels import Levels
from .pairwise import BinaryFeatures, StateFeatures
from .questionnaires import QuestionnairePairs
from .sequences import SequenceFeatures
from .tables import TableFeatures
from .words import token_features

__all__ = [
    "BinaryFeatures",
    "DenseFeatures",
    "FeatureMap",
    "IdentityFeatures",
    "LazyFeatures",
    "Levels",
    "QuestionnairePairs",
    "SequenceFeatures",
    "SparseFeatures",
    "SquareFeatures",
    "StateFeatures",
    "TableFeatures",
    "as_feature_map",
    "edge_feature_names",
    "edge_features",
    "networkx_sample",
    "node_feature_names",
    "node_features",
    "token_features",
]
