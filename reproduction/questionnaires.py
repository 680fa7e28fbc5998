"""Features of pairs of people by their answers to the same questions, without an array of pairs.

Every feature is a symmetric table of two answers. Scores of all pairs are X B X' with X the
indicators of what everybody answered and B the weighted sum of the tables; moments are sums of the
tables over X' tau X. All pairs (i, j), i < j, are in the order (0, 1), (0, 2), ..., (1, 2), ...
"""

import numpy as np

from mlestruct.datasets.campus import answer_indicators, answer_tables
from mlestruct.features import FeatureMap


class AnswerPairs(FeatureMap):
    """Differences of answers, then indicators of two answers, as `answer_tables` lists them."""

    def __init__(self, questions, answers):
        self.questions = questions
        self.feature_names, self.tables = answer_tables(questions)
        self.people = answer_indicators(questions, answers)
        self.n_features, self.n_people = len(self.feature_names), len(self.people)
        self.n_scored = self.n_people * (self.n_people - 1) // 2
        self._upper = np.triu(np.ones((self.n_people, self.n_people), dtype=bool), 1)

    def scores(self, theta):
        """G theta."""
        return (self.people @ np.tensordot(theta, self.tables, 1) @ self.people.T)[self._upper]

    def moments(self, tau):
        """G' tau."""
        full = np.zeros(self._upper.shape)
        full[self._upper] = tau
        return np.tensordot(self.tables, self.people.T @ full @ self.people, 2)

    def moments_at(self, indices, values):
        """G' of a sparse vector."""
        n = self.n_people
        first = np.concatenate([[0], np.cumsum(np.arange(n - 1, 0, -1))])
        row = np.searchsorted(first, indices, side="right") - 1
        col = indices - first[row] + row + 1
        counts = (self.people[row] * values[:, None]).T @ self.people[col]
        return np.tensordot(self.tables, counts, 2)

    def second_moments(self):
        """The covariance of perfect matchings at theta = 0, exactly: gram and scale.

        The part u_i + u_j of a feature is the same in every perfect matching, so it is projected
        out: u solves ((n - 2) I + 1 1') u = r with r the features summed over each person's pairs.
        Sums over pairs factorise: with a feature's table F and N = X'X, sum_{i,j} (x_i' F x_j)^2 =
        <F, N F N>. Then P(ij) = 1 / (n - 1) and P(ij, kl) = 1 / ((n - 1) (n - 3)).
        """
        n, tables = self.n_people, self.tables
        counts, size = self.people.T @ self.people, self.people.sum(axis=0)
        itself = np.diagonal(tables, axis1=1, axis2=2)  # of a pair of i with i
        owed = tables @ size - itself  # r = X owed'
        total = owed @ size
        gram = np.tensordot(tables, counts @ tables @ counts, ([1, 2], [1, 2]))
        gram -= itself @ counts @ itself.T
        explained = owed @ counts @ owed.T - np.outer(total, total) / (2 * n - 2)
        gram = gram / 2.0 - explained / (n - 2)
        return [((gram + gram.T) / 2.0, np.array([(n - 2.0) / ((n - 1.0) * (n - 3.0))]))]

    def shortest_equivalent(self, theta):
        """The shortest weights that give perfect matchings the same probabilities as `theta`.

        Weights are not unique: the difference of binary answers is the indicator 0-1, and scores
        u_i + u_j are the same in every perfect matching. A ridge penalty selects the shortest of
        all equivalent weights, so learned weights are to be compared with this form of the true
        ones. Exact if everyone has answered every question.
        """
        out, start = np.zeros(self.n_features), 0
        for question in self.questions:
            levels, own = question.levels, slice(start, start + question.levels)
            start = own.stop
            tables = self.tables[:, own, own]
            places = np.flatnonzero(tables.any(axis=(1, 2)))
            centre = np.eye(levels) - 1.0 / levels  # takes u_a + u_b out of a table
            effect = (centre @ tables[places] @ centre).reshape(len(places), -1).T
            out[places] = np.linalg.pinv(effect, rcond=1e-10) @ (effect @ theta[places])
        return out


def true_theta(campus):
    """The true weights in the order of the features."""
    names, _ = answer_tables(campus.questions)
    return np.array([campus.true_weights.get(name, 0.0) for name in names])
