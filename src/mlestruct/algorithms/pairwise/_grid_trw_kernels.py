"""Message passing on 4-connected grids with any number of states, one diagonal at a time.

The pixels of a diagonal (i + j = d) do not depend on each other in a raster pass, so a pass takes
them together. Arrays are state-major, pixels in the order of diagonals: odds[x, p] and
messages[side, x, p], with side 0 from the left, 1 from above, 2 from the right, 3 from below.

links[axis, d] = (first tail, first head, count, first edge) of the edges from diagonal d to d + 1,
horizontal ones on axis 0: consecutive edges have consecutive ends. tables[x, y, e], the tail's
state first, has a last axis of length 1 where all edges of the axis share their table.
"""

from math import inf, log, sqrt

from ..._compile import kernel, summing_kernel

CHUNK = 64  # edges whose tables are handled at once: with 6 states they fill 18 kB
ROUNDS = 2  # of scaling a table to its marginals, rows and columns each


@summing_kernel
def pass_messages(links, starts, odds, across, along, messages, beliefs, norms, cavity, n_sweeps):
    """Sweeps at rho = 1/2, each a pass over the diagonals and one back.

    With the cavity c = belief / message received over an edge, the edge carries the message
    sum_x table(x, y) c(x) / sum_x c(x). norms[axis] receives the divisors of the way back.
    """
    n_states = odds.shape[0]
    n_diagonals = starts.shape[0] - 1
    steps = 2 * n_diagonals - 1
    for k in range(n_sweeps * steps):
        step = k % steps
        backwards = step >= n_diagonals - 1  # the last diagonal only sends back
        d = 2 * (n_diagonals - 1) - step if backwards else step
        first = starts[d]
        last = starts[d + 1]
        for x in range(n_states):
            left = messages[0, x, first:last]
            above = messages[1, x, first:last]
            right = messages[2, x, first:last]
            below = messages[3, x, first:last]
            own = odds[x, first:last]
            belief = beliefs[x, first:last]
            for p in range(last - first):
                belief[p] = own[p] * sqrt((left[p] * right[p]) * (above[p] * below[p]))
        for axis in range(2 if d > 0 or not backwards else 0):
            link = links[axis, d - 1 if backwards else d]
            count = link[2]
            source = link[1] if backwards else link[0]
            target = link[0] if backwards else link[1]
            behind = axis if backwards else axis + 2
            ahead = axis + 2 if backwards else axis
            tables = across if axis == 0 else along
            norm = norms[behind, source : source + count]
            for p in range(count):
                norm[p] = 0.0
            for x in range(n_states):
                belief = beliefs[x, source : source + count]
                received = messages[behind, x, source : source + count]
                hollow = cavity[x]
                for p in range(count):
                    hollow[p] = belief[p] / received[p]
                    norm[p] += hollow[p]
            for y in range(n_states):
                sent = messages[ahead, y, target : target + count]
                for p in range(count):
                    sent[p] = 0.0
                for x in range(n_states):
                    table = tables[y, x] if backwards else tables[x, y]
                    hollow = cavity[x]
                    if tables.shape[2] == 1:
                        weight = table[0]
                        for p in range(count):
                            sent[p] += weight * hollow[p]
                    else:
                        weights = table[link[3] : link[3] + count]
                        for p in range(count):
                            sent[p] += weights[p] * hollow[p]
                for p in range(count):
                    sent[p] /= norm[p]


@kernel
def normalise(beliefs, norms, marginals):
    """Marginals from beliefs, and the sum of the logarithms of all divisors.

    A pixel to which no edge leads is the first of its chain; its divisor is the sum of its beliefs.
    """
    n_states, n = beliefs.shape
    total = 0.0
    for p in range(n):
        mass = 0.0
        for x in range(n_states):
            mass += beliefs[x, p]
        kept = 0.0
        for x in range(n_states):
            marginals[x, p] = max(beliefs[x, p] / mass, 1e-40)  # none is 0
            kept += marginals[x, p]
        for x in range(n_states):
            marginals[x, p] /= kept
        row = norms[0, p]
        column = norms[1, p]
        total += log(row if row > 0.0 else mass) + log(column if column > 0.0 else mass)
    return total


