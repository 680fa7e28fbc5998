"""What an output is: a polytope of pseudo-marginals, its entropy, decoder and interior point."""

from .base import (
    Decoding,
    Marginals,
    MissingCapability,
    Structure,
    Vertex,
    require,
)
from .bipartite import BipartiteMatching
from .bipartite_graph import BipartiteGraph

__all__ = [
    "BipartiteGraph",
    "BipartiteMatching",
    "Decoding",
    "Marginals",
    "MissingCapability",
    "Structure",
    "Vertex",
    "require",
]
