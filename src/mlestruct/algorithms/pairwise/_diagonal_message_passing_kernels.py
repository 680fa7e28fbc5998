"""Message passing on 4-connected grids with any number of states, one diagonal at a time.

The pixels of a diagonal (i + j = d) do not depend on each other in a raster pass, so a pass takes
them together. Arrays are state-major, pixels in the order of diagonals: odds[x, p] and
messages[side, x, p], with side 0 from the left, 1 from above, 2 from the right, 3 from below.

links[axis, d] = (first tail, first head, count, first edge) of the edges from diagonal d to d + 1,
horizontal ones on axis 0: consecutive edges have consecutive ends. tables[x, y, e], the tail's
state first, has a last axis of length 1 where all edges of the axis share their table.
"""

from math import log, sqrt

from ..._compile import kernel, summing_kernel

CHUNK = 64  # edges whose tables are handled at once: with 6 states they fill 18 kB
ROUNDS = 2  # of scaling a table to its marginals, rows and columns each
TINY = 1e-30  # mass below which nothing is missing from a table
LEAST = 1e-40  # marginals are kept above it, so that none is 0


@kernel
def pass_messages(links, starts, odds, across, along, messages, beliefs, norms, cavity, scale):
    """One pass over the diagonals and one back, at rho = 1/2.

    With cavity c = belief / message(received over the edge), an edge carries the message
    sum_x table(x, y) c(x) / sum_x c(x). `norms[axis]` receives the divisors of the way back.
    """
    n_diagonals = starts.shape[0] - 1
    for step in range(2 * n_diagonals - 1):
        backwards = step >= n_diagonals - 1  # the last diagonal only sends back
        d = 2 * (n_diagonals - 1) - step if backwards else step
        believe(starts[d], starts[d + 1], odds, messages, beliefs)
        if backwards and d == 0:
            break
        for axis in range(2):
            link = links[axis, d - 1 if backwards else d]
            count = link[2]
            if count == 0:
                continue
            tables = across if axis == 0 else along
            source = link[1] if backwards else link[0]
            target = link[0] if backwards else link[1]
            received = messages[axis if backwards else axis + 2]
            sent = messages[axis + 2 if backwards else axis]
            hollow(source, count, beliefs, received, cavity, scale)
            if backwards:
                norm = norms[axis, source : source + count]
                for p in range(count):
                    norm[p] = scale[p]
            send(backwards, link[3], count, tables, cavity, scale, sent, target)


@kernel
def believe(first, last, odds, messages, beliefs):
    """Unnormalised beliefs of the pixels first .. last - 1."""
    for x in range(odds.shape[0]):
        left = messages[0, x, first:last]
        above = messages[1, x, first:last]
        right = messages[2, x, first:last]
        below = messages[3, x, first:last]
        own = odds[x, first:last]
        out = beliefs[x, first:last]
        for p in range(last - first):
            out[p] = own[p] * sqrt((left[p] * right[p]) * (above[p] * below[p]))


@kernel
def hollow(source, count, beliefs, received, cavity, scale):
    """cavity = belief / received message, and its sums over the states."""
    for x in range(beliefs.shape[0]):
        belief = beliefs[x, source : source + count]
        message = received[x, source : source + count]
        out = cavity[x]
        for p in range(count):
            value = belief[p] / message[p]
            out[p] = value
            scale[p] = value if x == 0 else scale[p] + value


@summing_kernel
def send(backwards, edge, count, tables, cavity, scale, sent, target):
    """sent(y) = sum_x table(x, y) cavity(x) / scale."""
    n_states = cavity.shape[0]
    shared = tables.shape[2] == 1
    for y in range(n_states):
        out = sent[y, target : target + count]
        for p in range(count):
            out[p] = 0.0
        for x in range(n_states):
            row = tables[y, x] if backwards else tables[x, y]
            weight = cavity[x]
            if shared:
                factor = row[0]
                for p in range(count):
                    out[p] += factor * weight[p]
            else:
                own = row[edge : edge + count]
                for p in range(count):
                    out[p] += own[p] * weight[p]
        for p in range(count):
            out[p] /= scale[p]


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
            marginals[x, p] = max(beliefs[x, p] / mass, LEAST)
            kept += marginals[x, p]
        for x in range(n_states):
            marginals[x, p] /= kept
        row = norms[0, p]
        column = norms[1, p]
        total += log(row if row > 0.0 else mass) + log(column if column > 0.0 else mass)
    return total


@kernel
def feasible_point(
    links, across, along, messages, beliefs, norms, marginals, lanes, joint, sums, places, out
):  # fmt: skip
    """Edge tables of the local polytope with the given node marginals; returns their loss.

    The conditional distribution of a head given its tail is  table * cavity of the head / (message
    to the tail * norm).  Times the marginal of the tail it has the right row sums; rounds of
    scaling and a correction make the column sums right too. The loss, bound - attained value,
    is half the sum of the divergences from it. sums[axis, x, y] receives the tables' totals,
    out[places[axis][e]] each table if there is room.
    """
    loss = 0.0
    for axis in range(2):
        tables = across if axis == 0 else along
        for d in range(links.shape[1]):
            link = links[axis, d]
            for begin in range(0, link[2], CHUNK):
                count = min(CHUNK, link[2] - begin)
                tail = link[0] + begin
                head = link[1] + begin
                edge = link[3] + begin
                condition(
                    axis, tail, head, edge, count, tables, messages, beliefs, norms, marginals,
                    lanes, joint[0],
                )  # fmt: skip
                loss += couple(count, lanes, joint, sums[axis])
                if out.shape[0] > 0:
                    write(count, joint[1], places[axis, edge : edge + count], out)
    return 0.5 * loss


