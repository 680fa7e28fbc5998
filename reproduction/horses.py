"""Weizmann horses: telling the pixels of a horse from those around it (the paper's grid CRFs).

The first 200 pictures train, the other 128 test; 4-connected binary grids, alpha = 3420. Methods,
each on one thread and for the same CPU time:

    auto         the default solver (L-BFGS over marginals), until its certificate
    unary        no edges, which is logistic regression on all training pixels, with this penalty
    bcfw         `BlockFrankWolfe(step="fixed")`, Algorithm 1, and from the same run
    bcfw-wavg    the weighted average of its iterates
    bcfw-search  `BlockFrankWolfe(step="line_search")`
    trw10/20/40  L-BFGS on a likelihood truncated after 10, 20 or 40 sweeps of message passing

A method leaves copies of its weights while it runs. They are evaluated afterwards, which is not
counted: the test error (share of wrong pixels of each picture) of marginals above 1/2, and of the
last weights also the error of the MAP labelling and the likelihood. Which copies are evaluated is
fixed beforehand by moments of CPU time, so that the parts do not depend on each other.
"""

import os
import time
import warnings
from base64 import b64decode, b64encode
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from mlestruct import GridCRF
from mlestruct.datasets import data_folder, load_horses, make_segmentation
from mlestruct.learning import LBFGS, BlockFrankWolfe
from mlestruct.learning.frank_wolfe import WeightedAverage
from mlestruct.plotting.style import COLOURS, GREY, clean_axes, new_figure, no_axes

from .horse_features import edge_features, node_features
from .runner import Claim, Comparison, Picture, Report, Table, is_less, listed
from .truncated_trw import fit_truncated

TITLE = "Grid CRFs for image segmentation: objective and test error by time"
PLACE = "section on grid CRFs, both figures"
SOLVERS = (
    "bcfw is Algorithm 1, BlockFrankWolfe(step='fixed'), bcfw-wavg the weighted average of its "
    "iterates and bcfw-search the same with line searches; auto is L-BFGS over marginals; "
    "trw10, trw20 and trw40 stand for domke10, domke20 and domke40: truncated TRW "
    "(truncated_trw.py) after Domke (2013), differentiated through its sweeps, with SciPy's "
    "L-BFGS; pictures and features are made anew."
)
METHODS = ("auto", "unary", "bcfw", "trw40", "trw10", "bcfw-search", "trw20")
CURVES = ("auto", "unary", "bcfw", "bcfw-wavg", "bcfw-search", "trw10", "trw20", "trw40")
PAPER, AVERAGED, SEARCH = "bcfw", "bcfw-wavg", "bcfw-search"
SHORT, _, RIVAL = RIVALS = ("trw10", "trw20", "trw40")
REAL, GENERATED = "weizmann_horses", "generated"

MINUTES = 9.2  # in which the rival makes an iteration, and the paper's algorithm 60 passes
HOURS, RIVAL_HOURS = 3.7, 8.2  # after which the paper's algorithm and the rival end
ITERATIONS = (1, 24)  # of the rival, in 9.2 minutes and in 3.7 hours
BCFW_ERRORS = (0.068, 0.074)  # on picture 207, after 9.2 minutes and after 3.7 hours
RIVAL_ERRORS = (0.249, 0.109, 0.0813)  # the same, and after 8.2 hours

HORSES = {
    "data": REAL, "train": 200, "test": 128, "max_side": 200, "hog": True, "alpha": 3420.0,
    "budget": 3600.0, "picture": 206, "halvings": 10, "between": 4, "pixels": 6_127_600,
}  # fmt: skip
SMALL = {
    "data": GENERATED, "train": 12, "test": 6, "shape": [[36, 44], [46, 54]],
    "seed": 0, "hog": False, "alpha": 20.0, "budget": 1.2, "picture": 12, "halvings": 4,
    "between": 1,
}  # fmt: skip


def setting(quick):
    """Budget and moments are CPU seconds. Without the real pictures the run is the quick one."""
    why = "quick" if quick else why_not_real()
    return with_moments({**SMALL, "why": why} if why else HORSES)


def with_moments(setting):
    """With the moments at which weights are evaluated: the budget, halved "halvings" times.

    The picture that is shown is evaluated more often, "between" times for each halving.
    """
    budget, halvings, between = setting["budget"], setting["halvings"], setting["between"]
    return {
        **setting,
        "tol": 1e-3,
        "moments": sorted(budget / 2.0**k for k in range(halvings + 1)),
        "path": sorted(budget / 2.0 ** (k / between) for k in range(halvings * between + 1)),
        "shown": [fraction * budget for fraction in (1 / 16, 1 / 4, 1.0)],
        "iterations": list(ITERATIONS),
    }


