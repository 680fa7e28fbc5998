"""Reading what is asked: scores of a structure in any of the forms people have them in.

Pairs of a matching may come as a table, -inf forbidding some; states of a labelling as tables of
nodes and edges. A `Query` holds finite scores of the coordinates of a structure without the
forbidden pairs, and the way back.
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..algorithms.matching.blossom import best_matching
from ..exceptions import InfeasibleError
from ..structures import BinaryPairwise, BipartiteMatching, Chains, LocalMatching, Pairwise

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LARGEST = 1e307  # of a sum of scores


@dataclass(frozen=True)
class Query:
    """Scores of all coordinates of `structure`, log Z being larger by `constant`.

    `asked` is the structure that was given; `kept` are the coordinates of it that are left, None
    if all are. `forbidding` tells whether scores of labellings contain -inf.
    """

    structure: Any
    scores: Floats
    constant: float
    asked: Any
    kept: Ints | None = None
    forbidding: bool = False

    def restore(self, tau: Floats) -> Floats:
        """Marginals of the structure that was given."""
        if self.kept is None:
            return tau
        out = np.zeros(self.asked.n_coordinates)
        out[self.kept] = tau
        return out

    @property
    def relaxed(self) -> Any:
        """The structure with its approximate entropy, also where marginals are counted."""
        return getattr(self.structure, "original", self.structure)

    def require_finite(self, what: str) -> None:
        """Raise where something cannot handle forbidden states."""
        if self.forbidding:
            raise ValueError(
                f"scores: contain -inf, which {what} cannot handle here (matchings and chains may "
                "have forbidden pairs and states); use a large negative score, or for labellings "
                "of small graphs method='exact'"
            )


def check_tolerance(tol: Any) -> float:
    """`tol` as a float of at least 0."""
    return check_number(tol, "tol", 0.0)


def check_number(value: Any, name: str, least: float) -> float:
    """A float of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not float(value) >= least:
        raise ValueError(f"{name}: expected a number of at least {least:g}, got {value!r}")
    return float(value)


