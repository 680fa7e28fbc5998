"""Structures of labellings in minimal and in overcomplete coordinates, to test both alike."""

import numpy as np
from random_scores import draw_scores

from mlestruct.structures import BinaryPairwise, Pairwise, PairwiseGraph


class Minimal:
    """`BinaryPairwise` seen in overcomplete coordinates, to test it like `Pairwise`."""

    def __init__(self, space, rho=None):
        self.space = space
        graph = PairwiseGraph(space.n_nodes, space.edges)
        self.structure = BinaryPairwise(graph, space.rho if rho is None else rho)

    def draw_scores(self, rng, kind="normal", scale=1.0):
        """Scores for the structure, and the same for the enumeration."""
        scores = draw_scores(rng, self.structure.n_coordinates, kind, scale)
        return scores, self.space.lift_scores(scores)

    def lift(self, tau):
        return self.space.lift(tau)

    def drop(self, tau):
        return self.space.drop(tau)


class Overcomplete:
    """`Pairwise`, with the same methods."""

    def __init__(self, space, rho=None):
        self.space = space
        graph = PairwiseGraph(space.n_nodes, space.edges)
        self.structure = Pairwise(graph, space.n_states, space.rho if rho is None else rho)

    def draw_scores(self, rng, kind="normal", scale=1.0):
        scores = draw_scores(rng, self.structure.n_coordinates, kind, scale)
        return scores, scores

    def lift(self, tau):
        return tau

    def drop(self, tau):
        return tau


def views(space, rho=None):
    """Both structures over the same labellings, where there are both."""
    both = [Minimal, Overcomplete] if space.n_states == 2 else [Overcomplete]
    return [view(space, rho) for view in both]


def slack_of(scores):
    """What rounding may do to sums of these scores."""
    return 1e-12 * (1.0 + np.abs(scores).sum())
