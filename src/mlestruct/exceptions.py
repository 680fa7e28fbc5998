"""Errors that users may want to catch."""

from __future__ import annotations


class InfeasibleError(ValueError):
    """An output space is empty: no matching covers the nodes that must be covered.

    `rows` is a violating set: together these rows have fewer allowed partners than members.
    """

    def __init__(self, message: str, rows: list[int]):
        super().__init__(message)
        self.rows = rows
