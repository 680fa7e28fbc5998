"""Working sets of vertices and batches of oracle calls, and what they save."""

import time

import numpy as np
import pytest
from bipartite_matchings import complete
from dual_problems import image_problem, matching_problem, solve
from hypothesis import given, settings
from hypothesis import strategies as st

from mlestruct.features import DenseFeatures
from mlestruct.learning import (
    Block,
    BlockFrankWolfe,
    DualProblem,
    FrankWolfe,
    Stopping,
    merge_equal,
)
from mlestruct.learning.block_steps import batches
from mlestruct.learning.linear_step import WorkingSet
from mlestruct.structures import BinaryPairwise, BipartiteMatching, Vertex


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 6), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_best_vertex_is_that_of_the_last_different_ones(size, n_added, seed):
    rng = np.random.default_rng(seed)
    kept, added = WorkingSet(size), []
    for _ in range(n_added):
        indices = np.flatnonzero(rng.random(4) < 0.5)  # none is a vertex too
        vertex = Vertex(indices, np.ones(indices.size))
        kept.add(vertex, indices.astype(float))
        dense = vertex.dense(4).tolist()
        added = [point for point in added if point != dense] + [dense]
        direction = rng.normal(size=4)
        score, found, moments = kept.best(direction)
        assert score == pytest.approx((np.array(added[-size:]) @ direction).max())
        assert found.dot(direction) == pytest.approx(score)
        np.testing.assert_array_equal(moments, found.indices)


def test_an_empty_working_set_has_no_vertex():
    assert WorkingSet(3).best(np.ones(4)) is None


@pytest.mark.parametrize("problem", [matching_problem(3)[1], image_problem()], ids=["m", "i"])
def test_working_sets_lead_to_the_same_optimum(problem):
    best = solve(problem, "lbfgs")
    found = solve(problem, BlockFrankWolfe(working_set=10), Stopping(tol=1e-3, max_iter=5000))
    assert found.converged
    assert found.primal <= best.objective + 1e-9
    assert best.primal <= found.objective + 1e-9


def test_oracle_calls_are_counted_and_saved_where_one_block_has_many_samples(monkeypatch):
    rng = np.random.default_rng(0)
    structure = complete(6, rho=0.9).structure
    features = DenseFeatures(rng.normal(size=(36, 4)))
    labels = [rng.permutation(6) for _ in range(50)]
    blocks = [Block(structure, features, structure.encode(label)) for label in labels]
    problem = DualProblem(merge_equal(blocks), 1.0)
    calls = []
    decode = BipartiteMatching.decode

    def counted(self, *args, **kwargs):
        calls.append(1)
        return decode(self, *args, **kwargs)

    monkeypatch.setattr(BipartiteMatching, "decode", counted)
    counts = []
    for size in (0, 20):
        calls.clear()
        solver = BlockFrankWolfe(working_set=size)
        found = solve(problem, solver, Stopping(tol=1e-3, max_iter=100_000))
        assert found.converged
        assert found.oracle_calls == len(calls)
        counts.append(len(calls))
    assert counts[1] < 0.5 * counts[0]


@pytest.mark.parametrize(
    "solver",
    [FrankWolfe(), BlockFrankWolfe(batch=3), BlockFrankWolfe(batch=2, sampling="uniform")],
    ids=str,
)
@pytest.mark.parametrize("problem", [matching_problem(4)[1], image_problem()], ids=["m", "i"])
def test_threads_do_not_change_the_result(solver, problem):
    stopping = Stopping(tol=0.0, max_iter=8)
    one, three = (solve(problem, solver, stopping, n_jobs=n_jobs) for n_jobs in (1, 3))
    np.testing.assert_array_equal(one.theta, three.theta)
    assert one.history.gap == three.history.gap
    assert one.oracle_calls == three.oracle_calls


@pytest.mark.parametrize("solver", [FrankWolfe(), BlockFrankWolfe(batch=4)], ids=str)
def test_oracle_calls_overlap_on_threads(solver, monkeypatch):
    problem = image_problem(n_images=4)
    decode, inside, most = BinaryPairwise.decode, [], []

    def slow(self, *args, **kwargs):
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.05)
        found = decode(self, *args, **kwargs)
        inside.pop()
        return found

    monkeypatch.setattr(BinaryPairwise, "decode", slow)
    solve(problem, solver, Stopping(tol=0.0, max_iter=3), n_jobs=4)
    assert max(most[: len(most) // 2]) == 4
    assert max(most[len(most) // 2 :]) == 4  # waiting takes no CPU time, and counts nevertheless


@given(st.lists(st.integers(0, 5), min_size=1), st.integers(1, 4))
def test_batches_keep_the_order_and_repeat_no_block(blocks, size):
    found = list(batches(blocks, size))
    assert [m for batch in found for m in batch] == blocks
    for batch in found:
        assert len(batch) <= size
        assert len(set(batch)) == len(batch)


@pytest.mark.parametrize("batch", [1, 3])
def test_passes_over_working_sets_alone_do_not_count(batch):
    problem = image_problem()
    solver = BlockFrankWolfe(working_set=50, batch=batch)
    found = solve(problem, solver, Stopping(tol=0.0, max_iter=12))
    # Every counted pass makes a MAP call; certificates one per block.
    assert found.iterations == 12
    assert found.oracle_calls >= 12
    best = solve(problem, "lbfgs")
    assert found.primal - 1e-9 <= best.objective
    assert best.primal <= found.objective + 1e-9
