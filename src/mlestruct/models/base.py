"""The base of all estimators: read samples, build the problem, solve it, keep the certificate."""

from __future__ import annotations

import copy
import hashlib
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .._arguments import (
    as_count,
    as_positive,
    check_same_length,
    check_samples,
    check_weights,
    count_threads,
    generator,
)
from .._running import check_time, threaded_map, time_limit
from ..exceptions import CheckpointError
from ..features.rows import Columns, FeatureMap, Rows, Scaling, prepared_rows
from ..learning.checkpoint import Checkpoint
from ..learning.fully_corrective import FullyCorrective
from ..learning.lbfgs import LBFGS, Start
from ..learning.partial import PartialProblem, whole_fit
from ..learning.problem import Block, ElasticNet, Problem, merge_equal
from ..learning.solver import (
    Result,
    Solver,
    check_alphas,
    regularization_path,
    solve,
    with_budget,
)
from ..learning.workers import Parts
from . import persistence

Floats = NDArray[np.float64]
S = TypeVar("S")
T = TypeVar("T")

SECOND_CTRL_C = 5.0  # seconds: a second Ctrl-C that ends a fit within them is raised
_interrupted = [-np.inf]  # time of the last fit that Ctrl-C ended


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

        `scoring(estimator, X, Y)` is larger if better; by default accuracy, `estimator.score`.
        For probabilities take a likelihood:
        `scoring=lambda e, X, Y: e.approximate_log_likelihood(X, Y).mean()`.
        """
        scores = [
            float(e.score(X, Y) if scoring is None else scoring(e, X, Y)) for e in self.estimators
        ]
        return self.estimators[int(np.argmax(scores))]


class CertifiedModel(BaseEstimator, metaclass=ABCMeta):
    """The result of a fit: weights, their certificate and history; saving and loading."""

    def _keep(self, result: Result, tol: float, setup: float = 0.0, setup_calls: int = 0) -> None:
        """Store the result of a solver; warn if it did not reach `tol`.

        `setup` and `setup_calls` are the seconds and oracle calls before the solver.
        """
        self.coef_ = self._full_coef(result.theta)
        self.objective_ = result.objective
        self.objective_bound_ = result.objective_bound
        self.duality_gap_ = result.gap
        self.certified_ = result.proven
        # Without a bound, `gap` is the distance from a stationary point.
        if not np.isfinite(result.objective_bound) and np.isfinite(result.gap):
            self.duality_gap_, self.stationarity_ = np.inf, result.gap
        self.converged_ = result.converged
        self.n_iter_ = result.iterations
        self.n_oracle_calls_ = result.oracle_calls + setup_calls
        self.history_ = result.history
        self.solver_ = result.solver
        if result.interrupted or not (result.converged or np.isnan(result.gap)):
            why = "interrupted" if result.interrupted else "stopped"
            where = "before the first certificate"
            if np.isfinite(result.gap):
                relative = result.gap / max(1.0, abs(result.objective))
                what = "relative gap" if result.proven else "relative distance from stationarity"
                where = f"at a {what} of {relative:.2g} (tol={tol:g})"
            seconds = f"{result.seconds + setup:.1f} s"
            if setup > 0.1 * result.seconds + 0.1:
                seconds += f" ({setup:.1f} s of them set-up)"
            warnings.warn(
                f"{type(self).__name__}: {why} after {seconds} and {result.iterations} iterations "
                f"{where}; the model is the best found so far. {self._advice(result, setup)}",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _advice(self, result: Result, setup: float) -> str:
        """What would make the gap of a result smaller."""
        if result.stalled:
            return (
                "The gap does not fall any more: rounding or the oracles limit it. Scale "
                "sample_weight and alpha down by the same factor, or accept this tolerance."
            )
        return (
            "For a smaller gap: more max_iter or time, features of similar scale, stronger alpha."
        )

    def _adopt(self, model: CertifiedModel) -> None:
        """Take the weights and the certificate of a model that this one is built around."""
        for name in ("coef_", *persistence.LEARNED, "history_"):
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))

    def _full_coef(self, theta: Floats) -> Floats:
        """All weights, from the weights that a solver has found."""
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


class Estimator(CertifiedModel):
    """Base of the estimators. Subclasses turn samples into blocks and vertices into labels."""

    alpha: float
    l1_ratio: float
    tol: float
    max_iter: int
    solver: Any
    n_jobs: int | None
    random_state: Any
    verbose: int

    _entries: ClassVar[str] = "labels"  # the name of the elements of Y in messages
    _state: tuple[Any, Any] = (None, None)  # `_signature` of the last fit; the state it ended in
    _intercept: bool = False  # whether the last weight belongs to an added constant
    _scaling: Scaling | None = None  # of the features of the last fit

    @abstractmethod
    def _blocks(
        self, X: Sequence[Any], Y: Sequence[Any], weights: Floats, classes: Any
    ) -> list[Block]:
        """Blocks of validated training samples; learns how labels and features are numbered.

        `classes` is what `fit` was given.
        """

    # ------------------------------------------------------------------ fitting
    def fit(
        self,
        X: Any,
        Y: Any = None,
        sample_weight: Any = None,
        *,
        start: Any = None,
        checkpoint: str | Path | Checkpoint | None = None,
    ) -> Any:
        """Learn `coef_` from samples X and their observed outputs Y.

        Parameters
        ----------
        X, Y : sequences of equal length; or X is `Parts`, samples that are read where they are
        sample_weight : array of shape (n_samples,), optional
        start : fitted estimator of the same kind, optional
            The fit starts from its weights and, if it was fitted to the same output spaces, from
            its marginals.
        checkpoint : folder or `Checkpoint`, optional
            The state of the fit is written there every 30 seconds, and the same call continues
            from it after an interruption, with the steps that an unbroken fit makes.

        Returns
        -------
        self
        """
        return self._fit(X, Y, sample_weight, None, start, checkpoint)

    def _fit(
        self, X: Any, Y: Any, sample_weight: Any, classes: Any, start: Any, checkpoint: Any
    ) -> Any:
        check_options(self.get_params(deep=False))
        chosen = self._chosen_solver()
        with unchanged_on_failure(self), time_limit(getattr(chosen, "max_time", None)):
            for name in [own for own in vars(self) if own.endswith("_") and own[0] != "_"]:
                delattr(self, name)  # not every fit learns the same
            began = perf_counter()
            problem = self._problem(X, Y, sample_weight, classes)
            setup, setup_calls = perf_counter() - began, self._setup_calls()
            solver = default_solver(problem) if chosen is None else chosen
            if checkpoint is not None:
                kept = self._checkpoint(checkpoint, problem, solver)
                solver, setup_calls = with_budget(solver, checkpoint=kept), kept.setup_calls
                if getattr(solver, "checkpoint", None) is None:
                    raise CheckpointError(f"checkpoint: {type(solver).__name__} does not write any")
            solver = self._with_budget(solver)
            state = None
            if problem.has_partial:
                if not isinstance(solver, LBFGS):
                    raise ValueError(
                        f"`Y` must be known whole for solver={type(solver).__name__}(); some of it "
                        "is None or NaN. Use LBFGS()."
                    )
                start = self._first_fit(X, Y, sample_weight, classes) if start is None else start
                state = whole_fit(problem, solver, self.tol) if start is None else None
                problem = PartialProblem(problem)
            if start is not None:
                state = self._start(start, problem, solver)
            result = solve(problem, solver, self.tol, state)
            if result.interrupted:
                _raise_if_interrupted_twice()
            self._state = (_signature(result.solver, problem), result.state)
            self._keep(result, self.tol, setup, setup_calls)
        return self

    def fit_path(
        self, X: Any, Y: Any, alphas: Sequence[float], sample_weight: Any = None
    ) -> RegularizationPath:
        """Fit one estimator per alpha, from strong to weak, each starting from the last.

        This estimator itself is not changed. A solver's `max_time` holds for the reading of the
        samples, and again for each alpha.
        """
        check_alphas(alphas)
        check_options(self.get_params(deep=False))
        reader, chosen = clone(self), self._chosen_solver()
        with time_limit(getattr(chosen, "max_time", None)):
            problem = reader._problem(X, Y, sample_weight)
        if problem.has_partial:
            raise ValueError("Y: fit_path takes outputs that are known whole; fit each alpha")
        solver = self._with_budget(default_solver(problem) if chosen is None else chosen)
        path = RegularizationPath([], [])
        for alpha, result in regularization_path(problem, alphas, solver, self.tol):
            fitted = copy.copy(reader).set_params(alpha=alpha)
            fitted._keep(result, self.tol, 0.0, reader._setup_calls())
            fitted._state = (_signature(result.solver, problem), result.state)
            path.alphas.append(alpha)
            path.estimators.append(fitted)
            path.interrupted = result.interrupted
        return path

    def _problem(self, X: Any, Y: Any, sample_weight: Any = None, classes: Any = None) -> Problem:
        """The learning problem of validated samples; learns the names of features and states."""
        penalty = ElasticNet(self.alpha, self.l1_ratio)
        if isinstance(X, Parts):
            return X.problem(self, classes)
        samples = check_samples(X)
        labels = check_same_length(samples, Y, entries=self._entries)
        weights = check_weights(sample_weight, len(samples))
        blocks = self._blocks(samples, labels, weights, classes)
        blocks = [block for block in blocks if block.weight > 0]
        if not self._one_block_per_sample:
            blocks = merge_equal(blocks)
        return Problem(blocks, penalty.alpha, penalty.l1_ratio, count_threads(self.n_jobs))

    @property
    def _one_block_per_sample(self) -> bool:
        """Whether the solver visits samples one by one."""
        return bool(getattr(self.solver, "one_block_per_sample", False))

    # ------------------------------------------------------------------ features
    def _in_solver_units(
        self, blocks: list[Block], constant: bool, standardize: bool
    ) -> list[Block]:
        """Blocks with the constant and the scaling of this fit; learns the names of features."""
        self._intercept, self._scaling = False, None
        features = [block.features for block in blocks]
        size = features[0].n_features
        for block, own in zip(blocks, features, strict=True):
            if own.n_features != size:
                raise ValueError(f"{block.name} has {own.n_features} features, X[0] has {size}")
        check_same_names(features)
        self._learn_names(features[0].feature_names, size)
        if not all(isinstance(own, Rows) for own in features):
            if constant or standardize:
                option = "standardize" if standardize else "fit_intercept"
                raise ValueError(
                    f"`{option}=True` needs features as a matrix; got an object of your own. Add "
                    f"a constant or scale its features yourself, and pass {option}=False."
                )
            return blocks
        # Blocks may share features: each matrix counts once, with the weight of all its blocks.
        weights = dict.fromkeys(map(id, features), 0.0)
        for block in blocks:
            weights[id(block.features)] += block.weight
        found = {id(own): own for own in features}
        rows, columns, self._intercept, self._scaling = prepared_rows(
            list(found.values()), list(weights.values()), constant, standardize
        )
        check_scales([columns], [self._own_names(None)], standardize)
        changed = dict(zip(found, rows, strict=True))
        return [replace(block, features=changed[id(block.features)]) for block in blocks]

    def _full_coef(self, theta: Floats) -> Floats:
        return theta if self._scaling is None else self._scaling.original(theta)

    def _solver_coef(self, model: Any) -> Floats:
        """The weights that a solver sees, from `coef_` of a model; inverse of `_full_coef`."""
        coef: Floats = model.coef_
        return coef if self._scaling is None else self._scaling.standardised(coef)

    # ------------------------------------------------------------------ the solver
    def _chosen_solver(self) -> Any:
        """The solver of the constructor; None is the default one."""
        as_positive(self.tol, "tol")
        if self.solver is not None and not callable(getattr(self.solver, "solve", None)):
            raise TypeError(
                f"`solver` must be None or an object with solve(problem, tol, start); got "
                f"{self.solver!r}. Pass mlestruct.LBFGS(), FrankWolfe() or BlockFrankWolfe()."
            )
        return self.solver

    def _with_budget(self, solver: Any) -> Any:
        """The solver with the budget of this estimator, if it leaves its own open."""
        max_iter = as_count(self.max_iter, "max_iter")
        options = {"max_iter": max_iter, "verbose": int(self.verbose)}
        return with_budget(solver, **options, random_state=generator(self.random_state))

    def _start(self, start: Any, problem: Problem, solver: Any) -> Any:
        """The state from which a solver continues."""
        check_is_fitted(start, "coef_")
        if type(start) is not type(self):
            raise TypeError(
                f"`start` must be a fitted {type(self).__name__}; got {type(start).__name__}."
            )
        signature, state = start._state
        if signature == _signature(getattr(solver, "name", ""), problem):
            return state
        theta = self._solver_coef(start)
        if theta.shape != (problem.n_features,):
            raise ValueError(
                f"`start` has {theta.size} weights, this fit has {problem.n_features}. "
                "Pass an estimator that was fitted to the same features and labels."
            )
        return Start(theta) if getattr(solver, "starts_from_weights", False) else None

    def _first_fit(self, X: Any, Y: Any, sample_weight: Any, classes: Any) -> Any:
        """A fit from which learning from partial outputs starts; None: from weights of 0."""
        return None

    def _setup_calls(self) -> int:
        """Calls of oracles that building the problem has made."""
        return 0

    def _checkpoint(self, given: Any, problem: Problem, solver: Any) -> Checkpoint:
        """The opened checkpoint of a fit; fits of equal settings may continue each other."""
        free = ("max_iter", "n_jobs", "verbose", "solver")
        parameters = self.get_params(deep=False).items()
        found = {name: _described(value) for name, value in parameters if name not in free}
        named = {"estimator": type(self).__name__, "solver": _settings(solver)}
        kept = given if isinstance(given, Checkpoint) else Checkpoint(given)
        kept.open({**named, "data": problem.fingerprint, **found}, self._setup_calls())
        return kept

    def _options(self, method: str, options: dict[str, Any]) -> dict[str, Any]:
        """Options of a random method have the estimator's `random_state` if they have none."""
        return {"random_state": self.random_state, **options} if method == "perturb" else options

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("_state", None)  # it holds every block's marginals
        return state

    # ------------------------------------------------------------------ prediction
    def _each(self, function: Callable[[S], T], items: Iterable[S]) -> list[T]:
        """Apply to all items, over n_jobs threads."""

        def one(item: S) -> T:
            check_time(f"{type(self).__name__}: not all samples")
            return function(item)

        listed = list(items)
        with threaded_map(count_threads(self.n_jobs), len(listed)) as each:
            return list(each(one, listed))

    # ------------------------------------------------------------------ names and files
    def _learn_names(self, names: Sequence[str] | None, n_features: int) -> None:
        """Names of the features: as given, or x0, x1, ..."""
        if names is not None and len(set(names)) != n_features:
            raise ValueError(f"X: {n_features} features need as many different names; got {names}")
        found = [f"x{k}" for k in range(n_features)] if names is None else list(names)
        self.n_features_in_, self.feature_names_in_ = n_features, np.array(found, dtype=object)

    def named_coef(self, names: Sequence[str] | None = None) -> dict[str, float]:
        """Learned weights by name; `names` replaces `feature_names_in_`."""
        check_is_fitted(self, "coef_")
        return dict(zip(self._own_names(names), self.coef_.tolist(), strict=True))

    def _own_names(self, names: Sequence[str] | None) -> list[str]:
        """Names of the features, given or learned."""
        if names is None:
            return list(self.feature_names_in_)
        if len(names) != self.n_features_in_ or len(set(names)) != len(names):
            raise ValueError(
                f"`names` must hold {self.n_features_in_} different names; got {list(names)}."
            )
        return list(names)

    def _learned_names(self) -> tuple[list[str], dict[str, Any] | None]:
        return self.feature_names_in_.tolist(), None

    def _reload(self, coef: Floats, names: list[str], layout: dict[str, Any] | None) -> None:
        self.coef_ = coef
        self._learn_names(names, len(names))


