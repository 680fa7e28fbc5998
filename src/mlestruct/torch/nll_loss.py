"""`NLLLoss`: what all losses share."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..structures.contract import Structure
from .autograd import Difference, Keys, LogPartition, Samples

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

IGNORED = -100  # target of what does not count, as in PyTorch's losses


class Batch(NamedTuple):
    """What a loss has read.

    scores : float64 tensor of shape (n_coordinates,), on the CPU
    oracle : answers for all samples
    like : the scores as they were given; results have their dtype and device
    exists : boolean arrays, the nodes that are not padding
    place : the place of every coordinate in `like`
    """

    scores: Tensor
    oracle: Any
    like: Tensor
    exists: tuple[Bools, ...] = ()
    place: Any = None


class NLLLoss(nn.Module):
    """log Z_rho minus log Z_rho of the outputs that agree with the target.

    Parameters
    ----------
    reduction : "mean" over the samples of which something is observed, "sum" or "none"
    tol : certified gap of log Z_rho to reach, per node of a sample. Marginals, and with them
        gradients, are exact up to about its root. It may change at any time: `loss.tol = 1e-3`
    n_jobs : threads over the samples of a batch; by default as many as PyTorch uses

    Attributes
    ----------
    last_gap : tensor of shape (n_samples,), the certificates of the last call: the loss of sample b
        is exact up to last_gap[b]; inf without a certificate
    warm : dict of the warm starts of samples with keys; `loss.warm.clear()` drops them
    """

    max_iter = 1000
    _read: Callable[..., Batch]  # from scores and masks
    _observe: Callable[[Batch, Any], tuple[Any, Bools]]  # what is known, and of which samples
    _table: Callable[[Batch, Tensor], Any]  # marginals in the shape of the scores
    _labels: Callable[[Batch, Any], Any]  # outputs in the shape of the target

    def __init__(self, reduction: str = "mean", *, tol: float = 1e-6, n_jobs: int | None = None):
        super().__init__()
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f"`reduction` must be one of mean, sum, none; got {reduction!r}.")
        if not tol > 0.0:
            raise ValueError(f"`tol` must be a positive number; got {tol!r}.")
        self.reduction, self.tol, self.n_jobs = reduction, float(tol), n_jobs
        self.last_gap: Tensor | None = None
        self.warm: dict[Hashable, tuple[str, Any]] = {}

    def extra_repr(self) -> str:
        names = [name for name in ("reduction", "rho", "perfect", "tol") if name in vars(self)]
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)

    def _loss(self, batch: Batch, target: Any, keys: Keys) -> Tensor:
        observed, some = self._observe(batch, target)
        difference = Difference(batch.oracle, batch.oracle.given(observed))
        losses, _, self.last_gap = self._solve(batch.scores, difference, keys)
        losses = torch.where(torch.from_numpy(some), losses, 0.0)
        if self.reduction == "mean":
            losses = losses.sum() / max(int(some.sum()), 1)
        elif self.reduction == "sum":
            losses = losses.sum()
        return losses.to(batch.like)

    def marginals(self, *scores: Any, keys: Keys = None, **masks: Any) -> Any:
        """Marginals in the shape of the scores; differentiable.

        Takes what the loss takes, without the target.
        """
        batch = self._read(*scores, **masks)
        _, tau, self.last_gap = self._solve(batch.scores, batch.oracle, keys)
        return self._table(batch, tau)

    def decode(self, *scores: Any, **masks: Any) -> Any:
        """The best outputs in the shape of the target; -100 for padding.

        Takes what the loss takes, without the target.
        """
        batch = self._read(*scores, **masks)
        return self._labels(batch, batch.oracle.decode(batch.scores.detach().numpy()))

    @staticmethod
    def _solve(scores: Tensor, oracle: Any, keys: Keys) -> tuple[Tensor, Tensor, Tensor]:
        if keys is not None:
            keys = keys.tolist() if isinstance(keys, Tensor) else list(keys)
            if len(keys) != oracle.n_samples:
                raise ValueError(
                    f"keys: expected one for each of {oracle.n_samples} samples, got {len(keys)}"
                )
        return LogPartition.apply(scores, oracle, keys)

    def _samples(self, spaces: list[Structure | None]) -> Samples:
        sizes = [0 if space is None else space.n_coordinates for space in spaces]
        n_jobs = torch.get_num_threads() if self.n_jobs is None else max(int(self.n_jobs), 1)
        return Samples(spaces, sizes, self.tol, n_jobs, self.max_iter, self.warm)
