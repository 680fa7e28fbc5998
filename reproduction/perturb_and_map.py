"""Frank-Wolfe against perturb-and-MAP: errors of marginals by MAP calls (the paper's appendix).

Complete graphs of 10 and 10 nodes with weights unif[0, 1] times an inverse temperature beta; the
error is the largest distance of a marginal from the exact one, which is counted.

    FW, fixed steps  `marginals(..., method="fw", step=...)` at rho = 1 with step="fixed",
                     2/(t+2), and
    FW, line search  with step="line_search"; both are the paper's, and claims hold for both
    perturb-and-MAP  the mean of the maximisers of weights with Gumbel noise for each pair

The point that Frank-Wolfe has after t steps took t MAP calls; its gap would take one more. Once it
has certified log Z_rho to 1e-9 it stops, and its error stays the same.

After many calls Frank-Wolfe is near the optimum of its entropy, whose error is shown for rho = 1
(what it converges to), .95 and 1/2 as well, from the library's own solver.
"""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mlestruct.inference import marginals
from mlestruct.plotting.style import COLOURS, clean_axes, new_figure
from mlestruct.structures import BipartiteMatching

from .curves import plot_band
from .runner import Claim, Picture, Report, Table, grid, is_less, listed, part_name

TITLE = "Marginals from MAP calls: Frank-Wolfe and perturb-and-MAP"
PLACE = "section 3.3; appendix, figure of Frank-Wolfe and perturb-and-MAP"
SOLVERS = (
    "FW by marginals(method='fw', step=...), steps 'line_search' and 'fixed'; optima by "
    "auto; exact marginals counted; perturb-and-MAP is this library's, with independent Gumbel "
    "noise for each pair, not the program of Li et al. (2013)."
)
TOL = 1e-9  # gap of log Z_rho
FIXED, SEARCH, PERTURB = "FW, fixed steps", "FW, line search", "perturb-and-MAP"
STEPS = {FIXED: "fixed", SEARCH: "line_search"}
METHODS = (*STEPS, PERTURB)
OPTIMUM = "optimum, rho = {:g}"


def setting(quick):
    calls = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
    betas = [0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0]
    return {
        "data": "generated: weights unif[0, 1], as in the paper",
        "side": 10,
        "graphs": 10,
        "seed": 2015,
        "trace_betas": [10.0, 0.25],
        "calls": calls[:7] if quick else calls,
        "betas": [0.1, 1.0, 10.0, 30.0] if quick else betas,
        "many": 300 if quick else 2_000,
        "rhos": [1.0, 0.95, 0.5],
    }


def parts(setting):
    return grid(errors_at, setting, beta=sorted({*setting["trace_betas"], *setting["betas"]}))


def report(setting, found):
    errors = {
        beta: {name: np.array(rows) for name, rows in found[part_name(beta=beta)].items()}
        for beta in {*setting["trace_betas"], *setting["betas"]}
    }
    traces = {
        beta: {m: errors[beta][m][:, :-1] for m in METHODS} for beta in setting["trace_betas"]
    }
    limits = {
        name: np.column_stack([errors[beta][name][:, -1] for beta in setting["betas"]])
        for name in errors[setting["betas"][0]]
    }
    caption = (
        "Largest error of a marginal against the exact ones, median and quartiles of "
        f"{setting['graphs']} graphs: by MAP calls (a, b), and by temperature (c) after "
        f"{setting['many']} calls and at the optima of entropies."
    )
    return Report(
        tables=[
            *(trace_table(setting, beta, trace) for beta, trace in traces.items()),
            limit_table(setting, limits),
        ],
        claims=claims(setting, traces, limits),
        pictures=[Picture("map-calls", caption, map_calls_figure(setting, traces, limits))],
    )


# ---------------------------------------------------------------------- errors
def graph_scores(setting, beta):
    """beta times weights unif[0, 1] of all pairs, for each graph."""
    for graph in range(setting["graphs"]):
        yield beta * np.random.default_rng([setting["seed"], graph]).random(setting["side"] ** 2)


def matchings(scores, rho=1.0):
    side = round(len(scores) ** 0.5)
    return BipartiteMatching((side, side), rho)


def exact_tau(scores):
    return marginals(matchings(scores), scores, "exact").tau


def errors_at(setting, beta):
    """By method and graph, errors after each number of calls and, last, after many calls.

    Optima have only the last one.
    """
    found = {name: [] for name in (*METHODS, *map(OPTIMUM.format, setting["rhos"]))}
    counts = np.array([*setting["calls"], setting["many"]])
    for graph, scores in enumerate(graph_scores(setting, beta)):
        exact = exact_tau(scores)
        for name in METHODS:
            errors = errors_by_calls(name, scores, exact, setting["many"], graph)
            found[name].append(errors[counts - 1])
        for rho in setting["rhos"]:
            tau = marginals(matchings(scores, rho), scores, tol=TOL).tau
            found[OPTIMUM.format(rho)].append([np.abs(tau - exact).max()])
    return found


def errors_by_calls(method, scores, exact, most, seed):
    """Errors after 1, ..., `most` MAP calls; if a method ends earlier, its last error stays."""
    errors = np.full(most + 1, np.nan)

    def watch(calls, tau):
        errors[calls] = np.abs(tau - exact).max()
        return calls >= most

    options = {"method": "perturb", "n_samples": most, "random_state": seed}
    if method != PERTURB:
        options = {"method": "fw", "tol": TOL, "max_iter": most}
        options["step"] = STEPS[method]
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        marginals(matchings(scores), scores, callback=watch, **options)
    last = np.flatnonzero(np.isfinite(errors))[-1]
    errors[last:] = errors[last]
    return errors[1:]


