"""Perturb-and-MAP: samples, marginals and an upper bound of log Z from a MAP decoder alone.

Every variable gets Gumbel noise of its own for each of its states, of mean zero; the best output
under the perturbed scores is a sample (Papandreou and Yuille, 2011; of matchings: Li, Swersky and
Zemel, 2013). With a single variable this is sampling from the model itself. With more it is not,
but the mean of the perturbed maxima is an upper bound of log Z, in expectation (Hazan and Jaakkola,
2012), if the decoder finds the exact maximum: that of pairwise models does on forests and for
binary models whose couplings are all attractive; elsewhere the bound comes out too small.

What the variables are:

* `BipartiteMatching`: each node of the smaller side (rows if both are equal) chooses its partner,
  or to stay single.
* matchings in general graphs: each node chooses; an edge gets the noise of both its ends.
* b-matchings with capacities above 1: each edge is used or not.
* pairwise models and chains: each node's state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..exceptions import MissingCapability
from ..structures.contract import Structure

Floats = NDArray[np.float64]
Callback = Callable[[int, Floats], Any]


@dataclass(frozen=True)
class PerturbAndMap:
    """Estimates from perturbed maximisers.

    Attributes
    ----------
    tau : array of shape (n_coordinates,), the mean of the maximising vertices
    standard_error : array of shape (n_coordinates,), of `tau` (infinite after one sample)
    log_partition : mean of the perturbed maxima; in expectation at least log Z
    log_partition_error : its standard error
    calls : MAP calls, one for each vertex
    """

    tau: Floats
    standard_error: Floats
    log_partition: float
    log_partition_error: float
    calls: int


def perturb_and_map(
    space: Structure,
    scores: Floats,
    n_samples: int = 100,
    *,
    rng: np.random.Generator,
    callback: Callback | None = None,
) -> PerturbAndMap:
    """Average the maximisers of randomly perturbed scores.

    Parameters
    ----------
    space : an output space that says what to perturb (`gumbel_noise`): all of this package
    scores : array of shape (space.n_coordinates,), finite
    n_samples : vertices to average, one MAP call each
    callback : called with (MAP calls so far, their mean vertex) after every sample; if it returns
        True, no more are drawn

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.inference.perturb_and_map import perturb_and_map
    >>> from mlestruct.structures import BipartiteMatching
    >>> one_row = BipartiteMatching((1, 2))
    >>> rng = np.random.default_rng(0)
    >>> found = perturb_and_map(one_row, np.array([np.log(3.0), 0.0, 0.0, 0.0]), 2000, rng=rng)
    >>> found.tau[:2].round(1), round(found.log_partition, 1)
    (array([0.7, 0.3]), 1.4)
    """
    noise = noise_of(space)
    total, squares = np.zeros(scores.size), np.zeros(scores.size)
    maxima: list[float] = []
    for n in range(1, n_samples + 1):
        added, constant = noise.draw(rng)
        vertex = space.decode_integral(scores + added).vertex
        maxima.append(vertex.dot(scores) + vertex.dot(added) + float(constant.sum()))
        total[vertex.indices] += vertex.values
        squares[vertex.indices] += vertex.values**2
        if callback is not None and callback(n, total / n):
            break
    if n == 1:
        return PerturbAndMap(total, np.full(scores.size, np.inf), maxima[0], np.inf, 1)
    variance = np.maximum(squares - total * total / n, 0.0) / (n - 1)
    error = float(np.std(maxima, ddof=1)) / n**0.5
    return PerturbAndMap(total / n, np.sqrt(variance / n), float(np.mean(maxima)), error, n)


def noise_of(space: Structure) -> Any:
    """The variables to perturb."""
    if not space.offers("gumbel_noise"):
        raise MissingCapability(
            f"method='perturb' does not know which variables to perturb in {type(space).__name__}; "
            "use method='fw'"
        )
    return space.gumbel_noise()
