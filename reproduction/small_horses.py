"""Small grid CRFs: two double loops that are let run, beside the certified optimum.

The first pictures of the Weizmann horses, at most 48 pixels wide, with the paper's penalty for each
pixel. On them run

    gradient ascent  with messages to convergence at every step, for several rates of steps
                     rate / (alpha sqrt(t)): the paper's naive double loop
    trw10/20/40      truncated TRW (truncated_trw.py), until L-BFGS ends by its own criteria
"""

import time
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from .horses import HORSES, SMALL, compile_method, likelihood, model, training, why_not_real
from .runner import Claim, Report, Table, listed
from .truncated_trw import fit_truncated

TITLE = "Small grid CRFs: gradient ascent and truncated TRW, let run until they end"
PLACE = "section on grid CRFs: the naive double loop, and what domke10 converges to"
SOLVERS = (
    "The optimum is certified by auto (L-BFGS over marginals). Truncated TRW after Domke (2013) is "
    "truncated_trw.py: reverse-mode derivatives, beliefs not projected, SciPy's L-BFGS."
)
USABLE = 0.01  # a relative distance from the optimum that a usable learner reaches
PATIENCE = 5.0  # how many times auto's CPU seconds is too slow


def setting(quick):
    """Without the real pictures the run is the quick one."""
    why = "quick" if quick else why_not_real()
    own = {"tol": 1e-6, "pixels_per_alpha": HORSES["pixels"], "sweeps": [10, 20, 40]}
    own |= {"rates": [0.1, 0.01, 1e-3, 1e-4, 1e-5], "seconds": 6.0, "budget": 1800.0}
    if not why:
        return {**HORSES, **own, "train": 4, "max_side": 48}
    quick = {"train": 3, "rates": [0.01, 1e-3], "seconds": 0.5, "budget": 10.0}
    return {**SMALL, **own, "why": why, "pixels_per_alpha": 24_000, **quick}


def parts(setting):
    loops = {f"rate {r:g}": partial(gradient_ascent, setting, r) for r in setting["rates"]}
    rivals = {f"trw{n}": partial(truncated, setting, n) for n in setting["sweeps"]}
    return {"optimum": partial(optimum, setting), **loops, **rivals}


def report(setting, found):
    loops, rivals = Loops(setting, found), Rivals(setting, found)
    best = found["optimum"]
    return Report(
        tables=[loops.table(), rivals.table()],
        claims=[loops.claim(), *rivals.claims()],
        summary=[
            f"{setting['train']} pictures, {best['pixels']:,} pixels. auto proves the optimum to "
            f"{(best['high'] - best['low']) / abs(best['high']):.1g} in "
            f"{best['seconds']:.3g} CPU s."
        ],
    )


# ---------------------------------------------------------------------- runs
def small_problem(setting):
    X, Y = training(setting)
    pixels = sum(y.size for y in Y)
    return X, Y, setting["alpha"] * pixels / setting["pixels_per_alpha"]


def optimum(setting):
    X, Y, alpha = small_problem(setting)
    compile_method("auto", setting["hog"], setting["alpha"])
    with threadpool_limits(limits=1, user_api="blas"):
        began = time.process_time()
        auto = model(alpha, tol=setting["tol"]).fit(X, Y)
        seconds = time.process_time() - began
    low, high = auto.objective_, auto.objective_bound_
    return {"low": low, "high": high, "seconds": seconds, "pixels": sum(y.size for y in Y)}


def gradient_ascent(setting, rate):
    """CPU seconds and P(theta) after every step; messages of a picture go on from its last ones."""
    X, Y, alpha = small_problem(setting)
    problem = model(alpha)._problem(X, Y)
    warm = [None] * len(problem.blocks)
    theta, rows = np.zeros(problem.n_features), []
    with threadpool_limits(limits=1, user_api="blas"):
        began = time.process_time()
        for t in range(1, 10**6):
            log_partition, expected = 0.0, np.zeros_like(theta)
            for m, block in enumerate(problem.blocks):
                tol = 1e-6 * block.structure.n_coordinates
                found = block.structure.marginals(block.scores(theta), warm[m], tol)
                warm[m] = found.warm
                log_partition += block.weight * found.upper_bound
                expected += block.weight * block.moments(found.tau)
            value = problem.primal(theta, log_partition)
            rows.append([time.process_time() - began, value])
            if rows[-1][0] >= setting["seconds"] or not np.isfinite(value):
                return rows
            gradient = problem.target - expected - problem.alpha * theta
            theta = theta + rate / (problem.alpha * t**0.5) * gradient


