"""Ising models: exact maximum likelihood, rivals, planted ensembles, a grid of models.

    python -m benchmarks.ising                               # all parts, about ten minutes
    python -m benchmarks.ising likelihood --coniii PYTHON    # and coniii, installed elsewhere
    python -m benchmarks.ising ensembles | grid | demo
    python -m benchmarks.record ising likelihood | ensembles | grid    # docs/yes_no_answers.md

* likelihood: 6 to 12 variables, 2,000 frames of a random model. Exact likelihood is maximised over
  all 2^n states by BFGS, and by `IsingMRF` with exact and with reweighted inference; beside them
  pseudo-likelihood (one logistic regression per variable, the two estimates of a coupling averaged)
  and coniii's pseudo-likelihood. The penalty is alpha = 0.01 on couplings, coniii has none. Gaps
  are those of the exact log-likelihood per frame and of the parameters, to the maximum.
* ensembles: precision and recall of planted ensembles, five seeds; recordings without responses.
* grid: 20 models of 100 neurons x 5,000 frames, three folds.
* demo: the recording of graph_ensemble, from the file to ensembles (needs MLESTRUCT_DATA).
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import combinations, product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression

from benchmarks.record import show
from mlestruct import IsingMRF
from mlestruct.datasets import load_neural_demo, make_spikes
from mlestruct.models import find_ensembles, select_ising

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ALPHA = 0.01
LINKS = {"tree": "tree", "sparse": "1.5 random pairs a variable", "dense": "all pairs"}
CONIII = """
import json, sys, time
import numpy as np
from coniii import Pseudo
states = np.load(sys.argv[1])["states"]
for _ in range(2):  # the first compiles
    start = time.process_time()
    solver = Pseudo(2 * states - 1, iprint=False)
    solver.solve()
    seconds = time.process_time() - start
found = np.asarray(solver.multipliers).tolist()
print("answer", json.dumps({"seconds": seconds, "multipliers": found}))
"""


class Enumeration:
    """The exact likelihood of few variables."""

    def __init__(self, n: int, edges: Ints):
        self.answers = np.array(list(product([0, 1], repeat=n)))
        self.design = self.statistics(self.answers, edges)
        self.n, self.edges = n, edges

    @staticmethod
    def statistics(states: Ints, edges: Ints) -> Floats:
        both = states[:, edges[:, 0]] * states[:, edges[:, 1]]
        return np.concatenate([states, both], axis=1).astype(float)

    def log_likelihood(self, theta: Floats, mean: Floats) -> float:
        """Per frame, of data with these mean statistics."""
        return float(theta @ mean - logsumexp(self.design @ theta))

    def draw(self, theta: Floats, n_frames: int, rng: np.random.Generator) -> Ints:
        scores = self.design @ theta
        p = np.exp(scores - logsumexp(scores))
        return np.asarray(self.answers[rng.choice(len(p), n_frames, p=p)])

    def maximise(self, mean: Floats, n_frames: int) -> Floats:
        penalty = np.where(np.arange(self.design.shape[1]) < self.n, 0.01, 1.0) * ALPHA

        def loss(theta: Floats) -> tuple[float, Floats]:
            scores = self.design @ theta
            log_z = logsumexp(scores)
            expected = np.exp(scores - log_z) @ self.design
            value = n_frames * (theta @ mean - log_z) - penalty / 2 @ theta**2
            return -value / n_frames, -(mean - expected) + penalty * theta / n_frames

        start = np.zeros(self.design.shape[1])
        return np.asarray(minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-8}).x)


def pseudo_likelihood(states: Ints, edges: Ints) -> Floats:
    """Logistic regressions on neighbours; the two estimates of every coupling are averaged."""
    n = states.shape[1]
    fields, couplings = np.zeros(n), np.zeros(len(edges))
    for i in range(n):
        at = np.flatnonzero((edges == i).any(axis=1))
        others = edges[at].sum(axis=1) - i
        if not len(at):
            fields[i] = np.log(states[:, i].mean() / (1 - states[:, i].mean()))
            continue
        found = LogisticRegression(C=1 / ALPHA, tol=1e-8, max_iter=1000)
        found.fit(states[:, others], states[:, i])
        fields[i] = found.intercept_[0]
        couplings[at] += 0.5 * found.coef_[0]
    return np.concatenate([fields, couplings])


def coniii(python: str, states: Ints, edges: Ints) -> tuple[Floats, float]:
    """coniii's pseudo-likelihood, of the complete graph, in 0 and 1 instead of -1 and 1."""
    with tempfile.TemporaryDirectory() as folder:
        file, script = Path(folder, "states.npz"), Path(folder, "solve.py")
        np.savez(file, states=states)
        script.write_text(CONIII)
        done = subprocess.run(
            [python, str(script), str(file)], capture_output=True, text=True, check=True
        )
    line = next(x for x in done.stdout.splitlines() if x.startswith("answer"))
    found = json.loads(line.removeprefix("answer"))
    n = states.shape[1]
    fields, spins = np.array(found["multipliers"][:n]), np.array(found["multipliers"][n:])
    matrix = np.zeros((n, n))
    for (i, j), value in zip(combinations(range(n), 2), spins, strict=True):
        matrix[i, j] = matrix[j, i] = value
    theta = np.concatenate(
        [2 * fields - 2 * matrix.sum(axis=1), 4 * matrix[edges[:, 0], edges[:, 1]]]
    )
    return theta, found["seconds"]


