"""A junction tree of one sample, as most tests ask for."""

from functools import cached_property

import numpy as np

from mlestruct.algorithms.pairwise.junction_tree import JunctionTree


class OneSample:
    """Marginals, the best labelling and draws of one model."""

    def __init__(self, n_nodes, tail, head, node_scores, edge_scores, order=None):
        nodes = np.asarray(node_scores, dtype=float)
        n_states = nodes.shape[1]
        self.scores = nodes[None], np.reshape(edge_scores, (1, -1, n_states, n_states))
        self.tree = JunctionTree(n_nodes, tail, head, n_states, order)
        self.order, self.treewidth = self.tree.order, self.tree.treewidth
        if np.isneginf(nodes).any() or np.isneginf(self.scores[1]).any():
            _ = self.log_partition  # raises if nothing is admissible

    @cached_property
    def marginals(self):
        return self.tree.marginals(*self.scores)

    @property
    def log_partition(self):
        return self.marginals.log_partition[0]

    @property
    def node_marginals(self):
        return self.marginals.nodes[0]

    @property
    def edge_marginals(self):
        return self.marginals.edges[0]

    def best(self):
        labels, scores = self.tree.best(*self.scores)
        return labels[0], scores[0]

    def sample(self, n_samples, rng):
        return self.tree.sample(*self.scores, n_samples, rng)[0]
