"""Two checkouts side by side: the same fits and queries, alternating, CPU seconds as ratios.

    python -m benchmarks.compare /path/to/other/checkout [--repeat 3] [--only grid]

Each checkout runs in processes of its own with its own `src` first on the path; the minimum over
repeats is compared. Only public names that both have are used.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

WORK = r"""
import json, sys, time, warnings
import numpy as np
warnings.simplefilter("ignore")
import mlestruct as ms
from mlestruct.datasets import make_landmark_sequence, frame_pairs, make_segmentation
from mlestruct.datasets.words import make_words
from mlestruct.inference import marginals, log_partition_bounds
from mlestruct.structures import BipartiteMatching, LocalMatching
try:
    from mlestruct.structures import MatchingPolytope
except ImportError:  # its name before
    from mlestruct.structures import ExactMatching as MatchingPolytope
only, seconds = sys.argv[1], {}

def measure(name, work, repeat=3):
    if only not in name:
        return
    work()
    best = np.inf
    for _ in range(repeat):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    seconds[name] = best

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 30, 30, 5))
Y = [(x @ np.ones(5) + rng.gumbel(size=(30, 30))).argmax(1) for x in X]
Y = [np.argsort(np.argsort(y + rng.random(30))) for y in Y]
for rho in (1.0, 0.95, 0.5):
    for alpha in (100.0, 1.0):
        fit = lambda: ms.BipartiteMatchingCRF(alpha=alpha, rho=rho).fit(X, Y)
        measure(f"matching fit rho={rho} alpha={alpha:g}", fit)
measure("matching bcfw", lambda: ms.BipartiteMatchingCRF(
    alpha=100.0, solver="bcfw", max_iter=30, random_state=0).fit(X, Y))
model = ms.BipartiteMatchingCRF(alpha=100.0).fit(X, Y)
measure("matching predict", lambda: model.predict(X))
measure("matching predict_marginals", lambda: model.predict_marginals(X))
W = rng.normal(size=(60, 60))
for rho in (1.0, 0.95, 0.5):
    measure(f"marginals 60x60 rho={rho}", lambda: [
        marginals(BipartiteMatching((60, 60), rho), W) for _ in range(20)])
