"""What `ChainCRF` reads: tokens, names of features, and transitions that are forbidden.

All samples stand in a row, which is cut into pieces by index. Tokens may be described by names, as
python-crfsuite and its wrappers take them:

{"word": "Main", "digit": False, "length": 4}   word:Main with 1, digit with 0, length with 4
{"next": {"word": "St"}, "shape": ["Xx", "x"]}  next:word:St, shape:Xx, shape:x with 1
["word=Main", "capital"]                        each string with 1
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, pairwise, repeat
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._arguments import as_numbers
from .._running import check_time, in_time
from ..features.rows import CHUNK, are_moderate, check_finite
from .labelling import UNKNOWN, NodeInput, Offset, read_offset

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

Collection = list | tuple | set | frozenset
COLLECTIONS = {list, tuple, set, frozenset}
SIMPLE = {str, bool, int, float, np.float64}  # values that are read fast; others are, too
# Its exponential is 0 in double precision; -inf times a probability of 0 would be NaN in solvers.
SCORE = -1000.0


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
    """The number of tokens; 1 if x is not a sequence."""
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


# ---------------------------------------------------------------------- names of features
class Vocabulary(dict[str, int]):
    """The names of features, each with its column, in the order in which they are found.

    Reading 60,000 tokens takes .08 s, .50 s by DictVectorizer of scikit-learn.
    """

    def __init__(self, names: Iterable[str] = ()):
        super().__init__({name: k for k, name in enumerate(names)})

    def __missing__(self, name: str) -> int:
        self[name] = len(self)
        return len(self) - 1

    def read(self, tokens: Sequence[Any], learn: bool) -> sparse.csr_array:
        """A row for each token; unknown names become columns if `learn`, else they are ignored.

        Features of value 0 are stored: crfsuite counts them as occurring with the token's label.
        """
        data, columns, ends = [np.zeros(0)], [np.zeros(0, dtype=np.int32)], [np.zeros(1, np.int64)]
        for start in range(0, len(tokens), CHUNK):
            check_time("reading X")
            names, values, sizes = _names_and_values(tokens[start : start + CHUNK])
            found = map(self.__getitem__, names) if learn else map(self.get, names, repeat(-1))
            own = np.fromiter(found, np.int32, len(names))
            data.append(np.array(values, dtype=np.float64)[own >= 0])
            columns.append(own[own >= 0])
            before = np.concatenate([[0], np.cumsum(own >= 0)])
            ends.append(ends[-1][-1] + before[np.cumsum(sizes)])
        parts = [np.concatenate(part) for part in (data, columns, ends)]
        table = sparse.csr_array(tuple(parts), shape=(len(tokens), len(self)))
        if learn:  # scores are the same
            table.sum_duplicates()
        return table


def _names_and_values(tokens: Sequence[Any]) -> tuple[list[str], list[Any], list[int]]:
    """Names and values of the features of all tokens in a row, and their number in each token."""
    kinds = set(map(type, tokens))
    if kinds == {dict}:
        names = list(chain.from_iterable(tokens))
        values = list(chain.from_iterable(map(dict.values, tokens)))
        found = set(map(type, values))
        if found <= SIMPLE:
            if str in found:
                both = zip(names, values, strict=True)
                names = [f"{name}:{v}" if type(v) is str else name for name, v in both]
                values = [1.0 if type(v) is str else v for v in values]
            return names, values, list(map(len, tokens))
    elif kinds <= COLLECTIONS and set(map(type, names := list(chain.from_iterable(tokens)))) <= {
        str
    }:
        return names, [1.0] * len(names), list(map(len, tokens))
    flat = [list(_flat("", token)) for token in tokens]
    pairs = list(chain.from_iterable(flat))
    return [name for name, _ in pairs], [value for _, value in pairs], list(map(len, flat))


def _flat(name: str, value: Any) -> Iterator[tuple[str, float]]:
    """Names and values of the features of one entry or token, nested ones joined by colons."""
    if isinstance(value, str):
        yield f"{name}:{value}" if name else value, 1.0
    elif name and isinstance(value, Real | np.bool_):  # bool and NumPy's numbers among them
        yield name, float(value)
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _flat(f"{name}:{key}" if name else key, part)
    elif isinstance(value, Collection) and all(isinstance(part, str) for part in value):
        for part in value:
            yield from _flat(name, part)
    else:
        raise ValueError(
            f"feature {name!r} has the value {value!r}; expected a string, a number, a bool, a "
            "dictionary of these or a collection of strings"
        )


# ---------------------------------------------------------------------- forbidden transitions
@dataclass(frozen=True, eq=False)
class Forbidden:
    """Pairs of states that must not follow each other.

    pairs : (L + 1, L), from row to column; the last row is the beginning of a sequence
    classes : (L,), the label of each state
    """

    pairs: Bools
    classes: NDArray[Any]

    def add_to(self, tokens: Tokens) -> Tokens:
        """Tokens with offsets that rule out these pairs, added to their own offsets."""
        n, scores = len(self.classes), np.where(self.pairs, SCORE, 0.0)
        nodes = np.zeros((int(tokens.starts[-1]), n))
        nodes[tokens.begins] = scores[n]
        edges = np.broadcast_to(scores[:n], (tokens.tails.size, n, n))
        given = tokens.offset
        if given is not None:
            nodes, edges = given.nodes + nodes, given.edges + edges
        return replace(tokens, offset=Offset(nodes, edges))

    def check_lengths(self, tokens: Tokens) -> None:
        """Raise if no sequence of some length is allowed."""
        m, longest = int(np.argmax(tokens.lengths)), self._longest
        if longest is not None and tokens.lengths[m] > longest:
            raise ValueError(
                f"forbidden_transitions: X[{m}] has {tokens.lengths[m]} tokens, but the longest "
                f"sequence of labels that is allowed has {longest}; forbid fewer pairs"
            )

    @cached_property
    def _longest(self) -> int | None:
        """The length of the longest allowed sequence; None if sequences of any length are.

        A sequence with more tokens than states repeats one, and may repeat it again.
        """
        return self._end(np.full(len(self.classes) + 1, UNKNOWN))

    def _end(self, states: Ints) -> int | None:
        """The first position that no allowed sequence with these states reaches."""
        reached = ~self.pairs[-1]
        for t, state in enumerate(states.tolist()):
            if t:
                reached = (~self.pairs[:-1][reached]).any(axis=0)
            if state != UNKNOWN:
                reached &= np.arange(reached.size) == state
            if not reached.any():
                return t
        return None

    def problem(self, states: Ints) -> str | None:
        """Why no allowed sequence has these states (-1: not known); None if one has."""
        before, known = np.append(len(self.classes), states[:-1]), states != UNKNOWN
        wrong = (before != UNKNOWN)[: states.size] & known
        wrong[wrong] = self.pairs[before[: states.size][wrong], states[wrong]]
        if wrong.any():
            t = int(np.argmax(wrong))
            label = self.classes[states[t]]
            how = (
                f"{label!s} at position {t} follows {self.classes[before[t]]!s}"
                if t
                else (f"begins with {label!s}")
            )
            return f"{how}, which forbidden_transitions forbids"
        end = None if known.all() else self._end(states)
        if end is None:
            return None
        own = f" ({self.classes[states[end]]!s})" if known[end] else ""
        return (
            "forbidden_transitions leave no sequence that has the known labels up to position "
            f"{end}{own}; change these labels or forbid fewer pairs"
        )

    def check(self, labels: list[Ints], name: str) -> None:
        """Raise if no allowed sequence has the states of some sample."""
        for m, states in enumerate(labels):
            problem = self.problem(states)
            if problem is not None:
                raise ValueError(f"{name}[{m}]: {problem}")


def read_forbidden(given: Any, classes: NDArray[Any], learn: bool = False) -> Forbidden | None:
    """Transitions from "BIO" or pairs of labels (from, to); from None: at the beginning.

    With `learn` a warning names labels that do not exist.
    """
    if given is None:
        return None
    labels = classes.tolist()
    pairs = _bio(labels) if isinstance(given, str) and given == "BIO" else _listed_pairs(given)
    number: dict[Any, int] = {label: k for k, label in enumerate(labels)}
    missing = {label for pair in pairs for label in pair if label is not None} - set(number)
    if missing and learn:
        begins = any(a in missing for a, _ in pairs)
        warnings.warn(
            f"forbidden_transitions: no label in Y is {', '.join(sorted(map(repr, missing)))}"
            + "; None is the beginning of a sequence" * begins,
            UserWarning,
            stacklevel=2,
        )
    n = len(labels)
    forbidden = np.zeros((n + 1, n), dtype=np.bool_)
    number[None] = n
    for a, b in pairs:
        if a in number and b in number:
            forbidden[number[a], number[b]] = True
    return Forbidden(forbidden, classes)


def _bio(labels: list[Any]) -> list[tuple[Any, Any]]:
    """I-x only after B-x or I-x; labels of other forms are like O."""
    if not isinstance(labels[0], str):
        raise ValueError("forbidden_transitions: 'BIO' is for labels like B-PER, I-PER and O")
    inside = [label for label in labels if label.partition("-")[0] == "I"]
    return [
        (a, b) for b in inside for a in [None, *labels] if a not in (b, "B" + b.removeprefix("I"))
    ]


def _listed_pairs(given: Any) -> list[tuple[Any, Any]]:
    try:
        pairs = [tuple(pair) for pair in given if not isinstance(pair, str)]
        count = len(list(given))
    except TypeError:
        pairs, count = [], -1
    if len(pairs) != count or any(len(pair) != 2 or pair[1] is None for pair in pairs):
        raise ValueError(
            "forbidden_transitions: expected 'BIO' or a list of pairs of labels (from, to), None "
            f"as from for the beginning, got {given!r:.80}"
        )
    return pairs