def truncated(setting, n_sweeps):
    """CPU seconds and surrogate after every iteration, and whether L-BFGS ended by itself."""
    X, Y, alpha = small_problem(setting)
    problem, rows = model(alpha)._problem(X, Y), []
    compile_method(f"trw{n_sweeps}", setting["hog"], setting["alpha"])
    with threadpool_limits(limits=1, user_api="blas"):
        began = time.process_time()

        def watch(iteration, theta, value):
            rows.append([time.process_time() - began, value])
            return rows[-1][0] >= setting["budget"]

        theta, ended = fit_truncated(problem, n_sweeps, watch)
    return {"rows": rows, "ended": ended, "likelihood": likelihood(problem, theta)}


# ---------------------------------------------------------------------- the naive double loop
class Loops:
    def __init__(self, setting, found):
        best = found["optimum"]
        self.limit = PATIENCE * best["seconds"]
        self.rows = []
        for rate in setting["rates"]:
            steps = found[f"rate {rate:g}"]
            values = np.array([np.nan if v is None else v for t, v in steps if t <= self.limit])
            least = (best["high"] - np.nanmax(values)) / abs(best["high"])
            falls = bool(np.isnan(values).any() or (values[1:] < values[0]).any())
            self.rows.append([rate, len(values), steps[-1][0], least, falls])

    def table(self):
        title = f"Gradient ascent: least relative distance of P within {self.limit:.3g} CPU s"
        head = ["rate", "steps", "CPU s of the run", "distance", "falls below its start"]
        return Table("double-loop", title, head, self.rows)

    def claim(self):
        distances = {f"rate {row[0]:g}": row[3] for row in self.rows}
        long_enough = all(row[2] >= self.limit or row[4] for row in self.rows)
        usable = min(distances.values()) <= USABLE
        return Claim(
            "Subgradient ascent with belief propagation is too slow and unstable even for small "
            f"problems (our thresholds: no rate comes within {USABLE:g} of the optimum in "
            f"{PATIENCE:g} times auto's CPU time)",
            None if not usable and not long_enough else not usable,
            f"distances {listed(distances, '.2g')}; {sum(row[4] for row in self.rows)} of "
            f"{len(self.rows)} rates fall below their start",
            "" if long_enough else "budget",
        )


# ---------------------------------------------------------------------- truncated TRW
class Rivals:
    def __init__(self, setting, found):
        best = found["optimum"]
        self.size, self.gap = abs(best["high"]), best["high"] - best["low"]
        self.names = [f"trw{n}" for n in setting["sweeps"]]
        self.found, self.best = found, best

    def distances(self, name):
        """Of the surrogate from the optimum after each iteration, relative."""
        return [(row[1] - self.best["high"]) / self.size for row in self.found[name]["rows"]]

    def table(self):
        rows = []
        for name in self.names:
            run = self.found[name]
            short = (self.best["high"] - run["likelihood"]) / self.size
            rows.append([name, len(run["rows"]) - 1, run["rows"][-1][0], self.distances(name)[-1],
                         short, run["ended"]])  # fmt: skip
        title = (
            "Truncated TRW at its end: its own objective minus the optimum, and how far P of "
            "its weights is below the optimum, both relative"
        )
        head = ["method", "iterations", "CPU s", "objective", "weights", "ended by itself"]
        return Table("truncated", title, head, rows)

    def claims(self):
        """L-BFGS never goes down, so a run above the optimum has crossed it for good."""
        error = self.gap / self.size
        ends = {name: self.distances(name)[-1] for name in self.names}
        settled = {name: self.found[name]["ended"] or end > error for name, end in ends.items()}
        told = ", ".join(
            f"{name} {end:+.2g}{'' if self.found[name]['ended'] else ' (not ended)'}"
            for name, end in ends.items()
        )
        measured = f"objective minus the optimum, relative: {told}; proven to {error:.1g}"
        first = self.names[0]
        crosses = min(self.distances(first)) < -error < error < ends[first]
        elsewhere = any(settled[name] and abs(end) > error for name, end in ends.items())
        return [
            Claim(
                "domke10 intersects the optimal value and does not converge to it (small pictures)",
                bool(crosses) if settled[first] else None,
                measured,
                "budget",
            ),
            Claim(
                "For no finite number of sweeps is truncated TRW guaranteed to converge to the "
                "optimum (small pictures: a run that ends elsewhere)",
                True if elsewhere else None,
                measured,
                "budget",
            ),
        ]