def default_solver(problem: Problem) -> Solver:
    """L-BFGS if every output space has marginals, else a solver that only decodes."""
    return LBFGS() if problem.has_marginals else FullyCorrective()


@contextmanager
def unchanged_on_failure(estimator: BaseEstimator) -> Iterator[None]:
    """A fit that fails or is interrupted leaves the estimator as it was, fitted or not."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def _raise_if_interrupted_twice() -> None:
    """The first Ctrl-C ends a fit, which keeps its model; the second one ends a search or loop."""
    before, _interrupted[0] = _interrupted[0], perf_counter()
    if _interrupted[0] - before < SECOND_CTRL_C:
        raise KeyboardInterrupt


def _settings(solver: Any) -> str:
    """A solver without its budget."""
    if not isinstance(solver, Solver):
        return type(solver).__name__
    budget = {f.name for f in fields(Solver)}
    own = {f.name: getattr(solver, f.name) for f in fields(solver) if f.name not in budget}
    return f"{type(solver).__name__} {own}"


def _described(value: Any) -> str:
    """A short text that differs if values do; other objects are told apart by their types."""
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return hashlib.blake2b(value.tobytes(), digest_size=16).hexdigest()
    if isinstance(value, np.ndarray | list | tuple):
        return f"[{', '.join(_described(part) for part in value)}]"
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    return type(value).__name__


def _signature(solver: str, problem: Problem) -> tuple[Any, ...]:
    """A solver's state can start another fit if this is equal: the same output spaces."""
    blocks = getattr(problem, "blocks", ())
    spaces = tuple((b.structure.n_coordinates, b.structure.fingerprint) for b in blocks)
    return solver, type(problem).__name__, problem.n_features, spaces


