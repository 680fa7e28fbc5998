"""Which Markov chain draws the matchings of a structure, and how its states become labels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..algorithms.markov_chains import Draws
from ..algorithms.matching.swap_chain import sample_by_swaps
from ..algorithms.matching.worm_chain import finite_values, sample_by_worms
from ..structures.matchings.bipartite import BipartiteMatching
from ..structures.matchings.space import MatchingSpace

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CONCENTRATED = 1.5  # concentration of scores above which worm updates mix faster than swaps
SMALL = 30  # nodes up to which swaps save little time


def sample_structure(
    structure: Any, scores: ArrayLike, n_samples: int, rng: np.random.Generator, **options: Any
) -> Draws:
    """Draw labels of a `BipartiteMatching`, `LocalMatching` or `ExactMatching`.

    P(label) is proportional to exp(<scores, its vertex>); relaxed polytopes play no part in it.
    Perfect matchings of large complete graphs with weak scores are drawn by swaps
    (`sample_by_swaps`), which mix faster there; all others by `sample_by_worms`.

    Parameters
    ----------
    scores : array of shape (structure.n_coordinates,)
    options : n_chains, sweeps, max_sweeps, tol_rhat, start (labels), as in `sample_by_worms`

    Returns
    -------
    Draws whose states are labels as `structure.label` gives them: partners of nodes, or the columns
    of rows, -1 for single
    """
    values = finite_values("scores", scores, structure.n_coordinates, "coordinate")
    if isinstance(structure, BipartiteMatching):
        return _sample_bipartite(structure, values, n_samples, rng, options)
    if not isinstance(structure, MatchingSpace):
        raise ValueError(
            f"structure: expected a matching structure, got {type(structure).__name__}"
        )
    if not structure.is_simple:
        raise ValueError(
            "structure: only matchings with capacity 1 are sampled by Markov chains, found a "
            f"capacity of {structure.capacity.max()}"
        )
    graph, capacity = structure.graph, structure.capacity
    edges, single = values[: structure.n_scored], values[structure.n_scored :]
    n = graph.n_nodes
    if (
        n > SMALL
        and n % 2 == 0
        and graph.is_complete
        and not structure.free.any()
        and (capacity == 1).all()
        and options.get("start") is None
        and concentration(graph.dense(edges, -np.inf)) <= CONCENTRATED
    ):
        return _by_swaps(edges, n_samples, rng, options)
    # A node of capacity 0 has no edges; it is neither matched nor rewarded for being single.
    usable = (capacity[graph.row] > 0) & (capacity[graph.col] > 0)
    return sample_by_worms(
        n, graph.row[usable], graph.col[usable], edges[usable], n_samples,
        free=structure.free | (capacity == 0),
        single=np.where(capacity > 0, single, 0.0) if single.size else None,
        rng=rng, stacklevel=4, **options,
    )  # fmt: skip


def _sample_bipartite(
    structure: Any, scores: Floats, n_samples: int, rng: np.random.Generator, options: Any
) -> Draws:
    graph = structure.graph
    n, m = graph.n_rows, graph.n_cols
    edges, at = scores[: structure.n_scored], structure.n_scored
    single = np.zeros(n + m)
    if structure.free_rows:
        single[:n], at = scores[at : at + n], at + n
    if structure.free_cols:
        single[n:] = scores[at:]
    if options.get("start") is not None:
        options = options | {"start": _with_columns(np.asarray(options["start"]), n, m)}
    elif structure.perfect and graph.is_complete and n + m > SMALL:
        # Being used costs a node what it would have got for being single.
        table = edges.reshape(n, m) - single[:n, None] - single[n:]
        if concentration(table if n <= m else table.T) <= CONCENTRATED:
            return _by_swaps(table, n_samples, rng, options, bipartite=True)
    free = np.repeat([structure.free_rows, structure.free_cols], [n, m])
    found = sample_by_worms(
        n + m, graph.row, graph.col + n, edges, n_samples,
        free=free, single=single, rng=rng, stacklevel=5, **options,
    )  # fmt: skip
    rows = found.states[:, :n]
    return replace(found, states=np.where(rows < 0, -1, rows - n))


def _by_swaps(
    scores: Floats, n_samples: int, rng: np.random.Generator, options: Any, bipartite: bool = False
) -> Draws:
    options = {name: value for name, value in options.items() if name != "start"}
    return sample_by_swaps(scores, n_samples, bipartite=bipartite, rng=rng, **options)


def concentration(table: Floats) -> float:
    """How unevenly a row's softmax is spread: 0 if evenly, s^2 for normal scores of deviation s.

    The mean over rows of log(number of columns * sum of squared probabilities).
    """
    p = np.exp(table - table.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return float(np.log(table.shape[1] * (p * p).sum(axis=1)).mean())


def _with_columns(labels: NDArray[Any], n: int, m: int) -> Ints:
    """Partners of rows and columns, as nodes, from the columns of rows."""
    found = np.atleast_2d(labels)
    if found.ndim != 2 or found.shape[1] != n or found.dtype.kind not in "iu":
        raise ValueError(
            f"start: expected columns of {n} rows, got {labels.dtype} of shape {labels.shape}"
        )
    if found.min() < -1 or found.max() >= m:
        raise ValueError(
            f"start: columns are 0 to {m - 1}, or -1; found {found.min()} to {found.max()}"
        )
    partner = np.full((found.shape[0], n + m), -1, dtype=np.int64)
    which, row = np.nonzero(found >= 0)
    column = found[which, row] + n
    partner[which, row] = column
    partner[which, column] = row
    return partner
