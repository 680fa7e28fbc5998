"""Shortest-augmenting-path assignment with warm-started dual variables (prices v of the columns).

Minimises cost. Every row gets a column of its own, or stays single at its own cost where
`may_skip`; columns may stay free if there are more of them than rows. Prices satisfy
cost[i, j] >= u[i] + v[j], with equality on the assignment, where u[i] is the cost of row i's column
minus its price. Prices of a similar problem shorten the search (only where no column may stay free:
a free column's price must be 0). A row that cannot be assigned gets -2.
"""

from heapq import heappop, heappush
from math import inf

import numpy as np

from ..._compile import kernel


@kernel
def first_prices(scores, prices):
    """The part v_j of the least-squares fit of u_i + v_j, or 0 where that is the tighter bound.

    Pairs of score -inf do not count. The fit alone would break ties, and make searches long.
    """
    n, m = scores.shape
    prices[:] = 0.0
    for _ in range(2):  # one suffices where all pairs are allowed
        sums = np.zeros(m)
        counts = np.zeros(m)
        for i in range(n):
            total = 0.0
            count = 0
            for j in range(m):
                if scores[i, j] > -inf:
                    total += scores[i, j] - prices[j]
                    count += 1
            for j in range(m):
                if scores[i, j] > -inf:
                    sums[j] += scores[i, j] - total / count
                    counts[j] += 1.0
        for j in range(m):
            prices[j] = sums[j] / max(counts[j], 1.0)
    plain = 0.0
    fitted = 0.0
    for i in range(n):
        best = -inf
        best_fitted = -inf
        for j in range(m):
            best = max(best, scores[i, j])
            best_fitted = max(best_fitted, scores[i, j] - prices[j])
        plain += best
        fitted += best_fitted
    for j in range(m):
        fitted += prices[j]
    if plain < fitted - 1e-13 * abs(fitted):  # if equal, the fit is in the middle of the optima
        prices[:] = 0.0


@kernel
def assign_dense(cost, may_skip, skip_cost, v, row_to_col):
    """Best assignment of a dense (n, m) cost matrix, n <= m unless rows may stay single.

    `may_skip` allows rows to stay single at `skip_cost` (n,); row_to_col is -1 there. Prices `v`
    (m,) are read as a warm start and overwritten. Pairs of cost inf are not allowed.
    """
    n, m = cost.shape
    row_to_col[:] = -1
    col_to_row = np.empty(m, np.int64)
    col_to_row[:] = -1
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
            continue
        if choice >= 0 and col_to_row[choice] < 0:
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
                    continue
                if skip_cost[i] < second:
                    second = skip_cost[i]
                    j2 = -1
            if j1 < 0:
                free[n_free] = i
                n_free += 1
                continue
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
            at = 0  # the nearest column, of several a free one: ties are common
            for q in range(1, n_todo):
                d = distance[todo[q]]
                nearest = distance[todo[at]]
                if d < nearest or (d == nearest and col_to_row[todo[q]] < 0):
                    at = q
            j = todo[at]
            if skip_distance <= distance[j]:
                reach = skip_distance
                break
            reach = distance[j]
            if reach == inf:
                break
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
            if reach == inf:
                row_to_col[source] = -2
                continue
        for q in range(n_todo, m):
            j = todo[q]
            if distance[j] < reach:
                v[j] += distance[j] - reach
        if end < 0:  # the path ends in a row that becomes single
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
    for _ in range(2):  # augmenting row reduction, as above
        k = 0
        waiting = n_free
        n_free = 0
        budget = 4 * n
        while k < waiting:
            i = free[k]
            k += 1
            first = inf
            second = inf
            e1 = -1
            e2 = -1
            for e in range(ptr[i], ptr[i + 1]):
                reduced = cost[e] - v[col[e]]
                if reduced < second:
                    if reduced < first:
                        second = first
                        e2 = e1
                        first = reduced
                        e1 = e
                    else:
                        second = reduced
                        e2 = e
            if may_skip:
                if skip_cost[i] <= first:
                    continue
                if skip_cost[i] < second:
                    second = skip_cost[i]
                    e2 = -1
            if e1 < 0:
                free[n_free] = i
                n_free += 1
                continue
            budget -= 1
            differs = second < inf and first < second
            if differs:
                v[col[e1]] -= second - first
            elif e2 >= 0 and col_to_row[col[e1]] >= 0:
                e1 = e2
            owner = col_to_row[col[e1]]
            choice[i] = e1
            col_to_row[col[e1]] = i
            if owner >= 0:
                choice[owner] = -1
                if differs and second - first > 1e-12 * (1.0 + abs(first)) and budget > 0:
                    k -= 1
                    free[k] = owner
                else:
                    free[n_free] = owner
                    n_free += 1
    distance = np.full(m, inf)
    parent = np.empty(m, np.int64)
    done = np.zeros(m, np.bool_)
    seen = np.empty(m, np.int64)
    for f in range(n_free):
        source = free[f]
        heap = [(0.0, np.int64(-1))]
        heap.clear()
        n_seen = 0
        reach = inf  # to the nearest end so far: a free column, or a row that becomes single
        end = -1
        skip_row = -1
        i = source
        base = 0.0
        while True:
            if may_skip and skip_cost[i] - base < reach:
                reach = skip_cost[i] - base
                skip_row = i
            for e in range(ptr[i], ptr[i + 1]):
                j = col[e]
                through = cost[e] - v[j] - base
                if done[j] or through >= min(distance[j], reach):
                    continue
                if distance[j] == inf:
                    seen[n_seen] = j
                    n_seen += 1
                distance[j] = through
                parent[j] = e
                if col_to_row[j] < 0:
                    reach = through
                    skip_row = -1
                    end = j
                else:
                    heappush(heap, (through, j))
            found = -1
            while len(heap) > 0 and heap[0][0] < reach:
                d, j = heappop(heap)
                if not done[j] and d <= distance[j]:
                    found = j
                    break
            if found < 0:
                break
            done[found] = True
            i = col_to_row[found]
            base = cost[choice[i]] - v[found] - distance[found]
        if reach == inf:
            choice[source] = -2
        else:
            for q in range(n_seen):
                j = seen[q]
                if done[j]:
                    v[j] += distance[j] - reach
            if skip_row >= 0 and skip_row != source:
                end = col[choice[skip_row]]
                choice[skip_row] = -1
            elif skip_row >= 0:
                end = -1
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
