"""Output spaces that only a decoder describes, against enumeration and closed forms."""

import numpy as np
import own_decoders as own
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlestruct.inference import log_partition_bounds, marginals, sample
from mlestruct.structures import DecoderSpace, Decoding, Vertex, coordinate_entropy, factor_entropy

seeds = st.integers(0, 10_000)


@settings(deadline=None, max_examples=15)
@given(seeds, st.sampled_from([0.3, 1.0, 3.0]))
def test_bounds_hold_log_z(seed, scale):
    scores = scale * np.random.default_rng(seed).normal(size=9)
    for decode, outputs in (
        (own.assignment, own.assignments(3)),
        (own.top_three, own.subsets(9, 3)),
    ):
        bounds = log_partition_bounds(DecoderSpace(decode, 9), scores, tol=1e-3)
        exact = own.log_z(outputs, scores)
        assert bounds.lower <= exact + 1e-9
        assert exact <= bounds.upper + 1e-9
        assert "independent" in bounds.upper_reason


@settings(deadline=None, max_examples=15)
@given(seeds)
def test_any_set_of_outputs_as_random_sets(seed):
    """log Z_rho of the default entropy lies in the interval; mixtures do not do better."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 7))
    outputs = np.unique(rng.integers(0, 2, size=(int(rng.integers(2, 9)), n)), axis=0).astype(float)
    space = DecoderSpace(lambda s: outputs[np.argmax(outputs @ s)], n)
    np.testing.assert_array_equal(space.varies, outputs.max(axis=0) > outputs.min(axis=0))
    scores = rng.normal(size=n)
    found = marginals(space, scores, tol=1e-4)
    assert found.gap <= 1e-4
    for _ in range(50):
        tau = rng.dirichlet(np.full(len(outputs), 0.5)) @ outputs
        value = scores @ tau + space.entropy(tau)
        assert value <= found.log_partition + found.gap + 1e-9
    assert own.log_z(outputs, scores) <= found.log_partition + found.gap + 1e-9
    assert abs(scores @ found.tau + space.entropy(found.tau) - found.log_partition) <= 1e-9


def test_marginals_of_subsets_are_a_shifted_logistic():
    """max <s, tau> + sum h(tau_k) with sum tau = k: tau = logistic(s - price)."""
    scores = np.random.default_rng(0).normal(size=9)
    tau = marginals(DecoderSpace(own.top_three, 9), scores, tol=1e-7).tau
    shift = scores - np.log(tau / (1 - tau))
    assert np.ptp(shift) < 1e-2
    assert tau.sum() == pytest.approx(3.0)


def test_the_bethe_entropy_of_assignments_from_factors():
    n = 4
    groups = [list(range(n * i, n * i + n)) for i in range(n)]
    groups += [list(range(j, n * n, n)) for j in range(n)]
    bethe = factor_entropy(n * n, groups, 1.0, coordinates=-1.0)
    tau = np.random.default_rng(1).dirichlet(np.ones(6)) @ own.assignments(4)[:6] * 0.5 + 0.125
    plain = -(tau * np.log(tau)).sum() + ((1 - tau) * np.log(1 - tau)).sum()
    assert bethe(tau) == pytest.approx(plain, abs=1e-8)


def test_gradients_are_finite_differences():
    rng = np.random.default_rng(2)
    entropies = (coordinate_entropy(6), factor_entropy(6, [[0, 1, 2], [2, 3]], [1.0, 0.5]))
    for entropy in entropies:
        tau = rng.uniform(0.2, 0.8, size=6)
        step = 1e-6 * np.eye(6)
        slopes = [(entropy(tau + e) - entropy(tau - e)) / 2e-6 for e in step]
        np.testing.assert_allclose(entropy.gradient(tau), slopes, atol=1e-5)


def test_factors_name_a_coordinate_that_is_not_there():
    with pytest.raises(ValueError, match=r"factors\[1\]: coordinate 7 is not in 0 .. 3"):
        factor_entropy(4, [[0, 1], [7]])


@pytest.mark.parametrize(
    "answer",
    [
        lambda y: y.astype(bool),
        lambda y: y.astype(float) + 1e-9,  # integer programs round like this
        lambda y: list(y),
        lambda y: Vertex(np.flatnonzero(y), np.ones(int(y.sum()))),
        lambda y: Decoding(Vertex(np.flatnonzero(y), np.ones(int(y.sum()))), 0.0),
        lambda y: (y, 1e9),
    ],
)
def test_what_decoders_may_return(answer):
    y = own.top_three(np.arange(8.0)).astype(int)
    space = DecoderSpace(lambda scores: answer(own.top_three(scores).astype(int)), 8)
    np.testing.assert_array_equal(space.label(space.decode(np.arange(8.0)).vertex), y)


def test_the_upper_bound_of_a_decoder_is_kept():
    space = DecoderSpace(lambda s: (own.top_three(s), 40.0), 8, exact=False)
    found = space.decode(np.arange(8.0))
    assert (found.score, found.upper_bound, found.gap) == (18.0, 40.0, 22.0)
    assert space.has_bound


def test_labels_and_hamming_loss():
    space = DecoderSpace(own.top_three, 8)
    rng = np.random.default_rng(3)
    for y in own.subsets(8, 3)[:5]:
        vertex = space.encode(y)
        np.testing.assert_array_equal(space.label(vertex), y)
        constant, scores = space.hamming_loss(vertex)
        other = own.subsets(8, 3)[rng.integers(56)]
        assert constant + scores @ other == pytest.approx(np.mean(other != y))


def test_perturbed_samples_are_outputs():
    drawn = sample(DecoderSpace(own.assignment, 9), np.zeros(9), 200, "perturb", random_state=0)
    assert drawn.method == "perturb"
    tables = drawn.labels.reshape(-1, 3, 3)
    assert (tables.sum(axis=1) == 1).all()
    assert (tables.sum(axis=2) == 1).all()
    assert np.abs(tables.mean(axis=0) - 1 / 3).max() < 0.15


def test_a_heuristic_without_bounds_gives_a_lower_bound_only():
    """Also where it returns outputs that score less than those before."""

    def second_best(scores):
        return np.isin(np.arange(8), np.argsort(-scores, kind="stable")[[0, 1, 3]])

    for seed in range(5):
        scores = 2.0 * np.random.default_rng(seed).normal(size=8)
        bounds = log_partition_bounds(DecoderSpace(second_best, 8, exact=False), scores, tol=1e-3)
        assert bounds.lower <= own.log_z(own.subsets(8, 3), scores) + 1e-9
        assert bounds.upper == np.inf