def check_count(value: Any, name: str, least: int = 1) -> int:
    """An integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{name}: expected an integer of at least {least}, got {value!r}")
    return int(value)


def read_query(structure: Any, scores: Any) -> Query:
    """Scores in one of the forms that `marginals` describes, checked."""
    lacking = [name for name in ("n_coordinates", "decode") if not hasattr(structure, name)]
    if lacking:
        raise TypeError(
            "structure: expected an output space such as BipartiteMatching((5, 5)), or one of your "
            f"own; {structure!r} has no {' and no '.join(lacking)}"
        )
    _require_a_matching(structure)
    values, constant = _coordinates(structure, scores)
    wrong = np.isnan(values) | np.isposinf(values)
    if wrong.any():
        k = int(np.argmax(wrong))
        raise ValueError(
            f"scores: coordinate {k} is {values[k]}; scores must be finite, or -inf for what is "
            "forbidden"
        )
    forbidden = np.isneginf(values)
    largest = float(np.abs(values[~forbidden]).max(initial=0.0))
    if largest > LARGEST / max(values.size, 1):
        raise ValueError(f"scores: as large as {largest:g}, so that sums of them overflow")
    if not forbidden.any():
        return Query(structure, values, constant, structure)
    if not hasattr(structure, "restricted"):
        return Query(structure, values, constant, structure, forbidding=True)
    edges = forbidden[: structure.n_scored]
    if forbidden[structure.n_scored :].any():
        raise ValueError(
            "scores: -inf for staying single; nodes that must be matched are said by `perfect` "
            "when the structure is made"
        )
    smaller, kept = structure.restricted(~edges)
    _require_a_matching(smaller)
    return Query(smaller, values[kept], constant, structure, kept)


def _require_a_matching(structure: Any) -> None:
    """Raise where a group cannot be matched perfectly, though its local polytope has points."""
    if not isinstance(structure, LocalMatching) or not structure.is_simple:
        return
    graph = structure.graph
    nodes = structure.capacity > 0
    if structure.free[nodes].any() or structure.polytope == "exact":
        return
    if int(nodes.sum()) % 2:
        raise InfeasibleError(
            f"{int(nodes.sum())} nodes: an odd number cannot be matched perfectly; leave a node "
            "out, or allow single nodes by perfect=False",
            [],
            "nodes",
        )
    if nodes.all() and not graph.is_complete:
        best_matching(graph.n_nodes, graph.ptr, graph.col, np.zeros(graph.n_edges))  # or raises


def _coordinates(structure: Any, scores: Any) -> tuple[Floats, float]:
    """Scores of all coordinates, and the constant that they leave out."""
    if isinstance(scores, tuple) or (
        isinstance(scores, list) and isinstance(structure, BinaryPairwise | Pairwise | Chains)
        and len(scores) == 2 and np.ndim(scores[0]) == 2
    ):  # fmt: skip
        return _from_tables(structure, *_two(tuple(scores)))
    values = _as_floats(scores, "scores")
    if values.ndim == 2 and isinstance(structure, BipartiteMatching | LocalMatching):
        values = _from_pairs(structure, values)
    sizes = (getattr(structure, "n_scored", structure.n_coordinates), structure.n_coordinates)
    if values.ndim != 1 or values.shape[0] not in sizes:
        forms = f"shape ({sizes[0]},)"
        if sizes[1] != sizes[0]:
            forms += f" or ({sizes[1]},) with those of single nodes"
        raise ValueError(f"scores: expected {forms}{_other_forms(structure)}, got {values.shape}")
    if values.shape[0] < structure.n_coordinates:
        values = np.concatenate([values, np.zeros(structure.n_coordinates - values.shape[0])])
    return np.ascontiguousarray(values), 0.0


def _as_floats(values: Any, name: str) -> Floats:
    if np.ma.isMaskedArray(values):
        raise ValueError(f"{name}: masked arrays are not taken; use .filled(-np.inf)")
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name}: expected an array of numbers: {error}") from None
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name}: expected an array of numbers, got dtype {array.dtype}")
    return array.astype(np.float64)


def _other_forms(structure: Any) -> str:
    if isinstance(structure, BipartiteMatching):
        return f", or a table ({structure.graph.n_rows}, {structure.graph.n_cols})"
    if isinstance(structure, LocalMatching):
        n = structure.graph.n_nodes
        return f", or a symmetric table ({n}, {n})"
    if isinstance(structure, BinaryPairwise | Pairwise | Chains):
        return ", or a tuple (node scores, edge scores)"
    return ""


def _from_pairs(structure: Any, table: Floats) -> Floats:
    graph = structure.graph
    group = isinstance(structure, LocalMatching)
    shape = (graph.n_nodes,) * 2 if group else (graph.n_rows, graph.n_cols)
    if table.shape != shape:
        raise ValueError(f"scores: expected a table of shape {shape}, got {table.shape}")
    values: Floats = table[graph.row, graph.col]
    if group:
        other = table[graph.col, graph.row]
        differs = ~((values == other) | (np.isnan(values) & np.isnan(other)))
        if differs.any() and not np.allclose(values, other, rtol=1e-9, atol=1e-12):
            k = int(np.argmax(differs))
            i, j = int(graph.row[k]), int(graph.col[k])
            raise ValueError(f"scores: the table is not symmetric at ({i}, {j})")
    return values


def _two(scores: tuple[Any, ...]) -> tuple[Any, Any]:
    if len(scores) != 2:
        raise ValueError(
            f"scores: a tuple holds (node scores, edge scores), got {len(scores)} parts"
        )
    return scores


def _from_tables(structure: Any, nodes: Any, edges: Any) -> tuple[Floats, float]:
    if not isinstance(structure, BinaryPairwise | Pairwise | Chains):
        raise ValueError(
            f"scores: {type(structure).__name__} takes one array{_other_forms(structure)}, not a "
            "tuple; scores of single nodes follow those of the pairs"
        )
    n_states = structure.n_states
    graph = structure if isinstance(structure, Chains) else structure.graph
    node = _as_floats(nodes, "scores of nodes")
    edge = _as_floats(edges, "scores of edges")
    if node.shape != (graph.n_nodes, n_states):
        raise ValueError(
            f"scores of nodes: expected shape {(graph.n_nodes, n_states)}, got {node.shape}"
        )
    full = (graph.n_edges, n_states, n_states)
    if edge.shape not in (full, full[1:]):
        raise ValueError(f"scores of edges: expected shape {full} or {full[1:]}, got {edge.shape}")
    edge = np.broadcast_to(edge, full)
    if not isinstance(structure, BinaryPairwise):
        return np.concatenate([node.ravel(), edge.ravel()]), 0.0
    if not (np.isfinite(node).all() and np.isfinite(edge).all()):
        raise ValueError(
            "scores: BinaryPairwise counts from the labelling that is 0 everywhere, so tables must "
            "be finite; use Pairwise(graph, 2) for forbidden states"
        )
    tail, head = structure.graph.tail, structure.graph.head
    first = node[:, 1] - node[:, 0]
    first += np.bincount(tail, edge[:, 1, 0] - edge[:, 0, 0], graph.n_nodes)
    first += np.bincount(head, edge[:, 0, 1] - edge[:, 0, 0], graph.n_nodes)
    both = edge[:, 1, 1] - edge[:, 1, 0] - edge[:, 0, 1] + edge[:, 0, 0]
    return np.concatenate([first, both]), float(node[:, 0].sum() + edge[:, 0, 0].sum())
