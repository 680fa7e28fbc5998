"""What estimators are asked sample by sample: outputs, their probabilities and likelihoods."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .._deadline import in_time
from .._random import generator
from ..features.rows import Columns, FeatureMap, Rows, Scaling
from ..inference.bounds import log_partition_bounds
from ..inference.marginals import marginals
from ..inference.sampling import sample
from ..learning.problem import Block
from .base import Estimator, check_positive, check_samples

Floats = NDArray[np.float64]
T = TypeVar("T")


class Query(NamedTuple):
    """A new sample: its block, whose structure has only the outputs that agree with `known`.

    Families have tuples of their own, with more beside the block.
    """

    block: Block


class SampleEstimator(Estimator):
    """An estimator that answers by the block of each sample."""

    _tol: ClassVar[float] = 1e-3  # of marginals, per node
    _likelihood_tol: ClassVar[float] = 1e-6
    _intercept: bool = False  # whether the last weight is that of a constant which was added
    _scaling: Scaling | None = None  # of the features of the last fit

    @abstractmethod
    def _queries(self, X: Any, known: Any = None) -> Sequence[Any]:
        """New samples, each a `Query`, checked against what was fitted."""

    @abstractmethod
    def _labelled(self, X: Any, Y: Any, known: Any) -> Sequence[Block | None]:
        """Blocks of new samples and their outputs, given what is known; None: nothing to see."""

    def _output(self, query: Any, label: Any) -> Any:
        """A label, or several drawn ones, of the query's structure in the form of Y."""
        return label

    def _table(self, query: Any, tau: Floats) -> Any:
        """Marginals as users have them."""
        return query.block.structure.marginal_table(tau)

    # ------------------------------------------------------------------ learning
    def _in_solver_units(
        self, blocks: list[Block], constant: bool, standardize: bool
    ) -> list[Block]:
        """Blocks with the constant and the scaling of this fit, whose names it learns."""
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
        coef: Floats = model.coef_
        return coef if self._scaling is None else self._scaling.standardised(coef)

    def _check_features(self, blocks: Sequence[Block]) -> None:
        """Raise unless all blocks have the features that were fitted."""
        constants = self.coef_.size - self.n_features_in_
        for m, block in enumerate(blocks):
            n_features = block.features.n_features - constants
            if n_features != self.n_features_in_:
                raise ValueError(
                    f"X[{m}] has {n_features} features, but {type(self).__name__} was fitted with "
                    f"{self.n_features_in_}"
                )
            names = block.features.feature_names
            if names is not None:
                check_names(self.feature_names_in_.tolist(), list(names), f"X[{m}]", "fit")

    # ------------------------------------------------------------------ outputs
    def predict(self, X: Any, *, known: Any = None) -> list[Any]:
        """The most probable output (MAP) of each sample, as Y has them.

        `known` holds for each sample what is given of its output, or None. All else is predicted
        given this.
        """
        return self._each(
            lambda query: self._output(query, self._best(query.block)), self._queries(X, known)
        )

    def _best(self, block: Block) -> Any:
        """The best output as the block's structure has it."""
        return block.structure.best_label(block.scores(self.coef_))

    def sample(
        self,
        X: Any,
        n_samples: int = 1,
        method: str = "auto",
        *,
        known: Any = None,
        random_state: Any = None,
        **options: Any,
    ) -> list[Any]:
        """Outputs drawn from p(y | x; coef_), per sample.

        Parameters
        ----------
        method : "auto", "exact", "mcmc" or "perturb", as in `mlestruct.inference.sample`
            The first three draw from p itself, without approximation; "auto" is "perturb" only
            for outputs that nothing but a decoder describes.
        known : what is given of each output, as in `predict`
        random_state : int, Generator or None

        Returns
        -------
        list of arrays of shape (n_samples, *shape of an output); lists if outputs vary in size
        """
        queries = self._queries(X, known)
        rng = generator(random_state)
        streams = [rng.spawn(1)[0] for _ in in_time(queries, "random numbers of all samples")]

        def one(entry: tuple[Any, np.random.Generator]) -> Any:
            query, own = entry
            space, scores = query.block.structure, query.block.scores(self.coef_)
            drawn = sample(space, scores, n_samples, method, random_state=own, **options)
            return self._output(query, drawn.labels)

        return self._each(one, list(zip(queries, streams, strict=True)))

    # ------------------------------------------------------------------ probabilities
    def predict_marginals(
        self,
        X: Any,
        tol: float | None = None,
        method: str = "auto",
        *,
        known: Any = None,
        **options: Any,
    ) -> list[Any]:
        """Pseudo-marginal probabilities, per sample: they maximise <scores, tau> + H_rho(tau).

        Parameters
        ----------
        tol : float, optional
            Certified gap of each log-partition function, per node; by default 1e-7 for matchings,
            1e-3 for others.
        method : "auto", "fw" (from MAP calls alone), "perturb" or, if outputs can
            be counted, "exact": as in `mlestruct.inference.marginals`, which has the `options`
        known : what is given of each output, as in `predict`

        Returns
        -------
        list of arrays: of matchings the probability of every pair, shape (n_rows, n_cols), sparse
        if the mask of the sample was; of labellings that of every state, shape (*shape of labels,
        n_states); else of every coordinate
        """
        queries = self._queries(X, known)
        found = self._marginals(queries, tol, method, options)
        return [self._table(query, tau) for query, tau in zip(queries, found, strict=True)]

    def _marginals(
        self, queries: Sequence[Any], tol: float | None, method: str, options: dict[str, Any]
    ) -> list[Floats]:
        """tau of every block; a larger gap than `tol` is a warning."""
        tol = self._tol if tol is None else check_positive(tol, "tol")
        options = self._options(method, options)

        def one(query: Any) -> tuple[Floats, float]:
            scores, structure = query.block.scores(self.coef_), query.block.structure
            wanted = tol * structure.n_nodes
            if method == "auto" and not options and structure.offers("marginals"):
                found = structure.marginals(scores, None, wanted)
                return found.tau, found.gap / wanted
            answer = marginals(structure, scores, method, tol=wanted, **options)
            return answer.tau, 0.0  # `marginals` warns if it does not converge

        found = self._each(one, queries)
        worst = max(excess for _, excess in found)
        if worst > 1.0:
            warnings.warn(
                f"predict_marginals: a log-partition function is certain only to {worst * tol:.2g} "
                f"per node (tol={tol:g})",
                ConvergenceWarning,
                stacklevel=3,
            )
        return [tau for tau, _ in found]

    # ------------------------------------------------------------------ likelihoods
    def log_likelihood(self, X: Any, Y: Any, *, known: Any = None) -> Floats:
        """Exact log p(y | x; coef_) of each sample, by counting outputs.

        On chains and trees, in graphs of small treewidth and in small matchings. What is not known
        of Y is summed over, or left out as `fit` did. With what is `known`, as in `predict`,
        log p of the rest given this; Y must agree.
        """

        def one(block: Block) -> float:
            scores = block.scores(self.coef_)
            fit = block.observed.dot(scores)
            if block.partial is not None:
                fit = block.partial.exact(scores).log_partition
            return min(fit - block.structure.exact(scores).log_partition, 0.0)

        return np.array(self._of_outputs(X, Y, known, one, 0.0))

    def approximate_log_likelihood(
        self, X: Any, Y: Any, tol: float | None = None, *, known: Any = None
    ) -> Floats:
        """<scores, y> - log Z_rho of each sample: what `fit` maximises, without the penalty.

        Good for choosing alpha on held-out samples; values of different rho are not comparable.
        For matchings at rho = 1/2, for labellings at the default rho and for decoders at the
        default entropy it is a lower bound of the exact log-likelihood. `tol` is the certified
        gap per node. What Y leaves open, and `known`, are as in `log_likelihood`.
        """
        tol = self._likelihood_tol if tol is None else check_positive(tol, "tol")

        def one(block: Block) -> float:
            scores, structure = block.scores(self.coef_), block.structure
            wanted = tol * structure.n_nodes
            fit = block.observed.dot(scores)
            if block.partial is not None:
                fit = block.partial.marginals(scores, None, wanted).value
            if structure.offers("marginals"):
                return fit - float(structure.marginals(scores, None, wanted).upper_bound)
            found = marginals(structure, scores, tol=wanted)
            return fit - found.log_partition - (found.gap if np.isfinite(found.gap) else 0.0)

        return np.array(self._of_outputs(X, Y, known, one, 0.0))

    def log_likelihood_bounds(
        self, X: Any, Y: Any, tol: float | None = None, *, known: Any = None
    ) -> tuple[Floats, Floats]:
        """Proven lower and upper bounds of `log_likelihood`, whatever rho is.

        See `mlestruct.inference.log_partition_bounds`: narrow in bipartite graphs, exact on chains
        and trees, wide in general. `tol`, `known` are as in `approximate_log_likelihood`.
        """
        tol = self._likelihood_tol if tol is None else check_positive(tol, "tol")

        def one(block: Block) -> tuple[float, float]:
            scores, structure = block.scores(self.coef_), block.structure
            wanted = tol * structure.n_nodes
            low = high = block.observed.dot(scores)
            if block.partial is not None:
                low, high = log_partition_bounds(block.partial, scores, tol=wanted)
            least, most = log_partition_bounds(structure, scores, tol=wanted)
            return min(low - most, 0.0), min(high - least, 0.0)

        found = np.array(self._of_outputs(X, Y, known, one, (0.0, 0.0)))
        return found[:, 0], found[:, 1]

    def _of_outputs(
        self, X: Any, Y: Any, known: Any, function: Callable[[Block], T], nothing: T
    ) -> list[T]:
        """`function` of what is observed of each sample; `nothing` if that is nothing."""
        check_is_fitted(self, "coef_")
        blocks = self._labelled(check_samples(X), Y, known)
        values = iter(self._each(function, [block for block in blocks if block is not None]))
        return [nothing if block is None else next(values) for block in blocks]

    # ------------------------------------------------------------------ files
    def _learned_names(self) -> tuple[list[str], dict[str, Any] | None]:
        return self.feature_names_in_.tolist(), {"intercept": True} if self._intercept else None

    def _reload(self, coef: Floats, names: list[str], layout: dict[str, Any] | None) -> None:
        super()._reload(coef, names, layout)
        self._intercept = bool((layout or {}).get("intercept", False))


# ---------------------------------------------------------------------- constants and scales
def prepared_rows(
    rows: Sequence[Any], weights: Sequence[float], constant: bool, standardize: bool
) -> tuple[list[Rows], Columns, bool, Scaling | None]:
    """Rows of all blocks with the constant and the scaling that all of them decide.

    Returns them, statistics of their columns, whether a constant was added, and the scaling.
    """
    listed = in_time(zip(rows, weights, strict=True), "statistics of the features")
    columns = Columns.weighted((own.columns(), weight) for own, weight in listed if weight > 0)
    adds = constant and not columns.has_constant
    if adds:
        rows, columns = [own.with_constant() for own in rows], columns.with_constant(1)
    if not standardize:
        return list(rows), columns, adds, None
    scaling = Scaling.of(columns, centred=adds)
    return [own.scaled(scaling) for own in rows], columns, adds, scaling


def check_names(expected: list[str], found: list[str], where: str, of: str) -> None:
    """Raise unless features are the same, in the same order, as those of `of`."""
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
    """Raise if data frames have other columns than those of `fit`, unless these had no names."""
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