def random_edges(kind: str, n: int, rng: np.random.Generator) -> Ints:
    pairs = np.array(list(combinations(range(n), 2)))
    if kind == "tree":
        return np.array([[int(rng.integers(i)), i] for i in range(1, n)])
    if kind == "sparse":
        return rng.permutation(pairs)[: round(1.5 * n)]
    return pairs


def likelihood(sizes: Sequence[int], python: str | None, n_frames: int = 2000) -> bool:
    """Print gaps and seconds; whether exact inference attains the maximum."""
    attained, rows = True, []
    for kind in LINKS:
        for n in sizes:
            rng = np.random.default_rng(n)
            edges = random_edges(kind, n, rng)
            exact = Enumeration(n, edges)
            truth = np.concatenate([rng.normal(-1, 0.5, n), rng.normal(0, 1.0, len(edges))])
            states = exact.draw(truth, n_frames, rng)
            mean = exact.statistics(states, edges).mean(axis=0)
            answers = {}
            start = time.process_time()
            best = exact.maximise(mean, n_frames)
            answers["enumeration, BFGS"] = best, time.process_time() - start
            for inference in ("exact", "reweighted"):
                start = time.process_time()
                model = IsingMRF(edges, ALPHA, inference=inference, tol=1e-8).fit(states)
                answers[f"IsingMRF, {inference}"] = model.coef_, time.process_time() - start
            start = time.process_time()
            theta = pseudo_likelihood(states, edges)
            answers["pseudo-likelihood"] = theta, time.process_time() - start
            if python and kind == "dense":
                answers["coniii, pseudo"] = coniii(python, states, edges)
            top = exact.log_likelihood(best, mean)
            for name, (theta, seconds) in answers.items():
                gap = top - exact.log_likelihood(theta, mean)
                error = np.abs(theta - best).max()
                rows.append([LINKS[kind], n, name, gap, error, seconds])
                if name == "IsingMRF, exact" or (kind == "tree" and name.startswith("IsingMRF")):
                    attained &= gap < 1e-5 and error < 0.05
    show(
        f"Gaps to the maximum of the exact likelihood, {n_frames} frames: of the log-likelihood of "
        "a frame, and of the parameter that is furthest off",
        ["graph", "variables", "method", "log-likelihood", "parameter", "CPU s"],
        rows,
    )
    print("exact inference and trees: " + ("the maximum" if attained else "FAIL"))
    return attained


