"""`log_partition_bounds`: an interval that log Z provably lies in, and why.

| outputs | from below | from above |
|---|---|---|
| matchings of two sides | Bethe value, rho = 1 | rho = 1/2 |
| matchings of one group | a cut into two sides, or the best matching | rho = 1/2 |
| b-matchings | the best one | rho = 0 and 1/2 |
| labellings of graphs | independent nodes (mean field) | spanning trees |
| labellings of forests and chains | exact | exact |
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .._arguments import as_number
from ..structures.contract import Bounds, StructureLike
from .scores import read_query


def log_partition_bounds(structure: StructureLike, scores: Any, *, tol: float = 1e-6) -> Bounds:
    """Proven bounds of log Z itself, whatever the rho of the structure is.

    Parameters
    ----------
    structure, scores : as in `marginals`
    tol : gap to which each variational bound is solved; the bounds hold whether it is reached

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
    space, tol = query.structure, as_number(tol, "tol", 0.0)
    if not space.is_exact:
        query.require_finite("log_partition_bounds")
    found = space.log_partition_bounds(query.scores, tol)
    lower, upper = found.lower, found.upper
    if lower > upper:  # by rounding
        rounding = 1e-9 * (1.0 + np.abs(query.scores).max(initial=0.0))
        if lower - upper > rounding * np.sqrt(max(query.scores.size, 1)):
            raise ArithmeticError(
                f"log_partition_bounds: {lower} ({found.lower_reason}) is above "
                f"{upper} ({found.upper_reason}); please report this"
            )
        lower = upper = 0.5 * (lower + upper)
    return replace(found, lower=lower + query.constant, upper=upper + query.constant)
