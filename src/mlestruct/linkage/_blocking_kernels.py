"""Kernels of blocking: sorted tokens, keys in buckets, the best candidates by common tokens.

A key is a token that few records have, a pair of frequent tokens of different words, or, if too
many records share the pair, a triple. Keys are hashed to buckets; two keys in one bucket only add
candidates, which are ranked by their common tokens anyway.
"""

import numpy as np

from .._compile import kernel

ODD = np.uint64(0x9E3779B97F4A7C15)  # of the splitmix64 generator, as are the other constants
MOST_KEYS = 4096  # of a record; further ones are left out


@kernel
def fill(codes, ends, tokens, words, at, out_tokens, out_words):
    """Append the tokens of each record's value in one column, from those of distinct values."""
    for i in range(codes.shape[0]):
        for k in range(ends[codes[i]], ends[codes[i] + 1]):
            out_tokens[at[i]], out_words[at[i]] = tokens[k], words[k]
            at[i] += 1


@kernel
def rarest(starts, tokens, words, frequency, useful, most):
    """The `most` rarest useful tokens of each record, each once, sorted; and their number."""
    n = starts.shape[0] - 1
    kept, origin = np.full((n, most), -1, np.int32), np.zeros((n, most), np.int16)
    counts = np.zeros(n, np.int64)
    for i in range(n):
        own = tokens[starts[i] : starts[i + 1]]
        order = np.argsort(own)
        places = np.empty(own.shape[0], np.int64)
        size = 0
        for q in order:
            if useful[own[q]] and (size == 0 or own[places[size - 1]] != own[q]):
                places[size] = q
                size += 1
        chosen = places[:size]
        if size > most:
            chosen = np.sort(chosen[np.argsort(frequency[own[chosen]])[:most]])
            chosen = chosen[np.argsort(own[chosen])]
        for k in range(chosen.shape[0]):
            kept[i, k], origin[i, k] = own[chosen[k]], words[starts[i] + chosen[k]]
        counts[i] = chosen.shape[0]
    return kept, origin, counts


@kernel
def mixed(x):
    """The finaliser of splitmix64."""
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def apart(one, other):
    """Whether two words, 16 * column + number, say different things; 15 is the whole value."""
    if one >> 4 != other >> 4:
        return True
    return one != other and one & 15 != 15 and other & 15 != 15


@kernel
def keys_of(tokens, words, size, frequent, crowded, out):
    """Buckets of the keys of one record; their number. `crowded` pairs get a third token."""
    mask = np.uint64(crowded.shape[0] - 1)
    count = 0
    for a in range(size):
        first = np.uint64(tokens[a] + 1)
        if not frequent[tokens[a]]:
            out[count] = mixed(first * ODD) & mask
            count += 1
            continue
        for b in range(a + 1, size):
            if not (frequent[tokens[b]] and apart(words[a], words[b])):
                continue
            pair = mixed(first * ODD + np.uint64(tokens[b] + 1))
            if not crowded[pair & mask]:
                if count < MOST_KEYS:
                    out[count] = pair & mask
                    count += 1
                continue
            for c in range(b + 1, size):
                third = apart(words[a], words[c]) and apart(words[b], words[c])
                if frequent[tokens[c]] and third and count < MOST_KEYS:
                    out[count] = mixed(pair * ODD + np.uint64(tokens[c] + 1)) & mask
                    count += 1
    return count


@kernel
def count_keys(tokens, words, sizes, frequent, crowded, counts):
    """Add up the records in each bucket, up to 255."""
    keys = np.empty(MOST_KEYS, np.uint64)
    for i in range(sizes.shape[0]):
        for k in range(keys_of(tokens[i], words[i], sizes[i], frequent, crowded, keys)):
            if counts[keys[k]] < 255:
                counts[keys[k]] += 1


@kernel
def post(tokens, words, sizes, frequent, crowded, posted, at, records):
    """Write the records of each posted bucket from `at` on, which then are the buckets' ends."""
    keys = np.empty(MOST_KEYS, np.uint64)
    for i in range(sizes.shape[0]):
        for k in range(keys_of(tokens[i], words[i], sizes[i], frequent, crowded, keys)):
            if posted[keys[k]]:
                records[at[keys[k]]] = i
                at[keys[k]] += 1


@kernel
def common_weight(one, origin, n_one, other, n_other, weights, best):
    """The sum over columns of the largest weight of a common token. Tokens are sorted."""
    total, p, q = 0.0, 0, 0
    while p < n_one and q < n_other:
        if one[p] < other[q]:
            p += 1
        elif one[p] > other[q]:
            q += 1
        else:
            column = origin[p] >> 4
            gain = weights[one[p]] - best[column]
            if gain > 0.0:
                total += gain
                best[column] += gain
            p += 1
            q += 1
    for p in range(n_one):
        best[origin[p] >> 4] = 0.0
    return total


@kernel
def insert(record, score, found, scores, kept):
    """Put a record among the best so far, in the order of their scores; their number."""
    size = scores.shape[0]
    if kept == size and score <= scores[kept - 1]:
        return kept
    kept = min(kept + 1, size)
    place = kept - 1
    while place > 0 and scores[place - 1] < score:
        scores[place], found[place] = scores[place - 1], found[place - 1]
        place -= 1
    scores[place], found[place] = score, record
    return kept


@kernel
def nearest(asked, tokens, words, sizes, others, other_sizes, weights, count):
    """The `count` best of all records of the other side for each of the `asked` ones, or -1."""
    found = np.full((asked.shape[0], count), -1, np.int64)
    best, scores = np.zeros(2**12), np.empty(count)
    for k in range(asked.shape[0]):
        i, kept = asked[k], 0
        for j in range(other_sizes.shape[0]):
            score = common_weight(
                tokens[i], words[i], sizes[i], others[j], other_sizes[j], weights, best
            )
            if score > 0.0:
                kept = insert(j, score, found[k], scores, kept)
    return found


@kernel
def search(
    first, last, tokens, words, sizes, others, other_sizes, frequent, crowded, posted, ends,
    records, weights, most, count,
):  # fmt: skip
    """The `count` best records of the other side for each record from `first` to `last`, or -1.

    Buckets are visited from the smallest on, until `most` different records were ranked.
    """
    found = np.full((last - first, count), -1, np.int64)
    seen = np.full(other_sizes.shape[0], -1, np.int32)
    best = np.zeros(2**12)  # by column
    keys, following = np.empty(MOST_KEYS, np.uint64), np.empty(MOST_KEYS, np.int64)
    head = np.empty(256, np.int64)
    scores = np.empty(count)
    for i in range(first, last):
        head[:] = -1
        for k in range(keys_of(tokens[i], words[i], sizes[i], frequent, crowded, keys)):
            size = posted[keys[k]]
            following[k], head[size] = head[size], k
        ranked = kept = 0
        for size in range(1, 256):
            k = head[size]
            while k >= 0 and ranked < most:
                end = ends[keys[k]]
                for j in records[end - size : end]:
                    if seen[j] == i:
                        continue
                    seen[j] = i
                    ranked += 1
                    score = common_weight(
                        tokens[i], words[i], sizes[i], others[j], other_sizes[j], weights, best
                    )
                    kept = insert(j, score, found[i - first], scores, kept)
                k = following[k]
            if ranked >= most:
                break
    return found
