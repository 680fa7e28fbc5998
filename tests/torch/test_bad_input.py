"""Errors of the losses name the argument, what was found and what would be right."""

import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")

from mlestruct.structures import Subsets  # noqa: E402
from mlestruct.torch import (  # noqa: E402
    ChainNLLLoss,
    GraphNLLLoss,
    GridNLLLoss,
    GroupMatchingNLLLoss,
    MatchingNLLLoss,
    StructuredLoss,
)

PAIRS, GROUP, TABLE = torch.zeros(1, 2, 2), torch.zeros(1, 3, 3), torch.zeros(2, 2)
TOKENS, NODES, IMAGE = torch.zeros(1, 2, 2), torch.zeros(3, 2), torch.zeros(1, 2, 2, 2)
STATES, LABELS = [[0, 1]], [0, 1, 1]
matching, group, chain = MatchingNLLLoss(), GroupMatchingNLLLoss(), ChainNLLLoss()
graph, image, subsets = GraphNLLLoss(), GridNLLLoss(), StructuredLoss(Subsets(4, 2))
whole_pairs, whole_group = MatchingNLLLoss(perfect=True), GroupMatchingNLLLoss(perfect=True)

# fmt: off
BAD = [  # function, arguments, message
    (MatchingNLLLoss, ("avg",), "`reduction` must be one of mean, sum, none; got 'avg'"),
    (lambda rho: MatchingNLLLoss(rho=rho), (0.3,), "`rho` must be a number from 1/2 to 1; got 0.3"),
    (lambda rho: GridNLLLoss(rho=rho), ([1],), "`rho` must be 'auto' or a number"),
    (lambda tol: MatchingNLLLoss(tol=tol), (0.0,), "`tol` must be a positive number; got 0.0"),
    (matching, (TABLE, STATES), r"scores: expected shape \(B, n, m\), got \(2, 2\)"),
    (matching, (np.zeros((1, 2, 2)), STATES), "`scores` must be a tensor .* got ndarray"),
    (matching, (PAIRS.long(), STATES), "`scores` must be a tensor .* got torch.int64"),
    (matching, (PAIRS * torch.nan, STATES), "scores: expected finite numbers, got nan"),
    (matching, (PAIRS, [[0, 1, 1]]), r"target: expected shape \(1, 2\), got \(1, 3\)"),
    (matching, (PAIRS, [[0.0, 1.0]]), "target: expected integers, got torch.float32"),
    (matching, (PAIRS, [[0, 2]]), r"target\[0, 1\] is 2; expected 0 to 1, -1"),
    (matching, (PAIRS, [[0, 0]]), r"target\[0\]: .*0"),
    (matching, (PAIRS, STATES, None, [[1, 0]]), r"target\[0\]: 1 has partner 1, which the mask"),
    (matching, (PAIRS, STATES, [[1, 2]]), "row_mask: expected booleans"),
    (matching, (PAIRS, STATES, [[True]]), r"row_mask: expected shape \(1, 2\), got \(1, 1\)"),
    (whole_pairs, (PAIRS, [[0, -1]]), r"target\[0\]: .*perfect=False"),
    (group, (torch.zeros(1, 2, 3), STATES), r"scores: expected shape \(B, n, n\), got \(1, 2, 3\)"),
    (group, (GROUP, [[1, 2, 0]]), r"target\[0\]"),
    (whole_group, (GROUP, [[1, 0, -1]]), "odd number"),
    (chain, (TOKENS, torch.zeros(3, 3), STATES), "transitions: expected shape .* got"),
    (chain, (TOKENS, TABLE * torch.nan, STATES), "transitions: expected finite numbers or -inf"),
    (chain, (TOKENS[..., :1], TABLE[:1, :1], STATES), "expected at least 2 states, got 1"),
    (chain, (TOKENS, TABLE, [[0, -1]]), r"target: expected states 0 to 1, or -100 .* got -1"),
    (chain, (TOKENS, TABLE, STATES, [[True]]), r"mask: expected shape \(1, 2\), got \(1, 1\)"),
    (graph, (NODES, TABLE, LABELS, [[0], [3]]), "edge_index: edge 0 is .*; nodes are 0 to 2"),
    (graph, (NODES, TABLE, LABELS, [0, 1]), r"edge_index: expected shape \(2, E\), got \(2,\)"),
    (graph, (NODES, TABLE, LABELS, [[0], [1]], [1, 0, 0]), "batch: expected rising integers"),
    (graph, (NODES, TABLE, LABELS, [[0], [1]], [0, 1, 1]), "edge_index: .* different graphs"),
    (image, (IMAGE, torch.zeros(3, 3), [[[0, 1]] * 2]), "edge_scores: expected shape .* got"),
    (subsets, (torch.zeros(1, 3), STATES), r"scores: expected shape \(B, 4\), got \(1, 3\)"),
    (subsets, (torch.zeros(1, 4), []), "target: expected 1 outputs, got 0"),
    (subsets, (torch.zeros(1, 4), [[1, 1]]), r"target\[0\]"),
    (subsets, (torch.zeros(1, 4), [[-100, 1, 1, 0]]), "only nodes of labellings can be ignored"),
    (StructuredLoss, ("trees",), "structure: expected an output space"),
]
# fmt: on


@pytest.mark.parametrize(("function", "arguments", "message"), BAD, ids=[bad[2] for bad in BAD])
def test_errors_name_the_argument(function, arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        function(*arguments)


def test_keys_name_all_samples():
    with pytest.raises(ValueError, match="keys: expected one for each of 1 samples, got 2"):
        matching(PAIRS, STATES, keys="ab")


def test_without_pytorch_the_error_names_the_extra():
    code = "import sys; sys.modules['torch'] = None; import mlestruct.torch"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "mlestruct.torch needs PyTorch. Run pip install '.[torch]'" in run.stderr
