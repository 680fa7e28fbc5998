"""Marginals, log Z and samples by every method, on output spaces small enough to enumerate.

Every claim is tested on all kinds of output spaces: a `Case` has one, a list of its outputs, and
its entropy and constraints in plain NumPy.
"""

import time
import warnings
from dataclasses import dataclass
from typing import Any

import bipartite_matchings
import graph_matchings
import labellings
import numpy as np
import pytest
import random_scores
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import chisquare
from sklearn.exceptions import ConvergenceWarning

from mlestruct.exceptions import InfeasibleError, TooLargeToCount
from mlestruct.inference import log_partition, log_partition_bounds, marginals, sample
from mlestruct.structures import (
    BinaryPairwise,
    BipartiteMatching,
    ExactMatching,
    Grid,
    LocalMatching,
    MissingCapability,
    Pairwise,
    PairwiseGraph,
    Sequences,
    SimpleGraph,
    Structure,
)

METHODS = ("auto", "newton", "fw", "bp", "exact", "perturb")
SHORT = {"fw": {"max_iter": 40}, "perturb": {"n_samples": 6, "random_state": 0}}
PATIENCE = 20.0  # CPU seconds after which a call counts as hanging


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


def labelling(space, graph=None, minimal=False):
    """A `labellings.Labellings`; `minimal`: in the coordinates of two states."""
    graph = PairwiseGraph(space.n_nodes, space.edges) if graph is None else graph
    if not minimal:
        structure = Pairwise(graph, space.n_states, space.rho)
        return Case(structure, space.vertices, space.infeasibility, space.objective)
    return Case(
        BinaryPairwise(graph, space.rho),
        np.array([space.drop(vertex) for vertex in space.vertices]),
        lambda tau: space.infeasibility(space.lift(tau)),
        lambda scores, tau: float(scores @ tau) + space.entropy(space.lift(tau)),
    )


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
    "binary triangle": lambda: labelling(graph_of(3, TRIANGLE), minimal=True),
    "binary forest": lambda: labelling(graph_of(5, [(0, 1), (2, 1), (3, 4)]), minimal=True),
    "binary grid": lambda: labelling(grid_of(2, 3), Grid(2, 3), minimal=True),
    "no edges": lambda: labelling(graph_of(3, []), minimal=True),
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
        minimal = states == 2 and draw(st.booleans())
        return labelling(graph_of(space.n_nodes, edges, states), minimal=minimal)
    return chains(
        draw(st.lists(st.integers(1, 3), min_size=1, max_size=2)), draw(st.integers(2, 3))
    )


scales = st.sampled_from([0.1, 1.0, 3.0, 10.0])
examples = settings(deadline=None, max_examples=30)


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
        "newton": ask(case, scores, "newton", tol=tol),
        "fw": ask(case, scores, "fw", tol=tol, max_iter=200),
        "plain fw": ask(case, scores, "fw", tol=tol, max_iter=200, variant="plain"),
        "bp": ask(case, scores, "bp", tol=tol),
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


# ---------------------------------------------------------------------- methods agree
@examples
@given(cases(), random_scores.generators, random_scores.kinds, scales)
def test_all_methods_enclose_the_same_value(case, rng, kind, scale):
    scores = case.scores(rng, kind, scale)
    found = approximate_answers(case, scores).values()
    intervals = [(a.log_partition, a.log_partition + a.gap) for a in found]
    slack = case.slack(scores)
    assert max(low for low, _ in intervals) <= min(high for _, high in intervals) + slack


@examples
@given(cases(), random_scores.generators, random_scores.kinds, scales)
def test_marginals_are_feasible_and_attain_the_value(case, rng, kind, scale):
    scores = case.scores(rng, kind, scale)
    for found in approximate_answers(case, scores).values():
        check_numbers(case, found)
        assert case.infeasibility(found.tau) <= 1e-8
        assert found.log_partition <= case.value(scores, found.tau) + case.slack(scores)


@examples
@given(cases(), random_scores.generators, random_scores.kinds, scales)
def test_exact_is_enumeration(case, rng, kind, scale):
    scores = case.scores(rng, kind, scale)
    found = ask(case, scores, "exact")
    assert (found.of, found.gap) == ("log Z", 0.0)
    assert found.log_partition == pytest.approx(case.log_z(scores), abs=1e-9 * (1 + scale))
    np.testing.assert_allclose(found.tau, case.tau(scores), atol=1e-9)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if case_of(kind).reference])
