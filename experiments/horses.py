"""Weizmann horses: telling the pixels of a horse from those around it (the paper's grid CRFs).

The first 200 pictures train, the other 128 test; 4-connected binary grids, alpha = 3420, features
of `node_features` and `edge_features`. Compared, each on one thread:

    auto       the default solver, to a certified relative gap of 1e-3
    unary      no edges: logistic regression on all training pixels with the same node features and
               the same penalty (alpha/4 |w|^2 on the difference w of the two states' weights)
    bcfw       the paper's algorithm, fixed steps, and from the same run
    bcfw-wavg  the weighted average of its iterates
    trw10/40   L-BFGS on a likelihood truncated after 10 or 40 sweeps of message passing

A method leaves copies of its weights while it runs. What they are worth is found out afterwards
and not counted: the test error (mean over pictures of the share of wrong pixels) of the MAP
labelling and of marginals above 1/2, and how far their likelihood is from the optimum.

    python -m experiments.horses --data PATH --out DIR           # or set MLESTRUCT_DATA
    python -m experiments.horses --out DIR --methods bcfw        # some of them; added to DIR
    python -m experiments.horses --out DIR --report              # table and figures of DIR again
    python -m experiments.horses --out DIR --quick               # few small pictures

Run "auto" first: the others are then looked at after the time it took, and the memory reported is
the highest of the process up to the end of the method.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from mlestruct import GridCRF
from mlestruct.datasets import load_horses
from mlestruct.features import edge_features, node_features
from mlestruct.features.rows import DenseRows
from mlestruct.inference.grid_oracle import fits
from mlestruct.learning import BlockFrankWolfe, DualProblem
from mlestruct.learning.averaging import WeightedAverage
from mlestruct.plotting import plot_segmentation

METHODS = ("auto", "unary", "bcfw", "trw10", "trw40")
CURVES = ("auto", "unary", "bcfw", "bcfw-wavg", "trw10", "trw40")
N_TRAIN, N_TEST = 200, 128
PICTURE = 206  # horse207, the one that the paper shows
TARGET = 1e-3  # certified relative gap
FRACTIONS = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)  # of the budget, when weights are looked at
EARLY = 0.25  # of the time that "auto" takes
KEPT = 1.01  # weights are kept when this much time has passed, as a ratio
SWEEPS = 30  # of message passing when weights are looked at
FEW_SWEEPS = 5  # where scores are so large that sweeps are slow, and marginals all but 0 and 1

# Share of wrong pixels of picture 207, after minutes.
PUBLISHED = {"bcfw": ((9.2, 0.068), (222, 0.074)), "trw40": ((9.2, 0.249), (222, 0.109))}

# Okabe and Ito's colours, which readers with colour-blindness can tell apart.
COLOURS = dict(
    zip(CURVES, ("#000000", "#999999", "#d55e00", "#e69f00", "#56b4e9", "#0072b2"), strict=True)
)
MARKERS = dict(zip(CURVES, "os^v<>", strict=True))


# ---------------------------------------------------------------------- recording
@dataclass
class Trace:
    """Weights and certificates of a method, with CPU and wall seconds since it began."""

    weights: list[tuple[float, float, np.ndarray]] = field(default_factory=list)
    certificates: list[tuple[float, float, float, float]] = field(default_factory=list)
    began: tuple[float, float] = field(
        default_factory=lambda: (time.process_time(), time.perf_counter())
    )

    @property
    def seconds(self) -> tuple[float, float]:
        return time.process_time() - self.began[0], time.perf_counter() - self.began[1]

    def keep(self, theta: np.ndarray) -> tuple[float, float]:
        now = self.seconds
        self.weights.append((*now, theta.copy()))
        return now

    def keep_some(self, theta: np.ndarray) -> None:
        """The same, unless there are weights about as old."""
        if not self.weights or self.seconds[0] >= KEPT * self.weights[-1][0]:
            self.keep(theta)

    def __call__(self, progress: Any) -> None:
        """The callback of a solver; truncated message passing has no bounds to tell.

        Weights of zero are where a method starts, not something that it has found.
        """
        now = self.keep(progress.theta) if progress.theta.any() else self.seconds
        bounds = [getattr(progress, name, np.nan) for name in ("dual", "primal")]
        if np.isfinite(bounds).all():
            self.certificates.append((*now, float(bounds[0]), float(bounds[1])))

    def ending_with(self, theta: np.ndarray) -> Trace:
        """This trace, with the method's answer if it is not there yet."""
        if not self.weights or not np.array_equal(self.weights[-1][2], theta):
            self.keep(theta)
        return self

    def at(self, moments: list[float]) -> list[tuple[float, float, np.ndarray]]:
        """The last weights known at each of the moments (CPU seconds), and the last of all."""
        times = np.array([cpu for cpu, _, _ in self.weights])
        known = np.searchsorted(times, moments, side="right") - 1
        chosen = sorted({int(k) for k in known if k >= 0} | {len(times) - 1})
        return [self.weights[k] for k in chosen]


