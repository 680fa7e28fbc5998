"""`Pairwise` over the labellings that tests enumerate."""

import numpy as np

from mlestruct.structures import Pairwise, PairwiseGraph


def pairwise(space, rho=None):
    """The structure of a `labellings.Labellings`, with its rho by default."""
    graph = PairwiseGraph(space.n_nodes, space.edges)
    return Pairwise(graph, space.n_states, space.rho if rho is None else rho)


def slack_of(scores):
    """What rounding may do to sums of these scores."""
    return 1e-12 * (1.0 + np.abs(scores).sum())
