"""Output spaces of all kinds, small enough to enumerate, and checked answers about them.

A `Case` has a structure, a list of its outputs, and its entropy and constraints in plain NumPy.
"""

import time
import warnings
from dataclasses import dataclass
from typing import Any

import bipartite_matchings
import graph_matchings
import labellings
import numpy as np
import random_scores
from hypothesis import strategies as st
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning

from mlestruct.inference import marginals
from mlestruct.structures import (
    Grid,
    MissingCapability,
    Pairwise,
    PairwiseGraph,
    Sequences,
)

METHODS = ("auto", "fw", "exact", "perturb")
SHORT = {"fw": {"max_iter": 40}, "perturb": {"n_samples": 6, "random_state": 0}}
PATIENCE = 120.0  # CPU seconds, compilation included, after which a call counts as hanging


# ---------------------------------------------------------------------- output spaces
@dataclass(frozen=True, eq=False)
class Case:
    """An output space and what enumeration knows of it.

    vertices : all outputs, shape (n_outputs, n_coordinates)
    infeasibility : how far a tau is from the polytope
    value : (scores, tau) to <scores, tau> + H_rho(tau), term by term
    reference : scores to (lower, upper bound of log Z_rho, tau) by a slow general method, or None
    most : the largest value a coordinate can have
    """

    structure: Any
    vertices: np.ndarray
    infeasibility: Any
    value: Any
    reference: Any = None
    most: float = 1.0

    @property
    def size(self):
        return self.structure.n_coordinates

    def scores(self, rng, kind="normal", scale=1.0):
        return random_scores.draw_scores(rng, self.size, kind, scale)

    def log_z(self, scores):
        return float(logsumexp(self.vertices @ scores))

    def tau(self, scores):
        total = self.vertices @ scores
        return np.exp(total - logsumexp(total)) @ self.vertices

    def slack(self, scores):
        """What rounding may do to a log-partition function, and sums of tau to a value."""
        return 1e-8 + 1e-10 * np.abs(scores).max(initial=0.0) * self.most * self.size


def bipartite(space):
    """A bipartite space; as a graph of one group it has the same polytope, with a reference."""
    n, m = space.mask.shape
    sides = np.zeros((n + m, n + m), bool)
    sides[:n, n:] = space.mask
    free = np.repeat([space.free_rows, space.free_cols], [n, m])
    rho = np.concatenate([np.broadcast_to(space.rho_rows, n), np.broadcast_to(space.rho_cols, m)])
    group = graph_matchings.Space(sides | sides.T, ~free, rho)
    edges = group.n_edges
    own = np.concatenate([np.arange(edges), edges + np.flatnonzero(free)])

    def reference(scores):
        wider = np.zeros(group.size)
        wider[own] = scores
        low, high, tau = group.local_optimum(wider)
        return low, high, tau[own]

    return Case(
        space.structure, space.vertices, space.infeasibility, space.objective, reference
    )  # fmt: skip


def general(space, polytope="local"):
    """A `graph_matchings.Space`, over its local polytope or over mixtures of matchings."""
    exact = polytope == "exact"
    points = space.vertices if exact else space.halves

    def infeasibility(tau):
        wrong = space.infeasibility(tau)
        return max(wrong, space.distance_from_hull(tau)) if exact and tau.size else wrong

    return Case(
        space.exact if exact else space.local,
        space.vertices,
        infeasibility,
        lambda scores, tau: space.objective(scores, tau, points),
        space.exact_optimum if exact else space.local_optimum,
        float(max(space.capacities.max(initial=1), 1)),
    )


def labelling(space, graph=None):
    """A `labellings.Labellings`."""
    graph = PairwiseGraph(space.n_nodes, space.edges) if graph is None else graph
    structure = Pairwise(graph, space.n_states, space.rho)
    return Case(structure, space.vertices, space.infeasibility, space.objective)


def chains(lengths, n_states):
    structure = Sequences(lengths, n_states)
    edges = np.stack(structure.ends, axis=1)
    space = labellings.Labellings(structure.n_nodes, edges, n_states)
    return Case(structure, space.vertices, space.infeasibility, space.objective)


def graph_of(n_nodes, edges, n_states=2):
    """Labellings with the weights of uniform spanning trees."""
    pairs = np.array(edges, dtype=int).reshape(-1, 2)
    rho = Pairwise(PairwiseGraph(n_nodes, pairs), n_states).reweighting.rho
    return labellings.Labellings(n_nodes, pairs, n_states, rho)


def grid_of(height, width):
    edges = labellings.grid_edges(height, width)
    return labellings.Labellings(height * width, edges, 2, 0.5)


def masked(rows):
    return np.array([[letter == "x" for letter in row] for row in rows])


TRIANGLE = [(0, 1), (1, 2), (0, 2)]
SQUARE_AND_TAIL = [(0, 1), (1, 2), (2, 3), (3, 0), (4, 3)]
RHO_OF_NODES = np.array([0.5, 0.9, 1.0])

