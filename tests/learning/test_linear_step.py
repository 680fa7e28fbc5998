"""Working sets of vertices, and what they save."""

import numpy as np
import pytest
from bipartite_matchings import complete
from dual_problems import image_problem, matching_problem, solve
from hypothesis import given, settings
from hypothesis import strategies as st

from mlestruct.features import DenseFeatures
from mlestruct.learning import Block, BlockFrankWolfe, DualProblem, Stopping, merge_equal
from mlestruct.learning.linear_step import WorkingSet
from mlestruct.structures import BipartiteMatching, Vertex


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
