"""Sequences as an output space, against enumeration of all labellings."""

import numpy as np
import pytest
from enumerated_sequences import enumerate_sequence, random_sequences
from scipy.optimize import minimize_scalar

from mlestruct.structures.contract import Structure
from mlestruct.structures.sequences import Sequences


def by_chain(chains, values):
    """Node and edge parts of an array of coordinates, chain by chain."""
    n = chains.n_states
    cut = chains.n_nodes * n
    nodes, edges = values[:cut].reshape(-1, n), values[cut:].reshape(-1, n, n)
    for c in range(chains.n_sequences):
        first, last = chains.starts[c], chains.starts[c + 1]
        yield nodes[first:last], edges[first - c : last - c - 1]


@pytest.mark.parametrize("n_states", [2, 3, 5])
@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0, 1e4])
def test_marginals_and_decoding_agree_with_enumeration(n_states, scale):
    rng = np.random.default_rng(0)
    chains, scores = random_sequences(rng, (4, 1, 3, 2), n_states, scale)
    assert isinstance(chains, Structure)
    found = chains.marginals(scores)
    states = chains.label(chains.decode(scores).vertex)
    log_z = 0.0
    parts = zip(by_chain(chains, scores), by_chain(chains, found.tau), strict=True)
    for c, ((nodes, tables), (tau_nodes, tau_edges)) in enumerate(parts):
        exact, node, edge, best = enumerate_sequence(nodes, tables)
        log_z += exact
        np.testing.assert_allclose(tau_nodes, node, atol=1e-10)
        np.testing.assert_allclose(tau_edges, edge, atol=1e-10)
        np.testing.assert_array_equal(states[chains.starts[c] : chains.starts[c + 1]], best)
    assert found.value == found.upper_bound == pytest.approx(log_z, rel=1e-12)


@pytest.mark.parametrize("size", [50.0, 800.0, 1e4, 1e8])
def test_scores_of_any_size_give_finite_consistent_marginals(size):
    rng = np.random.default_rng(1)
    chains, scores = random_sequences(rng, (60, 7), 4, size)
    scores[rng.random(scores.size) < 0.3] *= -1.0
    found = chains.marginals(scores)
    assert np.isfinite(found.tau).all()
    assert np.isfinite(found.value)
    for nodes, edges in by_chain(chains, found.tau):
        np.testing.assert_allclose(nodes.sum(axis=1), 1.0, atol=1e-9)
        np.testing.assert_allclose(edges.sum(axis=2), nodes[:-1], atol=1e-7)
        np.testing.assert_allclose(edges.sum(axis=1), nodes[1:], atol=1e-7)
    # log Z exceeds the best score by at most the logarithm of the number of labellings.
    best = chains.decode(scores).score
    slack = 1e-12 * abs(best)
    assert best - slack <= found.value <= best + 67 * np.log(4) + slack


def test_a_state_that_only_a_far_token_needs_does_not_underflow():
    """Linear sums would lose the only path that the end allows."""
    chains = Sequences([3], 2)
    nodes = np.array([[0.0, -900.0], [0.0, 0.0], [-2000.0, 0.0]])
    tables = np.array([[[0.0, -2000.0], [-2000.0, 0.0]]] * 2)
    found = chains.marginals(np.concatenate([nodes.ravel(), tables.ravel()]))
    exact, node, _, _ = enumerate_sequence(nodes, tables)
    assert found.value == pytest.approx(exact, abs=1e-9)
    np.testing.assert_allclose(found.tau[:6].reshape(3, 2), node, atol=1e-12)


def test_entropy_is_exact_and_its_gradient_is_its_derivative():
    rng = np.random.default_rng(0)
    chains, scores = random_sequences(rng)
    found = chains.marginals(scores)
    assert scores @ found.tau + chains.entropy(found.tau) == pytest.approx(found.value, abs=1e-10)
    n_labellings = 3 ** sum((4, 1, 3, 2))
    assert chains.entropy(chains.interior()) == pytest.approx(np.log(n_labellings))
    # The gradient at the marginals is normal to the polytope: nothing feasible improves them.
    other = chains.marginals(scores + rng.normal(size=scores.size)).tau
    gradient = scores + chains.entropy_gradient(found.tau)
    assert gradient @ (other - found.tau) == pytest.approx(0.0, abs=1e-9)
    step = 1e-6
    for tau, towards in ((found.tau, other), (other, chains.interior())):
        d = towards - tau
        difference = chains.entropy(tau + step * d) - chains.entropy(tau - step * d)
        assert chains.entropy_gradient(tau) @ d == pytest.approx(difference / (2 * step), rel=1e-6)


@pytest.mark.parametrize("lengths", [(1,), (2,), (6,), (5, 1, 4)])
@pytest.mark.parametrize("scale", [0.3, 3.0, 10.0])
@pytest.mark.parametrize("quadratic", [0.0, 2.0, 300.0])
def test_line_search_finds_the_minimum_towards_a_vertex(lengths, scale, quadratic):
    rng = np.random.default_rng(2)
    chains, scores = random_sequences(rng, lengths, 4, scale)
    tau = chains.marginals(scores).tau
    vertex = chains.encode(rng.integers(4, size=chains.n_nodes))
    d = vertex.dense(tau.size) - tau
    linear = chains.entropy_gradient(tau) @ d - 5.0  # slope -5 at 0

    def objective(eta):
        return linear * eta + 0.5 * quadratic * eta**2 - chains.entropy(tau + eta * d)

    entropy = chains.stepping_entropy
    _, sums = entropy.add_gradient(tau, np.zeros_like(tau))
    eta = entropy.line_search(tau, vertex, sums, linear, quadratic, 0.05, 1 - 1e-9, 1e-6)
    best = minimize_scalar(objective, bounds=(0, 1), method="bounded", options={"xatol": 1e-10})
    assert objective(eta) <= best.fun + 1e-7 * max(1.0, abs(best.fun))


def test_encode_inverts_label_and_hamming_loss_counts_tokens():
    rng = np.random.default_rng(0)
    chains, _ = random_sequences(rng)
    one, other = rng.integers(3, size=(2, chains.n_nodes))
    np.testing.assert_array_equal(chains.label(chains.encode(one)), one)
    constant, scores = chains.hamming_loss(chains.encode(one))
    assert constant + chains.encode(other).dot(scores) == pytest.approx(np.mean(one != other))
    for wrong in ([0, 1], [3] * chains.n_nodes, [-1] * chains.n_nodes):
        with pytest.raises(ValueError, match="states"):
            chains.encode(wrong)
    for lengths in ([], [2, 0]):
        with pytest.raises(ValueError, match="at least 1"):
            Sequences(lengths, 2)
