"""Synthetic matchings: how good approximate estimates are, and bounds of the likelihood (figure 1).

Matchings of 10 and 10 are drawn exactly from weights that are 0 on the diagonal and -2 (high
signal-to-noise ratio) or -0.5 (low) elsewhere. One weight per pair is learned from them, with
alpha = 1 on the summed log-likelihood (the paper does not tell its own), by

    exact   the likelihood itself, whose log Z and gradient are counted
    Bethe   rho = 1, log Z_B <= log Z, so the Bethe likelihood is an upper bound
    RW      rho = 1/2, log Z_RW >= log Z, so the reweighted likelihood is a lower bound

All numbers are regularised log-likelihoods divided by the number of samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from .contract import Experiment, Outcome, Part, Picture, Setting, Table, Verdict
from .figures.inference import plot_cross_bounds, plot_likelihoods
from .likelihood_points import FAILED, KINDS, OPEN, PROVEN, Likelihoods, Point, draw, one_point

HIGH, LOW = "high SNR", "low SNR"
REGIMES = {HIGH: -2.0, LOW: -0.5}  # weight of the pairs off the diagonal
ALIKE = 0.01  # of the log-likelihood: estimates this close are called about the same
APPROXIMATE = ("Bethe", "RW")


class SyntheticLikelihoods(Experiment):
    name: ClassVar[str] = "synthetic"
    title: ClassVar[str] = "Likelihoods of approximate estimates, and bounds of the likelihood"
    place: ClassVar[str] = "figure 1 and the appendix's figure of bounds"

    def setting(self, quick: bool) -> Setting:
        return {
            "data": "generated: drawn exactly from the paper's weights",
            "side": 10,
            "regimes": REGIMES,
            "sizes": [10, 50, 200] if quick else [10, 20, 50, 100, 200, 500, 1000],
            "seeds": 3 if quick else 20,
            "alpha": 1.0,
            "tol": 1e-8,
        }

    def parts(self, setting: Setting) -> Sequence[Part]:
        return [
            Part(part_name(regime, seed), partial(fit_all, setting, regime, seed))
            for regime in setting["regimes"]
            for seed in range(setting["seeds"])
        ]

    def outcome(self, setting: Setting, found: Mapping[str, Any]) -> Outcome:
        likelihoods = collected(setting, found)
        regimes = list(setting["regimes"])
        return Outcome(
            summary(likelihoods),
            [*shown_tables(likelihoods, regimes), long_table(likelihoods)],
            pictures(likelihoods, regimes),
            verdicts=verdicts(likelihoods),
            numbers={
                "inequalities": likelihoods.counts,
                "widest certified interval": likelihoods.widest,
                "fits that did not converge": likelihoods.not_converged,
            },
        )


def part_name(regime: str, seed: int) -> str:
    return f"{regime}, seed {seed}"


def fit_all(setting: Setting, regime: str, seed: int) -> list[dict[str, Any]]:
    """All sizes; smaller sets of samples are the beginning of larger ones."""
    sizes = setting["sizes"]
    drawn = draw(setting["side"], setting["regimes"][regime], max(sizes), seed)
    return [
        one_point(regime, seed, drawn[:n], setting["alpha"], setting["tol"]).as_data()
        for n in sizes
    ]


def collected(setting: Setting, found: Mapping[str, Any]) -> Likelihoods:
    """The results of all parts together."""
    points = [
        Point.from_data(regime, seed, data)
        for regime in setting["regimes"]
        for seed in range(setting["seeds"])
        for data in found[part_name(regime, seed)]
    ]
    return Likelihoods(setting["sizes"], setting["seeds"], points)


# ---------------------------------------------------------------------- what was found
def summary(found: Likelihoods) -> list[str]:
    counts = found.counts
    total = sum(counts.values())
    worst = {regime: {k: found.shortfall(regime, k) for k in APPROXIMATE} for regime in REGIMES}
    return [
        f"Of {total} inequalities between reweighted, exact and Bethe likelihoods, "
        f"{counts[PROVEN]} are proven by certificates, {counts[OPEN]} are open and "
        f"{counts[FAILED]} failed; the widest certified interval is {found.widest:.1g} per sample.",
        f"With strong preferences ({HIGH}) the exact likelihood of the Bethe estimate is at most "
        f"{percent(worst[HIGH]['Bethe'])} below the optimum, that of the reweighted estimate up to "
        f"{percent(worst[HIGH]['RW'])}; with weak ones ({LOW}) {percent(worst[LOW]['Bethe'])} and "
        f"{percent(worst[LOW]['RW'])}.",
        f"{found.not_converged} of {len(KINDS) * len(found.points)} fits did not reach their "
        "tolerance.",
    ]


def verdicts(found: Likelihoods) -> list[Verdict]:
    return [
        sandwich(found),
        bethe_above_reweighted(found, HIGH),
        bethe_above_reweighted(found, LOW),
        alike(found, HIGH, ("Bethe",), "the Bethe estimate is nearly as good as the exact one"),
        alike(found, LOW, APPROXIMATE, "all estimates have about the same likelihood"),
    ]


def percent(share: float) -> str:
    return f"{100.0 * share:.2g} %"


def sandwich(found: Likelihoods) -> Verdict:
    counts = found.counts
    doubtful = [
        f"{state}: {inequality} at {point.place}"
        for point in found.points
        for inequality, state in point.checks.items()
        if state != PROVEN
    ]
    return Verdict(
        "RW <= exact <= Bethe, at the optima and at every estimate",
        counts[FAILED] == 0,
        f"{counts[PROVEN]} of {sum(counts.values())} inequalities proven"
        + "".join(f"; {one}" for one in doubtful),
    )


def bethe_above_reweighted(found: Likelihoods, regime: str) -> Verdict:
    points = found.of(regime)
    below = [
        point.place
        for point in points
        if point.values["exact at RW"].compare(point.values["exact at Bethe"]) != PROVEN
    ]
    return Verdict(
        f"{regime}: the Bethe estimate is better than the RW estimate",
        not below,
        f"exact likelihood proven higher at {len(points) - len(below)} of {len(points)} points"
        + (f"; not at {'; '.join(below)}" if below else ""),
    )


def alike(found: Likelihoods, regime: str, kinds: Sequence[str], claim: str) -> Verdict:
    shares = {kind: found.shortfall(regime, kind) for kind in kinds}
    return Verdict(
        f"{regime}: {claim}",
        max(shares.values()) <= ALIKE,
        ", ".join(f"{kind} at most {percent(share)} below" for kind, share in shares.items())
        + f" the exact optimum; {percent(ALIKE)} counts as alike",
    )


# ---------------------------------------------------------------------- tables
def mean_table(
    name: str, title: str, found: Likelihoods, columns: Mapping[str, np.ndarray]
) -> Table:
    """A row per number of samples: means over the repetitions."""
    means = [values.mean(axis=0) for values in columns.values()]
    rows = [[n, *(float(mean[k]) for mean in means)] for k, n in enumerate(found.sizes)]
    return Table(name, title, ["samples", *columns], rows)


def shown_tables(found: Likelihoods, regimes: Sequence[str]) -> list[Table]:
    tables = []
    for regime, panel in zip(regimes, "ab", strict=False):
        exact, bethe, rw = (found.table(regime, f"exact at {k}") for k in ("exact", "Bethe", "RW"))
        tables.append(
            mean_table(
                f"estimates, {regime}",
                f"{regime}: exact log-likelihood per sample of the three estimates (figure 1{panel}"
                f"), and how far two are below the best; means of {found.seeds} repetitions",
                found,
                {
                    "exact": exact,
                    "Bethe": bethe,
                    "RW": rw,
                    "exact - Bethe": exact - bethe,
                    "exact - RW": exact - rw,
                },
            )
        )
    for regime, panel in zip(regimes, "cd", strict=False):
        tables.append(
            mean_table(
                f"optima, {regime}",
                f"{regime}: optimal values of the three log-likelihoods (figure 1{panel})",
                found,
                {kind: found.table(regime, f"{kind} optimum") for kind in KINDS},
            )
        )
    return tables


def long_table(found: Likelihoods) -> Table:
    """All intervals."""
    names = list(found.points[0].values)
    head = ["regime", "samples", "seed"]
    head += [f"{name}, {end}" for name in names for end in ("lower", "upper")]
    rows = [
        [p.regime, p.n_samples, p.seed]
        + [end for name in names for end in (p.values[name].lower, p.values[name].upper)]
        for p in found.points
    ]
    return Table("intervals", "all certified intervals", head, rows, shown=False)


# ---------------------------------------------------------------------- pictures
def pictures(found: Likelihoods, regimes: Sequence[str]) -> list[Picture]:
    true = {r: {k: found.table(r, f"exact at {k}") for k in KINDS} for r in regimes}
    optima = {r: {k: found.table(r, f"{k} optimum") for k in KINDS} for r in regimes}
    bounds = {
        r: {at: {k: found.table(r, f"{k} at {at}") for k in KINDS} for at in APPROXIMATE}
        for r in regimes
    }
    return [
        Picture(
            "likelihoods",
            "What the estimates are worth by the exact likelihood (top), how far the approximate "
            "ones are below the best (middle), and the optimal values, between which the exact "
            "one lies (bottom).",
            plot_likelihoods(found.sizes, true, optima),
        ),
        Picture(
            "bounds",
            "The three likelihoods at the same weights: the exact one lies between the others.",
            plot_cross_bounds(found.sizes, bounds),
        ),
    ]