def ensembles(
    seeds: int, n_shuffles: int, n_neurons: int, n_frames: int, n_jobs: int | None
) -> bool:
    """Planted ensembles; recordings of independent neurons and of ensembles without a stimulus."""
    kinds = {
        "planted ensembles": {},
        "planted, members respond half as often": {"response": 0.25},
        "independent neurons": {"response": 0.0},
        "ensembles that no stimulus drives": {"n_stimuli": 0, "n_spontaneous": 2},
    }
    fine, rows = True, []
    for kind, options in kinds.items():
        hits, chosen, planted, start = 0, 0, 0, time.perf_counter()
        for seed in range(seeds):
            data = make_spikes(n_neurons, n_frames, random_state=seed, **options)  # type: ignore[arg-type]
            stimuli = data.stimuli
            responds = kind.startswith("planted")
            if not stimuli.shape[1]:
                stimuli = make_spikes(n_neurons, n_frames, random_state=1000 + seed).stimuli
            found = find_ensembles(
                data.spikes, stimuli, n_shuffles=n_shuffles, random_state=seed, n_jobs=n_jobs
            )
            chosen += int(found.members.sum())
            for s, members in enumerate(data.ensembles or [] if responds else []):
                hits += int(found.members[s, members].sum())
                planted += len(members)
        seconds = (time.perf_counter() - start) / seeds
        quality = [hits / max(chosen, 1), hits / planted] if planted else [None, None]
        fine &= hits / max(chosen, 1) > 0.9 if planted else chosen == 0
        rows.append([kind, chosen, *quality, seconds])
    show(
        f"{n_neurons} neurons x {n_frames} frames, two ensembles of 10, {n_shuffles} shuffles, "
        f"{seeds} seeds",
        ["recording", "members found", "precision", "recall", "s of an analysis"],
        rows,
    )
    return fine


def grid(n_neurons: int, n_frames: int, n_jobs: int | None) -> None:
    """Seconds and memory of 20 models."""
    data = make_spikes(n_neurons, n_frames, random_state=0)
    wall, cpu = time.perf_counter(), time.process_time()
    found = select_ising(data.spikes, data.stimuli, n_jobs=n_jobs)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    show(
        "Choosing a model by three folds",
        ["models", "neurons", "frames", "s", "CPU s", "MB at most"],
        [[len(found.means()), n_neurons, n_frames, wall, cpu if n_jobs is None else None, memory]],
    )
    print(f"best: {found.best_params}, {found.best_score:.3f} per frame")


def demo(n_shuffles: int) -> None:
    """From the file to ensembles."""
    start = time.perf_counter()
    data = load_neural_demo()
    found = find_ensembles(
        data.spikes, data.stimuli, IsingMRF(l1=0.5), n_shuffles=n_shuffles, random_state=0
    )
    print(f"\ndemo: {time.perf_counter() - start:.1f} s\n{found.report()}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    names = ["likelihood", "ensembles", "grid", "demo"]
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(names)}")
    parser.add_argument("--sizes", nargs="+", type=int, default=[6, 9, 12], help="of likelihood")
    parser.add_argument("--coniii", metavar="PYTHON", help="an interpreter that has coniii")
    parser.add_argument("--seeds", type=int, default=5, help="of ensembles")
    parser.add_argument("--shuffles", type=int, default=100)
    parser.add_argument("--neurons", type=int, default=100)
    parser.add_argument("--frames", type=int, default=5000)
    parser.add_argument("--jobs", type=int)
    options = parser.parse_args(arguments)
    parts = options.parts or names
    fine = True
    if "likelihood" in parts:
        fine &= likelihood(options.sizes, options.coniii)
    if "ensembles" in parts:
        fine &= ensembles(
            options.seeds, options.shuffles, options.neurons, options.frames, options.jobs
        )
    if "grid" in parts:
        grid(options.neurons, options.frames, options.jobs)
    if "demo" in parts:
        demo(options.shuffles)
    print("\nising: " + ("pass" if fine else "FAIL"))
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
