"""Averaged structured perceptrons, with the API and the decoders of the CRFs.

No regularisation, no probabilities, no certificate; see `perceptron_solver`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..learning.history import Progress
from ..learning.result import Result
from ..models.chain import ChainCRF
from ..models.graph import GraphCRF
from ..models.grid import GridCRF
from ..models.matching_base import MatchingEstimator
from ..models.matching_blocks import BipartiteBlocks, GroupBlocks
from ..models.validation import check_positive
from .fitting import OwnAlgorithm
from .no_probabilities import NoProbabilities, Unavailable
from .perceptron_solver import AveragedPerceptron


class Perceptron(NoProbabilities, OwnAlgorithm):
    """What the perceptrons share: how they are trained."""

    alpha = 1.0  # there is no penalty
    tol = 1e-12  # of the number of mistakes
    solver = "bcfw"  # a block per sample
    rate: float
    decay: float

    fit_path: Any = Unavailable("it is not regularised, so there is no alpha to vary")

    def _algorithm(self) -> AveragedPerceptron:
        rate = check_positive(self.rate, "rate")
        decay = float(self.decay)
        if not decay >= 0.0:
            raise ValueError(f"decay must be at least 0, got {self.decay!r}")
        return AveragedPerceptron(rate, decay)

    def _keep(self, result: Result, tol: float) -> None:
        separated = result.converged
        result.converged = not result.interrupted  # mistakes that remain are no failure
        super()._keep(result, tol)
        self.converged_ = separated
        self.last_coef_ = result.state.theta
        self.n_updates_ = result.state.updates


class BipartiteMatchingPerceptron(Perceptron, BipartiteBlocks, MatchingEstimator):
    """Averaged structured perceptron over matchings of two sides.

    Parameters
    ----------
    max_iter : int, passes over the samples, in random order; one without mistakes is the last
    rate : float, learning rate of the first pass
    decay : float, pass t (from 0) has the rate  rate / (1 + decay * t)
    n_jobs : int, optional
        Threads over samples, for predictions; steps run one after the other.
    max_time, perfect, capacity, feature_names, callback, random_state, verbose :
        as in `BipartiteMatchingCRF`

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,), the mean of the weights after every step
    last_coef_ : ndarray of shape (n_features,), the weights after the last step
    objective_ : float, the smallest number of samples that were wrong in a pass
    converged_ : bool, whether a pass was without mistakes: `last_coef_` then makes none
    n_updates_ : int, steps that changed the weights
    history_ : History; `dual` is the smallest number of mistakes of a pass so far
    n_iter_, n_oracle_calls_, solver_, n_features_in_, feature_names_in_

    Notes
    -----
    A `sample_weight` scales the steps of its sample.

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.baselines import BipartiteMatchingPerceptron
    >>> left = np.random.default_rng(0).normal(size=(10, 5, 2))
    >>> X, Y = [-((a[:, None] - a[None]) ** 2) for a in left], [np.arange(5)] * 10
    >>> model = BipartiteMatchingPerceptron(random_state=0).fit(X, Y)
    >>> model.converged_, model.score(X, Y)
    (True, 1.0)
    """

    rho = 1.0

    def __init__(
        self,
        max_iter: int = 30,
        rate: float = 1.0,
        decay: float = 0.0,
        max_time: float | None = None,
        perfect: bool | str = True,
        capacity: Any = 1,
        feature_names: Sequence[str] | None = None,
        callback: Callable[[Progress], Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.max_iter = max_iter
        self.rate = rate
        self.decay = decay
        self.max_time = max_time
        self.perfect = perfect
        self.capacity = capacity
        self.feature_names = feature_names
        self.callback = callback
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose


class MatchingPerceptron(Perceptron, GroupBlocks, MatchingEstimator):
    """Averaged structured perceptron over matchings within one group.

    Parameters
    ----------
    polytope : "exact" or "local"
        Over which the best matching is sought; capacities above 1 need "local".
    perfect, capacity : as in `MatchingCRF`
    max_iter, rate, decay, max_time, feature_names, callback, n_jobs, random_state, verbose :
        as in `BipartiteMatchingPerceptron`, and so are the attributes

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.baselines import MatchingPerceptron
    >>> place = np.array([0.0, 0.1, 5.0, 5.2])
    >>> X = [-np.abs(place[:, None] - place)[:, :, None]]
    >>> MatchingPerceptron().fit(X, [[1, 0, 3, 2]]).predict(X)[0]
    array([1, 0, 3, 2])
    """

    rho = 1.0

    def __init__(
        self,
        max_iter: int = 30,
        rate: float = 1.0,
        decay: float = 0.0,
        polytope: str = "exact",
        max_time: float | None = None,
        perfect: bool = True,
        capacity: Any = 1,
        feature_names: Sequence[str] | None = None,
        callback: Callable[[Progress], Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.max_iter = max_iter
        self.rate = rate
        self.decay = decay
        self.polytope = polytope
        self.max_time = max_time
        self.perfect = perfect
        self.capacity = capacity
        self.feature_names = feature_names
        self.callback = callback
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose


class LabellingPerceptron(Perceptron):
    """Parameters that perceptrons over labellings share."""

    rho = "auto"  # has no part in learning

    def __init__(
        self,
        max_iter: int = 30,
        rate: float = 1.0,
        decay: float = 0.0,
        max_time: float | None = None,
        n_states: int | None = None,
        feature_names: Sequence[str] | None = None,
        callback: Callable[[Progress], Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.max_iter = max_iter
        self.rate = rate
        self.decay = decay
        self.max_time = max_time
        self.n_states = n_states
        self.feature_names = feature_names
        self.callback = callback
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose


class ChainPerceptron(LabellingPerceptron, ChainCRF):
    """Averaged structured perceptron over label sequences.

    Samples are those of `ChainCRF`; parameters and attributes those of
    `BipartiteMatchingPerceptron` and, of labels, of `ChainCRF`. Chains are cut at tokens whose
    label is not known.

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.baselines import ChainPerceptron
    >>> Y = [np.array([0, 0, 1, 1]), np.array([1, 0, 0, 1])]
    >>> X = [np.eye(2)[y] for y in Y]
    >>> ChainPerceptron(random_state=0).fit(X, Y).score(X, Y)
    1.0
    """


class GraphPerceptron(LabellingPerceptron, GraphCRF):
    """Averaged structured perceptron over labellings of graphs.

    Samples are those of `GraphCRF`; parameters and attributes those of
    `BipartiteMatchingPerceptron` and, of labels, of `GraphCRF`. Nodes whose label is not known are
    left out together with their edges. Steps go towards the best vertex of the local polytope,
    which may be fractional on graphs with cycles.
    """


class GridPerceptron(LabellingPerceptron, GridCRF):
    """Averaged structured perceptron over labellings of images.

    Samples are those of `GridCRF`, and so are `neighbours` and `per_direction`; other parameters
    and attributes as in `GraphPerceptron`.

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.baselines import GridPerceptron
    >>> rng = np.random.default_rng(0)
    >>> Y = [np.kron(rng.integers(2, size=(2, 2)), np.ones((4, 4), int)) for _ in range(5)]
    >>> X = [np.stack([np.ones((8, 8)), y + 0.5 * rng.normal(size=(8, 8))], axis=-1) for y in Y]
    >>> GridPerceptron(random_state=0).fit(X, Y).score(X, Y) > 0.95
    True
    """

    def __init__(
        self,
        max_iter: int = 30,
        rate: float = 1.0,
        decay: float = 0.0,
        neighbours: int = 4,
        per_direction: bool = True,
        max_time: float | None = None,
        n_states: int | None = None,
        feature_names: Sequence[str] | None = None,
        callback: Callable[[Progress], Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        super().__init__(
            max_iter, rate, decay, max_time,
            n_states, feature_names, callback, n_jobs, random_state, verbose,
        )  # fmt: skip
        self.neighbours = neighbours
        self.per_direction = per_direction