def why_not_real():
    """Why the real pictures cannot be used; empty if they can."""
    missing = [name for name in ("PIL", "skimage") if find_spec(name) is None]
    if missing:
        return f"{' and '.join(missing)} not installed (pip install 'mlestruct[images]')"
    try:
        found = (data_folder() / REAL / "rgb").is_dir()
    except FileNotFoundError:
        return "MLESTRUCT_DATA does not name a folder with data"
    return "" if found else f"the folder of MLESTRUCT_DATA has no {REAL}"


def parts(setting):
    return {
        "picture": partial(shown_picture, setting),
        **{method: partial(run_method, setting, method) for method in METHODS},
    }


def report(setting, found):
    results = Results(setting, found)
    errors = results.end("auto")["errors"]
    place = 1 + sum(error < errors[setting["picture"] - setting["train"]] for error in errors)
    return Report(
        tables=[methods_table(results), picture_table(results)],
        claims=[
            *objective_claims(results),
            *test_error_claims(results),
            *picture_claims(results),
            certificate_claim(results),
        ],
        pictures=[progress_picture(results), marginals_picture(results)],
        comparisons=comparisons(results) if setting["data"] == REAL else [],
        summary=[
            f"{setting['train']} training pictures with {found['auto']['pixels']:,} pixels, "
            f"{setting['test']} test pictures; times are CPU seconds of one thread, at most "
            f"{setting['budget']:g} for each method. {results.picture.capitalize()} is number "
            f"{place} of {len(errors)} from the easiest (errors of auto)."
        ],
    )


# ---------------------------------------------------------------------- pictures
def load(setting, indices):
    """Photographs and the pixels of the figure on them."""
    if setting["data"] == REAL:
        horses = load_horses(max_side=setting["max_side"], indices=indices)
        return horses.images, horses.masks
    n_images, shape = setting["train"] + setting["test"], tuple(map(tuple, setting["shape"]))
    images, masks = generated(n_images, shape, setting["seed"])
    return [images[k] for k in indices], [masks[k] for k in indices]


@cache
def generated(n_images, shape, seed):
    return make_segmentation(n_images, shape, random_state=seed)


def features(setting, image):
    """What a `GridCRF` is given of a picture."""
    return node_features(image, setting["hog"]), edge_features(image)


def training(setting):
    images, masks = load(setting, range(setting["train"]))
    return [features(setting, image) for image in images], masks


def held_out(setting):
    return range(setting["train"], setting["train"] + setting["test"])


def model(alpha, **options):
    return GridCRF(alpha=alpha, fit_intercept=False, **options)


def shown_picture(setting):
    images, masks = load(setting, [setting["picture"]])
    return {"image": encoded(images[0]), "mask": encoded(masks[0])}


def encoded(values):
    """Numbers from 0 to 1 in steps of 1/255, as text; those above 1/2 stay above it."""
    levels = np.rint(255 * np.clip(values, 0.0, 1.0)).astype(np.uint8)
    return {"shape": levels.shape, "levels": b64encode(levels.tobytes()).decode("ascii")}


def decoded(stored):
    """What `encoded` was given, to 1/510."""
    levels = np.frombuffer(b64decode(stored["levels"]), dtype=np.uint8)
    return levels.reshape(stored["shape"]) / 255


# ---------------------------------------------------------------------- methods
@dataclass(frozen=True)
class Weights:
    """A copy of the weights, with CPU seconds and iterations since the method began."""

    cpu: float
    iteration: int
    theta: np.ndarray


