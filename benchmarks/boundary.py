"""Keeping away from the boundary (Appendix B of the paper): is it needed?

    python -m benchmarks.boundary
    python -m benchmarks.record boundary    # the table of docs/algorithms.md

Box constraints eta <= tau <= 1 - eta would need another decoder. The polytope shrunk towards its
interior point, (1 - eps) s + eps interior, satisfies them with eta = eps / n and keeps the
decoder: its vertices are mixed with the interior point. Printed are MAP calls to a relative
Frank-Wolfe gap of 1e-2 in the shrunk problem, the smallest marginal there, and the dual value lost.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.record import show
from mlestruct.learning import BlockFrankWolfe, DualProblem, Newton, Stopping
from mlestruct.structures.contract import Decoding, Structure, Vertex

from .matching import dual_problem, landmark_data


class Shrunk(Structure):
    """A space shrunk towards its interior point, with nothing but decoder and entropy."""

    has_bound = False  # of the whole space, in which the observed outputs are

    def __init__(self, whole: Structure, eps: float):
        self.whole, self.eps, self.n_coordinates = whole, eps, whole.n_coordinates
        self.entropy, self.entropy_gradient = whole.entropy, whole.entropy_gradient
        self.interior = whole.interior

    def decode(self, scores: Any, warm: Any = None, prices: bool = False) -> Decoding:
        dense = self.whole.decode(scores).vertex.dense(self.n_coordinates)
        dense += self.eps * (self.interior() - dense)
        vertex = Vertex(np.arange(self.n_coordinates), dense)
        return Decoding(vertex, vertex.dot(scores))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--max-time", type=float, default=60.0, help="seconds of a solve")
    options = parser.parse_args(arguments)
    X, Y, _, _ = landmark_data(options.samples)
    rows = []
    for alpha in (1e4, 100.0):
        problem = dual_problem(X, Y, 1.0, alpha)
        best = Newton().solve(problem, Stopping(tol=1e-6)).objective
        for eps in (0.0, 1e-3, 1e-2, 1e-1):
            blocks = [replace(b, structure=Shrunk(b.structure, eps)) for b in problem.blocks]
            shrunk = DualProblem(blocks, alpha)
            found = BlockFrankWolfe(start="uniform").solve(
                shrunk,
                Stopping(tol=1e-2, max_iter=10**5, max_time=options.max_time),
                random_state=np.random.default_rng(0),
            )
            smallest = min(float(tau.min()) for tau in found.state.tau)
            lost = (found.state.dual(shrunk) - best) / max(1.0, abs(best))
            calls = found.oracle_calls if found.converged else None
            rows.append([int(alpha), f"{eps:g}", calls, smallest, 100.0 * lost])
    show(
        "MAP calls to a Frank-Wolfe gap of 1e-2 from the uniform start, "
        f"{options.samples} matchings of 30 x 30, or \u2013 if not within {options.max_time:g} s",
        ["alpha", "eps", "MAP calls", "smallest marginal", "dual value above the optimum, %"],
        rows,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
