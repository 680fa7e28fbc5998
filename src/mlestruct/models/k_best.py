"""The k most probable labellings, by Lawler's partition: one MAP call per part.

After the best labelling of a part of all labellings is taken, the rest of the part splits into
those that agree with it on the first nodes and differ at the next one (Lawler 1972).
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._deadline import in_time
from ..algorithms.pairwise.junction_tree import BinaryJunctionTree
from .binary import UNKNOWN

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DOING = "the most probable labellings"


def most_probable_sets(
    tree: BinaryJunctionTree, fields: Floats, couplings: Floats, known: Ints | None, k: int
) -> tuple[Ints, Floats]:
    """States of shape (n_samples, k, n_nodes), best first, and probabilities (n_samples, k).

    Where known states leave fewer than k labellings, the rest repeats the best with probability 0.
    """
    n = fields.shape[0]
    start = np.full(fields.shape, UNKNOWN, dtype=np.int64) if known is None else known
    log_z = tree.marginals(fields, couplings, known).log_partition
    first, scores = tree.best(fields, couplings, known)
    # Parts by sample: (-score, number, states, what is fixed, nodes that may still differ).
    heaps: list[list[Any]] = [
        [(-scores[m], 0, first[m], start[m], np.flatnonzero(start[m] == UNKNOWN))] for m in range(n)
    ]
    states, probabilities = np.repeat(first[:, None], k, axis=1), np.zeros((n, k))
    number = 0
    for rank in range(k):
        owners, fixed, remaining = [], [], []
        for m, heap in enumerate(in_time(heaps, DOING)):
            if not heap:
                continue
            score, _, found, given, free = heapq.heappop(heap)
            states[m, rank], probabilities[m, rank] = found, np.exp(min(-score - log_z[m], 0.0))
            if rank + 1 == k:
                continue
            given = given.copy()
            for place, node in enumerate(free):
                part = given.copy()
                part[node] = 1 - found[node]
                given[node] = found[node]
                owners.append(m)
                fixed.append(part)
                remaining.append(free[place + 1 :])
        if not owners:
            continue
        parts = np.array(fixed)
        own = couplings if couplings.shape[0] == 1 else couplings[owners]
        best, scores = tree.best(fields[owners], own, parts)
        found_parts = zip(owners, best, scores, parts, remaining, strict=True)
        for m, labels, score, part, free in in_time(found_parts, DOING):
            number += 1
            heapq.heappush(heaps[m], (-score, number, labels, part, free))
    return states, probabilities
