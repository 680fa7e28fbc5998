"""Random matchings from the model itself, P(y) proportional to exp(total score), by Markov chains.

Chains start far apart, half of them from a good matching and half from a random one, and run until
they agree: split R-hat compares the variance between chains with that within them (Gelman et al.,
Bayesian Data Analysis, 3rd edition, section 11.4), for the total score and for a few random linear
functions of the matching.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from . import _sampler_kernels as kernels

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
RandomState = int | np.random.Generator | None

N_FUNCTIONS = 4  # random linear functions that are watched besides the total score
LEAST_ESS = 100.0  # below, R-hat itself is too noisy to be trusted


@dataclass(frozen=True)
class MatchingSamples:
    """Matchings drawn by `sample_matchings`.

    Attributes
    ----------
    partners : array of shape (n_samples, n)
        Partner of everyone; for assignments the column of each row, -1 for none.
    rhat : largest split R-hat of the functions that were watched; 1 is perfect
    ess : smallest effective sample size of these, over all chains
    sweeps : sweeps per chain before the first matching was drawn
    converged : whether rhat reached its tolerance, with an effective sample size that it needs
    """

    partners: Ints
    rhat: float
    ess: float
    sweeps: int
    converged: bool


def sample_matchings(
    scores: ArrayLike,
    n_samples: int = 1,
    *,
    bipartite: bool = False,
    n_chains: int = 2,
    sweeps: int = 100,
    max_sweeps: int = 50_000,
    tol_rhat: float = 1.05,
    random_state: RandomState = None,
) -> MatchingSamples:
    """Draw perfect matchings of a complete graph, or assignments, from exp(total score) / Z.

    The first half of each chain is thrown away. Chains grow to twice their length until they agree;
    then matchings are drawn from all of them in turn, as many sweeps apart as it takes to forget.

    Parameters
    ----------
    scores : array
        Of n people, n even: the pairs (0, 1), (0, 2), ..., (1, 2), ... as an array of n (n - 1) / 2
        numbers, or a symmetric matrix, whose diagonal is ignored. With `bipartite`: a matrix; the
        smaller side is matched completely. All finite: a chain cannot step around forbidden pairs.
    n_chains : int, at least 2 to see whether different starts lead to the same place
    sweeps : first length of the chains; a sweep has as many moves as a matching has pairs
    max_sweeps : length at which chains that still disagree are used with a ConvergenceWarning
    tol_rhat : float above 1

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.inference.matching_sampler import sample_matchings
    >>> table = np.zeros((4, 4))
    >>> table[0, 3] = table[3, 0] = 50.0
    >>> sample_matchings(table, random_state=0).partners
    array([[3, 2, 1, 0]])
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
    rng = np.random.default_rng(random_state)
    space: _Space = _Assignments(scores, rng) if bipartite else _Pairings(scores, rng)
    streams = rng.spawn(n_chains)
    states = [space.start(stream, c % 2 == 0) for c, stream in enumerate(streams)]
    chains = list(zip(states, streams, strict=True))
    traces = np.stack([space.run(state, stream, sweeps) for state, stream in chains])
    while True:
        length = traces.shape[1]
        kept = traces[:, length // 2 :]
        rhat, ess = split_rhat(kept), effective_size(kept)
        converged = rhat <= tol_rhat and ess >= LEAST_ESS
        growth = min(length, max_sweeps - length)
        if converged or growth == 0:
            break
        more = np.stack([space.run(state, stream, growth) for state, stream in chains])
        traces = np.concatenate([traces, more], axis=1)
    if not converged:
        warnings.warn(
            f"matching sampler: no convergence after {length} sweeps: R-hat is {rhat:.3f}, should "
            f"be at most {tol_rhat:g}; the effective sample size is {ess:.0f}, should be at least "
            f"{LEAST_ESS:.0f}; raise max_sweeps, or use smaller scores",
            ConvergenceWarning,
            stacklevel=2,
        )
    apart = int(np.ceil(2.0 * n_chains * kept.shape[1] / max(ess, 1.0)))  # twice the memory
    drawn = []
    for s in range(n_samples):
        state, stream = chains[s % n_chains]
        if s >= n_chains:
            space.run(state, stream, apart)
        drawn.append(space.partners(state))
    return MatchingSamples(np.array(drawn), rhat, ess, length, converged)


def split_rhat(traces: Floats) -> float:
    """The largest R-hat of chains that were cut in halves; traces (n_chains, length, n_functions).

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

    Autocorrelations are pooled over halves of chains as in R-hat, so chains that have not met count
    as correlated. Never more than the number of draws.
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
            continue  # constant: every draw is as good as any other
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


class _Space(Protocol):
    """What chains walk in."""

    def start(self, rng: np.random.Generator, greedy: bool) -> Ints: ...

    def run(self, state: Ints, rng: np.random.Generator, n_sweeps: int) -> Floats: ...

    def partners(self, state: Ints) -> Ints: ...


class _Pairings:
    """Perfect matchings of a complete graph; a state is everyone's partner."""

    def __init__(self, scores: ArrayLike, rng: np.random.Generator):
        found = np.asarray(scores, dtype=np.float64)
        self.n = _people(found)
        if found.ndim == 2:
            table = found
            found = found[np.triu_indices(self.n, 1)]
            _require_finite(found)
            if not np.allclose(found, table.T[np.triu_indices(self.n, 1)], rtol=1e-9, atol=1e-12):
                raise ValueError("scores: the matrix is not symmetric; see also bipartite=True")
        _require_finite(found)
        self.scores = np.ascontiguousarray(found)
        self.weights = rng.normal(size=(N_FUNCTIONS, self.n))

    def start(self, rng: np.random.Generator, greedy: bool) -> Ints:
        partner = np.empty(self.n, dtype=np.int64)
        order = rng.permutation(self.n)
        if greedy:
            kernels.best_free_partners(self.scores, order, partner)
        else:
            partner[order[::2]], partner[order[1::2]] = order[1::2], order[::2]
        return partner

    def run(self, state: Ints, rng: np.random.Generator, n_sweeps: int) -> Floats:
        trace = np.empty((n_sweeps, 1 + N_FUNCTIONS))
        kernels.sweep_pairs(self.scores, state, self.weights, rng, trace)
        return trace

    def partners(self, state: Ints) -> Ints:
        return state.copy()


class _Assignments:
    """Injections of the smaller side of a table into the larger; a state orders the larger side."""

    def __init__(self, scores: ArrayLike, rng: np.random.Generator):
        table = np.asarray(scores, dtype=np.float64)
        if table.ndim != 2 or 0 in table.shape:
            raise ValueError(f"scores: expected a matrix for bipartite=True, got {table.shape}")
        _require_finite(table)
        self.turned = table.shape[0] > table.shape[1]
        self.scores = np.ascontiguousarray(table.T if self.turned else table)
        self.weights = rng.normal(size=(N_FUNCTIONS, sum(table.shape)))

    def start(self, rng: np.random.Generator, greedy: bool) -> Ints:
        n_rows, n_cols = self.scores.shape
        column = rng.permutation(n_cols)
        if greedy:
            kernels.best_free_columns(self.scores, rng.permutation(n_rows), column)
        return column

    def run(self, state: Ints, rng: np.random.Generator, n_sweeps: int) -> Floats:
        trace = np.empty((n_sweeps, 1 + N_FUNCTIONS))
        kernels.sweep_rows(self.scores, state, self.weights, rng, trace)
        return trace

    def partners(self, state: Ints) -> Ints:
        used = state[: self.scores.shape[0]]
        if not self.turned:
            return used.copy()
        column = np.full(self.scores.shape[1], -1, dtype=np.int64)
        column[used] = np.arange(used.size)
        return column


def _people(scores: Floats) -> int:
    """How many people the scores are about: an even number."""
    if scores.ndim == 1:
        n = round((1.0 + (1.0 + 8.0 * scores.size) ** 0.5) / 2.0)
        if scores.size == 0 or n * (n - 1) // 2 != scores.size:
            raise ValueError(
                "scores: expected n (n - 1) / 2 numbers, one per pair of n people, "
                f"got {scores.size}"
            )
    elif scores.ndim == 2 and scores.shape[0] == scores.shape[1] > 0:
        n = scores.shape[0]
    else:
        raise ValueError(
            "scores: expected the packed upper triangle or a symmetric matrix, got shape "
            f"{scores.shape}; see also bipartite=True"
        )
    if n % 2:
        raise ValueError(f"scores: a perfect matching needs an even number of people, got {n}")
    return n


def _require_finite(scores: Floats) -> None:
    if np.isnan(scores).any():
        raise ValueError("scores: contain NaN")
    if np.isneginf(scores).any():
        raise ValueError(
            "scores: contain -inf, but forbidden pairs are not supported here: a chain may be "
            "unable to step around them"
        )
    if np.isinf(scores).any():
        raise ValueError("scores: contain infinity")
