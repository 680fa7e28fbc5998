"""Proven bounds of log Z, and of log-likelihoods, against enumeration."""

import warnings
from types import SimpleNamespace

import bipartite_matchings
import graph_matchings
import labellings
import numpy as np
import pytest
import random_scores
from enumerated_spaces import (
    KINDS,
    adversarial,
    bipartite,
    case_of,
    cases,
    chains,
    general,
    graph_of,
    labelling,
    masked,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from mlestruct import BipartiteMatchingCRF, ChainCRF, GraphCRF, GridCRF, MatchingCRF, PairInput
from mlestruct.exceptions import InfeasibleError
from mlestruct.inference import log_partition_bounds, marginals
from mlestruct.structures import (
    BipartiteMatching,
    LocalMatching,
    MissingCapability,
    Pairwise,
    PairwiseGraph,
    Sequences,
)
from mlestruct.structures.exact import ExactInference

examples = settings(deadline=None, max_examples=25)
scales = st.sampled_from([0.1, 1.0, 3.0, 10.0])


def bounds_of(case, scores, **options):
    """Bounds, with all warnings as errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return log_partition_bounds(case.structure, scores, **options)


def check(case, scores, **options):
    """The interval holds log Z, and says why."""
    bounds = bounds_of(case, scores, **options)
    lower, upper = bounds
    exact, slack = case.log_z(scores), case.slack(scores)
    assert (lower, upper) == (bounds.lower, bounds.upper)
    assert np.isfinite([lower, upper]).all()
    assert lower - slack <= exact <= upper + slack
    assert lower <= upper
    for reason in (bounds.lower_reason, bounds.upper_reason):
        assert isinstance(reason, str)
        assert reason
    return bounds


# ---------------------------------------------------------------------- every kind
@examples
@given(cases(), random_scores.generators, random_scores.kinds, scales)
def test_log_z_lies_within_its_bounds(case, rng, kind, scale):
    check(case, case.scores(rng, kind, scale))


@settings(deadline=None, max_examples=25)
@given(labellings.loopy(max_nodes=5, n_states=(2, 3)), random_scores.kinds, scales)
def test_bounds_of_loopy_graphs_beat_the_best_labelling(given_space, kind, scale):
    space, rng = given_space
    space = graph_of(space.n_nodes, space.edges, space.n_states)
    case = labelling(space)
    scores = case.scores(rng, kind, scale)
    bounds = check(case, scores)
    found = case.structure.encode(case.structure.best_label(scores)).dot(scores)
    assert bounds.lower >= found - case.slack(scores)


@settings(deadline=None, max_examples=25)
@given(bipartite_matchings.spaces(max_side=5), random_scores.generators, scales)
def test_bounds_do_not_depend_on_rho(space, rng, scale):
    case, other = bipartite(space), bipartite(space.with_rho(0.5))
    scores = case.scores(rng, scale=scale)
    first, second = check(case, scores), check(other, scores)
    np.testing.assert_allclose(tuple(first), tuple(second), atol=1e-5)


@settings(deadline=None, max_examples=25)
@given(graph_matchings.b_spaces(), random_scores.generators, st.sampled_from([0.5, 5.0]))
def test_b_matchings_with_scores_of_unused_capacity(space, rng, scale):
    case = general(space)
    check(case, case.scores(rng, scale=scale))


@pytest.mark.parametrize("capacity", [[0, 0, 0, 0], [1, 1, 1, 0], [1, 0, 0, 1], [2, 1, 0, 1]])
def test_nodes_without_capacity_have_nothing_to_leave_unused(capacity):
    case = general(graph_matchings.complete(4, False, 0.5, np.array(capacity)))
    scores = np.concatenate([np.zeros(6), [1.0, 2.0, -3.0, 7.0]])
    check(case, scores)


@pytest.mark.parametrize("kind", KINDS)
def test_adversarial_scores_have_bounds(kind):
    case = case_of(kind)
    for scores in adversarial(case.size).values():
        kept = scores.copy()
        check(case, scores)
        np.testing.assert_array_equal(scores, kept)


# ---------------------------------------------------------------------- where they are equal
@settings(deadline=None, max_examples=25)
@given(labellings.forests(max_nodes=6, n_states=(2, 3)), random_scores.kinds, scales)
def test_bounds_of_forests_are_exact(given_space, kind, scale):
    space, rng = given_space
    case = labelling(space)
    scores = case.scores(rng, kind, scale)
    bounds = check(case, scores)
    assert bounds.upper - bounds.lower <= 1e-6 + case.slack(scores)
    assert bounds.lower_reason == bounds.upper_reason == "exact"


def test_forests_are_exact_whatever_their_rho():
    graph = PairwiseGraph(4, [(0, 1), (1, 2), (3, 2)])
    scores = np.random.default_rng(0).normal(size=4 * 2 + 3 * 4)
    exact = marginals(Pairwise(graph, 2), scores, "exact").log_partition
    bounds = log_partition_bounds(Pairwise(graph, 2, 0.5), scores)
    np.testing.assert_allclose(tuple(bounds), exact, atol=1e-5)


@pytest.mark.parametrize("lengths", [[1], [5], [2, 3, 1]])
def test_bounds_of_chains_are_exact(lengths):
    case = chains(lengths, 2)
    scores = case.scores(np.random.default_rng(0), scale=3.0)
    bounds = check(case, scores)
    assert bounds.lower == bounds.upper
    assert bounds.lower_reason == "exact"


@pytest.mark.parametrize("kind", ["square", "singles", "group", "loopy", "b-matching some"])
def test_counted_spaces_are_exact(kind):
    case = case_of(kind)
    scores = case.scores(np.random.default_rng(0))
    bounds = log_partition_bounds(ExactInference(case.structure), scores)
    np.testing.assert_allclose(tuple(bounds), case.log_z(scores), atol=1e-9)


def test_a_single_matching_is_exact():
    table = np.where(np.tri(4, dtype=bool), 1.0, -np.inf)
    np.testing.assert_allclose(tuple(log_partition_bounds(BipartiteMatching((4, 4)), table)), 4.0)


# ---------------------------------------------------------------------- which bound it is
def test_reasons_name_the_bound():
    def reasons(structure, scores=None):
        size = structure.n_coordinates
        found = log_partition_bounds(structure, np.zeros(size) if scores is None else scores)
        return found.lower_reason, found.upper_reason

    assert "Bethe" in reasons(BipartiteMatching((3, 3)))[0]
    assert "1/2" in reasons(BipartiteMatching((3, 3)))[1]
    assert "1/2" in reasons(LocalMatching(6))[1]
    assert "b-matching" in reasons(LocalMatching(4, capacity=2))[0]
    triangle = Pairwise(PairwiseGraph(3, [(0, 1), (1, 2), (0, 2)]), 2)
    assert "mean field" in reasons(triangle)[0]
    assert "trees" in reasons(triangle)[1]


@pytest.mark.parametrize("n_states", [2, 3])
def test_bounds_hold_for_rho_outside_the_tree_polytope(n_states):
    graph = PairwiseGraph(3, [(0, 1), (1, 2), (0, 2)])
    with pytest.warns(UserWarning, match="spanning-tree"):
        structure = Pairwise(graph, n_states, 1.0)
    scores = np.random.default_rng(0).normal(size=structure.n_coordinates)
    exact = marginals(structure, scores, "exact").log_partition
    bounds = log_partition_bounds(structure, scores)
    assert bounds.lower <= exact <= bounds.upper < np.inf


def test_forbidden_pairs_narrow_the_model():
    mask = masked(["xx.", "xxx", ".xx"])
    table = np.where(mask, np.random.default_rng(0).normal(size=(3, 3)), -np.inf)
    case = bipartite(bipartite_matchings.Space(mask))
    found = log_partition_bounds(BipartiteMatching((3, 3)), table)
    np.testing.assert_allclose(tuple(found), tuple(check(case, table[mask])), atol=1e-9)


def test_constants_of_tables_are_counted():
    rng = np.random.default_rng(0)
    graph = PairwiseGraph(3, [(0, 1), (1, 2), (0, 2)])
    nodes, edges = 5.0 + rng.normal(size=(3, 2)), rng.normal(size=(3, 2, 2))
    lower, upper = log_partition_bounds(Pairwise(graph, 2), (nodes, edges))
    space = labellings.Labellings(3, np.array([(0, 1), (1, 2), (0, 2)]))
    assert lower <= space.log_partition(np.concatenate([nodes.ravel(), edges.ravel()])) <= upper


# ---------------------------------------------------------------------- errors


def test_any_tolerance_gives_valid_bounds():
    case = case_of("singles")
    scores = case.scores(np.random.default_rng(0), scale=2.0)
    for tol in (10.0, 0.1, 1e-3, 1e-9):
        check(case, scores, tol=tol)


NOTHING = [BipartiteMatching((2, 2)), LocalMatching(4), Sequences(1, 3), Sequences([3, 1], 2)]
STATES = Pairwise(PairwiseGraph(2, [(0, 1)]), 2)
UNKNOWN = SimpleNamespace(n_coordinates=2, n_scored=2, decode=None)


@pytest.mark.parametrize(
    ("structure", "scores", "options", "error", "message"),
    [
        *(
            (
                BipartiteMatching((2, 2)),
                np.zeros(4),
                {"tol": tol},
                (TypeError, ValueError),
                "`tol` must be",
            )
            for tol in (-1.0, np.nan, None, "small")
        ),
        *((one, np.full(one.n_coordinates, -np.inf), {}, InfeasibleError, None) for one in NOTHING),
        (STATES, [0.0, -np.inf, *np.zeros(6)], {}, ValueError, "-inf"),
        (UNKNOWN, np.zeros(2), {}, MissingCapability, "SimpleNamespace"),
    ],
)
def test_errors(structure, scores, options, error, message):
    with pytest.raises(error, match=message):
        log_partition_bounds(structure, scores, **options)


# ---------------------------------------------------------------------- log-likelihoods
def check_likelihoods(model, X, Y, exact):
    lower, upper = model.log_likelihood_bounds(X, Y)
    assert lower.shape == upper.shape == (len(Y),)
    assert (lower <= exact + 1e-7).all()
    assert (exact <= upper + 1e-7).all()
    assert (upper <= 0.0).all()


@pytest.mark.parametrize("shape", [(4, 4), (3, 4), (4, 2)])
@pytest.mark.parametrize("perfect", [True, False])
def test_likelihoods_of_bipartite_matchings(shape, perfect):
    rng = np.random.default_rng(0)
    space = bipartite_matchings.complete(*shape, perfect=perfect)
    X = [rng.normal(size=(*shape, 2)) for _ in range(4)]
    Y = [space.labels[rng.integers(len(space.labels))] for _ in range(4)]
    model = BipartiteMatchingCRF(alpha=0.1, perfect=perfect).fit(X, Y)
    scores = np.zeros((4, space.size))
    scores[:, : shape[0] * shape[1]] = [table.ravel() for table in model.pair_scores(X)]
    own = [space.structure.encode(y).dense(space.size) @ w for y, w in zip(Y, scores, strict=True)]
    check_likelihoods(model, X, Y, np.array(own) - [space.log_partition(w) for w in scores])


@pytest.mark.parametrize("polytope", ["local", "exact"])
@pytest.mark.parametrize("perfect", [True, False])
def test_likelihoods_of_matchings_of_a_group(polytope, perfect):
    rng = np.random.default_rng(1)
    space = graph_matchings.complete(6, perfect)
    X = [rng.normal(size=(6, 6, 2)) for _ in range(4)]
    X = [x + x.transpose(1, 0, 2) for x in X]
    chosen = [space.vertices[rng.integers(len(space.vertices))] for _ in X]
    Y = [partners(space, vertex) for vertex in chosen]
    model = MatchingCRF(alpha=0.1, perfect=perfect, polytope=polytope).fit(X, Y)
    check_likelihoods(model, X, Y, group_likelihoods(space, model.pair_scores(X), chosen))


def test_likelihoods_of_b_matchings():
    rng = np.random.default_rng(2)
    space = graph_matchings.complete(5, True, 0.5, 2)
    X = [rng.normal(size=(5, 5, 2)) for _ in range(3)]
    X = [PairInput(x + x.transpose(1, 0, 2), capacity=2) for x in X]
    chosen = [space.vertices[rng.integers(len(space.vertices))] for _ in X]
    Y = [space.edges[vertex[: space.n_edges] > 0] for vertex in chosen]
    model = MatchingCRF(alpha=0.1).fit(X, Y)
    check_likelihoods(model, X, Y, group_likelihoods(space, model.pair_scores(X), chosen))


def partners(space, vertex):
    label = np.full(space.n, -1)
    for i, j in space.edges[vertex[: space.n_edges] > 0]:
        label[i], label[j] = j, i
    return label


def group_likelihoods(space, tables, chosen):
    out = []
    for table, vertex in zip(tables, chosen, strict=True):
        scores = np.zeros(space.size)
        scores[: space.n_edges] = table[space.edges[:, 0], space.edges[:, 1]]
        out.append(vertex @ scores - space.log_partition(scores))
    return np.array(out)


def labelling_likelihood(nodes, tables, space, label):
    """nodes (n_nodes, L) and tables (n_edges, L, L) of scores, by enumeration."""
    total = space.vertices @ np.concatenate([nodes.ravel(), tables.ravel()])
    code = int(np.flatnonzero((space.labels == label).all(axis=1))[0])
    return total[code] - logsumexp(total)


@pytest.mark.parametrize("n_states", [2, 3])
def test_likelihoods_of_graphs(n_states):
    rng = np.random.default_rng(3)
    edges = np.array([(0, 1), (1, 2), (0, 2), (2, 3)])
    space = labellings.Labellings(4, edges, n_states)
    X = [(rng.normal(size=(4, 2)), edges, rng.normal(size=(4, 1))) for _ in range(5)]
    Y = [rng.integers(0, n_states, 4) for _ in range(5)]
    model = GraphCRF(alpha=0.1).fit(X, Y, classes=range(n_states))
    exact = [
        labelling_likelihood(
            nodes @ model.node_coef_.T + model.intercept_,
            np.einsum("stk,ek->est", model.edge_coef_, pairs),
            space,
            y,
        )
        for (nodes, _, pairs), y in zip(X, Y, strict=True)
    ]
    check_likelihoods(model, X, Y, np.array(exact))


def test_likelihoods_of_grids():
    rng = np.random.default_rng(4)
    space = labellings.Labellings(6, labellings.grid_edges(2, 3))
    X = [rng.normal(size=(2, 3, 2)) for _ in range(4)]
    Y = [rng.integers(0, 2, (2, 3)) for _ in range(4)]
    model = GridCRF(alpha=0.1).fit(X, Y)
    tables = np.stack([model.edge_coef_[:, :, 0]] * 7)
    exact = [
        labelling_likelihood(
            x.reshape(6, 2) @ model.node_coef_.T + model.intercept_, tables, space, y.ravel()
        )
        for x, y in zip(X, Y, strict=True)
    ]
    check_likelihoods(model, X, Y, np.array(exact))


def test_likelihoods_of_chains():
    rng = np.random.default_rng(5)
    X = [rng.normal(size=(n, 2)) for n in (1, 3, 5)]
    Y = [np.array([0]), np.array([0, 1, 2]), rng.integers(0, 3, 5)]
    model = ChainCRF(alpha=0.1).fit(X, Y)
    exact = []
    for x, y in zip(X, Y, strict=True):
        edges = np.stack([np.arange(len(y) - 1), np.arange(1, len(y))], axis=1)
        space = labellings.Labellings(len(y), edges, 3)
        tables = np.broadcast_to(model.edge_coef_[:, :, 0], (len(edges), 3, 3))
        exact.append(labelling_likelihood(x @ model.node_coef_.T, tables, space, y))
    check_likelihoods(model, X, Y, np.array(exact))
    np.testing.assert_allclose(model.log_likelihood(X, Y), exact, atol=1e-9)
