"""Several Markov chains that run until they agree: split R-hat and effective sample size.

Chains start from different states and run until split R-hat, which compares the variance between
chains with that within them, is near 1 (Gelman et al., Bayesian Data Analysis, 3rd edition, section
11.4), for every traced function of the state. Then states are drawn from all chains in turn, two
autocorrelation times apart.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

Floats = NDArray[np.float64]

N_FUNCTIONS = 4  # random functions of a state that samplers trace besides the total score


class ChainSpace(Protocol):
    """A state space with a transition kernel; `run` changes a state in place."""

    def start(self, rng: np.random.Generator, near_the_best: bool) -> Any:
        """An initial state: one of high score, or a random one."""

    def run(self, state: Any, rng: np.random.Generator, n_sweeps: int) -> Floats:
        """Make n_sweeps sweeps; returns the traced functions, shape (n_sweeps, n_functions)."""

    def read(self, state: Any) -> NDArray[Any]:
        """A copy of the state in the form in which it is returned."""


@dataclass(frozen=True)
class Draws:
    """States drawn by `draw`.

    Attributes
    ----------
    states : array of shape (n_samples, ...)
    rhat : largest split R-hat of the traced functions; 1 is perfect
    ess : smallest effective sample size of these, over all chains
    sweeps : sweeps per chain before the first state was drawn
    converged : whether rhat reached its tolerance, with an effective sample size that it needs
    """

    states: NDArray[Any]
    rhat: float
    ess: float
    sweeps: int
    converged: bool


def draw(
    space: ChainSpace,
    n_samples: int,
    *,
    what: str,
    n_chains: int = 2,
    sweeps: int = 100,
    max_sweeps: int = 50_000,
    tol_rhat: float = 1.05,
    least_ess: float = 100.0,
    rng: np.random.Generator,
    stacklevel: int = 3,
) -> Draws:
    """Draw states from chains that agree; `what` names the sampler in a warning.

    The first half of each chain is discarded. The length of the chains doubles until they agree or
    reach `max_sweeps` sweeps: then they are used with a ConvergenceWarning. With an effective
    sample size below `least_ess` R-hat itself is too noisy.
    """
    for name, value, least in (
        ("n_samples", n_samples, 1),
        ("n_chains", n_chains, 1),
        ("sweeps", sweeps, 8),
        ("max_sweeps", max_sweeps, sweeps),
    ):
        if value < least:
            raise ValueError(f"{name}: expected at least {least}, got {value}")
    if not tol_rhat > 1.0:
        raise ValueError(f"tol_rhat: expected more than 1, got {tol_rhat}")
    streams = rng.spawn(n_chains)
    states = [space.start(stream, c % 2 == 0) for c, stream in enumerate(streams)]
    chains = list(zip(states, streams, strict=True))
    traces = np.stack([space.run(state, stream, sweeps) for state, stream in chains])
    while True:
        length = traces.shape[1]
        kept = traces[:, length // 2 :]
        rhat, ess = split_rhat(kept), effective_size(kept)
        converged = rhat <= tol_rhat and ess >= least_ess
        growth = min(length, max_sweeps - length)
        if converged or growth == 0:
            break
        more = np.stack([space.run(state, stream, growth) for state, stream in chains])
        traces = np.concatenate([traces, more], axis=1)
    if not converged:
        warnings.warn(
            f"{what}: no convergence after {length} sweeps: R-hat is {rhat:.3f}, should "
            f"be at most {tol_rhat:g}; the effective sample size is {ess:.0f}, should be at least "
            f"{least_ess:.0f}; raise max_sweeps, or use smaller scores",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )
    autocorrelation_time = n_chains * kept.shape[1] / max(ess, 1.0)
    spacing = int(np.ceil(2.0 * autocorrelation_time))
    drawn = []
    for s in range(n_samples):
        state, stream = chains[s % n_chains]
        if s >= n_chains:
            space.run(state, stream, spacing)
        drawn.append(space.read(state))
    return Draws(np.array(drawn), rhat, ess, length, converged)


def split_rhat(traces: Floats) -> float:
    """The largest R-hat of halved chains; traces of shape (n_chains, length, n_functions).

    The square root of an overestimate of each function's variance over an underestimate.
    """
    halves = _halves(traces)
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    between = halves.mean(axis=1).var(axis=0, ddof=1)
    moving = within > 1e-20 * np.maximum(1.0, (halves**2).mean(axis=(0, 1)))
    apart = between > 1e-20 * np.maximum(1.0, (halves**2).mean(axis=(0, 1)))
    share = (halves.shape[1] - 1) / halves.shape[1]
    ratio = np.where(moving, share + between / np.where(moving, within, 1.0), 1.0)
    return float(np.sqrt(np.where(~moving & apart, np.inf, ratio).max()))


def effective_size(traces: Floats) -> float:
    """The smallest effective number of independent draws, with Geyer's initial monotone sequence.

    Autocorrelations are pooled over halves of chains as in R-hat, so disagreement between chains
    counts as correlation. At most the number of draws.
    """
    halves = _halves(traces)
    n_chains, length, n_functions = halves.shape
    centred = halves - halves.mean(axis=1, keepdims=True)
    spectrum = np.abs(np.fft.rfft(centred, 2 * length, axis=1)) ** 2
    covariance = np.fft.irfft(spectrum, axis=1)[:, :length].mean(axis=0) / length
    within = covariance[0] * length / (length - 1)
    between = halves.mean(axis=1).var(axis=0, ddof=1)
    total = within * (length - 1) / length + between
    smallest = float(n_chains * length)
    for k in range(n_functions):
        if total[k] <= 1e-20 * max(1.0, float((halves[:, :, k] ** 2).mean())):
            continue  # constant
        correlation = 1.0 - (within[k] - covariance[:, k]) / total[k]
        correlation[0] = 1.0
        pairs = correlation[: length // 2 * 2].reshape(-1, 2).sum(axis=1)
        negative = np.flatnonzero(pairs < 0.0)
        pairs = pairs[: negative[0]] if negative.size else pairs
        time = 2.0 * float(np.minimum.accumulate(pairs).sum()) - 1.0
        smallest = min(smallest, n_chains * length / max(time, 1.0))
    return smallest


def _halves(traces: Floats) -> Floats:
    half = traces.shape[1] // 2
    return np.concatenate([traces[:, :half], traces[:, traces.shape[1] - half :]])