@summing_kernel
def feasible_point(
    links, across, along, messages, beliefs, norms, marginals, lanes, joint, sums, places, out
):  # fmt: skip
    """Edge tables of the local polytope with the given node marginals; returns their loss.

    The conditional distribution of a head given its tail is  table * cavity of the head / (message
    to the tail * norm).  Times the marginal of the tail it has the right row sums; rounds of
    scaling and a correction make the column sums right too. The loss, bound - attained value,
    is half the sum of the divergences from it. sums[axis, x, y] receives the tables' totals,
    out[places[axis][e]] each table if there is room.

    Links are at most CHUNK edges long. One kernel: those it called would be compiled twice.
    """
    n_states = beliefs.shape[0]
    alpha, beta, short, lacking = lanes[0], lanes[1], lanes[2], lanes[3]
    missing, loss = lanes[4, 0], lanes[4, 1]
    for p in range(CHUNK):
        loss[p] = 0.0
    for k in range(2 * links.shape[1]):
        axis = k % 2
        tables = across if axis == 0 else along
        link = links[axis, k // 2]
        count = link[2]
        tail = link[0]
        head = link[1]
        norm = norms[axis, head : head + count]
        for x in range(n_states):
            message = messages[axis + 2, x, tail : tail + count]
            received = messages[axis, x, head : head + count]
            row = marginals[x, tail : tail + count]
            belief = beliefs[x, head : head + count]
            factor = short[x]
            cavity = lacking[x]
            weight = alpha[x]
            for p in range(count):
                factor[p] = row[p] / (message[p] * norm[p])
                cavity[p] = belief[p] / received[p]
                weight[p] = 1.0
        for x in range(n_states):
            factor = short[x]
            for y in range(n_states):
                cavity = lacking[y]
                target = joint[0, x, y]
                table = tables[x, y]
                if table.shape[0] == 1:
                    score = table[0]
                    for p in range(count):
                        target[p] = score * factor[p] * cavity[p]
                else:
                    scores = table[link[3] : link[3] + count]
                    for p in range(count):
                        target[p] = scores[p] * factor[p] * cavity[p]
        for turn in range(ROUNDS):
            for p in range(count):
                missing[p] = 0.0
            for y in range(n_states):
                total = beta[y]
                column = marginals[y, head : head + count]
                for p in range(count):
                    total[p] = 0.0
                for x in range(n_states):
                    weight = alpha[x]
                    entry = joint[0, x, y]
                    for p in range(count):
                        total[p] += weight[p] * entry[p]
                for p in range(count):
                    total[p] = column[p] / total[p]
            for x in range(n_states):
                total = short[x]
                row = marginals[x, tail : tail + count]
                weight = alpha[x]
                for p in range(count):
                    total[p] = 0.0
                for y in range(n_states):
                    factor = beta[y]
                    entry = joint[0, x, y]
                    for p in range(count):
                        total[p] += factor[p] * entry[p]
                # After the last round, rows that are too large shrink: the rest is missing mass.
                most = 1.0 if turn == ROUNDS - 1 else inf
                for p in range(count):
                    weight[p] = min(row[p] / total[p], most * weight[p])
                    total[p] = max(row[p] - weight[p] * total[p], 0.0)
                    missing[p] += total[p]
        for y in range(n_states):
            lack = lacking[y]
            column = marginals[y, head : head + count]
            factor = beta[y]
            for p in range(count):
                lack[p] = column[p]
            for x in range(n_states):
                weight = alpha[x]
                entry = joint[0, x, y]
                table_out = joint[1, x, y]
                for p in range(count):
                    value = weight[p] * factor[p] * entry[p]
                    table_out[p] = value
                    lack[p] -= value
            for p in range(count):
                lack[p] = max(lack[p], 0.0) / max(missing[p], 1e-30)
        for x in range(n_states):
            above = short[x]
            for y in range(n_states):
                beside = lacking[y]
                entry = joint[0, x, y]
                table_out = joint[1, x, y]
                total = sums[axis, x, y]
                for p in range(count):
                    value = table_out[p] + above[p] * beside[p]
                    table_out[p] = value
                    total[p] += value
                    # log(1 + s) <= s (6 + s) / (6 + 4 s); a logarithm is 8 times that of the root
                    s = sqrt(sqrt(sqrt(value / entry[p]))) - 1.0
                    loss[p] += value * (8.0 * s * (6.0 + s) / (6.0 + 4.0 * s)) - (value - entry[p])
        if out.shape[0] > 0:
            for x in range(n_states):
                for y in range(n_states):
                    for p in range(count):
                        out[places[axis, link[3] + p], x, y] = joint[1, x, y, p]
    total_loss = 0.0
    for p in range(CHUNK):
        total_loss += loss[p]
    return 0.5 * total_loss
