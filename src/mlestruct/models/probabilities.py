"""Marginals by any method, likelihoods and samples of blocks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from .._deadline import in_time
from .._random import generator
from ..inference import result
from ..inference.bounds import log_partition_bounds
from ..inference.marginals import marginals
from ..inference.sampling import sample
from ..learning.problem import Block
from .validation import check_positive

Floats = NDArray[np.float64]


def certified_marginals(
    blocks: Sequence[Block],
    coef: Floats,
    tol: float,
    method: str,
    options: dict[str, Any],
    each: Callable[..., list[Any]],
) -> list[Floats]:
    """tau of every block by a method of `mlestruct.inference.marginals`, over threads by `each`.

    `tol` is the gap of each log-partition function, per node; a larger one is a warning.
    """
    tol = check_positive(tol, "tol")

    def one(block: Block) -> tuple[Floats, float]:
        scores, structure = block.scores(coef), block.structure
        wanted = tol * structure.n_nodes
        if method == "auto" and not options and structure.offers("marginals"):
            found = structure.marginals(scores, None, wanted)
            return found.tau, found.gap / wanted
        answer = marginals(structure, scores, method, tol=wanted, **options)
        return answer.tau, 0.0  # `marginals` warns if it does not converge

    found = each(one, blocks)
    worst = max(excess for _, excess in found)
    if worst > 1.0:
        warnings.warn(
            f"predict_marginals: a log-partition function is certain only to {worst * tol:.2g} "
            f"per node (tol={tol:g})",
            ConvergenceWarning,
            stacklevel=3,
        )
    return [tau for tau, _ in found]


def seeded(options: dict[str, Any], method: str, random_state: Any) -> dict[str, Any]:
    """Options with the estimator's random_state where the method is random and none is given."""
    if method == "perturb" and "random_state" not in options:
        return {**options, "random_state": random_state}
    return options


def approximate_value(block: Block, coef: Floats, tol: float) -> float:
    """<scores, y> - log Z_rho, or log Z_rho of what was observed of y instead of the first."""
    scores, structure = block.scores(coef), block.structure
    wanted = tol * structure.n_nodes
    fit = block.observed.dot(scores)
    if block.partial is not None:
        fit = block.partial.marginals(scores, None, wanted).value
    if structure.offers("marginals"):
        return fit - float(structure.marginals(scores, None, wanted).upper_bound)
    found = marginals(structure, scores, tol=wanted)
    return fit - found.log_partition - (found.gap if np.isfinite(found.gap) else 0.0)


def likelihood_bounds(block: Block, coef: Floats, tol: float) -> tuple[float, float]:
    """Proven bounds of the log-likelihood of what was observed."""
    scores, structure = block.scores(coef), block.structure
    wanted = tol * structure.n_nodes
    low = high = block.observed.dot(scores)
    if block.partial is not None:
        low, high = log_partition_bounds(block.partial, scores, tol=wanted)
    least, most = log_partition_bounds(structure, scores, tol=wanted)
    return min(low - most, 0.0), min(high - least, 0.0)


def exact_log_likelihood(block: Block, coef: Floats) -> float:
    """log p of what was observed of the output, by counting all outputs."""
    scores = block.scores(coef)
    fit = block.observed.dot(scores)
    if block.partial is not None:
        fit = block.partial.exact(scores).log_partition
    return min(fit - block.structure.exact(scores).log_partition, 0.0)


def block_samples(
    blocks: Sequence[Block],
    coef: Floats,
    n_samples: int,
    method: str,
    random_state: Any,
    options: dict[str, Any],
    each: Callable[..., list[Any]],
) -> list[result.Samples]:
    """Labels drawn from each block's distribution, over threads by `each`."""
    rng = generator(random_state)
    streams = [rng.spawn(1)[0] for _ in in_time(blocks, "random numbers of all samples")]

    def one(pair: tuple[Block, np.random.Generator]) -> result.Samples:
        block, rng = pair
        scores = block.scores(coef)
        return sample(block.structure, scores, n_samples, method, random_state=rng, **options)

    return each(one, list(zip(blocks, streams, strict=True)))
