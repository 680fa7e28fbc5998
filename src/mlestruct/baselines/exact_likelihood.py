"""`ExactLikelihood`: maximum likelihood if log Z and its gradient can be counted.

Permanents and their minors for matchings of two sides, hafnians for matchings of one group,
junction trees for labellings, forward-backward for sequences. Only the output space is replaced, by
one whose marginals are exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from ..learning.lbfgs import LBFGS, Start
from ..learning.problem import Problem
from ..learning.solver import Result
from ..structures.exact import ExactInference


@dataclass(frozen=True)
class ExactLikelihood(LBFGS):
    """The exact likelihood of an estimator's model, maximised by L-BFGS; small samples only.

    Matchings of up to 19 nodes a side or 28 in one complete group, images of up to about 17
    pixels in height or width, graphs of small treewidth. rho and the polytope of the estimator have
    no effect on its fit; ask for `predict_marginals(X, method="exact")`.

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct import BipartiteMatchingCRF
    >>> from mlestruct.baselines import ExactLikelihood
    >>> X, Y = [np.eye(4)[:, :, None]] * 3, [[0, 1, 2, 3], [0, 1, 3, 2], [0, 1, 2, 3]]
    >>> model = BipartiteMatchingCRF(alpha=0.1, solver=ExactLikelihood()).fit(X, Y)
    >>> bool(model.converged_), model.coef_.round(2)
    (True, array([1.47]))
    """

    name: ClassVar[str] = "exact_likelihood"

    def check(self, problem: Problem) -> None:
        problem.require("exact", "solver=ExactLikelihood()")
        if problem.has_partial:
            raise ValueError("`Y` must be known whole for solver=ExactLikelihood(). Use LBFGS().")

    def solve(self, problem: Problem, tol: float, start: Start | None = None) -> Result:
        """Maximise the exact likelihood; `start` is the state of another result, or weights."""
        self.check(problem)
        structures = {id(block.structure): block.structure for block in problem.blocks}
        spaces = {key: ExactInference(structure) for key, structure in structures.items()}
        blocks = [replace(b, structure=spaces[id(b.structure)]) for b in problem.blocks]
        return LBFGS(**vars(self)).solve(problem.with_blocks(blocks), tol, start)
