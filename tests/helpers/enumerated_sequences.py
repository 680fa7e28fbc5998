"""Labellings of short sequences by enumeration, and random scores of several sequences."""

import itertools

import numpy as np

from mlestruct.structures.sequences import Sequences


def enumerate_sequence(nodes, tables):
    """log Z, node and edge marginals, and the best labelling of one sequence."""
    length, n_states = nodes.shape
    labels = list(itertools.product(range(n_states), repeat=length))
    totals = np.array([sequence_score(nodes, tables, label) for label in labels])
    top = totals.max()
    p = np.exp(totals - top)
    log_z = top + np.log(p.sum())
    p /= p.sum()
    node, edge = np.zeros_like(nodes), np.zeros_like(tables)
    for label, q in zip(labels, p, strict=True):
        for t, state in enumerate(label):
            node[t, state] += q
        for t in range(length - 1):
            edge[t, label[t], label[t + 1]] += q
    return log_z, node, edge, np.array(labels[int(np.argmax(totals))])


def sequence_score(nodes, tables, label):
    node = sum(nodes[t, state] for t, state in enumerate(label))
    return node + sum(tables[t, label[t], label[t + 1]] for t in range(len(label) - 1))


def random_sequences(rng, lengths=(4, 1, 3, 2), n_states=3, scale=1.0):
    chains = Sequences(lengths, n_states)
    return chains, scale * rng.normal(size=chains.n_coordinates)
