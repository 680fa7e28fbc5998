"""Candidate pairs: which records of two tables are compared at all.

By default from tokens: words, their first and last letters, whole values, parts of dates. Records
that share a rare token are candidates, and records that share several frequent ones: names, a year
of birth. Each record keeps the best of them by the rarity of what they share. Time and memory are
linear in the number of records. Instead, `block` names columns in which candidates agree.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._arguments import as_count
from .._lazy import pandas_module
from .._running import check_time, threaded_map
from . import _blocking_kernels as kernels
from .comparisons import distinct
from .progress import begin, stepped
from .records import column_kinds, column_names, require_text
from .text import normal

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Token = tuple[str, int]  # and the number of its word in the value

WORD, DIGITS = re.compile(r"\w+"), re.compile(r"\d+")
FEW = 20  # records of one table that may share a key; a token of more is frequent
RANKED = 100  # candidates of a record that are ranked
TOKENS = 20  # of a record, the rarest
SHARE = 0.2  # of all records: a token of more says nothing
WHOLE = 15  # the number of a word that is the whole value
SLICE = 20_000  # records whose candidates are searched at a time
PARTS = 50  # of the records that are compared with all others, at a time
MOST_PAIRS = 200  # for each record, by `block`


def candidate_pairs(
    left: Any,
    right: Any,
    block: Sequence[Any] = (),
    neighbours: int = 10,
    kinds: Mapping[str, str] | None = None,
    n_jobs: int = 1,
) -> tuple[Ints, Ints]:
    """Rows of two tables that are compared, as two arrays sorted by the left one.

    Parameters
    ----------
    left, right : DataFrames of text with the same columns; "" is missing
    block : rules; a rule is a column, or a list of columns, in all of which candidates agree.
        Pairs of any rule are compared. By default candidates are found by common tokens
    neighbours : maximum number of candidates that a record chooses, if found by common tokens
    kinds : kinds of columns, as `Comparison` has them; by default all are text
    n_jobs : threads
    """
    rules = read_rules(block)
    as_count(neighbours, "neighbours")
    for name, table in (("left", left), ("right", right)):
        require_text(table, (), name)
        require_text(table, [c for rule in rules for c in rule] or table.columns, name)
    if not len(left) or not len(right):
        return np.zeros((2, 0), dtype=np.int64)[0], np.zeros(0, dtype=np.int64)
    if rules:
        return agreeing(left, right, rules)
    given = column_kinds(kinds)
    columns = [
        (*distinct(normal, [left[name], right[name]]), given.get(name, "text"))
        for name in left.columns
    ]
    return CommonTokens.of(columns, len(left)).candidates(neighbours, n_jobs)


def _sorted_pairs(keys: Sequence[Ints], n_right: int) -> tuple[Ints, Ints]:
    """Each pair once, from numbers row * n_right + column."""
    rows, cols = np.divmod(np.unique(np.concatenate(keys)), n_right)
    return rows, cols


# ---------------------------------------------------------------------- rules
def read_rules(block: Any) -> list[list[str]]:
    """Each rule as a list of columns."""
    if isinstance(block, str) or not isinstance(block, Iterable):
        raise TypeError(f"`block` must be a list of columns or of lists of them; got {block!r}.")
    return [[rule] if isinstance(rule, str) else column_names(rule, "block") for rule in block]


def agreeing(left: Any, right: Any, rules: list[list[str]]) -> tuple[Ints, Ints]:
    """Pairs that agree in all columns of a rule."""
    return _sorted_pairs([_agreeing(left, right, rule) for rule in rules], len(right))


def _agreeing(left: Any, right: Any, rule: list[str]) -> Ints:
    """Pairs that agree in all columns of a rule, as row * n_right + column."""
    sides = [_values(left, rule), _values(right, rule)]
    code, _ = pandas_module().factorize(np.concatenate(sides))
    code[np.concatenate(sides) == ""] = -1
    one, other = code[: len(left)], code[len(left) :]
    size = int(code.max(initial=-1)) + 1
    counts = np.bincount(other[other >= 0], minlength=size)
    made = np.bincount(one[one >= 0], minlength=size) * counts
    limit = MOST_PAIRS * (len(left) + len(right))
    if made.sum() > limit:
        largest = int(made.argmax())
        value = sides[0][int(np.flatnonzero(one == largest)[0])].split("\t")
        raise ValueError(
            f"`block` must make at most {limit:,} pairs of these tables; {'+'.join(rule)} makes "
            f"{int(made.sum()):,}, the value {' '.join(value)!r} alone {int(made[largest]):,}. "
            "Add a column to the rule, or leave `block` out."
        )
    order = np.argsort(other, kind="stable")[np.count_nonzero(other < 0) :]
    first = np.cumsum(counts) - counts
    rows = np.flatnonzero(one >= 0)
    sizes = counts[one[rows]]
    within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    cols = order[np.repeat(first[one[rows]], sizes) + within]
    return np.repeat(rows, sizes) * len(right) + cols


def _values(table: Any, rule: list[str]) -> NDArray[Any]:
    """The values of the columns of a rule together; "" if one is missing."""
    parts = [table[column].str.strip().str.lower() for column in rule]
    found = parts[0].str.cat(parts[1:], sep="\t").to_numpy(dtype=object)
    for part in parts:
        found[part.to_numpy() == ""] = ""
    return found


# ---------------------------------------------------------------------- tokens
class Tokens(NamedTuple):
    """Sorted tokens of the records of one table, with column and word, and their number."""

    tokens: NDArray[np.int32]
    words: NDArray[np.int16]
    sizes: Ints


Column = tuple[Ints, NDArray[Any], str]  # places of cells among distinct values; these; the kind


class CommonTokens(NamedTuple):
    """Tokens of the records of two tables, the weight of each token, and whether it is frequent."""

    sides: tuple[Tokens, Tokens]
    weights: Floats
    frequent: NDArray[np.bool_]

    @classmethod
    def of(cls, columns: Sequence[Column], n_left: int) -> CommonTokens:
        """From the columns of both tables, of which the first `n_left` cells are of the left."""
        starts, tokens, words, size = _all_tokens(columns)
        cut, records = int(starts[n_left]), starts.size - 1
        counts = [np.bincount(part, minlength=size) for part in (tokens[:cut], tokens[cut:])]
        total = counts[0] + counts[1]
        weights = np.log((1 + records) / np.maximum(total, 1))
        useful = (np.minimum(*counts) > 0) & (total <= max(SHARE * records, FEW))
        left, right = (
            Tokens(*kernels.rarest(part, tokens, words, total, useful, TOKENS))
            for part in (starts[: n_left + 1], starts[n_left:])
        )
        return cls((left, right), weights, np.maximum(*counts) > FEW)

    def candidates(self, neighbours: int, n_jobs: int) -> tuple[Ints, Ints]:
        """The best candidates of the records of either table."""
        sides, frequent = self.sides, self.frequent
        sizes = [side.sizes.size for side in sides]
        buckets = 2 ** int(np.clip(np.ceil(np.log2(64 * max(sizes))), 16, 27))
        n_slices = sum(-(-size // SLICE) for size in sizes)
        begin("finding candidates", n_slices)
        crowded = np.zeros(buckets, dtype=bool)
        pairs = self._counts(crowded)
        crowded = (np.maximum(*pairs) > FEW) & (np.minimum(*pairs) > 0)
        counts = self._counts(crowded)
        keys = []
        for k, (own, other) in enumerate((sides, sides[::-1])):
            posted = np.where((counts[k] > 0) & (counts[1 - k] <= FEW), counts[1 - k], 0)
            ends = np.cumsum(posted, dtype=np.int64) - posted
            records = np.empty(int(posted.sum()), dtype=np.int32)
            kernels.post(*other, frequent, crowded, posted, ends, records)
            index = frequent, crowded, posted, ends, records, self.weights, RANKED, neighbours
            starts = range(0, sizes[k], SLICE)
            ask = partial(_search, own, other, index)
            with threaded_map(n_jobs, len(starts)) as each:
                found = np.concatenate(list(stepped(each(ask, starts))))
            row, place = np.nonzero(found >= 0)
            ends_of = (row, found[row, place])[:: 1 - 2 * k]
            keys.append(ends_of[0] * sizes[1] + ends_of[1])
        return _sorted_pairs(keys, sizes[1])

    def nearest(self, asked: Ints, count: int, n_jobs: int) -> tuple[Ints, Ints]:
        """Some left records beside the best `count` of all right records, by common tokens."""
        own, other = self.sides

        def one(part: Ints) -> Ints:
            check_time("the estimate of the recall of candidates")
            found: Ints = kernels.nearest(
                part, *own, other.tokens, other.sizes, self.weights, count
            )
            return found

        parts = np.array_split(asked, min(asked.size, PARTS))
        begin("estimating the recall of candidates", len(parts))
        with threaded_map(n_jobs, len(parts)) as each:
            found = np.concatenate(list(stepped(each(one, parts))))
        row, place = np.nonzero(found >= 0)
        return asked[row], found[row, place]

    def _counts(self, crowded: Any) -> list[NDArray[np.uint8]]:
        """How many records of each table have a key in each bucket."""
        found = [np.zeros(crowded.size, dtype=np.uint8) for _ in self.sides]
        for side, counts in zip(self.sides, found, strict=True):
            check_time("the search for candidate pairs")
            kernels.count_keys(*side, self.frequent, crowded, counts)
        return found


def _search(own: Tokens, other: Tokens, index: tuple[Any, ...], start: int) -> Ints:
    check_time("the search for candidate pairs")
    last = min(start + SLICE, len(own.sizes))
    found: Ints = kernels.search(start, last, *own, other.tokens, other.sizes, *index)
    return found


def _all_tokens(
    columns: Sequence[Column],
) -> tuple[Ints, NDArray[np.int32], NDArray[np.int16], int]:
    """Tokens of all records one after the other, with 16 * column + word; the number of tokens."""
    vocabulary = dict[str, int]()
    begin("reading tokens", len(columns))
    parts = []
    for c, (codes, values, kind) in enumerate(stepped(columns)):
        check_time("reading the tables")
        read, column = READERS.get(kind, text_tokens), f"{c}="
        tokens, words = array("q"), array("h")
        ends = np.zeros(values.size + 1, dtype=np.int64)
        for k, value in enumerate(values):
            for token, word in read(value, column) if value else ():
                tokens.append(vocabulary.setdefault(token, len(vocabulary)))
                words.append(word + 16 * c)
            ends[k + 1] = len(tokens)
        flat = np.asarray(tokens, dtype=np.int64), np.asarray(words, dtype=np.int64)
        parts.append((codes, ends, *flat))
    sizes = sum(ends[codes + 1] - ends[codes] for codes, ends, _, _ in parts)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    found = np.empty(int(starts[-1]), np.int32), np.empty(int(starts[-1]), np.int16)
    at = starts[:-1].copy()
    for part in parts:
        kernels.fill(*part, at, *found)
    return starts, *found, max(len(vocabulary), 1)


def text_tokens(value: str, column: str) -> list[Token]:
    """Words in any column, their first and last three letters, and the whole value."""
    found = WORD.findall(value)
    out = []
    for k, word in enumerate(found[:12]):
        out.append((word, k))
        if len(word) > 3:
            out += [(f"^{word[:3]}", k), (f"${word[-3:]}", k)]
    return [*out, (column + " ".join(found), WHOLE)] if len(found) > 1 else out


def date_tokens(value: str, column: str) -> list[Token]:
    """The day, the year, the day of the year (day and month in either order), year and month."""
    parts = DIGITS.findall(value)
    if len(parts) == 1 and len(parts[0]) == 8:
        parts = [parts[0][:4], parts[0][4:6], parts[0][6:]]
    years = [part for part in parts if len(part) == 4]
    if len(parts) < 3 or len(years) != 1:
        return text_tokens(value, column)
    (year,), (a, b) = years, sorted([part for part in parts[:3] if len(part) != 4])[:2]
    return [
        (f"{column}{year} {a} {b}", WHOLE), (f"{column}{year}", 0), (f"{column}{a} {b}", 1),
        (f"{column}{year} {parts[1]}-", 2),
    ]  # fmt: skip


def number_tokens(value: str, column: str) -> list[Token]:
    """The whole value, and both halves of a long one."""
    half = len(value) // 2
    halves = [(f"{column}^{value[:half]}", 0), (f"{column}${value[half:]}", 1)]
    return [(column + value, WHOLE), *(halves if half > 1 else [])]


READERS = {
    "text": text_tokens,
    "date": date_tokens,
    "number": number_tokens,
    "category": lambda value, column: [(column + value, WHOLE)],
}