# ---------------------------------------------------------------------- claims
def claims(setting, traces, limits):
    """Of both kinds of steps, neither chosen afterwards: they have to agree."""
    calls, betas, noise = setting["calls"], setting["betas"], "noise, or the step rules disagree"

    def agreed(answers):
        return answers.pop() if len(answers) == 1 else None

    def less(name, errors, of=PERTURB):
        """By temperature, whether the errors are less than perturb-and-MAP's over the graphs."""
        return [is_less(a, b, True) for a, b in zip(errors[name].T, errors[of].T, strict=True)]

    last = {beta: {m: errors[m][:, -1:] for m in METHODS} for beta, errors in traces.items()}
    means = "; ".join(
        f"beta {beta:g}: {listed({m: row[m].mean() for m in METHODS}, '.2g')}"
        for beta, row in last.items()
    )
    needed = {
        (beta, name): first_below(calls, errors[name], errors[PERTURB].mean(axis=0)[-1])
        for beta, errors in traces.items()
        for name in STEPS
    }
    rows = {name: np.mean(limits[name], axis=0) for name in METHODS}
    growth = {name: row[np.argmax(betas)] / row[np.argmin(betas)] for name, row in rows.items()}
    worse = [
        f"{beta:g}" for k, beta in enumerate(betas)
        if {less(name, limits)[k] for name in STEPS} == {False}
    ]  # fmt: skip
    mild = less(OPTIMUM.format(0.95), limits)
    return [
        Claim(
            "The Bethe approximation by Frank-Wolfe is more accurate than perturb-and-MAP at the "
            f"inverse temperatures of the figure, after {calls[-1]} calls",
            agreed({less(name, row)[0] for row in last.values() for name in STEPS}),
            f"mean errors, {means}",
            noise,
        ),
        Claim(
            "Frank-Wolfe converges more quickly than perturb-and-MAP",
            agreed({first < calls[-1] for first in needed.values()}),
            f"calls to the error that perturb-and-MAP has after {calls[-1]}: "
            + ", ".join(f"{n} ({name}, beta {b:g})" for (b, name), n in needed.items()),
            noise,
        ),
        Claim(
            "Temperature affects the two differently (our threshold: the growths of their errors "
            "from the lowest to the highest beta differ by a factor of 2)",
            agreed({bool(abs(np.log2(growth[n] / growth[PERTURB])) >= 1.0) for n in STEPS}),
            f"growth from beta {min(betas):g} to {max(betas):g}: {listed(growth, ',.0f')}",
            noise,
        ),
        Claim(
            "Where marginals are nearly 0 and 1, Frank-Wolfe is the less accurate one, after "
            f"{setting['many']} calls",
            bool(worse),
            f"at inverse temperature {', '.join(worse) or 'none'}; {len(betas)} were tested",
            whose="ours",
        ),
        Claim(
            "The optimum at rho = 0.95 is more accurate than perturb-and-MAP at every temperature",
            all(mild) or (False if False in mild else None),
            f"at {mild.count(True)} of {len(betas)} beyond two standard errors",
            "noise",
            "ours",
        ),
    ]


def first_below(calls, errors, goal):
    """The fewest calls with a mean error of at most `goal`."""
    means = np.mean(errors, axis=0)
    return next((n for n, mean in zip(calls, means, strict=True) if mean <= goal), np.inf)


# ---------------------------------------------------------------------- tables and the picture
def trace_table(setting, beta, errors):
    columns = {"MAP calls": setting["calls"]}
    for name in METHODS:
        columns[f"{name}, mean"] = np.mean(errors[name], axis=0)
        columns[f"{name}, median"] = np.median(errors[name], axis=0)
    title = f"beta = {beta:g}: largest error of a marginal, mean and median of"
    return Table.of(f"traces at {beta:g}", f"{title} {setting['graphs']} graphs", columns)


def limit_table(setting, limits):
    columns = {name: np.mean(rows, axis=0) for name, rows in limits.items()}
    title = f"mean error after {setting['many']} MAP calls, and at the optimum of the entropy"
    return Table.of("many calls", title, {"beta": setting["betas"], **columns})


def map_calls_figure(setting, traces, limits):
    """Errors against MAP calls, and after many of them against temperature."""
    figure = new_figure(3.8 * (len(traces) + 1), 4.2)
    *panels, last = figure.subplots(1, len(traces) + 1)
    for axes, letter, (beta, errors) in zip(panels, "ab", traces.items(), strict=True):
        for k, name in enumerate(METHODS):
            plot_band(axes, setting["calls"], errors[name], name, k, quartiles=True)
        axes.set_xlabel("MAP calls")
        clean_axes(axes, f"({letter}) inverse temperature {beta:g}")
    for k, name in enumerate(METHODS):
        plot_band(last, setting["betas"], limits[name], name, k, quartiles=True)
    for k, rho in enumerate(setting["rhos"], start=len(METHODS)):
        median = np.median(limits[OPTIMUM.format(rho)], axis=0)
        last.plot(  # broad, so that it shows beside the curves
            setting["betas"], median, label=OPTIMUM.format(rho), color=COLOURS[k], alpha=0.5,
            linewidth=5.0, zorder=3,
        )  # fmt: skip
    last.set_xlabel("inverse temperature")
    clean_axes(last, "(c) after many calls")
    panels[0].set_ylabel("largest error of a marginal")
    for axes in (*panels, last):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.legend(frameon=False, fontsize=8.5, loc="best")
    return figure
