"""Decoders as users write them, and what enumeration knows of their outputs."""

from itertools import combinations, permutations

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp

from mlestruct.structures import DecoderSpace


def top_three(scores):
    return np.argsort(np.argsort(-scores, kind="stable"), kind="stable") < 3


def three_of_eight(x):
    return DecoderSpace(top_three, 8)


def best_of(scores, k=1):
    return np.argsort(np.argsort(-scores, kind="stable"), kind="stable") < k


def as_many_as_given(scores, x):
    """The sample says how many are chosen: a pair (features, k)."""
    return best_of(scores, x[1])


def assignment(scores):
    n = int(np.sqrt(scores.size))
    rows, cols = linear_sum_assignment(scores.reshape(n, n), maximize=True)
    out = np.zeros((n, n), dtype=int)
    out[rows, cols] = 1
    return out.ravel()


def subsets(n, k):
    """All outputs, shape (n_outputs, n)."""
    out = np.zeros((0, n))
    rows = [np.isin(np.arange(n), chosen) for chosen in combinations(range(n), k)]
    return np.vstack([out, *rows]).astype(float)


def assignments(n):
    return np.array([np.eye(n)[list(p)].ravel() for p in permutations(range(n))])


def log_z(outputs, scores):
    return float(logsumexp(outputs @ scores))


def draw(outputs, scores, rng):
    """One output from p(y) proportional to exp(<scores, y>)."""
    weights = np.exp(outputs @ scores - log_z(outputs, scores))
    return outputs[rng.choice(len(outputs), p=weights / weights.sum())].astype(int)


def subset_samples(rng, n_samples=25, n=8, k=3, theta=(1.0, -1.0)):
    outputs = subsets(n, k)
    X = [rng.normal(size=(n, len(theta))) for _ in range(n_samples)]
    return X, [draw(outputs, x @ np.array(theta), rng) for x in X]
