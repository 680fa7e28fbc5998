"""Exact log Z, marginals and samples, against enumeration, permanents and hafnians."""

import numpy as np
import pytest
import random_scores
from enumerated_spaces import (
    KINDS,
    ask,
    case_of,
    cases,
    scales,
)
from hypothesis import given, settings
from scipy.special import logsumexp

from mlestruct.inference import log_partition, marginals
from mlestruct.structures import (
    BipartiteMatching,
    LocalMatching,
    MissingCapability,
    Sequences,
    Structure,
)

examples = settings(deadline=None, max_examples=30)


@examples
@given(cases(), random_scores.generators, random_scores.kinds, scales)
def test_exact_is_enumeration(case, rng, kind, scale):
    scores = case.scores(rng, kind, scale)
    found = ask(case, scores, "exact")
    assert (found.of, found.gap) == ("log Z", 0.0)
    assert found.log_partition == pytest.approx(case.log_z(scores), abs=1e-9 * (1 + scale))
    np.testing.assert_allclose(found.tau, case.tau(scores), atol=1e-9)


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
    for method in ("auto", "exact"):
        found = marginals(Sequences(7, 3), (nodes, edges), method)
        assert found.of == "log Z"
        assert found.log_partition == pytest.approx(np.log(vector.sum()), abs=1e-9)


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


def codes_of(case, labels):
    """The number of each label among the outputs; raises unless it is one."""
    rows = {tuple(vertex): k for k, vertex in enumerate(case.vertices.astype(int).tolist())}
    dense = (case.structure.encode(label).dense(case.size) for label in labels)
    return np.array([rows[tuple(point.astype(int).tolist())] for point in dense])


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
