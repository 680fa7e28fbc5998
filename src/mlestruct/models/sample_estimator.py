"""What estimators are asked sample by sample: outputs, their probabilities and likelihoods."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .._arguments import as_positive, check_same_length, check_samples, generator
from .._running import in_time
from ..inference.bounds import log_partition_bounds
from ..inference.marginals import marginals
from ..inference.sampling import sample
from ..learning.problem import Block, runs_of
from .base import Estimator, check_names

Floats = NDArray[np.float64]
T = TypeVar("T")


class Query(NamedTuple):
    """A new sample: its block, whose structure has only the outputs that agree with `known`.

    Families have tuples of their own, with more beside the block.
    """

    block: Block


class SampleEstimator(Estimator):
    """An estimator that answers by the block of each sample."""

    _tol: ClassVar[float] = 1e-5  # of marginals, per node
    _likelihood_tol: ClassVar[float] = 1e-6

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

    def score(self, X: Any, Y: Any) -> float:
        """1 - mean Hamming loss per sample."""
        losses = self._losses(X, Y)
        if not losses:
            raise ValueError("Y: no label is known, there is nothing to compare with")
        return 1.0 - float(np.mean(losses))

    def _losses(self, X: Any, Y: Any) -> list[float]:
        """Of each sample the share of its output that is predicted wrong."""
        samples = check_samples(X)
        labels = check_same_length(samples, Y)
        losses = []
        for m, (found, label) in enumerate(zip(self.predict(samples), labels, strict=True)):
            if np.shape(label) != np.shape(found):
                raise ValueError(f"Y[{m}]: expected shape {np.shape(found)}, got {np.shape(label)}")
            losses.append(float(np.mean(found != np.asarray(label))))
        return losses

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
            1e-5 for others, 1e-3 from a decoder alone.
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
        tol = self._tol if tol is None else as_positive(tol, "tol")
        options = self._options(method, options)

        by_oracle = method == "auto" and not options

        def one(own: Sequence[Any]) -> list[tuple[Floats, float]]:
            part = [query.block for query in own]
            structure = part[0].structure
            wanted = tol * structure.n_nodes
            if by_oracle and structure.offers("marginals"):
                scores = np.array([block.scores(self.coef_) for block in part])
                wants = np.full(len(part), wanted)
                found = structure.marginals_each(scores, [None] * len(part), wants)
                return [(answer.tau, answer.gap / wanted) for answer in found]
            answers = [
                marginals(structure, block.scores(self.coef_), method, tol=wanted, **options)
                for block in part
            ]
            return [(answer.tau, 0.0) for answer in answers]  # `marginals` warns of larger gaps

        runs = [queries[run] for run in runs_of([query.block for query in queries])]
        found = [answer for answers in self._each(one, runs) for answer in answers]
        _warn_of_gaps("predict_marginals", [excess for _, excess in found], tol)
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
        tol = self._likelihood_tol if tol is None else as_positive(tol, "tol")

        def one(block: Block) -> tuple[float, float]:
            scores, structure = block.scores(self.coef_), block.structure
            wanted, gap = tol * structure.n_nodes, 0.0
            fit = block.observed.dot(scores)
            if block.partial is not None:
                given = block.partial.marginals(scores, None, wanted)
                fit, gap = given.value, given.gap
            if structure.offers("marginals"):
                every = structure.marginals(scores, None, wanted)
                return fit - every.upper_bound, max(every.gap, gap) / wanted
            found = marginals(structure, scores, tol=wanted)  # which warns of a larger gap
            return fit - found.log_partition - (found.gap if np.isfinite(found.gap) else 0.0), 0.0

        values = np.array(self._of_outputs(X, Y, known, one, (0.0, 0.0)))
        _warn_of_gaps("approximate_log_likelihood", values[:, 1].tolist(), tol)
        return values[:, 0]

    def log_likelihood_bounds(
        self, X: Any, Y: Any, tol: float | None = None, *, known: Any = None
    ) -> tuple[Floats, Floats]:
        """Proven lower and upper bounds of `log_likelihood`, whatever rho is.

        See `mlestruct.inference.log_partition_bounds`: narrow in bipartite graphs, exact on chains
        and trees, wide in general. `tol`, `known` are as in `approximate_log_likelihood`.
        """
        tol = self._likelihood_tol if tol is None else as_positive(tol, "tol")

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


def _warn_of_gaps(name: str, excess: Sequence[float], tol: float) -> None:
    """Warn if a gap is larger than asked; `excess` are gaps relative to what was asked."""
    if max(excess) > 1.0:
        warnings.warn(
            f"{name}: a log-partition function is known only to {max(excess) * tol:.2g} per node "
            f"(tol={tol:g})",
            ConvergenceWarning,
            stacklevel=4,
        )
