"""Likelihoods of estimates from the same matchings, each an interval that is certified.

Of an optimum the interval is certified by the duality gap, of an approximate likelihood at given
weights by the gap of its log-partition function. An inequality is *proven* if the intervals leave
no doubt, has *failed* if they contradict it, and is *open* if they overlap.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from ..baselines import ExactBipartiteMLE
from ..inference import marginals, sample
from ..models import BipartiteMatchingCRF
from ..structures import BipartiteMatching

Floats = NDArray[np.float64]

INFERENCE_TOL = 1e-9  # gap of log Z_rho at given weights
ROUNDING = 1e-10  # per sample, in sums of this size

KINDS = ("RW", "exact", "Bethe")  # from the lowest likelihood to the highest
INEQUALITIES = (
    ("RW optimum", "exact optimum"),
    ("exact optimum", "Bethe optimum"),
    *((f"RW at {at}", f"exact at {at}") for at in KINDS),
    *((f"exact at {at}", f"Bethe at {at}") for at in KINDS),
    ("exact at Bethe", "exact optimum"),
    ("exact at RW", "exact optimum"),
)
PROVEN, OPEN, FAILED = "proven", "open", "failed"


@dataclass(frozen=True)
class Interval:
    """Where a log-likelihood per sample provably lies."""

    lower: float
    upper: float

    @property
    def value(self) -> float:
        return 0.5 * (self.lower + self.upper)

    def compare(self, other: Interval) -> str:
        """Whether this is at most `other`."""
        if self.upper <= other.lower:
            return PROVEN
        return OPEN if self.lower <= other.upper + ROUNDING else FAILED


@dataclass(frozen=True)
class Point:
    """All likelihoods of one set of samples.

    `values` are named "RW optimum", ... and "RW at exact", ...: a likelihood and the estimate it
    is evaluated at.
    """

    regime: str
    n_samples: int
    seed: int
    values: Mapping[str, Interval]
    not_converged: int = 0

    @property
    def checks(self) -> dict[str, str]:
        """Every inequality and what became of it."""
        return {
            f"{low} <= {high}": self.values[low].compare(self.values[high])
            for low, high in INEQUALITIES
        }

    @property
    def place(self) -> str:
        return f"{self.regime}, {self.n_samples} samples, seed {self.seed}"

    def as_data(self) -> dict[str, Any]:
        ends = {name: [interval.lower, interval.upper] for name, interval in self.values.items()}
        return {"samples": self.n_samples, "values": ends, "not_converged": self.not_converged}

    @classmethod
    def from_data(cls, regime: str, seed: int, data: Mapping[str, Any]) -> Point:
        values = {name: Interval(*ends) for name, ends in data["values"].items()}
        return cls(regime, data["samples"], seed, values, data["not_converged"])


@dataclass(frozen=True)
class Likelihoods:
    """A point per regime, number of samples and seed."""

    sizes: Sequence[int]
    seeds: int
    points: Sequence[Point]

    def of(self, regime: str) -> list[Point]:
        return [point for point in self.points if point.regime == regime]

    def table(self, regime: str, name: str) -> Floats:
        """Values of shape (n_seeds, n_sizes)."""
        found = {(p.seed, p.n_samples): p.values[name].value for p in self.of(regime)}
        return np.array([[found[seed, n] for n in self.sizes] for seed in range(self.seeds)])

    def shortfall(self, regime: str, kind: str) -> float:
        """How far an estimate is below the exact optimum at worst, as a share of it."""
        exact = self.table(regime, "exact at exact")
        return float(((exact - self.table(regime, f"exact at {kind}")) / np.abs(exact)).max())

    @property
    def counts(self) -> dict[str, int]:
        """How many inequalities are proven, open and failed."""
        found = [check for point in self.points for check in point.checks.values()]
        return {kind: found.count(kind) for kind in (PROVEN, OPEN, FAILED)}

    @property
    def not_converged(self) -> int:
        """How many fits did not reach their tolerance."""
        return sum(point.not_converged for point in self.points)

    @property
    def widest(self) -> float:
        """The widest interval."""
        return max(v.upper - v.lower for point in self.points for v in point.values.values())


def draw(side: int, off_diagonal: float, n_samples: int, seed: int) -> NDArray[np.int64]:
    """Matchings from weights that are 0 on the diagonal, shape (n_samples, side)."""
    weights = off_diagonal * (1.0 - np.eye(side))
    drawn = sample(BipartiteMatching((side, side)), weights, n_samples, "exact", random_state=seed)
    return np.asarray(drawn.labels)


def estimators(alpha: float, tol: float) -> dict[str, Any]:
    return {
        "RW": BipartiteMatchingCRF(alpha=alpha, rho=0.5, tol=tol),
        "exact": ExactBipartiteMLE(alpha=alpha, tol=tol),
        "Bethe": BipartiteMatchingCRF(alpha=alpha, rho=1.0, tol=tol),
    }


def likelihoods_at(theta: Floats, matched: Floats, n: int, alpha: float) -> dict[str, Interval]:
    """The three regularised likelihoods per sample; `matched` counts the samples with each pair."""
    side = round(len(theta) ** 0.5)
    rest = (float(theta @ matched) - 0.5 * alpha * float(theta @ theta)) / n
    found = {}
    for kind, rho, method in (("RW", 0.5, "auto"), ("exact", 1.0, "exact"), ("Bethe", 1.0, "auto")):
        structure = BipartiteMatching((side, side), rho)
        answer = marginals(structure, theta, method, tol=INFERENCE_TOL)
        top = answer.log_partition + answer.gap
        found[kind] = Interval(rest - top, rest - answer.log_partition)
    return found


def one_point(regime: str, seed: int, Y: NDArray[np.int64], alpha: float, tol: float) -> Point:
    """Fit all estimators and evaluate all likelihoods at all of them."""
    n, side = Y.shape
    features = np.eye(side * side).reshape(side, side, side * side)
    matched = np.bincount((np.arange(side) * side + Y).ravel(), minlength=side**2).astype(float)
    values = {}
    missed = 0
    for name, model in estimators(alpha, tol).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # it is counted
            model.fit([features] * n, list(Y))
        missed += not model.converged_
        best = float(model.objective_)
        values[f"{name} optimum"] = Interval((best - model.duality_gap_) / n, best / n)
        for kind, interval in likelihoods_at(model.coef_, matched, n, alpha).items():
            values[f"{kind} at {name}"] = interval
    return Point(regime, n, seed, values, missed)
