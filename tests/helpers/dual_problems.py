"""Small random dual problems over matchings, graphs and images, and their solutions."""

import numpy as np
from bipartite_matchings import Space, complete
from labellings import Labellings, averaged_trees, random_edges, random_forest

from mlestruct.features import Rows
from mlestruct.features.labellings import StateFeatures
from mlestruct.learning import LBFGS, Block, Problem
from mlestruct.learning.solver import with_budget
from mlestruct.structures import Pairwise, PairwiseGraph, Structure, grid


def matching_problem(seed=0, n_blocks=4, alpha=0.5, rho=0.8, offset=False):
    """Small blocks of different shapes with random features, labels, weights."""
    rng = np.random.default_rng(seed)
    kinds = [
        complete(3, rho=rho),
        complete(2, 3, rho=rho),
        complete(2, 2, perfect=False, rho=rho),
        Space(np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]], bool), True, rho, rho),
    ]
    spaces = [kinds[m % len(kinds)] for m in range(n_blocks)]
    blocks = []
    for space in spaces:
        structure = space.structure
        blocks.append(
            Block(
                structure,
                Rows(rng.normal(size=(structure.n_scored, 3))),
                structure.encode(space.labels[rng.integers(len(space.labels))]),
                rng.uniform(0.5, 2.0),
                0.5 * rng.normal(size=structure.n_coordinates) if offset else None,
            )
        )
    return spaces, Problem(blocks, alpha)


def labelling_problem(n_states=2, seed=0, alpha=0.5, n_blocks=3, rho=None, forest=False):
    """Small graphs with random features and labels; returns (spaces, problem)."""
    rng = np.random.default_rng(seed)
    spaces, blocks = [], []
    for m in range(n_blocks):
        n_nodes = 3 + m % 3
        edges = random_forest(rng, n_nodes) if forest else random_edges(rng, n_nodes, 0.8)
        weights = averaged_trees(rng, n_nodes, edges) if rho is None else rho
        graph = PairwiseGraph(n_nodes, edges)
        rows = (Rows(rng.normal(size=(n_nodes, 2))), Rows.ones(len(edges)))
        structure = Pairwise(graph, n_states, weights)
        features = StateFeatures(graph, *rows, n_states)
        label = rng.integers(n_states, size=n_nodes)
        weight = rng.uniform(0.5, 2.0)
        blocks.append(Block(structure, features, structure.encode(label), weight))
        spaces.append(Labellings(n_nodes, edges, n_states, structure.reweighting.rho))
    return spaces, Problem(blocks, alpha)


def image_problem(n_images=6, alpha=2.0, shape=(4, 5), seed=0):
    rng = np.random.default_rng(seed)
    graph = grid(*shape)
    structure = Pairwise(graph, 2)
    blocks = []
    for _ in range(n_images):
        label = rng.integers(2, size=graph.n_nodes)
        nodes = np.c_[np.ones(graph.n_nodes), label + rng.normal(size=graph.n_nodes)]
        features = StateFeatures(graph, Rows(nodes), Rows.ones(graph.n_edges), 2)
        blocks.append(Block(structure, features, structure.encode(label)))
    return Problem(blocks, alpha)


class DecoderOnly(Structure):
    """A space with nothing but a decoder and an entropy."""

    def __init__(self, whole):
        self.n_coordinates, self.decode = whole.n_coordinates, whole.decode
        self.entropy, self.entropy_gradient = whole.entropy, whole.entropy_gradient
        self.interior = whole.interior


def dual_by_hand(spaces, problem, tau):
    """L(tau), straight from the formula."""
    r = np.zeros(problem.n_features)
    rest = 0.0
    for space, block, t in zip(spaces, problem.blocks, tau, strict=True):
        y = block.observed.dense(space.size)
        r += block.weight * block.features.matrix.T @ (y - t)[: block.features.n_scored]
        offset = np.zeros(space.size) if block.offset is None else block.offset
        rest += block.weight * (offset @ (y - t) - space.entropy(t))
    return r @ r / (2 * problem.alpha) + rest


def likelihood(problem, theta, tol=1e-12):
    """(P(theta), a proven lower bound of it, its gradient) from the marginal oracle."""
    found = [b.structure.marginals(b.scores(theta), tol=tol) for b in problem.blocks]
    moments = [b.moments(f.tau) for b, f in zip(problem.blocks, found, strict=True)]
    gradient = problem.target - problem.weights @ np.array(moments) - problem.alpha * theta
    values = problem.weights @ [f.value for f in found]
    bounds = problem.weights @ [f.upper_bound for f in found]
    return problem.primal(theta, values), problem.primal(theta, bounds), gradient


def solve(problem, solver=None, tol=1e-10, start=None, **budget):
    """The result of a solver, by default of L-BFGS, with a budget."""
    budget = {"max_iter": 1000, "random_state": np.random.default_rng(0), **budget}
    return with_budget(solver or LBFGS(), **budget).solve(problem, tol, start)
