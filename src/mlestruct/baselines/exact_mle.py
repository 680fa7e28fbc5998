"""Exact maximum likelihood, for problems small enough that log Z and its gradient can be counted.

Permanents and their minors for matchings of two sides, hafnians for those of one group, junction
trees for labellings. What approximate estimators are measured against. They share their API and
solver: only the output space is replaced by one whose marginals are exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..inference.exact_space import Counted
from ..learning.problem import Block
from ..models import BipartiteMatchingCRF, GraphCRF, GridCRF, MatchingCRF
from ..models.pairs import PairSample

Floats = NDArray[np.float64]


class ExactLikelihood:
    """Mixin: the exact likelihood in place of the approximate one."""

    solver: Any

    def _exactly(self, blocks: list[Block]) -> list[Block]:
        if self.solver not in ("auto", "lbfgs"):
            raise ValueError(
                f"solver: exact likelihood is maximised by 'lbfgs' ('auto'), got {self.solver!r}"
            )
        known: dict[int, Counted] = {}
        out = []
        for block in blocks:
            space = known.setdefault(id(block.structure), Counted(block.structure))
            out.append(Block(space, block.features, block.observed, block.weight, block.offset))
        return out


class _ExactMatchings(ExactLikelihood):
    def _make_blocks(self, X: Any, rho: Any) -> list[tuple[Block, PairSample]]:
        made = super()._make_blocks(X, rho)  # type: ignore[misc]
        blocks = self._exactly([block for block, _ in made])
        return [(block, sample) for block, (_, sample) in zip(blocks, made, strict=True)]


class ExactBipartiteMLE(_ExactMatchings, BipartiteMatchingCRF):
    """`BipartiteMatchingCRF` with the exact likelihood, for up to about 20 nodes a side.

    Parameters, attributes and methods are those of `BipartiteMatchingCRF`; rho has no effect, and
    the solver is L-BFGS.

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.baselines import ExactBipartiteMLE
    >>> X, Y = [np.eye(4)[:, :, None]] * 3, [[0, 1, 2, 3], [0, 1, 3, 2], [0, 1, 2, 3]]
    >>> model = ExactBipartiteMLE(alpha=0.1).fit(X, Y)
    >>> bool(model.converged_), model.coef_.round(2)
    (True, array([1.47]))
    """


class ExactMatchingMLE(_ExactMatchings, MatchingCRF):
    """`MatchingCRF` with the exact likelihood, for up to about 22 nodes in a complete graph.

    Parameters, attributes and methods are those of `MatchingCRF`; rho and the polytope have no
    effect, and the solver is L-BFGS.
    """


class _ExactLabellings(ExactLikelihood):
    def _make_blocks(self, samples: Any, n_states: int, places: Any = None) -> list[Block]:
        return self._exactly(super()._make_blocks(samples, n_states, places))  # type: ignore[misc]


class ExactGraphMLE(_ExactLabellings, GraphCRF):
    """`GraphCRF` with the exact likelihood, for graphs of small treewidth.

    Parameters, attributes and methods are those of `GraphCRF`; rho has no effect, and the solver is
    L-BFGS.
    """


class ExactGridMLE(_ExactLabellings, GridCRF):
    """`GridCRF` with the exact likelihood, for images up to about 17 pixels high or wide.

    Parameters, attributes and methods are those of `GridCRF`; rho has no effect, and the solver is
    L-BFGS.
    """
