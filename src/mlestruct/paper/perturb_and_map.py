"""Frank-Wolfe against perturb-and-MAP: errors of marginals by MAP calls (the paper's appendix).

Complete graphs of 10 and 10 nodes with weights unif[0, 1] times an inverse temperature beta; the
error is the largest distance of a marginal from the exact one, which is counted.

    FW, fixed steps  `marginals(..., method="fw", variant="plain")` at rho = 1 with step="fixed",
                     2/(t+2), and
    FW, line search  with step="line_search"; both are the paper's, and claims take the better one
    perturb-and-MAP  the mean of the maximisers of weights with Gumbel noise for each pair

The point that Frank-Wolfe has after t steps took t MAP calls; its gap would take one more. Once it
has certified log Z_rho to 1e-9 it stops, and its error stays what it is.

A line search that is not capped may stop for long at the boundary, where the gradient is infinite
(appendix B). After many calls Frank-Wolfe is near the optimum of its entropy, whose error is shown
for rho = 1 (what it converges to), .95 and 1/2 as well, from the library's own solver.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from ..inference import marginals
from ..plotting.style import COLOURS, clean_axes, new_figure, plot_band
from ..structures import BipartiteMatching
from .contract import Claim, Experiment, Outcome, Picture, Table
from .parts import Part, Setting, grid, part_name

Floats = NDArray[np.float64]
Errors = dict[str, Floats]
"""By method, of shape (n_graphs, n_calls) or (n_graphs, n_betas)."""

TOL = 1e-9  # gap of log Z_rho
FIXED, SEARCH, PERTURB = "FW, fixed steps", "FW, line search", "perturb-and-MAP"
STEPS = {FIXED: "fixed", SEARCH: "line_search"}
METHODS = (*STEPS, PERTURB)


class PerturbAndMap(Experiment):
    name = "perturb-and-map"
    title = "Marginals from MAP calls: Frank-Wolfe and perturb-and-MAP"
    place = "section 3.3; appendix, figure of Frank-Wolfe and perturb-and-MAP"
    solvers = (
        "FW by marginals(method='fw', variant='plain'), steps 'line_search' and 'fixed'; optima by "
        "auto; exact marginals counted; perturb-and-MAP is this library's, with independent Gumbel "
        "noise for each pair, not the program of Li et al. (2013)."
    )

    def setting(self, quick: bool) -> Setting:
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

    def parts(self, setting: Setting) -> Sequence[Part]:
        betas = sorted({*setting["trace_betas"], *setting["betas"]})
        return grid(errors_at, setting, beta=betas)

    def outcome(self, setting: Setting, found: Mapping[str, Any]) -> Outcome:
        traces = {
            beta: {name: rows[:, :-1] for name, rows in read(found, beta).items()}
            for beta in setting["trace_betas"]
        }
        ends = [read(found, beta) for beta in setting["betas"]]
        limits = {name: np.column_stack([end[name][:, -1] for end in ends]) for name in ends[0]}
        return Outcome(
            [],
            [
                *(trace_table(setting, beta, errors) for beta, errors in traces.items()),
                limit_table(setting, limits),
            ],
            [
                Picture(
                    "map-calls",
                    "Largest error of a marginal against the exact ones, median and quartiles of "
                    f"{setting['graphs']} graphs: by MAP calls (a, b), and by temperature (c) "
                    f"after {setting['many']} calls and at the optima of entropies.",
                    plot_map_calls(setting, traces, limits),
                )
            ],
            claims=claims(setting, traces, limits),
        )


def read(found: Mapping[str, Any], beta: float) -> Errors:
    """What `errors_at` has found, as arrays."""
    return {name: np.array(rows) for name, rows in found[part_name(beta=beta)].items()}


def optimum_name(rho: float) -> str:
    return f"optimum, rho = {rho:g}"


# ---------------------------------------------------------------------- errors
def graph_scores(setting: Mapping[str, Any], beta: float) -> list[Floats]:
    """beta times weights unif[0, 1] of all pairs, for each graph."""
    size = setting["side"] ** 2
    return [
        beta * np.random.default_rng([setting["seed"], graph]).random(size)
        for graph in range(setting["graphs"])
    ]


def matchings(scores: Floats, rho: float = 1.0) -> BipartiteMatching:
    side = round(len(scores) ** 0.5)
    return BipartiteMatching((side, side), rho)


def exact_tau(scores: Floats) -> Floats:
    return np.asarray(marginals(matchings(scores), scores, "exact").tau)


def errors_by_calls(method: str, scores: Floats, exact: Floats, most: int, seed: int) -> Floats:
    """Errors after 1, ..., `most` MAP calls; where a method ends earlier, its last one stays."""
    errors = np.full(most + 1, np.nan)

    def watch(calls: int, tau: Floats) -> bool:
        errors[calls] = np.abs(tau - exact).max()
        return calls >= most

    options: dict[str, Any] = {"method": "perturb", "n_samples": most, "random_state": seed}
    if method != PERTURB:
        options = {"method": "fw", "variant": "plain", "step": STEPS[method], "tol": TOL}
        options["max_iter"] = most
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        marginals(matchings(scores), scores, callback=watch, **options)
    last = int(np.flatnonzero(np.isfinite(errors))[-1])
    errors[last:] = errors[last]
    return errors[1:]


def errors_at(setting: Setting, beta: float) -> dict[str, list[list[float]]]:
    """By method and graph, errors after each number of calls and at the end, which is after many.

    Of the optima there is only the end.
    """
    found: dict[str, list[list[float]]] = {}
    for graph, scores in enumerate(graph_scores(setting, beta)):
        exact = exact_tau(scores)
        for name in METHODS:
            errors = errors_by_calls(name, scores, exact, setting["many"], graph)
            kept = errors[np.array([*setting["calls"], setting["many"]]) - 1]
            found.setdefault(name, []).append(kept.tolist())
        for rho in setting["rhos"]:
            tau = marginals(matchings(scores, rho), scores, tol=TOL).tau
            found.setdefault(optimum_name(rho), []).append([float(np.abs(tau - exact).max())])
    return found


# ---------------------------------------------------------------------- claims
def means(table: ArrayLike) -> Floats:
    """Over graphs."""
    return np.asarray(table, dtype=np.float64).mean(axis=0)


def best_means(errors: Errors) -> Floats:
    """Of both kinds of steps the better one, place by place."""
    return np.asarray(np.min([means(errors[name]) for name in STEPS], axis=0))


def claims(setting: Setting, traces: Mapping[float, Errors], limits: Errors) -> list[Claim]:
    calls, betas = setting["calls"], setting["betas"]
    needed = {}
    for beta, errors in traces.items():
        goal = means(errors[PERTURB])[-1]
        there = np.append(best_means(errors), 0.0) <= goal
        needed[beta] = [*calls, np.inf][int(np.argmax(there))], goal
    ours, theirs = best_means(limits), means(limits[PERTURB])
    less = [beta for beta, a, b in zip(betas, ours, theirs, strict=True) if a > 0.5 * b]
    growth = [row[np.argmax(betas)] / row[np.argmin(betas)] for row in (ours, theirs)]
    better = int((means(limits[optimum_name(0.95)]) < theirs).sum())
    at = ", ".join(
        f"{a / b:.2g} at {beta:g}" for beta, a, b in zip(betas, ours, theirs, strict=True)
    )
    return [
        Claim(
            "The Bethe approximation by Frank-Wolfe is substantially more accurate than "
            "perturb-and-MAP (half its error at most, at every temperature)",
            not less,
            f"error of FW / error of perturb-and-MAP after {setting['many']} calls, by inverse "
            f"temperature: {at}. Where marginals are nearly 0 and 1, Bethe's error is the larger",
        ),
        Claim(
            "Frank-Wolfe converges more quickly than perturb-and-MAP",
            all(first < calls[-1] for first, _ in needed.values()),
            "; ".join(
                f"beta = {beta:g}: the error of perturb-and-MAP after {calls[-1]} calls, "
                f"{goal:.2g}, takes it {first:g}"
                for beta, (first, goal) in needed.items()
            ),
        ),
        Claim(
            "Temperature affects the two differently: the growths of their errors from the lowest "
            "to the highest beta differ by a factor of 2 at least",
            max(growth) >= 2.0 * min(growth),
            f"from beta = {min(betas):g} to {max(betas):g} the error of FW grows by a factor of "
            f"{growth[0]:,.0f}, that of perturb-and-MAP by {growth[1]:,.0f}",
        ),
        Claim(
            "rho = 0.95 instead of 1: more accurate than perturb-and-MAP at every temperature",
            better == len(betas),
            f"at {better} of {len(betas)}",
            "ours",
        ),
    ]


# ---------------------------------------------------------------------- tables and the picture
def trace_table(setting: Setting, beta: float, errors: Errors) -> Table:
    columns: dict[str, Any] = {"MAP calls": setting["calls"]}
    for name in METHODS:
        columns[f"{name}, mean"] = means(errors[name])
        columns[f"{name}, median"] = np.median(errors[name], axis=0)
    title = f"beta = {beta:g}: largest error of a marginal, mean and median of {{}} graphs"
    return Table.of(f"traces at {beta:g}", title.format(setting["graphs"]), columns)


def limit_table(setting: Setting, limits: Errors) -> Table:
    columns: dict[str, Any] = {name: means(rows) for name, rows in limits.items()}
    title = f"mean error after {setting['many']} MAP calls, and at the optimum of the entropy"
    return Table.of("many calls", title, {"beta": setting["betas"], **columns})


def plot_map_calls(setting: Setting, traces: Mapping[float, Errors], limits: Errors) -> Any:
    """Errors against MAP calls, and after many of them against temperature.

    Optima have no traces: they are broad lines that do not hide others.
    """
    figure = new_figure(3.8 * (len(traces) + 1), 4.2)
    panels = figure.subplots(1, len(traces) + 1, squeeze=False)[0]
    for k, (axes, (beta, errors)) in enumerate(zip(panels, traces.items(), strict=False)):
        for colour, name in enumerate(METHODS):
            plot_band(axes, setting["calls"], errors[name], name, colour, quartiles=True)
        axes.set_xlabel("MAP calls")
        clean_axes(axes, f"({'abcd'[k]}) inverse temperature {beta:g}")
    last, betas = panels[-1], setting["betas"]
    for name in METHODS:
        plot_band(last, betas, limits[name], name, METHODS.index(name), quartiles=True)
    for colour, rho in enumerate(setting["rhos"], start=len(METHODS)):
        last.plot(
            betas, np.median(limits[optimum_name(rho)], axis=0), label=optimum_name(rho),
            color=COLOURS[colour % len(COLOURS)], alpha=0.5, linewidth=5.0, zorder=3,
        )  # fmt: skip
    last.set_xlabel("inverse temperature")
    clean_axes(last, f"({'abcd'[len(traces)]}) after many calls")
    panels[0].set_ylabel("largest error of a marginal")
    for axes in panels:
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.legend(frameon=False, fontsize=8.5, loc="best")
    return figure
