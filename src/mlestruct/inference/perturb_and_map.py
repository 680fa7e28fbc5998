"""Perturb-and-MAP: samples, marginals and bounds of log Z from a MAP decoder alone.

Every variable gets Gumbel noise of its own for each of its states, of mean zero; the best output
under the perturbed scores is a sample (Papandreou and Yuille, 2011; of matchings: Li, Swersky and
Zemel, 2013). With a single variable this is sampling from the model itself. With more it is not,
but the mean of the perturbed maxima is an upper bound of log Z, in expectation (Hazan and Jaakkola,
2012), and with all noise divided by the number of variables it is a lower one (Hazan, Maji and
Jaakkola, 2013). log Z is a sum over the parts of a graph that are not connected, so the number that
counts is that within each part.

What the variables are:

* `BipartiteMatching`: each node of the smaller side (rows if both are equal) chooses its partner,
  or to stay single.
* matchings in general graphs: each node chooses; an edge gets the noise of both its ends.
* b-matchings with capacities above 1: each edge is used or not.
* pairwise models and chains: each node's state.

The bounds need the exact maximum. All decoders give it, but those of pairwise models only on
forests and for binary models whose couplings are all attractive; elsewhere the upper bound comes
out too small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..structures.contract import Decoding, Structure, as_structure

Floats = NDArray[np.float64]
Callback = Callable[[int, Floats], bool | None]


@dataclass(frozen=True)
class PerturbAndMap:
    """Estimates from perturbed maximisers.

    Attributes
    ----------
    tau : array of shape (n_coordinates,), the mean of the maximising vertices
    standard_error : array of shape (n_coordinates,), of `tau` (infinite after one sample)
    log_partition : mean of the perturbed maxima; in expectation at least log Z
    log_partition_error : its standard error
    lower : mean of the maxima with all noise divided by the number of variables; in expectation at
        most log Z. None if it was not asked for
    lower_error : its standard error
    n_samples : number of vertices that were averaged
    calls : MAP calls
    """

    tau: Floats
    standard_error: Floats
    log_partition: float
    log_partition_error: float
    lower: float | None
    lower_error: float | None
    n_samples: int
    calls: int


def perturb_and_map(
    structure: Structure,
    scores: ArrayLike,
    n_samples: int = 100,
    *,
    rng: np.random.Generator,
    lower: bool = False,
    callback: Callback | None = None,
) -> PerturbAndMap:
    """Average the maximisers of randomly perturbed scores.

    Parameters
    ----------
    structure : an output space that says what to perturb (`gumbel_noise`): all of this package
    scores : array of shape (structure.n_coordinates,)
    n_samples : vertices to average, one MAP call each
    lower : whether to estimate the lower bound too, for another MAP call per sample
    callback : called with (MAP calls so far, their mean vertex) after every sample; if it returns
        True, no more are drawn

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.inference.perturb_and_map import perturb_and_map
    >>> from mlestruct.structures import BipartiteMatching
    >>> one_row = BipartiteMatching((1, 2))
    >>> rng = np.random.default_rng(0)
    >>> found = perturb_and_map(one_row, [np.log(3.0), 0.0, 0.0, 0.0], 2000, rng=rng)
    >>> found.tau[:2].round(1), round(found.log_partition, 1)
    (array([0.7, 0.3]), 1.4)
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.shape != (structure.n_coordinates,):
        raise ValueError(f"scores: expected shape ({structure.n_coordinates},), got {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError("scores: must be finite")
    if n_samples < 1:
        raise ValueError(f"n_samples: expected at least 1, got {n_samples}")
    space = as_structure(structure)
    noise = space.gumbel_noise()
    total, squares = np.zeros(values.size), np.zeros(values.size)
    highs: list[float] = []
    lows: list[float] = []
    calls = 0
    for _ in range(n_samples):
        added, constant = noise.draw(rng)
        vertex = space.decode_integral(values + added).vertex
        highs.append(vertex.dot(values) + vertex.dot(added) + float(constant.sum()))
        total[vertex.indices] += vertex.values
        squares[vertex.indices] += vertex.values**2
        calls += 1
        if lower:
            added, constant = added / noise.at_coordinate, constant / noise.at_other
            vertex = space.decode_integral(values + added).vertex
            lows.append(vertex.dot(values) + vertex.dot(added) + float(constant.sum()))
            calls += 1
        if callback is not None and callback(calls, total / len(highs)):
            break
    n = len(highs)
    log_partition, log_partition_error = _mean(highs)
    below, below_error = _mean(lows) if lower else (None, None)
    return PerturbAndMap(
        tau=total / n,
        standard_error=_standard_error(total, squares, n),
        log_partition=log_partition,
        log_partition_error=log_partition_error,
        lower=below,
        lower_error=below_error,
        n_samples=n,
        calls=calls,
    )


def perturbed_maximisers(
    space: Structure, scores: Floats, n_samples: int, rng: np.random.Generator
) -> Iterator[Decoding]:
    """The best outputs under independent perturbations of the scores."""
    noise = space.gumbel_noise()
    for _ in range(n_samples):
        yield space.decode_integral(scores + noise.draw(rng)[0])


def _mean(values: list[float]) -> tuple[float, float]:
    """Mean and standard error."""
    n = len(values)
    error = float(np.std(values, ddof=1) / np.sqrt(n)) if n > 1 else np.inf
    return float(np.mean(values)), error


def _standard_error(total: Floats, squares: Floats, n: int) -> Floats:
    """Of means, from sums and sums of squares of n samples."""
    if n == 1:
        return np.full(total.size, np.inf)
    variance = np.maximum(squares - total * total / n, 0.0) / (n - 1)
    return np.sqrt(variance / n)
