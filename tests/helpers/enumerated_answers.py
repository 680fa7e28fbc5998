"""Binary pairwise models by enumeration of all 2^n answers."""

from itertools import product

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp


def all_answers(n):
    return np.array(list(product([0, 1], repeat=n)), dtype=np.int64).reshape(-1, n)


def pair_table(answers, pairs):
    pairs = np.asarray(pairs, dtype=int).reshape(-1, 2)
    return answers[:, pairs[:, 0]] * answers[:, pairs[:, 1]]


class Enumerated:
    """P(x) ~ exp(fields . x + couplings . pairs of x), given what is known (-1: unknown)."""

    def __init__(self, pairs, fields, couplings, known=None):
        self.answers = all_answers(len(fields))
        self.both = pair_table(self.answers, pairs)
        self.scores = self.answers @ fields + self.both @ np.asarray(couplings, dtype=float)
        if known is not None:
            agrees = ((np.asarray(known) < 0) | (self.answers == known)).all(axis=1)
            self.scores = np.where(agrees, self.scores, -np.inf)
        self.log_partition = logsumexp(self.scores)
        self.probabilities = np.exp(self.scores - self.log_partition)
        self.nodes = self.probabilities @ self.answers
        self.edges = self.probabilities @ self.both

    def log_likelihood(self, answer):
        return float(self.scores[(self.answers == answer).all(axis=1)][0] - self.log_partition)


def maximum_likelihood(states, pairs, alpha, weights=None):
    """Fields, couplings and objective of the exact penalised likelihood of rows of answers."""
    n = states.shape[1]
    weights = np.ones(len(states)) if weights is None else weights
    answers = all_answers(n)
    design = np.concatenate([answers, pair_table(answers, pairs)], axis=1)
    target = weights @ np.concatenate([states, pair_table(states, pairs)], axis=1)

    def loss(theta):
        scores = design @ theta
        log_z = logsumexp(scores)
        expected = np.exp(scores - log_z) @ design
        value = theta @ target - weights.sum() * log_z - alpha / 2 * theta @ theta
        return -value, -(target - weights.sum() * expected - alpha * theta)

    found = minimize(loss, np.zeros(design.shape[1]), jac=True, method="BFGS",
                     options={"gtol": 1e-9, "maxiter": 5000})  # fmt: skip
    return found.x[:n], found.x[n:], -found.fun
