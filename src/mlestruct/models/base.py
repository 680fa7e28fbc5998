"""The base of all estimators: validate, build blocks, call a solver, keep its certificate."""

from __future__ import annotations

import copy
import hashlib
import inspect
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._deadline import check_time, in_time, time_limit
from .._threads import threaded_map
from ..exceptions import CheckpointError
from ..features.constant import ConstantFeature
from ..features.contract import Columns, FeatureMap
from ..features.transformed import TransformedFeatures, standardizing
from ..labels import States
from ..learning.checkpoint import Checkpoint, fingerprint
from ..learning.partial_outputs import solve_partial
from ..learning.problem import Block, DualProblem, merge_equal
from ..learning.result import Result, Stopping
from ..learning.solvers import check_alphas, make_solver, regularization_path, solve
from ..partitions.sources import are_elsewhere, is_partitioned
from . import persistence
from .failed_fits import unchanged_on_failure
from .partitioned import gathered, local_copy, over_partitions, partitions_of, read_problem
from .validation import (
    check_count,
    check_names,
    check_options,
    check_positive,
    check_ratio,
    check_same_length,
    check_same_names,
    check_samples,
    check_scales,
    check_weights,
    count_threads,
)

Floats = NDArray[np.float64]
S = TypeVar("S")

T = TypeVar("T")


@dataclass
class RegularizationPath:
    """Fitted estimators from strong to weak regularisation; fewer if Ctrl-C interrupted one."""

    alphas: list[float]
    estimators: list[Any]
    interrupted: bool = False

    @property
    def coefs(self) -> Floats:
        """Shape (n_alphas, n_features)."""
        return np.array([estimator.coef_ for estimator in self.estimators])

    def best(self, X: Any, Y: Any, scoring: Callable[[Any, Any, Any], float] | None = None) -> Any:
        """The estimator with the best score on (X, Y); of equals the most regularised one.

        `scoring(estimator, X, Y)` is larger where better; by default accuracy, `estimator.score`.
        For probabilities take a likelihood:
        `scoring=lambda e, X, Y: e.approximate_log_likelihood(X, Y).mean()`.
        """
        scores = [
            float(e.score(X, Y) if scoring is None else scoring(e, X, Y)) for e in self.estimators
        ]
        return self.estimators[int(np.argmax(scores))]


