"""Numbers as people write them: $44.00, EUR 12, 1,5, 1.234,50, 1 234.50."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MONEY = r"(?:us\$|[$€£¥₹%]|usd|eur|gbp|chf|jpy|cny|inr|cad|aud|sek|nok|dkk|pln)"
BEFORE = re.compile(rf"^([+-]?)\s*{MONEY}\s*(?=[\d.,+-])")
AFTER = re.compile(rf"(?<=[\d.,])\s*{MONEY}$")
GROUPS = re.compile("(?<=\\d)[\\s'\u2019](?=\\d{3}(?!\\d))")
PLAIN = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+|(?=\.\d))(?:\.\d*)?(?:e[+-]?\d+)?")
DECIMAL = re.compile(r"([.,])(?:\d{1,2}|\d{4,})$|\d([.,])\d{3}[.,]\d")  # one that cannot be a group
SWAP = str.maketrans(",.", ".,")


def read_numbers(values: Sequence[str] | NDArray[Any]) -> Floats:
    """Numbers, NaN where a value is not one.

    1,234 and 1.234 are read as most other values with a decimal sign say: as 1234 and 1.234 if that
    is the point, or if none tells.
    """
    plain = [_without_unit(value) for value in values]
    swap = _has_decimal_comma(plain)
    return np.array([_number(value, swap) for value in plain], dtype=np.float64)


def _without_unit(value: str) -> str:
    """A value without currency and without space between thousands."""
    value = value.strip().lower()
    if value.isdigit():
        return value
    return GROUPS.sub("", AFTER.sub("", BEFORE.sub(r"\1", value)))


def _has_decimal_comma(values: Sequence[str]) -> bool:
    signs = [found for value in values if (found := DECIMAL.search(value))]
    commas = sum((one[1] or {",": ".", ".": ","}[one[2]]) == "," for one in signs)
    return commas > len(signs) - commas


def _number(value: str, swap: bool) -> float:
    for text in (value.translate(SWAP), value)[:: 1 if swap else -1]:
        if PLAIN.fullmatch(text):
            number = float(text.replace(",", ""))
            return number if np.isfinite(number) else np.nan
    return np.nan
