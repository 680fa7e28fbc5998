"""What all spaces of matchings share: entropy, labels, reading scores, counting, sampling.

A matching of two sides is a matching of the graph whose nodes are the rows, then the columns.
Whatever concerns outputs rather than marginals is written once, for nodes. `bipartite.py` has the
matchings of two sides, `local.py` those of one group over the local polytope, and
`matching_polytope.py` the same over mixtures of matchings.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._arguments import as_floats
from ...algorithms.gumbel import GumbelNoise
from ...algorithms.markov_chains import Draws
from ...algorithms.matching.counting import CountedMatchings
from ...algorithms.matching.worm_chain import sample_by_worms
from ...exceptions import InfeasibleError
from ..contract import (
    MatchingStructure,
    Structure,
    Vertex,
    as_scores,
    read_coordinates,
)
from ..entropy import SeparableEntropy
from ..restricted import Restricted

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@lru_cache(maxsize=8)
def _tie_noise(n_pairs: int) -> Floats:
    """Random numbers of which each sample takes a stretch of its own."""
    return np.random.default_rng(n_pairs).random(2 * n_pairs)


class MatchingSpace(MatchingStructure):
    """Base of all output spaces of matchings.

    Subclasses set `single_at`, the coordinate of every node's unused capacity (-1: it has none),
    and make their entropy.
    """

    single_at: Ints

    @property
    def n_nodes(self) -> int:
        return int(self.capacity.shape[0])

    @cached_property
    def _entropy(self) -> SeparableEntropy:
        return self._make_entropy()

    def _make_entropy(self) -> SeparableEntropy:
        raise NotImplementedError

    def entropy(self, tau: Floats) -> float:
        """H_rho(tau)."""
        return self._entropy(tau)

    def entropy_gradient(self, tau: Floats) -> Floats:
        """Gradient of H_rho; 0 at fixed coordinates."""
        return self._entropy.add_gradient(tau, np.zeros_like(tau))[0]

    @property
    def stepping_entropy(self) -> SeparableEntropy:
        """The entropy as a sum over coordinates, for fast line searches."""
        return self._entropy

    def single_marginals(self, tau: Floats) -> Floats:
        """Expected unused capacity of every node: its probability to stay single."""
        return self.singles(tau)

    def singles(self, values: Floats) -> Floats:
        """Values of all nodes' unused capacity from those of all coordinates; 0 without one."""
        out = np.zeros(self.n_nodes)
        has = self.single_at >= 0
        out[has] = values[self.single_at[has]]
        return out

    def marginal_table(self, tau: Floats) -> Floats:
        """Marginals of pairs: (n_rows, n_cols), or symmetric (n_nodes, n_nodes)."""
        table: Floats = self.graph.dense(tau[: self.n_scored])
        return table

    def vertex_of_pairs(self, pairs: Ints, n_rows: int | None = None) -> Vertex:
        """The vertex of pairs of nodes (of rows and columns), shape (n_pairs, 2)."""
        edges = self.graph.edge_between(pairs[:, 0], pairs[:, 1])
        if (edges < 0).any():
            i, j = pairs[int(np.argmax(edges < 0))].tolist()
            raise ValueError(f"the label pairs {i} with {j}, not allowed here")
        return self.vertex_of(edges, n_rows)

    def vertex_of(self, edges: Ints, n_rows: int | None = None) -> Vertex:
        """The vertex of some edges; messages count nodes beyond `n_rows` as columns."""
        if np.unique(edges).size < edges.size:
            raise ValueError("a pair occurs twice")
        used = np.zeros(self.n_nodes, dtype=np.int64)
        for end in self.ends:
            used += np.bincount(end[edges], minlength=self.n_nodes)
        check_counts(used, self.capacity, self.free, n_rows)
        slack = self.capacity - used
        unused = np.flatnonzero(slack > 0)
        indices = np.concatenate([edges, self.single_at[unused]])
        return Vertex(indices, np.concatenate([np.ones(edges.size), slack[unused]]))

    def break_ties(self, scores: Floats, seed: int = 0) -> Floats:
        """Pairs lose different amounts far below rounding of a sum of scores, drawn at random but
        the same in every call. Otherwise nodes with equal scores get partners in their own order,
        and where true partners have the same number, weights of 0 would predict them.
        """
        largest = max(float(scores.max(initial=0.0)), -float(scores.min(initial=0.0)))
        start = seed % max(self.n_scored, 1)
        noise = _tie_noise(self.n_scored)[start : start + self.n_scored]
        broken = scores.copy()
        # Scores that differ by less count as equal.
        broken[: self.n_scored] -= 1e-12 * (largest or 1.0) * noise
        return broken

    def given(self, known: Any) -> Structure:
        """The matchings with known pairs (1) and without known non-pairs (0); NaN: not known."""
        values = np.asarray(known, dtype=np.float64)
        pairs, ends = values == 1.0, self.ends
        used = np.zeros(self.n_nodes, dtype=np.int64)
        for end in ends:
            used += np.bincount(end[pairs], minlength=self.n_nodes)
        if (used > self.capacity).any():
            i = int(np.argmax(used > self.capacity))
            raise ValueError(
                f"known: node {i} is in {used[i]} pairs, its capacity is {self.capacity[i]}"
            )
        left = self.capacity - used
        keep = np.isnan(values) & (left[ends[0]] > 0) & (left[ends[1]] > 0)
        if np.isnan(values).all():
            return self
        fixed = np.zeros(self.n_coordinates)
        fixed[: self.n_scored] = pairs
        nodes = np.flatnonzero(left > 0)
        part, single = self._part(keep, nodes, left)
        if part is None:
            must = nodes[~self.free[nodes]]
            if must.size:
                raise InfeasibleError(
                    f"known: node {must[0]} must be matched, but has no partner left",
                    must.tolist(),
                    "nodes",
                )
            fixed[self.single_at[nodes]] = left[nodes]
            return Restricted(self, None, fixed, np.zeros(0, dtype=np.int64))
        place = np.concatenate([np.flatnonzero(keep), self.single_at[single]])
        return Restricted(self, part, fixed, place)

    def _part(self, keep: Bools, nodes: Ints, capacity: Ints) -> tuple[Structure | None, Ints]:
        """The space over some pairs and nodes, and the nodes of its coordinates of singles; None
        where there is no pair to choose.
        """
        raise NotImplementedError

    def _label_of_partners(self, partner: Ints) -> Ints:
        """Labels from the partners of nodes, shape (..., n_nodes), -1 for single."""
        return partner

    def _partners_of_label(self, label: Any) -> Any:
        """The partners of nodes from labels of shape (n_labels, ...), where they differ."""
        return label

    # ------------------------------------------------------------------ scores
    def read_scores(self, scores: Any) -> tuple[Floats, float]:
        """Scores as an array, or as a table of pairs in which -inf forbids one."""
        what = f", or a {self.graph.table_form}"
        if isinstance(scores, tuple):
            raise ValueError(
                f"scores: {type(self).__name__} takes one array{what}, not a tuple; scores of "
                "single nodes follow those of the pairs"
            )
        values = as_scores(scores, "scores")
        if values.ndim == 2:
            values = self.graph.values_of(values, "scores")
        return read_coordinates(self, values, what), 0.0

    # ------------------------------------------------------------------ exact counting
    def exact(self, scores: Floats) -> _Counted:
        """The distribution of all matchings, by dynamic programming over sets of nodes."""
        counted = CountedMatchings(
            self.n_nodes, *self.ends, scores[: self.n_scored], self.capacity, self.free,
            self.singles(scores),
        )  # fmt: skip
        return _Counted(self, counted)

    # ------------------------------------------------------------------ perturb-and-MAP
    def gumbel_noise(self) -> GumbelNoise:
        """Every node chooses a partner, or to stay single; an edge gets the noise of both ends.

        With capacities above 1 every edge chooses whether it is used.
        """
        tail, head = self.ends
        edges = np.arange(self.n_scored)
        if not self.is_simple:
            return GumbelNoise(self.n_coordinates, edges, edges, minimal=True)
        free = np.flatnonzero(self.free)
        coordinate = np.concatenate([edges, edges, self.single_at[free]])
        variable = np.concatenate([tail, head, free])
        return GumbelNoise(self.n_coordinates, coordinate, variable)

    # ------------------------------------------------------------------ Markov chains
    def markov_chain_samples(
        self, scores: Floats, n_samples: int, rng: np.random.Generator, **options: Any
    ) -> Draws:
        """Matchings drawn with probability proportional to exp(score), whatever the polytope.

        `options`: n_chains, sweeps, max_sweeps, tol_rhat, start (labels).
        """
        if not self.is_simple:
            raise ValueError(
                "structure: only matchings with capacity 1 are sampled by Markov chains, found a "
                f"capacity of {self.capacity.max()}"
            )
        start = options.pop("start", None)
        if start is not None:
            options["start"] = self._partners_of_label(start)
        # A node of capacity 0 has no edges; it is neither matched nor rewarded for being single.
        tail, head = self.ends
        used = self.capacity > 0
        usable = used[tail] & used[head]
        drawn = sample_by_worms(
            self.n_nodes, tail[usable], head[usable], scores[: self.n_scored][usable], n_samples,
            free=self.free | ~used, single=np.where(used, self.singles(scores), 0.0),
            rng=rng, stacklevel=5, **options,
        )  # fmt: skip
        return replace(drawn, states=self._label_of_partners(drawn.states))


