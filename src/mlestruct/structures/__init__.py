"""What an output is: a polytope of pseudo-marginals, its entropy, decoder and interior point."""

from .contract import Decoding, Marginals, MissingCapability, Structure, Vertex, require
from .graphs.bipartite import BipartiteGraph
from .graphs.pairwise import Grid, PairwiseGraph, grid
from .graphs.simple import SimpleGraph
from .labellings.binary import BinaryPairwise
from .labellings.pairwise import Pairwise
from .matchings.bipartite import BipartiteMatching
from .matchings.exact import ExactMatching
from .matchings.local import LocalMatching
from .rho import Reweighting, reweighting
from .sequences import Chains

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