@dataclass(frozen=True)
class TracedBlockFrankWolfe(BlockFrankWolfe):
    """Block-coordinate Frank-Wolfe that shows its iterates between certificates."""

    iterates: Trace = field(default_factory=Trace)
    averages: Trace = field(default_factory=Trace)
    average: list[WeightedAverage] = field(default_factory=list)

    def _step(self, problem: DualProblem, state: Any, *rest: Any) -> float:
        gap = super()._step(problem, state, *rest)
        if not self.average:
            self.average.append(WeightedAverage(problem.n_features))
        theta = problem.theta(state.r)
        self.average[0].add(theta)
        self.iterates.keep_some(theta)
        self.averages.keep_some(self.average[0].value)
        return gap


# ---------------------------------------------------------------------- data
def sample(image: np.ndarray) -> tuple:
    return node_features(image), edge_features(image)


@dataclass
class Data:
    """Where the pictures are and which of them are used; training features are built once."""

    path: str | None
    train: int
    test: int
    max_side: int
    alpha: float

    def pictures(self, indices: Any, max_side: int | None = None) -> Any:
        return load_horses(self.path, max_side=max_side or self.max_side, indices=indices)

    def training(self) -> tuple[list, list]:
        horses = self.pictures(range(self.train))
        return [sample(image) for image in horses.images], horses.masks

    @property
    def tested(self) -> range:
        """Their features are made when they are needed, and not kept."""
        return range(N_TRAIN, N_TRAIN + self.test)

    @property
    def setting(self) -> dict:
        return {
            "train": self.train,
            "test": self.test,
            "max_side": self.max_side,
            "alpha": self.alpha,
        }


# ---------------------------------------------------------------------- methods
def run_auto(X: list, Y: list, alpha: float, budget: float) -> dict[str, Trace]:
    trace = Trace()
    model = GridCRF(alpha=alpha, tol=TARGET, max_time=budget, callback=trace).fit(X, Y)
    return {"auto": trace.ending_with(model.coef_)}


def run_bcfw(X: list, Y: list, alpha: float, budget: float) -> dict[str, Trace]:
    solver = TracedBlockFrankWolfe(step="fixed")
    model = GridCRF(
        alpha=alpha,
        solver=solver,
        tol=TARGET,
        max_iter=10**6,
        max_time=budget,
        callback=solver.iterates,
        random_state=0,
    )
    model.fit(X, Y)
    average = solver.average[0].value if solver.average else model.coef_
    return {"bcfw": solver.iterates, "bcfw-wavg": solver.averages.ending_with(average)}


def run_truncated(X: list, Y: list, alpha: float, budget: float, n_sweeps: int) -> dict[str, Trace]:
    from mlestruct.baselines import TruncatedTRW

    trace = Trace()
    model = TruncatedTRW(alpha=alpha, n_sweeps=n_sweeps, max_time=budget, callback=trace)
    model.fit(X, Y)
    return {f"trw{n_sweeps}": trace.ending_with(model.coef_)}


def run_unary(X: list, Y: list, alpha: float) -> dict[str, Trace]:
    """The CRF without edges, whose two weight vectors are -w/2 and w/2."""
    trace = Trace()
    w = logistic_regression([DenseRows(_matrix(x)) for x, _ in X], [y.ravel() for y in Y], alpha)
    n_edge_features = sum(part.n_features for part in X[0][1])
    trace.keep(np.concatenate([-0.5 * w, 0.5 * w, np.zeros(4 * n_edge_features)]))
    return {"unary": trace}


