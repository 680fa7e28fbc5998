"""From people's ids to the partner arrays that estimators take, and back."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ints = NDArray[np.int64]


def partners_from_pairs(
    ids: Sequence[Hashable], pairs: Iterable[tuple[Hashable, Hashable]]
) -> Ints:
    """Partner of every id, by position, -1 for those in no pair.

    Examples
    --------
    >>> from mlestruct.labels.ids import partners_from_pairs
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
        for member in (a, b):
            if member not in place:
                raise ValueError(f"pairs[{k}]: {member!r} is not among the ids")
            if partner[place[member]] >= 0 or a == b:
                raise ValueError(f"pairs[{k}]: {member!r} is in two pairs, or its own partner")
        partner[place[a]], partner[place[b]] = place[b], place[a]
    return partner


def pairs_from_partners(
    ids: Sequence[Hashable], partner: ArrayLike
) -> list[tuple[Hashable, Hashable]]:
    """The pairs of ids in a partner array, each once, in the order of the ids.

    Examples
    --------
    >>> from mlestruct.labels.ids import pairs_from_partners
    >>> pairs_from_partners(["ann", "bea", "cid"], [2, -1, 0])
    [('ann', 'cid')]
    """
    members = list(ids)
    found = np.asarray(partner, dtype=np.int64)
    if found.shape != (len(members),):
        raise ValueError(f"partner: expected one for each of {len(members)} ids, got {found.shape}")
    return [(members[i], members[j]) for i, j in enumerate(found.tolist()) if j > i]
