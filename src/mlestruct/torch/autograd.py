"""Derivatives of log Z_rho: the first are marginals, the second their implicit derivative.

No iteration of an oracle is recorded. The loss log Z_rho(scores) - <scores, y> has the gradient
tau - y. The derivative of tau along a direction v is the Hessian of log Z_rho times v, which is
symmetric, so that the same product serves backward and forward. It is found by implicit
differentiation by perturbation (Domke 2010): two more answers of the oracle, warm and at a tight
tolerance, at scores + h v and scores - h v.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from .batching import Keys, Oracle

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TIGHT = 1e-14  # gap per node of the perturbed answers, as far as rounding allows


class NegativeLogLikelihood(torch.autograd.Function):
    """log Z_rho - log Z_rho given what was observed, of every sample; shape (n_samples,)."""

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, batch: Any, observed: Any, oracle: Oracle, keys: Keys
    ) -> Tensor:
        values = scores.detach().numpy()
        free = batch.marginals(values, oracle, keys)
        known = batch.given(observed, values, oracle, keys, free=free)
        if not np.isfinite(known.value).all():
            at = int(np.argmax(~np.isfinite(known.value)))
            raise ValueError(f"target: the output of sample {at} has a score of {known.value[at]}")
        oracle.last_gap = torch.from_numpy(free.gap + known.gap)
        ctx.save_for_backward(scores)
        ctx.batch = batch
        ctx.free = free.tau, lambda near: batch.marginals(near, oracle, tol=TIGHT).tau
        ctx.known = known.tau, lambda near: batch.given(observed, near, oracle, tol=TIGHT).tau
        return torch.from_numpy(free.value - known.value)

    @staticmethod
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor, None, None, None, None]:
        (scores,) = ctx.saved_tensors
        samples = torch.from_numpy(ctx.batch.sample_of_coordinate)
        free, known = (Marginal.apply(scores, samples, *answer) for answer in (ctx.free, ctx.known))
        return weight[samples] * (free - known), None, None, None, None


class Marginal(torch.autograd.Function):
    """Marginals of all coordinates of a batch, shape (n_coordinates,).

    samples : tensor of shape (n_coordinates,), the sample of every coordinate
    tau : the marginals at these scores
    near : function from scores to marginals at a tight tolerance
    """

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, samples: Tensor, tau: Floats, near: Callable[[Floats], Floats]
    ) -> Tensor:
        ctx.save_for_backward(scores)
        ctx.samples, ctx.near = samples.numpy(), near
        return torch.from_numpy(tau)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor, None, None, None]:
        (scores,) = ctx.saved_tensors
        values = scores.detach().numpy(), weight.numpy()
        return torch.from_numpy(hessian_product(*values, ctx.samples, ctx.near)), None, None, None


def hessian_product(
    scores: Floats, direction: Floats, samples: Ints, near: Callable[[Floats], Floats]
) -> Floats:
    """Hessian of log Z_rho of every sample times `direction`, shape (n_coordinates,)."""
    largest = np.zeros(int(samples.max(initial=-1)) + 1)
    np.maximum.at(largest, samples, np.abs(direction))
    # The largest change of a score: its cube and the oracle's errors over it are both small.
    scale = 1e-3 / np.where(largest > 0.0, largest, 1.0)[samples]
    above, below = near(scores + scale * direction), near(scores - scale * direction)
    return (above - below) / (2.0 * scale)