def logistic_regression(
    rows: list[DenseRows], labels: list[np.ndarray], alpha: float, rtol: float = 1e-6
) -> np.ndarray:
    """Weights minimising the logistic loss of all rows + alpha/4 |w|^2, by Newton's method.

    The loss is certain to be within a part `rtol` of the least: |gradient|^2 / alpha bounds it.
    """
    w = last = np.zeros(rows[0].n_features)
    least = np.inf
    for _ in range(100):
        loss, gradient = 0.25 * alpha * float(w @ w), 0.5 * alpha * w
        hessian = 0.5 * alpha * np.eye(w.shape[0])
        for part, label in zip(rows, labels, strict=True):
            scores = part.scores(w)
            p = expit(scores)
            loss += float(np.logaddexp(0.0, scores).sum() - scores[label == 1].sum())
            gradient = gradient + part.moments(p - label)
            spread = (p * (1.0 - p)).astype(part.matrix.dtype)
            hessian += part.matrix.T @ (part.matrix * spread[:, None])
        if loss > least:  # too far
            w = 0.5 * (w + last)
            continue
        if gradient @ gradient <= rtol * alpha * loss:
            break
        last, least = w, loss
        w = w - np.linalg.solve(hessian, gradient)
    return w


def _matrix(pixels: np.ndarray) -> np.ndarray:
    return pixels.reshape(-1, pixels.shape[2])


