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
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from ..baselines import ExactMLE
from ..inference import marginals, sample
from ..models import BipartiteMatchingCRF
from ..plotting.style import clean_axes, new_figure, plot_band
from ..structures import BipartiteMatching
from .contract import Claim, Experiment, Outcome, Picture, Table
from .parts import Part, Setting, grid, part_name

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
ALIKE = 0.01  # of the log-likelihood: estimates this close are called about the same


class Synthetic(Experiment):
    name = "synthetic"
    title = "Likelihoods of approximate estimates, and bounds of the likelihood"
    place = "figure 1 and the appendix's figure of bounds"

    def setting(self, quick: bool) -> Setting:
        return {
            "data": "generated: drawn exactly from the paper's weights",
            "side": 10,
            "regimes": {HIGH: -2.0, LOW: -0.5},  # weight of the pairs off the diagonal
            "sizes": [10, 50, 200] if quick else [10, 20, 50, 100, 200, 500, 1000],
            "seeds": 3 if quick else 20,
            "alpha": 1.0,
            "tol": 1e-8,
        }

    def parts(self, setting: Setting) -> Sequence[Part]:
        return grid(fit_all, setting, regime=setting["regimes"], seed=range(setting["seeds"]))

    def outcome(self, setting: Setting, found: Mapping[str, Any]) -> Outcome:
        results = Likelihoods(setting, found)
        counts, widest = results.counts(), results.widest
        return Outcome(
            [
                f"Of {sum(counts.values())} inequalities between reweighted, exact and Bethe "
                f"likelihoods, {counts['proven']} are proven by certificates, {counts['open']} are "
                f"open and {counts['failed']} failed; the widest certified interval is "
                f"{widest:.1g} per sample.",
            ],
            tables(results),
            pictures(results),
            claims=claims(results),
            numbers={
                "inequalities": counts,
                "widest certified interval": widest,
                "fits that did not converge": results.not_converged,
            },
        )


# ---------------------------------------------------------------------- one set of samples
def fit_all(setting: Setting, regime: str, seed: int) -> list[dict[str, Any]]:
    """All sizes; smaller sets of samples are the beginning of larger ones."""
    sizes = setting["sizes"]
    drawn = draw(setting["side"], setting["regimes"][regime], max(sizes), seed)
    return [one_point(drawn[:n], setting["alpha"], setting["tol"]) for n in sizes]


def draw(side: int, off_diagonal: float, n_samples: int, seed: int) -> NDArray[np.int64]:
    """Matchings from weights that are 0 on the diagonal, shape (n_samples, side)."""
    weights = off_diagonal * (1.0 - np.eye(side))
    drawn = sample(BipartiteMatching((side, side)), weights, n_samples, "exact", random_state=seed)
    return np.asarray(drawn.labels)


def one_point(Y: NDArray[np.int64], alpha: float, tol: float) -> dict[str, Any]:
    """Fit all estimators and evaluate all likelihoods at all of them.

    Returns
    -------
    dict with "samples", their number, "values", intervals named "RW optimum", ... and
    "RW at exact", ... (a likelihood and the estimate it is evaluated at), and "not_converged"
    """
    n, side = Y.shape
    features = np.eye(side * side).reshape(side, side, side * side)
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
    found = [
        Claim(
            "RW <= exact <= Bethe, at the optima and at every estimate",
            counts["failed"] == 0,
            f"{counts['proven']} of {sum(counts.values())} inequalities proven, "
            f"{counts['failed']} failed",
        ),
        *(
            Claim(
                f"{regime}: the Bethe estimate is better than the RW estimate",
                bool(points.all()),
                f"exact likelihood proven higher at {points.sum()} of {points.size} points",
            )
            for regime, points in zip(results.regimes, above, strict=True)
        ),
    ]
    for regime, kinds, text in (
        (HIGH, ("Bethe",), "the Bethe estimate is nearly as good as the exact one"),
        (LOW, ("Bethe", "RW"), "all estimates have about the same likelihood"),
    ):
        shares = {kind: results.shortfall(regime, kind) for kind in kinds}
        told = ", ".join(f"{kind} {100 * share:.2g} %" for kind, share in shares.items())
        measured = f"at most below the exact optimum: {told}; {ALIKE:.0%} counts as alike"
        found.append(Claim(f"{regime}: {text}", max(shares.values()) <= ALIKE, measured))
    return found


# ---------------------------------------------------------------------- tables
def tables(results: Likelihoods) -> list[Table]:
    """A row per number of samples: means over the repetitions."""

    def means(name: str, title: str, columns: Mapping[str, Floats]) -> Table:
        averages = {head: table.mean(axis=0) for head, table in columns.items()}
        return Table.of(name, title, {"samples": results.sizes, **averages})

    estimates, optima = [], []
    for regime, panels in zip(results.regimes, ("ac", "bd"), strict=True):
        at = {kind: results.table(regime, f"exact at {kind}") for kind in ("exact", "Bethe", "RW")}
        below = {f"exact - {kind}": at["exact"] - at[kind] for kind in ("Bethe", "RW")}
        estimates.append(
            means(
                f"estimates, {regime}",
                f"{regime}: exact log-likelihood per sample of the three estimates (figure "
                f"1{panels[0]}), and how far two are below the best; means of {results.seeds} "
                "repetitions",
                at | below,
            )
        )
        optima.append(
            means(
                f"optima, {regime}",
                f"{regime}: optimal values of the three log-likelihoods (figure 1{panels[1]})",
                {kind: results.table(regime, f"{kind} optimum") for kind in KINDS},
            )
        )
    return estimates + optima


# ---------------------------------------------------------------------- pictures
LIKELIHOODS = {"Bethe": 0, "exact": 2, "RW": 1}  # and their colours


def pictures(results: Likelihoods) -> list[Picture]:
    return [
        Picture(
            "likelihoods",
            "Exact likelihood of the estimates (top), how far the approximate ones are below the "
            "best (middle), and the optimal values, between which the exact one lies (bottom).",
            likelihood_figure(results),
        ),
        Picture(
            "bounds",
            "The three likelihoods at the same weights: the exact one lies between the others.",
            bounds_figure(results),
        ),
    ]


def likelihood_figure(results: Likelihoods) -> Any:
    figure = new_figure(11.0, 9.2)
    grid = figure.subplots(
        3, len(results.regimes), squeeze=False, sharex=True, height_ratios=[1.0, 0.72, 1.0]
    )
    for k, regime in enumerate(results.regimes):
        top, middle, bottom = grid[:, k]
        at = {kind: results.table(regime, f"exact at {kind}") for kind in KINDS}
        for kind in ("exact", "Bethe", "RW"):
            colour = LIKELIHOODS[kind]
            plot_band(top, results.sizes, at[kind], f"at the {kind} estimate", colour)
            if kind != "exact":
                short = np.maximum(at["exact"] - at[kind], 1e-16)  # on a log scale
                plot_band(middle, results.sizes, short, f"{kind} estimate", colour)
        middle.set_yscale("log")
        optima = {kind: results.table(regime, f"{kind} optimum") for kind in KINDS}
        _plot_sandwich(bottom, results.sizes, optima, "optimum")
        clean_axes(top, f"({'ab'[k]}) {regime}: exact likelihood of the estimates")
        clean_axes(middle, "how far they are below the exact optimum")
        clean_axes(bottom, f"({'cd'[k]}) {regime}: optimal values")
    _finish(grid, results.sizes, grid.ravel())
    grid[1, 0].set_ylabel("difference (log scale)")
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
