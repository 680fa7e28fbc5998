"""Synthetic matchings: how good approximate estimates are, and bounds of the likelihood (figure 1).

Matchings of 10 and 10 are drawn exactly from weights that are 0 on the diagonal and -2 (high
signal-to-noise ratio) or -0.5 (low) elsewhere. One weight per pair is learned from them, with
alpha = 1 on the summed log-likelihood (the paper does not give its own), by

    exact   the likelihood itself, whose log Z and gradient are counted
    Bethe   rho = 1, log Z_B <= log Z, so the Bethe likelihood is an upper bound
    RW      rho = 1/2, log Z_RW >= log Z, so the reweighted likelihood is a lower bound

All numbers are regularised log-likelihoods divided by the number of samples. Each is an interval,
certified by a duality gap. An inequality is *proven* if every pair of points of the two intervals
agrees with it, has *failed* if none does, and is *open* otherwise.

Two statements about the method are tested on small problems: the reweighted entropy is concave
(theorem 4.1), and Algorithm 1 needs fewer passes for marginals of higher entropy (appendix B).
"""

import warnings
from functools import partial

import numpy as np
from scipy import sparse
from scipy.special import xlogy
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from mlestruct import BipartiteMatchingCRF, PairInput
from mlestruct.baselines import ExactLikelihood
from mlestruct.inference import marginals, sample
from mlestruct.learning import BlockFrankWolfe
from mlestruct.plotting.style import clean_axes, new_figure
from mlestruct.structures import BipartiteMatching

from .curves import plot_band
from .runner import Claim, Picture, Report, Table, grid, part_name

TITLE = "Likelihoods of approximate estimates, and bounds of the likelihood"
PLACE = "theorem 4.1, figure 1, the appendix's figure of bounds, appendix B"
SOLVERS = (
    "exact estimates by ExactLikelihood (counted gradients); RW and Bethe estimates by auto "
    "(L-BFGS over marginals), certified to 1e-8; Algorithm 1 makes the table of passes."
)

HIGH, LOW = "high SNR", "low SNR"
KINDS = ("RW", "exact", "Bethe")  # from the lowest likelihood to the highest
RHO = {"RW": 0.5, "exact": 1.0, "Bethe": 1.0}
INEQUALITIES = (
    ("RW optimum", "exact optimum"),
    ("exact optimum", "Bethe optimum"),
    *((f"RW at {at}", f"exact at {at}") for at in KINDS),
    *((f"exact at {at}", f"Bethe at {at}") for at in KINDS),
    ("exact at Bethe", "exact optimum"),
    ("exact at RW", "exact optimum"),
)
ALIKE = 0.01  # of the log-likelihood: estimates this close are called about the same


def setting(quick):
    return {
        "data": "generated: drawn exactly from the paper's weights",
        "side": 10,
        "regimes": {HIGH: -2.0, LOW: -0.5},  # weight of the pairs off the diagonal
        "sizes": [10, 50, 200] if quick else [10, 20, 50, 100, 200, 500, 1000],
        "seeds": 3 if quick else 20,
        "alpha": 1.0,
        "tol": 1e-8,
        "convexity": {"nodes": 6, "segments": 200 if quick else 2000, "seed": 0},
        "speed": {
            "weights": [-0.5, -2.0] if quick else [-0.25, -0.5, -1.0, -2.0, -3.0],
            "samples": 50,
            "gap": 0.1 if quick else 0.03,
            "passes": 5000,
            "seed": 0,
        },
    }


def parts(setting):
    return {
        **grid(likelihoods, setting, regime=setting["regimes"], seed=range(setting["seeds"])),
        "convexity": partial(convexity, setting),
        "speed": partial(speed, setting),
    }


def report(setting, found):
    results = Likelihoods(setting, found)
    return Report(
        tables=[
            *(likelihood_table(results, regime) for regime in results.regimes),
            speed_table(setting, found["speed"]),
        ],
        claims=[
            convexity_claim(found["convexity"]),
            *likelihood_claims(results),
            speed_claim(found["speed"]),
        ],
        pictures=[
            Picture(
                "likelihoods",
                "Exact likelihood of the estimates (top), and the optimal values, between which "
                "the exact one lies (bottom).",
                likelihood_figure(results),
            ),
            Picture(
                "bounds",
                "The three likelihoods at the same weights: the exact one lies between the others.",
                bounds_figure(results),
            ),
        ],
    )


