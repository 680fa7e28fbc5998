"""Shortest-augmenting-path assignment with warm-started dual variables (prices v of the columns).

Minimises cost. Every row gets a column of its own, or stays single at its own cost where
`may_skip`; columns may stay free if there are more of them than rows. Prices satisfy
cost[i, j] >= u[i] + v[j], with equality on the assignment, where u[i] is the cost of row i's column
minus its price. Prices of a similar problem shorten the search (only where no column may stay free:
a free column's price must be 0).
"""

from heapq import heappop, heappush
from math import inf

import numpy as np

from ..._compile import kernel


@kernel
def assign_dense(scores, row_single, col_single, prices, row_to_col):
    """Best assignment of a dense (n, m) score matrix, n <= m unless rows may stay single.

    `row_single` (n,) and `col_single` (m,) are scores of single nodes; no row may stay single where
    the former is empty. `prices` (m,) are read as a warm start and overwritten; row_to_col gets -1
    for single rows.
    """
    n, m = scores.shape
    may_skip = row_single.shape[0] > 0
    skip_cost = -row_single
    cost = np.empty((n, m))
    for i in range(n):
        for j in range(m):
            cost[i, j] = col_single[j] - scores[i, j]
    v = np.empty(m)
    for j in range(m):
        v[j] = col_single[j] - prices[j]
    assign_costs(cost, may_skip, skip_cost, v, row_to_col)
    for j in range(m):
        prices[j] = col_single[j] - v[j]


@kernel
def assign_costs(cost, may_skip, skip_cost, v, row_to_col):
    """The same in costs to be minimised; `v` (m,) is overwritten."""
    n, m = cost.shape
    row_to_col[:] = -1
    col_to_row = np.full(m, -1)
    single = np.zeros(n, np.bool_)
    free = np.empty(n, np.int64)
    n_free = 0
    for i in range(n):
        best = inf
        choice = -1
        for j in range(m):
            reduced = cost[i, j] - v[j]
            if reduced < best:
                best = reduced
                choice = j
        if may_skip and skip_cost[i] <= best:
            single[i] = True
        elif col_to_row[choice] < 0:
            col_to_row[choice] = i
            row_to_col[i] = choice
        else:
            free[n_free] = i
            n_free += 1
    # Augmenting row reduction: a free row gets its best column, whose price changes by the
    # difference to the second best.
    for _ in range(2):
        k = 0
        waiting = n_free
        n_free = 0
        budget = 4 * n
        while k < waiting:
            i = free[k]
            k += 1
            first = inf
            second = inf
            j1 = -1
            j2 = -1
            for j in range(m):
                reduced = cost[i, j] - v[j]
                if reduced < second:
                    if reduced < first:
                        second = first
                        j2 = j1
                        first = reduced
                        j1 = j
                    else:
                        second = reduced
                        j2 = j
            if may_skip:
                if skip_cost[i] <= first:
                    single[i] = True
                    continue
                if skip_cost[i] < second:
                    second = skip_cost[i]
                    j2 = -1
            budget -= 1
            owner = col_to_row[j1]
            differs = second < inf and first < second
            if differs:
                v[j1] -= second - first
            elif owner >= 0 and j2 >= 0:
                j1 = j2
                owner = col_to_row[j1]
            row_to_col[i] = j1
            col_to_row[j1] = i
            if owner >= 0:
                row_to_col[owner] = -1
                if differs and second - first > 1e-12 * (1.0 + abs(first)) and budget > 0:
                    k -= 1
                    free[k] = owner
                else:
                    free[n_free] = owner
                    n_free += 1
    distance = np.empty(m)
    parent = np.empty(m, np.int64)
    todo = np.empty(m, np.int64)
    for f in range(n_free):
        source = free[f]
        for j in range(m):
            distance[j] = cost[source, j] - v[j]
            parent[j] = source
            todo[j] = j
        n_todo = m
        skip_row = source if may_skip else -1
        skip_distance = skip_cost[source] if may_skip else inf
        end = -1
        reach = 0.0
        while n_todo > 0:
            at = 0
            for q in range(1, n_todo):
                if distance[todo[q]] < distance[todo[at]]:
                    at = q
            j = todo[at]
            if skip_distance <= distance[j]:
                reach = skip_distance
                break
            reach = distance[j]
            n_todo -= 1
            todo[at] = todo[n_todo]
            todo[n_todo] = j  # scanned columns gather at the end
            i = col_to_row[j]
            if i < 0:
                end = j
                break
            base = cost[i, j] - v[j] - reach
            if may_skip and skip_cost[i] - base < skip_distance:
                skip_distance = skip_cost[i] - base
                skip_row = i
            for q in range(n_todo):
                other = todo[q]
                through = cost[i, other] - v[other] - base
                if through < distance[other]:
                    distance[other] = through
                    parent[other] = i
        if end < 0:
            reach = skip_distance
        for q in range(n_todo, m):
            j = todo[q]
            if distance[j] < reach:
                v[j] += distance[j] - reach
        if end < 0:  # the path ends in a row that becomes single
            single[skip_row] = True
            if skip_row == source:
                continue
            end = row_to_col[skip_row]
            row_to_col[skip_row] = -1
        while True:
            i = parent[end]
            col_to_row[end] = i
            following = row_to_col[i]
            row_to_col[i] = end
            if i == source:
                break
            end = following


