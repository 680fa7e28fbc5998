"""`StructuredLayer`: marginals as the output of a layer, with implicit gradients."""

from __future__ import annotations

from typing import Any

from torch import nn

from .losses import NLLLoss, StructuredLoss


class StructuredLayer(nn.Module):
    """Marginals of an output space in the forward pass.

    The backward pass multiplies by the Hessian of log Z_rho without recording how marginals were
    found; see `mlestruct.torch.autograd`.

    Parameters
    ----------
    space : an output space, as `StructuredLoss` takes it, or a loss, whose `marginals` the layer
        then returns for the same scores and masks
    tol : certified gap of log Z_rho to reach, per node of a sample; by default that of the loss

    Examples
    --------
    >>> import torch
    >>> from mlestruct.torch import ChainNLLLoss, StructuredLayer
    >>> layer = StructuredLayer(ChainNLLLoss())
    >>> scores = torch.zeros(1, 3, 2, requires_grad=True)
    >>> alike = 2.0 * torch.eye(2)
    >>> layer(scores, alike)[0, 0, 0].backward()  # how much state 0 of token 0 depends on all
    >>> scores.grad[0, :, 0]
    tensor([0.2500, 0.1904, 0.1450])
    """

    def __init__(self, space: Any, *, tol: float | None = None):
        super().__init__()
        self.loss = space if isinstance(space, NLLLoss) else StructuredLoss(space)
        if tol is not None:
            self.loss.tol = tol

    def forward(self, *scores: Any, **options: Any) -> Any:
        """Marginals; takes what `marginals` of the loss takes."""
        return self.loss.marginals(*scores, **options)