# ---------------------------------------------------------------------- likelihoods
def draw(side, off_diagonal, n_samples, seed):
    """Matchings from weights that are 0 on the diagonal, shape (n_samples, side)."""
    weights = off_diagonal * (1.0 - np.eye(side))
    drawn = sample(BipartiteMatching((side, side)), weights, n_samples, "exact", random_state=seed)
    return np.asarray(drawn.labels)


def likelihoods(setting, regime, seed):
    """All sizes; smaller sets of samples are the beginning of larger ones."""
    sizes = setting["sizes"]
    drawn = draw(setting["side"], setting["regimes"][regime], max(sizes), seed)
    return [one_point(drawn[:n], setting["alpha"], setting["tol"]) for n in sizes]


def one_point(Y, alpha, tol):
    """Fit all estimators and evaluate all likelihoods at all of them.

    Returns "values", intervals named "RW optimum", ... and "RW at exact", ... (a likelihood and
    the estimate it is evaluated at), and "not_converged", a number of fits.
    """
    n, side = Y.shape
    X = [one_weight_a_pair(side)] * n
    matched = np.bincount((np.arange(side) * side + Y).ravel(), minlength=side**2).astype(float)
    values, missed = {}, 0
    for name, rho in RHO.items():
        solver = ExactLikelihood() if name == "exact" else None
        model = BipartiteMatchingCRF(alpha=alpha, rho=rho, tol=tol, solver=solver)
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            model.fit(X, list(Y))
        missed += not model.converged_
        best = model.objective_bound_
        values[f"{name} optimum"] = [(best - model.duality_gap_) / n, best / n]
        for kind, ends in likelihoods_at(model.coef_, matched, n, alpha).items():
            values[f"{kind} at {name}"] = ends
    return {"values": values, "not_converged": missed}


def one_weight_a_pair(side):
    """A sample without features of its own: every pair has a weight."""
    return PairInput(sparse.eye_array(side**2, format="csr"), shape=(side, side))


def likelihoods_at(theta, matched, n, alpha):
    """The three regularised likelihoods per sample; `matched` counts the samples with each pair."""
    side = round(len(theta) ** 0.5)
    rest = (theta @ matched - 0.5 * alpha * theta @ theta) / n
    found = {}
    for kind, rho in RHO.items():
        structure = BipartiteMatching((side, side), rho)
        answer = marginals(structure, theta, "exact" if kind == "exact" else "auto", tol=1e-9)
        found[kind] = [rest - answer.log_partition - answer.gap, rest - answer.log_partition]
    return found


class Likelihoods:
    """Intervals by name, arrays of shape (n_regimes, n_seeds, n_sizes, 2)."""

    def __init__(self, setting, found):
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

    def compared(self, low, high):
        """Of every point whether low <= high is proven; likelihoods are rounded to about 1e-10."""
        one, other = self.ends[low], self.ends[high]
        possible = one[..., 0] <= other[..., 1] + 1e-10
        proven = one[..., 1] <= other[..., 0]
        return np.where(proven, "proven", np.where(possible, "open", "failed"))

    def table(self, regime, name):
        """Values of shape (n_seeds, n_sizes)."""
        return self.ends[name][self.regimes.index(regime)].mean(axis=-1)

    def shortfall(self, regime, kind):
        """How far an estimate is below the exact optimum, as a share of it, by seed and size."""
        exact = self.table(regime, "exact at exact")
        return (exact - self.table(regime, f"exact at {kind}")) / np.abs(exact)


def alike(shares):
    """Whether means over seeds are within ALIKE at all sizes, beyond two standard errors."""
    mean, spread = shares.mean(axis=0), 2.0 * shares.std(axis=0, ddof=1) / len(shares) ** 0.5
    if (mean + spread <= ALIKE).all():
        return True
    return False if (mean - spread > ALIKE).any() else None


