"""`log_partition_bounds`: an interval that log Z provably lies in, and why.

| outputs | from below | from above |
|---|---|---|
| matchings of two sides | Bethe value, rho = 1 | rho = 1/2 |
| matchings of one group | a cut into two sides, or swaps around the best matching | rho = 1/2 |
| b-matchings | the best one | rho = 0 and 1/2 |
| labellings of graphs | mean field, best labelling, Bethe value of attractive models | trees |
| labellings of forests and chains | exact | exact |
"""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..algorithms.pairwise.attractive_bethe import attractive_bethe_bound
from ..algorithms.pairwise.mean_field import mean_field
from ..structures import (
    BinaryPairwise,
    BipartiteMatching,
    Chains,
    LocalMatching,
    MissingCapability,
    Pairwise,
)
from .bipartition_bound import bipartition_bound
from .exact import exact_distribution
from .exact_space import Counted
from .result import Bounds
from .scores import check_tolerance, read_query
from .tree_weights import TightenedWeights
from .tree_weights import tighten as tighten_weights

Floats = NDArray[np.float64]


def log_partition_bounds(
    structure: Any, scores: Any, *, tol: float = 1e-6, tighten_rho: bool = False
) -> Bounds:
    """Proven bounds of log Z itself, whatever the rho of the structure is.

    Parameters
    ----------
    structure, scores : as in `marginals`
    tol : gap to which each variational bound is solved; the bounds hold whether it is reached
    tighten_rho : bool
        For labellings of graphs: also choose the edge weights rho that make the upper bound
        smallest (`tighten`), at the cost of some dozens of solutions.

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.inference import log_partition_bounds
    >>> from mlestruct.structures import BipartiteMatching
    >>> bounds = log_partition_bounds(BipartiteMatching((8, 8)), np.zeros((8, 8)))
    >>> bool(bounds.lower <= np.log(40320) <= bounds.upper)
    True
    >>> bounds.lower_reason
    'Bethe value (rho = 1) of a bipartite graph'
    """
    query = read_query(structure, scores)
    if tighten_rho and isinstance(query.structure, BipartiteMatching | LocalMatching):
        raise ValueError("tighten_rho: is for labellings of graphs, not for matchings")
    if query.forbidding and not isinstance(query.structure, Chains):
        query.require_finite("log_partition_bounds")
    found = _bounds(query.structure, query.scores, check_tolerance(tol), bool(tighten_rho))
    excess = found.lower - found.upper
    if excess > 0.0:
        rounding = 1e-9 * (1.0 + np.abs(query.scores).max(initial=0.0))
        if excess > rounding * np.sqrt(max(query.scores.size, 1)):
            raise ArithmeticError(
                f"log_partition_bounds: {found.lower} ({found.lower_reason}) is above "
                f"{found.upper} ({found.upper_reason}); please report this"
            )
        middle = 0.5 * (found.lower + found.upper)
        found = Bounds(middle, middle, found.lower_reason, found.upper_reason)
    return Bounds(
        found.lower + query.constant,
        found.upper + query.constant,
        found.lower_reason,
        found.upper_reason,
    )


def tighten(
    structure: Any, scores: Any, *, max_iter: int = 30, tol: float = 1e-3, callback: Any = None
) -> TightenedWeights:
    """The edge weights rho whose upper bound of log Z is smallest at these scores.

    Parameters
    ----------
    structure : BinaryPairwise or Pairwise
    scores : as in `marginals`
    max_iter, tol, callback : steps, gap to reach, and what sees the weights after each step

    Returns
    -------
    TightenedWeights : rho, upper_bound, gap, and `structure`, a new one with these weights
    """
    query = read_query(structure, scores)
    if not isinstance(query.structure, BinaryPairwise | Pairwise):
        raise MissingCapability(
            f"tighten: expected BinaryPairwise or Pairwise, got {type(structure).__name__}"
        )
    query.require_finite("tighten")
    found = tighten_weights(query.structure, query.scores, max_iter, tol, callback)
    return replace(
        found,
        upper_bound=found.upper_bound + query.constant,
        start_bound=found.start_bound + query.constant,
    )


@singledispatch
def _bounds(structure: Any, scores: Floats, tol: float, tighten_rho: bool) -> Bounds:
    raise MissingCapability(f"no bounds of log Z are known for {type(structure).__name__}")


@_bounds.register
def _(structure: BipartiteMatching, scores: Floats, tol: float, tighten_rho: bool) -> Bounds:
    return Bounds(
        structure.with_rho(1.0).marginals(scores, None, tol).value,
        structure.with_rho(0.5).marginals(scores, None, tol).upper_bound,
        "Bethe value (rho = 1) of a bipartite graph",
        "reweighted value (rho = 1/2)",
    )


@_bounds.register
def _(structure: LocalMatching, scores: Floats, tol: float, tighten_rho: bool) -> Bounds:
    upper = structure.with_rho(0.5).marginals(scores, None, tol).upper_bound
    if not structure.is_simple:
        best = structure.decode_integral(scores).score
        return Bounds(best, upper, "score of the best b-matching", "nodes' edges as independent")
    floors = {
        "matchings around the best one": structure.log_partition_floor(scores),
        "Bethe value (rho = 1) of a cut into two sides": bipartition_bound(structure, scores, tol),
    }
    reason = max(floors, key=lambda name: floors[name])
    return Bounds(floors[reason], upper, reason, "reweighted value (rho = 1/2)")


@_bounds.register(Chains)
@_bounds.register(Counted)
def _(structure: Any, scores: Floats, tol: float, tighten_rho: bool) -> Bounds:
    log_z = exact_distribution(structure, scores).log_partition
    return Bounds(log_z, log_z, "exact", "exact")


@_bounds.register(BinaryPairwise)
@_bounds.register(Pairwise)
def _(structure: Any, scores: Floats, tol: float, tighten_rho: bool) -> Bounds:
    forest = structure.graph.is_forest
    if forest and not (structure.reweighting.rho == 1.0).all():
        structure = structure.with_rho("auto")
    found = structure.marginals(scores, None, tol)
    if forest:
        return Bounds(found.value, found.upper_bound, "exact", "exact")
    upper = found.upper_bound if structure.has_bound else np.inf
    why = "spanning trees" if structure.has_bound else "none: rho is not in the tree polytope"
    if tighten_rho:
        weights = tighten_weights(structure, scores, tol=max(tol, 1e-6))
        if weights.upper_bound < upper:
            upper, why = weights.upper_bound, "spanning trees, weighted for these scores"
    lower, reason = _labelling_floor(structure, scores, found.tau)
    return Bounds(lower, upper, reason, why)


def _labelling_floor(structure: Any, scores: Floats, tau: Floats) -> tuple[float, str]:
    """The best lower bound of log Z that is found, and what it is."""
    graph = structure.graph
    tail, head = structure.ends
    nodes, edges = structure.score_tables(scores)
    model = graph.n_nodes, tail, head, nodes, edges
    label = structure.best_label(scores)
    sure = np.full((graph.n_nodes, structure.n_states), 0.01)
    sure[np.arange(graph.n_nodes), label] = 1.0
    starts = [structure.node_marginals(tau), sure]
    floors = {
        "score of the best labelling found": structure.encode(label).dot(scores),
        "independent nodes (mean field)": mean_field(*model, starts)[1],
    }
    if structure.n_states == 2:
        bethe = attractive_bethe_bound(*model, starts)
        if bethe is not None:
            floors["Bethe value of an attractive model"] = bethe
    reason = max(floors, key=lambda name: floors[name])
    return floors[reason], reason
