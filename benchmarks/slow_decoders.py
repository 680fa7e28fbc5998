"""Decoders that take long: MAP calls and seconds, and what the same calls buy elsewhere.

    python -m benchmarks.slow_decoders            # two to three minutes, most of them asleep
    python -m benchmarks.slow_decoders --quick
    python -m benchmarks.record slow_decoders     # the tables of docs/algorithms.md
    python -m benchmarks.slow_decoders --check-pyepo    # the rival's gradient; needs pyepo, torch

A user's decoder is imitated: assignments of 10 x 10 by SciPy, slowed by `--delay` seconds a call,
with the Bethe entropy and nothing else, so that certificates are Frank-Wolfe gaps. The rival is
the perturbed Fenchel-Young loss (Berthet et al. 2020) as PyEPO trains it, rewritten here in NumPy:
gradient G'(mean of decode(scores + sigma noise) - y), Adam, the best of a grid of settings judged
by the test loss itself. Its seconds are its calls times the delay.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from benchmarks.record import power, show
from mlestruct.features import DenseFeatures
from mlestruct.learning import Block, BlockFrankWolfe, DualProblem, Stopping, make_solver
from mlestruct.learning.result import History
from mlestruct.structures.contract import Decoding, Structure, Vertex
from mlestruct.structures.entropy import SeparableEntropy

Floats = NDArray[np.float64]

N, K = 10, 8
LEVELS = (1e-2, 1e-3)
SETTINGS = tuple(product((0.3, 1.0, 3.0), (0.03, 0.1, 0.3), (1, 10)))  # sigma, rate, draws


class SlowAssignment(Structure):
    """Assignments with a decoder, an entropy and an interior point: what a user has to write."""

    n_coordinates = N * N

    def __init__(self, delay: float = 0.0):
        self.delay = delay
        self._entropy = SeparableEntropy(np.ones(N * N), np.ones(N * N))

    def decode(self, scores: Floats, warm: Any = None, prices: bool = False) -> Decoding:
        time.sleep(self.delay)
        rows, columns = linear_sum_assignment(scores.reshape(N, N), maximize=True)
        vertex = Vertex(rows * N + columns, np.ones(N))
        return Decoding(vertex, vertex.dot(scores))

    def entropy(self, tau: Floats) -> float:
        return self._entropy(tau)

    def entropy_gradient(self, tau: Floats) -> Floats:
        return self._entropy.add_gradient(tau, np.zeros_like(tau))[0]

    def interior(self) -> Floats:
        return np.full(N * N, 1.0 / N)


def samples(n_samples: int, rng: np.random.Generator, theta: Floats) -> tuple[Floats, Floats]:
    """Features (n_samples, N * N, K) and matchings (n_samples, N * N) of perturbed scores."""
    X = rng.normal(size=(n_samples, N * N, K))
    space = SlowAssignment()
    noisy = X @ theta + rng.gumbel(size=(n_samples, N * N))
    return X, np.array([space.decode(scores).vertex.dense(N * N) for scores in noisy])


def test_loss(theta: Floats, X: Floats, Y: Floats) -> float:
    """Share of rows matched otherwise than observed."""
    space = SlowAssignment()
    right = [space.decode(x @ theta).vertex.dot(y) for x, y in zip(X, Y, strict=True)]
    return 1.0 - float(np.mean(right)) / N


def perturbed_fenchel_young(
    X: Floats, Y: Floats, sigma: float, rate: float, draws: int, calls: int
) -> Floats:
    """theta after some MAP calls: Adam, a sample at a time."""
    rng, space = np.random.default_rng(0), SlowAssignment()
    theta, first, second = np.zeros(K), np.zeros(K), np.zeros(K)
    for t in range(1, calls // draws + 1):
        m = rng.integers(len(X))
        mean = np.zeros(N * N)
        for _ in range(draws):
            noisy = X[m] @ theta + sigma * rng.normal(size=N * N)
            mean += space.decode(noisy).vertex.dense(N * N) / draws
        gradient = X[m].T @ (mean - Y[m])
        first += 0.1 * (gradient - first)
        second += 0.001 * (gradient**2 - second)
        theta -= rate * first / (1 - 0.9**t) / (np.sqrt(second / (1 - 0.999**t)) + 1e-8)
    return theta


def check_pyepo(draws: int = 400, sigma: float = 1.0) -> float:
    """The largest difference between PyEPO's own gradient in the scores and the one used here.

    Both are means over random draws, so that differences of a few times 1/2 draws^(-1/2) remain.
    """
    import torch
    from pyepo import EPO
    from pyepo.func import perturbedFenchelYoung
    from pyepo.model.opt import optModel

    space, rng = SlowAssignment(), np.random.default_rng(0)

    class Assignment(optModel):
        def __init__(self) -> None:
            self.modelSense = EPO.MAXIMIZE
            super().__init__()

        def _getModel(self) -> Any:  # noqa: N802
            return None, list(range(N * N))

        def setObj(self, c: Any) -> None:  # noqa: N802
            self.scores = np.asarray(c, dtype=np.float64)

        def solve(self) -> tuple[Floats, float]:
            found = space.decode(self.scores)
            return found.vertex.dense(N * N), found.score

    scores = rng.normal(size=N * N)
    observed = space.decode(rng.normal(size=N * N)).vertex.dense(N * N)
    loss = perturbedFenchelYoung(
        Assignment(), n_samples=draws, sigma=sigma, processes=1, reduction="sum"
    )
    leaf = torch.tensor(scores[None], dtype=torch.float32, requires_grad=True)
    loss(leaf, torch.tensor(observed[None], dtype=torch.float32)).backward()
    mean = np.zeros(N * N)
    for _ in range(10 * draws):
        noisy = scores + sigma * rng.normal(size=N * N)
        mean += space.decode(noisy).vertex.dense(N * N) / (10 * draws)
    difference = float(np.abs(leaf.grad.numpy()[0] - (mean - observed)).max())
    print(f"gradient of PyEPO with {draws} draws: largest difference {difference:.3f}")
    return difference


def reached(history: History, level: float) -> tuple[int | None, float | None]:
    """Calls and seconds up to a relative gap."""
    for gap, dual, calls, seconds in zip(
        history.gap, history.dual, history.oracle_calls, history.seconds, strict=True
    ):
        if gap <= level * max(1.0, abs(dual)):
            return calls, seconds
    return None, None


def compare(
    n_samples: int, delay: float, max_time: float, settings: Sequence[Any] = SETTINGS
) -> dict[str, int]:
    """Show both tables; returns the MAP calls of each solver."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=K) / 2.0
    train, test = samples(n_samples, rng, truth), samples(200, rng, truth)
    space = SlowAssignment(delay)
    blocks = [
        Block(space, DenseFeatures(x), Vertex(np.flatnonzero(y), np.ones(N)))
        for x, y in zip(*train, strict=True)
    ]
    problem = DualProblem(blocks, 1.0)
    solvers = {
        "bcfw": (BlockFrankWolfe(), 1),
        "auto": (make_solver("auto", problem), 1),
        "auto, n_jobs=8": (make_solver("auto", problem), 8),
    }
    calls, rows = {}, []
    for name, (solver, n_jobs) in solvers.items():
        stopping = Stopping(tol=LEVELS[-1], max_iter=10**6, max_time=max_time)
        found = solver.solve(
            problem, stopping, random_state=np.random.default_rng(0), n_jobs=n_jobs
        )
        cells = [cell for level in LEVELS for cell in reached(found.history, level)]
        rows.append([name, *cells, test_loss(found.theta, *test)])
        calls[name] = found.oracle_calls
    show(
        f"{n_samples} assignments of {N} x {N}, {delay:g} s a MAP call: to a certified relative "
        f"gap, or \u2013 if not within {max_time:g} s",
        ["", *(f"{what} to {power(level)}" for level in LEVELS for what in ("MAP calls", "s")),
         "test loss"],
        rows,
    )  # fmt: skip
    rivals = [["the weights that drew the labels", None, None, test_loss(truth, *test), None]]
    for allowed in (calls["auto"], 10 * calls["auto"]):
        losses = {
            setting: test_loss(perturbed_fenchel_young(*train, *setting, allowed), *test)
            for setting in settings
        }
        values = list(losses.values())
        rivals.append(["perturbed Fenchel-Young loss", allowed, delay * allowed, min(values),
                       float(np.median(values))])  # fmt: skip
    show(
        f"Test losses beside it; best and median of {len(settings)} settings, judged by the test "
        "loss itself",
        ["", "MAP calls", "s of them", "test loss", "median setting"],
        rivals,
    )
    return calls


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Benchmarks of learning with slow decoders")
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--delay", type=float, default=0.05, help="seconds added to a MAP call")
    parser.add_argument("--max-time", type=float, default=90.0, help="seconds of a solver")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--check-pyepo", action="store_true", help="compare gradients and stop")
    options = parser.parse_args(arguments)
    if options.check_pyepo:
        return int(check_pyepo() > 0.1)
    if options.quick:
        options.samples, options.delay, options.max_time = 3, 0.001, 2.0
    settings = SETTINGS[:2] if options.quick else SETTINGS
    compare(options.samples, options.delay, options.max_time, settings)
    return 0


if __name__ == "__main__":
    sys.exit(main())