class Trace:
    """What a method leaves while it runs.

    budget : CPU seconds after which the method is to stop
    weights : in the order of time
    values : CPU seconds, iteration and objective: L(tau) of the current iterate of Frank-Wolfe, the
        best L so far of auto, and of truncated message passing its own objective, which is no bound
    certificates : CPU seconds, upper and lower bound of the optimum
    """

    def __init__(self, budget=np.inf):
        self.budget, self.began = budget, time.process_time()
        self.weights, self.values, self.certificates = [], [], []

    @property
    def cpu(self):
        return time.process_time() - self.began

    @property
    def used_up(self):
        return self.cpu >= self.budget

    def keep(self, iteration, theta):
        self.weights.append(Weights(self.cpu, iteration, theta.copy()))

    def watch(self, iteration, theta, value):
        """After an iteration; True if the budget is used up.

        Weights of zero are the start of a method, not something that it has found.
        """
        if theta.any():
            self.keep(iteration, theta)
        self.values.append((self.cpu, iteration, value))
        return self.used_up

    def certify(self, progress):
        if np.isfinite([progress.objective_bound, progress.objective]).all():
            self.certificates.append((self.cpu, progress.objective_bound, progress.objective))

    def callback(self, progress):
        """Of a solver of the library."""
        stop = self.watch(progress.iteration, progress.theta, progress.objective_bound)
        self.certify(progress)
        return stop

    def ending_with(self, theta):
        """This trace, with the method's answer if it is not there yet."""
        if not self.weights or not np.array_equal(self.weights[-1].theta, theta):
            self.keep(self.weights[-1].iteration if self.weights else 0, theta)
        return self

    def known_at(self, moment):
        """The last weights known at a moment, None before the first."""
        return next((w for w in reversed(self.weights) if w.cpu <= moment), None)

    def at(self, moments, iterations=()):
        """The last weights known at each of the moments, those of iterations, the last of all."""
        known = {id(self.known_at(moment)) for moment in (*moments, np.inf)}
        return [w for w in self.weights if id(w) in known or w.iteration in iterations]


def traced(method, X, Y, alpha, tol, budget):
    """Fit by one of METHODS for about `budget` CPU seconds.

    Returns the traces by curve, and whether the method ended by its own criterion.
    """
    with (
        warnings.catch_warnings(action="ignore", category=ConvergenceWarning),
        threadpool_limits(limits=1, user_api="blas"),
    ):
        trace = Trace(budget)
        if method == "unary":
            trace.keep(1, unary_weights(X, Y, alpha))
            return {method: trace}, True
        if method == "auto":
            fitted = model(alpha, tol=tol, solver=LBFGS(callback=trace.callback)).fit(X, Y)
            return {method: trace.ending_with(fitted.coef_)}, fitted.converged_
        problem = model(alpha)._problem(X, Y)
        if method in RIVALS:
            n_sweeps = int(method.removeprefix("trw"))
            theta, converged = fit_truncated(problem, n_sweeps, trace.watch)
            return {method: trace.ending_with(theta)}, converged
        averages = trace_algorithm_one(problem, trace, tol, line_search=method == SEARCH)
        curves = {method: trace} if method == SEARCH else {method: trace, AVERAGED: averages}
        return curves, not trace.used_up


@dataclass(frozen=True)
class FollowedFrankWolfe(BlockFrankWolfe):
    """Algorithm 1 that calls `after` with its state and the number of the step."""

    after: Any = None

    def _step(self, problem, at, m):
        super()._step(problem, at, m)
        self.after(at.state, at.steps)


class BudgetUsedError(Exception):
    """The CPU time is up."""


def trace_algorithm_one(problem, trace, tol, line_search):
    """Solve until a gap of `tol` or the end of the budget; returns the trace of the averages.

    Weights are kept when the time has grown by 1 %, and L(tau), which takes a pass over all pixels
    and is not counted, when it has grown by 10 %.
    """
    averages, average = Trace(), WeightedAverage(problem.n_features)

    def after(state, step):
        theta, last = problem.theta(state.r), trace.used_up
        average.add(theta)
        if last or not trace.weights or trace.cpu >= 1.01 * trace.weights[-1].cpu:
            trace.keep(step, theta)
            averages.weights.append(replace(trace.weights[-1], theta=average.value.copy()))
        if last or not trace.values or trace.cpu >= 1.1 * trace.values[-1][0]:
            now = trace.cpu
            state.refresh(problem)
            trace.values.append((now, step, state.dual(problem)))
            trace.began += trace.cpu - now
        if last:
            raise BudgetUsedError

    solver = FollowedFrankWolfe(
        step="line_search" if line_search else "fixed", after=after, max_iter=10**6,
        callback=trace.certify, verbose=0, random_state=0,
    )  # fmt: skip
    try:
        result = solver.solve(problem, tol)
        trace.ending_with(result.theta)
    except BudgetUsedError:
        pass
    return averages


def unary_weights(X, Y, alpha):
    """The weights of a CRF without edges."""
    alone = []
    for nodes, edges in X:
        alone.append((nodes, np.zeros((edges.shape[0], 1))))
    coef = model(alpha, tol=1e-8).fit(alone, Y).node_coef_.ravel()
    return np.concatenate([coef, np.zeros(4 * X[0][1].shape[1])])