def run(method: str, X: list, Y: list, alpha: float, budget: float) -> dict[str, Trace]:
    """The curves that `method` gives."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the table tells
        if method == "auto":
            return run_auto(X, Y, alpha, budget)
        if method == "unary":
            return run_unary(X, Y, alpha)
        if method == "bcfw":
            return run_bcfw(X, Y, alpha, budget)
        return run_truncated(X, Y, alpha, budget, int(method.removeprefix("trw")))


# ---------------------------------------------------------------------- what weights are worth
class Judge:
    """Predictions and likelihood of any weights.

    Works on blocks instead of calling the estimator, to bound the sweeps: weights far from the
    optimum would take thousands, and their errors do not depend on the last digits.
    """

    def __init__(self, data: Data, methods: Any = ()):
        """Compiles, on two small pictures, what `methods` need, so that it is not timed."""
        self.data = data
        horses = data.pictures(range(2), max_side=24)
        X = [sample(image) for image in horses.images]
        for method in methods:
            run(method, X, horses.masks, data.alpha, 0.5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.model = GridCRF(alpha=data.alpha, max_iter=1).fit(X, horses.masks)

    def problem(self, X: list, Y: list) -> DualProblem:
        return self.model._problem(X, Y, None)

    def marginals(self, x: Any, theta: np.ndarray) -> np.ndarray:
        """P(horse) of every pixel."""
        block = self.model._prepare([x])[0]
        found = self._marginals(block, block.scores(theta), 1e-4)
        return found.tau[: block.structure.graph.n_nodes].reshape(x[0].shape[:2])

    def errors(self, k: int, thetas: list) -> np.ndarray:
        """Shares of wrong pixels of a picture, MAP and marginals, shape (n_thetas, 2)."""
        horses = self.data.pictures([k])
        block = self.model._prepare([sample(horses.images[0])])[0]
        truth = horses.masks[0].ravel()
        found = []
        for theta in thetas:
            scores = block.scores(theta)
            label = block.structure.best_label(scores)
            above = self._marginals(block, scores, 1e-4).tau[: truth.shape[0]] > 0.5
            found.append((np.mean(label != truth), np.mean(above != truth)))
        return np.array(found)

    def likelihood(self, problem: DualProblem, theta: np.ndarray) -> float:
        """A proven lower bound of P(theta), the regularised approximate log-likelihood."""

        def log_partition(block: Any) -> float:
            return block.weight * self._marginals(block, block.scores(theta), 1e-6).upper_bound

        return problem.primal(theta, sum(self.each(log_partition, problem.blocks)))

    def each(self, function: Any, items: Any) -> list:
        """On all cores: nothing is timed here."""
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(function, items))

    def _marginals(self, block: Any, scores: np.ndarray, tol: float) -> Any:
        structure = block.structure
        n_sweeps = SWEEPS if fits(structure.graph.grid_shape, scores) else FEW_SWEEPS
        return structure.marginals(scores, None, tol * structure.n_coordinates, n_sweeps)


def judged(
    traces: dict[str, Trace], moments: list[float], judge: Judge, problem: DualProblem
) -> dict[str, list[dict]]:
    """Of each trace the weights at the moments, with their errors and likelihoods."""
    picked = [(name, *entry) for name, trace in traces.items() for entry in trace.at(moments)]
    thetas = [theta for _, _, _, theta in picked]
    tested = judge.each(lambda k: judge.errors(k, thetas), judge.data.tested)
    errors = np.mean(tested, axis=0)
    found: dict[str, list[dict]] = {name: [] for name in traces}
    for (name, cpu, wall, theta), (by_map, by_marginals) in zip(picked, errors, strict=True):
        found[name].append(
            {
                "cpu": cpu,
                "wall": wall,
                "map_error": float(by_map),
                "marginal_error": float(by_marginals),
                "primal": judge.likelihood(problem, theta),
                "theta": theta.tolist(),
            }
        )
    return found


# ---------------------------------------------------------------------- results of several calls
class Results:
    """What is known so far, in `folder`/results.json."""

    def __init__(self, folder: Path):
        self.file = folder / "results.json"
        self.setting: dict = {}
        self.curves: dict[str, dict] = {}
        if self.file.is_file():
            stored = json.loads(self.file.read_text())
            self.setting, self.curves = stored["setting"], stored["curves"]

    def check(self, setting: dict) -> None:
        if self.curves and self.setting != setting:
            raise SystemExit(
                f"{self.file} holds results of {self.setting}, not of {setting}: "
                "choose another --out, or remove it"
            )
        self.setting = setting

    def add(self, name: str, trace: Trace, snapshots: list[dict], memory: float) -> None:
        self.curves[name] = {
            "certificates": [list(row) for row in trace.certificates],
            "snapshots": snapshots,
            "memory_gb": memory,
        }
        self.file.write_text(json.dumps({"setting": self.setting, "curves": self.curves}))

    @property
    def best_dual(self) -> float:
        """The least upper bound of the optimum that any method has proven."""
        duals = [row[2] for curve in self.curves.values() for row in curve["certificates"]]
        return min(duals, default=np.nan)

    @property
    def scale(self) -> float:
        """Gaps are relative to this."""
        return max(1.0, abs(self.best_dual))

    def own_gap(self, name: str, cpu: float) -> float:
        """The relative gap that the method itself had certified by then."""
        gaps = [d - p for at, _, d, p in self.curves[name]["certificates"] if at <= cpu]
        return gaps[-1] / self.scale if gaps else np.nan

    def shortfall(self, snapshot: dict) -> float:
        """How far the weights are from the optimum at most, relative; the same for all methods."""
        return (self.best_dual - snapshot["primal"]) / self.scale

    def at(self, name: str, cpu: float) -> dict | None:
        """The last known weights at a moment."""
        known = [s for s in self.curves[name]["snapshots"] if s["cpu"] <= cpu]
        return known[-1] if known else None

    @property
    def reached(self) -> tuple[float, float] | None:
        """CPU and wall seconds of "auto" to the wanted certificate."""
        return first_within(self.curves.get("auto", {}).get("certificates", []))


def first_within(certificates: list) -> tuple[float, float] | None:
    """CPU and wall seconds of the first certificate of the wanted gap."""
    for cpu, wall, dual, primal in certificates:
        if dual - primal <= TARGET * max(1.0, min(abs(dual), abs(primal))):
            return cpu, wall
    return None


def moments_of(budget: float, reached: tuple[float, float] | None) -> list[float]:
    """CPU seconds at which weights are looked at."""
    found = {fraction * budget for fraction in FRACTIONS}
    if reached is not None:
        found |= {EARLY * reached[0], reached[0]}
    return sorted(found)


# ---------------------------------------------------------------------- report
def print_table(results: Results) -> None:
    setting = ", ".join(f"{key} {value:g}" for key, value in results.setting.items())
    print(f"\nhorses: {setting}")
    print("error: mean share of wrong test pixels, of the MAP labelling and of marginals > 1/2")
    print("gap: certified by the method itself; shortfall: optimum - likelihood at most, evaluated")
    print(f"afterwards; both relative to the optimum, {results.best_dual:.6g}\n")
    print(
        f"{'method':<11}{'CPU s':>9}{'wall s':>9}{'MAP err':>9}{'marg err':>9}"
        f"{'gap':>10}{'shortfall':>11}{'GB':>6}"
    )
    for name in (c for c in CURVES if c in results.curves):
        curve = results.curves[name]
        for k, s in enumerate(curve["snapshots"]):
            last = k == len(curve["snapshots"]) - 1
            print(
                f"{name if k == 0 else '':<11}{s['cpu']:>9.2f}{s['wall']:>9.2f}"
                f"{s['map_error']:>9.4f}{s['marginal_error']:>9.4f}"
                f"{_number(results.own_gap(name, s['cpu'])):>10}"
                f"{_number(results.shortfall(s)):>11}"
                + (f"{curve['memory_gb']:>6.1f}" if last else "")
            )


def _number(value: float) -> str:
    return f"{value:.1e}" if np.isfinite(value) else "-"


def print_summary(results: Results) -> None:
    curves, reached = results.curves, results.reached
    if "auto" in curves:
        end = curves["auto"]["snapshots"][-1]
        print()
        if reached is None:
            print(f"auto: no certified gap of {TARGET:g} within {end['cpu']:.1f} CPU s")
        else:
            print(
                f"auto: certified relative gap of {TARGET:g} after {reached[0]:.1f} CPU s "
                f"({reached[1]:.1f} s on the clock), test error {end['map_error']:.4f} "
                f"(MAP), {end['marginal_error']:.4f} (marginals); "
                f"at most {curves['auto']['memory_gb']:.2f} GB, features included"
            )
            for name in ("bcfw", "bcfw-wavg", "trw10", "trw40"):
                if name in curves:
                    print(f"{name} after the same time: {_state(results, name, reached[0])}")
        if "unary" in curves:
            for key, kind in (("map_error", "MAP"), ("marginal_error", "marginals")):
                unary, crf = curves["unary"]["snapshots"][-1][key], end[key]
                print(
                    f"margin of auto over unary, {kind}: {unary:.4f} - {crf:.4f} = "
                    f"{unary - crf:.4f} ({(unary - crf) / unary:.0%} of the unary error)"
                )


def _state(results: Results, name: str, cpu: float) -> str:
    s = results.at(name, cpu)
    if s is None:
        return "nothing yet"
    own = results.own_gap(name, cpu)
    proven = f"certified gap {_number(own)}, " if np.isfinite(own) else ""
    return (
        f"{proven}shortfall {_number(results.shortfall(s))}, test error {s['map_error']:.4f} "
        f"(weights of {s['cpu']:.1f} CPU s)"
    )


def draw_progress(results: Results) -> Any:
    """Gap and test error against time."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    figure = Figure(figsize=(10.0, 4.2), layout="constrained")
    figure.set_facecolor("white")
    left, right = figure.subplots(1, 2, sharex=True)
    for name in (c for c in CURVES if c in results.curves):
        curve = results.curves[name]
        shots = curve["snapshots"]
        cpu = [s["cpu"] for s in shots]
        style = {"color": COLOURS[name], "marker": MARKERS[name], "markersize": 4, "label": name}
        error = [s["map_error"] for s in shots]
        if name == "unary":
            right.axhline(error[-1], color=COLOURS[name], linestyle="--", label=name)
            continue
        short = [results.shortfall(s) for s in shots]
        left.plot(cpu, short, **style)
        right.plot(cpu, error, **style)
        if curve["certificates"]:
            at, _, dual, primal = np.array(curve["certificates"]).T
            gap = (dual - primal) / results.scale
            left.plot(at, gap, color=COLOURS[name], linestyle=":", linewidth=1.2)
    left.set_yscale("log")
    left.set_title("From the optimum, relative (dotted: own certificate)", fontsize=10, loc="left")
    right.set_title("Test error, mean over pictures (MAP)", fontsize=10, loc="left")
    for axes in (left, right):
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")
        axes.set_xlabel("CPU seconds")
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    right.legend(fontsize=8, frameon=False)
    return figure