@kernel
def assign_sparse(ptr, row, col, cost, may_skip, skip_cost, v, choice, col_to_row):
    """The same for costs on the edges of a graph in CSR form (and their rows); never densifies.

    choice[i] becomes the chosen edge of row i, -1 for single rows, -2 for a row that cannot be
    assigned (then the graph has no matching that covers the rows).
    """
    n = ptr.shape[0] - 1
    m = v.shape[0]
    choice[:] = -1
    col_to_row[:] = -1
    free = np.empty(n, np.int64)
    n_free = 0
    for i in range(n):
        best = inf
        at = -1
        for e in range(ptr[i], ptr[i + 1]):
            reduced = cost[e] - v[col[e]]
            if reduced < best:
                best = reduced
                at = e
        if may_skip and skip_cost[i] <= best:
            continue
        if at >= 0 and col_to_row[col[at]] < 0:
            col_to_row[col[at]] = i
            choice[i] = at
        else:
            free[n_free] = i
            n_free += 1
    distance = np.empty(m)
    for j in range(m):
        distance[j] = inf
    parent = np.empty(m, np.int64)
    done = np.zeros(m, np.bool_)
    seen = np.empty(m, np.int64)
    for f in range(n_free):
        source = free[f]
        heap = [(0.0, np.int64(-1))]
        heap.clear()
        n_seen = 0
        skip_row = -1
        skip_distance = inf
        i = source
        base = 0.0
        end = -1
        reach = inf
        while True:
            if may_skip and skip_cost[i] - base < skip_distance:
                skip_distance = skip_cost[i] - base
                skip_row = i
            for e in range(ptr[i], ptr[i + 1]):
                j = col[e]
                if done[j]:
                    continue
                through = cost[e] - v[j] - base
                if through < distance[j]:
                    if distance[j] == inf:
                        seen[n_seen] = j
                        n_seen += 1
                    distance[j] = through
                    parent[j] = e
                    heappush(heap, (through, j))
            found = -1
            while len(heap) > 0:
                d, j = heappop(heap)
                if not done[j] and d <= distance[j]:
                    found = j
                    break
            if found < 0 or skip_distance <= distance[found]:
                reach = skip_distance
                break
            j = found
            done[j] = True
            reach = distance[j]
            if col_to_row[j] < 0:
                end = j
                break
            i = col_to_row[j]
            base = cost[choice[i]] - v[j] - reach
        if reach < inf:
            for q in range(n_seen):
                j = seen[q]
                if done[j] and distance[j] < reach:
                    v[j] += distance[j] - reach
        if end < 0 and skip_row < 0:
            choice[source] = -2
        else:
            if end < 0 and skip_row != source:
                end = col[choice[skip_row]]
                choice[skip_row] = -1
            while end >= 0:
                e = parent[end]
                i = row[e]
                col_to_row[end] = i
                previous = choice[i]
                choice[i] = e
                if i == source:
                    break
                end = col[previous]
        for q in range(n_seen):
            distance[seen[q]] = inf
            done[seen[q]] = False
