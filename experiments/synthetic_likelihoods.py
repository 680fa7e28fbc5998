"""Synthetic matchings: how good approximate estimates are, and bounds of the likelihood (figure 1).

Matchings of 10 and 10 are drawn exactly from weights that are 0 on the diagonal and -2 (high
signal-to-noise ratio) or -0.5 (low) elsewhere. One weight per pair is learned from them, with
alpha = 1 on the summed log-likelihood (the paper does not tell its own), by

    exact   the likelihood itself, whose log Z and gradient are counted
    Bethe   rho = 1, log Z_B <= log Z, so the Bethe likelihood is an upper bound
    RW      rho = 1/2, log Z_RW >= log Z, so the reweighted likelihood is a lower bound

All numbers are regularised log-likelihoods divided by the number of samples. Each one is an
interval that is certified: of an optimum by the duality gap, of an approximate likelihood at given
weights by the gap of its log-partition function. An inequality is *proven* if the intervals leave
no doubt, has *failed* if they contradict it, and is *open* if they overlap.

    python -m experiments.synthetic_likelihoods --out DIR
    python -m experiments.synthetic_likelihoods --quick
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.reporting import show_progress, verdict, writable_folder, write_csv
from mlestruct import BipartiteMatchingCRF
from mlestruct.baselines import ExactBipartiteMLE
from mlestruct.inference import marginals, sample
from mlestruct.structures import BipartiteMatching

SIDE = 10
REGIMES = {"high SNR": -2.0, "low SNR": -0.5}  # weight of the pairs off the diagonal
SIZES = (10, 20, 50, 100, 200, 500, 1000)
SEEDS = 5
TOL = 1e-8  # relative duality gap of the estimates
INFERENCE_TOL = 1e-9  # gap of log Z_rho at given weights
ROUNDING = 1e-10  # per sample, in sums of this size
ALIKE = 0.01  # of the log-likelihood: estimates this close are called about the same

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
    values: dict[str, Interval]

    @property
    def checks(self) -> dict[str, str]:
        """Every inequality and what became of it."""
        return {
            f"{low} <= {high}": self.values[low].compare(self.values[high])
            for low, high in INEQUALITIES
        }


@dataclass(frozen=True)
class Likelihoods:
    """What `run` finds: a point per regime, number of samples and seed."""

    sizes: list[int]
    seeds: int
    alpha: float
    points: list[Point]

    def table(self, regime: str, name: str) -> np.ndarray:
        """Values of shape (n_seeds, n_sizes)."""
        found = {(p.seed, p.n_samples): p.values[name].value for p in self.points
                 if p.regime == regime}  # fmt: skip
        return np.array([[found[seed, n] for n in self.sizes] for seed in range(self.seeds)])

    @property
    def counts(self) -> dict[str, int]:
        """How many inequalities are proven, open and failed."""
        found = [check for point in self.points for check in point.checks.values()]
        return {kind: found.count(kind) for kind in (PROVEN, OPEN, FAILED)}


# ---------------------------------------------------------------------- one set of samples
def true_weights(off_diagonal: float) -> np.ndarray:
    return off_diagonal * (1.0 - np.eye(SIDE))


def estimators(alpha: float, tol: float) -> dict[str, Any]:
    return {
        "RW": BipartiteMatchingCRF(alpha=alpha, rho=0.5, tol=tol),
        "exact": ExactBipartiteMLE(alpha=alpha, tol=tol),
        "Bethe": BipartiteMatchingCRF(alpha=alpha, rho=1.0, tol=tol),
    }


def likelihoods_at(theta: np.ndarray, matched: np.ndarray, n: int, alpha: float) -> dict[str, Any]:
    """The three regularised likelihoods per sample; `matched` counts the samples with each pair."""
    rest = (float(theta @ matched) - 0.5 * alpha * float(theta @ theta)) / n
    found = {}
    for kind, rho, method in (("RW", 0.5, "auto"), ("exact", 1.0, "exact"), ("Bethe", 1.0, "auto")):
        structure = BipartiteMatching((SIDE, SIDE), rho)
        answer = marginals(structure, theta, method, tol=INFERENCE_TOL)
        top = answer.log_partition + answer.gap
        found[kind] = Interval(rest - top, rest - answer.log_partition)
    return found


def one_point(regime: str, seed: int, Y: np.ndarray, alpha: float, tol: float) -> Point:
    """Fit all estimators and evaluate all likelihoods at all of them."""
    n = len(Y)
    features = np.eye(SIDE * SIDE).reshape(SIDE, SIDE, SIDE * SIDE)
    matched = np.bincount((np.arange(SIDE) * SIDE + Y).ravel(), minlength=SIDE**2).astype(float)
    values = {}
    for name, model in estimators(alpha, tol).items():
        model.fit([features] * n, list(Y))
        best = float(model.objective_)
        values[f"{name} optimum"] = Interval((best - model.duality_gap_) / n, best / n)
        for kind, interval in likelihoods_at(model.coef_, matched, n, alpha).items():
            values[f"{kind} at {name}"] = interval
    return Point(regime, n, seed, values)


def run(
    sizes: Sequence[int] = SIZES,
    seeds: int = SEEDS,
    alpha: float = 1.0,
    tol: float = TOL,
    progress: Callable[[str], Any] | None = None,
) -> Likelihoods:
    """All regimes, seeds and sizes; smaller sets of samples are the beginning of larger ones."""
    points = []
    for regime, off_diagonal in REGIMES.items():
        for seed in range(seeds):
            space = BipartiteMatching((SIDE, SIDE))
            weights = true_weights(off_diagonal)
            drawn = sample(space, weights, max(sizes), "exact", random_state=seed).labels
            points += [one_point(regime, seed, drawn[:n], alpha, tol) for n in sizes]
            if progress is not None:
                progress(f"{regime}: {seed + 1} of {seeds} repetitions")
    return Likelihoods(list(sizes), seeds, alpha, points)


# ---------------------------------------------------------------------- tables
def print_table(title: str, found: Likelihoods, columns: dict[str, np.ndarray]) -> None:
    """A line per number of samples: means over the repetitions."""
    print(f"\n{title}")
    print(f"  {'samples':>8}" + "".join(f"{head:>15}" for head in columns))
    for k, n in enumerate(found.sizes):
        cells = "".join(
            f"{values[:, k].mean():>15.{6 if head.startswith('exact -') else 4}f}"
            for head, values in columns.items()
        )
        print(f"  {n:>8}{cells}")


def print_tables(found: Likelihoods) -> None:
    print(f"regularised log-likelihoods per sample, means of {found.seeds} repetitions")
    for regime in REGIMES:
        exact, bethe, rw = (found.table(regime, f"exact at {k}") for k in ("exact", "Bethe", "RW"))
        print_table(
            f"{regime}: exact likelihood at the three estimates (fig. 1a,b)",
            found,
            {"at exact": exact, "at Bethe": bethe, "at RW": rw,
             "exact - Bethe": exact - bethe, "exact - RW": exact - rw},
        )  # fmt: skip
    for regime in REGIMES:
        print_table(
            f"{regime}: optimal values (fig. 1c,d)",
            found,
            {kind: found.table(regime, f"{kind} optimum") for kind in KINDS},
        )
    for regime in REGIMES:
        for at in ("Bethe", "RW"):
            print_table(
                f"{regime}: all likelihoods at the {at} estimate",
                found,
                {kind: found.table(regime, f"{kind} at {at}") for kind in KINDS},
            )


def largest_shortfall(found: Likelihoods, regime: str) -> dict[str, float]:
    """How far estimates are below the exact optimum at worst, as a share of it."""
    exact = found.table(regime, "exact at exact")
    return {
        kind: float(((exact - found.table(regime, f"exact at {kind}")) / np.abs(exact)).max())
        for kind in ("Bethe", "RW")
    }


def describe_shortfall(found: Likelihoods, regime: str) -> str:
    shares = largest_shortfall(found, regime)
    return ", ".join(f"{kind} at most {share:.3%} below" for kind, share in shares.items())


def verdicts(found: Likelihoods) -> dict[str, bool]:
    counts = found.counts
    total = sum(counts.values())
    print()
    for point in found.points:
        for inequality, state in point.checks.items():
            if state != PROVEN:
                at = f"{point.regime}, {point.n_samples} samples, seed {point.seed}"
                print(f"  {state}: {inequality} at {at}")
    widest = max(v.upper - v.lower for point in found.points for v in point.values.values())
    print(f"widest certified interval: {widest:.1e} per sample")
    held = {
        "sandwich": verdict(
            f"{total} inequalities checked, {counts[FAILED]} failed",
            counts[FAILED] == 0,
            f"{counts[PROVEN]} proven, {counts[OPEN]} open within their certificates",
        )
    }
    for regime in REGIMES:
        points = [p for p in found.points if p.regime == regime]
        pairs = [(p.values["exact at RW"], p.values["exact at Bethe"]) for p in points]
        above = [rw.compare(bethe) == PROVEN for rw, bethe in pairs]
        below = [f"{p.n_samples} samples, seed {p.seed}"
                 for p, yes in zip(points, above, strict=True) if not yes]  # fmt: skip
        held[f"Bethe above RW, {regime}"] = verdict(
            f"{regime}: exact likelihood of the Bethe estimate above that of the RW estimate",
            not below,
            f"{sum(above)} of {len(above)} points" + (f"; not at {', '.join(below)}" * bool(below)),
        )
    held["alike, low SNR"] = verdict(
        f"low SNR: all estimates within {ALIKE:.0%} of the exact optimum",
        max(largest_shortfall(found, "low SNR").values()) <= ALIKE,
        describe_shortfall(found, "low SNR"),
    )
    print(f"for comparison, high SNR: {describe_shortfall(found, 'high SNR')}")
    return held


# ---------------------------------------------------------------------- files
def write(found: Likelihoods, held: dict[str, bool], folder: Path) -> None:
    """Numbers and pictures."""
    from mlestruct.plotting.inference import plot_cross_bounds, plot_likelihoods

    names = list(found.points[0].values)
    head = ["regime", "samples", "seed"]
    head += [f"{name}, {end}" for name in names for end in ("lower", "upper")]
    rows = (
        [p.regime, p.n_samples, p.seed]
        + [end for name in names for end in (p.values[name].lower, p.values[name].upper)]
        for p in found.points
    )
    write_csv(folder / "synthetic_likelihoods.csv", head, rows)
    numbers = asdict(found) | {"checks": found.counts, "verdicts": held}
    (folder / "synthetic_likelihoods.json").write_text(json.dumps(numbers, indent=1))
    true = {r: {k: found.table(r, f"exact at {k}") for k in KINDS} for r in REGIMES}
    optima = {r: {k: found.table(r, f"{k} optimum") for k in KINDS} for r in REGIMES}
    figure = plot_likelihoods(found.sizes, true, optima)
    figure.savefig(folder / "synthetic_likelihoods.png", dpi=150)
    bounds = {
        r: {at: {k: found.table(r, f"{k} at {at}") for k in KINDS} for at in ("Bethe", "RW")}
        for r in REGIMES
    }
    figure = plot_cross_bounds(found.sizes, bounds)
    figure.savefig(folder / "cross_bounds.png", dpi=150)
    print(f"\npictures and numbers: {folder}")


def main(arguments: list[str] | None = None) -> dict[str, bool]:
    parser = argparse.ArgumentParser(description="Likelihoods of approximate estimates")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="repetitions")
    parser.add_argument("--alpha", type=float, default=1.0, help="regularisation")
    parser.add_argument("--quick", action="store_true", help="few samples, 2 repetitions")
    parser.add_argument("--out", default="results/synthetic_likelihoods", help="folder of results")
    options = parser.parse_args(arguments)
    if options.seeds < 1 or not options.alpha > 0.0:
        parser.error("--seeds: at least 1; --alpha: a positive number")
    folder = writable_folder(parser, options.out)
    sizes, seeds = ((10, 50), min(options.seeds, 2)) if options.quick else (SIZES, options.seeds)
    found = run(sizes, seeds, options.alpha, progress=show_progress)
    print_tables(found)
    held = verdicts(found)
    write(found, held, folder)
    return held


if __name__ == "__main__":
    main()