def likelihood_claims(results):
    states = np.array([results.compared(low, high) for low, high in INEQUALITIES])
    above = results.compared("exact at RW", "exact at Bethe") == "proven"
    widest = max(np.ptp(ends, axis=-1).max() for ends in results.ends.values())
    short = {
        f"{regime}, {kind}": results.shortfall(regime, kind)
        for regime, kind in ((HIGH, "Bethe"), (LOW, "Bethe"), (LOW, "RW"), (HIGH, "RW"))
    }
    worst = "; ".join(
        f"{name} {100 * shares.mean(axis=0).max():.2g} % ({100 * shares.max():.2g} %)"
        for name, shares in short.items()
    )
    below = f"mean shortfall from the exact optimum, at the worst size (worst single draw): {worst}"
    low = {alike(short[f"{LOW}, {kind}"]) for kind in ("Bethe", "RW")}
    noise = f"noise: {ALIKE:.0%} is within two standard errors"
    return [
        Claim(
            "The dual has the optimum of the saddle point problem (Sion): the least L(tau) is the "
            "largest approximate likelihood",
            results.not_converged == 0,
            f"{results.not_converged} fits without a certificate; per sample the two differ by "
            f"{widest:.1g} at most",
        ),
        Claim(
            "The Bethe estimator is superior to the RW estimator, at high and at low SNR",
            above.all(),
            f"exact likelihood proven higher at {above.sum()} of {above.size} points",
        ),
        Claim(
            "High SNR: the data are nearly as probable under the Bethe estimate as under the exact "
            f"MLE (our threshold: {ALIKE:.0%} of the log-likelihood)",
            alike(short[f"{HIGH}, Bethe"]),
            below,
            noise,
        ),
        Claim(
            f"Low SNR: all estimates have about the same likelihood (our threshold: {ALIKE:.0%})",
            low.pop() if len(low) == 1 else None,
            below,
            noise,
        ),
        Claim(
            "RW <= exact <= Bethe: the likelihood is bounded, at the optima and at every estimate",
            (states == "proven").all(),
            f"{(states == 'proven').sum()} of {states.size} inequalities proven by certificates",
        ),
    ]


def likelihood_table(results, regime):
    """A row per number of samples: means over the repetitions."""
    panels = "ac" if regime == HIGH else "bd"
    names = {kind: f"exact at {kind}" for kind in ("exact", "Bethe", "RW")}
    names |= {f"{kind} optimum": f"{kind} optimum" for kind in KINDS}
    means = {head: results.table(regime, name).mean(axis=0) for head, name in names.items()}
    title = (
        f"{regime}: exact log-likelihood per sample of the three estimates (figure 1{panels[0]}), "
        f"and optimal values of the three likelihoods (figure 1{panels[1]}); means of "
        f"{results.seeds} repetitions"
    )
    return Table.of(f"likelihoods, {regime}", title, {"samples": results.sizes, **means})


# ---------------------------------------------------------------------- the method as such
def convexity(setting):
    """How often the entropy at a midpoint is below the mean of the ends, over random segments.

    Segments of all lengths: long ones are weak tests if the curvature varies.
    """
    own, margins = setting["convexity"], []
    rng = np.random.default_rng(own["seed"])
    for trial in range(own["segments"]):
        rho = rng.random(own["nodes"])
        one, other = (random_point(rng, own["nodes"], bool(trial % 2)) for _ in range(2))
        other = one + 10.0 ** -rng.uniform(0.0, 3.0) * (other - one)
        ends = 0.5 * (entropy(one, rho) + entropy(other, rho))
        margins.append(entropy(0.5 * (one + other), rho) - ends)
    failed = sum(margin < -1e-12 for margin in margins)
    return {"segments": len(margins), "failed": failed, "least": min(margins)}


def random_point(rng, n_nodes, perfect):
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


def entropy(tau, rho):
    """H_rho of matchings; nodes whose marginals sum to 1 are never single."""
    weights = np.add.outer(rho, rho) - 1.0
    single = np.maximum(1.0 - tau.sum(axis=1), 0.0)
    pairs = xlogy(weights * (1.0 - tau), 1.0 - tau) - xlogy(tau, tau)
    return float(0.5 * pairs.sum() - rho @ xlogy(single, single))


def convexity_claim(found):
    return Claim(
        "Theorem 4.1: for any rho in [0, 1]^V, any graph and perfect or imperfect matchings, the "
        "reweighted free energy is convex over the local polytope (a search for a counterexample)",
        found["failed"] == 0,
        f"{found['failed']} of {found['segments']} random segments against it; the entropy at a "
        f"midpoint is at least {found['least']:.1g} above the mean of the ends",
    )


