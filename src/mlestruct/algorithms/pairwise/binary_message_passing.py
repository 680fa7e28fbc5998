"""Certified marginals of pairwise models with two states on any graph, in minimal coordinates."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _binary_message_passing_kernels as kernels
from .graph_message_passing import NumberedGraph
from .schedule import first_sweeps, only_rounding_left, sweeps_needed

Floats = NDArray[np.float64]
Messages = tuple[Floats, Floats]


class BinaryOracle(NumberedGraph):
    """Message passing with two states."""

    def __init__(self, n_nodes: int, tail: Any, head: Any, reweighting: Any, is_forest: bool):
        super().__init__(n_nodes, tail, head, reweighting, is_forest)
        edges, half = self.given.edges, self.half
        if self.has_bound:
            into = np.concatenate([reweighting.into_tail[edges], reweighting.into_head[edges]])
        else:
            into = 0.5 * np.concatenate([self.rho, self.rho])
        n_edges = self.rho.shape[0]
        self.slot = np.argsort(half)  # of the half-edge at the tail of every edge, then at the head
        self.mate = self.slot[(half + n_edges) % max(2 * n_edges, 1)]
        self.node = np.concatenate([self.head, self.tail])[half]
        self.into, self.rho_at_half = into[half], self.rho[self.edge]
        here = np.repeat(np.arange(n_nodes), np.diff(self.ptr))
        self.slack = 1.0 - np.bincount(here, self.into, n_nodes)
        self.later = self.ptr[:-1] + np.bincount(here[self.node < here], minlength=n_nodes)

    def __call__(
        self, scores: Floats, warm: Messages | None, tol: float, max_sweeps: int
    ) -> tuple[Floats, float, float, Messages, int]:
        """(tau, value, upper bound, warm, sweeps): log Z_rho lies in [value, upper bound].

        scores and tau have the shape (n_nodes + n_edges,). `warm` are the logarithms of the
        messages into tails and heads, of shape (n_edges, 1) each.
        """
        given, n, n_edges = self.given, self.counting.shape[0], self.rho.shape[0]
        nodes, couplings = scores[:n][given.nodes], scores[n:][given.edges]
        slopes = (couplings / self.rho)[self.edge]
        strengths = np.exp(np.clip(slopes, -kernels.WIDE, kernels.WIDE))
        logs = np.zeros(2 * n_edges)
        if warm is not None and warm[0].shape == (n_edges, 1):
            logs[self.slot] = np.concatenate([side[given.edges, 0] for side in warm])
        # Each message is between 1 and the strength of its edge, which other scores had changed.
        np.clip(logs, np.minimum(slopes, 0.0), np.maximum(slopes, 0.0), out=logs)
        ratios = np.exp(np.clip(logs, -kernels.WIDE, kernels.WIDE))
        fields, residual, entropies = np.empty((3, n))
        tau, best = np.empty((2, n + n_edges))
        sweeps, damping, least, most = 0, 0.0, -np.inf, np.inf
        following = 1 if self.is_forest else first_sweeps(max_sweeps)
        gaps: list[float] = []
        while True:
            for _ in range(following):
                kernels.pass_messages(
                    self.ptr, self.later, self.mate, self.rho_at_half, nodes, slopes, strengths,
                    logs, ratios, damping,
                )  # fmt: skip
            sweeps += following
            upper = kernels.bound_and_fields(
                self.ptr, self.node, self.mate, self.rho_at_half, self.into, self.slack, nodes,
                slopes, logs, fields, residual, self.has_bound,
            )  # fmt: skip
            found = kernels.feasible_point(
                self.tail, self.head, self.rho, self.counting, nodes, couplings, fields,
                entropies, tau,
            )  # fmt: skip
            if found > least or not gaps:
                least, tau, best = found, best, tau
            # Without a split of rho there is no bound, only the distance from a fixed point.
            most = min(most, upper) if self.has_bound else least + abs(upper - found)
            gaps.append(most - least)
            if most - least <= tol or sweeps >= max_sweeps or only_rounding_left(gaps, upper):
                break
            following = min(sweeps_needed(gaps, following, tol), max_sweeps - sweeps)
            if len(gaps) > 3 and gaps[-1] > 0.999 * gaps[-4]:  # messages oscillate
                damping = 0.5
        tau = np.concatenate([best[:n][given.node_place], best[n:][given.edge_place]])
        at_tail, at_head = logs[self.slot].reshape(2, n_edges)[:, given.edge_place, None]
        return tau, least, max(most, least), (at_tail, at_head), sweeps
