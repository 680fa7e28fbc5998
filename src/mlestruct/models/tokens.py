"""Reading sequences of tokens: all samples in a row, which are cut into pieces by index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._arrays import as_numbers
from .._deadline import in_time
from .._lazy import cached_property
from ..features.dictionaries import Collection, Vocabulary
from ..features.rows import are_moderate, check_finite
from .node_input import NodeInput, Offset, read_offset

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Tokens:
    """Sequences side by side, some of which may be empty.

    nodes : array or CSR matrix of shape (n_tokens, C), features of tokens
    edges : the same of shape (n_edges, D), features of neighbouring tokens, or None
    starts : ndarray of shape (n_sequences + 1,), the first token of each sequence, and the end
    """

    nodes: Any
    edges: Any
    starts: Ints
    offset: Offset | None = None

    @cached_property
    def lengths(self) -> Ints:
        """The number of tokens of each sequence."""
        return np.diff(self.starts)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of the labels of each sequence."""
        return [(length,) for length in self.lengths.tolist()]

    @property
    def begins(self) -> Ints:
        """The first tokens of the sequences that are not empty."""
        return self.starts[:-1][self.lengths > 0]

    @property
    def n_edge_features(self) -> int | None:
        """D, or None without edge features."""
        return None if self.edges is None else int(self.edges.shape[1])

    @cached_property
    def tails(self) -> Ints:
        """The token t of every edge t -> t+1."""
        inner = np.ones(int(self.starts[-1]), dtype=np.bool_)
        inner[self.starts[1:][self.lengths > 0] - 1] = False
        return np.flatnonzero(inner)

    def part(self, first: int, stop: int) -> Tokens:
        """Sequences first .. stop-1."""
        if (first, stop) == (0, len(self.starts) - 1):
            return self
        a, b = (int(self.starts[k]) for k in (first, stop))
        c, d = np.searchsorted(self.tails, (a, b)).tolist()
        return self._taken(slice(a, b), slice(c, d), self.starts[first : stop + 1] - a)

    def where(self, kept: Bools) -> Tokens:
        """Some tokens: sequences are cut at the others."""
        if kept.all():
            return self
        edges = kept[self.tails] & kept[self.tails + 1]
        first = kept.copy()
        first[self.tails[edges] + 1] = False
        starts = np.append(np.flatnonzero(first[kept]), np.count_nonzero(kept))
        return self._taken(kept, edges, starts)

    def _taken(self, nodes: Any, edges: Any, starts: Ints) -> Tokens:
        own = None if self.edges is None else self.edges[edges]
        offset = None if self.offset is None else self.offset.take(nodes, edges)
        return Tokens(self.nodes[nodes], own, starts, offset)

    def with_offsets(self, given: Sequence[NodeInput | None], n_states: int) -> Tokens:
        """The same with the offsets that came with the samples."""
        if all(own is None for own in given):
            return self
        parts = []
        for m, (own, n) in enumerate(zip(given, self.lengths.tolist(), strict=True)):
            n_edges = max(n - 1, 0)
            parts.append((read_offset(own, (n,), n_edges, n_states, f"X[{m}]"), n, n_edges))
        return replace(self, offset=Offset.joined(parts, n_states))


def read_tokens(X: Sequence[Any], vocabulary: Vocabulary | None, learn: bool) -> Tokens:
    """Validated samples with the same features; offsets are not read.

    The vocabulary numbers features that are given by names; with `learn` it grows.
    """
    nodes, edges = split_edges(X)
    lengths = [_length(x) for x in nodes]
    full = [m for m, length in enumerate(lengths) if length]
    if not full:
        if learn:
            raise ValueError("X: every sequence is empty")
        return Tokens(np.zeros((0, 0)), None, np.zeros(len(X) + 1, dtype=np.int64))
    named = [_is_named(nodes[m], f"X[{m}]") for m in full]
    if True in named and False in named:
        m = full[named.index(not named[0])]
        kinds = [("arrays of numbers", "names of features")[k] for k in (not named[0], named[0])]
        raise ValueError(f"X[{m}] has {kinds[0]}, X[{full[0]}] has {kinds[1]}")
    given = [nodes[m] for m in full]
    table = _named(given, full, vocabulary, learn) if named[0] else _joined(given, full)
    steps = _joined_edges([edges[m] for m in full], [lengths[m] for m in full], full)
    return Tokens(table, steps, np.cumsum([0, *lengths]))


