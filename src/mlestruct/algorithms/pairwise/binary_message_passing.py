"""Certified marginals of pairwise models with two states on any graph, in minimal coordinates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from . import _binary_message_passing_kernels as kernels
from .graph_message_passing import Messages, ReweightedGraph

Floats = NDArray[np.float64]


class BinaryOracle(ReweightedGraph):
    """Message passing with two states."""

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
        # Each message is between 1 and the strength of its edge, which other scores had changed.
        logs = np.clip(
            self.first_logs(warm, 1)[:, 0], np.minimum(slopes, 0.0), np.maximum(slopes, 0.0)
        )
        ratios = np.exp(np.clip(logs, -kernels.WIDE, kernels.WIDE))
        fields, residual, entropies = np.empty((3, n))

        def sweep(damping: float, n_sweeps: int) -> None:
            for _ in range(n_sweeps):
                kernels.pass_messages(
                    self.ptr, self.later, self.mate, self.rho_at_half, nodes, slopes, strengths,
                    logs, ratios, damping,
                )  # fmt: skip

        def certify() -> tuple[float, float, Floats]:
            upper = kernels.bound_and_fields(
                self.ptr, self.node, self.mate, self.rho_at_half, self.into, self.slack, nodes,
                slopes, logs, fields, residual, self.has_bound,
            )  # fmt: skip
            tau = np.empty(n + n_edges)
            value = kernels.feasible_point(
                self.tail, self.head, self.rho, self.counting, nodes, couplings, fields,
                entropies, tau,
            )  # fmt: skip
            return upper, value, tau

        best, value, upper, sweeps = self.converge(sweep, certify, tol, max_sweeps)
        tau = np.concatenate([best[:n][given.node_place], best[n:][given.edge_place]])
        return tau, value, upper, self.as_given(logs[:, None]), sweeps