def draw_picture(results: Results, data: Data) -> Any:
    """Marginals of picture 207 after equal times."""
    horses = data.pictures([PICTURE])
    image, mask = horses[0]
    x = sample(image)
    judge = Judge(data)
    reached = results.reached
    end = max(c["snapshots"][-1]["cpu"] for n, c in results.curves.items() if n != "unary")
    top = end if reached is None else reached[0]
    moments = [EARLY * top, top] + ([end] if end > 2.0 * top else [])
    columns: dict[str, list] = {}
    for name in (c for c in CURVES if c in results.curves):
        known = [
            results.curves[name]["snapshots"][-1] if name == "unary" else results.at(name, cpu)
            for cpu in moments
        ]
        columns[name] = [
            None if s is None else judge.marginals(x, np.array(s["theta"])) for s in known
        ]
    print(f"\n{horses.names[0]}: share of wrong pixels, marginals > 1/2")
    print(f"{'CPU s':<11}" + "".join(f"{cpu:>9.1f}" for cpu in moments))
    for name, found in columns.items():
        shares = ["-" if p is None else f"{np.mean((p > 0.5) != mask):.4f}" for p in found]
        published = PUBLISHED.get(name, ())
        beside = ", ".join(f"{value:g} after {minutes:g} min" for minutes, value in published)
        note = f"   (published: {beside})" if beside else ""
        print(f"{name:<11}" + "".join(f"{share:>9}" for share in shares) + note)
    return plot_segmentation(image, columns, mask, [f"{cpu:.3g} CPU s" for cpu in moments])


