"""The loss of any output space."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..structures.contract import LabellingStructure, StructureLike, as_structure
from . import checks
from .autograd import Keys, Observed
from .nll_loss import IGNORED, Batch, Bools, NLLLoss


class StructuredLoss(NLLLoss):
    """Negative log-likelihood of the outputs of any space.

    Parameters
    ----------
    structure : an output space, one of `mlestruct.structures` or your own; a space that has only a
        decoder (`DecoderSpace`) is asked tens of times for each sample
    reduction, tol, n_jobs : as in `NLLLoss`; n_jobs=1 for a decoder that threads cannot share
    max_iter : calls of the decoder for one sample at most

    Notes
    -----
    The loss takes, in this order:

    * scores: tensor of shape (B, n_coordinates), or (B, n_scored) if single nodes score 0
    * target: list of B outputs, as `structure.encode` takes them; -100 ignores nodes of labellings

    Examples
    --------
    >>> import torch
    >>> from mlestruct.structures import ExactInference, Subsets
    >>> from mlestruct.torch import StructuredLoss
    >>> loss_of = StructuredLoss(ExactInference(Subsets(4, 2)))
    >>> loss = loss_of(torch.zeros(1, 4), [[1, 0, 0, 1]])  # one of the six pairs
    >>> round(float(loss.exp()), 3)
    6.0
    """

    def __init__(
        self,
        structure: StructureLike,
        reduction: str = "mean",
        *,
        max_iter: int = 1000,
        **options: Any,
    ):
        super().__init__(reduction, **options)
        self.structure, self.max_iter = as_structure(structure), int(max_iter)

    def forward(self, scores: Any, target: Any, keys: Keys = None) -> Tensor:
        """The loss of a batch; `keys` are names of its samples, for warm starts."""
        return self._loss(self._read(scores), target, keys)

    def _read(self, scores: Any) -> Batch:
        space = self.structure
        shapes = dict.fromkeys((("B", space.n_scored), ("B", space.n_coordinates)))
        values = checks.finite(checks.scores(scores, "scores", *shapes), "scores")
        missing = values.new_zeros(len(values), space.n_coordinates - values.shape[1])
        samples = self._samples([space] * len(values))
        return Batch(torch.cat([values, missing], dim=1).flatten(), samples, scores)

    def _observe(self, batch: Batch, target: Any) -> tuple[list[Observed], Bools]:
        if len(target) != len(batch.like):
            raise ValueError(f"target: expected {len(batch.like)} outputs, got {len(target)}")
        observed = [self._known(f"target[{b}]", label) for b, label in enumerate(target)]
        return observed, np.array([known is not None for known in observed], dtype=bool)

    def _known(self, where: str, label: Any) -> Observed:
        """The output, or the labellings that agree with the nodes that are not ignored."""
        label = label.detach().cpu().numpy() if isinstance(label, Tensor) else label
        listed = isinstance(label, np.ndarray | list)
        ignored = np.asarray(label) == IGNORED if listed else np.zeros(1, dtype=bool)
        if not np.any(ignored):
            try:
                return self.structure.encode(label)
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from None
        if not isinstance(self.structure, LabellingStructure):
            raise ValueError(f"{where}: only nodes of labellings can be ignored (-100)")
        return None if np.all(ignored) else self.structure.given(np.where(ignored, -1, label))

    def _table(self, batch: Batch, tau: Tensor) -> Tensor:
        table = tau.reshape(len(batch.like), self.structure.n_coordinates)
        return table[:, : batch.like.shape[1]].to(batch.like)

    def _labels(self, batch: Batch, found: list[Any]) -> list[Any]:
        return found