@cache
def compile_method(method, hog, alpha):
    """Compile what a method needs, so that it is not timed."""
    images, masks = make_segmentation(2, (20, 24), random_state=0)
    X = [features({"hog": hog}, image) for image in images]
    traced(method, X, masks, alpha, tol=1e-3, budget=0.3)


# ---------------------------------------------------------------------- evaluation
def run_method(setting, method):
    """Run a method, then evaluate the weights that it left."""
    compile_method(method, setting["hog"], setting["alpha"])
    X, Y = training(setting)
    traces, converged = traced(method, X, Y, setting["alpha"], setting["tol"], setting["budget"])
    problem = model(setting["alpha"])._problem(X, Y)
    return {
        "converged": converged,
        "pixels": sum(y.size for y in Y),
        "curves": {
            name: evaluated(setting, name, trace, problem) for name, trace in traces.items()
        },
    }


def evaluated(setting, name, trace, problem):
    """Test errors at the moments of "snapshots", errors on the picture that is shown at those of
    "path", and its marginals at those of "shown"."""
    picture, last = setting["picture"], trace.weights[-1].theta
    iterations = setting["iterations"] if name in RIVALS else ()

    def with_errors(kept, indices):
        errors = pixel_errors(setting, indices, [weights.theta for weights in kept])
        return [
            {"cpu": w.cpu, "iteration": w.iteration, "errors": row}
            for w, row in zip(kept, np.round(errors.T, 6), strict=True)
        ]

    drawn = [trace.known_at(moment) for moment in setting["shown"]]
    return {
        "certificates": trace.certificates,
        "values": trace.values,
        "snapshots": with_errors(trace.at(setting["moments"]), held_out(setting)),
        "path": with_errors(trace.at(setting["path"], iterations), [picture]),
        "shown": [
            None if w is None else encoded(pixel_marginals(setting, picture, w.theta))
            for w in drawn
        ],
        "end": {
            "map_error": pixel_errors(setting, held_out(setting), [last], by_map=True).mean(),
            "primal": likelihood(problem, last),
        },
    }


def pixel_errors(setting, indices, thetas, by_map=False):
    """Shares of wrong pixels, of marginals above 1/2 or MAP, shape (n_pictures, n_thetas)."""

    def of_picture(index):
        block, truth = picture_block(setting, index)
        found = []
        for theta in thetas:
            scores = block.scores(theta)
            if by_map:
                label = block.structure.best_label(scores)
            else:
                label = block_marginals(block, scores, 1e-4)[1] > 0.5
            found.append(np.mean(label.ravel() != truth.ravel()))
        return found

    return np.array(on_all_cores(of_picture, indices))


def pixel_marginals(setting, index, theta):
    """P(figure) of every pixel."""
    block, mask = picture_block(setting, index)
    return block_marginals(block, block.scores(theta), 1e-4)[1].reshape(mask.shape)


def likelihood(problem, theta):
    """A proven lower bound of P(theta), the regularised approximate log-likelihood."""

    def log_partition(block):
        return block.weight * block_marginals(block, block.scores(theta), 1e-6)[0]

    return problem.primal(theta, sum(on_all_cores(log_partition, problem.blocks)))


def picture_block(setting, index):
    """The output space and features of one picture, and its mask."""
    (image,), (mask,) = load(setting, [index])
    problem = model(setting["alpha"])._problem([features(setting, image)], [mask])
    return problem.blocks[0], mask


def block_marginals(block, scores, tol):
    """An upper bound of log Z_rho and P(figure) of every pixel.

    After 30 sweeps; after 5 if scores are so large that sweeps are slow, and marginals all but 0
    and 1. Errors do not depend on the last digits.
    """
    structure = block.structure
    n_sweeps = 30 if np.abs(scores).max() <= 100.0 else 5
    found = structure.marginals(scores, None, tol * structure.n_nodes, n_sweeps)
    return found.upper_bound, structure.node_marginals(found.tau)[:, 1]