class _Counted:
    """An `ExactDistribution` over matchings."""

    def __init__(self, structure: MatchingSpace, counted: CountedMatchings):
        self._structure, self._counted = structure, counted
        self.log_partition = counted.log_partition

    @property
    def tau(self) -> Floats:
        structure, counted = self._structure, self._counted
        tau = np.zeros(structure.n_coordinates)
        tau[: structure.n_scored] = counted.edge_marginals
        has = structure.single_at >= 0
        tau[structure.single_at[has]] = counted.unused[has]
        return tau

    def sample(self, n_samples: int, rng: np.random.Generator) -> Any:
        """Independent labels."""
        drawn = self._counted.sample(n_samples, rng)
        structure = self._structure
        tail, head = structure.ends
        if not structure.is_simple:
            ends = np.stack([tail, head], axis=1)
            return [ends[chosen] for chosen in drawn]
        partner = np.full((n_samples, structure.n_nodes), -1, dtype=np.int64)
        which, edge = np.nonzero(drawn)
        partner[which, tail[edge]] = head[edge]
        partner[which, head[edge]] = tail[edge]
        return structure._label_of_partners(partner)


# ---------------------------------------------------------------------- values of nodes
def node_rho(rho: ArrayLike, n_nodes: int) -> Floats:
    """Reweighting of every node from a scalar or an array."""
    if isinstance(rho, str):
        raise ValueError(f"rho: expected a number or an array from 0.5 to 1, got {rho!r}")
    values = as_floats(rho, "rho")
    if values.ndim and values.shape != (n_nodes,):
        raise ValueError(f"rho: expected a scalar or shape ({n_nodes},), got {values.shape}")
    check_rho(values)
    return np.broadcast_to(values, (n_nodes,)).astype(np.float64)


