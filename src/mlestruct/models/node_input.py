"""`NodeInput`: a sample of nodes to be labelled, with scores that are known beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..features.labellings import MergedEdges
from ..structures.contract import LabellingStructure

Floats = NDArray[np.float64]
T = TypeVar("T", covariant=True)


class TakesOffset(Protocol[T]):
    """A sample that was read."""

    def with_offset(self, given: NodeInput | None, n_states: int, where: str) -> T: ...


@dataclass(frozen=True)
class NodeInput:
    """One sample of `GridCRF`, `GraphCRF` or `ChainCRF`: features, and scores that are known.

    Parameters
    ----------
    features : the sample as the estimator takes it: an array, a tuple, a list of dictionaries, ...
    offset : array of shape (*shape of labels, n_states), or (n_states,) for all nodes alike
        Added to the scores of the states of nodes and not learned, such as log-probabilities
        from elsewhere. States are in the order of `classes_`: sorted labels.
    edge_offset : array of shape (n_edges, n_states, n_states), or (n_states, n_states) for all
        edges alike
        Added to the scores of pairs of states, the tail's first: of neighbouring tokens, of listed
        edges, of the edges of a grid direction by direction, each row by row.

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct import ChainCRF, NodeInput
    >>> rng = np.random.default_rng(0)
    >>> Y = [np.repeat(rng.integers(2, size=4), 3) for _ in range(30)]
    >>> X = [np.eye(2)[y] + 0.5 * rng.normal(size=(12, 2)) for y in Y]
    >>> model = ChainCRF().fit(X, Y)
    >>> rare = NodeInput(X[0], offset=[0.0, -20.0])  # the second state is next to impossible
    >>> model.predict([rare])[0].tolist()
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    """

    features: Any
    offset: Any = None
    edge_offset: Any = None


@dataclass(frozen=True, eq=False)
class Offset:
    """Scores that are not learned: of nodes (n_nodes, L) and of edges (n_edges, L, L)."""

    nodes: Floats
    edges: Floats

    def take(self, nodes: Any, edges: Any) -> Offset:
        """The offsets of some nodes and edges."""
        return Offset(self.nodes[nodes], self.edges[edges])

    def scores(self, structure: LabellingStructure) -> Floats:
        """The same in the coordinates of an output space."""
        return structure.from_tables(self.nodes, self.edges)

    @classmethod
    def joined(cls, parts: Sequence[tuple[Offset | None, int, int]], n_states: int) -> Offset:
        """Offsets of parts side by side; each comes with its numbers of nodes and edges."""
        found = [
            own or Offset(np.zeros((n, n_states)), np.zeros((m, n_states, n_states)))
            for own, n, m in parts
        ]
        nodes, edges = [own.nodes for own in found], [own.edges for own in found]
        return cls(np.concatenate(nodes), np.concatenate(edges))


def split_offsets(X: Sequence[Any]) -> tuple[list[Any], list[NodeInput | None]]:
    """Samples as if they had no offsets, and the `NodeInput` of each sample that has one."""
    plain = [x.features if isinstance(x, NodeInput) else x for x in X]
    given = [x if isinstance(x, NodeInput) else None for x in X]
    nothing = [x is None or (x.offset is None and x.edge_offset is None) for x in given]
    return plain, [None if none else x for x, none in zip(given, nothing, strict=True)]


def with_offsets(
    samples: Sequence[TakesOffset[T]], offsets: Sequence[NodeInput | None], n_states: int
) -> list[T]:
    """Samples with the offsets that came with them."""
    return [
        sample.with_offset(given, n_states, f"X[{m}]")
        for m, (sample, given) in enumerate(zip(samples, offsets, strict=True))
    ]


def read_offset(
    given: NodeInput | None,
    shape: tuple[int, ...],
    n_listed: int,
    n_states: int,
    where: str,
    merged: MergedEdges | None = None,
) -> Offset | None:
    """Validated offsets of a sample whose labels have this shape.

    `n_listed` edges were given; `merged` maps them to the edges of the graph.
    """
    if given is None:
        return None
    nodes = _read(given.offset, (*shape, n_states), 1, f"{where}: offset")
    edges = _read(given.edge_offset, (n_listed, n_states, n_states), 2, f"{where}: edge_offset")
    if merged is not None:
        tables = merged.transposed(edges.reshape(n_listed, -1), n_states)
        n_edges = int(merged.edge.max(initial=-1)) + 1
        edges = merged.summed(tables, n_edges).reshape(-1, n_states, n_states)
    return Offset(nodes.reshape(-1, n_states), edges)


def _read(given: Any, shape: tuple[int, ...], n_shared: int, name: str) -> Floats:
    """An array of a shape; one without its first dimensions holds for all of these alike."""
    if given is None:
        return np.zeros(shape)
    try:
        array = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: cannot be read as numbers ({error})") from None
    if array.shape not in (shape, shape[-n_shared:]):
        raise ValueError(
            f"{name}: expected shape {shape} or {shape[-n_shared:]}, got {array.shape}"
        )
    if not np.isfinite(array).all():
        raise ValueError(
            f"{name}: must be finite; for a state that is ruled out take a number like -50"
        )
    return np.broadcast_to(array, shape)