def speed(setting):
    """Passes of Algorithm 1 to a certified gap per sample, by the weight off the diagonal."""
    own, side, rows = setting["speed"], setting["side"], []
    structure = BipartiteMatching((side, side), 1.0)
    for weight in own["weights"]:
        Y = list(draw(side, weight, own["samples"], own["seed"]))
        X = [one_weight_a_pair(side)] * len(Y)
        gap = own["gap"] * len(Y)
        model = BipartiteMatchingCRF(alpha=setting["alpha"], rho=1.0, tol=1e-6)
        paper = BlockFrankWolfe(step="fixed", callback=lambda p, gap=gap: p.gap <= gap)
        options = {"tol": 1e-300, "max_iter": own["passes"], "random_state": own["seed"]}
        found = clone(model).set_params(solver=paper, **options)
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            found.fit(X, Y)
        best = model.fit(X, Y)
        rows.append(
            {
                "weight": weight,
                "entropy": structure.entropy(marginals(structure, best.coef_).tau),
                "passes": found.n_iter_,
                "gap": found.duality_gap_ / len(Y),
            }
        )
    return rows


def speed_table(setting, rows):
    title = (
        f"Passes of Algorithm 1 to a certified gap of {setting['speed']['gap']:g} per sample "
        f"({setting['speed']['samples']} samples, rho = 1), by the entropy of the optimum"
    )
    head = ["weight off the diagonal", "entropy", "passes", "gap"]
    return Table("speed", title, head, [list(row.values()) for row in rows])


def speed_claim(rows):
    ordered = sorted(rows, key=lambda row: row["entropy"])
    passes = [row["passes"] for row in ordered]
    return Claim(
        "Frank-Wolfe converges faster when the true pseudomarginals have higher entropy (our "
        "threshold: passes fall with it, by a factor of 2 at least)",
        passes[0] >= 2 * passes[-1] and passes == sorted(passes, reverse=True),
        ", ".join(f"{r['passes']} passes at an entropy of {r['entropy']:.3g}" for r in ordered),
    )


# ---------------------------------------------------------------------- pictures
COLOUR = {"Bethe": 0, "exact": 2, "RW": 1}


def likelihood_figure(results):
    figure = new_figure(11.0, 7.4)
    panels = figure.subplots(2, len(results.regimes), squeeze=False, sharex=True)
    for k, regime in enumerate(results.regimes):
        top, bottom = panels[:, k]
        for kind, colour in COLOUR.items():
            values = results.table(regime, f"exact at {kind}")
            plot_band(top, results.sizes, values, f"at the {kind} estimate", colour)
        plot_sandwich(bottom, results, regime, "{} optimum")
        clean_axes(top, f"({'ab'[k]}) {regime}: exact likelihood of the estimates")
        clean_axes(bottom, f"({'cd'[k]}) {regime}: optimal values")
    finish(panels, results.sizes)
    return figure


def bounds_figure(results):
    """A panel per regime (row) and estimate (column)."""
    figure = new_figure(11.0, 7.4)
    panels = figure.subplots(len(results.regimes), 2, squeeze=False, sharex=True, sharey="row")
    for row, regime in zip(panels, results.regimes, strict=True):
        for axes, at in zip(row, ("Bethe", "RW"), strict=True):
            plot_sandwich(axes, results, regime, f"{{}} at {at}")
            clean_axes(axes, f"{regime}, at the {at} estimate")
    finish(panels, results.sizes)
    return figure


def plot_sandwich(axes, results, regime, name):
    curves = {kind: results.table(regime, name.format(kind)) for kind in COLOUR}
    low, high = (curves[kind].mean(axis=0) for kind in ("RW", "Bethe"))
    axes.fill_between(results.sizes, low, high, color="#000000", alpha=0.05, linewidth=0.0)
    for kind, colour in COLOUR.items():
        plot_band(axes, results.sizes, curves[kind], f"{kind} likelihood", colour)


def finish(panels, sizes):
    for axes in panels.ravel():
        axes.set_xscale("log")
        axes.set_xticks(sizes, [str(n) for n in sizes])
        axes.minorticks_off()
        axes.legend(frameon=False, fontsize=9)
    for axes in panels[:, 0]:
        axes.set_ylabel("log-likelihood per sample")
    for axes in panels[-1]:
        axes.set_xlabel("samples (lines: means, bands: range of repetitions)")