def check_rho(values: Floats) -> None:
    """Raise unless all values lie between 1/2 and 1."""
    if not (np.all(values >= 0.5) and np.all(values <= 1.0)):
        raise ValueError(
            f"rho must lie in [0.5, 1], found {values.min()} to {values.max()}. Below 1/2 the "
            "entropy is concave, too, but log Z_rho only grows: at 1/2 it already bounds log Z "
            "from above"
        )


def node_capacity(capacity: ArrayLike, n_nodes: int) -> Ints:
    """Capacity of every node from a whole number or an array of them."""
    values = np.asarray(capacity)
    if values.ndim and values.shape != (n_nodes,):
        raise ValueError(
            f"capacity: expected a whole number or shape ({n_nodes},), got {values.shape}"
        )
    if values.dtype.kind not in "iu" and not (
        values.dtype.kind == "f" and np.array_equal(values, np.round(values))
    ):
        raise ValueError(f"capacity must hold whole numbers, got {capacity!r}")
    if (values < 0).any():
        raise ValueError(f"capacity must not be negative, found {values.min()}")
    return np.broadcast_to(values, (n_nodes,)).astype(np.int64)


# ---------------------------------------------------------------------- labels
def check_partners(label: Any, n_rows: int, n_cols: int | None, known: Bools | None = None) -> Ints:
    """The pairs (n_pairs, 2) of a matching from the partner of every row, -1 for single ones.

    Parameters
    ----------
    n_cols : int, or None for one group of `n_rows` nodes; then partners must be mutual
    known : rows whose partner counts; default: all
    """
    node, n_partners = ("node", n_rows) if n_cols is None else ("row", n_cols)
    partner = whole_numbers(label, (n_rows,), f"the partner of each {node}")
    known = np.ones(n_rows, dtype=bool) if known is None else known
    outside = known & ((partner < -1) | (partner >= n_partners))
    if outside.any():
        i = int(np.argmax(outside))
        expected = f"expected 0 to {n_partners - 1}, or -1 for single"
        raise ValueError(f"{node} {i} has partner {partner[i]}; {expected}")
    rows = np.flatnonzero(known & (partner >= 0))
    if n_cols is None:
        _check_mutual(partner, rows, known)
        rows = rows[(rows < partner[rows]) | ~known[partner[rows]]]
    return np.stack([rows, partner[rows]], axis=1)


