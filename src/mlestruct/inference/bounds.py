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
from typing import Any

import numpy as np

from ..exceptions import MissingCapability
from ..structures.contract import Bounds, StructureLike
from .scores import check_count, check_tolerance, read_query


def log_partition_bounds(
    structure: StructureLike, scores: Any, *, tol: float = 1e-6, tighten_rho: bool = False
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
    space, tol = query.structure, check_tolerance(tol)
    if not space.is_exact:
        query.require_finite("log_partition_bounds")
    found = space.log_partition_bounds(query.scores, tol)
    if tighten_rho and found.upper_reason != "exact":
        if not space.offers("tighten_rho"):
            raise ValueError("tighten_rho: is for labellings of graphs, not for matchings")
        weights = space.tighten_rho(query.scores, tol=max(tol, 1e-6))
        if weights.upper_bound < found.upper:
            found = replace(
                found,
                upper=weights.upper_bound,
                upper_reason="spanning trees, weighted for these scores",
            )
    excess = found.lower - found.upper
    if excess > 0.0:
        rounding = 1e-9 * (1.0 + np.abs(query.scores).max(initial=0.0))
        if excess > rounding * np.sqrt(max(query.scores.size, 1)):
            raise ArithmeticError(
                f"log_partition_bounds: {found.lower} ({found.lower_reason}) is above "
                f"{found.upper} ({found.upper_reason}); please report this"
            )
        middle = 0.5 * (found.lower + found.upper)
        found = replace(found, lower=middle, upper=middle)
    return replace(found, lower=found.lower + query.constant, upper=found.upper + query.constant)


def tighten(
    structure: StructureLike,
    scores: Any,
    *,
    max_iter: int = 30,
    tol: float = 1e-3,
    callback: Any = None,
) -> Any:
    """The edge weights rho whose upper bound of log Z is smallest at these scores.

    Parameters
    ----------
    structure : Pairwise
    scores : as in `marginals`
    max_iter, tol, callback : steps, gap to reach, and what sees the weights after each step

    Returns
    -------
    TightenedWeights : rho, upper_bound, gap, and `structure`, a new one with these weights
    """
    query = read_query(structure, scores)
    if not query.structure.offers("tighten_rho"):
        raise MissingCapability(f"tighten: expected Pairwise, got {type(structure).__name__}")
    query.require_finite("tighten")
    if callback is not None and not callable(callback):
        raise TypeError(f"callback: expected a function, got {callback!r}")
    found = query.structure.tighten_rho(
        query.scores, check_count(max_iter, "max_iter"), check_tolerance(tol), callback
    )
    return replace(
        found,
        upper_bound=found.upper_bound + query.constant,
        start_bound=found.start_bound + query.constant,
    )
