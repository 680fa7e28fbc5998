"""Frank-Wolfe against perturb-and-MAP: errors of marginals by MAP calls (the paper's appendix).

Complete graphs of 10 and 10 nodes with weights unif[0, 1] times an inverse temperature beta; the
error is the largest distance of a marginal from the exact one, which is counted.

    FW               `marginals(..., method="fw")` at rho = 1, which keeps the vertices it has met
                     and moves weight between them; that takes time, but no MAP call
    FW, plain        the same with variant="plain", the paper's: one line search for each call
    perturb-and-MAP  the mean of the maximisers of weights with Gumbel noise for each pair

The point that Frank-Wolfe has after t steps took t MAP calls; its gap would take one more. Once it
has certified log Z_rho to 1e-9 it stops, and its error stays what it is.

After many calls, Frank-Wolfe (here the plain one) is at the optimum of its entropy, whose error is
shown for rho = 1 (what it converges to), .95 and 1/2 as well, from the library's own solver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from .contract import Experiment, Outcome, Part, Picture, Setting, Table, Verdict
from .figures.inference import plot_map_calls
from .map_call_errors import (
    FW,
    LASTING,
    METHODS,
    PERTURB,
    PLAIN,
    STANDARD_ERROR,
    Errors,
    limited,
    optimum_name,
    traced,
)

BETTER_RHO = 0.95
DIFFERENT = 2.0  # growths of errors whose ratio is at least this are called different


class PerturbAndMap(Experiment):
    name: ClassVar[str] = "perturb-and-map"
    title: ClassVar[str] = "Marginals from MAP calls: Frank-Wolfe and perturb-and-MAP"
    place: ClassVar[str] = "appendix, figure of Frank-Wolfe and perturb-and-MAP"

    def setting(self, quick: bool) -> Setting:
        calls = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
        betas = [0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0]
        return {
            "data": "generated: weights unif[0, 1], as in the paper",
            "side": 10,
            "graphs": 10,
            "seed": 2015,
            "temperatures": [10.0, 0.25],  # inverse, of the traces
            "calls": calls[:7] if quick else calls,
            "betas": [0.1, 1.0, 10.0, 30.0] if quick else betas,
            "many": 300 if quick else 10_000,
            "rhos": [1.0, BETTER_RHO, 0.5],
        }

    def parts(self, setting: Setting) -> Sequence[Part]:
        traces = [
            Part(trace_name(beta), partial(traced, setting, beta))
            for beta in setting["temperatures"]
        ]
        limits = [
            Part(limit_name(beta), partial(limited, setting, beta)) for beta in setting["betas"]
        ]
        return [*traces, *limits]

    def outcome(self, setting: Setting, found: Mapping[str, Any]) -> Outcome:
        traces: dict[float, Errors] = {
            beta: found[trace_name(beta)] for beta in setting["temperatures"]
        }
        by_beta = [found[limit_name(beta)] for beta in setting["betas"]]
        limits = {
            curve: np.array([one[curve] for one in by_beta]).T.tolist() for curve in by_beta[0]
        }
        noise = limits.pop(STANDARD_ERROR)
        return Outcome(
            summary(setting, traces, limits),
            [
                *(trace_table(setting, beta, errors) for beta, errors in traces.items()),
                limit_table(setting, limits | {STANDARD_ERROR: noise}),
                long_table(setting, traces, limits | {STANDARD_ERROR: noise}),
            ],
            [picture(setting, traces, limits)],
            verdicts=verdicts(setting, traces, limits),
        )


def trace_name(beta: float) -> str:
    return f"traces, beta = {beta:g}"


def limit_name(beta: float) -> str:
    return f"many calls, beta = {beta:g}"


# ---------------------------------------------------------------------- what was found
def not_below(ours: ArrayLike, theirs: ArrayLike, places: Sequence[float]) -> list[str]:
    """Where the mean of `ours` is not below that of `theirs`, and both."""
    one, other = np.asarray(ours).mean(axis=0), np.asarray(theirs).mean(axis=0)
    return [
        f"{place:g}: {a:.4f} against {b:.4f}"
        for place, a, b in zip(places, one, other, strict=True)
        if not a < b
    ]


def summary(setting: Setting, traces: Mapping[float, Errors], limits: Errors) -> list[str]:
    """What a reader wants to know first."""
    shown = min(50, max(setting["calls"]))
    k = max(k for k, calls in enumerate(setting["calls"]) if calls <= shown)
    told = [
        f"{np.mean(errors[PLAIN], axis=0)[k]:.2g} against "
        f"{np.mean(errors[PERTURB], axis=0)[k]:.2g} at beta = {beta:g}"
        for beta, errors in traces.items()
    ]
    optimum = np.mean(limits[optimum_name(1.0)], axis=0)
    better = np.mean(limits[optimum_name(BETTER_RHO)], axis=0)
    perturb = np.mean(limits[PERTURB], axis=0)
    ahead = int((optimum < perturb).sum())
    best = int((better < perturb).sum())
    return [
        f"After {setting['calls'][k]} MAP calls the largest error of a marginal is, with "
        f"Frank-Wolfe and perturb-and-MAP, {'; '.join(told)} (means of {setting['graphs']} "
        "graphs).",
        f"What Frank-Wolfe converges to (rho = 1) is more accurate than {setting['many']} calls of "
        f"perturb-and-MAP at {ahead} of {len(optimum)} temperatures; with rho = {BETTER_RHO:g}, at "
        f"{best}.",
    ]


def verdicts(setting: Setting, traces: Mapping[float, Errors], limits: Errors) -> list[Verdict]:
    found = []
    for beta, errors in traces.items():
        found += [
            always_ahead(setting, beta, name, errors[name], errors[PERTURB])
            for name in (PLAIN, FW)
        ]  # fmt: skip
        found.append(converges_sooner(setting, beta, errors))
    found.append(more_accurate_overall(setting, limits))
    found.append(temperature_matters(setting, limits))
    lost = not_below(limits[optimum_name(BETTER_RHO)], limits[PERTURB], setting["betas"])
    found.append(
        Verdict(
            f"rho = {BETTER_RHO:g} instead of 1: more accurate than perturb-and-MAP at every "
            "temperature",
            not lost,
            f"not at beta = {'; '.join(lost)}" if lost else "",
        )
    )
    return found


def always_ahead(
    setting: Setting, beta: float, name: str, ours: ArrayLike, theirs: ArrayLike
) -> Verdict:
    lost = not_below(ours, theirs, setting["calls"])
    return Verdict(
        f"beta = {beta:g}: {name} is more accurate than {PERTURB} after every number of calls",
        not lost,
        f"mean errors; not after {'; '.join(lost)}" if lost else "mean errors",
    )


def converges_sooner(setting: Setting, beta: float, errors: Errors) -> Verdict:
    """Calls of Frank-Wolfe to the error that perturb-and-MAP ends with."""
    calls = setting["calls"]
    last = float(np.mean(errors[PERTURB], axis=0)[-1])
    there = np.flatnonzero(np.mean(errors[PLAIN], axis=0) <= last)
    enough = f"{calls[there[0]]}" if len(there) else f"more than {calls[-1]}"
    return Verdict(
        f"beta = {beta:g}: Frank-Wolfe converges more quickly",
        bool(len(there)) and calls[there[0]] < calls[-1],
        f"the error of perturb-and-MAP after {calls[-1]} calls, {last:.2g}, takes it {enough}",
    )


def more_accurate_overall(setting: Setting, limits: Errors) -> Verdict:
    betas = setting["betas"]
    lost = not_below(limits[PLAIN], limits[PERTURB], betas)
    return Verdict(
        f"after {setting['many']} calls Frank-Wolfe is more accurate overall",
        len(lost) < len(betas) / 2,
        f"mean errors lower at {len(betas) - len(lost)} of {len(betas)} temperatures"
        + (f"; not at beta = {'; '.join(lost)}" if lost else ""),
    )


def temperature_matters(setting: Setting, limits: Errors) -> Verdict:
    """Whether errors grow by different factors from the lowest to the highest beta."""
    betas = setting["betas"]
    growth = {}
    for name in LASTING:
        mean = np.mean(limits[name], axis=0)
        growth[name] = float(mean[np.argmax(betas)] / mean[np.argmin(betas)])
    return Verdict(
        "temperature affects the two differently",
        max(growth.values()) >= DIFFERENT * min(growth.values()),
        f"from beta = {min(betas):g} to {max(betas):g} the error of {PLAIN} grows by a factor of "
        f"{growth[PLAIN]:,.0f}, that of {PERTURB} by {growth[PERTURB]:,.0f}",
    )


# ---------------------------------------------------------------------- tables and the picture
def trace_table(setting: Setting, beta: float, errors: Errors) -> Table:
    rows = []
    for k, calls in enumerate(setting["calls"]):
        row: list[Any] = [calls]
        for name in METHODS:
            values = np.array(errors[name])[:, k]
            row += [float(values.mean()), float(np.median(values))]
        rows.append(row)
    return Table(
        f"traces at {beta:g}",
        f"beta = {beta:g}: largest error of a marginal, mean and median of {setting['graphs']} "
        "graphs",
        ["MAP calls", *(f"{name}, {what}" for name in METHODS for what in ("mean", "median"))],
        rows,
    )


def limit_table(setting: Setting, limits: Errors) -> Table:
    means = [np.mean(table, axis=0) for table in limits.values()]
    rows = [[beta, *(float(m[k]) for m in means)] for k, beta in enumerate(setting["betas"])]
    return Table(
        "many calls",
        f"mean error after {setting['many']} MAP calls, and at the optimum of the entropy",
        ["beta", *limits],
        rows,
    )


def long_table(setting: Setting, traces: Mapping[float, Errors], limits: Errors) -> Table:
    rows: list[list[Any]] = [
        ["trace", beta, name, graph, calls, error]
        for beta, errors in traces.items()
        for name, table in errors.items()
        for graph, row in enumerate(table)
        for calls, error in zip(setting["calls"], row, strict=True)
    ]
    rows += [
        ["limit", beta, name, graph, setting["many"] if PERTURB in name or name == PLAIN else "", x]
        for name, table in limits.items()
        for graph, row in enumerate(table)
        for beta, x in zip(setting["betas"], row, strict=True)
    ]
    head = ["part", "beta", "method", "graph", "calls", "error"]
    return Table("errors", "errors of all graphs", head, rows, shown=False)


def picture(setting: Setting, traces: Mapping[float, Errors], limits: Errors) -> Picture:
    panels = {f"inverse temperature {beta:g}": errors for beta, errors in traces.items()}
    return Picture(
        "map-calls",
        "Largest error of a marginal against the exact ones, median and quartiles of "
        f"{setting['graphs']} graphs: by MAP calls (a, b), and by temperature (c) after "
        f"{setting['many']} calls and at the optima of entropies.",
        plot_map_calls(setting["calls"], panels, setting["betas"], limits),
    )
