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


def maximum_likelihood(states, pairs, alpha, weights=None, l1_ratio=0.0):
    """Fields, couplings and objective of the exact penalised likelihood of rows of answers.

    Fields count a tenth in the penalty. The l1 part takes positive and negative parts of theta.
    """
    n = states.shape[1]
    weights = np.ones(len(states)) if weights is None else weights
    answers = all_answers(n)
    design = np.concatenate([answers, pair_table(answers, pairs)], axis=1)
    target = weights @ np.concatenate([states, pair_table(states, pairs)], axis=1)

    size = design.shape[1]
    scale = np.where(np.arange(size) < n, 0.1, 1.0)
    l1, l2 = alpha * l1_ratio * scale, alpha * (1 - l1_ratio) * scale**2

    def loss(parts):
        theta = parts[:size] - parts[size:]
        scores = design @ theta
        log_z = logsumexp(scores)
        expected = np.exp(scores - log_z) @ design
        value = theta @ target - weights.sum() * log_z - l2 / 2 @ theta**2
        slope = -(target - weights.sum() * expected - l2 * theta)
        return l1 @ (parts[:size] + parts[size:]) - value, np.concatenate([slope + l1, l1 - slope])

    found = minimize(loss, np.zeros(2 * size), jac=True, method="L-BFGS-B",
                     bounds=[(0, None)] * (2 * size),
                     options={"ftol": 1e-15, "gtol": 1e-8, "maxiter": 20000})  # fmt: skip
    theta = found.x[:size] - found.x[size:]
    return theta[:n], theta[n:], -found.fun
