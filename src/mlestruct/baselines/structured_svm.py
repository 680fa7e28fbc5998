"""Structured support vector machines, with the API and the decoders of the CRFs.

They minimise the margin-rescaled hinge loss by MAP decoding alone: an output, no probabilities.
See `hinge_dual` for the objective and `hinge_solver` for the algorithm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..learning.history import Progress
from ..models.chain import ChainCRF
from ..models.graph import GraphCRF
from ..models.grid import GridCRF
from ..models.matching_base import MatchingEstimator
from ..models.matching_blocks import BipartiteBlocks, GroupBlocks
from .fitting import OwnAlgorithm
from .hinge_solver import HingeFrankWolfe
from .no_probabilities import NoProbabilities


class MaximumMargin(NoProbabilities, OwnAlgorithm):
    """What the machines share: how they are trained."""

    solver = "bcfw"
    averaging: bool

    def _algorithm(self) -> HingeFrankWolfe:
        if self.averaging not in (True, False):
            raise ValueError(f"averaging must be True or False, got {self.averaging!r}")
        return HingeFrankWolfe(bool(self.averaging))


class BipartiteMatchingSVM(MaximumMargin, BipartiteBlocks, MatchingEstimator):
    """Maximum-margin matching of two sides.

    Minimises  alpha/2 |theta|^2 + sum over samples of max over matchings y' of
    [share of rows that y' matches otherwise than y, minus by how much y outscores y'].

    Parameters
    ----------
    alpha : float, regularisation on the summed hinge loss
    tol : float
        Stop when the duality gap is at most tol * max(1, objective).
    max_iter : int, passes over the samples
    averaging : bool
        Return the weighted average of the iterates, which generalises better early on.
    n_jobs : int, optional
        Threads over samples, for certificates and predictions; steps run one after the other.
    max_time, perfect, capacity, feature_names, callback, random_state, verbose :
        as in `BipartiteMatchingCRF`

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    objective_ : float, the regularised hinge loss at coef_
    duality_gap_ : float, absolute: objective_ is within it of the smallest one
    converged_ : bool
    history_ : History; `dual` and `primal` are minus the best bounds of the smallest objective
    n_iter_, n_oracle_calls_, solver_, n_features_in_, feature_names_in_

    Notes
    -----
    The loss of a sample is at most 1 while its score is a sum over pairs, so that the alpha of a
    given effect grows with the square of the samples' size.

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.baselines import BipartiteMatchingSVM
    >>> left = np.random.default_rng(0).normal(size=(10, 5, 2))
    >>> X, Y = [-((a[:, None] - a[None]) ** 2) for a in left], [np.arange(5)] * 10
    >>> machine = BipartiteMatchingSVM(alpha=0.1, random_state=0).fit(X, Y)
    >>> machine.converged_, machine.score(X, Y)
    (True, 1.0)
    """

    rho = 1.0

    def __init__(
        self,
        alpha: float = 1.0,
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_time: float | None = None,
        averaging: bool = False,
        perfect: bool | str = True,
        capacity: Any = 1,
        feature_names: Sequence[str] | None = None,
        callback: Callable[[Progress], Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.alpha = alpha
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.averaging = averaging
        self.perfect = perfect
        self.capacity = capacity
        self.feature_names = feature_names
        self.callback = callback
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose


class MatchingSVM(MaximumMargin, GroupBlocks, MatchingEstimator):
    """Maximum-margin matching within one group.

    Parameters
    ----------
    polytope : "exact" or "local"
        Over which the most violating matching is sought. "local" has fractional ones, too, so its
        hinge loss is an upper bound of the exact one; capacities above 1 need it.
    perfect, capacity : as in `MatchingCRF`
    alpha, tol, max_iter, max_time, averaging, feature_names, callback, n_jobs, random_state,
    verbose : as in `BipartiteMatchingSVM`, and so are the attributes

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.baselines import MatchingSVM
    >>> place = np.array([0.0, 0.1, 5.0, 5.2])
    >>> X = [-np.abs(place[:, None] - place)[:, :, None]]
    >>> machine = MatchingSVM(alpha=0.1).fit(X, [[1, 0, 3, 2]])
    >>> machine.predict(X)[0]
    array([1, 0, 3, 2])
    """

    rho = 1.0

    def __init__(
        self,
        alpha: float = 1.0,
        polytope: str = "exact",
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_time: float | None = None,
        averaging: bool = False,
        perfect: bool = True,
        capacity: Any = 1,
        feature_names: Sequence[str] | None = None,
        callback: Callable[[Progress], Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.alpha = alpha
        self.polytope = polytope
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.averaging = averaging
        self.perfect = perfect
        self.capacity = capacity
        self.feature_names = feature_names
        self.callback = callback
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose


class LabellingSVM(MaximumMargin):
    """Parameters that machines over labellings share."""

    rho = "auto"  # has no part in learning

    def __init__(
        self,
        alpha: float = 1.0,
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_time: float | None = None,
        averaging: bool = False,
        n_states: int | None = None,
        feature_names: Sequence[str] | None = None,
        callback: Callable[[Progress], Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.alpha = alpha
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.averaging = averaging
        self.n_states = n_states
        self.feature_names = feature_names
        self.callback = callback
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose


class ChainSVM(LabellingSVM, ChainCRF):
    """Maximum-margin labelling of sequences; the loss is the share of wrong tokens.

    Parameters, attributes and samples are those of `ChainCRF`, without `solver` and `warm_start`,
    with `averaging` and a certificate as in `BipartiteMatchingSVM`. Chains are cut at tokens whose
    label is not known.

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.baselines import ChainSVM
    >>> Y = [np.array([0, 0, 1, 1]), np.array([1, 0, 0, 1])]
    >>> X = [np.eye(2)[y] for y in Y]
    >>> ChainSVM(alpha=0.1).fit(X, Y).score(X, Y)
    1.0
    """


class GraphSVM(LabellingSVM, GraphCRF):
    """Maximum-margin labelling of graphs; the loss is the share of wrong nodes.

    Parameters, attributes and samples are those of `GraphCRF`, without `rho`, `solver` and
    `warm_start`, with `averaging` and a certificate as in `BipartiteMatchingSVM`. Nodes whose label
    is not known are left out together with their edges.

    The most violating labelling is sought over the local polytope, whose vertices may be
    fractional on graphs with cycles: the hinge loss is then an upper bound of the exact one.
    """


class GridSVM(LabellingSVM, GridCRF):
    """Maximum-margin labelling of images; the loss is the share of wrong pixels.

    Parameters, attributes and samples are those of `GridCRF`, without `rho`, `solver` and
    `warm_start`, with `averaging` and a certificate as in `BipartiteMatchingSVM`. Pixels whose
    label is not known are left out together with their edges. Fractional vertices of the local
    polytope count among the outputs, as in `GraphSVM`; where neighbours attract there are none.

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.baselines import GridSVM
    >>> rng = np.random.default_rng(0)
    >>> Y = [np.kron(rng.integers(2, size=(2, 2)), np.ones((4, 4), int)) for _ in range(5)]
    >>> X = [np.stack([np.ones((8, 8)), y + 0.5 * rng.normal(size=(8, 8))], axis=-1) for y in Y]
    >>> GridSVM(alpha=10.0, random_state=0).fit(X, Y).score(X, Y) > 0.95
    True
    """

    def __init__(
        self,
        alpha: float = 1.0,
        neighbours: int = 4,
        per_direction: bool = True,
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_time: float | None = None,
        averaging: bool = False,
        n_states: int | None = None,
        feature_names: Sequence[str] | None = None,
        callback: Callable[[Progress], Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        super().__init__(
            alpha, tol, max_iter, max_time, averaging,
            n_states, feature_names, callback, n_jobs, random_state, verbose,
        )  # fmt: skip
        self.neighbours = neighbours
        self.per_direction = per_direction
