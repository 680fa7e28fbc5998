"""How samples of matchings become blocks, for one group of nodes or two sides."""

from __future__ import annotations

import inspect
import warnings
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._deadline import check_time, wait_for
from ..algorithms.matching.blossom import best_matching
from ..exceptions import InfeasibleError
from ..features.constant import ConstantFeature
from ..features.contract import FeatureMap
from ..labels import check_counts, check_pairs, is_partial, read_known, read_pairs
from ..learning.problem import Block
from ..structures import BipartiteMatching, LocalMatching, MatchingPolytope, SimpleGraph, Vertex
from ..structures.conditioned import Conditioned
from ..structures.contract import MatchingStructure, Structure
from ..structures.matchings.bipartite import side_rho
from ..structures.matchings.family import node_capacity
from .pair_frames import PairFrame, is_boolean, names_pairs
from .pairs import PairSample, read_sample
from .validation import count_threads

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

NOTHING = Vertex(np.zeros(0, dtype=np.int64), np.zeros(0))


class MatchingBlocks:
    """Mixin of estimators over matchings with parameters `rho`, `perfect` and `capacity`.

    Subclasses define how a sample is read, its output space and its labels.
    """

    rho: Any
    perfect: Any
    capacity: Any = 1
    n_jobs: int | None = None
    fit_intercept: bool
    _intercept: bool = False
    _in_partition: bool = False

    @abstractmethod
    def _read(self, x: Any, where: str) -> PairSample:
        """A validated sample."""

    @abstractmethod
    def _space(self, sample: PairSample, rho: Any, capacity: Any) -> MatchingStructure:
        """The output space of a sample."""

    def _warn_of_rho(self) -> None:
        """Warn that capacities above 1 set rho, unless it was left at its default."""
        default = inspect.signature(type(self)).parameters["rho"].default
        if not (np.isscalar(self.rho) and self.rho == default):
            warnings.warn(
                f"rho={self.rho!r} has no effect with capacities other than 1: rho is 0 at nodes "
                "of capacity above 1 and 1/2 at the others",
                UserWarning,
                stacklevel=2,
            )

    def _to_structure(self, label: Any, sample: PairSample, structure: Structure) -> Any:
        """A label in the structure's numbering of nodes."""
        return label

    def _label(self, found: Ints, sample: PairSample) -> Ints:
        """A structure's label in the user's numbering."""
        return found

    def _check_perfect(self) -> None:
        if not isinstance(self.perfect, bool | np.bool_):
            raise TypeError(f"perfect must be True or False, got {self.perfect!r}")

    def _samples(self, X: Sequence[Any]) -> list[PairSample]:
        """Validated samples; an object that occurs several times is read once."""
        known: dict[int, PairSample] = {}
        samples = []
        for m, x in enumerate(X):
            if id(x) not in known:
                check_time("reading X")
                known[id(x)] = self._read(x, f"X[{m}]")
            samples.append(known[id(x)])
        return samples

    def _structures(self, samples: Sequence[PairSample], rho: Any) -> list[MatchingStructure]:
        """The output space of each sample; equal ones are shared."""
        known: dict[Hashable, MatchingStructure] = {}
        found = []
        for m, sample in enumerate(samples):
            graph = sample.graph
            key = (sample.shape if graph.is_complete else id(graph), id(sample.capacity))
            if key not in known:
                known[key] = self._structure(sample, rho, m)
                # Threads that samples leave idle share out the components of a sample.
                known[key].n_jobs = max(1, count_threads(self.n_jobs) // len(samples))
            found.append(known[key])
        return found

    def _structure(self, sample: PairSample, rho: Any, m: int) -> MatchingStructure:
        check_time("set-up of matchings")
        capacity = self.capacity if sample.capacity is None else sample.capacity
        try:
            # .12 s for a million pairs
            longest = 1.2e-7 * sample.graph.n_edges
            arguments = sample, rho, capacity
            return wait_for("set-up of matchings", self._space, *arguments, seconds=longest)
        except InfeasibleError as error:
            raise InfeasibleError(f"X[{m}]: {error}", error.rows, error.side) from None
        except ValueError as error:
            raise ValueError(f"X[{m}]: {error}") from None

    def _make_blocks(self, X: Sequence[Any], rho: Any) -> list[tuple[Block, PairSample]]:
        self._check_perfect()
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
            blocks.append((Block(structure, self._features(sample), NOTHING, 1.0, offset), sample))
        return blocks

    def _features(self, sample: PairSample) -> FeatureMap:
        """The features of new samples, with the constant if one was learned."""
        return ConstantFeature(sample.features) if self._intercept else sample.features

    def _wants_intercept(self) -> bool:
        # The number of pairs is the same in all matchings that fill a side: so is a constant.
        return bool(self.fit_intercept) and not self.perfect

    def _prepare(self, X: Sequence[Any]) -> list[Block]:
        return [block for block, _ in self._make_blocks(X, self.rho)]

    def _blocks(
        self, X: Sequence[Any], Y: Sequence[Any], weights: Floats, separate: bool
    ) -> list[Block]:
        blocks = []
        partial = next((m for m, label in enumerate(Y) if is_partial(label)), None)
        if partial is not None and not self.perfect:
            warnings.warn(
                f"Y[{partial}]: NaN is a partner that is not known, and is summed over; single "
                "nodes are -1",
                UserWarning,
                stacklevel=5,
            )
        for m, (block, sample) in enumerate(self._make_blocks(X, self.rho)):
            blocks.append(
                replace(self._observed(block, sample, Y[m], f"Y[{m}]"), weight=weights[m])
            )
        if not self._in_partition and all(block.structure.is_fixed for block in blocks):
            raise ValueError(
                "X: every sample allows only one matching (too few nodes, or all pairs fixed by "
                "masks), so there is nothing to learn"
            )
        return blocks

    def _observed(
        self,
        block: Block,
        sample: PairSample,
        label: Any,
        where: str,
        known: Floats | None = None,
    ) -> Block:
        """The block with a matching observed, or with what is known of one.

        Where values of pairs are `known` beforehand, its outputs are those that agree with them.
        """
        space = block.structure
        given = space if known is None else self._given(space, known, where)
        if not is_partial(label):
            vertex = self._observe(block, sample, label, where)
            if known is not None:
                _join(vertex.dense(space.n_coordinates)[: known.size], known, where)
            return replace(block, observed=vertex, structure=given)
        values = self._known_values(sample, label, where)
        values = values if known is None else _join(values, known, where)
        partial = self._given(space, values, where)
        inside = partial.interior()
        at = np.flatnonzero(inside)
        return replace(block, observed=Vertex(at, inside[at]), partial=partial, structure=given)

    def _given(self, structure: Structure, values: Floats, where: str) -> Structure:
        """The matchings that agree with the values of pairs, NaN where they are not known."""
        try:
            return structure.given(values)
        except InfeasibleError as error:
            raise InfeasibleError(f"{where}: {error}", error.rows, error.side) from None
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None

    def _known_values(self, sample: PairSample, known: Any, where: str) -> Floats:
        """What is known of every allowed pair: 1, 0, or NaN."""
        found = read_known(read_links(known, sample, where), *sample.sides, where)
        graph = sample.graph
        values = np.full(graph.n_edges, np.nan)
        single = np.zeros(sample.shape[0], dtype=bool)
        single[found.single] = True
        values[single[graph.row]] = 0.0
        if isinstance(graph, SimpleGraph):
            values[single[graph.col]] = 0.0
        absent = graph.edge_between(found.absent[:, 0], found.absent[:, 1])
        values[absent[absent >= 0]] = 0.0
        edges = graph.edge_between(found.pairs[:, 0], found.pairs[:, 1])
        if (edges < 0).any():
            outside = found.pairs[edges < 0]
            if not is_named(known, sample) or self.perfect or np.any(self.capacity != 1):
                i, j = outside[0].tolist()
                raise ValueError(f"{where}: the pair ({i}, {j}) is known, but not allowed")
            warnings.warn(
                f"{where}: {len(outside)} of {len(found.pairs)} known links are not among the "
                "candidate pairs: their records get no other link, and they are not in the answer",
                UserWarning,
                stacklevel=4,
            )
            if isinstance(graph, SimpleGraph):
                outside = np.concatenate([outside, outside[:, ::-1]])
            taken = np.isin(graph.row, outside[:, 0]) | np.isin(graph.col, outside[:, 1])
            values[taken] = 0.0
        values[edges[edges >= 0]] = 1.0
        return values

    def _observe(self, block: Block, sample: PairSample, label: Any, where: str) -> Vertex:
        structure = block.structure
        if is_named(label, sample):
            label = self._candidates(read_links(label, sample, where), sample, where)
        try:
            return structure.encode(self._to_structure(label, sample, structure))
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None

    def _candidates(self, links: Ints, sample: PairSample, where: str) -> Ints:
        """The links that are candidate pairs; a warning tells how many are not."""
        found = sample.graph.edge_between(links[:, 0], links[:, 1]) >= 0
        if not found.all():
            warnings.warn(
                f"{where}: {np.count_nonzero(~found)} of {found.size} links are not among the "
                "candidate pairs; they are left out, so that their records count as single",
                UserWarning,
                stacklevel=2,
            )
        return links[found]


class BipartiteBlocks(MatchingBlocks):
    """Matchings between the rows and the columns of a sample."""

    def _check_perfect(self) -> None:
        if not (isinstance(self.perfect, bool | np.bool_) or self.perfect in ("rows", "columns")):
            raise TypeError(
                f"perfect must be True, False, 'rows' or 'columns', got {self.perfect!r}"
            )

    def _read(self, x: Any, where: str) -> PairSample:
        return read_sample(x, where)

    def _space(self, sample: PairSample, rho: Any, capacity: Any) -> MatchingStructure:
        rows, cols = side_capacities(capacity, *sample.shape)
        self._check_sides(rows, cols)
        if (rows == 1).all() and (cols == 1).all():
            return BipartiteMatching(sample.graph, rho, bool(self.perfect))
        side_rho(rho, *sample.shape)  # has no effect beyond capacity 1, but must be valid
        self._warn_of_rho()
        # By default the side with less capacity is filled, as in a plain matching.
        smaller = bool(self.perfect) and not isinstance(self.perfect, str)
        full_rows = self.perfect == "rows" or (smaller and rows.sum() <= cols.sum())
        full_cols = self.perfect == "columns" or (smaller and cols.sum() <= rows.sum())
        full = np.concatenate([np.full(rows.shape, full_rows), np.full(cols.shape, full_cols)])
        try:
            return LocalMatching(
                SimpleGraph.from_bipartite(sample.graph), 0.5, full, np.concatenate([rows, cols])
            )
        except InfeasibleError as error:
            raise InfeasibleError(
                f"{error} (nodes from {sample.shape[0]} on are columns)", error.rows, error.side
            ) from None

    def _check_sides(self, rows: Ints, cols: Ints) -> None:
        """Raise if the side that is to be filled needs more than the other one has."""
        for side, need, have in (("rows", rows, cols), ("columns", cols, rows)):
            if self.perfect == side and need.sum() > have.sum():
                raise InfeasibleError(
                    f"perfect={side!r}: the {side} need {need.sum()} partners in all, the other "
                    f"side has a capacity of {have.sum()}",
                    list(range(need.shape[0])),
                    side,
                )

    def _to_structure(self, label: Any, sample: PairSample, structure: Structure) -> Any:
        space = matching_structure(structure)
        if space.labels_are_columns:
            return label
        pairs = (read_pairs if space.is_simple else check_pairs)(label, *sample.shape)
        forbidden = sample.graph.edge_between(pairs[:, 0], pairs[:, 1]) < 0
        if forbidden.any():
            i, j = pairs[int(np.argmax(forbidden))].tolist()
            raise ValueError(f"row {i} and column {j} are a pair, which is not allowed")
        n_rows, n_cols = sample.shape
        for side, node, nodes in (
            (0, "row", slice(n_rows)),
            (1, "column", slice(n_rows, n_rows + n_cols)),
        ):
            capacity, free = space.capacity[nodes], space.free[nodes]
            used = np.bincount(pairs[:, side], minlength=capacity.size)
            check_counts(used, capacity, free, node)
        return pairs + np.array([0, n_rows])

    def _label(self, found: Ints, sample: PairSample) -> Ints:
        n_rows = sample.shape[0]
        if found.ndim == 2:
            return found - np.array([0, n_rows])
        if found.shape[0] == n_rows:
            return found
        partner = found[:n_rows]  # of all nodes, where some have a capacity of 0
        return np.where(partner < 0, -1, partner - n_rows)


class GroupBlocks(MatchingBlocks):
    """Matchings among the members of one group."""

    polytope: str = "local"

    def _read(self, x: Any, where: str) -> PairSample:
        return read_sample(x, where, group=True)

    def _space(self, sample: PairSample, rho: Any, capacity: Any) -> MatchingStructure:
        if self.polytope not in ("local", "exact"):
            raise ValueError(f"polytope: expected 'local' or 'exact', got {self.polytope!r}")
        graph = sample.graph
        capacities = node_capacity(capacity, graph.n_nodes)
        plain = bool((capacities == 1).all())
        if self.polytope == "exact" and not plain:
            raise ValueError("polytope='exact' is for capacity 1; b-matchings need 'local'")
        if self.perfect and capacities.sum() % 2:
            what = f"{graph.n_nodes} nodes" if plain else f"capacities of {capacities.sum()} in all"
            raise InfeasibleError(
                f"{what}: an odd number cannot be matched perfectly; leave a node out, or allow "
                "single nodes by perfect=False",
                [],
                "nodes",
            )
        if self.polytope == "exact":
            return MatchingPolytope(graph, rho, self.perfect)
        if self.perfect and plain and not graph.is_complete:
            best_matching(graph.n_nodes, graph.ptr, graph.col, np.zeros(graph.n_edges))  # or raises
        if not plain:
            self._warn_of_rho()
        return LocalMatching(graph, rho, self.perfect, capacities)


def _join(values: Floats, known: Floats, where: str) -> Floats:
    """What two lists tell about every pair, NaN where neither does; raises where they differ."""
    differ = ~np.isnan(values) & ~np.isnan(known) & (values != known)
    if differ.any():
        raise ValueError(f"{where}: differs from what is known in {np.count_nonzero(differ)} pairs")
    return np.where(np.isnan(known), values, known)


def is_named(label: Any, sample: PairSample) -> bool:
    """Whether a label consists of links between ids, or marks candidate pairs of a frame."""
    if sample.frame is None and isinstance(label, np.ndarray):
        return False  # partners, or pairs of positions
    return names_pairs(label) or (sample.frame is not None and is_boolean(label))


def read_links(label: Any, sample: PairSample, where: str) -> Any:
    """A label whose links are given by ids as pairs of positions; any other as it is."""
    if not is_named(label, sample):
        return label
    if sample.frame is None:
        raise TypeError(
            f"{where}: links between ids need a sample that has ids; make it by from_frame"
        )
    return sample.frame.positions(label, where)


def matching_structure(structure: Structure) -> MatchingStructure:
    """The space of matchings behind a block's structure, which may have exact marginals."""
    space = structure.whole if isinstance(structure, Conditioned) else structure.approximate
    assert isinstance(space, MatchingStructure)
    return space


def side_capacities(capacity: Any, n_rows: int, n_cols: int) -> tuple[Ints, Ints]:
    """Capacities of rows and columns from a number, one array, or a pair of either."""
    if isinstance(capacity, tuple):
        if len(capacity) != 2:
            raise ValueError(
                f"capacity: a tuple must hold (of rows, of columns), got {len(capacity)} parts"
            )
        return node_capacity(capacity[0], n_rows), node_capacity(capacity[1], n_cols)
    both = node_capacity(capacity, n_rows + n_cols)
    return both[:n_rows], both[n_rows:]


def pair_table(sample: PairSample, values: Floats, fill: float = 0.0) -> Any:
    """Values of the allowed pairs as a matrix: symmetric for a group, sparse where the mask was."""
    graph = sample.graph
    values = values[: graph.n_edges]
    if sample.sparse:
        table = sparse.csr_array((values, graph.col, graph.ptr), shape=sample.shape)
        return sparse.csr_array(table + table.T) if isinstance(graph, SimpleGraph) else table
    return graph.dense(values, fill)


def link_frame(sample: PairSample, probability: Floats, linked: Bools) -> Any:
    """A data frame of the allowed pairs, in the order of the sample's frame if it has one."""
    graph, frame = sample.graph, sample.frame
    if frame is None:
        names = ("node", "partner") if isinstance(graph, SimpleGraph) else ("row", "column")
        ends = np.stack([graph.row, graph.col], axis=1)
        frame = PairFrame.of_positions(ends, graph.shape, names)
    edges = graph.edge_between(frame.pairs[:, 0], frame.pairs[:, 1])
    return frame.table({"probability": probability[edges], "linked": linked[edges]})
