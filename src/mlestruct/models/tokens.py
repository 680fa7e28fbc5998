"""What a chain estimator takes as one sample, and how samples become chains with features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..features.sequences import SequenceFeatures
from ..labels import UNKNOWN, States
from ..structures.sequences import Sequences
from .pairs import LARGEST

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Tokens:
    """A validated sequence, or a piece of one: node features (T, C), edge features (T-1, D)."""

    nodes: Any
    edges: Floats | None

    def piece(self, start: int, stop: int) -> Tokens:
        edges = None if self.edges is None else self.edges[start : stop - 1]
        return Tokens(self.nodes[start:stop], edges)

    @property
    def length(self) -> int:
        return int(self.nodes.shape[0])

    @property
    def n_edge_features(self) -> int | None:
        return None if self.edges is None else int(self.edges.shape[1])


def forest(
    pieces: Sequence[Tokens], n_states: int, known: dict[tuple[int, ...], Sequences] | None = None
) -> tuple[Sequences, SequenceFeatures]:
    """Sequences side by side, as one output space with its features; `known` spaces are reused."""
    lengths = tuple(piece.length for piece in pieces)
    chains = None if known is None else known.get(lengths)
    chains = chains or Sequences(lengths, n_states)
    if known is not None:
        known[lengths] = chains
    nodes = [piece.nodes for piece in pieces]
    if any(sparse.issparse(table) for table in nodes):
        stacked = sparse.vstack([sparse.csr_array(table) for table in nodes], format="csr")
    else:
        stacked = np.concatenate(nodes)
    edges = None
    if pieces[0].edges is not None:
        edges = np.concatenate([piece.edges for piece in pieces])
    return chains, SequenceFeatures(stacked, n_states, edges, chains.n_edges)


def cut(tokens: Tokens, states: Ints) -> list[tuple[Tokens, Ints]]:
    """The pieces of a sequence between tokens whose label is not known."""
    known = np.concatenate([[False], states != UNKNOWN, [False]])
    ends = np.flatnonzero(known[1:] != known[:-1])
    spans = zip(ends[::2].tolist(), ends[1::2].tolist(), strict=True)
    return [(tokens.piece(start, stop), states[start:stop]) for start, stop in spans]


def check_labels(samples: Sequence[Tokens], Y: Sequence[Any], states: States) -> list[Ints]:
    """State numbers of every sample, of the right length."""
    return [
        states.encode(label, f"Y[{m}]", (tokens.length,))
        for m, (tokens, label) in enumerate(zip(samples, Y, strict=True))
    ]


def read_sequences(X: Sequence[Any]) -> list[Tokens]:
    """Validated samples with the same features."""
    samples = [_read_sequence(x, f"X[{m}]") for m, x in enumerate(X)]
    first = samples[0]
    for m, tokens in enumerate(samples):
        size, expected = tokens.nodes.shape[1], first.nodes.shape[1]
        if size != expected:
            raise ValueError(f"X[{m}] has {size} features, X[0] has {expected}")
        if tokens.n_edge_features != first.n_edge_features:
            raise ValueError(
                f"X[{m}] has {tokens.n_edge_features or 'no'} edge features, "
                f"X[0] has {first.n_edge_features or 'none'}"
            )
    return samples


def _read_sequence(x: Any, where: str) -> Tokens:
    if not isinstance(x, tuple):
        return Tokens(_table(x, where), None)
    if len(x) != 2:
        raise ValueError(
            f"{where}: a tuple must hold (node features, edge features), got {len(x)} parts"
        )
    nodes = _table(x[0], where)
    length = nodes.shape[0]
    edges = np.asarray(x[1], dtype=np.float64)
    if edges.ndim != 2 or edges.shape[0] != length - 1 or edges.shape[1] == 0:
        raise ValueError(
            f"{where}: expected edge features of shape ({length - 1}, D) for {length} tokens, "
            f"got {edges.shape}"
        )
    _check_finite(edges, f"{where}, edge features")
    return Tokens(nodes, edges)


def _table(x: Any, where: str) -> Any:
    if sparse.issparse(x):
        table = sparse.csr_array(x)
        _check_finite(table.data, where)
    else:
        try:
            table = np.asarray(x)
            if table.dtype.kind not in "biuf":
                table = table.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{where}: cannot be read as an array of numbers ({error})") from None
        if table.ndim != 2:
            raise ValueError(f"{where}: expected shape (T, C), got {table.shape}")
        _check_finite(table, where)
    if table.shape[0] == 0:
        raise ValueError(f"{where}: is empty, a sequence needs at least one token")
    if table.shape[1] == 0:
        raise ValueError(f"{where}: has no features, shape {table.shape}")
    return table


def _check_finite(values: NDArray[Any], where: str) -> None:
    if not np.isfinite(values).all():
        at = tuple(int(k) for k in np.argwhere(~np.isfinite(values))[0])
        raise ValueError(f"{where}: found {values[at]} at {at}; features must be finite")
    if values.size and max(abs(float(values.min())), abs(float(values.max()))) > LARGEST:
        raise ValueError(f"{where}: has features beyond {LARGEST:g}; rescale them")
