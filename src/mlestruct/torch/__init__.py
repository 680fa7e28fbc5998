"""Likelihood losses for PyTorch: scores of any network, structured outputs.

A loss takes the scores that a network makes and returns the negative log-likelihood
log Z_rho - <scores, y> of observed outputs y, to be minimised. Its gradient in the scores is
marginals minus observed output, from the marginal oracle of the output space; nothing is unrolled.
"""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "mlestruct.torch needs PyTorch. Run pip install '.[torch]' in a copy of the source.",
        name="torch",
    ) from error

from .labellings import ChainNLLLoss, GraphNLLLoss, GridNLLLoss
from .matchings import GroupMatchingNLLLoss, MatchingNLLLoss
from .structured import StructuredLoss

__all__ = [
    "ChainNLLLoss",
    "GraphNLLLoss",
    "GridNLLLoss",
    "GroupMatchingNLLLoss",
    "MatchingNLLLoss",
    "StructuredLoss",
]
