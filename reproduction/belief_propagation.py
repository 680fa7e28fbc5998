"""Speed of Frank-Wolfe and belief propagation at equal error (the paper's table "speedup over BP").

Marginals at rho = 1 of complete graphs with weights unif[0, 1] (rand-n), and of topics of two runs
of latent Dirichlet allocation that are to be aligned (lda-20): two fits from different starts on
the same generated text. The score of a pair of topics is 10 times the cosine of their words'
weights, so that marginals are neither flat nor 0 and 1.

    FW    `marginals(..., method="fw", step=...)` without its certificate, the paper's, with
          fixed steps or line searches and a limited number of them; 0 steps are its uniform start.
          Beside the published numbers is the faster of the two
    BP    `huang_jebara.py` with a limited number of sweeps and nothing else
    auto  `BipartiteMatching.marginals` at a given tol, with its certificate

For each error (largest distance of a marginal from the true Bethe one) the fastest limit that
reaches it counts, graph by graph; times are then averaged. They are CPU times of one thread, the
least of several repetitions in which all methods take turns. If Frank-Wolfe does not reach an error
within its steps on all graphs, ">" shows the mean of the time it took.
"""

import time
import warnings
from functools import partial

import numpy as np
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import cosine_similarity
from threadpoolctl import threadpool_limits

from mlestruct.algorithms.frank_wolfe import frank_wolfe_marginals
from mlestruct.structures import BipartiteMatching

from .huang_jebara import belief_propagation
from .runner import Claim, Comparison, Report, Table, is_less

TITLE = "Time to accurate marginals: Frank-Wolfe, belief propagation and ours"
PLACE = "appendix, table of Frank-Wolfe's speedup over BP"
SOLVERS = (
    "FW by marginals(method='fw', step=...), steps 'fixed' and 'line_search'; BP is "
    "this library's, compiled, after Huang and Jebara (2009), not their program; auto by the "
    "marginal oracle. The topics are of generated text, not of the paper's."
)
FIXED, SEARCH, BP, AUTO = METHODS = ("FW, fixed steps", "FW, line search", "BP", "auto")
STEP_RULES = {FIXED: "fixed", SEARCH: "line_search"}  # both are the paper's
LEVELS = (0.05, 0.01, 0.005, 0.001)
PUBLISHED = {  # time of BP / time of FW, means of 10 graphs
    "rand-20": (3.37, 1.56, 1.12, 0.25),
    "rand-50": (18.0, 11.76, 5.18, 0.91),
    "rand-75": (23.87, 23.87, 9.8, 1.5),
    "rand-100": (19.24, 19.24, 10.6, 1.75),
    "lda-20": (1.6, 0.61, 0.34, 0.10),
}


def setting(quick):
    sweeps = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256]
    return {
        "data": "generated: weights unif[0, 1], as in the paper; topics of generated text",
        "seed": 2009,
        "problems": ["rand-20", "rand-50", "lda-20"] if quick else list(PUBLISHED),
        "graphs": 2 if quick else 10,
        "documents": 100 if quick else 400,
        "topic_scale": 10.0,
        "levels": list(LEVELS),
        "steps": 512 if quick else 8_192,
        "sweeps": sweeps,
        "tols": [10.0, 3.0, 1.0, 0.3, 0.1, 0.03, *(10.0**-k for k in range(2, 11))],
        "repetitions": 3 if quick else 9,
    }


def parts(setting):
    return {problem: partial(timed, setting, problem) for problem in setting["problems"]}


def report(setting, found):
    speeds = Speeds(setting, found)
    return Report(
        tables=[time_table(speeds), limit_table(speeds)],
        claims=claims(speeds),
        comparisons=comparisons(speeds) if setting["graphs"] >= 10 else [],
    )


# ---------------------------------------------------------------------- problems
def timed(setting, problem):
    """Times of all methods on all graphs of a problem."""
    kind, size = problem.split("-")
    graphs = random_graphs if kind == "rand" else topic_graphs
    structure = BipartiteMatching((int(size), int(size)), 1.0)
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # limits are compared
        return [fastest_limits(setting, structure, s.ravel()) for s in graphs(setting, int(size))]


def random_graphs(setting, n):
    """Weights unif[0, 1] of all pairs."""
    for graph in range(setting["graphs"]):
        yield np.random.default_rng([setting["seed"], n, graph]).random((n, n))


def topic_graphs(setting, n_topics):
    """Scores of aligning the topics of two fits, each pair of fits from starts of its own."""
    counts = topic_counts(setting["documents"], n_topics, setting["seed"])

    def topics(start):
        model = LatentDirichletAllocation(
            n_topics, learning_method="batch", max_iter=10, random_state=start
        )
        return model.fit(counts).components_

    for graph in range(setting["graphs"]):
        alike = cosine_similarity(topics(2 * graph), topics(2 * graph + 1))
        yield setting["topic_scale"] * alike