def on_all_cores(function, items):
    with (
        threadpool_limits(limits=1, user_api="blas"),
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        return list(pool.map(function, items))


# ---------------------------------------------------------------------- results
class Results:
    """The curves of all methods, and the optimum as far as they have proven it.

    high, low : the least upper and the largest lower bound of the optimum
    scale : distances are relative to it
    """

    def __init__(self, setting, found):
        self.setting, self.found = setting, found
        self.method_of = {name: m for m in METHODS for name in found[m]["curves"]}
        self.curves = {name: found[self.method_of[name]]["curves"][name] for name in CURVES}
        bounds = [row for curve in self.curves.values() for row in curve["certificates"]]
        ends = [curve["end"]["primal"] for curve in self.curves.values()]
        self.high = min(high for _, high, _ in bounds)
        self.low = max(*(low for _, _, low in bounds), *(end for end in ends if end is not None))
        self.optimum = 0.5 * (self.high + self.low)
        self.scale = max(1.0, abs(self.optimum))
        kind = "picture" if setting["data"] == REAL else "generated picture"
        self.picture = f"{kind} {setting['picture'] + 1}"

    def values(self, name):
        """CPU seconds, and relative distances of the objective from the optimum (the midpoint of
        the best bounds, as in the paper's figure); negative below the optimum."""
        rows = self.curves[name]["values"]
        return [row[0] for row in rows], [(row[2] - self.optimum) / self.scale for row in rows]

    def distance(self, name, cpu=np.inf):
        """The distance of the last objective known by then, without a sign; NaN before any."""
        known = [value for at, value in zip(*self.values(name), strict=True) if at <= cpu]
        return abs(known[-1]) if known else np.nan

    def certified_gap(self, name):
        """The relative gap that the method itself has certified last."""
        rows = self.curves[name]["certificates"]
        return (rows[-1][1] - rows[-1][2]) / self.scale if rows else None

    def suboptimality(self, name):
        """How far the last weights are from the optimum at most, relative."""
        primal = self.curves[name]["end"]["primal"]
        return np.nan if primal is None else (self.high - primal) / self.scale

    def at(self, name, cpu, where="snapshots"):
        """The last weights evaluated by a moment, on all test pictures or on the "path" of one."""
        known = [snapshot for snapshot in self.curves[name][where] if snapshot["cpu"] <= cpu]
        return known[-1] if known else None

    def end(self, name, where="snapshots"):
        return self.curves[name][where][-1]

    def rival_at(self, iteration):
        """The rival on the picture that is shown, after an iteration; None if it made fewer."""
        path = self.curves[RIVAL]["path"]
        return next((point for point in path if point["iteration"] == iteration), None)


def mean_error(snapshot):
    """Mean of the shares of wrong pixels; NaN if there is none."""
    return np.nan if snapshot is None else float(np.mean(snapshot["errors"]))


def lowest(values, otherwise=None):
    return min(values, key=values.get, default=otherwise)


# ---------------------------------------------------------------------- published numbers
def comparisons(results):
    """Errors on picture 207 at times that mean the same: iterations of the rival."""
    one, many = (results.rival_at(k) for k in ITERATIONS)

    def beside(point):
        return None if point is None else results.at(PAPER, point["cpu"], "path")

    n = ITERATIONS[1]
    rows = (
        (f"Algorithm 1 when trw40 has made 1 iteration ({MINUTES} min there)", BCFW_ERRORS[0],
         beside(one)),
        (f"Algorithm 1 when trw40 has made {n} iterations ({HOURS} h there)", BCFW_ERRORS[1],
         beside(many)),
        (f"trw40 after one iteration ({MINUTES} min there)", RIVAL_ERRORS[0], one),
        (f"trw40 after {n} iterations ({HOURS} h there)", RIVAL_ERRORS[1], many),
        (f"trw40 at its end ({RIVAL_HOURS} h there)", RIVAL_ERRORS[2], results.end(RIVAL, "path")),
    )  # fmt: skip
    without = f"{mean_error(results.end('unary', 'path')):.3f} without edges"
    found = []
    for what, published, point in rows:
        note = without if point is None else f"after {point['cpu']:.3g} CPU s; {without}"
        ours = None if point is None else mean_error(point)
        found.append(Comparison(f"error on picture 207, {what}", published, ours, note=note))
    values, paper = results.curves[RIVAL]["values"], results.end(PAPER)
    spent, steps = (values[-1][k] - values[0][k] for k in (0, 1))  # without the first evaluation
    each = spent / steps if steps else np.nan
    passes = each * paper["iteration"] / paper["cpu"] / results.setting["train"]
    what = "passes of Algorithm 1 over the training pictures in the time of one iteration of trw40"
    return [
        *found,
        Comparison(what, 60, passes, note="both programs decide"),
        Comparison(
            "minutes of one iteration of trw40", MINUTES, each / 60,
            note="another machine, and Matlab",
        ),
    ]  # fmt: skip


# ---------------------------------------------------------------------- claims
SPEED = "depends on how fast both programs are"
FAR = 0.1  # a relative distance of the objective that counts as far from optimal; ours


def judged_by_ends(results, names, holds):
    """`holds` and no reason if all these methods ended by themselves, otherwise None and why."""
    stopped = [n for n in names if not results.found[results.method_of[n]]["converged"]]
    return (None, f"budget: {', '.join(stopped)} did not end") if stopped else (holds, "")


def objective_claims(results):
    moments = early_moments(results)
    first = {
        cpu: {name: results.distance(name, cpu) for name in (PAPER, *RIVALS)} for cpu in moments
    }
    known = [row for row in first.values() if not np.isnan(list(row.values())).any()]
    leads = {lowest(row) == PAPER for row in known}
    steps = {name: results.distance(name) for name in (PAPER, SEARCH)}
    at_end = {name: results.values(name)[1] for name in RIVALS}
    ends = {name: values[-1] for name, values in at_end.items()}
    error = (results.high - results.low) / results.scale
    crosses = min(at_end[SHORT]) < -error < error < ends[SHORT]
    gap, cpu = results.certified_gap(PAPER), {name: results.end(name)["cpu"] for name in CURVES}
    fastest = judged_by_ends(results, (PAPER, SEARCH), cpu[PAPER] < cpu[SEARCH])
    # L-BFGS never goes down: above the optimum it has crossed it for good.
    crossing = (True, "") if crosses else judged_by_ends(results, (SHORT,), False)
    race = judged_by_ends(results, (PAPER, RIVAL), cpu[PAPER] < cpu[RIVAL])
    distances = f"relative distances of L(tau) at the end: {listed(steps, '.3g')}"
    return [
        Claim(
            "In early iterations Algorithm 1 has the lowest objective, its distance from the "
            f"optimum being the smallest (at both moments: {EARLY})",
            leads.pop() if len(leads) == 1 else None,
            "; ".join(f"after {t:.3g} CPU s {listed(row, '.2g')}" for t, row in first.items()),
            SPEED,
        ),
        Claim("Algorithm 1 converges fastest without line search", fastest[0], distances,
              fastest[1]),
        Claim(
            "domke10 intersects the optimal value and does not converge to it",
            crossing[0],
            f"objective at the end minus the optimum, relative: {listed(ends, '+.2g')}; the "
            f"optimum is proven to {error:.1g}",
            crossing[1],
        ),
        Claim(
            "Algorithm 1 needs a single run and has an upper bound of its duality gap as a "
            "by-product",
            None if gap is None else gap >= steps[PAPER] > 0.0,
            f"certified gap {gap or np.nan:.3g}, L(tau) {steps[PAPER]:.3g} above the optimum",
            "budget",
        ),
        Claim(
            f"Algorithm 1 converges in less time than domke40 ({HOURS} h against {RIVAL_HOURS} h)",
            race[0],
            f"at {cpu[PAPER]:.3g} and {cpu[RIVAL]:.3g} CPU s the objectives are "
            f"{steps[PAPER]:.2g} and {abs(ends[RIVAL]):.2g} from the optimum",
            race[1],
        ),
    ]  # fmt: skip


EARLY = "one iteration of domke40 here, and 60 passes of Algorithm 1 as in the paper"


def early_moments(results):
    """CPU seconds of both; they differ because both programs are faster than the paper's."""
    one = results.rival_at(1) or results.end(RIVAL)
    end = results.end(PAPER)
    passes = end["iteration"] / results.setting["train"] or np.nan
    return sorted({one["cpu"], min(60.0 / passes, 1.0) * end["cpu"]})


def test_error_claims(results):
    names = (PAPER, AVERAGED, *RIVALS)
    shots = {name: results.curves[name]["snapshots"] for name in names}
    errors = {name: [mean_error(shot) for shot in row] for name, row in shots.items()}
    least = {name: min(row) for name, row in errors.items()}
    leads, early = set(), []
    for cpu in early_moments(results):
        known = {n: shot for n in names if (shot := results.at(n, cpu)) is not None}
        means = {name: mean_error(shot) for name, shot in known.items()}
        early.append(f"after {cpu:.3g} CPU s {listed(means, '.4f')}")
        for rival in set(known) & set(RIVALS):
            ours = known.get(lowest({n: means[n] for n in (PAPER, AVERAGED) if n in known}))
            leads.add(
                None
                if ours is None
                else is_less(ours["errors"], known[rival]["errors"], independent=True)
            )
    best = judged_by_ends(results, names, lowest(least) == AVERAGED)
    rises = {name: np.maximum(np.diff(errors[name]), 0.0).sum() for name in (AVERAGED, PAPER)}
    pixels = results.end("unary")["errors"]
    below = [s for s in shots[AVERAGED] if is_less(s["errors"], pixels, independent=True)]
    far = results.distance(PAPER, below[0]["cpu"]) if below else np.nan
    return [
        Claim(
            f"In early iterations Algorithm 1 has the lowest test error (at both moments: {EARLY}; "
            "beyond two standard errors over test pictures)",
            leads.pop() if len(leads) == 1 else None,
            "; ".join(early),
            f"noise, or {SPEED}",
        ),
        Claim(
            "Averaged iterates achieve the lowest test error and get there fastest",
            best[0],
            f"least errors {listed(least, '.4f')}",
            best[1],
        ),
        Claim(
            "The test error of averaged iterates is substantially smoother than that of the "
            "iterates (our threshold: half of all rises at most)",
            rises[AVERAGED] <= 0.5 * rises[PAPER] if rises[PAPER] > 0.0 else None,
            f"sum of all rises: {listed(rises, '.4f')}",
            "noise: neither rises",
        ),
        Claim(
            "Algorithm 1 attains a low test error (our threshold: less than without edges, beyond "
            f"two standard errors) when its objective is far from optimal (ours: {FAR:g} of it)",
            bool(far >= FAR) if below else None,
            f"L(tau) is {far:.2g} of the optimum's size away when averaged iterates are below "
            f"{np.mean(pixels):.4f}" if below else f"averaged iterates at best "
            f"{least[AVERAGED]:.4f}, {np.mean(pixels):.4f} without edges",
            "noise, or budget",
        ),
    ]  # fmt: skip


def picture_claims(results):
    """Algorithm 1 against the rival on the picture that is shown.

    Errors of single iterates jump, so an order counts if it is the same at all moments within a
    factor of two.
    """
    sentences = (
        "domke40 is nowhere near the MLE after one iteration; in the same time Algorithm 1 "
        "essentially recovers the segmentation",
        f"After {ITERATIONS[1]} iterations of domke40 ({HOURS} h there) Algorithm 1 still has the "
        "smaller error",
    )
    found = []
    for iteration, sentence in zip(ITERATIONS, sentences, strict=True):
        rival = results.rival_at(iteration)
        cpu = np.nan if rival is None else rival["cpu"]
        near = [
            mean_error(s) for s in results.curves[PAPER]["path"] if 0.5 <= s["cpu"] / cpu <= 2.0
        ]
        theirs = mean_error(rival)
        leads = {error < theirs for error in near}
        spread = f"{min(near):.4f} to {max(near):.4f}" if near else "nothing"
        found.append(
            Claim(
                f"{sentence}: {results.picture}, whenever it is looked at within a factor of two "
                "of the time",
                leads.pop() if len(leads) == 1 else None,
                f"share of wrong pixels: Algorithm 1 {spread}, domke40 {theirs:.4f}",
                "noise of single iterates" if near and rival else "budget",
            )
        )
    return found


def certificate_claim(results):
    tol, rows = results.setting["tol"], results.curves["auto"]["certificates"]
    reached = [
        cpu for cpu, high, low in rows if high - low <= tol * max(1.0, min(abs(high), abs(low)))
    ]
    cpu = min(reached, default=np.inf)
    others = {name: results.distance(name, cpu) for name in (PAPER, SEARCH, *RIVALS)}
    return Claim(
        f"auto proves a relative gap of {tol:g}",
        bool(reached),
        f"after {cpu:.3g} CPU s; distances of the others' objectives by then: "
        f"{listed(others, '.2g')}",
        whose="ours",
    )


# ---------------------------------------------------------------------- tables and pictures
def methods_table(results):
    rows = []
    for name, curve in results.curves.items():
        shot = results.end(name)
        rows.append(
            [name, round(shot["cpu"], 2), shot["iteration"], results.distance(name),
             results.certified_gap(name), results.suboptimality(name), mean_error(shot),
             curve["end"]["map_error"], mean_error(results.end(name, "path")),
             results.found[results.method_of[name]]["converged"]]
        )  # fmt: skip
    title = (
        "At the end of each method: distance of its own objective and of its weights from the "
        "optimum, relative; mean share of wrong pixels of the test pictures"
    )
    head = ["method", "CPU s", "iteration", "objective", "certified gap", "weights",
            "error, marginals above 1/2", "error, MAP labelling", results.picture,
            "ended by itself"]  # fmt: skip
    return Table("methods", title, head, rows)


def picture_table(results):
    """Errors on the shown picture, a row for each moment and a column for each curve."""
    moments = results.setting["moments"]
    columns = {"CPU s": [round(cpu, 2) for cpu in moments]}
    for name in results.curves:
        columns[name] = [mean_error(results.at(name, cpu, "path")) for cpu in moments]
    title = f"{results.picture}: share of wrong pixels, marginals above 1/2"
    return Table.of("picture-by-time", title, columns)


def progress_picture(results):
    """Distance of the objective from the optimum, and test error, against time."""
    figure = new_figure(11.2, 4.6)
    left, right = figure.subplots(1, 2)
    colours = ("black", GREY, *(COLOURS[c] for c in (1, 4, 3, 5, 2, 0)))
    for name, colour, marker in zip(CURVES, colours, "os^v<>DP", strict=True):
        curve = results.curves[name]
        seconds, distances = results.values(name)
        left.plot(seconds, np.abs(distances), color=colour, linewidth=1.4)
        rows = np.array(curve["certificates"]).reshape(-1, 3)
        gaps = (rows[:, 1] - rows[:, 2]) / results.scale
        left.plot(rows[:, 0], gaps, color=colour, linestyle=":", linewidth=1.4)
        times = [shot["cpu"] for shot in curve["snapshots"]]
        errors = [mean_error(shot) for shot in curve["snapshots"]]
        if name == "unary":
            right.axhline(errors[-1], color=colour, linestyle="--", label=name)
        else:
            right.plot(
                times, errors, color=colour, marker=marker, markersize=4.5, linewidth=1.4,
                label=name,
            )  # fmt: skip
    titles = ("(a) distance of the objective from the optimum, relative",
              "(b) test error, mean over pictures")  # fmt: skip
    for axes, title in zip((left, right), titles, strict=True):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("CPU seconds")
        clean_axes(axes, title)
    figure.legend(loc="outside lower center", ncols=8, fontsize=9, frameon=False)
    return Picture(
        "progress",
        "(a) Difference of each method's objective to the midpoint of the best bounds, relative: "
        "L(tau) of the iterates of bcfw, the best L of auto, the truncated likelihood of trw; "
        "dotted: the gap that a method proves by itself. (b) Mean share of wrong pixels of the "
        "test pictures, marginals above 1/2.",
        figure,
    )


def marginals_picture(results):
    """The photograph, its mask, and marginals of four methods after equal times."""
    image, mask = (decoded(results.found["picture"][key]) for key in ("image", "mask"))
    names, moments = ("auto", PAPER, AVERAGED, RIVAL), results.setting["shown"]
    height = len(moments) * (2.6 * mask.shape[0] / mask.shape[1] + 0.35)
    figure = new_figure(2.6 * (1 + len(names)), height)
    table = figure.subplots(len(moments), 1 + len(names))
    shades = {"cmap": "cividis", "vmin": 0.0, "vmax": 1.0, "interpolation": "nearest"}
    for axes in table.flat:
        axes.set_axis_off()
    for axes, pixels, title in ((table[0, 0], image, "photograph"), (table[1, 0], mask, "truth")):
        axes.imshow(pixels, **shades)
        no_axes(axes, title)
    for j, name in enumerate(names, start=1):
        stored = results.curves[name]["shown"]
        for axes, moment, one in zip(table[:, j], moments, stored, strict=True):
            title = f"{name}, {moment:.3g} CPU s"
            if one is None:
                axes.set(xlim=(0, mask.shape[1]), ylim=(mask.shape[0], 0))
                no_axes(axes, f"{title}: nothing yet")
                continue
            marginals = decoded(one)
            error = np.mean((marginals > 0.5) != (mask > 0.5))
            axes.imshow(marginals, **shades)
            axes.contour(mask, levels=[0.5], colors="white", linewidths=0.8)
            no_axes(axes, f"{title}: error {error:.3f}")
    caption = f"Marginals of {results.picture} after equal times; the line is the truth."
    return Picture("picture", caption, figure)
