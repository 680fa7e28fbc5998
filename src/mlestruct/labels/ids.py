"""From pairs of ids to the partner arrays that estimators take, and back."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .partners import read_pairs

Ints = NDArray[np.int64]


def partners_from_pairs(
    ids: Sequence[Hashable],
    pairs: Iterable[tuple[Hashable, Hashable]],
    names: Sequence[str] | None = None,
) -> Ints:
    """Partner of every id, by position, -1 for those in no pair.

    `names` are those of the pairs in error messages, by default "pairs[0]", "pairs[1]", ...

    Examples
    --------
    >>> from mlestruct.labels import partners_from_pairs
    >>> partners_from_pairs(["ann", "bea", "cid"], [("cid", "ann")])
    array([ 2, -1,  0])
    """
    members = list(ids)
    place = {member: i for i, member in enumerate(members)}
    if len(place) != len(members):
        twice = next(member for i, member in enumerate(members) if place[member] != i)
        raise ValueError(f"ids: {twice!r} occurs twice")
    partner = np.full(len(members), -1, dtype=np.int64)
    for k, pair in enumerate(pairs):
        a, b = pair
        where = f"pairs[{k}]" if names is None else names[k]
        for member in (a, b):
            if member not in place:
                raise ValueError(f"{where}: {member!r} is not among the ids")
            if a == b:
                raise ValueError(f"{where}: {member!r} is its own partner")
            if partner[place[member]] >= 0:
                raise ValueError(f"{where}: {member!r} is in two pairs")
        partner[place[a]], partner[place[b]] = place[b], place[a]
    return partner


def pairs_from_partners(
    ids: Sequence[Hashable], partner: ArrayLike
) -> list[tuple[Hashable, Hashable]]:
    """The pairs of ids in a partner array, each once, in the order of the ids.

    Examples
    --------
    >>> from mlestruct.labels import pairs_from_partners
    >>> pairs_from_partners(["ann", "bea", "cid"], [2, -1, 0])
    [('ann', 'cid')]
    """
    members = list(ids)
    pairs = read_pairs(partner, len(members), None, "partner")
    return [(members[i], members[j]) for i, j in pairs.tolist()]
