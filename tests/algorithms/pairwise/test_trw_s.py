"""TRW-S against enumeration, the linear program and local optimality."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labellings import Labellings, grid_edges, random_edges, random_forest
from random_scores import draw_scores, generators, kinds

from mlestruct.algorithms.pairwise.linear_program import LocalPolytope
from mlestruct.algorithms.pairwise.trw_s import TRWS

examples = settings(deadline=None, max_examples=60)
scales = st.sampled_from([0.01, 1.0, 100.0, 1e4])


def check(space, decoder, scores):
    """The bound holds, the value is that of the labels, which no change of a node improves."""
    found = decoder.solve(*space.tables(scores))
    totals = space.vertices @ scores
    slack = 1e-12 * (1.0 + np.abs(scores).sum())
    assert found.labels.dtype == np.int64
    assert found.upper_bound >= totals.max() - slack
    assert found.value == pytest.approx(space.point(found.labels[None])[0] @ scores, abs=slack)
    assert found.value <= min(totals.max() + slack, found.upper_bound)
    allowed = slack + 1e-9 * np.abs(scores).max()
    if found.value < totals.max() - allowed:
        near = (space.labels != found.labels).sum(axis=1) <= 1
        assert totals[near].max() <= found.value + slack
    return found


@examples
@given(st.integers(1, 6), st.sampled_from([2, 3]), st.sampled_from([0.4, 1.0]), generators, kinds,
       scales)  # fmt: skip
def test_bounds_and_labels_of_any_graph(n, n_states, density, rng, kind, scale):
    space = Labellings(n, random_edges(rng, n, density), n_states)
    scores = draw_scores(rng, space.size, kind)
    scores[space.split :] *= scale
    check(space, TRWS(n, space.tail, space.head), scores)


@examples
@given(st.integers(1, 3), st.integers(1, 3), st.booleans(), generators, kinds, scales)
def test_bounds_and_labels_of_grids(height, width, shared, rng, kind, scale):
    edges = grid_edges(height, width)
    space = Labellings(height * width, edges, 3)
    scores = draw_scores(rng, space.size, kind)
    tables = space.tables(scores)[1]
    tables *= scale
    if shared and len(edges):
        tables[:] = tables[0]
    decoder = TRWS(space.n_nodes, space.tail, space.head, (height, width))
    on_grid = check(space, decoder, scores)
    on_graph = check(space, TRWS(space.n_nodes, space.tail, space.head), scores)
    slack = 1e-12 * (1.0 + np.abs(scores).sum())
    assert max(on_grid.value, on_graph.value) <= on_grid.upper_bound + slack


@examples
@given(st.integers(1, 6), st.sampled_from([2, 4]), generators, scales)
def test_forests_are_solved(n, n_states, rng, scale):
    space = Labellings(n, random_forest(rng, n), n_states)
    scores = scale * rng.normal(size=space.size)
    found = check(space, TRWS(n, space.tail, space.head), scores)
    best = (space.vertices @ scores).max()
    assert found.value == pytest.approx(best, abs=1e-8 * scale)
    assert found.upper_bound == pytest.approx(best, abs=1e-8 * scale)


def best_on_grid(height, width, nodes, tables):
    """The largest score, pixel by pixel over the states of the last `width` pixels."""
    split = height * (width - 1)
    best = np.zeros((nodes.shape[1],) * width)  # axis 0 is the oldest pixel
    for k in range(height * width):
        i, j = divmod(k, width)
        new = best[..., None] + nodes[k]
        if j > 0:
            new = new + tables[i * (width - 1) + j - 1]
        if i > 0:
            table = tables[split + k - width]
            new = new + table.reshape(table.shape[0], *(1,) * (width - 1), table.shape[1])
        best = new.max(axis=0)
    return best.max()


@pytest.mark.parametrize("on_grid", [True, False])
@pytest.mark.parametrize("strength", [0.5, 2.0])
def test_bounds_are_close_to_the_linear_program(strength, on_grid):
    height, width, n_states = 8, 7, 3
    tail, head = grid_edges(height, width).T
    rng = np.random.default_rng(0)
    decoder = TRWS(height * width, tail, head, (height, width) if on_grid else None)
    program = LocalPolytope(height * width, tail, head, n_states)
    lost = []
    for _ in range(10):
        nodes = rng.normal(size=(height * width, n_states))
        tables = strength * rng.normal(size=(tail.size, n_states, n_states))
        found = decoder.solve(nodes, tables)
        _, optimum = program.solve(np.concatenate([nodes.ravel(), tables.ravel()]))
        assert found.value <= optimum + 1e-8
        assert found.upper_bound >= optimum - 1e-8
        assert found.upper_bound - optimum <= 0.01 * optimum
        exact = best_on_grid(height, width, nodes, tables)
        assert found.value <= exact + 1e-9
        assert exact <= min(optimum, found.upper_bound) + 1e-8
        lost.append(1.0 - found.value / exact)
    assert np.mean(lost) <= 0.03  # random tables are hard to decode by messages


def test_attractive_images_are_solved_exactly():
    # Potts terms and noisy observations: the relaxation is tight, so the gap closes.
    height, width, n_states = 40, 30, 4
    tail, head = grid_edges(height, width).T
    rng = np.random.default_rng(1)
    truth = np.kron(rng.integers(n_states, size=(4, 3)), np.ones((10, 10), int)).ravel()
    nodes = np.eye(n_states)[truth] + 0.7 * rng.normal(size=(truth.size, n_states))
    tables = np.broadcast_to(0.8 * np.eye(n_states), (tail.size, n_states, n_states))
    found = TRWS(truth.size, tail, head, (height, width)).solve(nodes, tables)
    assert found.upper_bound - found.value <= 1e-8
    assert (found.labels == truth).mean() > 0.9


def test_several_threads_may_share_a_decoder():
    tail, head = grid_edges(6, 6).T
    decoder = TRWS(36, tail, head, (6, 6))
    rng = np.random.default_rng(0)
    problems = [(rng.normal(size=(36, 3)), rng.normal(size=(60, 3, 3))) for _ in range(12)]
    alone = [decoder.solve(*problem).value for problem in problems]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda problem: decoder.solve(*problem).value, problems))
    assert together == alone


def test_large_grids_stop_where_rounding_begins():
    # The relaxation is tight; 22,500 nodes round the bound by more than 1e-9 of one score.
    side, n_states = 150, 3
    rng = np.random.default_rng(2)
    tail, head = grid_edges(side, side).T
    truth = np.kron(rng.integers(n_states, size=(15, 15)), np.ones((10, 10), int)).ravel()
    nodes = 1e6 + np.eye(n_states)[truth] + 0.5 * rng.normal(size=(truth.size, n_states))
    tables = np.broadcast_to(0.8 * np.eye(n_states), (tail.size, n_states, n_states))
    found = TRWS(truth.size, tail, head, (side, side)).solve(nodes, tables)
    assert found.is_best
    assert found.upper_bound - found.value <= 1e-9 * found.upper_bound
    assert (found.labels == truth).mean() > 0.95
