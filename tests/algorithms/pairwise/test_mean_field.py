"""Mean field: lower bounds of log Z by independent nodes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labellings import Labellings, grid_edges, loopy
from random_scores import draw_scores, generators, kinds
from scipy.special import softmax, xlogy

from mlestruct.algorithms.pairwise.mean_field import mean_field

examples = settings(deadline=None, max_examples=40)


few = settings(deadline=None, max_examples=15)


scales = st.sampled_from([0.1, 1.0, 10.0, 1000.0, 1e6])


def rounding(scores):
    return 1e-8 + 1e-12 * np.abs(scores).sum()


def model(space, scores):
    """The arguments of the lower bounds."""
    return space.n_nodes, space.tail, space.head, *space.tables(scores)


def independent(space, q):
    """Coordinates and entropy of independent nodes."""
    pairs = q[space.tail][:, :, None] * q[space.head][:, None, :]
    return np.concatenate([q.ravel(), pairs.ravel()]), -xlogy(q, q).sum()


# ---------------------------------------------------------------------- independent nodes
@examples
@given(loopy(max_nodes=6, n_states=(2, 3)), kinds, scales)
def test_mean_field_is_a_lower_bound(sample, kind, scale):
    space, rng = sample
    scores = draw_scores(rng, space.size, kind, scale)
    start = rng.dirichlet(np.ones(space.n_states), space.n_nodes)
    q, value = mean_field(*model(space, scores), starts=[start])
    point, entropy = independent(space, q)
    np.testing.assert_allclose(q.sum(axis=1), 1.0, rtol=1e-12)
    assert value == pytest.approx(scores @ point + entropy, abs=rounding(scores))
    assert value <= space.log_partition(scores) + rounding(scores)
    point, entropy = independent(space, start)
    assert value >= scores @ point + entropy - rounding(scores)


@few
@given(loopy(max_nodes=6, n_states=(2, 3)))
def test_mean_field_stops_where_no_node_can_gain(sample):
    space, rng = sample
    scores = rng.normal(size=space.size)
    q, _ = mean_field(*model(space, scores), tol=1e-14, max_sweeps=5000)
    nodes, pairs = space.tables(scores)
    field = nodes.copy()
    for (i, j), table in zip(space.edges, pairs, strict=True):
        field[i] += table @ q[j]
        field[j] += q[i] @ table
    np.testing.assert_allclose(q, softmax(field, axis=1), atol=1e-5)


def test_mean_field_never_falls():
    rng = np.random.default_rng(0)
    space = Labellings(9, grid_edges(3, 3), 3)
    scores = 3.0 * rng.normal(size=space.size)
    values = [mean_field(*model(space, scores), tol=0.0, max_sweeps=k)[1] for k in range(12)]
    assert np.all(np.diff(values) >= -1e-12)
    assert values[-1] > values[0] + 1.0


def test_mean_field_keeps_the_best_start():
    rng = np.random.default_rng(1)
    space = Labellings(9, grid_edges(3, 3))
    scores = 5.0 * rng.normal(size=space.size)
    starts = [rng.dirichlet(np.ones(2), 9) for _ in range(6)]
    each = [mean_field(*model(space, scores), starts=[start])[1] for start in starts]
    assert mean_field(*model(space, scores), starts=starts)[1] == max(each) > min(each)


@few
@given(generators)
def test_mean_field_without_edges_is_exact(rng):
    space = Labellings(5, np.zeros((0, 2), dtype=int), 3)
    scores = rng.normal(size=space.size)
    q, value = mean_field(*model(space, scores))
    assert value == pytest.approx(space.log_partition(scores))
    np.testing.assert_allclose(q.ravel(), space.exact_marginals(scores), rtol=1e-9)
