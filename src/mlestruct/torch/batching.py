"""Marginals of a batch: many output spaces side by side, over threads.

Scores of a batch are one array, sample after sample. `Oracle` says how marginals are found and
keeps what lasts from batch to batch: tolerance, threads, warm starts and the last certificate. A
`Batch` asks it for every sample; `SequenceBatch` solves many chains in one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .._lazy import cached_property
from .._threads import threaded_map
from ..algorithms.frank_wolfe import checked_start, frank_wolfe_marginals
from ..algorithms.pairwise.forward_backward import forward_backward, viterbi
from ..exceptions import InfeasibleError
from ..structures.contract import Marginals, Structure, Vertex

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Keys = Sequence[Hashable] | None
Observed = Structure | Vertex | None  # a part of an output, a whole one, nothing


@dataclass(frozen=True)
class Solution:
    """Marginals of all samples.

    tau : ndarray of shape (n_coordinates,), sample after sample
    value : ndarray of shape (n_samples,), log Z_rho, or the score of an observed output
    gap : ndarray of shape (n_samples,), certified: log Z_rho is at most value + gap; inf without
        certificate
    """

    tau: Floats
    value: Floats
    gap: Floats


class Oracle:
    """How the marginals of a sample are found.

    Parameters
    ----------
    tol : certified gap of log Z_rho to reach, per node of a sample
    n_jobs : threads over the samples of a batch; by default as many as PyTorch uses
    max_iter : calls of the decoder of spaces that have no other oracle (Frank-Wolfe)

    Attributes
    ----------
    last_gap : tensor of shape (n_samples,), the certificates of the last loss
    """

    def __init__(self, tol: float = 1e-6, n_jobs: int | None = None, max_iter: int = 1000):
        if not tol > 0.0:
            raise ValueError(f"tol: expected a positive number, got {tol!r}")
        self.tol, self.n_jobs, self.max_iter = float(tol), n_jobs, int(max_iter)
        self.last_gap: torch.Tensor | None = None
        self._warm: dict[Hashable, tuple[str, Any]] = {}

    @property
    def n_threads(self) -> int:
        return int(torch.get_num_threads()) if self.n_jobs is None else max(int(self.n_jobs), 1)

    def forget(self) -> None:
        """Drop all warm starts."""
        self._warm.clear()

    def each(self, function: Callable[..., Any], *items: Iterable[Any]) -> list[Any]:
        """The function of every item, over threads."""
        columns = [list(column) for column in items]
        with threaded_map(self.n_threads, len(columns[0])) as mapped:
            return list(mapped(function, *columns))

    def marginals(
        self, space: Structure, scores: Floats, key: Hashable, tol: float | None = None
    ) -> Marginals:
        """Marginals of one sample; warm where `key` has been seen with the same output space."""
        known = None if key is None else self._warm.get(key)
        warm = known[1] if known is not None and known[0] == space.fingerprint else None
        goal = (self.tol if tol is None else tol) * max(space.n_nodes, 1)
        if space.offers("marginals"):
            found = space.marginals(scores, warm, goal)
        else:
            found = self._frank_wolfe(space, scores, warm, goal)
        if key is not None:
            self._warm[key] = (space.fingerprint, found.warm)
        return found

    def _frank_wolfe(self, space: Structure, scores: Floats, warm: Any, tol: float) -> Marginals:
        start = checked_start(space)
        if warm is not None:  # an entry that has vanished would stay without mass
            start = 0.9 * warm + 0.1 * start
        tau, value, upper, calls = frank_wolfe_marginals(
            space, scores, start, tol, self.max_iter, blended=True
        )
        return Marginals(tau, value, upper, tau, calls)


class Batch:
    """Output spaces of a batch; None for a sample without anything to choose."""

    def __init__(self, spaces: Sequence[Structure | None]):
        self.spaces = list(spaces)
        sizes = [0 if space is None else space.n_coordinates for space in self.spaces]
        self.starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def __len__(self) -> int:
        return len(self.spaces)

    @cached_property
    def sample_of_coordinate(self) -> Ints:
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def parts(self, values: Floats) -> list[Floats]:
        """Values of every sample."""
        return [values[a:b] for a, b in pairwise(self.starts)]

    def marginals(
        self, scores: Floats, oracle: Oracle, keys: Keys = None, tol: float | None = None
    ) -> Solution:
        """Marginals and log Z_rho of all samples."""
        return self._solve(self.spaces, scores, oracle, keys, tol)

    def given(
        self,
        observed: Sequence[Observed],
        scores: Floats,
        oracle: Oracle,
        keys: Keys = None,
        tol: float | None = None,
        free: Solution | None = None,
    ) -> Solution:
        """The same given what was observed; `free` is the answer where this is nothing."""
        nothing = np.array([known is None for known in observed], dtype=bool)
        pairs = None if keys is None else [(key, "observed") for key in keys]
        if free is None and nothing.any():
            free = self.marginals(scores, oracle, None, tol)
        found = self._solve(observed, scores, oracle, pairs, tol)
        if free is None or not nothing.any():
            return found
        return Solution(
            np.where(nothing[self.sample_of_coordinate], free.tau, found.tau),
            np.where(nothing, free.value, found.value),
            np.where(nothing, 0.0, found.gap),
        )

    def _solve(
        self,
        spaces: Sequence[Observed],
        scores: Floats,
        oracle: Oracle,
        keys: Keys,
        tol: float | None,
    ) -> Solution:
        def one(space: Observed, own: Floats, key: Hashable) -> tuple[Floats, float, float]:
            if space is None:
                return np.zeros(own.shape[0]), 0.0, 0.0
            if isinstance(space, Vertex):
                return space.dense(own.shape[0]), space.dot(own), 0.0
            found = oracle.marginals(space, own, key, tol)
            return found.tau, found.value, found.gap if space.has_bound else np.inf

        labels = [None] * len(spaces) if keys is None else keys
        answers = oracle.each(one, spaces, self.parts(scores), labels)
        taus = [tau for tau, _, _ in answers]
        return Solution(
            np.concatenate([*taus, np.zeros(0)]),
            np.array([value for _, value, _ in answers], dtype=np.float64),
            np.array([gap for _, _, gap in answers], dtype=np.float64),
        )

    def decode(self, scores: Floats, oracle: Oracle) -> list[Any]:
        """The best output of every sample; None where there is nothing to choose."""

        def one(space: Structure | None, own: Floats) -> Any:
            return None if space is None else space.best_label(own)

        return oracle.each(one, self.spaces, self.parts(scores))


class SequenceBatch:
    """Chains of different lengths in one pass of forward-backward for each thread.

    Coordinates of a batch: states of all nodes (n_nodes, L), then tables of all edges
    (n_edges, L, L). Chains of length 0 have neither.
    """

    def __init__(self, lengths: Ints, n_states: int):
        self.lengths, self.n_states = lengths, n_states
        self.first_node = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        edges = np.maximum(lengths - 1, 0)
        self.first_edge = np.concatenate([[0], np.cumsum(edges)]).astype(np.int64)
        self.sample_of_node = np.repeat(np.arange(lengths.shape[0]), lengths)
        self.sample_of_edge = np.repeat(np.arange(lengths.shape[0]), edges)

    def __len__(self) -> int:
        return int(self.lengths.shape[0])

    @cached_property
    def sample_of_coordinate(self) -> Ints:
        nodes = np.repeat(self.sample_of_node, self.n_states)
        return np.concatenate([nodes, np.repeat(self.sample_of_edge, self.n_states**2)])

    def split(self, values: Floats) -> tuple[Floats, Floats]:
        """Values of nodes and of edges."""
        size, middle = self.n_states, int(self.first_node[-1]) * self.n_states
        return values[:middle].reshape(-1, size), values[middle:].reshape(-1, size, size)

    def _parts(self, oracle: Oracle) -> list[tuple[Ints, slice, slice]]:
        """Neighbouring chains that are not empty, about as many nodes in each part."""
        wanted = np.linspace(0, self.first_node[-1], oracle.n_threads + 1)
        cuts = np.unique(np.searchsorted(self.first_node, wanted))
        found = []
        for a, b in pairwise(cuts):
            nodes = slice(int(self.first_node[a]), int(self.first_node[b]))
            edges = slice(int(self.first_edge[a]), int(self.first_edge[b]))
            found.append((np.arange(a, b)[self.lengths[a:b] > 0], nodes, edges))
        return [part for part in found if part[0].size]

    def _starts(self, chains: Ints) -> Ints:
        return np.concatenate([[0], np.cumsum(self.lengths[chains])]).astype(np.int64)

    def marginals(
        self, scores: Floats, oracle: Oracle, keys: Keys = None, tol: float | None = None
    ) -> Solution:
        """Exact marginals and log Z of all chains."""
        nodes, edges = self.split(scores)
        return self._forward_backward(nodes, edges, oracle)

    def _forward_backward(self, nodes: Floats, edges: Floats, oracle: Oracle) -> Solution:
        tau_nodes, tau_edges = np.empty_like(nodes), np.empty_like(edges)
        value = np.zeros(len(self))

        def one(part: tuple[Ints, slice, slice]) -> None:
            chains, own, links = part
            with np.errstate(invalid="ignore"):  # of chains whose labellings are all forbidden
                found = forward_backward(self._starts(chains), nodes[own], edges[links])
            tau_nodes[own] = found.nodes
            tau_edges[links] = found.edges
            value[chains] = found.log_z

        oracle.each(one, self._parts(oracle))
        if not np.isfinite(value).all():
            wrong = int(np.argmax(~np.isfinite(value)))
            raise InfeasibleError(f"sample {wrong}: every labelling is forbidden", [], "nodes")
        tau = np.concatenate([tau_nodes.ravel(), tau_edges.ravel()])
        return Solution(tau, value, np.zeros(len(self)))

    def given(
        self,
        observed: Ints,
        scores: Floats,
        oracle: Oracle,
        keys: Keys = None,
        tol: float | None = None,
        free: Solution | None = None,
    ) -> Solution:
        """The same with the states of nodes given; -1 where a state is not known."""
        nodes, edges = self.split(scores)
        if (observed < 0).any():
            known = np.flatnonzero(observed >= 0)
            clamped = nodes.copy()
            clamped[known] = -np.inf
            clamped[known, observed[known]] = nodes[known, observed[known]]
            return self._forward_backward(clamped, edges, oracle)
        tau = np.zeros_like(scores)
        tau_nodes, tau_edges = self.split(tau)
        tail, head = self.ends()
        at_nodes = np.arange(observed.shape[0]), observed
        at_edges = np.arange(tail.shape[0]), observed[tail], observed[head]
        tau_nodes[at_nodes], tau_edges[at_edges] = 1.0, 1.0
        value = np.zeros(len(self))
        np.add.at(value, self.sample_of_node, nodes[at_nodes])
        np.add.at(value, self.sample_of_edge, edges[at_edges])
        return Solution(tau, value, np.zeros(len(self)))

    def ends(self) -> tuple[Ints, Ints]:
        """The two nodes of every edge."""
        tail = np.arange(self.sample_of_edge.shape[0]) + self._skipped()
        return tail, tail + 1

    def _skipped(self) -> Ints:
        """Number of last nodes of chains before every edge."""
        last: Ints = np.cumsum(self.lengths > 0) - 1
        return last[self.sample_of_edge]

    def decode(self, scores: Floats, oracle: Oracle) -> Ints:
        """The states of the best labelling of every chain, shape (n_nodes,)."""
        nodes, edges = self.split(scores)
        states = np.empty(nodes.shape[0], dtype=np.int64)

        def one(part: tuple[Ints, slice, slice]) -> None:
            chains, own, links = part
            states[own] = viterbi(self._starts(chains), nodes[own], edges[links])

        oracle.each(one, self._parts(oracle))
        return states
