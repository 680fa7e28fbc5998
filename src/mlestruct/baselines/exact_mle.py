"""`ExactMLE`: maximum likelihood where log Z and its gradient can be counted.

Permanents and their minors for matchings of two sides, hafnians for those of one group, junction
trees for labellings, forward-backward for sequences. What approximate estimators are measured
against: only the output space is replaced by one whose marginals are exact.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..learning import LBFGS
from ..learning.problem import DualProblem
from ..models.base import StructuredEstimator
from ..structures.exact_inference import ExactInference
from .learner import ProbabilisticLearner

Floats = NDArray[np.float64]


class ExactMLE(ProbabilisticLearner):
    """The exact likelihood of an estimator's model, maximised by L-BFGS; small samples only.

    Matchings of up to about 20 nodes a side or 22 in one complete group, images of up to about 17
    pixels in height or width, graphs of small treewidth.

    Parameters
    ----------
    estimator : a CRF estimator, not fitted
        Its output space, features and decoder are used, and its `alpha`, `l1_ratio`, `tol`,
        `max_iter`, `max_time`, `callback`, `n_jobs`, `verbose`; rho and the polytope have no
        effect.

    Attributes
    ----------
    estimator_ : a clone of the estimator with the learned weights
    coef_, objective_, duality_gap_, converged_, history_, n_iter_, n_oracle_calls_, solver_,
    n_features_in_, feature_names_in_ :
        as in the estimator; bounds are those of the exact likelihood

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct import BipartiteMatchingCRF
    >>> from mlestruct.baselines import ExactMLE
    >>> X, Y = [np.eye(4)[:, :, None]] * 3, [[0, 1, 2, 3], [0, 1, 3, 2], [0, 1, 2, 3]]
    >>> model = ExactMLE(BipartiteMatchingCRF(alpha=0.1)).fit(X, Y)
    >>> bool(model.converged_), model.coef_.round(2)
    (True, array([1.47]))
    """

    marginals_method = "exact"
    has_l1 = True

    def __init__(self, estimator: Any):
        self.estimator = estimator

    def _algorithm(self) -> LBFGS:
        return LBFGS()

    def _problem(
        self, reader: StructuredEstimator, X: Any, Y: Any, sample_weight: Any
    ) -> DualProblem:
        problem = reader.build_problem(X, Y, sample_weight)
        spaces: dict[int, ExactInference] = {}
        blocks = []
        for block in problem.blocks:
            space = spaces.setdefault(id(block.structure), ExactInference(block.structure))
            blocks.append(replace(block, structure=space))
        return problem.with_blocks(blocks)

    def log_likelihood_bounds(self, X: Any, Y: Any) -> tuple[Floats, Floats]:
        """`log_likelihood` twice: both bounds are the exact value."""
        exact = self.log_likelihood(X, Y)
        return exact, exact.copy()