def split_edges(X: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """What describes the tokens of each sample, and its edge features or None."""
    pairs = []
    for m, x in enumerate(X):
        if not isinstance(x, tuple) or not x or any(map(_is_token, x)):
            pairs.append((x, None))
        elif len(x) == 2:
            pairs.append(x)
        else:
            raise ValueError(
                f"X[{m}]: a tuple must hold (node features, edge features), got {len(x)} parts"
            )
    return [x for x, _ in pairs], [edges for _, edges in pairs]


def _is_token(x: Any) -> bool:
    """Whether x describes a token by names: a dictionary, or a collection of strings."""
    if isinstance(x, Collection):
        return bool(x) and all(isinstance(name, str) for name in x)
    return isinstance(x, Mapping | str)


def _length(x: Any) -> int:
    """The number of tokens; 1 if x is no sequence."""
    shape = getattr(x, "shape", None)
    if shape is not None:
        return int(shape[0]) if shape else 1
    return len(x) if hasattr(x, "__len__") else 1


def _is_named(x: Any, where: str) -> bool:
    """Whether the tokens of a sequence are described by names rather than numbers."""
    if isinstance(x, np.ndarray) or (type(x) is list and type(x[0]) is dict):  # mostly
        return type(x) is list
    if isinstance(x, Mapping):
        raise ValueError(
            f"{where}: expected a sequence of tokens, got a single dictionary; for one sequence "
            "give [x], a list of sequences"
        )
    if isinstance(x, str) or (isinstance(x, list | tuple) and isinstance(x[0], str)):
        raise ValueError(
            f"{where}: tokens are strings, expected a dictionary or list of features for each. "
            "Use mlestruct.features.token_features(words)."
        )
    if not isinstance(x, Sequence):
        return False
    token = next((token for token in x if not isinstance(token, Collection) or token), ())
    return isinstance(token, Mapping) or (
        isinstance(token, Collection) and any(isinstance(name, str) for name in token)
    )


def _named(
    X: Sequence[Any], places: Sequence[int], vocabulary: Vocabulary | None, learn: bool
) -> sparse.csr_array:
    """The features of all tokens that are described by names."""
    if vocabulary is None:
        raise ValueError("X has names of features, but the model was fitted with arrays of numbers")
    try:
        table = vocabulary.read(list(chain.from_iterable(X)), learn)
    except ValueError:  # which token is it?
        for m, t, token in (
            (m, t, y) for m, x in zip(places, X, strict=True) for t, y in enumerate(x)
        ):
            try:
                Vocabulary().read([token], True)
            except ValueError as error:
                raise ValueError(f"X[{m}][{t}]: {error}") from None
        raise
    if table.shape[1] == 0:
        raise ValueError("X: no token has a feature")
    if not are_moderate(table.data):
        starts = np.cumsum([0, *map(len, X)])
        for m, (a, b) in zip(places, pairwise(table.indptr[starts].tolist()), strict=True):
            check_finite(table.data[a:b], f"X[{m}]")
    return table


def _joined(X: Sequence[Any], places: Sequence[int], kind: str = "") -> Any:
    """Tables of numbers below each other, sparse if one of them is."""
    tables: list[Any] = []
    for m, x in zip(places, in_time(X, "reading X"), strict=True):
        tables.append(_table(x, f"X[{m}]{kind and f', {kind}features'}"))
        found, first = tables[-1].shape[1], tables[0].shape[1]
        if found != first:
            raise ValueError(f"X[{m}] has {found} {kind}features, X[{places[0]}] has {first}")
    if len(tables) == 1:
        return tables[0]
    if any(map(sparse.issparse, tables)):
        return sparse.vstack([sparse.csr_array(table) for table in tables], format="csr")
    return np.concatenate(tables)


def _table(x: Any, where: str) -> Any:
    """A table of numbers, (T, C), dense or CSR."""
    if sparse.issparse(x):
        table: Any = sparse.csr_array(x)
        if table.dtype.kind == "c":
            raise ValueError(f"{where}: expected real numbers, got dtype {table.dtype}")
    else:
        try:
            table = as_numbers(x)
        except ValueError as error:
            raise ValueError(f"{where}: cannot be read as an array of numbers ({error})") from None
        if table.ndim != 2:
            raise ValueError(f"{where}: expected shape (T, C), got {table.shape}")
    check_finite(table.data if sparse.issparse(x) else table, where)
    if table.shape[1] == 0:
        raise ValueError(f"{where}: has no features, shape {table.shape}")
    return table


def _joined_edges(edges: Sequence[Any], lengths: Sequence[int], places: Sequence[int]) -> Any:
    """Edge features of all samples, or None."""
    for m, given, length in zip(places, edges, lengths, strict=True):
        shape = np.shape(given)
        if given is not None and (len(shape) != 2 or shape[0] != length - 1):
            raise ValueError(
                f"X[{m}]: expected edge features of shape ({length - 1}, D) for {length} tokens, "
                f"got {shape}"
            )
    has = [given is not None for given in edges]
    if not any(has):
        return None
    if not all(has):
        without, some = places[has.index(False)], places[has.index(True)]
        raise ValueError(f"X[{without}] has no edge features, X[{some}] has some")
    return _joined(edges, places, "edge ")
