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

    python -m experiments.perturb_and_map --out DIR
    python -m experiments.perturb_and_map --quick
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from experiments.reporting import show_progress, verdict, writable_folder, write_csv
from mlestruct.inference import marginals
from mlestruct.structures import BipartiteMatching

SIDE = 10
GRAPHS = 10
SEED = 2015  # of the graphs
TEMPERATURES = (10.0, 0.25)  # inverse, of the traces
CALLS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
BETAS = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0)
MANY = 10_000  # MAP calls
RHOS = (1.0, 0.95, 0.5)
TOL = 1e-9  # gap of log Z_rho

FW, PLAIN, PERTURB = "FW", "FW, plain", "perturb-and-MAP"
METHODS = (FW, PLAIN, PERTURB)
LASTING = (PLAIN, PERTURB)  # cheap enough for many calls


@dataclass(frozen=True)
class MapCalls:
    """What `run` finds. All errors are lists over graphs.

    traces : by inverse temperature and method, errors after each number of `calls`
    limits : by curve, errors after `many` calls (or at the optimum) for each of `betas`
    standard_errors : the largest standard error of a marginal of perturb-and-MAP, of the same shape
    """

    graphs: int
    calls: list[int]
    traces: dict[str, dict[str, list[list[float]]]]
    betas: list[float]
    many: int
    limits: dict[str, list[list[float]]]
    standard_errors: list[list[float]]


# ---------------------------------------------------------------------- errors
def graph_weights(graph: int) -> np.ndarray:
    """Weights unif[0, 1] of all pairs."""
    return np.random.default_rng([SEED, graph]).random(SIDE * SIDE)


def exact_tau(scores: np.ndarray) -> np.ndarray:
    return marginals(BipartiteMatching((SIDE, SIDE)), scores, "exact").tau


def errors_by_calls(
    method: str, scores: np.ndarray, exact: np.ndarray, most: int, seed: int
) -> tuple[np.ndarray, Any]:
    """Errors after 1, ..., `most` MAP calls; where a method ends earlier, its last one stays."""
    errors = np.full(most + 1, np.nan)

    def watch(calls: int, tau: np.ndarray) -> bool:
        errors[calls] = np.abs(tau - exact).max()
        return calls >= most

    structure = BipartiteMatching((SIDE, SIDE), 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the calls are what is limited
        if method == PERTURB:
            answer = marginals(
                structure, scores, "perturb", n_samples=most, random_state=seed, callback=watch
            )
        else:
            variant = {"variant": "plain"} if method == PLAIN else {}
            answer = marginals(
                structure, scores, "fw", tol=TOL, max_iter=most, callback=watch, **variant
            )
    last = int(np.flatnonzero(np.isfinite(errors))[-1])
    errors[last:] = errors[last]
    return errors[1:], answer


def run(
    graphs: int = GRAPHS,
    calls: Sequence[int] = CALLS,
    betas: Sequence[float] = BETAS,
    many: int = MANY,
    progress: Callable[[str], Any] | None = None,
) -> MapCalls:
    """Traces at both temperatures, then errors after many calls across temperatures."""
    told = progress or (lambda text: None)
    weights = [graph_weights(graph) for graph in range(graphs)]
    kept = np.array(calls) - 1
    traces: dict[str, dict[str, list[list[float]]]] = {}
    for beta in TEMPERATURES:
        found: dict[str, list[list[float]]] = {name: [] for name in METHODS}
        for graph, w in enumerate(weights):
            exact = exact_tau(beta * w)
            for name in METHODS:
                errors, _ = errors_by_calls(name, beta * w, exact, max(calls), graph)
                found[name].append(errors[kept].tolist())
        traces[f"{beta:g}"] = found
        told(f"traces at beta = {beta:g}")
    curves = [*LASTING, *(f"optimum, rho = {rho:g}" for rho in RHOS)]
    limits: dict[str, list[list[float]]] = {name: [[] for _ in weights] for name in curves}
    noise: list[list[float]] = [[] for _ in weights]
    for beta in betas:
        for graph, w in enumerate(weights):
            exact = exact_tau(beta * w)
            for name in LASTING:
                errors, answer = errors_by_calls(name, beta * w, exact, many, graph)
                limits[name][graph].append(float(errors[-1]))
            noise[graph].append(float(answer.report["standard_error"].max()))
            for rho in RHOS:
                tau = marginals(BipartiteMatching((SIDE, SIDE), rho), beta * w, tol=TOL).tau
                limits[f"optimum, rho = {rho:g}"][graph].append(float(np.abs(tau - exact).max()))
        told(f"{many} calls at beta = {beta:g}")
    return MapCalls(graphs, list(calls), traces, list(betas), many, limits, noise)


# ---------------------------------------------------------------------- tables
def print_trace(beta: str, found: MapCalls) -> None:
    print(f"\nbeta = {beta}: largest error of a marginal, {found.graphs} graphs")
    print("  median (quartiles), and mean below")
    print(f"  {'MAP calls':>10}" + "".join(f"{name:>26}" for name in METHODS))
    tables = {name: np.array(found.traces[beta][name]) for name in METHODS}
    for k, calls in enumerate(found.calls):
        cells, means = "", ""
        for table in tables.values():
            low, middle, high = np.percentile(table[:, k], [25, 50, 75])
            cells += f"{f'{middle:.4f} ({low:.4f}-{high:.4f})':>26}"
            means += f"{f'mean {table[:, k].mean():.4f}':>26}"
        print(f"  {calls:>10}{cells}\n  {'':>10}{means}")


def print_limits(found: MapCalls) -> None:
    print(f"\nmean error after {found.many} MAP calls, and at the optimum of the entropy")
    heads = "".join(f"{f'{beta:g}':>9}" for beta in found.betas)
    print(f"  {'beta':<34}{heads}")
    for name, table in found.limits.items():
        cells = "".join(f"{value:>9.4f}" for value in np.mean(table, axis=0))
        print(f"  {name:<34}{cells}")
    cells = "".join(f"{value:>9.4f}" for value in np.mean(found.standard_errors, axis=0))
    print(f"  {PERTURB + ', standard error':<34}{cells}")


def not_below(
    ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]], places: Sequence[float]
) -> list[str]:
    """Where the mean of `ours` is not below that of `theirs`, and both."""
    one, other = np.mean(ours, axis=0), np.mean(theirs, axis=0)
    return [f"{place:g}: {a:.4f} against {b:.4f}"
            for place, a, b in zip(places, one, other, strict=True) if not a < b]  # fmt: skip