S = rng.normal(size=40 * 39 // 2)
measure("bounds of a group of 40", lambda: log_partition_bounds(LocalMatching(40), S))
measure("exact polytope of 24", lambda: [
    MatchingPolytope(24, 0.95).marginals(3 * S[:276], tol=1e-6) for _ in range(5)])
G = rng.normal(size=(1, 200, 200, 4)); G = G + G.transpose(0, 2, 1, 3)
P = [np.arange(200) ^ 1]
measure("group fit 200", lambda: ms.MatchingCRF(alpha=10.0).fit(G, P))
images, labels = [], []
for k in range(16):
    y = np.zeros((40, 40), int); y[10:30, 8:28] = 1
    images.append(np.stack([y + rng.normal(size=y.shape), np.ones(y.shape)], -1)); labels.append(y)
three = [y + (np.arange(40) > 33)[:, None] * (1 - y) * 2 for y in labels]
# Numbers of iterations vary from one data set to the next: several are summed up.
measure("grid fit", lambda: [
    ms.GridCRF(alpha=1.0).fit(images[k:k + 4], labels[k:k + 4]) for k in range(0, 16, 2)])
measure("grid fit 3 states", lambda: [
    ms.GridCRF(alpha=1.0).fit(images[k:k + 1], three[k:k + 1]) for k in range(4)])
grid = ms.GridCRF(alpha=1.0).fit(images, labels)
measure("grid predict", lambda: grid.predict(images))
measure("grid bcfw", lambda: ms.GridCRF(
    alpha=1.0, solver="bcfw", max_iter=5, random_state=0).fit(images[:6], labels[:6]))
E = np.unique(np.sort(rng.integers(1500, size=(4500, 2)), axis=1), axis=0)
E = E[E[:, 0] < E[:, 1]]
for n_states in (2, 3, 6):
    y = rng.integers(n_states, size=1500)
    for _ in range(20):  # neighbours often have the same state
        half = E[rng.random(len(E)) < 0.3]
        y[half[:, 0]] = y[half[:, 1]]
    x = np.eye(n_states)[y] + rng.normal(size=(1500, n_states))
    fit = lambda: ms.GraphCRF(alpha=1.0, n_states=n_states).fit([(x, E)], [y])
    measure(f"graph fit {n_states} states", fit)
    graph = fit()
    measure(f"graph predict {n_states} states", lambda: graph.predict([(x, E)]))
    measure(f"graph marginals {n_states} states", lambda: graph.predict_marginals([(x, E)]))
T = [rng.integers(6, size=30) for _ in range(400)]
F = [np.eye(6)[y] + rng.normal(size=(30, 6)) for y in T]
measure("chain fit", lambda: ms.ChainCRF(alpha=1.0).fit(F, T))
chain = ms.ChainCRF(alpha=1.0).fit(F, T)
measure("chain predict_marginals", lambda: chain.predict_marginals(F))
# The problems of benchmarks.matching, .grids, .chains and .roommates, made smaller.
if only in "benchmarks.matching":
    turn = make_landmark_sequence(n_frames=80, noise=0.015, random_state=0)
    pairs = frame_pairs(turn, 50, random_state=0)
    for rho in (1.0, 0.95, 0.5):
        for alpha in (1e4, 100.0, 1.0):
            fit = lambda: ms.BipartiteMatchingCRF(alpha=alpha, rho=rho).fit(pairs.X, pairs.Y)
            measure(f"benchmarks.matching rho={rho} alpha={alpha:g}", fit)
if only in "benchmarks.grids":
    from mlestruct.features import edge_features, node_features
    drawn, masks = make_segmentation(20, (50, 50), random_state=0)
    drawn = [(node_features(image), edge_features(image)) for image in drawn]
    measure("benchmarks.grids", lambda: ms.GridCRF(alpha=28.5).fit(drawn, masks))
if only in "benchmarks.chains":
    W, V = make_words(300, 26, random_state=0)
    measure("benchmarks.chains", lambda: ms.ChainCRF(alpha=1.0).fit(W, V))
if only in "benchmarks.roommates":
    from mlestruct.datasets import generate_campus
    campus = generate_campus([600, 580], random_state=0)
    students = [campus.features(year) for year in campus.years]
    mates = [year.partner for year in campus.years]
    for polytope in ("local", "exact"):
        measure(f"benchmarks.roommates {polytope}", lambda: ms.MatchingCRF(
            alpha=100.0, polytope=polytope).fit(students, mates))
print(json.dumps(seconds))
"""


def run(checkout: Path, python: str, only: str) -> dict[str, float]:
    """CPU seconds of every workload in one checkout."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [python, "-c", WORK, only], capture_output=True, text=True, env=environment, check=False
    )
    if done.returncode:
        raise SystemExit(f"{checkout}: {done.stderr.strip().splitlines()[-1]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare two checkouts")
    parser.add_argument("other", type=Path, help="the checkout to compare with")
    parser.add_argument("--repeat", type=int, default=3, help="processes of each checkout")
    parser.add_argument("--only", default="", help="workloads whose name contains this")
    options = parser.parse_args()
    here = Path(__file__).parents[1]
    best: list[dict[str, float]] = [{}, {}]
    for _ in range(options.repeat):
        for k, checkout in enumerate((options.other, here)):
            for name, value in run(checkout, sys.executable, options.only).items():
                best[k][name] = min(value, best[k].get(name, value))
    print(f"{'CPU s':42s} {'other':>9s} {'here':>9s} {'ratio':>6s}")
    for name in best[1]:
        other, own = best[0][name], best[1][name]
        print(f"{name:42s} {other:9.4f} {own:9.4f} {own / other:6.2f}")


if __name__ == "__main__":
    main()
