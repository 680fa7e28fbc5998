"""Marginals and log Z by every method, on output spaces small enough to enumerate."""

import itertools
import warnings

import bipartite_matchings
import graph_matchings
import numpy as np
import pytest
import random_scores
from enumerated_spaces import (
    KINDS,
    METHODS,
    SHORT,
    SQUARE_AND_TAIL,
    TRIANGLE,
    adversarial,
    approximate_answers,
    ask,
    bipartite,
    case_of,
    cases,
    check_numbers,
    general,
    graph_of,
    masked,
    scales,
)
from hypothesis import given, settings
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning

from mlestruct.exceptions import InfeasibleError
from mlestruct.inference import log_partition_bounds, marginals, sample
from mlestruct.structures import (
    BipartiteMatching,
    LocalMatching,
    MatchingPolytope,
    Sequences,
    SimpleGraph,
)

examples = settings(deadline=None, max_examples=30)


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
        return space.best(w, 1e-11)

    assert found.log_partition == pytest.approx(reference(scores), abs=1e-7)
    step = 1e-3
    for k in range(0, case.size, 7 if kind == "loopy" else 1):
        move = step * np.eye(case.size)[k]
        slope = (reference(scores + move) - reference(scores - move)) / (2 * step)
        assert found.tau[k] == pytest.approx(slope, abs=1e-4)


@pytest.mark.parametrize("kind", ["forest", "binary forest", "chain", "chains", "no edges"])
def test_forests_are_exact(kind):
    case = case_of(kind)
    scores = case.scores(np.random.default_rng(3), scale=2.0)
    found = ask(case, scores, "auto", tol=1e-10)
    assert found.log_partition == pytest.approx(case.log_z(scores), abs=1e-8)
    np.testing.assert_allclose(found.tau, case.tau(scores), atol=1e-5)


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
    found = marginals(MatchingPolytope(n, 0.5, perfect=False), np.full(n * (n + 1) // 2, -scale))
    assert found.converged
    assert found.gap <= 1e-6 + 1e-9 * scale


# ---------------------------------------------------------------------- forbidden pairs
@pytest.mark.parametrize("method", ["auto", "fw", "exact"])
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


@pytest.mark.parametrize("method", ["auto", "fw", "exact", "perturb"])
def test_odd_groups_have_no_perfect_matching(method):
    # The local polytope of a triangle is one point, and no mixture of matchings.
    np.testing.assert_allclose(LocalMatching(3).marginals(np.array([1.0, 2.0, 3.0])).tau, 0.5)
    with pytest.raises(InfeasibleError, match="odd"):
        marginals(LocalMatching(3), np.zeros(3), method)


FORBIDDEN = [
    BipartiteMatching((2, 2)),
    BipartiteMatching((1, 1)),
    BipartiteMatching((2, 3)),
    LocalMatching(4),
    MatchingPolytope(4),
    LocalMatching(4, capacity=2),
]
SINGLES = BipartiteMatching((1, 1), perfect=False)
TWO_TRIANGLES = LocalMatching(
    SimpleGraph.from_edges(6, [(0, 1), (0, 2), (1, 2), (3, 4), (3, 5), (4, 5)])[0]
)


@pytest.mark.parametrize(
    ("structure", "method"),
    [
        *itertools.product(FORBIDDEN, METHODS),
        *itertools.product([Sequences([1], 2), Sequences([3, 1], 2)], ["auto", "exact"]),
    ],
)
def test_scores_that_leave_nothing(structure, method):
    with pytest.raises(InfeasibleError):
        marginals(structure, np.full(structure.n_scored, -np.inf), method)


@pytest.mark.parametrize(
    ("call", "structure", "scores", "error", "message"),
    [
        (sample, LocalMatching(3), np.zeros(3), InfeasibleError, "odd"),
        (log_partition_bounds, LocalMatching(3), np.zeros(3), InfeasibleError, "odd"),
        (marginals, TWO_TRIANGLES, np.zeros(6), InfeasibleError, None),
        (marginals, SINGLES, [0.0, -np.inf, 0.0], ValueError, "perfect"),
        (marginals, None, np.zeros(3), TypeError, "structure"),
    ],
)
def test_structures_and_scores_that_do_not_fit(call, structure, scores, error, message):
    with pytest.raises(error, match=message):
        call(structure, scores)


@pytest.mark.parametrize(
    ("error", "message", "method", "options"),
    [
        (ValueError, "`method` must be one of", "best", {}),
        (ValueError, "`method` must be one of", None, {}),
        (TypeError, "max_iter: method='auto'", "auto", {"max_iter": 3}),
        (TypeError, "sweeps: method='fw'", "fw", {"sweeps": 3}),
        (TypeError, "damping: method='exact'", "exact", {"damping": 0.5}),
        (ValueError, "`tol` must be", "auto", {"tol": -1.0}),
        (ValueError, "`tol` must be", "auto", {"tol": np.nan}),
        (TypeError, "`tol` must be", "fw", {"tol": "small"}),
        (ValueError, "`max_iter` must be", "fw", {"max_iter": 0}),
        (ValueError, "`max_iter` must be", "fw", {"max_iter": 2.5}),
        (ValueError, "max_time", "fw", {"max_time": -1.0}),
        (ValueError, "`method` must be one of", "oracle", {}),
        (TypeError, "variant: method='fw'", "fw", {"variant": "plain"}),
        (ValueError, "`step` must be one of", "fw", {"step": "long"}),
        (ValueError, "`n_samples` must be", "perturb", {"n_samples": 0}),
        (ValueError, "`n_samples` must be", "perturb", {"n_samples": 1.5}),
    ],
)
def test_options_that_make_no_sense(error, message, method, options):
    with pytest.raises(error, match=message):
        marginals(BipartiteMatching((2, 2)), np.zeros(4), method, **options)


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


def test_stopping_early_is_reported():
    scores = 3.0 * np.random.default_rng(0).normal(size=(6, 6))
    with pytest.warns(ConvergenceWarning, match="method='fw'"):
        found = marginals(BipartiteMatching((6, 6)), scores, "fw", max_iter=3)
    assert not found.converged
    assert found.gap > 1e-6


def test_the_report_says_what_was_done():
    found = marginals(BipartiteMatching((3, 3)), np.eye(3))
    assert (found.method, found.of, found.converged) == ("auto", "log Z_rho", True)
    assert "gap" in repr(found)


def test_frank_wolfe_stops_in_time_and_tells_its_gap():
    # 28 states: the gap to reach would take tens of thousands of MAP calls.
    rng = np.random.default_rng(0)
    structure = Sequences([12], 28)
    scores = 3.0 * rng.normal(size=structure.n_coordinates)
    with pytest.warns(ConvergenceWarning, match=r"stopped after \d+ calls at a gap of"):
        found = marginals(structure, scores, "fw", tol=1e-6, max_time=0.2)
    assert found.calls < 10_000
    exact = structure.exact(scores).log_partition
    assert found.log_partition <= exact + 1e-9 <= found.log_partition + found.gap + 2e-9
