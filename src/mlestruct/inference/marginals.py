"""`marginals` and `log_partition`: one question, several methods.

| method    | what it needs | what it gives |
|-----------|---------------|---------------|
| "auto"    | the structure's marginal oracle, else its decoder | log Z_rho, certified |
| "oracle"  | the structure's marginal oracle | log Z_rho, certified |
| "fw"      | a MAP decoder | log Z_rho, certified by the Frank-Wolfe gap |
| "bp"      | a matching | log Z_rho by belief propagation, certified where it converges |
| "perturb" | a MAP decoder | log Z and marginals estimated by perturb-and-MAP, no certificate |
| "exact"   | a small problem, or a chain | log Z itself |
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from .._random import generator
from ..algorithms.frank_wolfe import Step, checked_start, frank_wolfe_marginals
from ..exceptions import InfeasibleError, MissingCapability
from ..structures.contract import Structure, StructureLike
from .perturb_and_map import perturb_and_map
from .result import Inference
from .scores import Query, check_count, check_number, check_tolerance, read_query

Floats = NDArray[np.float64]
Callback = Callable[[int, Floats], Any]

APPROXIMATE, EXACT = "log Z_rho", "log Z"
ESTIMATED = "mean upper bound of log Z"


class Answer(NamedTuple):
    """The result of a method; see `Inference`."""

    tau: Floats
    log_partition: float
    gap: float
    of: str
    calls: int
    converged: bool
    report: dict[str, Any]


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
        For matchings also a table of pairs, -inf where a pair is forbidden; for labellings also a
        tuple (node scores (n_nodes, L), edge scores (n_edges, L, L) or (L, L)).
    method : "auto", "oracle", "fw", "bp", "perturb" or "exact"
    tol : the gap of the log-partition function to reach ("bp": the last change of a belief)
    options : of the method.
        "fw": max_iter=10_000, max_time=60.0 (seconds, at which it stops with a warning that tells
        the gap), variant="blended" (few MAP calls) or "plain" (cheap steps, the paper's with
        step="fixed" or "line_search"), callback(calls, tau),
        step="capped" (by a line search, the first fifty at most 1/(t+1)), "line_search" (never
        capped) or "fixed" (2/(t+2)).
        "bp": damping=0.0, max_sweeps=5000.
        "perturb": n_samples=1000, random_state=None, callback(calls, tau), lower=False.

    Returns
    -------
    Inference : tau, log_partition, certified gap, calls, seconds; `Inference.table` for reading

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
        raise ValueError(f"method: expected one of {sorted(METHODS)}, got {method!r}")
    known = [name for name in inspect.signature(run).parameters if name not in ("query", "tol")]
    for name in options:
        if name not in known:
            takes = f"takes {', '.join(known)}" if known else "takes no options"
            others = [
                repr(other)
                for other, function in METHODS.items()
                if name in inspect.signature(function).parameters
            ]
            hint = f"; method={' or '.join(others)} takes {name}" if others else ""
            raise TypeError(f"{name}: method={method!r} {takes}{hint}")
    start = perf_counter()
    query = read_query(structure, scores)
    answer = run(query, check_tolerance(tol), **options)
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
        perf_counter() - start,
        answer.converged,
        answer.report,
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

    Takes what `marginals` does, which also tells how certain the value is.
    """
    return marginals(structure, scores, method, tol=tol, **options).log_partition


def _marginal_oracle(query: Query, tol: float) -> Answer:
    return _oracle(query, tol, "oracle")


def _oracle(query: Query, tol: float, method: str) -> Answer:
    structure, scores = query.structure, query.scores
    structure.require("marginals", f"method={method!r}")
    if structure.is_exact:
        return _exact(query, tol)
    query.require_finite(f"method={method!r}")
    found = structure.marginals(scores, None, tol)
    proven = structure.has_bound
    report = {} if proven else {"distance_from_fixed_point": found.gap}
    gap = found.gap if proven else np.inf
    reached = found.gap <= tol + _rounding(scores)
    return Answer(found.tau, found.value, gap, APPROXIMATE, found.iterations, bool(reached), report)


def _rounding(scores: Floats) -> float:
    """What rounding of the scores may add to a gap."""
    return 1e-11 * float(np.abs(scores).max(initial=0.0)) * np.sqrt(scores.size)


def _auto(query: Query, tol: float) -> Answer:
    if query.structure.offers("marginals"):
        return _oracle(query, tol, "auto")
    return _frank_wolfe(query, tol)


