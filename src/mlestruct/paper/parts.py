"""Parts of an experiment: pieces of work, one by one or for all values on a grid."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

Setting = dict[str, Any]
"""Everything that decides the results; plain data. Results of another setting are never mixed."""


@dataclass(frozen=True)
class Part:
    """A piece of work whose result outlives an interruption.

    name : unique within its experiment; letters, digits, spaces and . , = + - only
    work : returns plain data
    """

    name: str
    work: Callable[[], Any]


def part_name(**key: Any) -> str:
    """Such as "gap 10, rho 0.5" for gap=10 and rho=0.5."""
    return ", ".join(f"{axis} {value}" for axis, value in key.items())


def grid(work: Callable[..., Any], setting: Setting, **axes: Iterable[Any]) -> list[Part]:
    """A part for each combination of values; `work` is called with the setting and these."""
    keys = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    return [Part(part_name(**key), partial(work, setting, **key)) for key in keys]