def check_options(parameters: Mapping[str, Any]) -> None:
    """Raise if a parameter that all estimators share has a value of another kind."""
    for name in ("fit_intercept", "standardize"):
        if not isinstance(parameters.get(name, False), bool | np.bool_):
            raise TypeError(f"{name} must be True or False, got {parameters[name]!r}")
    if isinstance(parameters.get("rho"), bool | complex):
        raise TypeError(f"rho must be a number, got {parameters['rho']!r}")
    verbose = parameters.get("verbose", 0)
    if not isinstance(verbose, int | np.integer | np.bool_) or verbose < 0:
        raise ValueError(f"verbose must be an integer of at least 0, got {verbose!r}")


# ---------------------------------------------------------------------- features
def check_names(expected: list[str], found: list[str], where: str, of: str) -> None:
    """Raise unless the features are the same as in `of`, in the same order."""
    if expected == found:
        return
    if len(expected) != len(found):
        raise ValueError(f"{where} has {len(found)} columns, {of} has {len(expected)}")
    k = next(k for k, (a, b) in enumerate(zip(expected, found, strict=True)) if a != b)
    same = " (the same names, in another order)" if sorted(expected) == sorted(found) else ""
    raise ValueError(
        f"{where}: feature {k} is {found[k]!r}, in {of} it was {expected[k]!r}{same}; features "
        "must be the same, in the same order"
    )


