"""Kernels for features of pairs of people, by the positions of their answers in one long list."""

import numpy as np

from .._compile import kernel


@kernel
def pair_scores(row, col, position, table, out):
    """Sum over questions of the table's entry at the two answers."""
    for e in range(row.shape[0]):
        mine = position[row[e]]
        theirs = position[col[e]]
        total = 0.0
        for q in range(mine.shape[0]):
            total += table[mine[q], theirs[q]]
        out[e] = total


@kernel
def pair_counts(row, col, position, weights, counts):
    """Add the weight of each pair to the entry of its two answers, for every question."""
    for e in range(row.shape[0]):
        if weights[e] != 0.0:
            mine = position[row[e]]
            theirs = position[col[e]]
            for q in range(mine.shape[0]):
                counts[mine[q], theirs[q]] += weights[e]


@kernel
def packed_scores(position, table, out):
    """pair_scores of all pairs (0, 1), (0, 2), ..., (1, 2), ..., person by person."""
    n, n_questions = position.shape
    gain = np.zeros(table.shape[0])  # what each answer of a partner adds for person i
    e = 0
    for i in range(n):
        gain[:] = 0.0
        for q in range(n_questions):
            gain += table[position[i, q]]  # zero outside the answers to question q
        for j in range(i + 1, n):
            total = 0.0
            for q in range(n_questions):
                total += gain[position[j, q]]
            out[e] = total
            e += 1


@kernel
def packed_counts(position, weights, counts):
    """pair_counts of all pairs. Entries of two different questions are not meaningful."""
    n, n_questions = position.shape
    later = np.zeros(counts.shape[0])  # weight of each answer among the later partners of i
    e = 0
    for i in range(n):
        later[:] = 0.0
        for j in range(i + 1, n):
            for q in range(n_questions):
                later[position[j, q]] += weights[e]
            e += 1
        for q in range(n_questions):
            for answer in range(later.shape[0]):
                counts[position[i, q], answer] += later[answer]
