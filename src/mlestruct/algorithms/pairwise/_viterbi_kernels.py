"""Max-product on forests, scores in the overcomplete layout."""

import numpy as np

from ..._compile import kernel


@kernel
def breadth_first(ptr, half, tail, head, order, parent, up):
    """Parents before children; parent and the edge to it are -1 at the roots."""
    n = order.shape[0]
    m = tail.shape[0]
    seen = np.zeros(n, np.bool_)
    count = 0
    for root in range(n):
        if seen[root]:
            continue
        at = count
        order[count] = root
        count += 1
        seen[root] = True
        parent[root] = -1
        up[root] = -1
        while at < count:
            i = order[at]
            at += 1
            for p in range(ptr[i], ptr[i + 1]):
                h = half[p]
                e = h if h < m else h - m
                j = head[e] if h < m else tail[e]
                if not seen[j]:
                    seen[j] = True
                    parent[j] = i
                    up[j] = e
                    order[count] = j
                    count += 1


@kernel
def max_product(order, parent, up, head, scores, n_states, labels):
    """Fill in the best labels and return their score; ties go to the lowest state.

    Upwards only values are passed on; the maximisers are found again on the way down, for the one
    state the parent took.
    """
    n = order.shape[0]
    L = n_states
    best = scores[: n * L].copy()  # of the subtree below a node, per state of the node
    message = np.empty(L)
    for k in range(n - 1, -1, -1):
        i = order[k]
        if parent[i] < 0:
            continue
        mine = i * L
        at = n * L + up[i] * L * L
        if head[up[i]] == i:  # the table has a row per state of the parent
            for b in range(L):
                top = best[mine] + scores[at]
                for a in range(1, L):
                    value = best[mine + a] + scores[at + a]
                    top = value if value > top else top
                message[b] = top
                at += L
        else:  # a row per state of this node
            for b in range(L):
                message[b] = best[mine] + scores[at + b]
            for a in range(1, L):
                at += L
                own = best[mine + a]
                for b in range(L):
                    value = own + scores[at + b]
                    message[b] = value if value > message[b] else message[b]
        for b in range(L):
            best[parent[i] * L + b] += message[b]
    total = 0.0
    for k in range(n):
        i = order[k]
        mine = i * L
        state = 0
        if parent[i] < 0:
            for a in range(1, L):
                if best[mine + a] > best[mine + state]:
                    state = a
            total += best[mine + state]
        else:
            forward = head[up[i]] == i
            at = n * L + up[i] * L * L + labels[parent[i]] * (L if forward else 1)
            stride = 1 if forward else L
            top = best[mine] + scores[at]
            for a in range(1, L):
                value = best[mine + a] + scores[at + a * stride]
                if value > top:
                    top = value
                    state = a
        labels[i] = state
    return total
