"""`Problem`: what all losses need of a batch, whatever the shape of its scores.

A subclass reads the tensors of a family of outputs into the scores of all coordinates (`scores`,
part of PyTorch's graph) and the output spaces (`batch`), and brings marginals and outputs back into
the shape of what was given.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .autograd import TIGHT, Marginal, NegativeLogLikelihood
from .batching import Batch, Oracle, SequenceBatch

IGNORED = -100  # target of what does not count, as in PyTorch's losses
UNMATCHED = -1  # target of a node without a partner
REDUCTIONS = ("mean", "sum", "none")


class Problem:
    """A batch of scores over output spaces.

    scores : float64 tensor of shape (n_coordinates,), on the CPU
    like : the tensor whose dtype and device results have
    """

    scores: Tensor
    batch: Batch | SequenceBatch
    like: Tensor

    def observe(self, target: Any) -> tuple[Any, Tensor]:
        """What `batch.given` takes, and which samples have anything observed."""
        raise NotImplementedError

    def tables(self, tau: Tensor) -> Any:
        """Marginals in the shape of the scores."""
        raise NotImplementedError

    def labels(self, found: Any) -> Any:
        """Outputs in the shape of the target."""
        raise NotImplementedError

    # ------------------------------------------------------------------ questions
    def loss(
        self,
        target: Any,
        reduction: str = "mean",
        oracle: Oracle | None = None,
        keys: Sequence[Hashable] | None = None,
    ) -> Tensor:
        """The negative log-likelihood of `target`; shape (n_samples,) or a scalar."""
        check_reduction(reduction)
        observed, counts = self.observe(target)
        losses = NegativeLogLikelihood.apply(
            self.scores, self.batch, observed, oracle or Oracle(), self._check(keys)
        )
        if reduction == "mean":
            losses = losses.sum() / max(int(counts.sum()), 1)
        elif reduction == "sum":
            losses = losses.sum()
        return losses.to(self.like)

    def marginals(
        self, oracle: Oracle | None = None, keys: Sequence[Hashable] | None = None
    ) -> Any:
        """Marginal probabilities, differentiable in the scores."""
        oracle = oracle or Oracle()
        batch = self.batch
        found = batch.marginals(self.scores.detach().numpy(), oracle, self._check(keys))
        oracle.last_gap = torch.from_numpy(found.gap)
        samples = torch.from_numpy(batch.sample_of_coordinate)

        def near(scores: Any) -> Any:
            return batch.marginals(scores, oracle, tol=TIGHT).tau

        return self.tables(Marginal.apply(self.scores, samples, found.tau, near))

    def decode(self, oracle: Oracle | None = None) -> Any:
        """The most probable outputs."""
        return self.labels(self.batch.decode(self.scores.detach().numpy(), oracle or Oracle()))

    def _check(self, keys: Sequence[Hashable] | None) -> Sequence[Hashable] | None:
        if keys is None:
            return None
        listed = keys.tolist() if isinstance(keys, Tensor) else list(keys)
        if len(listed) != len(self.batch):
            raise ValueError(
                f"keys: expected one for each of {len(self.batch)} samples, got {len(listed)}"
            )
        return listed


def check_reduction(reduction: str) -> str:
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction: expected one of {', '.join(REDUCTIONS)}, got {reduction!r}")
    return reduction


def read_tensor(values: Any, name: str, dims: str, n_dims: int | tuple[int, ...]) -> Tensor:
    """A tensor of floating-point numbers; `dims` says in messages what its dimensions are."""
    allowed = (n_dims,) if isinstance(n_dims, int) else n_dims
    if not isinstance(values, Tensor) or not values.is_floating_point():
        kind = values.dtype if isinstance(values, Tensor) else type(values).__name__
        raise TypeError(f"{name}: expected a tensor of floating-point numbers, got {kind}")
    if values.dim() not in allowed:
        raise ValueError(f"{name}: expected shape {dims}, got {tuple(values.shape)}")
    return values


def exact(values: Tensor) -> Tensor:
    """In float64 on the CPU; PyTorch converts gradients back."""
    return values.to("cpu", torch.float64)


def require_finite(scores: Tensor, name: str, allow_forbidden: bool) -> None:
    """Raise for NaN and inf, and for -inf where it cannot mean that something is forbidden."""
    values = scores.detach()
    wrong = ~torch.isfinite(values)
    if allow_forbidden:
        wrong &= values != -torch.inf
    if bool(wrong.any()):
        at = tuple(int(k) for k in wrong.nonzero()[0])
        wanted = "finite numbers or -inf (forbidden)" if allow_forbidden else "finite numbers"
        raise ValueError(f"{name}: expected {wanted}, got {float(values[at])} at {at}")


def read_mask(mask: Any, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """A boolean array; all True without a mask."""
    if mask is None:
        return np.ones(shape, dtype=bool)
    values = torch.as_tensor(mask).detach().cpu()
    if tuple(values.shape) != shape:
        raise ValueError(f"{name}: expected shape {shape}, got {tuple(values.shape)}")
    if values.dtype != torch.bool and not bool(((values == 0) | (values == 1)).all()):
        raise ValueError(f"{name}: expected booleans, True where a node is part of its sample")
    return values.bool().numpy()


def read_integers(given: Any, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Whole numbers of the given shape."""
    values = torch.as_tensor(given).detach().cpu()
    if tuple(values.shape) != shape:
        raise ValueError(f"{name}: expected shape {shape}, got {tuple(values.shape)}")
    if values.is_floating_point() or values.is_complex() or values.dtype == torch.bool:
        raise TypeError(f"{name}: expected integers, got {values.dtype}")
    return values.numpy().astype(np.int64)
