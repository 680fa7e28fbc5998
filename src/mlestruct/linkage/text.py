"""Text as people write it: case, accents, punctuation, order of words, typing errors."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._lazy import pandas_module
from .._running import check_time

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

WORD = re.compile(r"[^\W_]+")
APOSTROPHES = str.maketrans("", "", "'\u2019`\u00b4")
MARKS = re.compile("[\u0300-\u036f]")  # accents of Latin, Greek and Cyrillic letters
LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "\u0131": "i"}
)
GRAM = 3  # letters
SLICE = 100_000  # pairs that are compared at a time


def normal(value: str) -> str:
    """Words without case, accents and punctuation; a value without letters or digits as it is."""
    plain = value.casefold().translate(APOSTROPHES)
    if not plain.isascii():
        plain = MARKS.sub("", unicodedata.normalize("NFKD", plain)).translate(LETTERS)
    return " ".join(WORD.findall(plain)) or value


def grams(value: str) -> set[str]:
    """All sequences of three letters or digits, spaces left out, so that UN-234 is UN234."""
    whole = value.replace(" ", "")
    return {whole[k : k + GRAM] for k in range(max(len(whole) - GRAM + 1, 1))}


@dataclass(frozen=True)
class Text:
    """Distinct normal values of a column, ready to be compared.

    values : the values
    keys : two codes of each value, which are equal if the letters are, or the words in any order
    rarity : log(1 / frequency) of the words of each value
    vectors : of each value, its sequences of letters, weighted by rarity, of length 1
    """

    values: NDArray[Any]
    keys: tuple[Ints, Ints]
    rarity: Floats
    vectors: Any

    @classmethod
    def of(cls, values: NDArray[Any], counts: Ints) -> Text:
        """From distinct normal values and their numbers of records."""
        factorize = pandas_module().factorize
        whole = [value.replace(" ", "") for value in values]
        letters = [value.lstrip("0") if value.isdigit() else value for value in whole]
        ordered = [" ".join(sorted(value.split())) if " " in value else value for value in values]
        keys = [factorize(np.array(one, dtype=object))[0] for one in (letters, ordered)]
        records = np.bincount(keys[1], counts)
        return cls(
            values, tuple(keys), np.log(counts.sum() / records)[keys[1]], _vectors(values, counts)
        )

    def compare(self, a: Ints, b: Ints) -> list[Floats]:
        """The features of text, of pairs of values."""
        pandas = pandas_module()
        code, distinct = pandas.factorize(a * len(self.values) + b)
        a, b = np.divmod(distinct, len(self.values))
        equal = (self.keys[0][a] == self.keys[0][b]) | (self.keys[1][a] == self.keys[1][b])
        close = np.ones((3, a.size))
        for part in _slices(np.flatnonzero(~equal)):
            close[:, part] = self._compare(a[part], b[part])
        rarity = np.minimum(self.rarity[a], self.rarity[b])
        return [part[code] for part in (*close, equal * 1.0, equal * rarity)]

    def _compare(self, a: Ints, b: Ints) -> list[Floats]:
        fuzz, jaro_winkler, pairwise = _rapidfuzz()
        check_time("the comparison of text")
        one, other = self.values[a].tolist(), self.values[b].tolist()
        similar = pairwise(one, other, scorer=jaro_winkler, dtype=np.float32)
        words = pairwise(one, other, scorer=fuzz.token_set_ratio, dtype=np.float32)
        letters = self.vectors[a].multiply(self.vectors[b]).sum(axis=1)
        return [similar, words / 100.0, np.asarray(letters).ravel()]


def _slices(places: Ints) -> Iterator[Ints]:
    return (places[k : k + SLICE] for k in range(0, places.size, SLICE))


def _vectors(values: NDArray[Any], counts: Ints) -> Any:
    vocabulary: dict[str, int] = {}
    found = [
        [vocabulary.setdefault(gram, len(vocabulary)) for gram in grams(value)] for value in values
    ]
    starts = np.concatenate([[0], np.cumsum([len(one) for one in found])])
    ids = np.array([k for one in found for k in one], dtype=np.int32)
    records = np.bincount(ids, np.repeat(counts, np.diff(starts)), minlength=len(vocabulary))
    weights = np.log((1.0 + counts.sum()) / records)[ids]
    out = sparse.csr_array((weights, ids, starts), shape=(len(values), len(vocabulary)))
    out.sort_indices()
    length = np.sqrt(np.asarray(out.multiply(out).sum(axis=1)).ravel())
    out.data /= np.repeat(np.maximum(length, 1e-12), np.diff(starts))
    return out


def _rapidfuzz() -> tuple[Any, Any, Any]:
    try:
        from rapidfuzz import fuzz
        from rapidfuzz.distance import JaroWinkler
        from rapidfuzz.process import cpdist
    except ImportError as error:
        raise ImportError(
            "comparing text needs rapidfuzz: pip install 'mlestruct[link]'"
        ) from error
    return fuzz, JaroWinkler.similarity, cpdist
