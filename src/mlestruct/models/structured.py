"""`StructuredCRF`: conditional random fields over outputs that only a decoder describes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from .._threads import threaded_map
from ..exceptions import Naming
from ..features import FeatureMap
from ..learning.problem import Block
from ..learning.result import Progress, Result
from ..metrics.events import Events, as_events
from ..structures.conditioned import Conditioned
from ..structures.contract import Vertex
from ..structures.decoder import DecoderSpace
from .base import StructuredEstimator
from .partitioned import over_partitions
from .probabilities import (
    approximate_value,
    block_samples,
    certified_marginals,
    exact_log_likelihood,
    likelihood_bounds,
    seeded,
)
from .structured_blocks import CallTimes, Decoders, Spaces, read_features
from .validation import check_same_length, check_samples

Floats = NDArray[np.float64]
T = TypeVar("T")

OF_DECODE = ("entropy", "interior", "marginals", "bounds")  # parameters that go with `decode`
NOTHING = Vertex(np.zeros(0, dtype=np.int64), np.zeros(0))


class StructuredCRF(StructuredEstimator):
    """Conditional random field over outputs of your own, from a function that finds the best one.

    p(y | x) is proportional to exp(<G(x) theta, y>) for the 0/1 vectors y that `decode` chooses
    from. theta maximises the approximate log-likelihood of the observed outputs minus
    alpha/2 |theta|^2, with a duality-gap certificate, from calls of `decode` alone.

    Parameters
    ----------
    decode : function of scores, an array of shape (n,), to the 0/1 vector of shape (n,) with the
        largest total score among all outputs
        For samples whose output spaces differ in more than n: a function of (scores, x), with x the
        sample as it is in X. An approximate decoder (exact=False) may return a pair (output, upper
        bound of the largest score). It may be called from several threads if n_jobs > 1, which
        are used where half of the last calls took 2 ms or more.
    alpha : float
        Regularisation, on the summed log-likelihood.
    structure : an output space (`mlestruct.structures`, or your own), or a function of x to one
        In place of `decode`, where more is known than a decoder.
    features : function of x to its features; by default x is its features, or a pair of them and
        anything else that `decode` needs
    entropy : an entropy of marginals: `coordinate_entropy`, `factor_entropy` (groups, counting
        numbers), an object that is callable and has a method `gradient`, a pair of functions
        (value, gradient), or a function of x to one of these
        By default that of independent coordinates: concave, whatever the outputs are, and an upper
        bound of the true one, so that `fit` maximises a lower bound of the log-likelihood.
    interior : array of shape (n,), or a function of x to one
        A point of the polytope with every coordinate that varies strictly between 0 and 1. By
        default it is found by decoding directions that reach all coordinates.
    marginals : function of scores (or of scores and x) to (tau, log Z), optional
        A marginal oracle: solvers then use it instead of `decode`.
    bounds : function of scores (or of scores and x) to (lower, upper) bounds of log Z, optional
    exact : bool
        Whether `decode` always finds the best output. If it does not and returns no upper bound,
        or its bounds do not prove which coordinates are fixed, the duality gap is an estimate:
        `certified_` is False. Marginals of a model from a file may then differ from those of the
        fitted one, within `tol`: observed outputs, from which interior points are made as well,
        are not stored.
    solver, tol, max_iter, max_time, feature_names, l1_ratio, warm_start, callback, n_jobs,
    random_state, verbose, standardize
        As in `BipartiteMatchingCRF`. "auto" is block-coordinate Frank-Wolfe, or L-BFGS where
        there is a marginal oracle.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    objective_ : float, an upper bound of the best attainable value of the (regularised,
        approximate) log-likelihood
    duality_gap_ : float, absolute: coef_ is within it of that best value
    certified_ : bool, whether that is proven, if `decode` is exact or its upper bounds are valid
    converged_ : bool
    history_ : History with seconds, oracle_calls, dual, primal, gap, fw_gap; `.to_frame()`
    n_oracle_calls_ : calls of `decode`, with those that looked for interior points and checked Y,
        in all runs of a fit that was continued from a checkpoint
    n_iter_, solver_, n_features_in_, feature_names_in_

    Notes
    -----
    X is a sequence of samples, each an array or SciPy sparse matrix of shape (n, n_features), a
    feature map, a pair of one of these and anything else, or anything at all if `features` turns it
    into one of these. Y holds for each sample a 0/1 vector of shape (n,); labels of a `structure`
    are its own. Every label costs one call of `decode`, which tells whether it is an output at all.

    `mlestruct.check_structure` tests a decoder. `save` stores functions by their import path, never
    as code; `mlestruct.load(path, trusted=[...])` imports those that it is told to trust.

    Examples
    --------
    Three of eight items are chosen:

    >>> import numpy as np
    >>> from mlestruct import StructuredCRF
    >>> def top_three(scores):
    ...     return np.argsort(np.argsort(-scores)) < 3
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(30, 8, 2))
    >>> Y = [top_three(x @ [1.0, -2.0] + rng.gumbel(size=8)).astype(int) for x in X]
    >>> model = StructuredCRF(top_three, tol=0.01).fit(X, Y)
    >>> bool(model.converged_), bool(model.certified_), np.sign(model.coef_)
    (True, True, array([ 1., -1.]))
    >>> bool(np.isclose(model.predict_marginals(X)[0].sum(), 3.0))
    True
    """

    _kept: Spaces | None = None  # output spaces of the fit; new ones where those are elsewhere
    _times: CallTimes | None = None

    def __init__(
        self,
        decode: Callable[..., Any] | None = None,
        alpha: float = 1.0,
        structure: Any = None,
        features: Callable[[Any], Any] | None = None,
        entropy: Any = None,
        interior: Any = None,
        marginals: Callable[..., Any] | None = None,
        bounds: Callable[..., Any] | None = None,
        exact: bool = True,
        solver: Any = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_time: float | None = None,
        feature_names: Sequence[str] | None = None,
        l1_ratio: float = 0.0,
        warm_start: bool = False,
        callback: Callable[[Progress], Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        standardize: bool = False,
    ):
        self.decode = decode
        self.alpha = alpha
        self.structure = structure
        self.features = features
        self.entropy = entropy
        self.interior = interior
        self.marginals = marginals
        self.bounds = bounds
        self.exact = exact
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.feature_names = feature_names
        self.l1_ratio = l1_ratio
        self.warm_start = warm_start
        self.callback = callback
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.standardize = standardize

    # ------------------------------------------------------------------ samples
    def _blocks(
        self, X: Sequence[Any], Y: Sequence[Any], weights: Floats, separate: bool
    ) -> list[Block]:
        spaces, times = self._spaces(), self._call_times()
        if self.warm_start:
            spaces.take(self._kept)
        blocks = self._make_blocks(X, spaces)
        observed = [self._observe(block, Y[m], f"Y[{m}]") for m, block in enumerate(blocks)]
        # Of equal labels of one space the first is asked for.
        labels = {
            (id(block.structure), observed[m].indices.tobytes()): (m, block)
            for m, block in reversed(list(enumerate(blocks)))
            if isinstance(block.structure, DecoderSpace)
        }

        def check(item: tuple[int, Block]) -> None:
            m, block = item
            assert isinstance(block.structure, DecoderSpace)
            with times.turn(), Naming(block.name, f"checking Y[{m}]"):
                block.structure.know(observed[m], f"Y[{m}]")

        with threaded_map(self.n_threads(), len(blocks)) as each:
            list(each(check, reversed(labels.values())))
            spaces.prepare(each, times)
        for m, (block, vertex) in enumerate(zip(blocks, observed, strict=True)):
            if isinstance(block.structure, DecoderSpace):
                block.structure.agree(vertex, f"Y[{m}]")
        if not self._in_partition and all(block.structure.is_fixed for block in blocks):
            raise ValueError("X: every sample has only one possible output, nothing can be learned")
        self._kept = spaces
        return [
            replace(block, observed=vertex, weight=weight)
            for block, vertex, weight in zip(blocks, observed, weights.tolist(), strict=True)
        ]

    def learned(self) -> dict[str, Any]:
        own = ("_kept", "_times")
        return {name: value for name, value in super().learned().items() if name not in own}

    def _prepare(self, X: Sequence[Any]) -> list[Block]:
        spaces = self._spaces()
        spaces.take(self._kept)
        return self._make_blocks(X, spaces)

    def _spaces(self) -> Spaces:
        """How samples become output spaces; raises where parameters do not fit together."""
        if self.features is not None and not callable(self.features):
            raise TypeError(f"features: expected a function of x or None, got {self.features!r}")
        if (self.decode is None) == (self.structure is None):
            raise ValueError("StructuredCRF: give either decode or structure")
        if self.structure is not None:
            for name in OF_DECODE:
                if getattr(self, name) is not None:
                    raise ValueError(f"{name}: goes with decode; a structure has its own")
            return Spaces(self.structure)
        if not callable(self.decode):
            raise TypeError(f"decode: expected a function of scores, got {self.decode!r}")
        for name in ("marginals", "bounds"):
            given = getattr(self, name)
            if given is not None and not callable(given):
                raise TypeError(f"{name}: expected a function of scores or None, got {given!r}")
        if not isinstance(self.exact, bool | np.bool_):
            raise TypeError(f"exact must be True or False, got {self.exact!r}")
        return Decoders(self, self._call_times())

    def _call_times(self) -> CallTimes:
        """How long calls of `decode` take, in fits and in predictions."""
        if self._times is None or self._times.decode is not self.decode:
            self._times = CallTimes(self.decode)
        return self._times

    def n_threads(self) -> int:
        """n_jobs as in scikit-learn, but 1 where calls of `decode` are too short for threads."""
        wanted = super().n_threads()
        return 1 if self._call_times().are_short else wanted

    def _make_blocks(self, X: Sequence[Any], spaces: Spaces) -> list[Block]:
        maps: dict[int, FeatureMap] = {}
        blocks = []
        for m, x in enumerate(X):
            if id(x) not in maps:
                given = x if self.features is None else self.features(x)
                maps[id(x)] = read_features(given, f"X[{m}]")
            features = maps[id(x)]
            structure = spaces.of(x, features.n_scored, f"X[{m}]")
            blocks.append(Block(structure, features, NOTHING, name=f"X[{m}]"))
        return blocks

    def _observe(self, block: Block, label: Any, where: str) -> Vertex:
        try:
            return block.structure.encode(label)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{where}: {str(error).removeprefix('label: ')}") from None

    # ------------------------------------------------------------------ fitting
    def _keep(self, result: Result, tol: float) -> None:
        super()._keep(result, tol)
        kept = self._kept or self._spaces()  # others are with the partitions
        doubt = kept.doubt()
        if doubt is None and not result.proven:
            doubt = "Output spaces of samples in partitions have no proven bounds."
        self.certified_ = doubt is None
        if not self.certified_:
            warnings.warn(
                f"StructuredCRF: duality_gap_ ({self.duality_gap_:.3g}) is an estimate and no "
                f"certificate (certified_=False). {doubt}",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _setup_calls(self) -> int:
        return 0 if self._kept is None else self._kept.n_preparing_calls

    def _advice(self, result: Result) -> str:
        if self.decode is not None and result.iterations == 0 and result.setup > result.seconds:
            return (
                "Most of the time went to calls of decode in set-up, which check Y and look for "
                "interior points: give interior=, n_jobs= or more max_time."
            )
        if result.slack > 0.5 * result.gap:
            return (
                f"{result.slack:.3g} of the gap is the distance of decode's upper bounds from its "
                "outputs: solve more precisely (more iterations alone do not help)."
            )
        return super()._advice(result)

    # ------------------------------------------------------------------ prediction
    def _each(self, function: Callable[[Any], T], items: Iterable[Any]) -> list[T]:
        """Apply to all blocks, over n_jobs threads; errors of decoders name the sample."""

        times = self._call_times()

        def one(item: Any) -> T:
            block = item[0] if isinstance(item, tuple) else item  # (block, stream) of samples
            with times.turn(), Naming(block.name, "in prediction"):
                return function(item)

        return super()._each(one, items)

    def _given(self, X: Any, known: Any) -> list[Block]:
        """Blocks of new samples given what is `known` of each, or None."""
        blocks = self._new_blocks(X)
        if known is None:
            return blocks
        parts = check_same_length(blocks, known, "known")
        out = []
        for m, (block, own) in enumerate(zip(blocks, parts, strict=True)):
            if own is not None:
                try:
                    block = replace(block, structure=block.structure.given(own))
                except ValueError as error:
                    why = str(error).removeprefix("known: ")
                    raise ValueError(f"known[{m}]: {why}") from None
            out.append(block)
        return out

    @over_partitions
    def predict(self, X: Any, *, known: Any = None) -> list[Any]:
        """The most probable output (MAP) of each sample.

        `known` holds for each sample what is given of its output, or None: 1, 0 and NaN (not known)
        for every coordinate, or what `given` of its structure takes. All else is predicted given
        this.
        """
        return self._each(
            lambda block: block.structure.best_label(block.scores(self.coef_)),
            self._given(X, known),
        )

    @over_partitions
    def predict_marginals(
        self, X: Any, tol: float = 1e-3, method: str = "auto", *, known: Any = None, **options: Any
    ) -> list[Floats]:
        """Pseudo-marginal probability of every coordinate to be 1, given what is `known`.

        `method` is one of `mlestruct.inference.marginals`: "auto" and "fw" (by `decode`),
        "perturb", "oracle" and "exact" where the structure has them; `options` are those of the
        method. `tol` is the certified gap of each log-partition function.

        Returns
        -------
        list of ndarray of shape (n,)
        """
        blocks = self._given(X, known)
        options = seeded(options, method, self.random_state)
        found = certified_marginals(blocks, self.coef_, tol, method, options, self._each)
        return [b.structure.marginal_table(tau) for b, tau in zip(blocks, found, strict=True)]

    def predict_proba(self, X: Any, **options: Any) -> list[Floats]:
        """`predict_marginals` under the name that scikit-learn has for it."""
        return self.predict_marginals(X, **options)

    def events(
        self, X: Any, Y: Any, tol: float = 1e-3, method: str = "auto", **options: Any
    ) -> Events:
        """Which coordinates were 1 and their probabilities, for scikit-learn's metrics.

        `tol`, `method` and `options` are those of `predict_marginals`.
        """
        blocks = self._labelled(X, Y)
        options = seeded(options, method, self.random_state)
        tau = certified_marginals(blocks, self.coef_, tol, method, options, self._each)
        seen = [block.observed.dense(block.structure.n_coordinates) for block in blocks]
        return as_events(np.concatenate(seen), np.concatenate(tau))

    def sample(
        self,
        X: Any,
        n_samples: int = 1,
        method: str = "auto",
        *,
        known: Any = None,
        random_state: Any = None,
    ) -> list[Any]:
        """Outputs drawn near p(y | x; coef_), per sample.

        Parameters
        ----------
        method : "perturb": perturb-and-MAP, a call of `decode` each, with a bias that more samples
            do not remove; "exact", from p itself, where the structure can count; "auto": exact for
            structures that can, else perturb
        known : what is given of each output, as in `predict`
        random_state : int, Generator or None

        Returns
        -------
        list of arrays of shape (n_samples, n)
        """
        blocks = self._given(X, known)
        if method == "auto":
            counted = all(block.structure.offers("exact") for block in blocks)
            method = "exact" if counted else "perturb"
        drawn = block_samples(blocks, self.coef_, n_samples, method, random_state, {}, self._each)
        return [found.labels for found in drawn]

    # ------------------------------------------------------------------ likelihoods
    def _labelled(self, X: Any, Y: Any, known: Any = None) -> list[Block]:
        """Blocks of samples whose outputs are observed, given what is known of them."""
        samples = check_samples(X)
        labels = check_same_length(samples, Y)
        out = []
        for m, block in enumerate(self._given(samples, known)):
            vertex = self._observe(block, labels[m], f"Y[{m}]")
            if isinstance(block.structure, Conditioned) and not block.structure.agrees(vertex):
                raise ValueError(f"known[{m}]: differs from Y[{m}]")
            out.append(replace(block, observed=vertex))
        return out

    @over_partitions
    def approximate_log_likelihood(
        self, X: Any, Y: Any, tol: float = 1e-3, *, known: Any = None
    ) -> Floats:
        """<scores, y> - log Z_rho of each sample: what `fit` maximises, without the penalty.

        With the default entropy a lower bound of the exact log-likelihood. `tol` is the certified
        gap, per node where the structure has nodes. With what is `known`, as in `predict`, log p of
        the rest given this; Y must agree.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        blocks = self._labelled(X, Y, known)
        return np.array(self._each(lambda b: approximate_value(b, self.coef_, tol), blocks))

    @over_partitions
    def log_likelihood(self, X: Any, Y: Any, *, known: Any = None) -> Floats:
        """Exact log p(y | x; coef_) of each sample, where the structure can count its outputs.

        `known` is as in `approximate_log_likelihood`.
        """
        blocks = self._labelled(X, Y, known)
        return np.array(self._each(lambda b: exact_log_likelihood(b, self.coef_), blocks))

    @over_partitions
    def log_likelihood_bounds(
        self, X: Any, Y: Any, tol: float = 1e-3, *, known: Any = None
    ) -> tuple[Floats, Floats]:
        """Proven bounds of the exact log p(y | x; coef_) of each sample, whatever the entropy is.

        The entropy of independent coordinates bounds log Z from above; from below the sum over the
        outputs that were decoded on the way. See `mlestruct.inference.log_partition_bounds`.
        `known` is as in `approximate_log_likelihood`.

        Returns
        -------
        lower, upper : ndarrays of shape (n_samples,)
        """
        blocks = self._labelled(X, Y, known)
        found = np.array(self._each(lambda b: likelihood_bounds(b, self.coef_, tol), blocks))
        return found[:, 0], found[:, 1]

    # ------------------------------------------------------------------ files
    def _learned_names(self) -> tuple[list[str], dict[str, Any] | None]:
        names, _ = super()._learned_names()
        return names, {"certified": bool(self.certified_)}

    def _reload(self, coef: Floats, names: list[str], layout: dict[str, Any] | None) -> None:
        super()._reload(coef, names, layout)
        self.certified_ = bool((layout or {})["certified"])
