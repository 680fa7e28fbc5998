"""Errors that users may want to catch."""

from __future__ import annotations


class InfeasibleError(ValueError):
    """An output space is empty: no matching covers the nodes that must be covered.

    `rows` is a violating set: together they have fewer allowed partners than members. `side` says
    whether they are "rows" or, in a problem with more rows than columns, "columns".
    """

    def __init__(self, message: str, rows: list[int], side: str = "rows"):
        super().__init__(message)
        self.rows = rows
        self.side = side
