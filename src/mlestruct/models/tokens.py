"""What a chain estimator takes as one sample, and how samples become chains with features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._arrays import as_floats, as_numbers
from .._deadline import in_time
from ..features.dictionaries import Collection, Vocabulary, describes_tokens
from ..features.sequences import SequenceFeatures
from ..labels import UNKNOWN
from ..learning.problem import Block
from ..structures.contract import Vertex
from ..structures.sequences import Sequences
from .node_input import NodeInput, Offset, read_offset
from .validation import are_moderate, check_finite

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NOTHING = Vertex(np.zeros(0, dtype=np.int64), np.zeros(0))


class TableRows(NamedTuple):
    """Rows start .. stop-1 of a CSR table, which is not copied."""

    table: sparse.csr_array
    start: int
    stop: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.stop - self.start, int(self.table.shape[1])

    def piece(self, start: int, stop: int) -> TableRows:
        return TableRows(self.table, self.start + start, self.start + stop)


class Tokens(NamedTuple):
    """A validated sequence, or a piece of one: node features (T, C), edge features (T-1, D)."""

    nodes: NDArray[Any] | TableRows
    edges: Floats | None
    offset: Offset | None = None

    def piece(self, start: int, stop: int) -> Tokens:
        own, edges = slice(start, stop), slice(start, stop - 1)
        nodes = self.nodes
        return Tokens(
            nodes.piece(start, stop) if isinstance(nodes, TableRows) else nodes[own],
            None if self.edges is None else self.edges[edges],
            None if self.offset is None else self.offset.take(own, edges),
        )

    def with_offset(self, given: NodeInput | None, n_states: int, where: str) -> Tokens:
        """The same tokens with the offsets that came with them."""
        offset = read_offset(given, (self.length,), self.length - 1, n_states, where)
        return self if offset is None else self._replace(offset=offset)

    @property
    def length(self) -> int:
        nodes = self.nodes
        return nodes.stop - nodes.start if isinstance(nodes, TableRows) else len(nodes)

    @property
    def n_edge_features(self) -> int | None:
        return None if self.edges is None else int(self.edges.shape[1])


class Forest(NamedTuple):
    """Sequences side by side: their output space, their features and offset."""

    chains: Sequences
    features: SequenceFeatures
    offset: Floats | None

    def block(self, weight: float = 1.0) -> Block:
        """A block without observation."""
        return Block(self.chains, self.features, NOTHING, weight, self.offset)


def forest(
    pieces: Sequence[Tokens], n_states: int, known: dict[tuple[int, ...], Sequences] | None = None
) -> Forest:
    """Sequences side by side; `known` spaces are reused."""
    lengths = tuple([piece.length for piece in pieces])
    chains = None if known is None else known.get(lengths)
    chains = chains or Sequences(lengths, n_states)
    if known is not None:
        known[lengths] = chains
    nodes = [piece.nodes for piece in pieces]
    edges = None
    if pieces[0].edges is not None:
        edges = np.concatenate([piece.edges for piece in pieces])
    offset = None
    if any(piece.offset is not None for piece in pieces):
        parts = [(piece.offset, piece.length, piece.length - 1) for piece in pieces]
        offset = Offset.joined(parts, n_states).scores(chains)
    features = SequenceFeatures(_stacked(nodes), n_states, edges, chains.n_edges)
    return Forest(chains, features, offset)


def _stacked(nodes: Sequence[NDArray[Any] | TableRows]) -> Any:
    """Tables below each other, sparse if one of them is."""
    dense = [table for table in nodes if not isinstance(table, TableRows)]
    if len(dense) == len(nodes):
        return np.concatenate(dense)
    parts = [
        table if isinstance(table, TableRows) else TableRows(sparse.csr_array(table), 0, len(table))
        for table in nodes
    ]
    first, last = parts[0], parts[-1]
    if all(a.table is b.table and a.stop == b.start for a, b in pairwise(parts)):
        whole = last.stop - first.start == first.table.shape[0]
        return first.table if whole else first.table[first.start : last.stop]
    pointers = [part.table.indptr[part.start : part.stop + 1] for part in parts]
    spans = [slice(pointer[0], pointer[-1]) for pointer in pointers]
    data = [part.table.data[span] for part, span in zip(parts, spans, strict=True)]
    indices = [part.table.indices[span] for part, span in zip(parts, spans, strict=True)]
    sizes = np.concatenate([np.diff(pointer) for pointer in pointers])
    ends = np.concatenate([[0], np.cumsum(sizes)])
    shape = (sizes.shape[0], parts[0].shape[1])
    return sparse.csr_array((np.concatenate(data), np.concatenate(indices), ends), shape=shape)


class Piece(NamedTuple):
    """A part of a sequence with its states, and where it is."""

    tokens: Tokens
    states: Ints
    at: slice


def cut(tokens: Tokens, states: Ints) -> list[Piece]:
    """The pieces of a sequence between tokens whose label is not known."""
    known = np.concatenate([[False], states != UNKNOWN, [False]])
    ends = np.flatnonzero(known[1:] != known[:-1])
    spans = zip(ends[::2].tolist(), ends[1::2].tolist(), strict=True)
    return [Piece(tokens.piece(a, b), states[a:b], slice(a, b)) for a, b in spans]


def read_sequences(
    X: Sequence[Any], vocabulary: Vocabulary | None, learn: bool, keep_zeros: bool = False
) -> list[Tokens]:
    """Validated samples with the same features.

    Where tokens are described by names, the vocabulary gives their columns; with `learn` it grows.
    Named features of value 0 are stored if `keep_zeros`.
    """
    nodes, edges = zip(*(_split(x, f"X[{m}]") for m, x in enumerate(X)), strict=True)
    for m, x in enumerate(nodes):
        if is_empty(x):
            raise ValueError(f"X[{m}]: is an empty sequence; leave it out")
        if describes_words(x):
            raise ValueError(
                f"X[{m}]: tokens are strings, expected a dictionary or list of features for each. "
                "Use mlestruct.features.token_features(words)."
            )
    named = list(map(describes_tokens, nodes))
    if True in named and False in named:
        m = named.index(not named[0])
        kinds = [("arrays of numbers", "names of features")[k] for k in (named[m], named[0])]
        raise ValueError(f"X[{m}] has {kinds[0]}, X[0] has {kinds[1]}")
    tables: Sequence[NDArray[Any] | TableRows]
    if not named[0]:
        tables = [_table(x, f"X[{m}]") for m, x in enumerate(in_time(nodes, "reading X"))]
        for m, table in enumerate(tables):
            if table.shape[1] != tables[0].shape[1]:
                raise ValueError(
                    f"X[{m}] has {table.shape[1]} features, X[0] has {tables[0].shape[1]}"
                )
    elif vocabulary is None:
        raise ValueError("X has names of features, but the model was fitted with arrays of numbers")
    else:
        tables = _named_tables(nodes, vocabulary, learn, keep_zeros)
    if all(given is None for given in edges):
        return [Tokens(table, None) for table in tables]
    samples = [
        Tokens(table, _edge_features(given, table.shape[0], f"X[{m}]"))
        for m, (table, given) in enumerate(in_time(zip(tables, edges, strict=True), "reading X"))
    ]
    first = samples[0].n_edge_features
    for m, tokens in enumerate(samples):
        if tokens.n_edge_features != first:
            raise ValueError(
                f"X[{m}] has {tokens.n_edge_features or 'no'} edge features, "
                f"X[0] has {first or 'none'}"
            )
    return samples


def is_empty(x: Any) -> bool:
    """Whether a sample has no tokens, with or without edge features and offsets."""
    if type(x) is list:
        return not x
    if isinstance(x, np.ndarray) and x.ndim:
        return x.shape[0] == 0
    if isinstance(x, NodeInput):
        x = x.features
    if isinstance(x, tuple) and len(x) == 2 and not lists_tokens(x):
        x = x[0]
    if isinstance(x, Mapping | str):
        return False
    size = x.shape[0] if len(getattr(x, "shape", ())) else len(x) if hasattr(x, "__len__") else 1
    return int(size) == 0


def with_stand_ins(X: Sequence[Any]) -> tuple[list[Any], list[int]]:
    """Samples, each empty one replaced by the first of the others, and the places of these.

    So places in X keep their meaning in messages; what is found for stand-ins is left out.
    """
    places = [m for m, x in enumerate(X) if is_empty(x)]
    if not places:
        return list(X), places
    absent = set(places)
    full = [x for m, x in enumerate(X) if m not in absent]
    return [full[0] if full and m in absent else x for m, x in enumerate(X)], places


def describes_words(x: Any) -> bool:
    """Whether tokens are plain strings, or a sentence is one."""
    return isinstance(x, str) or (isinstance(x, list | tuple) and isinstance(x[0], str))


def lists_tokens(x: tuple[Any, ...]) -> bool:
    """Whether a tuple has a token in each part, rather than node and edge features."""
    named = all(
        isinstance(part, Mapping | str)
        or (isinstance(part, Collection) and all(isinstance(name, str) for name in part))
        for part in x
    )
    return named and any(part or isinstance(part, Mapping) for part in x)  # ([], []) has no tokens


def node_tables(X: Sequence[Any]) -> list[Any]:
    """What describes the tokens of each sample, without edge features."""
    return [_split(x, f"X[{m}]")[0] for m, x in enumerate(X)]


def _split(x: Any, where: str) -> tuple[Any, Any]:
    """Node features, and edge features or None."""
    if not isinstance(x, tuple) or lists_tokens(x):
        return x, None
    if len(x) != 2:
        raise ValueError(
            f"{where}: a tuple must hold (node features, edge features), got {len(x)} parts"
        )
    return x


def _edge_features(given: Any, length: int, where: str) -> Floats | None:
    if given is None:
        return None
    edges = as_floats(given, f"{where}, edge features")
    if edges.ndim != 2 or edges.shape[0] != length - 1 or edges.shape[1] == 0:
        raise ValueError(
            f"{where}: expected edge features of shape ({length - 1}, D) for {length} tokens, "
            f"got {edges.shape}"
        )
    check_finite(edges, f"{where}, edge features")
    return edges


def _named_tables(
    X: Sequence[Any], vocabulary: Vocabulary, learn: bool, keep_zeros: bool
) -> list[TableRows]:
    table, starts = vocabulary.read(X, learn, keep_zeros)
    if table.shape[1] == 0:
        raise ValueError("X: no token has a feature")
    rows = [TableRows(table, a, b) for a, b in pairwise(starts.tolist())]
    if not are_moderate(table.data):
        for m, own in enumerate(rows):
            check_finite(table.data[table.indptr[own.start] : table.indptr[own.stop]], f"X[{m}]")
    return rows


def _table(x: Any, where: str) -> NDArray[Any] | TableRows:
    if not isinstance(x, np.ndarray) and isinstance(x, Mapping):
        raise ValueError(
            f"{where}: expected a sequence of tokens, got a single dictionary; for one sequence "
            "give [x], a list of sequences"
        )
    if not isinstance(x, np.ndarray) and sparse.issparse(x):
        whole = sparse.csr_array(x)
        if whole.dtype.kind == "c":
            raise ValueError(f"{where}: expected real numbers, got dtype {whole.dtype}")
        check_finite(whole.data, where)
        table: NDArray[Any] | TableRows = TableRows(whole, 0, whole.shape[0])
    else:
        try:
            table = as_numbers(x)
        except ValueError as error:
            raise ValueError(f"{where}: cannot be read as an array of numbers ({error})") from None
        if table.ndim != 2:
            raise ValueError(f"{where}: expected shape (T, C), got {table.shape}")
        check_finite(table, where)
    if table.shape[1] == 0:
        raise ValueError(f"{where}: has no features, shape {table.shape}")
    return table
