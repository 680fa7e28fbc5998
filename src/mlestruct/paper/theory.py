"""What the paper proves or observes of its method as such, put to the test on small problems.

Convexity (theorem 4.1): the reweighted entropy at random points of the local polytope and random
rho in [0, 1]^V. Speed and entropy (appendix B): passes of Algorithm 1 to a certified gap, on
samples of matchings that are drawn from sharper and sharper weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from ..features import IdentityFeatures
from ..inference import marginals, sample
from ..learning import BlockFrankWolfe
from ..learning.result import Progress, Stopping
from ..models import BipartiteMatchingCRF
from ..structures import BipartiteMatching
from .contract import Claim, Table
from .parts import Setting

Floats = NDArray[np.float64]


def draw(side: int, off_diagonal: float, n_samples: int, seed: int) -> NDArray[np.int64]:
    """Matchings from weights that are 0 on the diagonal, shape (n_samples, side)."""
    weights = off_diagonal * (1.0 - np.eye(side))
    drawn = sample(BipartiteMatching((side, side)), weights, n_samples, "exact", random_state=seed)
    return np.asarray(drawn.labels)


def convexity_part(setting: Setting) -> dict[str, Any]:
    """How often the entropy at a midpoint is below the mean of the ends, over random segments.

    Graphs of one group, of which those of two sides are a part. Segments of all lengths: long
    ones are weak tests where curvature varies.
    """
    own, rng = setting["convexity"], np.random.default_rng(setting["convexity"]["seed"])
    margins = []
    for trial in range(own["segments"]):
        rho = rng.random(own["nodes"])
        one, other = (random_point(rng, own["nodes"], bool(trial % 2)) for _ in range(2))
        other = one + 10.0 ** -rng.uniform(0.0, 3.0) * (other - one)
        low, high = entropy(one, rho), entropy(other, rho)
        margins.append(entropy(0.5 * (one + other), rho) - 0.5 * (low + high))
    failed = sum(margin < -1e-12 for margin in margins)
    return {"segments": len(margins), "failed": failed, "least": min(margins)}


def random_point(rng: np.random.Generator, n_nodes: int, perfect: bool) -> Floats:
    """A symmetric table of marginals of a random graph, with row sums of 1, or less."""
    ring = np.roll(np.eye(n_nodes), 1, axis=1)  # so that every node has a partner
    table = np.triu(rng.random((n_nodes, n_nodes)) ** rng.integers(1, 8), 1)
    table[rng.random(table.shape) < 0.3] = 0.0
    table = table + table.T + 0.01 * (ring + ring.T)
    for _ in range(300):
        sums = table.sum(axis=1)
        table = table / np.sqrt(np.outer(sums, sums))
    table /= table.sum(axis=1).max()
    return table if perfect else rng.random() * table


def entropy(tau: Floats, rho: Floats) -> float:
    """H_rho of matchings; nodes whose marginals sum to 1 are never single."""
    weights = np.add.outer(rho, rho) - 1.0
    single = np.maximum(1.0 - tau.sum(axis=1), 0.0)
    pairs = xlogy(weights * (1.0 - tau), 1.0 - tau) - xlogy(tau, tau)
    return float(0.5 * pairs.sum() - rho @ xlogy(single, single))


def convexity_claim(found: Mapping[str, Any]) -> Claim:
    return Claim(
        "Theorem 4.1: for any rho in [0, 1]^V, any graph and perfect or imperfect matchings, the "
        "reweighted free energy is convex over the local polytope",
        found["failed"] == 0,
        f"{found['failed']} of {found['segments']} random segments against it; the entropy at a "
        f"midpoint is at least {found['least']:.1g} above the mean of the ends",
    )


def speed_part(setting: Setting) -> list[dict[str, float]]:
    """Passes of Algorithm 1 to a certified gap per sample, by the weight off the diagonal."""
    own, side, rows = setting["speed"], setting["side"], []
    for weight in own["weights"]:
        Y = list(draw(side, weight, own["samples"], own["seed"]))
        X = [IdentityFeatures((side, side))] * len(Y)
        best = BipartiteMatchingCRF(alpha=setting["alpha"], rho=1.0, tol=1e-6).fit(X, Y)
        problem = best.build_problem(X, Y, separate=True)
        stopping = Stopping(0.0, own["passes"], callback=partial(_within, own["gap"] * len(Y)))
        rng = np.random.default_rng(own["seed"])
        found = BlockFrankWolfe.paper().solve(problem, stopping, None, rng)
        structure = BipartiteMatching((side, side), 1.0)
        tau = marginals(structure, best.coef_).tau
        rows.append(
            {
                "weight": weight,
                "entropy": structure.entropy(tau),
                "passes": found.iterations,
                "gap": found.gap / len(Y),
            }
        )
    return rows


def _within(gap: float, progress: Progress) -> bool:
    return progress.gap <= gap


def speed_table(setting: Setting, rows: Sequence[Mapping[str, float]]) -> Table:
    return Table.of(
        "speed",
        f"Passes of Algorithm 1 to a certified gap of {setting['speed']['gap']:g} per sample "
        f"({setting['speed']['samples']} samples, rho = 1), by the entropy of the optimum",
        {
            "weight off the diagonal": [row["weight"] for row in rows],
            "entropy": [row["entropy"] for row in rows],
            "passes": [row["passes"] for row in rows],
            "gap": [row["gap"] for row in rows],
        },
    )


def speed_claim(rows: Sequence[Mapping[str, float]]) -> Claim:
    ordered = sorted(rows, key=lambda row: row["entropy"])
    passes = [row["passes"] for row in ordered]
    return Claim(
        "Frank-Wolfe converges faster when the true pseudomarginals have higher entropy",
        passes[0] > passes[-1] and passes == sorted(passes, reverse=True),
        ", ".join(
            f"{row['passes']} passes at an entropy of {row['entropy']:.3g}" for row in ordered
        ),
    )
