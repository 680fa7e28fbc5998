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

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Callback = Callable[[int, Floats], bool | None]


@dataclass(frozen=True)
class PerturbAndMap:
    """What perturbed maximisers tell.

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
    structure: Any,
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
    structure : BipartiteMatching, LocalMatching, ExactMatching, BinaryPairwise, Pairwise or Chains
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
    noise = _noise_of(structure)
    total, squares = np.zeros(values.size), np.zeros(values.size)
    highs: list[float] = []
    lows: list[float] = []
    calls = 0
    for _ in range(n_samples):
        added, constant = noise.draw(rng)
        vertex = noise.best(values + added)
        highs.append(vertex.dot(values) + vertex.dot(added) + float(constant.sum()))
        total[vertex.indices] += vertex.values
        squares[vertex.indices] += vertex.values**2
        calls += 1
        if lower:
            added, constant = added / noise.at_coordinate, constant / noise.at_other
            vertex = noise.best(values + added)
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


class _Noise:
    """Gumbel noise of variables that choose among coordinates, and the decoder for it.

    Parameters
    ----------
    coordinate, variable : arrays of shape (n_options,), of each option of each variable
    component : array of shape (n_variables,), the connected part of the graph a variable is in
    best : scores to the best vertex
    minimal : whether each variable has one more option, with no coordinate of its own
    """

    def __init__(
        self,
        n_coordinates: int,
        coordinate: Ints,
        variable: Ints,
        component: Ints,
        best: Callable[[Floats], Any],
        minimal: bool = False,
    ):
        n_options = np.bincount(variable, minlength=component.size) + int(minimal)
        chooses = n_options > 1  # noise on the only option of a variable would be nothing but noise
        kept = chooses[variable]
        self.coordinate, self.n_coordinates = coordinate[kept], n_coordinates
        self.best, self.minimal = best, minimal
        together = np.bincount(component[chooses], minlength=component.max(initial=0) + 1)
        # The number of variables that the noise at a coordinate, or of the other option, is one of.
        together = together[component[variable[kept]]]
        self.at_other = together if minimal else np.ones(0)
        self.at_coordinate = np.ones(n_coordinates)
        self.at_coordinate[self.coordinate] = together

    def draw(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Noise of all coordinates, and that of options without one."""
        size = self.coordinate.size
        own = rng.gumbel(-np.euler_gamma, size=size)
        other = rng.gumbel(-np.euler_gamma, size=size if self.minimal else 0)
        if self.minimal:
            own -= other
        added: Floats = np.zeros(self.n_coordinates)
        added += np.bincount(self.coordinate, own, minlength=self.n_coordinates)
        return added, other


def _noise_of(structure: Any) -> _Noise:
    from ..structures.labellings.binary import BinaryPairwise
    from ..structures.labellings.pairwise import Pairwise
    from ..structures.matchings.bipartite import BipartiteMatching
    from ..structures.matchings.space import MatchingSpace
    from ..structures.sequences import Chains

    if isinstance(structure, BipartiteMatching):
        return _of_bipartite(structure)
    if isinstance(structure, MatchingSpace):
        return _of_matching(structure)
    if isinstance(structure, Chains):
        chain = np.repeat(np.arange(structure.n_chains), np.diff(structure.starts))
        return _of_states(structure, chain, lambda s: structure.decode(s).vertex)
    if isinstance(structure, BinaryPairwise | Pairwise):
        graph = structure.graph
        part = _components(graph.n_nodes, graph.tail, graph.head)
        minimal = isinstance(structure, BinaryPairwise)
        return _of_states(
            structure, part, lambda s: structure.encode(structure.best_label(s)), minimal
        )
    raise ValueError(
        "structure: expected a matching, pairwise or chain structure, got "
        f"{type(structure).__name__}"
    )


def _of_states(
    structure: Any, component: Ints, best: Callable[[Floats], Any], minimal: bool = False
) -> _Noise:
    """Every node chooses its state; their coordinates come first, with the `minimal` ones of 1."""
    per_node = 1 if minimal else structure.n_states
    variable = np.repeat(np.arange(component.size), per_node)
    coordinate = np.arange(variable.size)
    return _Noise(structure.n_coordinates, coordinate, variable, component, best, minimal)


def _of_bipartite(structure: Any) -> _Noise:
    graph, n_edges = structure.graph, structure.n_scored
    n, m = graph.n_rows, graph.n_cols
    component = _components(n + m, graph.row, graph.col + n)
    if n <= m:
        variable, free, first, part = graph.row, structure.free_rows, n_edges, component[:n]
    else:
        first = n_edges + (n if structure.free_rows else 0)
        variable, free, part = graph.col, structure.free_cols, component[n:]
    coordinate = np.arange(n_edges)
    if free:
        coordinate = np.concatenate([coordinate, first + np.arange(part.size)])
        variable = np.concatenate([variable, np.arange(part.size)])
    return _Noise(
        structure.n_coordinates, coordinate, variable, part, lambda s: structure.decode(s).vertex
    )


def _of_matching(structure: Any) -> _Noise:
    graph, n_edges = structure.graph, structure.n_scored
    edges, component = np.arange(n_edges), _components(graph.n_nodes, graph.row, graph.col)

    def best(scores: Floats) -> Any:
        return structure.decode_integral(scores).vertex

    if not structure.is_simple:
        return _Noise(
            structure.n_coordinates, edges, edges, component[graph.row], best, minimal=True
        )
    free = np.flatnonzero(structure.free)
    coordinate = np.concatenate([edges, edges, n_edges + free])
    variable = np.concatenate([graph.row, graph.col, free])
    return _Noise(structure.n_coordinates, coordinate, variable, component, best)


def _components(n_nodes: int, tail: NDArray[Any], head: NDArray[Any]) -> Ints:
    """The connected component of every node."""
    links = coo_array((np.ones(tail.size, dtype=np.int8), (tail, head)), shape=(n_nodes, n_nodes))
    return connected_components(links, directed=False)[1].astype(np.int64)


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
