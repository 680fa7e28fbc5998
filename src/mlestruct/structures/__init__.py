"""What an output is: a polytope of pseudo-marginals, its entropy, decoder and interior point."""

from ..exceptions import MissingCapability
from .contract import Bounds, Decoding, Marginals, Structure, Vertex
from .exact_space import ExactSpace
from .graphs.bipartite import BipartiteGraph
from .graphs.pairwise import Grid, PairwiseGraph, grid
from .graphs.simple import SimpleGraph
from .labellings.binary import BinaryPairwise
from .labellings.pairwise import Pairwise
from .matchings.bipartite import BipartiteMatching
from .matchings.exact import ExactMatching
from .matchings.local import LocalMatching
from .rho import Reweighting, reweighting
from .sequences import Sequences

__all__ = [
    "BinaryPairwise",
    "BipartiteGraph",
    "BipartiteMatching",
    "Bounds",
    "Decoding",
    "ExactMatching",
    "ExactSpace",
    "Grid",
    "LocalMatching",
    "Marginals",
    "MissingCapability",
    "Pairwise",
    "PairwiseGraph",
    "Reweighting",
    "Sequences",
    "SimpleGraph",
    "Structure",
    "Vertex",
    "grid",
    "reweighting",
]