@pytest.mark.parametrize("scale", [0.3, 2.0])
def test_auto_equals_a_slow_reference(kind, scale):
    case = case_of(kind)
    scores = case.scores(np.random.default_rng(1), scale=scale)
    low, high, tau = case.reference(scores)
    found = ask(case, scores, "auto", tol=1e-9)
    assert low - 1e-8 <= found.log_partition + found.gap
    assert found.log_partition <= high + 1e-8
    assert found.log_partition == pytest.approx(high, abs=1e-6)
    # Bethe's objective is flat, so its marginals are known less precisely than its value.
    np.testing.assert_allclose(found.tau, tau, atol=2e-3)


@pytest.mark.parametrize("kind", ["binary triangle", "loopy"])
def test_marginals_of_loopy_graphs_are_slopes_of_a_reference(kind):
    case = case_of(kind)
    pairs = TRIANGLE if kind == "binary triangle" else SQUARE_AND_TAIL
    states = case.structure.n_states
    space = graph_of(case.structure.graph.n_nodes, pairs, states)
    scores = case.scores(np.random.default_rng(2))
    found = ask(case, scores, "auto", tol=1e-10)

    def reference(w):
        return space.best(space.lift_scores(w) if kind == "binary triangle" else w, 1e-11)

    assert found.log_partition == pytest.approx(reference(scores), abs=1e-7)
    step = 1e-3
    for k in range(0, case.size, 7 if kind == "loopy" else 1):
        move = step * np.eye(case.size)[k]
        slope = (reference(scores + move) - reference(scores - move)) / (2 * step)
        assert found.tau[k] == pytest.approx(slope, abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_belief_propagation_has_the_marginals_of_the_oracle(kind):
    case = case_of(kind)
    for seed, scale in enumerate((0.3, 1.0, 3.0)):
        scores = case.scores(np.random.default_rng(seed), scale=scale)
        beliefs = ask(case, scores, "bp", tol=1e-10)
        if beliefs is None:
            return
        if kind == "sparse group":  # half-integral points attract messages, which swing
            continue
        oracle = ask(case, scores, "auto", tol=1e-10)
        assert beliefs.converged
        assert beliefs.log_partition == pytest.approx(oracle.log_partition, abs=1e-7)
        assert beliefs.gap <= 1e-6
        np.testing.assert_allclose(beliefs.tau, oracle.tau, atol=1e-4)


def test_belief_propagation_is_for_matchings_of_one_rho():
    refused = {
        kind for kind in KINDS if ask(case_of(kind), np.zeros(case_of(kind).size), "bp") is None
    }
    assert refused == {
        "b-matching singles", "b-matching some", "binary forest", "binary grid", "binary triangle",
        "chain", "chains", "forest", "hull", "hull singles", "loopy", "no edges", "one node",
        "rho of nodes", "b-matching",
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["forest", "binary forest", "chain", "chains", "no edges"])
def test_forests_are_exact(kind):
    case = case_of(kind)
    scores = case.scores(np.random.default_rng(3), scale=2.0)
    found = ask(case, scores, "auto", tol=1e-10)
    assert found.log_partition == pytest.approx(case.log_z(scores), abs=1e-8)
    np.testing.assert_allclose(found.tau, case.tau(scores), atol=1e-5)


# ---------------------------------------------------------------------- other libraries
@pytest.mark.parametrize("n", [2, 5, 8])
def test_exact_square_matchings_are_permanents(n):
    perm = pytest.importorskip("thewalrus").perm
    scores = np.random.default_rng(n).normal(size=(n, n))
    weights = np.exp(scores)
    found = marginals(BipartiteMatching((n, n)), scores, "exact")
    assert found.log_partition == pytest.approx(np.log(perm(weights)), abs=1e-9)
    minors = [
        [perm(np.delete(np.delete(weights, i, 0), j, 1)) if n > 1 else 1.0 for j in range(n)]
        for i in range(min(n, 3))
    ]
    expected = weights[: min(n, 3)] * np.array(minors) / perm(weights)
    np.testing.assert_allclose(found.table[: min(n, 3)], expected, atol=1e-9)


@pytest.mark.parametrize("n", [2, 4, 8])
def test_exact_matchings_of_a_group_are_hafnians(n):
    thewalrus = pytest.importorskip("thewalrus")
    scores = np.random.default_rng(n).normal(size=(n, n))
    scores += scores.T
    weights = np.exp(scores)
    found = marginals(LocalMatching(n), scores, "exact")
    total = thewalrus.hafnian(weights)
    assert found.log_partition == pytest.approx(np.log(total), abs=1e-9)
    rest = np.delete(np.delete(weights, [0, 1], 0), [0, 1], 1)
    share = weights[0, 1] * (thewalrus.hafnian(rest) if n > 2 else 1.0) / total
    assert found.table[0, 1] == pytest.approx(share, abs=1e-9)


def test_exact_matchings_with_singles_are_loop_hafnians():
    thewalrus = pytest.importorskip("thewalrus")
    n, rng = 6, np.random.default_rng(0)
    structure = LocalMatching(n, perfect=False)
    scores = rng.normal(size=structure.n_coordinates)
    weights = structure.graph.dense(np.exp(scores[: structure.n_scored]))
    np.fill_diagonal(weights, np.exp(scores[structure.n_scored :]))
    total = thewalrus.hafnian(weights, loop=True)
    assert log_partition(structure, scores, "exact") == pytest.approx(np.log(total), abs=1e-9)


def test_chains_are_transfer_matrices():
    rng = np.random.default_rng(0)
    nodes, edges = rng.normal(size=(7, 3)), rng.normal(size=(6, 3, 3))
    vector = np.exp(nodes[0])
    for t in range(6):
        vector = (vector @ np.exp(edges[t])) * np.exp(nodes[t + 1])
    for method in ("auto", "newton", "exact"):
        found = marginals(Sequences(7, 3), (nodes, edges), method)
        assert found.of == "log Z"
        assert found.log_partition == pytest.approx(np.log(vector.sum()), abs=1e-9)


# ---------------------------------------------------------------------- perturb and MAP
@pytest.mark.parametrize("kind", KINDS)
def test_perturbed_maxima_bound_log_z_in_expectation(kind):
    case = case_of(kind)
    scores = case.scores(np.random.default_rng(4))
    if kind == "binary triangle":
        scores[3:] = np.abs(scores[3:])  # decoding is exact where all edges attract
    if kind in ("loopy", "binary grid"):
        pytest.skip("the decoder need not find the maximum")
    found = ask(case, scores, "perturb", n_samples=300, random_state=0, lower=True)
    error = 4.5 * found.report["log_partition_standard_error"] + 1e-9
    exact = case.log_z(scores)
    assert found.report["lower"] - error <= exact <= found.log_partition + error
    check_numbers(case, found)


@pytest.mark.parametrize("kind", ["one pair or none", "one row", "one node"])
def test_perturbing_one_variable_is_sampling(kind):
    case = case_of(kind)
    scores = case.scores(np.random.default_rng(5))
    found = ask(case, scores, "perturb", n_samples=2000, random_state=1)
    error = np.maximum(found.report["standard_error"], 1e-3)
    assert (np.abs(found.tau - case.tau(scores)) <= 4.5 * error).all()
    close = 4.5 * found.report["log_partition_standard_error"]
    assert found.log_partition == pytest.approx(case.log_z(scores), abs=close)


def test_perturb_respects_seeds():
    case = case_of("square")
    scores = case.scores(np.random.default_rng(6))
    one, same, other = (
        ask(case, scores, "perturb", n_samples=20, random_state=seed) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one.tau, same.tau)
    assert one.log_partition == same.log_partition != other.log_partition


@pytest.mark.parametrize("method", ["fw", "perturb"])
def test_callbacks_see_every_point_and_can_stop(method):
    case = case_of("masked")
    seen = []

    def callback(calls, tau):
        seen.append((calls, tau.copy()))
        return len(seen) == 3

    found = marginals(
        case.structure, case.scores(np.random.default_rng(7)), method, tol=0.0, callback=callback
    )
    assert len(seen) == 3
    assert [calls for calls, _ in seen] == sorted(calls for calls, _ in seen)
    assert all(tau.shape == (case.size,) for _, tau in seen)
    assert found.converged
    assert found.calls < 10


# ---------------------------------------------------------------------- adversarial scores
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


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", KINDS)
def test_adversarial_scores_give_numbers(kind, method):
    case = case_of(kind)
    for scores in adversarial(case.size).values():
        kept = scores.copy()
        found = ask(case, scores, method, **SHORT.get(method, {}))
        np.testing.assert_array_equal(scores, kept)
        if found is not None:
            check_numbers(case, found)
            assert found.table.ndim == 2


@pytest.mark.parametrize("kind", KINDS)
def test_adversarial_values_are_right(kind):
    case = case_of(kind)
    for name, scores in adversarial(case.size).items():
        found = ask(case, scores, "auto")
        slack = case.slack(scores)
        sums = 1e-8 * np.abs(scores).sum()  # what sums that are exact to 1e-8 leave open
        assert found.log_partition <= case.value(scores, found.tau) + slack + sums, name
        best = float((case.vertices @ scores).max())
        assert found.log_partition + found.gap >= best - slack, name
        assert found.log_partition >= best - 1e-6 - slack, name
        exact = ask(case, scores, "exact")
        assert exact.log_partition == pytest.approx(case.log_z(scores), abs=slack), name


@pytest.mark.parametrize(
    "scores",
    [np.full(8, -1e6), 1e6 * np.array([1.0, 1, -1, -1, 1, 1, -1, 1]), np.zeros(8)],
)
def test_one_row_is_a_softmax_at_any_scale(scores):
    # With rho = 1 a row's choice among columns is exact.
    structure = BipartiteMatching((1, 4))
    total = scores[:4] - scores[4:] + scores[4:].sum()
    found = marginals(structure, scores, tol=1e-6)
    assert found.log_partition == pytest.approx(logsumexp(total), rel=1e-9, abs=1e-5)
    assert found.converged


@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-8, 1e-9])
def test_smaller_tolerances_never_give_worse_answers(tol):
    # Two good matchings, under potentials of rows and columns that mean nothing.
    rng = np.random.default_rng(0)
    structure = BipartiteMatching((6, 6))
    for _ in range(30):
        scores = rng.normal(size=(6, 6))
        for _ in range(2):
            scores[np.arange(6), rng.permutation(6)] = 13.0
        scores += 50.0 * (rng.normal(size=(6, 1)) + rng.normal(size=6))
        found = marginals(structure, scores, tol=tol)
        assert found.gap <= max(tol, 1e-7)