def verdicts(found: MapCalls) -> dict[str, bool]:
    print()
    held = {}
    for name in (FW, PLAIN):
        for beta, tables in found.traces.items():
            lost = not_below(tables[name], tables[PERTURB], found.calls)
            held[f"{name}, beta {beta}"] = verdict(
                f"beta = {beta}: mean error of {name} below perturb-and-MAP's at every number of "
                "calls",
                not lost,
                "not at " + "; ".join(lost) if lost else "",
            )
    for name in (PLAIN, "optimum, rho = 1"):
        lost = not_below(found.limits[name], found.limits[PERTURB], found.betas)
        held[f"{name}, all temperatures"] = verdict(
            f"after {found.many} calls: mean error of {name} below perturb-and-MAP's at every beta",
            not lost,
            "not at " + "; ".join(lost) if lost else "",
        )
    return held


# ---------------------------------------------------------------------- files
def write(found: MapCalls, held: dict[str, bool], folder: Path) -> None:
    """Numbers and the picture."""
    from mlestruct.plotting.inference import plot_map_calls

    rows = [
        ["trace", float(beta), name, graph, calls, error]
        for beta, tables in found.traces.items()
        for name, table in tables.items()
        for graph, errors in enumerate(table)
        for calls, error in zip(found.calls, errors, strict=True)
    ]
    rows += [
        ["limit", beta, name, graph, found.many if name in LASTING else "", error]
        for name, table in found.limits.items()
        for graph, errors in enumerate(table)
        for beta, error in zip(found.betas, errors, strict=True)
    ]
    head = ["part", "beta", "method", "graph", "calls", "error"]
    write_csv(folder / "perturb_and_map.csv", head, rows)
    numbers = asdict(found) | {"verdicts": held}
    (folder / "perturb_and_map.json").write_text(json.dumps(numbers, indent=1))
    traces = {f"inverse temperature {beta}": tables for beta, tables in found.traces.items()}
    figure = plot_map_calls(found.calls, traces, found.betas, found.limits)
    figure.savefig(folder / "perturb_and_map.png", dpi=150)
    print(f"\npicture and numbers: {folder}")


def main(arguments: list[str] | None = None) -> dict[str, bool]:
    parser = argparse.ArgumentParser(description="Frank-Wolfe against perturb-and-MAP")
    parser.add_argument("--graphs", type=int, default=GRAPHS, help="number of random graphs")
    parser.add_argument("--many", type=int, default=MANY, help="MAP calls across temperatures")
    parser.add_argument("--quick", action="store_true", help="2 graphs, few calls and temperatures")
    parser.add_argument("--out", default="results/perturb_and_map", help="folder of results")
    options = parser.parse_args(arguments)
    if options.graphs < 1 or options.many < 1:
        parser.error("--graphs, --many: at least 1")
    folder = writable_folder(parser, options.out)
    if options.quick:
        found = run(min(options.graphs, 2), CALLS[:7], (0.25, 1.0, 10.0), 300, show_progress)
    else:
        found = run(options.graphs, many=options.many, progress=show_progress)
    for beta in found.traces:
        print_trace(beta, found)
    print_limits(found)
    held = verdicts(found)
    write(found, held, folder)
    return held


if __name__ == "__main__":
    main()