def check_same_names(features: Sequence[FeatureMap]) -> None:
    """Raise if feature maps that name their features disagree."""
    named = [(m, list(f.feature_names)) for m, f in enumerate(features) if f.feature_names]
    for m, names in named[1:]:
        check_names(named[0][1], names, f"X[{m}]", f"X[{named[0][0]}]")


def column_names(tables: Sequence[Any], name: str = "X") -> list[str] | None:
    """The columns of data frames, the same in all; None if tables are not frames."""
    first: tuple[str, list[str]] | None = None
    for m, table in enumerate(tables):
        if hasattr(table, "columns") and not issparse(table):
            found = [str(k) for k in table.columns]
            first = first or (f"{name}[{m}]", found)
            check_names(first[1], found, f"{name}[{m}]", first[0])
    return first and first[1]


def check_columns(tables: Sequence[Any], fitted: Sequence[str], name: str = "X") -> None:
    """Raise if data frames have other columns than in `fit`, unless these had no names."""
    found = column_names(tables, name)
    if found is not None and list(fitted) != [f"x{k}" for k in range(len(fitted))]:
        check_names(list(fitted), found, name, "fit")


def check_scales(
    columns: Sequence[Columns], names: Sequence[Sequence[str]], standardize: bool
) -> None:
    """Warn if a feature dominates all others of its kind of weights, or if all are constant."""
    if columns and all(part.constant.all() for part in columns):
        text = "X: every feature is constant, so it cannot tell nodes or pairs apart"
        warnings.warn(text, UserWarning, stacklevel=2)
    for part, own in zip(columns, names, strict=False):
        varying = np.flatnonzero(~part.constant)
        if varying.size < 2 or standardize:
            continue
        sizes = part.largest[varying]
        k = int(np.argmax(sizes))
        usual = float(np.median(np.delete(sizes, k)))
        # One alpha then penalises a weight 10,000 times as much, relative to its effect.
        if sizes[k] > 100.0 * usual:
            warnings.warn(
                f"X: feature {own[int(varying[k])]!r} is as large as {sizes[k]:.3g}, half of the "
                f"others are at most {usual:.3g}. One alpha penalises all weights, so scales "
                "matter: use standardize=True",
                UserWarning,
                stacklevel=2,
            )
