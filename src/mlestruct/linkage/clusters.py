"""Clusters of records from probabilities of pairs, at most as large as asked."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from .._running import check_time
from .links import POSSIBLE

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
LEAST = float(logit(POSSIBLE))  # log-odds of pairs that are no candidates or all but excluded


def bounded_clusters(
    rows: Ints, cols: Ints, chance: Floats, n_records: int, size: int, apart: Any = False
) -> Ints:
    """The number of each record's cluster: average linkage of log-odds, the best pair first.

    Two clusters are joined while the mean of the log-odds of their pairs is positive, and both
    together have at most `size` records. Pairs that are marked in `apart` are never in one cluster.
    """
    odds = np.where(apart, -np.inf, logit(np.clip(chance, 1e-9, 1.0 - 1e-9)))
    kept = (chance >= POSSIBLE) | apart
    odds = odds[kept]
    # Of each cluster, the sum of log-odds above LEAST to its neighbours.
    near: list[dict[int, float]] = [{} for _ in range(n_records)]
    for a, b, value in zip(rows[kept].tolist(), cols[kept].tolist(), odds.tolist(), strict=True):
        near[a][b] = near[b][a] = value - LEAST
    members: list[list[int]] = [[k] for k in range(n_records)]
    queue: list[Any] = []

    def offer(a: int, b: int) -> None:
        n_pairs = len(members[a]) * len(members[b])
        mean = near[a][b] / n_pairs + LEAST
        if mean > 0.0 and len(members[a]) + len(members[b]) <= size:
            heapq.heappush(queue, (-mean, a, b, len(members[a]), len(members[b])))

    for a in range(n_records):
        for b in near[a]:
            if a < b:
                offer(a, b)
    while queue:
        _, a, b, n_a, n_b = heapq.heappop(queue)
        if (len(members[a]), len(members[b])) != (n_a, n_b):
            continue  # joined in the meantime
        check_time("the clusters of duplicates")
        members[a] += members[b]
        members[b] = []
        for c, value in near[b].items():
            near[c].pop(b)
            if c != a:
                near[a][c] = near[c][a] = near[a].get(c, 0.0) + value
        near[b] = {}
        for c in near[a]:
            offer(a, c)
    number = np.empty(n_records, dtype=np.int64)
    for own in members:
        number[own] = min(own, default=0)
    return np.unique(number, return_inverse=True)[1].astype(np.int64)
