"""Likelihood losses and layers for PyTorch: scores of any network, structured outputs.

A loss takes the scores that a network makes and returns the negative log-likelihood
log Z_rho - <scores, y> of observed outputs y, to be minimised. Its gradient in the scores is
marginals minus observed output, from the marginal oracle of the output space; nothing is unrolled.
"""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "mlestruct.torch needs PyTorch: pip install 'mlestruct[torch]'", name="torch"
    ) from error

from . import functional
from .batching import Oracle
from .layer import StructuredLayer
from .losses import (
    ChainNLLLoss,
    GraphNLLLoss,
    GridNLLLoss,
    GroupMatchingNLLLoss,
    MatchingNLLLoss,
    StructuredLoss,
)
from .neural_crf import NeuralCRF
from .training import FallingTolerance

__all__ = [
    "ChainNLLLoss",
    "FallingTolerance",
    "GraphNLLLoss",
    "GridNLLLoss",
    "GroupMatchingNLLLoss",
    "MatchingNLLLoss",
    "NeuralCRF",
    "Oracle",
    "StructuredLayer",
    "StructuredLoss",
    "functional",
]
