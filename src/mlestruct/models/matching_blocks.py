"""How samples of bipartite matchings become blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..exceptions import InfeasibleError
from ..learning.problem import Block
from ..structures import BipartiteMatching, Vertex
from ..structures.bipartite_graph import BipartiteGraph
from .pairs import PairSample, read_sample
from .validation import check_partners

Floats = NDArray[np.float64]

NOTHING = Vertex(np.zeros(0, dtype=np.int64), np.zeros(0))


class MatchingBlocks:
    """Mixin of estimators over bipartite matchings with parameters `rho` and `perfect`."""

    rho: Any
    perfect: bool

    def _samples(self, X: Sequence[Any]) -> list[PairSample]:
        """Validated samples; an object that occurs several times is read once."""
        known: dict[int, PairSample] = {}
        samples = []
        for m, x in enumerate(X):
            if id(x) not in known:
                known[id(x)] = read_sample(x, f"X[{m}]")
            samples.append(known[id(x)])
        return samples

    def _structures(self, samples: Sequence[PairSample], rho: Any) -> list[BipartiteMatching]:
        """The output space of each sample; equal ones are shared."""
        complete: dict[tuple[int, int], BipartiteMatching] = {}
        others: dict[int, BipartiteMatching] = {}
        found = []
        for m, sample in enumerate(samples):
            graph = sample.graph
            shape = (graph.n_rows, graph.n_cols)
            structure = complete.get(shape) if graph.is_complete else others.get(id(graph))
            if structure is None:
                structure = self._structure(graph, rho, m)
                if graph.is_complete:
                    complete[shape] = structure
                else:
                    others[id(graph)] = structure
            found.append(structure)
        return found

    def _structure(self, graph: BipartiteGraph, rho: Any, m: int) -> BipartiteMatching:
        try:
            return BipartiteMatching(graph, rho, self.perfect)
        except InfeasibleError as error:
            raise InfeasibleError(f"X[{m}]: {error}", error.rows, error.side) from None
        except ValueError as error:
            raise ValueError(f"X[{m}]: {error}") from None

    def _make_blocks(self, X: Sequence[Any], rho: Any) -> list[tuple[Block, PairSample]]:
        if not isinstance(self.perfect, bool | np.bool_):
            raise TypeError(f"perfect must be True or False, got {self.perfect!r}")
        samples = self._samples(X)
        offsets: dict[int, Floats] = {}
        blocks = []
        for sample, structure in zip(samples, self._structures(samples, rho), strict=True):
            offset = None
            if sample.offset is not None:
                if id(sample) not in offsets:
                    padded = np.zeros(structure.n_coordinates)
                    padded[: structure.n_scored] = sample.offset
                    offsets[id(sample)] = padded
                offset = offsets[id(sample)]
            blocks.append((Block(structure, sample.features, NOTHING, 1.0, offset), sample))
        return blocks

    def _prepare(self, X: Sequence[Any]) -> list[Block]:
        return [block for block, _ in self._make_blocks(X, self.rho)]

    def _blocks(self, X: Sequence[Any], Y: Sequence[Any], weights: Floats) -> list[Block]:
        blocks = []
        for m, (block, sample) in enumerate(self._make_blocks(X, self.rho)):
            observed = self._observe(block, sample, Y[m], f"Y[{m}]")
            blocks.append(
                Block(block.structure, block.features, observed, weights[m], block.offset)
            )
        if all(block.structure.is_settled for block in blocks):  # type: ignore[attr-defined]
            raise ValueError(
                "X: every sample allows only one matching (n=1, or all pairs settled by masks), so "
                "there is nothing to learn"
            )
        return blocks

    def _observe(self, block: Block, sample: PairSample, label: Any, where: str) -> Vertex:
        graph = sample.graph
        partner = check_partners(label, graph.n_rows, graph.n_cols, self.perfect, where)
        try:
            return block.structure.encode(partner)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
