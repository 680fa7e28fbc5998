"""Labellings of small graphs by enumeration, in plain NumPy: what the tests compare with.

Coordinates are overcomplete: the states of every node, then the pairs of states of every edge, tail
first. Nothing here calls the library.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product

import numpy as np
from hypothesis import strategies as st
from random_scores import generators
from scipy.linalg import null_space
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
from scipy.special import logsumexp, xlogy
from scipy.stats import chisquare


@dataclass(frozen=True, eq=False)
class Labellings:
    """All labellings of a graph; rho per edge."""

    n_nodes: int
    edges: np.ndarray
    n_states: int = 2
    rho: np.ndarray | float = 1.0

    @property
    def tail(self):
        return self.edges[:, 0]

    @property
    def head(self):
        return self.edges[:, 1]

    @property
    def split(self):
        """Where the coordinates of edges begin."""
        return self.n_nodes * self.n_states

    @property
    def size(self):
        return self.split + len(self.edges) * self.n_states**2

    @cached_property
    def labels(self):
        """Shape (n_states ** n_nodes, n_nodes)."""
        return np.array(list(product(range(self.n_states), repeat=self.n_nodes)))

    def point(self, labels):
        """0/1 coordinates of labellings, shape (n_labellings, size)."""
        eye = np.eye(self.n_states)
        nodes = eye[labels]
        pairs = nodes[:, self.tail, :, None] * nodes[:, self.head, None, :]
        return np.hstack([nodes.reshape(len(labels), -1), pairs.reshape(len(labels), -1)])

    @cached_property
    def vertices(self):
        return self.point(self.labels)

    def tables(self, tau):
        """Node marginals (n_nodes, n_states) and edge tables (n_edges, n_states, n_states)."""
        states = self.n_states
        return (
            tau[: self.split].reshape(self.n_nodes, states),
            tau[self.split :].reshape(len(self.edges), states, states),
        )

    # ------------------------------------------------------------------ two states
    def ising_scores(self, minimal):
        """Scores of fields of state 1, then of couplings of two states 1."""
        scores = np.zeros(self.size)
        scores[1 : self.split : 2] = minimal[: self.n_nodes]
        scores[self.split + 3 :: 4] = minimal[self.n_nodes :]
        return scores

    # ------------------------------------------------------------------ entropy, exact answers
    def entropy(self, tau):
        """sum_n (1 - R_n) H(mu_n) + sum_e rho_e H(mu_e), term by term."""
        nodes, tables = self.tables(np.maximum(tau, 0.0))
        rho = np.broadcast_to(self.rho, len(self.edges))
        total = 0.0
        for n in range(self.n_nodes):
            weight = 1.0 - rho[(self.edges == n).any(axis=1)].sum()
            total -= weight * xlogy(nodes[n], nodes[n]).sum()
        for weight, table in zip(rho, tables, strict=True):
            total -= weight * xlogy(table, table).sum()
        return float(total)

    def objective(self, scores, tau):
        return float(scores @ tau) + self.entropy(tau)

    def log_partition(self, scores):
        return float(logsumexp(self.vertices @ scores))

    def exact_marginals(self, scores):
        total = self.vertices @ scores
        return np.exp(total - logsumexp(total)) @ self.vertices

    # ------------------------------------------------------------------ the local polytope
    @cached_property
    def constraints(self):
        """(A, b) of the equations A tau = b of the local polytope."""
        rows, right = [], []
        for n in range(self.n_nodes):
            row = np.zeros(self.size)
            self.tables(row)[0][n] = 1.0
            rows.append(row)
            right.append(1.0)
        for e, ends in enumerate(self.edges):
            for side, node in enumerate(ends):
                for state in range(self.n_states):
                    row = np.zeros(self.size)
                    nodes, tables = self.tables(row)
                    nodes[node, state] = -1.0
                    tables[e][state if side == 0 else (slice(None), state)] = 1.0
                    rows.append(row)
                    right.append(0.0)
        return np.array(rows), np.array(right)

    def infeasibility(self, tau):
        """How far tau is from satisfying all constraints of the local polytope."""
        matrix, right = self.constraints
        return max(float(np.abs(matrix @ tau - right).max()), -float(tau.min()), 0.0)

    @cached_property
    def directions(self):
        """An orthonormal basis of the directions within the polytope, shape (size, dimension)."""
        return null_space(self.constraints[0])

    def uniform(self):
        tau = np.full(self.size, 1.0 / self.n_states**2)
        tau[: self.split] = 1.0 / self.n_states
        return tau

    def random_point(self, rng, inside=0.2):
        """Strictly inside: a mixture of labellings and of the uniform point."""
        shares = rng.dirichlet(np.full(len(self.vertices), 0.1))
        return (1 - inside) * (shares @ self.vertices) + inside * self.uniform()

    def best(self, scores, barrier=1e-9):
        """max of <scores, tau> + H over the local polytope, from below by barrier * size at most.

        Newton's method with a logarithmic barrier that is lowered step by step, within the
        equations.
        """
        basis, tau = self.directions, self.uniform()
        rho = np.broadcast_to(self.rho, len(self.edges))
        at_node = np.bincount(self.edges.ravel(), np.repeat(rho, 2), minlength=self.n_nodes)
        weight = np.concatenate(
            [np.repeat(1 - at_node, self.n_states), np.repeat(rho, self.n_states**2)]
        )

        def value(tau, mu):
            if tau.min() <= 0:
                return -np.inf
            return self.objective(scores, tau) + mu * np.log(tau).sum()

        mu = 1.0
        while mu > barrier:
            mu *= 0.2
            for _ in range(60):
                slope = basis.T @ (scores - weight * (1 + np.log(tau)) + mu / tau)
                bend = (basis.T * (weight / tau + mu / tau**2)) @ basis
                step = np.linalg.lstsq(bend, slope, rcond=1e-14)[0]
                decrement = slope @ step
                if decrement < 0.1 * mu:
                    break
                move, eta, before = basis @ step, 1.0, value(tau, mu)
                while value(tau + eta * move, mu) < before + 0.1 * eta * decrement and eta > 1e-12:
                    eta *= 0.5
                tau = tau + eta * move
        return self.objective(scores, tau)


# ---------------------------------------------------------------------- graphs
def grid_edges(height, width, neighbours=4):
    """Edges of the grid of an image, direction by direction: right, down, down-right, down-left."""
    steps = [(0, 1), (1, 0), (1, 1), (1, -1)][: neighbours // 2]
    found = [
        (r * width + c, (r + down) * width + c + right)
        for down, right in steps
        for r in range(height - down)
        for c in range(max(0, -right), width - max(0, right))
    ]
    return np.array(found, dtype=int).reshape(-1, 2)


def random_edges(rng, n_nodes, density=0.5):
    """Any graph, connected or not; edges in any order, either end first."""
    pairs = np.array(list(combinations(range(n_nodes), 2)), dtype=int).reshape(-1, 2)
    return _shuffled(rng, pairs[rng.random(len(pairs)) < density])


def random_forest(rng, n_nodes, kept=0.8):
    """A random forest of several trees and single nodes."""
    order = rng.permutation(n_nodes)
    pairs = [(order[rng.integers(k)], order[k]) for k in range(1, n_nodes) if rng.random() < kept]
    return _shuffled(rng, np.array(pairs, dtype=int).reshape(-1, 2))


def _shuffled(rng, pairs):
    pairs = pairs[rng.permutation(len(pairs))].copy()
    turned = rng.random(len(pairs)) < 0.5
    pairs[turned] = pairs[turned, ::-1]
    return pairs


def averaged_trees(rng, n_nodes, edges, n_trees=6):
    """Weights of edges in a random mixture of spanning forests that cover every edge.

    Few trees: a point on the boundary of the spanning-tree polytope.
    """
    rho, total = np.zeros(len(edges)), 0.0
    left = n_trees
    while left > 0 or not rho.all():
        # Edges not yet in a tree come first.
        cost = rng.uniform(1.0, 2.0, len(edges)) + (rho > 0)
        tree = minimum_spanning_tree(
            coo_array((cost, tuple(edges.T.astype(np.int32))), shape=(n_nodes, n_nodes)).tocsr()
        )
        share = rng.uniform(0.1, 1.0)
        chosen = {tuple(pair) for pair in np.argwhere(tree.toarray() > 0)}
        rho += share * np.array([tuple(edge) in chosen for edge in edges], dtype=float)
        total += share
        left -= 1
        if len(edges) == 0:
            break
    return np.clip(rho / max(total, 1e-300), 0.0, 1.0)


def n_components(n_nodes, edges):
    links = coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(n_nodes, n_nodes))
    return connected_components(links, directed=False, return_labels=False)


@st.composite
def loopy(draw, max_nodes=6, n_states=(2,)):
    """A graph of any kind with weights from averaged trees, and a random generator."""
    rng = draw(generators)
    n_nodes = draw(st.integers(1, max_nodes))
    edges = random_edges(rng, n_nodes, draw(st.sampled_from([0.3, 0.6, 1.0])))
    rho = averaged_trees(rng, n_nodes, edges, draw(st.sampled_from([1, 6])))
    return Labellings(n_nodes, edges, draw(st.sampled_from(n_states)), rho), rng


@st.composite
def forests(draw, max_nodes=7, n_states=(2, 3, 4)):
    """A forest, and a random generator."""
    rng = draw(generators)
    states = draw(st.sampled_from(n_states))
    n_nodes = draw(st.integers(1, max_nodes if states < 4 else 5))
    edges = random_forest(rng, n_nodes, draw(st.sampled_from([0.5, 1.0])))
    return Labellings(n_nodes, edges, states), rng


def total_scores(labels, tail, head, nodes, edges):
    """The scores of labellings, shape (n_labellings,)."""
    labels = np.atleast_2d(labels)
    of_nodes = nodes[np.arange(labels.shape[1]), labels].sum(axis=1)
    return of_nodes + edges[np.arange(len(tail)), labels[:, tail], labels[:, head]].sum(axis=1)


def total_score(tail, head, n_states, scores, labels):
    """The score of one labelling."""
    split = labels.size * n_states
    edges = scores[split:].reshape(-1, n_states, n_states)
    return total_scores(labels, tail, head, scores[:split].reshape(-1, n_states), edges)[0]


def p_value(draws, space, nodes, edges):
    """Of a chi-square test of labellings against exp(score) / Z; rare ones count as one."""
    totals = total_scores(space.labels, space.tail, space.head, nodes, edges)
    expected = len(draws) * np.exp(totals - logsumexp(totals))
    places = draws @ (space.n_states ** np.arange(space.n_nodes)[::-1])
    counts = np.bincount(places, minlength=totals.size)
    assert (counts[expected == 0.0] == 0).all()
    rare = expected < 5.0
    observed = np.append(counts[~rare], counts[rare].sum())
    wanted = np.append(expected[~rare], expected[rare].sum())
    keep = wanted > 0.0
    if keep.sum() == 1:
        return 1.0
    assert wanted[-1] > 1.0 or not keep[-1]
    return chisquare(observed[keep], wanted[keep] * (observed.sum() / wanted.sum())).pvalue
