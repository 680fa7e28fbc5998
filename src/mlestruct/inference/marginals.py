"""`marginals` and `log_partition`: one question, several methods.

| method    | what it needs | what it gives |
|-----------|---------------|---------------|
| "auto"    | the structure's marginal oracle, else its decoder | log Z_rho, certified |
| "fw"      | a MAP decoder | log Z_rho, certified by the Frank-Wolfe gap |
| "perturb" | a MAP decoder | log Z and marginals estimated by perturb-and-MAP, no certificate |
| "exact"   | a small problem, or a chain | log Z itself |
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple, cast, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from .._arguments import as_count, as_number, generator
from ..algorithms.frank_wolfe import Step, checked_start, frank_wolfe_marginals
from ..algorithms.fully_corrective import fully_corrective_marginals
from ..exceptions import InfeasibleError, MissingCapability
from ..structures.contract import MatchingStructure, Structure, StructureLike
from .perturb_and_map import Callback, perturb_and_map
from .scores import Query, read_query

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Inference:
    """Marginals of a model and its log-partition function.

    Attributes
    ----------
    tau : array of shape (n_coordinates,), in the coordinates of the structure
    log_partition : float
    gap : certified: `of` is within [log_partition, log_partition + gap]; 0 if it is
        exact, inf without a certificate
    of : "log Z_rho", the reweighted approximation, "log Z" itself, or for perturb-and-MAP the
        "mean upper bound of log Z"
    method : the method that was used
    calls : of the MAP decoder, or iterations of a method that makes none
    converged : whether the method has done what was asked of it
    report : further diagnostics of the method
    """

    tau: Floats
    log_partition: float
    gap: float
    of: str
    method: str
    calls: int
    converged: bool
    report: dict[str, Any]
    structure: Structure

    @property
    def table(self) -> Floats:
        """The marginals as one reads them.

        Matchings: pairs, (n_rows, n_cols), or (n_nodes, n_nodes) and symmetric within one group;
        what is missing to 1 in a row is the probability to stay single. Labellings: states of all
        nodes, (n_nodes, n_states). Structures of your own: tau.
        """
        return self.structure.marginal_table(self.tau)

    @property
    def single(self) -> Floats:
        """Of matchings: the probability of every node to stay single (its unused capacity).

        Rows first, then columns, if there are two sides; 0 for nodes that must be matched. In
        tau these follow the pairs, of the sides that may stay single only.
        """
        if not isinstance(self.structure, MatchingStructure):
            raise AttributeError(f"{type(self.structure).__name__} has no single nodes")
        return self.structure.single_marginals(self.tau)

    def __repr__(self) -> str:
        return (
            f"Inference(method={self.method!r}, {self.of} = {self.log_partition:.6g}, "
            f"gap={self.gap:.2g}, calls={self.calls}, converged={self.converged})"
        )


class Answer(NamedTuple):
    """The result of a method; see `Inference`."""

    tau: Floats
    log_partition: float
    gap: float
    calls: int
    converged: bool
    of: str = "log Z_rho"
    report: dict[str, Any] | None = None


def marginals(
    structure: StructureLike,
    scores: Any,
    method: str = "auto",
    *,
    tol: float = 1e-6,
    **options: Any,
) -> Inference:
    """Marginal probabilities of a model P(y) = exp(<scores, y>) / Z over the outputs y.

    Parameters
    ----------
    structure : the output space: `BipartiteMatching`, `LocalMatching`, `MatchingPolytope`,
        `Pairwise`, `Sequences`, or your own with `decode`, `entropy`,
        `entropy_gradient` and `interior`
    scores : array of shape (n_scored,) or (n_coordinates,)
        For matchings also a table of pairs, -inf for forbidden pairs; for labellings also a
        tuple (node scores (n_nodes, L), edge scores (n_edges, L, L) or (L, L)).
    method : "auto", "fw", "perturb" or "exact"
    tol : the gap of the log-partition function to reach
    options : of the method.
        "fw": max_iter=10_000, max_time=60.0 (seconds, at which it stops with a warning that tells
        the gap), callback(calls, tau), step="corrective" (few MAP calls); or the paper's cheap
        steps: "line_search", "capped" (the first fifty at most 1/(t+1)) or "fixed" (2/(t+2)).
        "perturb": n_samples=1000, random_state=None, callback(calls, tau).

    Returns
    -------
    Inference : tau, log_partition, certified gap, calls; `Inference.table` for reading

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.inference import marginals
    >>> from mlestruct.structures import BipartiteMatching
    >>> scores = np.array([[1, 0, 0.5, 0], [0, 0.6, 0, 0.2], [0.2, 0, 0, 0], [0, 0, 0, 0]])
    >>> bethe = marginals(BipartiteMatching((4, 4), rho=1.0), scores)
    >>> exact = marginals(BipartiteMatching((4, 4)), scores, method="exact")
    >>> bethe.table.round(2)[0], exact.table.round(2)[0]
    (array([0.45, 0.12, 0.28, 0.15]), array([0.43, 0.13, 0.28, 0.16]))
    >>> bool(bethe.log_partition <= exact.log_partition)
    True
    """
    run = METHODS.get(method) if isinstance(method, str) else None
    if run is None:
        raise ValueError(f"`method` must be one of {sorted(METHODS)}; got {method!r}.")
    known = list(inspect.signature(run).parameters)[2:]
    for name in options:
        if name not in known:
            takes = f"takes {', '.join(known)}" if known else "takes no options"
            raise TypeError(f"{name}: method={method!r} {takes}")
    query = read_query(structure, scores)
    answer = run(query, as_number(tol, "tol", 0.0), **options)
    if not np.isfinite(answer.log_partition):
        raise InfeasibleError("nothing is admissible under these scores", [], "nodes")
    if not answer.converged:
        warnings.warn(
            f"marginals: method={method!r} stopped after {answer.calls} calls at a gap of "
            f"{answer.gap:.2g} (tol={tol:g})",
            ConvergenceWarning,
            stacklevel=2,
        )
    return Inference(
        query.restore(answer.tau),
        answer.log_partition + query.constant,
        answer.gap,
        answer.of,
        method,
        answer.calls,
        answer.converged,
        answer.report or {},
        query.asked,
    )


def log_partition(
    structure: StructureLike,
    scores: Any,
    method: str = "auto",
    *,
    tol: float = 1e-6,
    **options: Any,
) -> float:
    """log Z_rho of a model, or log Z with method="exact" (estimated with "perturb").

    Takes the arguments of `marginals`, which also returns the gap of the value.
    """
    return marginals(structure, scores, method, tol=tol, **options).log_partition


def _auto(query: Query, tol: float) -> Answer:
    structure, scores = query.structure, query.scores
    if not structure.offers("marginals"):
        return _frank_wolfe(query, tol)
    if structure.is_exact:
        return _exact(query, tol)
    query.require_finite("method='auto'")
    found = structure.marginals(scores, None, tol)
    reached = bool(found.gap <= tol + _rounding(scores))
    if structure.has_bound:
        return Answer(found.tau, found.value, found.gap, found.iterations, reached)
    report = {"distance_from_fixed_point": found.gap}
    return Answer(found.tau, found.value, np.inf, found.iterations, reached, report=report)


def _frank_wolfe(
    query: Query,
    tol: float,
    max_iter: int = 10_000,
    callback: Callback | None = None,
    step: str = "corrective",
    max_time: float = 60.0,
) -> Answer:
    query.require_finite("method='fw'")
    max_iter = as_count(max_iter, "max_iter")
    deadline = perf_counter() + as_number(max_time, "max_time", 0.0)
    if not isinstance(step, str) or step not in STEPS:
        raise ValueError(f"`step` must be one of {list(STEPS)}; got {step!r}.")
    structure, scores = query.structure.approximate, query.scores
    stopped = False

    def watch(calls: int, tau: Floats) -> bool:
        nonlocal stopped
        stopped = callback is not None and bool(callback(calls, query.restore(tau)))
        return stopped or perf_counter() > deadline

    if step == "corrective":
        tau, value, upper, calls, _ = fully_corrective_marginals(
            structure, scores, tol, max_iter, watch
        )
    else:
        tau, value, upper, calls = frank_wolfe_marginals(
            structure,
            scores,
            checked_start(structure),
            tol,
            max_iter,
            watch,
            cast(Step, step),
        )
    gap = max(upper - value, 0.0)
    if gap > tol and structure.offers("price_bound"):
        gap = min(gap, _price_gap(structure, scores, tau, value))
        calls += 1
    proven = gap if structure.has_bound else np.inf
    return Answer(tau, value, proven, calls, gap <= tol or stopped)


def _price_gap(structure: Structure, scores: Floats, tau: Floats, value: float) -> float:
    """A proven gap of any feasible tau, from one MAP call.

    The decoder's dual prices make a tighter bound than its vertex.
    """
    direction = scores + structure.entropy_gradient(tau)
    best = structure.decode(direction, None, prices=True)
    upper = value + max(best.score - float(direction @ tau), 0.0)
    if best.prices is not None:
        prices = structure.improved_prices(scores, best.prices, tau)
        upper = min(upper, structure.price_bound(scores, prices, tau))
    return max(float(upper) - value, 0.0)


def _rounding(scores: Floats) -> float:
    """What rounding of the scores may add to a gap."""
    return 1e-11 * float(np.abs(scores).max(initial=0.0)) * np.sqrt(scores.size)


def _perturb(
    query: Query,
    tol: float,
    n_samples: int = 1000,
    random_state: Any = None,
    callback: Callback | None = None,
) -> Answer:
    query.require_finite("method='perturb'")
    as_count(n_samples, "n_samples")

    def watch(calls: int, tau: Floats) -> Any:
        return callback is not None and callback(calls, query.restore(tau))

    found = perturb_and_map(
        query.structure.approximate, query.scores, n_samples, rng=generator(random_state),
        callback=watch,
    )  # fmt: skip
    report = {
        "standard_error": query.restore(found.standard_error),
        "log_partition_standard_error": found.log_partition_error,
    }
    of = "mean upper bound of log Z"
    return Answer(found.tau, found.log_partition, np.inf, found.calls, True, of, report)


def _exact(query: Query, tol: float) -> Answer:
    if not query.structure.offers("exact"):
        raise MissingCapability(
            "method='exact' does not know how to count the outputs of "
            f"{type(query.structure).__name__}"
        )
    found = query.structure.exact(query.scores)
    return Answer(found.tau, found.log_partition, 0.0, 1, True, "log Z")


STEPS = ("corrective", *get_args(Step))

METHODS: dict[str, Callable[..., Answer]] = {
    "auto": _auto,
    "fw": _frank_wolfe,
    "perturb": _perturb,
    "exact": _exact,
}