def _check_mutual(partner: Ints, nodes: Ints, known: Bools) -> None:
    """Raise unless the partner of each partner is the node itself."""
    mates = partner[nodes]
    wrong = (mates == nodes) | (known[mates] & (partner[mates] != nodes))
    if wrong.any():
        i = int(nodes[np.argmax(wrong)])
        j = int(partner[i])
        if i == j:
            raise ValueError(f"node {i} is its own partner; single nodes are -1")
        raise ValueError(
            f"node {i} has partner {j}, but node {j} has {partner[j]}; partners must be mutual"
        )


def whole_numbers(values: Any, shape: tuple[int, ...], what: str) -> Ints:
    """An array of integers in a shape; floats must be whole."""
    try:
        found = np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"expected an array of whole numbers: {error}") from None
    if found.shape != shape:
        raise ValueError(f"expected shape {shape}, {what}, got {found.shape}")
    if found.dtype.kind == "f":
        broken = found[~(np.abs(found) < 2.0**53) | (found != np.round(found))]
        if broken.size:
            raise ValueError(f"partners must be integers, found {broken[0]}")
        found = found.astype(np.int64)
    if found.dtype.kind not in "iu":
        raise ValueError(f"partners must be integers, got dtype {found.dtype}")
    return found.astype(np.int64)


def check_counts(used: Ints, capacity: Ints, free: Bools, n_rows: int | None) -> None:
    """Raise unless each node has as many partners as its capacity, or fewer if it is free.

    `n_rows` is the number of rows if nodes are rows, then columns.
    """
    wrong = (used > capacity) | ((used < capacity) & ~free)
    if not wrong.any():
        return
    i = int(np.argmax(wrong))
    node = f"node {i}"
    if n_rows is not None:
        node = f"row {i}" if i < n_rows else f"column {i - n_rows}"
    need = "at most" if free[i] else "exactly"
    hint = "; perfect=False allows fewer" if used[i] < capacity[i] else ""
    raise ValueError(f"{node} has {used[i]} partners, it must have {need} {capacity[i]}{hint}")
