"""log Z_rho of a batch and its derivatives; no iteration of an oracle is recorded.

The first derivative of log Z_rho are the marginals tau. The derivative of tau along a direction v
is the Hessian of log Z_rho times v. Implicit differentiation by perturbation (Domke 2010) finds it
from two more answers of the oracle, at a tight tolerance, at scores + h v and scores - h v.

An oracle answers for a whole batch, whose scores are one array. `Samples` asks the output space of
every sample, over threads; `Chains` solves all sequences in one forward-backward pass.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from .._running import threaded_map
from ..algorithms.fully_corrective import fully_corrective_marginals
from ..algorithms.pairwise.forward_backward import forward_backward
from ..exceptions import InfeasibleError
from ..structures.contract import Marginals, Structure, Vertex
from ..structures.sequences import Sequences

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Keys = Sequence[Hashable] | None
Solution = tuple[Floats, Floats, Floats]
Observed = Structure | Vertex | None  # a space of outputs, a single output, nothing to choose

TIGHT = 1e-14  # gap per node of the perturbed answers, as far as rounding allows


class LogPartition(torch.autograd.Function):
    """log Z_rho of every sample, the marginals of all coordinates, the gap of every sample."""

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, oracle: Samples | Chains | Difference, keys: Keys
    ) -> tuple[Tensor, ...]:
        solution = oracle.solve(scores.detach().numpy(), keys)
        log_z, tau, gap = (torch.from_numpy(part) for part in solution)
        ctx.oracle = oracle
        ctx.save_for_backward(scores, tau)  # tau is an output and has a derivative of its own
        ctx.mark_non_differentiable(gap)
        ctx.set_materialize_grads(False)
        return log_z, tau, gap

    @staticmethod
    def backward(ctx: Any, of_log_z: Any, of_tau: Any, _: Any) -> tuple[Any, None, None]:
        scores, tau = ctx.saved_tensors
        gradient = None
        if of_log_z is not None:
            gradient = of_log_z[torch.from_numpy(ctx.oracle.sample)] * tau
        if of_tau is not None:
            product = _hessian_product(ctx, scores, of_tau)
            gradient = product if gradient is None else gradient + product
        return gradient, None, None


@once_differentiable
def _hessian_product(ctx: Any, scores: Tensor, direction: Tensor) -> Tensor:
    """The Hessian of log Z_rho of every sample times `direction`."""
    at, along, sample = scores.numpy(), direction.numpy(), ctx.oracle.sample
    largest = np.zeros(ctx.oracle.n_samples)
    np.maximum.at(largest, sample, np.abs(along))
    # The largest change of a score: its cube and the oracle's errors over it are both small.
    h = 1e-3 / np.where(largest > 0.0, largest, 1.0)[sample]
    above, below = (ctx.oracle.solve(at + step * along, tol=TIGHT)[1] for step in (h, -h))
    return torch.from_numpy((above - below) / (2.0 * h))


@dataclass(frozen=True)
class Difference:
    """log Z_rho of all outputs minus log Z_rho of the outputs that agree with observed labels."""

    all: Samples | Chains
    observed: Samples | Chains

    @property
    def n_samples(self) -> int:
        return self.all.n_samples

    @property
    def sample(self) -> Ints:
        return self.all.sample

    def solve(self, scores: Floats, keys: Keys = None, tol: float | None = None) -> Solution:
        """Differences of log Z_rho and of marginals, sums of gaps."""
        log_z, tau, gap = self.all.solve(scores, keys, tol)
        score, known, other_gap = self.observed.solve(scores, keys, tol)
        return log_z - score, tau - known, gap + other_gap


@dataclass
class Samples:
    """One output space per sample.

    spaces : the outputs of every sample: a space, a single output, or None if there is only one
    sizes : the number of coordinates of every sample
    tol, n_jobs, max_iter, warm : of the loss
    """

    spaces: Sequence[Observed]
    sizes: list[int]
    tol: float
    n_jobs: int
    max_iter: int
    warm: dict[Hashable, tuple[str, Any]]
    observed: bool = False

    def __post_init__(self) -> None:
        self.n_samples = len(self.spaces)
        self.starts: list[int] = np.cumsum([0, *self.sizes]).tolist()
        self.sample = np.repeat(np.arange(self.n_samples), np.diff(self.starts))

    def given(self, spaces: Sequence[Observed]) -> Samples:
        """The oracle of the outputs that agree with what is observed."""
        return replace(self, spaces=spaces, observed=True)

    def solve(self, scores: Floats, keys: Keys = None, tol: float | None = None) -> Solution:
        """log Z_rho, marginals, gaps (inf without a certificate); warm starts under `keys`."""
        log_z, gap = np.zeros((2, self.n_samples))
        tau = np.zeros(self.starts[-1])

        def ask(b: int) -> None:
            space, own = self.spaces[b], slice(self.starts[b], self.starts[b + 1])
            if isinstance(space, Vertex):
                tau[own], log_z[b] = space.dense(self.sizes[b]), space.dot(scores[own])
            elif space is not None:
                key = None if keys is None else (keys[b], self.observed)
                found = self._marginals(space, scores[own], key, tol or self.tol)
                tau[own], log_z[b] = found.tau, found.value
                gap[b] = found.gap if space.has_bound else np.inf

        with threaded_map(self.n_jobs, self.n_samples) as mapped:
            list(mapped(ask, range(self.n_samples)))
        return log_z, tau, gap

    def _marginals(self, space: Structure, scores: Floats, key: Any, tol: float) -> Marginals:
        name, warm = self.warm.get(key, ("", None))
        warm = warm if name == space.fingerprint else None
        goal = tol * max(space.n_nodes, 1)
        if space.offers("marginals"):
            found = space.marginals(scores, warm, goal)
        else:
            by_calls = fully_corrective_marginals(space, scores, goal, self.max_iter, known=warm)
            tau, value, upper, calls, outputs = by_calls
            found = Marginals(tau, value, upper, outputs, calls)
        if key is not None:
            self.warm[key] = space.fingerprint, found.warm
        return found

    def decode(self, scores: Floats) -> list[Any]:
        """The best output of every sample, None if there is no choice."""

        def best(space: Any, start: int, size: int) -> Any:
            return None if space is None else space.best_label(scores[start : start + size])

        with threaded_map(self.n_jobs, self.n_samples) as mapped:
            return list(mapped(best, self.spaces, self.starts[:-1], self.sizes))


class Chains:
    """The sequences of all samples in one output space, whose nodes come before its edges.

    lengths : the number of nodes of every sample, possibly 0
    """

    def __init__(self, lengths: Ints, n_states: int):
        self.n_samples, self.full = lengths.shape[0], np.flatnonzero(lengths)
        self.space = Sequences(lengths[self.full], n_states) if self.full.size else None
        of_node = np.repeat(np.arange(self.n_samples), lengths)
        of_edge = of_node[self.space.tails] if self.space else of_node
        self.n_edges = of_edge.shape[0]
        self.sample = np.append(np.repeat(of_node, n_states), np.repeat(of_edge, n_states**2))
        self.states: Ints | None = None

    def given(self, states: Ints) -> Chains:
        """The oracle of the labellings with these states; -1 for unobserved states."""
        chains = copy(self)
        chains.states = states
        return chains

    def solve(self, scores: Floats, keys: Keys = None, tol: float | None = None) -> Solution:
        """log Z, marginals, gaps of 0."""
        log_z, gap = np.zeros((2, self.n_samples))
        if self.space is None:
            return log_z, np.zeros(0), gap
        if self.states is not None and (self.states >= 0).all():
            label = self.space.encode(self.states)
            at, tau = label.indices, label.dense(scores.shape[0])
            log_z += np.bincount(self.sample[at], scores[at], self.n_samples)
        else:
            nodes, edges = self.space.score_tables(scores)
            if self.states is not None:
                other = np.arange(nodes.shape[1]) != self.states[:, None]
                nodes = np.where(other & (self.states[:, None] >= 0), -np.inf, nodes)
            with np.errstate(invalid="ignore"):  # of chains whose labellings are all forbidden
                found = forward_backward(self.space.starts, nodes, edges)
            log_z[self.full] = found.log_z
            tau = self.space.from_tables(found.nodes, found.edges)
        if not np.isfinite(log_z).all():
            what = "every output" if self.states is None else "the target"
            b = int(np.argmin(np.isfinite(log_z)))
            raise InfeasibleError(f"scores of -inf forbid {what} of sample {b}", [], "nodes")
        return log_z, tau, gap

    def decode(self, scores: Floats) -> list[Ints]:
        """The best state of every node, all sequences in one array."""
        return [self.space.best_label(scores)] if self.space else []
