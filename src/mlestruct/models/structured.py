"""`StructuredCRF`: conditional random fields over outputs that only a decoder describes."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .. import metrics
from .._arguments import check_same_length, check_samples, count_threads
from .._running import threaded_map
from ..exceptions import Naming, OutOfTimeError
from ..features.rows import FeatureMap, Rows, as_feature_map, check_finite, is_feature_map
from ..learning.frank_wolfe import BlockFrankWolfe, FrankWolfe
from ..learning.problem import Block
from ..learning.solver import Result
from ..structures.contract import Structure, Vertex, as_structure
from ..structures.decoder import DecoderSpace, doubt_of
from ..structures.restricted import Restricted
from .sample_estimator import Query, SampleEstimator

Floats = NDArray[np.float64]
T = TypeVar("T")

FOR_SET_UP = "have checked Y and looked for interior points"
LESS_SET_UP = "Pass structure=DecoderSpace(decode, n, interior=...), n_jobs= or a longer max_time."


class StructuredCRF(SampleEstimator):
    """Conditional random field over outputs of your own, from a function that finds the best one.

    p(y | x) is proportional to exp(<G(x) theta, y>) for the 0/1 vectors y that `decode` chooses
    from. theta maximises the approximate log-likelihood of the observed outputs minus
    alpha/2 |theta|^2, with a duality-gap certificate, from calls of `decode` alone.

    Parameters
    ----------
    decode : function of scores, an array of shape (n,), to the 0/1 vector of shape (n,) with the
        largest total score among all outputs
        For samples whose output spaces differ in more than n: a function of (scores, x), with x the
        sample as it is in X. It is called from several threads if n_jobs > 1.
    alpha : float
        Regularisation, on the summed log-likelihood.
    structure : an output space, or a function of x to one
        In place of `decode`. `DecoderSpace(decode, n, ...)` takes an entropy, an interior point,
        a marginal oracle or bounds of log Z, and approximate decoders (`exact=False`);
        `mlestruct.structures` has output spaces that are ready.
    features : function of x to its features; by default x is its features, or a pair of them and
        anything else that `decode` needs
    standardize, l1_ratio, tol, max_iter, solver, n_jobs, random_state, verbose
        As in `BipartiteMatchingCRF`. The default solver only decodes; it is L-BFGS if the output
        spaces have marginal oracles.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    objective_ : float, proven value of the (regularised, approximate) log-likelihood at `coef_`
    objective_bound_ : float, proven upper bound of the best value
    duality_gap_ : float, their difference
    certified_ : bool, whether both are proven: decoders are exact, or their bounds are valid
    converged_ : bool, whether the gap is at most tol * max(1, |objective_|)
    history_ : History with seconds, oracle_calls, objective, objective_bound, gap, fw_gap;
        `.to_frame()`
    n_oracle_calls_ : calls of `decode`, including the search for interior points and the check of
        Y, in all runs of a fit that was continued from a checkpoint
    n_iter_, solver_, n_features_in_, feature_names_in_

    Notes
    -----
    X is a sequence of samples, each an array, data frame or SciPy sparse matrix of shape
    (n, n_features), a feature map, a pair of one of these and anything else, or anything at all if
    `features` turns it into one of these. Y holds for each sample a 0/1 vector of shape (n,);
    labels of a `structure` are its own. Every label costs one call of `decode`, which shows whether
    it is an output at all.

    `mlestruct.check_structure` tests a decoder. `save` stores functions by their import path, never
    as code; `mlestruct.load(path, trusted=[...])` imports only trusted names. Marginals
    of a loaded model with an approximate decoder may differ within `tol`.

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

    _spaces: _Spaces | None = None
    _tol = _likelihood_tol = 1e-3

    def __init__(
        self,
        decode: Callable[..., Any] | None = None,
        alpha: float = 1.0,
        structure: Any = None,
        features: Callable[[Any], Any] | None = None,
        standardize: bool = False,
        l1_ratio: float = 0.0,
        tol: float = 1e-3,
        max_iter: int = 1000,
        solver: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.decode = decode
        self.alpha = alpha
        self.structure = structure
        self.features = features
        self.standardize = standardize
        self.l1_ratio = l1_ratio
        self.tol = tol
        self.max_iter = max_iter
        self.solver = solver
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ reading samples
    def _blocks(
        self, X: Sequence[Any], Y: Sequence[Any], weights: Floats, classes: Any
    ) -> list[Block]:
        self._spaces = _Spaces(self.decode)
        blocks = [
            replace(block, observed=_observed(block, Y[m], m), weight=float(weights[m]))
            for m, block in enumerate(self._prepare(X))
        ]
        blocks = self._in_solver_units(blocks, False, bool(self.standardize))
        self._check_outputs(blocks)
        return blocks

    def _prepare(self, X: Sequence[Any]) -> list[Block]:
        space_of = self._space_of()
        made: dict[int, Block] = {}
        for m, x in enumerate(X):
            if id(x) not in made:
                given = x if self.features is None else self.features(x)
                features = _read_features(given, f"X[{m}]")
                space = space_of(x, features.n_scored)
                if space.n_scored != features.n_scored:
                    raise ValueError(
                        f"X[{m}]: has {features.n_scored} rows of features, "
                        f"{type(space).__name__} has {space.n_scored} scored coordinates"
                    )
                made[id(x)] = Block(space, features)
        return [replace(made[id(x)], name=f"X[{m}]") for m, x in enumerate(X)]

    def _space_of(self) -> Callable[[Any, int], Structure]:
        """A function of a sample and its rows of features to its output space."""
        decode, structure = self.decode, self.structure
        if self.features is not None and not callable(self.features):
            raise TypeError(f"`features` must be a function of x or None; got {self.features!r}.")
        if (decode is None) == (structure is None):
            raise ValueError("StructuredCRF: pass either decode or structure")
        if structure is not None:
            return _given_space(structure)
        if not callable(decode):
            raise TypeError(f"`decode` must be a function of scores; got {decode!r}.")
        if _takes_sample(decode):
            return lambda x, n: DecoderSpace(lambda scores: decode(scores, x), n)
        if self._spaces is None or self._spaces.decode is not decode:
            self._spaces = _Spaces(decode)
        return self._spaces.of_size

    def _check_outputs(self, blocks: Sequence[Block]) -> None:
        """Ask decoders whether labels are outputs, and for interior points, on threads."""
        own = [(b, b.structure) for b in blocks if isinstance(b.structure, DecoderSpace)]
        labels = {(id(s), b.observed.indices.tobytes()): (b, s) for b, s in reversed(own)}
        spaces = {id(s): (b, s) for b, s in reversed(own)}

        def calls() -> int:
            return sum(space.calls for _, space in spaces.values())

        def check(item: tuple[Block, DecoderSpace]) -> None:
            label = _label_name(item[0])
            with Naming(item[0].name, f"checking {label}"):
                item[1].know(item[0].observed, label)

        def prepare(item: tuple[Block, DecoderSpace]) -> None:
            with Naming(item[0].name, "looking for an interior point"):
                item[1].interior() if starts_inside else item[1].hull_entropy()

        starts_inside = isinstance(self.solver, FrankWolfe | BlockFrankWolfe)
        before = calls()
        try:
            with threaded_map(count_threads(self.n_jobs), len(blocks)) as each:
                list(each(check, reversed(labels.values())))
                list(each(prepare, reversed(spaces.values())))
        except OutOfTimeError as error:
            message = f"{error}; {calls() - before} calls of decode {FOR_SET_UP}. {LESS_SET_UP}"
            raise OutOfTimeError(message) from None
        for block, space in own:
            space.agree(block.observed, _label_name(block))
        assert self._spaces is not None
        self._spaces.calls = calls() - before
        first = {id(block.structure): block for block in reversed(blocks)}
        self._spaces.made = list(first.values())[::-1]
        if all(block.structure.is_fixed for block in self._spaces.made):
            raise ValueError("X: every sample has only one possible output, nothing can be learned")

    # ------------------------------------------------------------------ fitting
    def _setup_calls(self) -> int:
        return 0 if self._spaces is None else self._spaces.calls

    def _keep(self, result: Result, tol: float, setup: float = 0.0, setup_calls: int = 0) -> None:
        super()._keep(result, tol, setup, setup_calls)
        doubt = "" if self._spaces is None else self._spaces.doubt
        self.certified_ = result.proven and not doubt
        if not self.certified_:
            warnings.warn(
                f"StructuredCRF: duality_gap_ ({self.duality_gap_:.3g}) is an estimate and no "
                f"certificate (certified_=False). {doubt}",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _advice(self, result: Result, setup: float) -> str:
        if result.iterations == 0 and self._setup_calls() and setup > result.seconds:
            return f"Most of the time went to calls of decode that {FOR_SET_UP}. {LESS_SET_UP}"
        if result.slack > 0.5 * result.gap:
            return (
                f"{result.slack:.3g} of the gap is the distance of decode's upper bounds from its "
                "outputs: solve more precisely (more iterations alone do not help)."
            )
        return super()._advice(result, setup)

    # ------------------------------------------------------------------ prediction
    def _each(self, function: Callable[[Any], T], items: Iterable[Any]) -> list[T]:
        def one(item: Any) -> T:
            block = getattr(item[0] if type(item) in (tuple, list) else item, "block", item)
            with Naming(block.name, "in prediction"):
                return function(item)

        return super()._each(one, items)

    def _queries(self, X: Any, known: Any = None) -> list[Query]:
        check_is_fitted(self, "coef_")
        blocks = self._prepare(check_samples(X))
        self._check_features(blocks)
        if known is not None:
            parts = check_same_length(blocks, known, "known")
            blocks = [_conditioned(block, parts[m], m) for m, block in enumerate(blocks)]
        return [Query(block) for block in blocks]

    def _labelled(self, X: Any, Y: Any, known: Any = None) -> list[Block]:
        labels, out = check_same_length(X, Y), []
        for m, (block,) in enumerate(self._queries(X, known)):
            vertex = _observed(block, labels[m], m)
            if isinstance(block.structure, Restricted) and not block.structure.agrees(vertex):
                raise ValueError(f"known[{m}]: differs from Y[{m}]")
            out.append(replace(block, observed=vertex))
        return out

    def events(
        self, X: Any, Y: Any, tol: float | None = None, method: str = "auto", **options: Any
    ) -> metrics.Events:
        """Which coordinates were 1 and their probabilities, for scikit-learn's metrics.

        `tol`, `method` and `options` are passed to `predict_marginals`.
        """
        blocks = self._labelled(check_samples(X), Y)
        tau = self._marginals([Query(block) for block in blocks], tol, method, options)
        seen = [block.observed.dense(block.structure.n_coordinates) for block in blocks]
        return metrics.as_events(np.concatenate(seen), np.concatenate(tau))

    # ------------------------------------------------------------------ files
    def _learned_names(self) -> tuple[list[str], dict[str, Any] | None]:
        return super()._learned_names()[0], {"certified": bool(getattr(self, "certified_", False))}

    def _reload(self, coef: Floats, names: list[str], layout: dict[str, Any] | None) -> None:
        super()._reload(coef, names, layout)
        self.certified_ = bool((layout or {})["certified"])


class _Spaces:
    """Output spaces of a fit; pickled models make them again."""

    def __init__(self, decode: Any = None):
        self.decode = decode  # of spaces that differ in size only
        self.made: list[Block] = []  # the first sample of each, in a fit
        self.calls = 0  # of decoders, before the solver
        self._by_size: dict[int, Structure] = {}

    def __reduce__(self) -> Any:
        return _Spaces, ()

    def of_size(self, x: Any, n: int) -> Structure:
        """The space of all samples with n rows."""
        if n not in self._by_size:
            self._by_size[n] = DecoderSpace(self.decode, n)
        return self._by_size[n]

    @property
    def doubt(self) -> str:
        """Why the duality gap is not a certificate; empty if it is one."""
        for block in self.made:
            if not block.structure.has_bound:
                return f"{block.name}: {doubt_of(block.structure)}"
        return ""


def _given_space(given: Any) -> Callable[[Any, int], Structure]:
    """The output space of each sample, from one for all or a function of x."""
    if hasattr(given, "n_coordinates"):
        space = as_structure(given)
        return lambda x, n: space
    if not callable(given):
        raise TypeError(
            f"`structure` must be an output space or a function of x to one; got {given!r}."
        )

    def made(x: Any, n: int) -> Structure:
        try:
            return as_structure(given(x))
        except Exception as error:
            error.add_note(
                "`structure` was called as a function of a sample to its output space; pass a "
                "function of scores as decode="
            )
            raise

    return made


def _takes_sample(decode: Callable[..., Any]) -> bool:
    """Whether there is a second argument that has no default, or is called x."""
    try:
        parameters = inspect.signature(decode).parameters.values()
    except (TypeError, ValueError):  # of built-in functions
        return False
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(places) > 1 and (places[1].default is places[1].empty or places[1].name == "x")


def _read_features(given: Any, where: str) -> FeatureMap:
    """The features of one sample, one row for each coordinate."""
    if isinstance(given, tuple) and len(given) == 2:
        given = given[0]
    if is_feature_map(given):
        return as_feature_map(given)
    frame = hasattr(given, "columns") and hasattr(given, "to_numpy")
    try:
        rows = Rows(given, [str(name) for name in given.columns] if frame else None)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{where}: cannot be read as an array of features of shape (n_coordinates, n_features) "
            f"({error}); `features` may be a function that makes them from a sample"
        ) from None
    if 0 in rows.matrix.shape:
        raise ValueError(
            f"{where}: expected features of shape (n_coordinates, n_features), "
            f"got shape {rows.matrix.shape}"
        )
    check_finite(rows.matrix.data if rows.is_sparse else rows.matrix, where)
    return rows


def _label_name(block: Block) -> str:
    """The label of a sample, in messages."""
    return f"Y{block.name.removeprefix('X')}"


def _observed(block: Block, label: Any, m: int) -> Vertex:
    """The vertex of a label."""
    try:
        return block.structure.encode(label)
    except (ValueError, TypeError) as error:
        raise ValueError(f"Y[{m}]: {str(error).removeprefix('label: ')}") from None


def _conditioned(block: Block, known: Any, m: int) -> Block:
    """The sample given what is known of its output, or None."""
    if known is None:
        return block
    try:
        return replace(block, structure=block.structure.given(known))
    except ValueError as error:
        raise ValueError(f"known[{m}]: {str(error).removeprefix('known: ')}") from None