def topic_counts(n_documents, n_topics, seed, n_words=500, n_tokens=60):
    """How often each word occurs in each document.

    Documents are short and topics share words, so a fit finds the topics again only in part, and
    differently from start to start.
    """
    rng = np.random.default_rng(seed)
    # A few dozen words carry most of a topic, a handful of topics most of a document.
    topics = rng.dirichlet(np.full(n_words, 0.1), size=n_topics)
    words = rng.dirichlet(np.full(n_topics, 0.2), size=n_documents) @ topics
    return rng.multinomial(n_tokens, words / words.sum(axis=1, keepdims=True))


# ---------------------------------------------------------------------- times
def fastest_limits(setting, structure, scores):
    """The fastest limit of every method for every level, on one graph.

    If no limit reaches a level, the one that took longest stands for the time spent.
    """
    calls, errors = limits(setting, structure, scores)
    seconds = cpu_seconds(calls, setting["repetitions"])
    cells = []
    for level in setting["levels"]:
        for method in METHODS:
            tried = [key for key in errors if key[0] == method]
            good = [key for key in tried if errors[key] <= level]
            key = (
                min(good, key=seconds.__getitem__) if good else max(tried, key=seconds.__getitem__)
            )
            cells.append(
                {
                    "method": method,
                    "level": level,
                    "reached": bool(good),
                    "limit": key[1],
                    "microseconds": 1e6 * seconds[key],
                }
            )
    return cells


def limits(setting, structure, scores):
    """By method and limit, a call and the error that it ends with."""
    levels, calls, errors = setting["levels"], {}, {}
    truth = structure.marginals(scores, None, 1e-12).tau

    def error(tau):
        return np.abs(tau.ravel() - truth).max()

    for name, rule in STEP_RULES.items():
        steps = frank_wolfe_errors(structure, scores, truth, levels, setting["steps"], rule)
        for k in first_reaching(steps, levels):
            calls[name, k] = partial(frank_wolfe, structure, scores, k, rule)
            errors[name, k] = steps[k]
    for k in setting["sweeps"]:
        calls[BP, k] = partial(belief_propagation, structure, scores, 0.0, k, 0.0)
        errors[BP, k] = error(calls[BP, k]().tau)
        if errors[BP, k] <= min(levels):
            break  # more sweeps take more time
    for tol in setting["tols"]:
        calls[AUTO, tol] = partial(structure.marginals, scores, None, tol)
        errors[AUTO, tol] = error(calls[AUTO, tol]().tau)
    return calls, errors


def frank_wolfe(structure, scores, steps, rule, watch=None):
    """So many steps without a certificate."""
    start = structure.interior()
    return frank_wolfe_marginals(structure, scores, start, 0.0, steps, watch, rule)


def frank_wolfe_errors(structure, scores, truth, levels, most, rule="fixed"):
    """Errors after the step counts of the grid, until the smallest level is reached.

    Fewer steps take the same way, so one run shows the errors of all limits.
    """
    grid, errors = set(step_counts(most)), {}

    def watch(steps, tau):
        if steps in grid:
            errors[steps] = np.abs(tau - truth).max()
            return errors[steps] <= min(levels)
        return False

    frank_wolfe(structure, scores, most, rule, watch)
    return errors


def step_counts(most):
    """0, 1, 2, ... in a geometric grid up to `most`."""
    grid = np.unique(np.round(np.sqrt(2.0) ** np.arange(2 * np.log2(most) + 1)).astype(int))
    return [0, *(int(k) for k in grid[grid < most]), most]


def first_reaching(errors, levels):
    """The fewest steps for each level, and the most there are if some level is out of reach."""
    firsts = (next((k for k, e in errors.items() if e <= level), max(errors)) for level in levels)
    return list(dict.fromkeys(firsts))


def cpu_seconds(calls, repetitions):
    """The least time of each call, all of them taking turns; their first round is a warm-up.

    At least a millisecond is measured, short calls being repeated. Calls of 50 milliseconds are
    measured three times at most, calls of a second once.
    """

    def measure(call, number):
        began = time.process_time()
        for _ in range(number):
            call()
        return (time.process_time() - began) / number

    best = {key: measure(call, 1) for key, call in calls.items()}
    number = {key: max(1, round(1e-3 / max(spent, 1e-6))) for key, spent in best.items()}
    for repetition in range(repetitions):
        for key, call in calls.items():
            if best[key] < (1.0 if repetition < 2 else 0.05):
                best[key] = min(best[key], measure(call, number[key]))
    return best