def _frank_wolfe(
    query: Query,
    tol: float,
    max_iter: int = 10_000,
    callback: Callback | None = None,
    variant: str = "blended",
    step: Step = "capped",
    max_time: float = 60.0,
) -> Answer:
    query.require_finite("method='fw'")
    max_iter = check_count(max_iter, "max_iter")
    deadline = perf_counter() + check_number(max_time, "max_time", 0.0)
    for name, given, allowed in (("variant", variant, VARIANTS), ("step", step, get_args(Step))):
        if given not in allowed:
            raise ValueError(f"{name}: expected one of {list(allowed)}, got {given!r}")
    structure, scores = query.structure.approximate, query.scores
    stopped = []

    def watch(calls: int, tau: Floats) -> bool:
        stop = callback is not None and bool(callback(calls, query.restore(tau)))
        if stop:
            stopped.append(calls)
        return stop or perf_counter() > deadline

    tau, value, upper, calls = frank_wolfe_marginals(
        structure, scores, checked_start(structure), tol, max_iter,
        watch, variant == "blended", step,
    )  # fmt: skip
    gap = max(upper - value, 0.0)
    report = {"frank_wolfe_gap": gap}
    if gap > tol and structure.offers("price_bound"):
        gap = min(gap, _price_gap(structure, scores, tau, value))
        calls += 1
    reached = gap <= tol or bool(stopped)
    proven = gap if structure.has_bound else np.inf
    return Answer(tau, value, proven, APPROXIMATE, calls, reached, report)


def _belief_propagation(
    query: Query, tol: float, damping: float = 0.0, max_sweeps: int = 5000
) -> Answer:
    structure, scores = query.structure.approximate, query.scores
    structure.require("belief_propagation", "method='bp'")
    check_number(damping, "damping", 0.0)
    check_count(max_sweeps, "max_sweeps")
    found = structure.belief_propagation(scores, damping, max_sweeps, tol)
    report = {
        "sweeps": found.sweeps,
        "last_change": found.change,
        "messages_converged": found.converged,
        "log_partition_of_messages": found.log_partition,
    }
    tau, excess = structure.feasible(found.tau)
    value = float(scores @ tau) + structure.entropy(tau)
    if not excess <= 1e-9:  # sums are too far from 1 for a certificate
        if np.isfinite(found.log_partition):
            value = found.log_partition
        return Answer(tau, value, np.inf, APPROXIMATE, found.sweeps, False, report)
    # Moving the excess elsewhere changes the value by at most this; the entropy's slope is at
    # most 50 where marginals are at least the smallest float.
    largest = float(np.abs(scores).max(initial=0.0))
    uncertain = excess * 2 * structure.n_nodes * (2.0 * largest + 50.0)
    gap = _price_gap(structure, scores, tau, value) + 2.0 * uncertain
    value -= uncertain
    # Messages that stopped changing at a loose gap have not converged to the optimum.
    converged = found.converged and gap <= 1e-3 + _rounding(scores)
    return Answer(tau, value, gap, APPROXIMATE, found.sweeps, bool(converged), report)


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


def _perturb(
    query: Query,
    tol: float,
    n_samples: int = 1000,
    random_state: Any = None,
    callback: Callback | None = None,
    lower: bool = False,
) -> Answer:
    query.require_finite("method='perturb'")
    space = query.structure.approximate
    if not space.offers("gumbel_noise"):
        raise MissingCapability(
            "method='perturb' does not know which variables to perturb in "
            f"{type(space).__name__}; use method='fw'"
        )
    check_count(n_samples, "n_samples")
    watch = None
    if callback is not None:
        given = callback

        def watch(calls: int, tau: Floats) -> Any:
            return given(calls, query.restore(tau))

    found = perturb_and_map(
        space, query.scores, n_samples,
        rng=generator(random_state), callback=watch, lower=lower,
    )  # fmt: skip
    report = {
        "standard_error": query.restore(found.standard_error),
        "log_partition_standard_error": found.log_partition_error,
    }
    if found.lower is not None:
        report["lower"] = found.lower + query.constant
    return Answer(found.tau, found.log_partition, np.inf, ESTIMATED, found.calls, True, report)


def _exact(query: Query, tol: float) -> Answer:
    if not query.structure.offers("exact"):
        raise MissingCapability(
            "method='exact' does not know how to count the outputs of "
            f"{type(query.structure).__name__}"
        )
    found = query.structure.exact(query.scores)
    return Answer(found.tau, found.log_partition, 0.0, EXACT, 1, True, {})


VARIANTS = ("blended", "plain")

METHODS: dict[str, Callable[..., Answer]] = {
    "auto": _auto,
    "oracle": _marginal_oracle,
    "fw": _frank_wolfe,
    "bp": _belief_propagation,
    "perturb": _perturb,
    "exact": _exact,
}