class CertifiedModel(BaseEstimator, metaclass=ABCMeta):
    """The result of a fit: weights, their certificate and history; saving and loading."""

    def _keep(self, result: Result, tol: float) -> None:
        """Store the result of a solver; warn if it did not reach `tol`."""
        self.coef_ = self._full_coef(result.theta)
        self.objective_ = result.objective
        self.duality_gap_ = result.gap
        self.converged_ = result.converged
        self.n_iter_ = result.iterations
        self.n_oracle_calls_ = result.oracle_calls + result.setup_calls
        self.history_ = result.history
        self.solver_ = result.solver
        if not result.converged:
            why = "interrupted" if result.interrupted else "stopped"
            where = "before the first certificate"
            if np.isfinite(result.gap):
                relative = result.gap / max(1.0, abs(result.objective))
                where = (
                    f"at a duality gap of {result.gap:.3g} ({relative:.2g} relative, tol={tol:g})"
                )
            seconds = f"{result.seconds + result.setup:.1f} s"
            if result.setup > 0.1 * result.seconds + 0.1:
                seconds += f" ({result.setup:.1f} s of them set-up)"
            warnings.warn(
                f"{type(self).__name__}: {why} after {seconds} and {result.iterations} iterations "
                f"{where}; the model is the best found so far. {self._advice(result)}",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _advice(self, result: Result) -> str:
        """What would make the gap of a result smaller."""
        return (
            "For a smaller gap: more max_iter or max_time, features of similar scale, or "
            "stronger alpha."
        )

    def _adopt(self, model: CertifiedModel) -> None:
        """Take the weights and the certificate of a model that this one is built around."""
        self.coef_ = model.coef_
        self.objective_ = model.objective_
        self.duality_gap_ = model.duality_gap_
        self.converged_ = model.converged_
        self.n_iter_ = model.n_iter_
        self.n_oracle_calls_ = model.n_oracle_calls_
        self.history_ = model.history_
        self.solver_ = model.solver_

    @property
    def states_(self) -> States | None:
        """The labels of tokens, pixels or nodes and their numbers; None where outputs are others.

        Scorers (`mlestruct.metrics`) recognise labellings by it.
        """
        return None

    def to_local(self) -> Any:
        """A copy with what was learned, which refers to nothing else: no samples, no cluster."""
        return local_copy(self)

    def _full_coef(self, theta: Floats) -> Floats:
        """All weights, from those that a solver has found."""
        return theta

    @abstractmethod
    def _learned_names(self) -> tuple[list[str], dict[str, Any] | None]:
        """Names of the features, and how coef_ is to be read; plain types only."""

    @abstractmethod
    def _reload(self, coef: Floats, names: list[str], layout: dict[str, Any] | None) -> None:
        """Take the weights and the learned names of a stored model."""

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a file; `mlestruct.load` reads it. Data only, no code."""
        check_is_fitted(self, "coef_")
        persistence.save(self, path)


class StructuredEstimator(CertifiedModel):
    """Base of the estimators. Subclasses turn samples into blocks and vertices into labels."""

    standardize: bool = False  # of estimators without this parameter
    _intercept: bool = False  # whether the last feature is a constant that was added
    _transform: sparse.csr_array | None = None  # from the solver's weights to coef_
    _state: tuple[Any, Any] = (None, None)  # the problem of the last fit, and where it ended
    _in_partition: bool = False  # whether other samples are elsewhere
    _agreement: Any = None  # what this partition has in common with them
    _entries: ClassVar[str] = "labels"  # what Y has one of for each sample, for messages

    @abstractmethod
    def _blocks(
        self, X: Sequence[Any], Y: Sequence[Any], weights: Floats, separate: bool
    ) -> list[Block]:
        """Validated blocks of the training samples, each of its own if `separate`."""

    @abstractmethod
    def _prepare(self, X: Sequence[Any]) -> list[Block]:
        """Blocks of new samples, without observations."""

    # ------------------------------------------------------------------ fitting
    def fit(
        self,
        X: Any,
        Y: Any,
        sample_weight: Any = None,
        *,
        checkpoint: str | Path | Checkpoint | None = None,
    ) -> Any:
        """Learn `coef_` from samples X and their observed outputs Y.

        `sample_weight` has one weight per sample. Estimators of labellings also take an array in
        the shape of a sample's labels: 0 leaves a label out, connected parts of the others have
        one weight each.

        `checkpoint` is a folder, or a `Checkpoint` of one: the state of the fit is written there
        every 30 seconds, and the same call continues from it after an interruption, with the steps
        that an unbroken fit makes.

        X and Y may come in partitions: Dask bags, or lists of Delayed, of Futures, or of
        `mlestruct.partitions.Lazy` calls. Samples then stay where they are.

        Returns
        -------
        self
        """
        check_options(self.get_params(deep=False))
        with unchanged_on_failure(self), time_limit(self._max_time()):
            for name in [own for own in vars(self) if own.endswith("_") and own[0] != "_"]:
                delattr(self, name)  # not every fit learns the same
            began = perf_counter()
            problem = self.build_problem(X, Y, sample_weight)
            setup = perf_counter() - began
            solver = make_solver(self.solver, problem)
            signature, state = self._state
            fits = self.warm_start and signature == _signature(solver.name, problem)
            budget = (self.generator(), max(self.n_threads(), problem.n_waiting))
            stopping = self._resumed(problem, solver, checkpoint)
            if problem.has_partial:
                first = self._first_theta(X, Y, sample_weight)
                result, self.likelihood_path_ = solve_partial(
                    problem, solver, stopping, first, *budget
                )
            else:
                warm = state if fits else None
                result = solve(problem, solver, stopping, warm, *budget)
            if result.interrupted and _in_search():
                raise KeyboardInterrupt
            self._state = (_signature(result.solver, problem), result.state)
            kept = stopping.checkpoint
            result.setup = setup
            result.setup_calls = self._setup_calls() if kept is None else kept.setup_calls
            self._keep(result, self.tol)
        return self

    def fit_path(
        self, X: Any, Y: Any, alphas: Sequence[float], sample_weight: Any = None
    ) -> RegularizationPath:
        """Fit one estimator per alpha, from strong to weak, each starting from the last.

        This estimator itself is not changed. `max_time` holds for the reading of the samples, and
        again for each alpha.
        """
        check_alphas(alphas)
        reader = clone(self)
        with time_limit(self._max_time()):
            problem = reader.build_problem(X, Y, sample_weight)
        if problem.has_partial:
            raise ValueError("Y: fit_path takes outputs that are known whole; fit each alpha")
        path = RegularizationPath([], [])
        for alpha, result in regularization_path(
            problem, alphas, make_solver(self.solver, problem), self.stopping(),
            self.generator(), max(self.n_threads(), problem.n_waiting),
        ):  # fmt: skip
            fitted = copy.copy(reader).set_params(alpha=alpha)
            fitted._transform = reader._transform  # which files and copies do without
            result.setup_calls = reader._setup_calls()
            fitted._keep(result, self.tol)
            fitted._state = (_signature(result.solver, problem), result.state)
            path.alphas.append(alpha)
            path.estimators.append(fitted)
            path.interrupted = result.interrupted
        return path

    # ---------------------------------------- the parts of a fit, for learners over an estimator
    def build_problem(
        self, X: Any, Y: Any, sample_weight: Any = None, *, separate: bool = False
    ) -> DualProblem:
        """The learning problem of validated samples; learns the names of features and states.

        With `separate` every sample is a block of its own; else those that allow it are merged.
        """
        alpha = check_positive(self.alpha, "alpha")
        check_positive(self.tol, "tol")
        l1_ratio = check_ratio(self.l1_ratio)
        if are_elsewhere(X) and not separate:
            parts = partitions_of(X, Y, sample_weight)
            problem, columns = read_problem(self, *parts, alpha, l1_ratio)
        else:
            blocks = self.training_blocks(X, Y, sample_weight, separate)
            columns = self.column_statistics(blocks)
            self.choose_intercept(columns)
            if self._intercept:
                blocks = self.with_constants(blocks)
                columns = self.column_statistics(blocks)
            transform = self.learn_transform(columns, type(blocks[0].features).__name__)
            blocks = self.transformed(blocks, transform)
            blocks = blocks if separate else merge_equal(blocks)
            problem = DualProblem(blocks, alpha, l1_ratio)
        self._learn_names(problem)
        self._check_scales(columns)
        return problem

    def training_blocks(
        self, X: Any, Y: Any, sample_weight: Any = None, separate: bool = False
    ) -> list[Block]:
        """Blocks of validated samples, before constants and scales."""
        samples = check_samples(X)
        labels = check_same_length(samples, Y, entries=self._entries)
        samples, labels, weights = self._weighted(samples, labels, sample_weight)
        self._intercept = False
        blocks = self._blocks(samples, labels, weights, separate)
        sizes = [block.features.n_features for block in blocks]
        for m, size in enumerate(sizes):
            if size != sizes[0]:
                raise ValueError(f"X[{m}] has {size} features, X[0] has {sizes[0]}")
        check_same_names([block.features for block in blocks])
        blocks = [block for block in blocks if block.weight > 0]
        if separate and any(block.partial is not None for block in blocks):
            raise ValueError("Y: this learner takes outputs that are known whole")
        return blocks

    # ------------------------------------------------------------------ samples in partitions
    def reader(self) -> Any:
        """An estimator with the same parameters that reads samples elsewhere."""
        return clone(self).set_params(callback=None, random_state=None)

    def survey(self, X: Any, Y: Any) -> Any:
        """What the samples of a partition have that all partitions must agree on."""
        return None

    def agreement(self, surveys: Sequence[Any]) -> Any:
        """What all partitions use, from their surveys."""
        return None

    def agree(self, agreement: Any) -> None:
        """Read samples with what all partitions have agreed on."""
        self._agreement = agreement
        self._in_partition = True

    def learned(self) -> dict[str, Any]:
        """The attributes that reading samples has set."""
        own = {*self.get_params(deep=False), "_agreement", "_in_partition", "_intercept"}
        return {name: value for name, value in vars(self).items() if name not in own}

    def _weighted(
        self, X: Sequence[Any], Y: Sequence[Any], sample_weight: Any
    ) -> tuple[Sequence[Any], Sequence[Any], Floats]:
        """Samples, their labels and the weight of each."""
        return X, Y, check_weights(sample_weight, len(X), all_zero=self._in_partition)

    def _first_theta(self, X: Any, Y: Any, sample_weight: Any) -> Floats | None:
        """Where learning from partial outputs starts; None: from outputs that are known whole."""
        return None

    # ------------------------------------------------------------------ constants and scales
    def _wants_intercept(self) -> bool:
        """Whether to add a constant, unless a feature is constant already."""
        return False

    def _with_constant(self, features: Any) -> FeatureMap:
        """The same features and a constant."""
        return ConstantFeature(features)

    def choose_intercept(self, columns: Sequence[Columns]) -> None:
        """Decide on a constant, from the statistics of the features."""
        is_there = bool(columns) and columns[0].has_constant
        self._intercept = self._wants_intercept() and not is_there

    def with_constants(self, blocks: list[Block]) -> list[Block]:
        """The same blocks with a constant among their features."""
        self._intercept = True
        return _with_features(blocks, self._with_constant)

    def column_statistics(self, blocks: Sequence[Block]) -> list[Columns]:
        """Statistics of the features by kinds of weights; none where they are costly."""
        listed = in_time(blocks, "statistics of the features")
        found = [(block.features.columns(), block.weight) for block in listed]
        known = [(columns, weight) for columns, weight in found if columns is not None]
        return [Columns.weighted(known)] if len(known) == len(found) else []

    def _transformation(self, columns: Sequence[Columns]) -> sparse.csr_array:
        """T with coef_ = T (weights of standardised features)."""
        return standardizing(columns[0], self._intercept)

    def _tying(self, columns: Sequence[Columns]) -> sparse.csr_array | None:
        """T with coef_ = T theta where several weights are one; None where each is its own."""
        return None

    def learn_transform(self, columns: Sequence[Columns], kind: str) -> sparse.csr_array | None:
        """What ties weights and standardises features of a kind, if that is wanted."""
        self._transform = tying = self._tying(columns)
        if not self.standardize:
            return tying
        if not columns:
            raise ValueError(
                f"standardize=True: mean and scale of the features of {kind} would take an array "
                "of all of them; standardise what they are made of"
            )
        scaling = self._transformation(columns)
        self._transform = scaling if tying is None else scaling @ tying
        return self._transform

    def transformed(self, blocks: list[Block], transform: sparse.csr_array | None) -> list[Block]:
        """The same blocks over the solver's weights."""
        if transform is None:
            return blocks
        return _with_features(blocks, lambda features: TransformedFeatures(features, transform))

    def _check_scales(self, columns: Sequence[Columns]) -> None:
        """Warn where the scales of features make learning hard."""
        names = [self.feature_names_in_.tolist() + ["intercept"] * self._intercept]
        names += [[f"edge feature {k}" for k in range(part.total.size)] for part in columns[1:]]
        check_scales(columns, names, bool(self.standardize))

    def _full_coef(self, theta: Floats) -> Floats:
        return theta if self._transform is None else np.asarray(self._transform @ theta)

    def _learn_names(self, problem: DualProblem) -> None:
        """Names of the weights: as given, as the feature map has them, or x0, x1, ..."""
        n_features = problem.n_features - self._intercept
        names = self.feature_names
        if names is None:
            names = problem.blocks[0].features.feature_names
            names = None if names is None else list(names)[:n_features]
        elif len(names) != n_features:
            raise ValueError(f"feature_names: expected {n_features} names, got {len(names)}")
        if names is not None and len(set(names)) != n_features:
            raise ValueError("feature_names: all names must be different")
        self.n_features_in_ = n_features
        self.feature_names_in_ = np.array(
            [f"x{k}" for k in range(n_features)] if names is None else list(names), dtype=object
        )

    def stopping(self) -> Stopping:
        """When a fit ends: tol, max_iter, max_time, callback."""
        max_iter = check_count(self.max_iter, "max_iter")
        return Stopping(
            float(self.tol), max_iter, self._max_time(), self.callback, int(self.verbose)
        )

    def _max_time(self) -> float | None:
        return None if self.max_time is None else check_positive(self.max_time, "max_time")

    def _resumed(self, problem: DualProblem, solver: Any, checkpoint: Any) -> Stopping:
        """When a fit ends, and what it continues from."""
        if checkpoint is None:
            return self.stopping()
        if problem.has_partial:
            raise CheckpointError("checkpoint: fits to outputs that are known in part have none")
        kept = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)
        kept.open(self._settings(problem, solver), problem.blocks, self._setup_calls())
        return replace(self.stopping(), checkpoint=kept)

    def _setup_calls(self) -> int:
        """Calls of oracles that building the problem has made."""
        return 0

    def _settings(self, problem: DualProblem, solver: Any) -> dict[str, str]:
        """What decides the steps of a fit: those of equal settings may continue each other."""
        free = ("callback", "max_iter", "max_time", "n_jobs", "verbose", "warm_start", "solver")
        parameters = self.get_params(deep=False).items()
        found = {name: _described(value) for name, value in parameters if name not in free}
        kind = type(self).__name__
        return {"estimator": kind, "solver": repr(solver), "data": fingerprint(problem), **found}

    def generator(self) -> np.random.Generator:
        """A random number generator from `random_state`."""
        if isinstance(self.random_state, np.random.Generator):
            return self.random_state
        try:
            state = check_random_state(self.random_state)
        except ValueError as error:
            raise ValueError(f"random_state: {error}") from None
        return np.random.default_rng(state.randint(np.iinfo(np.int32).max))

    def n_threads(self) -> int:
        """n_jobs as in scikit-learn: None is 1, -1 all cores."""
        return count_threads(self.n_jobs)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("_state", None)  # warm starts hold every block's marginals
        state.pop("_transform", None)  # of the last fit, as large as the weights
        return state

    # ------------------------------------------------------------------ prediction
    def _each(self, function: Callable[[S], T], items: Iterable[S]) -> list[T]:
        """Apply to all items, over n_jobs threads."""

        def one(item: S) -> T:
            check_time(f"{type(self).__name__}: not all samples")
            return function(item)

        listed = list(items)
        with threaded_map(self.n_threads(), len(listed)) as each:
            return list(each(one, listed))

    def _new_blocks(self, X: Any) -> list[Block]:
        check_is_fitted(self, "coef_")
        blocks = self._prepare(check_samples(X))
        self._check_features(blocks)
        return blocks

    def _check_features(self, blocks: Sequence[Block]) -> None:
        """Raise unless all blocks have as many features as were fitted."""
        for m, block in enumerate(blocks):
            n_features = block.features.n_features - self._intercept
            if n_features != self.n_features_in_:
                raise ValueError(
                    f"X[{m}] has {n_features} features, but "
                    f"{type(self).__name__} was fitted with {self.n_features_in_}"
                )
            names = block.features.feature_names
            if names is not None and self.feature_names is None:
                own = list(names)[:n_features]
                check_names(self.feature_names_in_.tolist(), own, f"X[{m}]", "fit")

    @over_partitions
    def predict(self, X: Any) -> list[Any]:
        """The most probable output (MAP) of each sample."""

        def one(block: Block) -> Any:
            return block.structure.label(block.structure.decode(block.scores(self.coef_)).vertex)

        return self._each(one, self._new_blocks(X))

    def score(self, X: Any, Y: Any) -> float:
        """1 - mean Hamming loss per sample."""
        found = self._losses(X, Y=Y)
        losses = gathered(found) if is_partitioned(found) else found
        if not losses:
            raise ValueError("Y: no label is known, there is nothing to compare with")
        return 1.0 - float(np.mean(losses))

    @over_partitions
    def _losses(self, X: Any, Y: Any) -> Any:
        """Of each sample the share of its output that is predicted wrong."""
        samples = check_samples(X)
        labels = check_same_length(samples, Y)
        losses = []
        for m, (found, label) in enumerate(zip(self.predict(samples), labels, strict=True)):
            if np.shape(label) != np.shape(found):
                raise ValueError(f"Y[{m}]: expected shape {np.shape(found)}, got {np.shape(label)}")
            losses.append(float(np.mean(found != np.asarray(label))))
        return losses

    def named_coef(self) -> dict[str, float]:
        """Learned weights by feature name."""
        check_is_fitted(self, "coef_")
        names = self.feature_names_in_.tolist() + ["intercept"] * self._intercept
        return dict(zip(names, self.coef_.tolist(), strict=True))

    # ------------------------------------------------------------------ files
    def _learned_names(self) -> tuple[list[str], dict[str, Any] | None]:
        return self.feature_names_in_.tolist(), {"intercept": True} if self._intercept else None

    def _reload(self, coef: Floats, names: list[str], layout: dict[str, Any] | None) -> None:
        self.coef_ = coef
        self._intercept = bool((layout or {}).get("intercept", False))
        self._transform = None
        self.n_features_in_ = coef.shape[0] - self._intercept
        self.feature_names_in_ = np.array(names, dtype=object)


