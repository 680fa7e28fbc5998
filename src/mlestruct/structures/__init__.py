"""What an output is: a polytope of pseudo-marginals, its entropy, decoder and interior point."""

from .base import (
    Decoding,
    Marginals,
    MissingCapability,
    Structure,
    Vertex,
    require,
)
from .binary import BinaryPairwise
from .bipartite import BipartiteMatching
from .bipartite_graph import BipartiteGraph
from .chains import Chains
from .exact_matching import ExactMatching
from .local_matching import LocalMatching
from .pairwise import Pairwise
from .pairwise_graph import Grid, PairwiseGraph, grid
from .reweighting import Reweighting, reweighting
from .simple_graph import SimpleGraph

__all__ = [
    "BinaryPairwise",
    "BipartiteGraph",
    "BipartiteMatching",
    "Chains",
    "Decoding",
    "ExactMatching",
    "Grid",
    "LocalMatching",
    "Marginals",
    "MissingCapability",
    "Pairwise",
    "PairwiseGraph",
    "Reweighting",
    "SimpleGraph",
    "Structure",
    "Vertex",
    "grid",
    "require",
    "reweighting",
]
