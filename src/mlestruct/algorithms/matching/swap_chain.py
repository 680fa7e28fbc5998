"""Random perfect matchings of complete graphs, and assignments, by swaps of two pairs.

P(y) is proportional to exp(total score). Swaps connect all perfect matchings of a complete graph,
and need no neighbour lists, so that this chain mixes faster per second than that of `worm_chain`
unless the scores are concentrated on few matchings.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..markov_chains import N_FUNCTIONS, ChainSpace, Draws, draw
from . import _swap_chain_kernels as kernels

Floats = NDArray[np.float64]

Ints = NDArray[np.int64]


def sample_by_swaps(
    scores: ArrayLike,
    n_samples: int = 1,
    *,
    bipartite: bool = False,
    n_chains: int = 2,
    sweeps: int = 100,
    max_sweeps: int = 50_000,
    tol_rhat: float = 1.05,
    rng: np.random.Generator,
) -> Draws:
    """Draw perfect matchings of a complete graph, or assignments, from exp(total score) / Z.

    Half of the chains start from a greedy matching and half from a random one. They run until they
    agree (`markov_chains`) in the total score and a few random functions of the matching.

    Parameters
    ----------
    scores : array
        Of n people, n even: the pairs (0, 1), (0, 2), ..., (1, 2), ... as an array of shape
        (n (n - 1) / 2,), or a symmetric matrix of shape (n, n), whose diagonal is ignored. With
        `bipartite`: a matrix of shape (n_rows, n_cols); the smaller side is matched completely.
        All finite: swaps do not connect all matchings if some pairs are forbidden.
    n_chains : int, at least 2 to compare different starts
    sweeps : first length of the chains; a sweep has as many moves as a matching has pairs
    max_sweeps : length at which chains that still disagree are used with a ConvergenceWarning
    tol_rhat : float above 1

    Returns
    -------
    Draws with states of shape (n_samples, n): partners; for assignments the column of each row, -1
    for none

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.algorithms.matching.swap_chain import sample_by_swaps
    >>> table = np.zeros((4, 4))
    >>> table[0, 3] = table[3, 0] = 50.0
    >>> sample_by_swaps(table, rng=np.random.default_rng(0)).states
    array([[3, 2, 1, 0]])
    """
    space: ChainSpace = _AssignmentSwaps(scores, rng) if bipartite else _PairSwaps(scores, rng)
    return draw(
        space,
        n_samples,
        what="swap chain of matchings",
        n_chains=n_chains,
        sweeps=sweeps,
        max_sweeps=max_sweeps,
        tol_rhat=tol_rhat,
        rng=rng,
    )


class _PairSwaps:
    """Perfect matchings of a complete graph; a state has the partner of every node."""

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

    def start(self, rng: np.random.Generator, near_the_best: bool) -> Ints:
        partner = np.empty(self.n, dtype=np.int64)
        order = rng.permutation(self.n)
        if near_the_best:
            kernels.best_free_partners(self.scores, order, partner)
        else:
            partner[order[::2]], partner[order[1::2]] = order[1::2], order[::2]
        return partner

    def run(self, state: Ints, rng: np.random.Generator, n_sweeps: int) -> Floats:
        trace = np.empty((n_sweeps, 1 + N_FUNCTIONS))
        kernels.sweep_pairs(self.scores, state, self.weights, rng, trace)
        return trace

    def read(self, state: Ints) -> Ints:
        return state.copy()


class _AssignmentSwaps:
    """Injections of the smaller side of a table into the larger; a state orders the larger side."""

    def __init__(self, scores: ArrayLike, rng: np.random.Generator):
        table = np.asarray(scores, dtype=np.float64)
        if table.ndim != 2 or 0 in table.shape:
            raise ValueError(f"scores: expected a matrix for bipartite=True, got {table.shape}")
        _require_finite(table)
        self.turned = table.shape[0] > table.shape[1]
        self.scores = np.ascontiguousarray(table.T if self.turned else table)
        self.weights = rng.normal(size=(N_FUNCTIONS, sum(table.shape)))

    def start(self, rng: np.random.Generator, near_the_best: bool) -> Ints:
        n_rows, n_cols = self.scores.shape
        column = rng.permutation(n_cols)
        if near_the_best:
            kernels.best_free_columns(self.scores, rng.permutation(n_rows), column)
        return column

    def run(self, state: Ints, rng: np.random.Generator, n_sweeps: int) -> Floats:
        trace = np.empty((n_sweeps, 1 + N_FUNCTIONS))
        kernels.sweep_rows(self.scores, state, self.weights, rng, trace)
        return trace

    def read(self, state: Ints) -> Ints:
        used = state[: self.scores.shape[0]]
        if not self.turned:
            return used.copy()
        column = np.full(self.scores.shape[1], -1, dtype=np.int64)
        column[used] = np.arange(used.size)
        return column


def _people(scores: Floats) -> int:
    """The number of people, which must be even."""
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
            "scores: contain -inf, but forbidden pairs are not supported here: swaps of the other "
            "pairs do not connect all matchings"
        )
    if np.isinf(scores).any():
        raise ValueError("scores: contain infinity")


def swaps_pay(n_nodes: int, table: Floats) -> bool:
    """Whether swaps mix faster per second than worm updates (`worm_chain`).

    They do in all but small graphs while scores are not concentrated.
    """
    return n_nodes > 30 and concentration(table) <= 1.5


def concentration(table: Floats) -> float:
    """How unevenly a row's softmax is spread: 0 if evenly, s^2 for normal scores of deviation s.

    The mean over rows of log(number of columns * sum of squared probabilities).
    """
    p = np.exp(table - table.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return float(np.log(table.shape[1] * (p * p).sum(axis=1)).mean())
