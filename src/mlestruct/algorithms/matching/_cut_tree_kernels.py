"""Minimum cuts of a small dense graph: a cut tree, from n - 1 maximum flows (Gusfield)."""

import numpy as np

from ..._compile import kernel


@kernel
def source_side(residual, source, sink, parent, queue):
    """Send all flow from source to sink in `residual`, in place.

    Afterwards parent[i] >= 0 exactly for the nodes that are reachable from the source: its side of
    a minimum cut. Residual capacities below 1e-13 count as 0.
    """
    n = residual.shape[0]
    while True:
        parent[:] = -1
        parent[source] = source
        queue[0] = source
        head, tail = 0, 1
        while head < tail and parent[sink] < 0:
            i = queue[head]
            head += 1
            for j in range(n):
                if parent[j] < 0 and residual[i, j] > 1e-13:
                    parent[j] = i
                    queue[tail] = j
                    tail += 1
        if parent[sink] < 0:
            return
        amount = np.inf
        j = sink
        while j != source:
            amount = min(amount, residual[parent[j], j])
            j = parent[j]
        j = sink
        while j != source:
            i = parent[j]
            residual[i, j] -= amount
            residual[j, i] += amount
            j = i


@kernel
def cut_tree(capacity, tree):
    """Fill tree[i], the parent of node i (root 0); capacity has shape (n, n).

    Of all cuts that separate i from its parent, that between i's subtree and the rest is smallest.
    """
    n = capacity.shape[0]
    tree[:] = 0
    parent = np.empty(n, np.int64)
    queue = np.empty(n, np.int64)
    residual = np.empty_like(capacity)
    for s in range(1, n):
        t = tree[s]
        for i in range(n):
            for j in range(n):
                residual[i, j] = capacity[i, j]
        source_side(residual, s, t, parent, queue)
        for i in range(n):
            if i != s and parent[i] >= 0 and tree[i] == t:
                tree[i] = s
        if parent[tree[t]] >= 0:
            tree[s] = tree[t]
            tree[t] = s
