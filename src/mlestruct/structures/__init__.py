"""What an output is: a polytope of pseudo-marginals, its entropy, decoder and interior point."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import attach

if TYPE_CHECKING:
    from ..exceptions import MissingCapability
    from .check import StructureError, StructureReport, check_structure
    from .combinatorial.factor_graph import FactorGraph
    from .combinatorial.paths import Paths
    from .combinatorial.planar_ising import PlanarIsing
    from .combinatorial.spanning_trees import DirectedTrees, SpanningTrees
    from .combinatorial.subsets import Subsets
    from .contract import Bounds, Decoding, Marginals, Structure, Vertex
    from .decoder import DecoderSpace
    from .entropy import SeparableEntropy, coordinate_entropy, factor_entropy
    from .exact import ExactInference
    from .graphs.bipartite import BipartiteGraph
    from .graphs.pairwise import Grid, PairwiseGraph, grid
    from .graphs.simple import SimpleGraph
    from .labellings.pairwise import Pairwise
    from .matchings.bipartite import BipartiteMatching
    from .matchings.local import LocalMatching
    from .matchings.matching_polytope import MatchingPolytope
    from .rho import Reweighting, reweighting
    from .sequences import Sequences

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "BipartiteGraph": ".graphs.bipartite",
        "BipartiteMatching": ".matchings.bipartite",
        "Bounds": ".contract",
        "DecoderSpace": ".decoder",
        "Decoding": ".contract",
        "MatchingPolytope": ".matchings.matching_polytope",
        "DirectedTrees": ".combinatorial.spanning_trees",
        "ExactInference": ".exact",
        "FactorGraph": ".combinatorial.factor_graph",
        "Grid": ".graphs.pairwise",
        "LocalMatching": ".matchings.local",
        "Marginals": ".contract",
        "MissingCapability": "..exceptions",
        "Pairwise": ".labellings.pairwise",
        "PairwiseGraph": ".graphs.pairwise",
        "Paths": ".combinatorial.paths",
        "PlanarIsing": ".combinatorial.planar_ising",
        "Reweighting": ".rho",
        "SeparableEntropy": ".entropy",
        "Sequences": ".sequences",
        "SimpleGraph": ".graphs.simple",
        "SpanningTrees": ".combinatorial.spanning_trees",
        "Structure": ".contract",
        "StructureError": ".check",
        "StructureReport": ".check",
        "Subsets": ".combinatorial.subsets",
        "Vertex": ".contract",
        "check_structure": ".check",
        "coordinate_entropy": ".entropy",
        "factor_entropy": ".entropy",
        "grid": ".graphs.pairwise",
        "reweighting": ".rho",
    },
)