@pytest.mark.parametrize("scale", [1.0, 15.0, 150.0])
@pytest.mark.parametrize("n", [3, 5])
def test_odd_groups_with_singles_reach_their_tolerance(n, scale):
    # One of an odd number of nodes is always single, and that is what everything costs.
    found = marginals(ExactMatching(n, 0.5, perfect=False), np.full(n * (n + 1) // 2, -scale))
    assert found.converged
    assert found.gap <= 1e-6 + 1e-9 * scale


# ---------------------------------------------------------------------- forbidden pairs
@pytest.mark.parametrize("method", ["auto", "newton", "fw", "bp", "exact"])
@pytest.mark.parametrize("perfect", [True, False])
@pytest.mark.parametrize("sides", [2, 1])
def test_forbidden_pairs_are_pairs_that_are_not_there(sides, perfect, method):
    rng = np.random.default_rng(0)
    if sides == 2:
        mask = masked(["xx..", "xxxx", ".xxx", "x.xx"])
        whole = BipartiteMatching((4, 4), 0.8, perfect)
        smaller = bipartite(bipartite_matchings.Space(mask, perfect, 0.8, 0.8))
    else:
        mask = masked([".xx...", "x.x...", "xx.xx.", "..x.xx", "..xx.x", "...xx."])
        whole = LocalMatching(6, 0.8, perfect)
        smaller = general(graph_matchings.Space(mask, perfect, 0.8))
    table = rng.normal(size=mask.shape)
    table = np.where(mask, table if sides == 2 else table + table.T, -np.inf)
    scores = np.zeros(smaller.size)
    graph = smaller.structure.graph
    scores[: graph.n_edges] = table[graph.row, graph.col]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found, expected = (
            marginals(*given, method) for given in ((whole, table), (smaller.structure, scores))
        )
    assert found.log_partition == pytest.approx(expected.log_partition, abs=1e-9)
    np.testing.assert_allclose(found.table, expected.table, atol=1e-9)
    assert (found.table[~mask] == 0.0).all()
    assert found.tau.shape == (whole.n_coordinates,)


@pytest.mark.parametrize("method", METHODS)
def test_a_mask_that_leaves_one_matching(method):
    table = np.where(np.tri(4, dtype=bool), np.random.default_rng(0).normal(size=(4, 4)), -np.inf)
    found = marginals(BipartiteMatching((4, 4)), table, method, **SHORT.get(method, {}))
    if method != "perturb":  # which adds noise all the same
        assert found.log_partition == pytest.approx(np.trace(table), abs=1e-9)
    np.testing.assert_allclose(found.table, np.eye(4), atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "structure",
    [
        BipartiteMatching((2, 2)),
        BipartiteMatching((1, 1)),
        BipartiteMatching((2, 3)),
        LocalMatching(4),
        ExactMatching(4),
        LocalMatching(4, capacity=2),
    ],
)
def test_a_mask_that_leaves_no_matching(structure, method):
    with pytest.raises(InfeasibleError):
        marginals(structure, np.full(structure.n_scored, -np.inf), method)


@pytest.mark.parametrize("method", ["auto", "newton", "fw", "bp", "exact", "perturb"])
def test_odd_groups_have_no_perfect_matching(method):
    # The local polytope of a triangle is one point, and no mixture of matchings.
    np.testing.assert_allclose(LocalMatching(3).marginals(np.array([1.0, 2.0, 3.0])).tau, 0.5)
    with pytest.raises(InfeasibleError, match="odd"):
        marginals(LocalMatching(3), np.zeros(3), method)


def test_samples_and_bounds_of_odd_groups_are_refused():
    for call in (
        lambda: sample(LocalMatching(3), np.zeros(3)),
        lambda: log_partition_bounds(LocalMatching(3), np.zeros(3)),
        lambda: ExactMatching(3),
    ):
        with pytest.raises(InfeasibleError, match="odd"):
            call()


def test_two_triangles_have_no_perfect_matching_either():
    graph, _ = SimpleGraph.from_edges(6, [(0, 1), (0, 2), (1, 2), (3, 4), (3, 5), (4, 5)])
    with pytest.raises(InfeasibleError):
        marginals(LocalMatching(graph), np.zeros(6))


@pytest.mark.parametrize(
    "structure",
    [BipartiteMatching((0, 0)), BipartiteMatching((0, 2)), BipartiteMatching((2, 0), 1.0, False)]
    + [LocalMatching(0), LocalMatching(1, perfect=False)],
)
def test_empty_spaces_have_one_output(structure):
    for method in METHODS:
        found = marginals(
            structure, np.zeros(structure.n_coordinates), method, **SHORT.get(method, {})
        )
        assert found.log_partition == 0.0
        np.testing.assert_array_equal(found.tau, 1.0)
    assert len(sample(structure, np.zeros(structure.n_coordinates), 2).labels) == 2


@pytest.mark.parametrize("method", ["auto", "newton", "exact"])
@pytest.mark.parametrize("lengths", [[1], [3, 1]])
def test_chains_of_which_nothing_is_admissible(lengths, method):
    structure = Sequences(lengths, 2)
    with pytest.raises(InfeasibleError):
        marginals(structure, np.full(structure.n_coordinates, -np.inf), method)


def test_exact_labellings_respect_forbidden_states():
    case = case_of("loopy")
    scores = case.scores(np.random.default_rng(0))
    scores[0] = scores[-4] = -np.inf
    allowed = (case.vertices[:, [0, -4]] == 0).all(axis=1)
    finite = np.where(np.isfinite(scores), scores, 0.0)
    total = case.vertices[allowed] @ finite
    found = marginals(case.structure, scores, "exact")
    assert found.log_partition == pytest.approx(logsumexp(total), abs=1e-9)
    expected = np.exp(total - logsumexp(total)) @ case.vertices[allowed]
    np.testing.assert_allclose(found.tau, expected, atol=1e-9)
    with pytest.raises(ValueError, match=r"-inf.*method='exact'"):
        marginals(case.structure, scores)


def test_singles_are_not_forbidden_by_scores():
    with pytest.raises(ValueError, match="perfect"):
        marginals(BipartiteMatching((1, 1), perfect=False), [0.0, -np.inf, 0.0])


# ---------------------------------------------------------------------- reading scores
def forms(values):
    wide = np.zeros((values.size, 2))
    wide[:, 0] = values
    fixed = values.copy()
    fixed.flags.writeable = False
    return {
        "list": values.tolist(),
        "float32": values.astype(np.float32),
        "integers": values.astype(np.int64),
        "strided": wide[:, 0],
        "backwards": values[::-1].copy()[::-1],
        "read-only": fixed,
    }


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "kind", ["singles", "hull", "b-matching", "binary triangle", "forest", "chain"]
)
def test_scores_in_any_form(kind, method):
    case = case_of(kind)
    values = np.random.default_rng(0).integers(-2, 3, case.size).astype(float)
    plain = ask(case, values, method, **SHORT.get(method, {}))
    for form in forms(values).values():
        found = ask(case, form, method, **SHORT.get(method, {}))
        if found is None:
            return
        np.testing.assert_array_equal(found.tau, plain.tau)
        assert found.log_partition == plain.log_partition


def test_tables_and_coordinates_are_the_same():
    rng = np.random.default_rng(0)
    table = np.asfortranarray(rng.normal(size=(3, 4)))
    found, flat = (marginals(BipartiteMatching((3, 4)), w) for w in (table, table.ravel()))
    np.testing.assert_array_equal(found.tau, flat.tau)
    np.testing.assert_array_equal(found.table, found.tau[:12].reshape(3, 4))


@pytest.mark.parametrize("states", [2, 3])
def test_tables_of_labellings(states):
    rng = np.random.default_rng(0)
    graph = PairwiseGraph(4, SQUARE_AND_TAIL[:4])
    nodes, edges = rng.normal(size=(4, states)), rng.normal(size=(4, states, states))
    space = labellings.Labellings(4, np.array(SQUARE_AND_TAIL[:4]), states)
    exact = space.log_partition(np.concatenate([nodes.ravel(), edges.ravel()]))
    for structure in [Pairwise(graph, states)] + [BinaryPairwise(graph)] * (states == 2):
        found = marginals(structure, (nodes, edges), "exact")
        assert found.log_partition == pytest.approx(exact, abs=1e-9)
        assert found.table.shape == (4, states)
        shared = marginals(structure, (nodes, edges[0]), "exact")
        repeated = marginals(structure, (nodes, np.stack([edges[0]] * 4)), "exact")
        assert shared.log_partition == repeated.log_partition


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("kind", KINDS)
def test_the_coordinate_that_is_not_a_score_is_named(kind, bad):
    case = case_of(kind)
    scores = np.zeros(case.size)
    scores[case.size // 2] = bad
    for call in (marginals, log_partition, sample):
        with pytest.raises(ValueError, match=f"coordinate {case.size // 2} is {bad}"):
            call(case.structure, scores)


@pytest.mark.parametrize("kind", KINDS)
def test_the_shape_that_is_expected_is_named(kind):
    case = case_of(kind)
    for shape in ((case.size + 1,), (2, 2, 2), ()):
        with pytest.raises(
            ValueError, match=rf"scores: expected shape \({case.structure.n_scored},"
        ):
            marginals(case.structure, np.zeros(shape))


@pytest.mark.parametrize(
    ("structure", "scores", "message"),
    [
        (BipartiteMatching((2, 3)), np.zeros((3, 2)), r"table of shape \(2, 3\)"),
        (BipartiteMatching((2, 2)), (np.zeros(2), np.zeros(2)), "not a tuple"),
        (LocalMatching(4), np.arange(16.0).reshape(4, 4), r"not symmetric at \(0, 1\)"),
        (Sequences(2, 2), (np.zeros((2, 2)),), "a tuple holds"),
        (Sequences(2, 2), (np.zeros((3, 2)), np.zeros((2, 2))), r"nodes: expected shape \(2, 2\)"),
        (Sequences(2, 2), (np.zeros((2, 2)), np.zeros((3, 2, 2))), r"edges: expected shape"),
        (Sequences(2, 2), "scores", "scores"),
        (Sequences(2, 2), [[1.0], [2.0, 3.0]], "scores"),
        (Sequences(2, 2), np.ma.masked_array(np.zeros(8)), "mask"),
    ],
)
def test_other_forms_of_scores_are_refused(structure, scores, message):
    with pytest.raises(ValueError, match=message):
        marginals(structure, scores)


@pytest.mark.parametrize(
    ("error", "message", "method", "options"),
    [
        (ValueError, "method: expected one of", "best", {}),
        (ValueError, "method: expected one of", None, {}),
        (TypeError, "max_iter: method='auto'", "auto", {"max_iter": 3}),
        (TypeError, "sweeps: method='fw'", "fw", {"sweeps": 3}),
        (TypeError, "damping: method='exact'", "exact", {"damping": 0.5}),
        (ValueError, "tol: expected", "auto", {"tol": -1.0}),
        (ValueError, "tol: expected", "bp", {"tol": np.nan}),
        (ValueError, "tol: expected", "fw", {"tol": "small"}),
        (ValueError, "max_iter: expected", "fw", {"max_iter": 0}),
        (ValueError, "max_iter: expected", "fw", {"max_iter": 2.5}),
        (ValueError, "variant: expected", "fw", {"variant": "away"}),
        (ValueError, "damping", "bp", {"damping": 1.0}),
        (ValueError, "damping", "bp", {"damping": "half"}),
        (ValueError, "max_sweeps", "bp", {"max_sweeps": 0}),
        (ValueError, "n_samples: expected", "perturb", {"n_samples": 0}),
        (ValueError, "n_samples: expected", "perturb", {"n_samples": 1.5}),
    ],
)
def test_options_that_make_no_sense(error, message, method, options):
    with pytest.raises(error, match=message):
        marginals(BipartiteMatching((2, 2)), np.zeros(4), method, **options)


def test_what_is_no_structure():
    with pytest.raises(TypeError, match="structure"):
        marginals(None, np.zeros(3))


def test_stopping_early_is_reported():
    scores = 3.0 * np.random.default_rng(0).normal(size=(6, 6))
    for method, options in {"fw": {"max_iter": 3}, "bp": {"max_sweeps": 1}}.items():
        with pytest.warns(ConvergenceWarning, match=f"method='{method}'"):
            found = marginals(BipartiteMatching((6, 6)), scores, method, **options)
        assert not found.converged
        assert found.gap > 1e-6


def test_the_report_says_what_was_done():
    found = marginals(BipartiteMatching((3, 3)), np.eye(3))
    assert (found.method, found.of, found.converged) == ("auto", "log Z_rho", True)
    assert "gap" in repr(found)
    assert found.seconds >= 0.0


# ---------------------------------------------------------------------- samples
SAMPLED = [kind for kind in KINDS if kind != "loopy"]


def codes_of(case, labels):
    """The number of each label among the outputs; raises unless it is one."""
    rows = {tuple(vertex): k for k, vertex in enumerate(case.vertices.astype(int).tolist())}
    dense = (case.structure.encode(label).dense(case.size) for label in labels)
    return np.array([rows[tuple(point.astype(int).tolist())] for point in dense])


def check_frequencies(case, scores, labels):
    """Chi-square of the counts, rare outputs taken together."""
    n = len(labels)
    total = case.vertices @ scores
    expected = n * np.exp(total - logsumexp(total))
    counts = np.bincount(codes_of(case, labels), minlength=expected.size)
    rare = expected < 5.0
    counts = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    seen = expected > 1e-9
    assert counts[~seen].sum() == 0
    if seen.sum() > 1:
        assert chisquare(counts[seen], expected[seen]).pvalue > 1e-4


@pytest.mark.parametrize("kind", SAMPLED)
def test_exact_samples_have_their_frequencies(kind):
    case = case_of(kind)
    scores = case.scores(np.random.default_rng(8))
    drawn = sample(case.structure, scores, 1500, random_state=0)
    assert (drawn.method, drawn.rhat, drawn.ess, drawn.converged) == ("exact", 1.0, 1500.0, True)
    check_frequencies(case, scores, drawn.labels)


@pytest.mark.parametrize("kind", [kind for kind in SAMPLED if not kind.startswith("b-")])
def test_markov_chains_have_their_frequencies(kind):
    case = case_of(kind)
    scores = case.scores(np.random.default_rng(9), scale=0.7)
    drawn = sample(case.structure, scores, 800, "mcmc", random_state=0, sweeps=1000)
    assert drawn.method == "mcmc"
    assert drawn.converged
    check_frequencies(case, scores, drawn.labels)


def test_b_matchings_have_no_markov_chain():
    with pytest.raises(ValueError, match="capacity"):
        sample(LocalMatching(4, capacity=2), np.zeros(6), 2, "mcmc")


@pytest.mark.parametrize("method", ["exact", "mcmc"])
@pytest.mark.parametrize("kind", ["square", "singles", "group", "binary grid", "forest", "chain"])
def test_samples_respect_seeds(kind, method):
    case = case_of(kind)
    scores = case.scores(np.random.default_rng(10), scale=0.3)
    kept = scores.copy()
    one, same, other = (
        np.array(sample(case.structure, scores, 40, method, random_state=seed).labels)
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    np.testing.assert_array_equal(scores, kept)


def test_generators_go_on():
    rng = np.random.default_rng(0)
    structure = BipartiteMatching((4, 4))
    one, two = (sample(structure, np.zeros(16), 20, random_state=rng).labels for _ in range(2))
    assert (one != two).any()


def test_large_problems_are_sampled_by_markov_chains():
    structure = BipartiteMatching((30, 30))
    scores = np.random.default_rng(0).normal(size=(30, 30))
    drawn = sample(structure, scores, 5, random_state=0)
    assert drawn.method == "mcmc"
    assert (np.sort(drawn.labels, axis=1) == np.arange(30)).all()
    for call in (
        lambda: sample(structure, scores, 5, "exact"),
        lambda: marginals(structure, scores, "exact"),
    ):
        with pytest.raises(TooLargeToCount):
            call()


def test_forbidden_pairs_are_never_drawn():
    table = np.zeros((4, 4))
    table[0, :3] = -np.inf
    for method in ("exact", "mcmc"):
        labels = sample(BipartiteMatching((4, 4)), table, 100, method, random_state=0).labels
        assert (labels[:, 0] == 3).all()


@pytest.mark.parametrize("scores", [np.zeros(9), np.full(9, 1e6), np.full(9, -1e6)])
@pytest.mark.parametrize("method", ["exact", "mcmc"])
def test_ties_are_drawn_evenly(method, scores):
    case = bipartite(bipartite_matchings.complete(3))
    drawn = sample(case.structure, scores, 600, method, random_state=0)
    counts = np.bincount(codes_of(case, drawn.labels), minlength=6)
    assert chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize(
    ("error", "message", "options"),
    [
        (ValueError, "method: expected one of", {"method": "best"}),
        (ValueError, "n_samples: expected", {"n_samples": 0}),
        (ValueError, "n_samples: expected", {"n_samples": 2.5}),
        (TypeError, "n_chains: method='exact'", {"method": "exact", "n_chains": 2}),
        (TypeError, "chains: method='auto'", {"chains": 2}),
        (TypeError, "chains: method='mcmc'", {"method": "mcmc", "chains": 2}),
        (ValueError, "n_chains", {"method": "mcmc", "n_chains": 0}),
        (ValueError, "tol_rhat", {"method": "mcmc", "tol_rhat": 0.5}),
    ],
)
def test_sampling_options_that_make_no_sense(error, message, options):
    with pytest.raises(error, match=message):
        sample(BipartiteMatching((3, 3)), np.zeros(9), **options)


# ---------------------------------------------------------------------- the exact distribution
@pytest.mark.parametrize("kind", KINDS)
def test_exact_distribution_has_log_z_marginals_and_samples(kind):
    case = case_of(kind)
    scores = case.scores(np.random.default_rng(11))
    found = case.structure.exact(scores)
    assert found.log_partition == pytest.approx(case.log_z(scores), abs=1e-9)
    np.testing.assert_allclose(found.tau, case.tau(scores), atol=1e-9)
    assert codes_of(case, found.sample(3, np.random.default_rng(0))).shape == (3,)


def test_structures_without_counting_have_no_exact_distribution():
    with pytest.raises(MissingCapability, match=r"exact\(\), which Structure does not have"):
        Structure().exact(np.zeros(2))


@pytest.mark.parametrize("call", [marginals, log_partition_bounds, sample])
def test_scores_whose_sums_overflow_are_refused(call):
    with pytest.raises(ValueError, match=r"scores: as large as 1.7e\+308"):
        call(BipartiteMatching((4, 4), 1.0), np.full((4, 4), 1.7e308))
