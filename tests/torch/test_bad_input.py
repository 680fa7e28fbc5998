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


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: MatchingNLLLoss("avg"), ValueError, "reduction: expected one of mean, sum, none"),
        (lambda: MatchingNLLLoss(rho=0.3), ValueError, "rho: expected a number from 1/2 to 1"),
        (lambda: MatchingNLLLoss(tol=0.0), ValueError, "tol: expected a positive number"),
        (
            lambda: MatchingNLLLoss()(normal(3, 3), [[0]]),
            ValueError,
            r"scores: expected shape \(B, n, m\)",
        ),
        (
            lambda: MatchingNLLLoss()(np.zeros((1, 2, 2)), [[0, 1]]),
            TypeError,
            "scores: expected a tensor",
        ),
        (
            lambda: MatchingNLLLoss()(normal(1, 2, 2), [[0, 1, 1]]),
            ValueError,
            r"target: expected shape \(1, 2\)",
        ),
        (
            lambda: MatchingNLLLoss()(normal(1, 2, 2), [[0.0, 1.0]]),
            TypeError,
            "target: expected integers",
        ),
        (
            lambda: MatchingNLLLoss()(normal(1, 2, 2), [[0, 2]]),
            ValueError,
            r"target\[0, 1\] is 2; expected 0 to 1",
        ),
        (
            lambda: MatchingNLLLoss()(normal(1, 2, 2), [[0, 0]]),
            ValueError,
            r"target\[0\]: 0 is the partner of 2",
        ),
        (
            lambda: MatchingNLLLoss()(normal(1, 2, 2) * torch.nan, [[0, 1]]),
            ValueError,
            "scores: expected finite",
        ),
        (
            lambda: MatchingNLLLoss()(normal(1, 2, 2), [[0, 1]], None, [[1, 0]]),
            ValueError,
            "which the mask leaves out",
        ),
        (
            lambda: MatchingNLLLoss(perfect=True)(normal(1, 2, 2), [[0, -1]]),
            ValueError,
            "perfect=False",
        ),
        (
            lambda: GroupMatchingNLLLoss()(normal(1, 2, 3), [[0, -1]]),
            ValueError,
            r"expected shape \(B, n, n\)",
        ),
        (
            lambda: GroupMatchingNLLLoss()(normal(1, 3, 3), [[1, 2, 0]]),
            ValueError,
            "whose own partner must be",
        ),
        (
            lambda: GroupMatchingNLLLoss(perfect=True)(normal(1, 3, 3), [[1, 0, -1]]),
            InfeasibleError,
            "odd number",
        ),
        (
            lambda: ChainNLLLoss()(normal(1, 2, 2), normal(3, 3), [[0, 1]]),
            ValueError,
            "transitions: expected shape",
        ),
        (
            lambda: ChainNLLLoss()(normal(1, 2, 2), normal(2, 2), [[0, -1]]),
            ValueError,
            "target: expected states 0 to 1",
        ),
        (
            lambda: ChainNLLLoss()(normal(1, 2, 2), normal(2, 2), [[0, 1]], lengths=[3]),
            ValueError,
            "lengths: expected 0 to 2",
        ),
        (
            lambda: GraphNLLLoss()(normal(3, 2), normal(2, 2), [0, 1, 1], [[0], [3]]),
            ValueError,
            "edge_index: edge 0",
        ),
        (
            lambda: GraphNLLLoss()(normal(3, 2), normal(2, 2), [0, 1, 1], [[0], [1]], [1, 0, 0]),
            ValueError,
            "batch: expected rising",
        ),
        (
            lambda: GraphNLLLoss()(normal(3, 2), normal(2, 2), [0, 1, 1], [[0], [1]], [0, 1, 1]),
            ValueError,
            "different graphs",
        ),
        (
            lambda: GridNLLLoss()(normal(1, 2, 2, 2), normal(3, 3), [[[0, 1]] * 2]),
            ValueError,
            "edge_scores: expected shape",
        ),
        (
            lambda: StructuredLoss(Subsets(4, 2))(normal(1, 3), [[1, 1, 0, 0]]),
            ValueError,
            r"scores\[0\]: expected 4 numbers",
        ),
        (
            lambda: StructuredLoss(Subsets(4, 2))(normal(1, 4), []),
            ValueError,
            "target: expected 1 outputs",
        ),
        (
            lambda: StructuredLoss("trees")(normal(1, 4), [[0]]),
            TypeError,
            "structure: expected an output space",
        ),
    ],
)
def test_errors_name_the_argument(call, error, message):
    with pytest.raises(error, match=message):
        call()
