"""Kernels for features stored as codes: row place[e, g] of the table of group g, for each edge e.

The tables of all groups are stacked; `start[g]` is where that of group g begins.
"""

from .._compile import kernel


@kernel
def level_scores(place, start, table, out):
    for e in range(place.shape[0]):
        total = table[place[e, 0]]
        for g in range(1, place.shape[1]):
            total += table[start[g] + place[e, g]]
        out[e] = total


@kernel
def level_score_rows(place, start, table, out):
    for e in range(place.shape[0]):
        cell = place[e, 0]
        for s in range(out.shape[1]):
            out[e, s] = table[cell, s]
        for g in range(1, place.shape[1]):
            cell = start[g] + place[e, g]
            for s in range(out.shape[1]):
                out[e, s] += table[cell, s]


@kernel
def level_sums(place, start, values, out):
    for e in range(place.shape[0]):
        out[place[e, 0]] += values[e]
        for g in range(1, place.shape[1]):
            out[start[g] + place[e, g]] += values[e]


@kernel
def level_sum_rows(place, start, values, out):
    for e in range(place.shape[0]):
        size = 0.0
        for s in range(out.shape[1]):
            size += abs(values[e, s])
        if size == 0.0:  # most edges of a vertex
            continue
        for g in range(place.shape[1]):
            cell = start[g] + place[e, g]
            for s in range(out.shape[1]):
                out[cell, s] += values[e, s]


@kernel
def level_pair_counts(place, start, out):
    """How often two cells occur together, for the first in the same or a later group."""
    for e in range(place.shape[0]):
        for g in range(place.shape[1]):
            cell = start[g] + place[e, g]
            for h in range(g + 1):
                out[cell, start[h] + place[e, h]] += 1.0
