"""Errors of the losses name the argument, what was found and what would be right."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'mlestruct[torch]'")

from mlestruct import InfeasibleError  # noqa: E402
from mlestruct.structures import Subsets  # noqa: E402
from mlestruct.torch import (  # noqa: E402
    ChainNLLLoss,
    GraphNLLLoss,
    GridNLLLoss,
    GroupMatchingNLLLoss,
    MatchingNLLLoss,
    StructuredLoss,
)


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float64)


MATCHING, PERFECT = MatchingNLLLoss(), MatchingNLLLoss(perfect=True)
GROUP, PERFECT_GROUP = GroupMatchingNLLLoss(), GroupMatchingNLLLoss(perfect=True)
CHAIN, GRAPH, SUBSETS = ChainNLLLoss(), GraphNLLLoss(), StructuredLoss(Subsets(4, 2))
GRID = GridNLLLoss()
TWO, THREE, NODES, PAIR = normal(1, 2, 2), normal(1, 3, 3), normal(3, 2), normal(2, 2)


@pytest.mark.parametrize(
    ("loss", "given", "message"),
    [
        (MATCHING, (normal(3, 3), [[0]]), r"scores: expected shape \(B, n, m\)"),
        (MATCHING, (TWO, [[0, 1, 1]]), r"target: expected shape \(1, 2\)"),
        (MATCHING, (TWO, [[0, 2]]), r"target\[0, 1\] is 2; expected 0 to 1"),
        (MATCHING, (TWO, [[0, 0]]), r"target\[0\]: 0 is the partner of 2"),
        (MATCHING, (TWO * torch.nan, [[0, 1]]), "scores: expected finite"),
        (MATCHING, (TWO, [[0, 1]], None, [[1, 0]]), "which the mask leaves out"),
        (PERFECT, (TWO, [[0, -1]]), "perfect=False"),
        (GROUP, (normal(1, 2, 3), [[0, -1]]), r"expected shape \(B, n, n\)"),
        (GROUP, (THREE, [[1, 2, 0]]), "whose own partner must be"),
        (CHAIN, (TWO, normal(3, 3), [[0, 1]]), "transitions: expected shape"),
        (CHAIN, (TWO, PAIR, [[0, -1]]), "target: expected states 0 to 1"),
        (GRAPH, (NODES, PAIR, [0, 1, 1], [[0], [3]]), "edge_index: edge 0"),
        (GRAPH, (NODES, PAIR, [0, 1, 1], [[0], [1]], [1, 0, 0]), "batch: expected rising"),
        (GRAPH, (NODES, PAIR, [0, 1, 1], [[0], [1]], [0, 1, 1]), "different graphs"),
        (GRID, (normal(1, 2, 2, 2), THREE[0], [[[0, 1]] * 2]), "edge_scores: expected shape"),
        (SUBSETS, (normal(1, 3), [[1, 1, 0, 0]]), r"scores\[0\]: expected 4 numbers"),
        (SUBSETS, (normal(1, 4), []), "target: expected 1 outputs"),
    ],
)
def test_errors_of_values(loss, given, message):
    with pytest.raises(ValueError, match=message):
        loss(*given)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: MatchingNLLLoss("avg"), ValueError, "reduction: expected one of mean, sum, none"),
        (lambda: MatchingNLLLoss(rho=0.3), ValueError, "rho: expected a number from 1/2 to 1"),
        (lambda: MatchingNLLLoss(tol=0.0), ValueError, "tol: expected a positive number"),
        (lambda: MATCHING(np.zeros((1, 2, 2)), [[0, 1]]), TypeError, "scores: expected a tensor"),
        (lambda: MATCHING(TWO, [[0.0, 1.0]]), TypeError, "target: expected integers"),
        (lambda: CHAIN(TWO, PAIR, [[0, 1]], lengths=[3]), ValueError, "lengths: expected 0 to 2"),
        (lambda: PERFECT_GROUP(THREE, [[1, 0, -1]]), InfeasibleError, "odd number"),
        (
            lambda: StructuredLoss("s")(PAIR, [[0]]),
            TypeError,
            "structure: expected an output space",
        ),
    ],
)
def test_errors_of_types_and_parameters(call, error, message):
    with pytest.raises(error, match=message):
        call()