def _described(value: Any) -> str:
    """A short text that differs where values do; other objects are told apart by their types."""
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return hashlib.blake2b(value.tobytes(), digest_size=16).hexdigest()
    if isinstance(value, np.ndarray | list | tuple):
        return f"[{', '.join(_described(part) for part in value)}]"
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    return type(value).__name__


def _in_search() -> bool:
    """Whether a cross-validation or a search of scikit-learn has called, which Ctrl-C is to end."""
    frame = inspect.currentframe()
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("sklearn.model_selection"):
            return True
        frame = frame.f_back
    return False


def _with_features(
    blocks: Sequence[Block], change: Callable[[FeatureMap], FeatureMap]
) -> list[Block]:
    """The same blocks over changed features; what was shared stays shared."""
    known: dict[int, FeatureMap] = {}
    for block in blocks:
        if id(block.features) not in known:
            known[id(block.features)] = change(block.features)
    return [replace(block, features=known[id(block.features)]) for block in blocks]


def _signature(solver: str, problem: DualProblem) -> tuple[Any, ...]:
    """A solver's state can start another fit if this is equal: the same output spaces."""
    spaces = tuple(
        (block.structure.n_coordinates, block.structure.fingerprint) for block in problem.blocks
    )
    return solver, problem.n_features, spaces
