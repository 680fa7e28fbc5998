"""Wrong edges, scores and options of algorithms on pairwise models are named."""

import numpy as np
import pytest

from mlestruct.algorithms.pairwise.forward_backward import sample_sequences
from mlestruct.algorithms.pairwise.gibbs import gibbs_samples
from mlestruct.algorithms.pairwise.junction_tree import JunctionTree
from mlestruct.algorithms.pairwise.linear_program import LocalPolytope
from mlestruct.algorithms.pairwise.mean_field import mean_field
from mlestruct.algorithms.pairwise.viterbi import ForestDecoder

TRIANGLE = {"n_nodes": 3, "tail": [0, 1, 0], "head": [1, 2, 2]}
SCORES = {"node_scores": np.zeros((3, 2)), "edge_scores": np.zeros((3, 2, 2))}


def gibbs(n_samples=1, **given):
    gibbs_samples(**given, n_samples=n_samples, rng=np.random.default_rng(0))


def chain(n_samples=1, starts=(0, 3), **given):
    scores = {"node_scores": np.zeros((3, 2)), "edge_scores": np.zeros((2, 2, 2))} | given
    sample_sequences(starts, **scores, n_samples=n_samples, rng=np.random.default_rng(0))


@pytest.mark.parametrize("call", [gibbs, mean_field])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_nodes": 0}, "n_nodes must be at least 1"),
        ({"tail": [0, 1, 5]}, r"tail must be in 0\.\.2"),
        ({"tail": [1, 1, 0]}, "edge 0 joins node 1 to itself"),
        ({"tail": [0, 1, 2], "head": [1, 0, 0]}, "given twice"),
        ({"tail": [0, 1]}, "must have the same length"),
        ({"node_scores": np.zeros((2, 2))}, r"node_scores: expected shape \(3, n_states\)"),
        ({"edge_scores": np.zeros((3, 2, 3))}, r"edge_scores: expected shape \(3, 2, 2\)"),
        ({"node_scores": np.full((3, 2), np.nan)}, "node_scores: contain NaN"),
        ({"edge_scores": np.full((3, 2, 2), np.nan)}, "edge_scores: contain NaN"),
        ({"edge_scores": np.full((3, 2, 2), np.inf)}, "edge_scores: contain infinity"),
    ],
)
def test_models(call, change, message):
    with pytest.raises(ValueError, match=message):
        call(**TRIANGLE | SCORES | change)


@pytest.mark.parametrize(
    ("call", "change", "message"),
    [
        (gibbs, {"node_scores": [[0.0, -np.inf]] * 3}, "node_scores: contain -inf.*step around"),
        (gibbs, {"edge_scores": np.full((3, 2, 2), -np.inf)}, "edge_scores: contain -inf"),
        (gibbs, {"n_samples": 0}, "n_samples: expected at least 1"),
        (gibbs, {"max_sweeps": 50}, "max_sweeps: expected at least 100"),
        (mean_field, {"node_scores": np.full((3, 2), -np.inf)}, "scores must be finite"),
    ],
)
def test_options(call, change, message):
    with pytest.raises(ValueError, match=message):
        call(**TRIANGLE | SCORES | change)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"starts": [0, 2]}, r"starts: expected rising numbers from 0 to 3.*got \[0, 2\]"),
        ({"starts": [0, 2, 2, 3]}, "starts: expected rising"),
        ({"starts": [3]}, "starts: expected rising"),
        ({"node_scores": np.zeros(3)}, r"node_scores: expected shape \(n_nodes, n_states\)"),
        ({"edge_scores": np.zeros((3, 2, 2))}, r"edge_scores: expected shape \(2, 2, 2\) or"),
        ({"node_scores": np.full((3, 2), np.nan)}, "node_scores: contain NaN"),
        ({"edge_scores": np.full((1, 2, 2), np.inf)}, "edge_scores: contain infinity"),
        ({"edge_scores": np.full((1, 2, 2), 1e308)}, "overflow"),
        ({"n_samples": 0}, "n_samples: expected at least 1"),
    ],
)
def test_chains(given, message):
    with pytest.raises(ValueError, match=message):
        chain(**given)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_nodes": 0}, "n_nodes must be at least 1"),
        ({"tail": [0, 1, 5]}, r"tail must be in 0\.\.2"),
        ({"tail": [1, 1, 0]}, "edge 0 joins node 1 to itself"),
        ({"tail": [0, 1, 2], "head": [1, 0, 0]}, "given twice"),
        ({"n_states": 1}, "n_states: expected at least 2"),
        ({"order": [0, 1, 1]}, "order: expected every number from 0 to 2 once"),
    ],
)
def test_junction_trees(change, message):
    with pytest.raises(ValueError, match=message):
        JunctionTree(**TRIANGLE | {"n_states": 2} | change)


@pytest.mark.parametrize("question", ["marginals", "best", "sample"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"node_scores": np.zeros((1, 2, 2))}, r"node_scores: expected shape \(n_samples, 3, 2\)"),
        ({"edge_scores": np.zeros((1, 3, 2, 3))}, r"edge_scores: expected shape \(1, 3, 2, 2\)"),
        ({"edge_scores": np.zeros((2, 3, 2, 2))}, r"edge_scores: expected shape \(1, 3, 2, 2\)"),
        ({"node_scores": np.full((1, 3, 2), np.nan)}, "node_scores: contain NaN"),
        ({"edge_scores": np.full((1, 3, 2, 2), np.inf)}, "edge_scores: contain infinity"),
        ({"node_scores": np.full((1, 3, 2), 1e308)}, "overflow"),
        ({"node_scores": np.full((1, 3, 2), -np.inf)}, "nothing is admissible"),
    ],
)
def test_questions_to_a_junction_tree(question, change, message):
    scores = {"node_scores": np.zeros((1, 3, 2)), "edge_scores": np.zeros((1, 3, 2, 2))} | change
    draws = {"n_draws": 1, "rng": np.random.default_rng(0)} if question == "sample" else {}
    with pytest.raises(ValueError, match=message):
        getattr(JunctionTree(**TRIANGLE, n_states=2), question)(**scores, **draws)


def test_samples_of_a_junction_tree():
    scores = np.zeros((1, 3, 2)), np.zeros((1, 3, 2, 2))
    with pytest.raises(ValueError, match="n_samples: expected at least 1, got 0"):
        JunctionTree(**TRIANGLE, n_states=2).sample(*scores, 0, np.random.default_rng(0))


@pytest.mark.parametrize("kind", [ForestDecoder, LocalPolytope])
def test_solvers_of_an_edge(kind):
    with pytest.raises(ValueError, match="n_states must be at least 1"):
        kind(2, [0], [1], 0)
    solver = kind(2, [0], [1], 2)
    with pytest.raises(ValueError, match=r"scores must have shape \(8,\)"):
        solver.solve(np.zeros(7))
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="scores must be finite"):
            solver.solve(np.full(8, bad))
