"""Belief propagation on the blocks of a learning problem, each going on from its last messages."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..algorithms.matching._belief_propagation_kernels import propagate
from ..learning.problem import Block
from ..structures import BipartiteMatching
from ..structures.matchings.presolve import Layout, PresolvedMatching, presolve

Floats = NDArray[np.float64]


def presolved_part(structure: BipartiteMatching) -> PresolvedMatching:
    """The pairs of a structure that are not fixed; messages about fixed ones never converge."""
    first = structure.n_scored
    singles = structure.graph.n_rows if structure.free_rows else 0
    layout = Layout(first, first + singles, structure.n_coordinates)
    rho = structure.rho_rows, structure.rho_cols
    return presolve(structure.graph, *rho, structure.perfect, layout)


class BlockMessages:
    """log Z_rho and expected moments of one block by message passing.

    Attributes
    ----------
    sweeps : int, over all calls
    unconverged : int, calls that used up `max_sweeps`
    converged : bool, of the last call
    """

    def __init__(
        self, block: Block, core: PresolvedMatching, rho: float, max_sweeps: int, tol: float
    ):
        self.block, self.rho, self.max_sweeps, self.tol = block, rho, max_sweeps, tol
        edges = core.edges
        self._edge = core.edge_source
        self._place = edges.row * edges.n_cols + edges.col
        self._fixed = core.fixed
        self._free = np.full(edges.n_rows, bool(core.single_source.size)), core.free
        self._table = np.full((edges.n_rows, edges.n_cols), -np.inf)
        self._beliefs = np.zeros_like(self._table)
        self.messages = np.zeros((2, *self._table.shape))
        self._warm = False
        self.sweeps = self.unconverged = 0
        self.converged = True

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """log Z_rho and the expected moments at theta."""
        log_z, tau = self.beliefs(theta)
        return log_z, self.block.features.moments(tau)

    def beliefs(self, theta: Floats) -> tuple[float, Floats]:
        """log Z_rho and the probability of every pair at theta."""
        scores = self.block.scores(theta)
        log_z = float(scores @ self._fixed)
        tau = self._fixed[: self.block.features.n_scored].copy()
        if self._edge.size:
            self._table.flat[self._place] = scores[self._edge]
            value, sweeps, _, converged = propagate(
                self._table, self.rho, *self._free, self.messages, self._warm,
                0.0, self.max_sweeps, self.tol, self._beliefs,
            )  # fmt: skip
            log_z += value
            self.sweeps += sweeps
            self.converged = bool(converged)
            self.unconverged += not converged
            self._warm = True
            tau[self._edge] = self._beliefs.flat[self._place]
        return log_z, tau

    def start_from(self, other: BlockMessages) -> None:
        """Go on from the messages of an earlier run on the same block."""
        self.messages[:] = other.messages
        self._warm = other._warm