# ---------------------------------------------------------------------- results
class Speeds:
    """What was found, by problem and method."""

    def __init__(self, setting, found):
        self.setting, self.found = setting, found
        self.problems, self.levels = setting["problems"], setting["levels"]

    def of(self, problem, method, key="microseconds"):
        """For each level and graph, shape (n_levels, n_graphs)."""
        graphs = self.found[problem]
        return np.array([[c[key] for c in cells if c["method"] == method] for cells in graphs]).T

    def ratio(self, problem, one, other):
        """Mean time of `one` / mean time of `other`, shape (n_levels,)."""
        return self.of(problem, one).mean(axis=1) / self.of(problem, other).mean(axis=1)

    def speedup(self, problem):
        """Time of BP / time of the faster of both Frank-Wolfes, shape (n_levels,)."""
        return np.max([self.ratio(problem, BP, method) for method in STEP_RULES], axis=0)

    def reached(self, problem, method):
        """Whether all graphs reached each level."""
        return self.of(problem, method, "reached").all(axis=1)


def comparisons(speeds):
    """Speedups of Frank-Wolfe over BP. Both programs decide such a ratio."""
    found = []
    for problem, published in PUBLISHED.items():
        ours = speeds.speedup(problem)
        reached = np.any([speeds.reached(problem, method) for method in STEP_RULES], axis=0)
        by_graph = np.max(
            [speeds.of(problem, BP) / speeds.of(problem, method) for method in STEP_RULES], axis=0
        )
        for k, level in enumerate(LEVELS):
            what = f"{problem}, error {level:g}: time of BP / time of FW"
            spread = by_graph[k].min(), by_graph[k].max()
            note = "" if reached[k] else "not reached on all graphs: an upper bound"
            found.append(Comparison(what, published[k], ours[k], spread, note))
    return found


def claims(speeds):
    levels, rules = speeds.levels, tuple(STEP_RULES)
    ratios = {problem: speeds.speedup(problem) for problem in speeds.problems}
    faster = sum(int((values > 1.0).sum()) for values in ratios.values())
    places = sum(map(len, ratios.values()))
    ends = ", ".join(f"{problem} {v[0]:.2g} to {v[-1]:.2g}" for problem, v in ratios.items())
    loses = all(
        speeds.ratio(problem, BP, rule)[-1] < speeds.ratio(problem, BP, rule)[0]
        for problem in speeds.problems for rule in rules
    )  # fmt: skip
    worst, problem, rival, k = max(
        (float(value), problem, rival, k)
        for problem in speeds.problems
        for rival in (BP, *rules)
        for k, value in enumerate(speeds.ratio(problem, AUTO, rival))
    )
    auto, other = speeds.of(problem, AUTO)[k], speeds.of(problem, rival)[k]
    slower = worst > 1.0 and is_less(other, auto, independent=True)
    return [
        Claim(
            "Frank-Wolfe is faster than BP in most regimes (more than half of the table, although "
            "the better of its step rules counts at each place)",
            2 * faster > places,
            f"faster at {faster} of {places} places; this BP is compiled and needs few sweeps",
        ),
        Claim(
            "Frank-Wolfe has good accuracy quickly and is slow to very tight tolerances: it loses "
            "ground to BP as errors get smaller (both step rules)",
            loses,
            f"time of BP / time of FW from {levels[0]:g} to {levels[-1]:g}: {ends}",
        ),
        Claim(
            "auto, with its certificate, is at least as fast as BP and FW at every error",
            not slower if slower is not None else None,
            f"at most {worst:.2f} times the time ({problem} at {levels[k]:g}, {rival})",
            "noise of the times",
            "ours",
        ),
    ]


def time_table(speeds):
    rows = []
    for problem in speeds.problems:
        for method in METHODS:
            times = speeds.of(problem, method).mean(axis=1).round().astype(int).tolist()
            reached = speeds.reached(problem, method)
            cells = [t if there else f">{t}" for t, there in zip(times, reached, strict=True)]
            rows.append([problem, method, *cells])
    title = f"CPU microseconds to reach an error, means of {speeds.setting['graphs']} graphs"
    head = ["problem", "method", *(f"{level:g}" for level in speeds.levels)]
    return Table("microseconds", title, head, rows)


def limit_table(speeds):
    """What decides the ratios: how many sweeps and steps."""
    rows = []
    for problem in speeds.problems:
        medians = [np.median(speeds.of(problem, m, "limit"), axis=1) for m in (BP, FIXED, SEARCH)]
        rows.append([problem, *(", ".join(f"{limit:g}" for limit in row) for row in medians)])
    levels = ", ".join(f"{level:g}" for level in speeds.levels)
    title = f"how many sweeps and steps reach {levels} (medians)"
    head = ["problem", "sweeps of BP", "fixed steps", "line searches"]
    return Table("reasons", title, head, rows)
