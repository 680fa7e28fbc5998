"""Synthetic matchings: how good approximate estimates are, and bounds of the likelihood (figure 1).

Matchings of 10 and 10 are drawn exactly from weights that are 0 on the diagonal and -2 (high
signal-to-noise ratio) or -0.5 (low) elsewhere. One weight per pair is learned from them, with
alpha = 1 on the summed log-likelihood (the paper does not tell its own), by

    exact   the likelihood itself, whose log Z and gradient are counted
    Bethe   rho = 1, log Z_B <= log Z, so the Bethe likelihood is an upper bound
    RW      rho = 1/2, log Z_RW >= log Z, so the reweighted likelihood is a lower bound

All numbers are regularised log-likelihoods divided by the number of samples. Each is an interval:
of an optimum it is certified by the duality gap, of an approximate likelihood at given weights by
the gap of its log-partition function. An inequality is *proven* if every pair of points of the two
intervals agrees with it, has *failed* if none does, and is *open* otherwise.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from ..baselines import ExactMLE
from ..features import IdentityFeatures
from ..inference import marginals
from ..models import BipartiteMatchingCRF
from ..plotting.style import clean_axes, new_figure, plot_band
from ..structures import BipartiteMatching
from .algorithm_one import algorithms_table, same_optimum, solved_by_each
from .contract import Claim, Experiment, Outcome, Picture, Table
from .parts import Part, Setting, grid, part_name
from .theory import (
    convexity_claim,
    convexity_part,
    draw,
    speed_claim,
    speed_part,
    speed_table,
)

Floats = NDArray[np.float64]

HIGH, LOW = "high SNR", "low SNR"
KINDS = ("RW", "exact", "Bethe")  # from the lowest likelihood to the highest
INEQUALITIES = (
    ("RW optimum", "exact optimum"),
    ("exact optimum", "Bethe optimum"),
    *((f"RW at {at}", f"exact at {at}") for at in KINDS),
    *((f"exact at {at}", f"Bethe at {at}") for at in KINDS),
    ("exact at Bethe", "exact optimum"),
    ("exact at RW", "exact optimum"),
)
PROBLEM = f"{HIGH}, rho = 1"
ALIKE = 0.01  # of the log-likelihood: estimates this close are called about the same


class Synthetic(Experiment):
    name = "synthetic"
    title = "Likelihoods of approximate estimates, and bounds of the likelihood"
    place = "theorem 4.1, figure 1, the appendix's figure of bounds, appendix B"
    solvers = (
        "exact estimates by ExactMLE (L-BFGS, counted gradients); RW and Bethe estimates by auto "
        "(Newton over marginals), certified to 1e-8; Algorithm 1 solves one of the problems beside "
        "it (the table of algorithms), with the same optimum, and makes the table of passes."
    )

    def setting(self, quick: bool) -> Setting:
        return {
            "data": "generated: drawn exactly from the paper's weights",
            "side": 10,
            "regimes": {HIGH: -2.0, LOW: -0.5},  # weight of the pairs off the diagonal
            "sizes": [10, 50, 200] if quick else [10, 20, 50, 100, 200, 500, 1000],
            "seeds": 3 if quick else 20,
            "alpha": 1.0,
            "tol": 1e-8,
            "algorithms": {"samples": 100, "seconds": 2.0 if quick else 20.0},
            "convexity": {"nodes": 6, "segments": 200 if quick else 2000, "seed": 0},
            "speed": {
                "weights": [-0.5, -2.0] if quick else [-0.25, -0.5, -1.0, -2.0, -3.0],
                "samples": 50,
                "gap": 0.1 if quick else 0.03,
                "passes": 5000,
                "seed": 0,
            },
        }

    def parts(self, setting: Setting) -> Sequence[Part]:
        return [
            *grid(fit_all, setting, regime=setting["regimes"], seed=range(setting["seeds"])),
            Part("algorithms", partial(algorithms_part, setting)),
            Part("convexity", partial(convexity_part, setting)),
            Part("speed", partial(speed_part, setting)),
        ]

    def outcome(self, setting: Setting, found: Mapping[str, Any]) -> Outcome:
        results = Likelihoods(setting, found)
        return Outcome(
            [],
            [
                *tables(results),
                speed_table(setting, found["speed"]),
                algorithms_table(PROBLEM, found["algorithms"]),
            ],
            pictures(results),
            claims=[
                convexity_claim(found["convexity"]),
                *claims(results),
                speed_claim(found["speed"]),
                same_optimum(PROBLEM, found["algorithms"]),
            ],
        )


# ---------------------------------------------------------------------- one set of samples
def fit_all(setting: Setting, regime: str, seed: int) -> list[dict[str, Any]]:
    """All sizes; smaller sets of samples are the beginning of larger ones."""
    sizes = setting["sizes"]
    drawn = draw(setting["side"], setting["regimes"][regime], max(sizes), seed)
    return [one_point(drawn[:n], setting["alpha"], setting["tol"]) for n in sizes]


def one_point(Y: NDArray[np.int64], alpha: float, tol: float) -> dict[str, Any]:
    """Fit all estimators and evaluate all likelihoods at all of them.

    Returns
    -------
    dict with "samples", their number, "values", intervals named "RW optimum", ... and
    "RW at exact", ... (a likelihood and the estimate it is evaluated at), and "not_converged"
    """
    n, side = Y.shape
    features = IdentityFeatures((side, side))
    matched = np.bincount((np.arange(side) * side + Y).ravel(), minlength=side**2).astype(float)
    values: dict[str, list[float]] = {}
    missed = 0
    estimators = {
        "RW": BipartiteMatchingCRF(alpha=alpha, rho=0.5, tol=tol),
        "exact": ExactMLE(BipartiteMatchingCRF(alpha=alpha, tol=tol)),
        "Bethe": BipartiteMatchingCRF(alpha=alpha, rho=1.0, tol=tol),
    }
    for name, model in estimators.items():
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            model.fit([features] * n, list(Y))
        missed += not model.converged_
        best = float(model.objective_)
        values[f"{name} optimum"] = [(best - model.duality_gap_) / n, best / n]
        for kind, ends in likelihoods_at(model.coef_, matched, n, alpha).items():
            values[f"{kind} at {name}"] = ends
    return {"samples": n, "values": values, "not_converged": missed}


def likelihoods_at(theta: Floats, matched: Floats, n: int, alpha: float) -> dict[str, list[float]]:
    """The three regularised likelihoods per sample; `matched` counts the samples with each pair."""
    side = round(len(theta) ** 0.5)
    rest = (float(theta @ matched) - 0.5 * alpha * float(theta @ theta)) / n
    found = {}
    for kind, rho, method in (("RW", 0.5, "auto"), ("exact", 1.0, "exact"), ("Bethe", 1.0, "auto")):
        structure = BipartiteMatching((side, side), rho)
        answer = marginals(structure, theta, method, tol=1e-9)
        top = answer.log_partition + answer.gap
        found[kind] = [rest - top, rest - answer.log_partition]
    return found


def algorithms_part(setting: Setting) -> dict[str, Any]:
    """Algorithm 1 beside auto on samples of the high regime."""
    own, side = setting["algorithms"], setting["side"]
    Y = list(draw(side, setting["regimes"][HIGH], own["samples"], 0))
    model = BipartiteMatchingCRF(alpha=setting["alpha"], rho=1.0, tol=1e-6)
    # A copy for each sample: samples that share their features would be one block.
    X = [IdentityFeatures((side, side)) for _ in Y]
    return solved_by_each(model, X, Y, own["seconds"])


# ---------------------------------------------------------------------- all of them
class Likelihoods:
    """Intervals by name, arrays of shape (n_regimes, n_seeds, n_sizes, 2)."""

    def __init__(self, setting: Setting, found: Mapping[str, Any]):
        self.sizes, self.seeds = setting["sizes"], setting["seeds"]
        self.regimes = list(setting["regimes"])
        points = [
            [found[part_name(regime=regime, seed=seed)] for seed in range(self.seeds)]
            for regime in self.regimes
        ]
        self.ends = {
            name: np.array([[[p["values"][name] for p in part] for part in row] for row in points])
            for name in points[0][0][0]["values"]
        }
        self.not_converged = sum(p["not_converged"] for row in points for part in row for p in part)

    def compared(self, low: str, high: str) -> NDArray[np.str_]:
        """Of every point whether low <= high is proven; likelihoods are rounded to about 1e-10."""
        one, other = self.ends[low], self.ends[high]
        possible = one[..., 0] <= other[..., 1] + 1e-10
        proven = one[..., 1] <= other[..., 0]
        return np.where(proven, "proven", np.where(possible, "open", "failed"))

    def counts(self) -> dict[str, int]:
        """How many inequalities are proven, open and failed."""
        found = np.array([self.compared(low, high) for low, high in INEQUALITIES])
        return {state: int((found == state).sum()) for state in ("proven", "open", "failed")}

    def table(self, regime: str, name: str) -> Floats:
        """Values of shape (n_seeds, n_sizes)."""
        return np.asarray(self.ends[name][self.regimes.index(regime)].mean(axis=-1))

    def shortfall(self, regime: str, kind: str) -> float:
        """How far an estimate is below the exact optimum at worst, as a share of it."""
        exact = self.table(regime, "exact at exact")
        return float(((exact - self.table(regime, f"exact at {kind}")) / np.abs(exact)).max())

    @property
    def widest(self) -> float:
        """The widest interval."""
        return float(max(np.ptp(ends, axis=-1).max() for ends in self.ends.values()))


def claims(results: Likelihoods) -> list[Claim]:
    counts = results.counts()
    above = results.compared("exact at RW", "exact at Bethe") == "proven"
    narrow = {
        f"{regime}, {kind}": results.shortfall(regime, kind)
        for regime, kind in ((HIGH, "Bethe"), (LOW, "Bethe"), (LOW, "RW"), (HIGH, "RW"))
    }
    told = "; ".join(f"{name} {100 * share:.2g} %" for name, share in narrow.items())
    alike = f"at most below the exact optimum: {told}; {ALIKE:.0%} counts as alike"
    low = max(narrow[f"{LOW}, {kind}"] for kind in ("Bethe", "RW"))
    return [
        Claim(
            "The dual has the optimum of the saddle point problem (Sion): the least L(tau) is the "
            "largest approximate likelihood",
            results.not_converged == 0,
            f"{results.not_converged} fits without a certificate; per sample the two differ by "
            f"{results.widest:.1g} at most",
        ),
        Claim(
            "The Bethe estimator is superior to the RW estimator, at high and at low SNR",
            bool(above.all()),
            f"exact likelihood proven higher at {above.sum()} of {above.size} points",
        ),
        Claim(
            "High SNR: the data are nearly as probable under the Bethe estimate as under the exact "
            "MLE",
            narrow[f"{HIGH}, Bethe"] <= ALIKE,
            alike,
        ),
        Claim("Low SNR: all estimates have about the same likelihood", low <= ALIKE, alike),
        Claim(
            "RW <= exact <= Bethe: the likelihood is bounded, at the optima and at every estimate",
            counts["failed"] == 0 and counts["open"] == 0,
            f"{counts['proven']} of {sum(counts.values())} inequalities proven by certificates",
        ),
    ]


# ---------------------------------------------------------------------- tables
def tables(results: Likelihoods) -> list[Table]:
    """A row per number of samples: means over the repetitions."""

    def means(name: str, title: str, columns: Mapping[str, Floats]) -> Table:
        averages = {head: table.mean(axis=0) for head, table in columns.items()}
        return Table.of(name, title, {"samples": results.sizes, **averages})

    found = []
    for regime, panels in zip(results.regimes, ("ac", "bd"), strict=True):
        at = {kind: results.table(regime, f"exact at {kind}") for kind in ("exact", "Bethe", "RW")}
        best = {f"{kind} optimum": results.table(regime, f"{kind} optimum") for kind in KINDS}
        title = (
            f"{regime}: exact log-likelihood per sample of the three estimates (figure "
            f"1{panels[0]}), and optimal values of the three likelihoods (figure 1{panels[1]}); "
            f"means of {results.seeds} repetitions"
        )
        found.append(means(f"likelihoods, {regime}", title, at | best))
    return found


# ---------------------------------------------------------------------- pictures
LIKELIHOODS = {"Bethe": 0, "exact": 2, "RW": 1}  # and their colours


def pictures(results: Likelihoods) -> list[Picture]:
    return [
        Picture(
            "likelihoods",
            "Exact likelihood of the estimates (top), and the optimal values, between which the "
            "exact one lies (bottom).",
            likelihood_figure(results),
        ),
        Picture(
            "bounds",
            "The three likelihoods at the same weights: the exact one lies between the others.",
            bounds_figure(results),
        ),
    ]


def likelihood_figure(results: Likelihoods) -> Any:
    figure = new_figure(11.0, 7.4)
    grid = figure.subplots(2, len(results.regimes), squeeze=False, sharex=True)
    for k, regime in enumerate(results.regimes):
        top, bottom = grid[:, k]
        for kind, colour in LIKELIHOODS.items():
            values = results.table(regime, f"exact at {kind}")
            plot_band(top, results.sizes, values, f"at the {kind} estimate", colour)
        optima = {kind: results.table(regime, f"{kind} optimum") for kind in KINDS}
        _plot_sandwich(bottom, results.sizes, optima, "optimum")
        clean_axes(top, f"({'ab'[k]}) {regime}: exact likelihood of the estimates")
        clean_axes(bottom, f"({'cd'[k]}) {regime}: optimal values")
    _finish(grid, results.sizes, grid.ravel())
    return figure


def bounds_figure(results: Likelihoods) -> Any:
    """A panel per regime (row) and estimate (column)."""
    figure = new_figure(11.0, 7.4)
    grid = figure.subplots(len(results.regimes), 2, squeeze=False, sharex=True, sharey="row")
    for row, regime in zip(grid, results.regimes, strict=True):
        for axes, at in zip(row, ("Bethe", "RW"), strict=True):
            curves = {kind: results.table(regime, f"{kind} at {at}") for kind in KINDS}
            _plot_sandwich(axes, results.sizes, curves, "likelihood")
            clean_axes(axes, f"{regime}, at the {at} estimate")
    _finish(grid, results.sizes, grid[0, :1])
    return figure


def _plot_sandwich(
    axes: Any, sizes: Sequence[int], curves: Mapping[str, ArrayLike], what: str
) -> None:
    low, high = (np.asarray(curves[kind]).mean(axis=0) for kind in ("RW", "Bethe"))
    axes.fill_between(sizes, low, high, color="#000000", alpha=0.05, linewidth=0.0)
    for kind, colour in LIKELIHOODS.items():
        plot_band(axes, sizes, curves[kind], f"{kind} {what}", colour)


def _finish(grid: Any, sizes: Sequence[int], with_legend: Any) -> None:
    for axes in grid.ravel():
        axes.set_xscale("log")
        axes.set_xticks(list(sizes), [str(n) for n in sizes])
        axes.minorticks_off()
    for axes in grid[:, 0]:
        axes.set_ylabel("log-likelihood per sample")
    for axes in grid[-1]:
        axes.set_xlabel("samples (lines: means, bands: range of repetitions)")
    for axes in with_legend:
        axes.legend(frameon=False, fontsize=9, loc="best")