def report(results: Results, data: Data, folder: Path) -> None:
    print_table(results)
    print_summary(results)
    draw_progress(results).savefig(folder / "progress.png", dpi=150)
    draw_picture(results, data).savefig(folder / "picture207.png", dpi=150)
    print(f"\n{folder / 'progress.png'} and {folder / 'picture207.png'} written", flush=True)


def compare(methods: list[str], data: Data, budget: float, results: Results) -> None:
    """Run the methods one after the other; the results of each are stored before the next."""
    judge = Judge(data, methods)
    began = time.perf_counter()
    X, Y = data.training()
    n_pixels = sum(y.size for y in Y)
    n_bytes = sum(x.nbytes + sum(part.nbytes for part in edges) for x, edges in X)
    print(
        f"{len(X)} training pictures, {n_pixels:,} pixels, {n_bytes / 1e9:.2f} GB of features, "
        f"made in {time.perf_counter() - began:.0f} s",
        flush=True,
    )
    for method in methods:
        print(f"{method} ...", end=" ", flush=True)
        traces = run(method, X, Y, data.alpha, budget)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9  # Linux: kB
        cpu, wall = next(iter(traces.values())).weights[-1][:2]
        print(f"{cpu:.1f} CPU s, {wall:.1f} s; evaluating ...", end=" ", flush=True)
        began = time.perf_counter()
        reached = first_within(traces["auto"].certificates) if "auto" in traces else results.reached
        moments = moments_of(budget, reached)
        for name, snapshots in judged(traces, moments, judge, judge.problem(X, Y)).items():
            results.add(name, traces[name], snapshots, memory)
        print(f"{time.perf_counter() - began:.0f} s", flush=True)


# ---------------------------------------------------------------------- from the command line
def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Segmenting the Weizmann horses")
    parser.add_argument("--data", help="folder with weizmann_horses/ (default: $MLESTRUCT_DATA)")
    parser.add_argument(
        "--train", type=int, default=N_TRAIN, help="training pictures, from the 1st"
    )
    parser.add_argument("--test", type=int, default=N_TEST, help="test pictures, from the 201st")
    parser.add_argument("--max-side", type=int, default=200)
    parser.add_argument("--alpha", type=float, default=3420.0)
    parser.add_argument("--budget", type=float, default=600.0, help="seconds for each method")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--out", default="horses", help="folder of results and figures")
    parser.add_argument("--report", action="store_true", help="only draw what --out holds")
    parser.add_argument("--quick", action="store_true", help="12 + 6 small pictures, few seconds")
    options = parser.parse_args(arguments)
    if options.quick:
        parser.set_defaults(train=12, test=6, max_side=60, alpha=20.0, budget=3.0)
        options = parser.parse_args(arguments)
    if not (1 <= options.train <= N_TRAIN and 1 <= options.test <= N_TEST):
        parser.error(f"--train must be 1 to {N_TRAIN}, --test 1 to {N_TEST}")
    folder = Path(options.out)
    results = Results(folder)
    if options.report:
        if not results.curves:
            parser.error(f"--report: {results.file} holds no results")
        report(results, Data(options.data, **results.setting), folder)
        return
    data = Data(options.data, options.train, options.test, options.max_side, options.alpha)
    results.check(data.setting)
    folder.mkdir(parents=True, exist_ok=True)
    methods = [method for method in METHODS if method in options.methods]
    with threadpool_limits(limits=1, user_api="blas"):
        compare(methods, data, options.budget, results)
    report(results, data, folder)


if __name__ == "__main__":
    main()