@kernel
def condition(
    axis, tail, head, edge, count, tables, messages, beliefs, norms, marginals, lanes, joint
):  # fmt: skip
    """joint = marginal of the tail * distribution of the head given the tail.

    lanes[0], lanes[1] receive the marginals of tails and heads.
    """
    n_states = beliefs.shape[0]
    shared = tables.shape[2] == 1
    rows, columns, factors, cavities = lanes[0], lanes[1], lanes[2], lanes[3]
    norm = norms[axis, head : head + count]
    for x in range(n_states):
        message, belief = (
            messages[axis + 2, x, tail : tail + count],
            beliefs[x, head : head + count],
        )
        received = messages[axis, x, head : head + count]
        at_tail, at_head = marginals[x, tail : tail + count], marginals[x, head : head + count]
        row, column, factor, cavity = rows[x], columns[x], factors[x], cavities[x]
        for p in range(count):
            row[p] = at_tail[p]
            column[p] = at_head[p]
            factor[p] = at_tail[p] / (message[p] * norm[p])
            cavity[p] = belief[p] / received[p]
    for x in range(n_states):
        factor = factors[x]
        for y in range(n_states):
            cavity, target, table = cavities[y], joint[x, y], tables[x, y]
            if shared:
                weight = table[0]
                for p in range(count):
                    target[p] = weight * factor[p] * cavity[p]
            else:
                own = table[edge : edge + count]
                for p in range(count):
                    target[p] = own[p] * factor[p] * cavity[p]


@summing_kernel
def couple(count, lanes, joint, sums):
    """Scale joint[0] to its marginals, into joint[1]; returns the sum of divergences."""
    n_states = joint.shape[1]
    rows, columns, alpha, beta = lanes[0], lanes[1], lanes[2], lanes[3]
    for x in range(n_states):
        weight = alpha[x]
        for p in range(count):
            weight[p] = 1.0
    for turn in range(ROUNDS):
        for y in range(n_states):
            total = beta[y]
            column = columns[y]
            for p in range(count):
                total[p] = 0.0
            for x in range(n_states):
                weight, entry = alpha[x], joint[0, x, y]
                for p in range(count):
                    total[p] += weight[p] * entry[p]
            for p in range(count):
                total[p] = column[p] / total[p]
        for x in range(n_states):
            total = lanes[4, x]
            row = rows[x]
            weight = alpha[x]
            for p in range(count):
                total[p] = 0.0
            for y in range(n_states):
                factor, entry = beta[y], joint[0, x, y]
                for p in range(count):
                    total[p] += factor[p] * entry[p]
            for p in range(count):
                scaled = row[p] / total[p]
                # After the last round, rows that are too large shrink: the rest is missing mass.
                weight[p] = scaled if turn < ROUNDS - 1 else min(scaled, weight[p])
    missing, loss = lanes[6, 0], lanes[6, 1]
    for p in range(count):
        missing[p] = 0.0
        loss[p] = 0.0
    for x in range(n_states):
        lack, row, weight = lanes[4, x], rows[x], alpha[x]
        for p in range(count):
            lack[p] = max(row[p] - weight[p] * lack[p], 0.0)
            missing[p] += lack[p]
    for p in range(count):
        missing[p] = 1.0 / missing[p] if missing[p] > TINY else 0.0
    for y in range(n_states):
        lack, column, factor = lanes[5, y], columns[y], beta[y]
        for p in range(count):
            lack[p] = column[p]
        for x in range(n_states):
            weight, entry, out = alpha[x], joint[0, x, y], joint[1, x, y]
            for p in range(count):
                value = weight[p] * factor[p] * entry[p]
                out[p] = value
                lack[p] -= value
        for p in range(count):
            lack[p] = max(lack[p], 0.0) * missing[p]
    for x in range(n_states):
        above = lanes[4, x]
        for y in range(n_states):
            beside, entry, out, total = lanes[5, y], joint[0, x, y], joint[1, x, y], sums[x, y]
            for p in range(count):
                value = out[p] + above[p] * beside[p]
                out[p] = value
                total[p] += value
                # log(1 + s) <= s (6 + s) / (6 + 4 s), a ratio's being 8 times that of its 8th root
                s = sqrt(sqrt(sqrt(value / entry[p]))) - 1.0
                loss[p] += value * (8.0 * s * (6.0 + s) / (6.0 + 4.0 * s)) - (value - entry[p])
    total_loss = 0.0
    for p in range(count):
        total_loss += loss[p]
    return total_loss


@kernel
def write(count, tables, places, out):
    """Put tables where they belong in the order of the user."""
    for x in range(tables.shape[0]):
        for y in range(tables.shape[0]):
            for p in range(count):
                out[places[p], x, y] = tables[x, y, p]
