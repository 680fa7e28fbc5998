"""Paths against enumeration: the entropy is exact, so approximate and exact answers agree."""

import numpy as np
import pytest
from enumerated_outputs import check_against_enumeration
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from mlestruct import BlockFrankWolfe, StructuredCRF, check_structure
from mlestruct.exceptions import InfeasibleError
from mlestruct.inference import marginals
from mlestruct.structures import Paths

EDGES = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (2, 4), (3, 5), (4, 5), (4, 3), (6, 5), (1, 7)]


def all_paths(edges, source, target):
    if source == target:
        return [[]]
    found = []
    for k, (a, b) in enumerate(edges):
        if a == source:
            found += [[k, *rest] for rest in all_paths(edges, b, target)]
    return found


def outputs():
    paths = all_paths(EDGES, 0, 5)
    return np.array([np.isin(np.arange(len(EDGES)), path) for path in paths], dtype=float)


@settings(deadline=None, max_examples=8)
@given(st.integers(0, 1000), st.sampled_from([0.3, 3.0, 100.0]))
def test_against_enumeration(seed, scale):
    rng = np.random.default_rng(seed)
    scores = scale * rng.normal(size=len(EDGES))
    check_against_enumeration(Paths(EDGES, 0, 5), outputs(), scores, rng, 300)


@settings(deadline=None, max_examples=8)
@given(st.integers(0, 1000))
def test_frank_wolfe_and_the_oracle_agree(seed):
    """From the decoder alone with the exact entropy: log Z itself."""
    scores = np.random.default_rng(seed).normal(size=len(EDGES))
    found = marginals(Paths(EDGES, 0, 5), scores, method="fw", tol=1e-6)
    exact = logsumexp(outputs() @ scores)
    assert found.log_partition <= exact + 1e-9 <= found.log_partition + found.gap + 2e-9


def test_two_parallel_ways():
    space = Paths([(0, 1), (0, 1)], 0, 1)
    tau = marginals(space, [0.0, np.log(4.0)]).tau
    np.testing.assert_allclose(tau, [0.2, 0.8], atol=1e-9)


def test_learning_by_decoding_and_by_marginals_find_the_same():
    rng = np.random.default_rng(2)
    space = Paths(EDGES, 0, 5)
    X = [rng.normal(size=(len(EDGES), 2)) for _ in range(15)]
    Y = [space.exact(x @ [1.0, -1.0]).sample(1, rng)[0] for x in X]
    exact = StructuredCRF(structure=space, tol=1e-6).fit(X, Y)
    assert exact.solver_ == "lbfgs"
    decoded = StructuredCRF(structure=space, solver=BlockFrankWolfe(), tol=0.02).fit(X, Y)
    assert decoded.objective_bound_ >= exact.objective_
    assert decoded.objective_ <= exact.objective_bound_ + 1e-9


def test_the_contract_holds():
    assert check_structure(Paths(EDGES, 0, 5)).passed


def test_graphs_without_a_path():
    with pytest.raises(InfeasibleError, match="no path from 5 to 0"):
        Paths(EDGES, 5, 0)
    with pytest.raises(ValueError, match="on a cycle or behind one"):
        Paths([(0, 1), (1, 2), (2, 1)], 0, 2)
    with pytest.raises(ValueError, match="edges: expected whole numbers"):
        Paths([(0.5, 1.0)], 0, 1)
    with pytest.raises(ValueError, match="numbered from 0"):
        Paths([(-1, 1)], 0, 1)