MAKERS = {
    "square": lambda: bipartite(bipartite_matchings.complete(4)),
    "two by two": lambda: bipartite(bipartite_matchings.complete(2)),
    "one pair": lambda: bipartite(bipartite_matchings.complete(1)),
    "one pair or none": lambda: bipartite(bipartite_matchings.complete(1, perfect=False)),
    "one row": lambda: bipartite(bipartite_matchings.complete(1, 4)),
    "wide": lambda: bipartite(bipartite_matchings.complete(2, 4, rho=0.5)),
    "tall": lambda: bipartite(bipartite_matchings.complete(4, 2, rho=0.8)),
    "masked": lambda: bipartite(
        bipartite_matchings.Space(masked(["xx.", "xxx", ".xx"]), True, 0.75, 0.75)
    ),
    "singles": lambda: bipartite(bipartite_matchings.complete(3, perfect=False, rho=0.7)),
    "rho of nodes": lambda: bipartite(
        bipartite_matchings.Space(np.ones((3, 3), bool), False, RHO_OF_NODES, 0.6)
    ),
    "nobody": lambda: bipartite(bipartite_matchings.Space(np.zeros((2, 3), bool), False, 1.0, 1.0)),
    "isolated": lambda: bipartite(
        bipartite_matchings.Space(masked(["x.", "..", "x."]), False, 1.0, 1.0)
    ),
    "group": lambda: general(graph_matchings.complete(6)),
    "one couple": lambda: general(graph_matchings.complete(2)),
    "group singles": lambda: general(graph_matchings.complete(5, False, 0.5)),
    "sparse group": lambda: general(graph_matchings.from_edges(6, graph_matchings.two_triangles())),
    "hull": lambda: general(graph_matchings.complete(6, rho=0.8), "exact"),
    "hull singles": lambda: general(graph_matchings.complete(4, False, 0.8), "exact"),
    "b-matching": lambda: general(graph_matchings.complete(4, True, 0.5, 2)),
    "b-matching singles": lambda: general(
        graph_matchings.complete(4, False, 0.5, np.array([2, 1, 0, 2]))
    ),
    "b-matching some": lambda: general(
        graph_matchings.complete(
            4, np.array([True, False, True, False]), 0.5, np.array([2, 1, 1, 1])
        )
    ),
    "binary triangle": lambda: labelling(graph_of(3, TRIANGLE)),
    "binary forest": lambda: labelling(graph_of(5, [(0, 1), (2, 1), (3, 4)])),
    "binary grid": lambda: labelling(grid_of(2, 3), Grid(2, 3)),
    "no edges": lambda: labelling(graph_of(3, [])),
    "one node": lambda: labelling(graph_of(1, [], 3)),
    "loopy": lambda: labelling(graph_of(5, SQUARE_AND_TAIL, 3)),
    "forest": lambda: labelling(graph_of(5, [(0, 1), (2, 1), (3, 4)], 3)),
    "chain": lambda: chains([4], 3),
    "chains": lambda: chains([3, 1, 2], 2),
}
KINDS = sorted(MAKERS)
made = {}


def case_of(kind):
    """Each case is made once."""
    if kind not in made:
        made[kind] = MAKERS[kind]()
    return made[kind]


@st.composite
def cases(draw, largest=5):
    """Cases of all kinds, at random."""
    kind = draw(st.sampled_from(["bipartite", "general", "exact", "b", "graph", "chains"]))
    if kind == "bipartite":
        return bipartite(draw(bipartite_matchings.spaces(max_side=4)))
    if kind in ("general", "exact"):
        return general(draw(graph_matchings.matching_spaces(max_nodes=largest)), kind)
    if kind == "b":
        return general(draw(graph_matchings.b_spaces(max_nodes=4)))
    if kind == "graph":
        strategy = draw(st.sampled_from([labellings.loopy, labellings.forests]))
        space, _ = draw(strategy(max_nodes=largest, n_states=(2, 3)))
        edges, states = space.edges, space.n_states
        return labelling(graph_of(space.n_nodes, edges, states))
    return chains(
        draw(st.lists(st.integers(1, 3), min_size=1, max_size=2)), draw(st.integers(2, 3))
    )


scales = st.sampled_from([0.1, 1.0, 3.0, 10.0])


# ---------------------------------------------------------------------- asking
def ask(case, scores, method, **options):
    """The answer, or None where a method says that it is not for this kind of output space.

    Warnings of NumPy are errors, and a ConvergenceWarning comes with converged=False only.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        warnings.simplefilter("always", ConvergenceWarning)
        start = time.process_time()
        try:
            found = marginals(case.structure, scores, method, **options)
        except MissingCapability:
            return None
        except ValueError as error:
            if "same rho at all nodes" not in str(error):
                raise
            return None
    assert time.process_time() - start < PATIENCE
    assert found.converged == (not caught)
    return found


def approximate_answers(case, scores, tol=1e-7):
    found = {
        "auto": ask(case, scores, "auto", tol=tol),
        "fw": ask(case, scores, "fw", tol=tol, max_iter=200),
        "plain fw": ask(case, scores, "fw", tol=tol, max_iter=200, step="capped"),
    }
    return {name: answer for name, answer in found.items() if answer is not None}


def check_numbers(case, found):
    """Finite, of the right shape, and in range."""
    tau = found.tau
    assert tau.shape == (case.size,)
    assert np.isfinite(tau).all()
    assert np.isfinite(found.log_partition)
    assert found.gap >= 0.0
    assert tau.min(initial=0.0) >= -1e-9
    assert tau.max(initial=0.0) <= case.most + 1e-9


def adversarial(size):
    rng = np.random.default_rng(size)
    peak = np.zeros(size)
    peak[: size // 2] = 1e6
    return {
        "zeros": np.zeros(size),
        "large": np.full(size, 1e6),
        "small": np.full(size, -1e6),
        "signs": 1e6 * rng.choice([-1.0, 1.0], size),
        "ties": rng.integers(-1, 2, size).astype(float),
        "near ties": 10.0 * rng.integers(-1, 2, size) + 1e-9 * rng.normal(size=size),
        "spread": 1e6 * rng.normal(size=size),
        "peak": peak,
        "tiny": 1e-300 * rng.normal(size=size),
    }
