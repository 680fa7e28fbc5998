"""This checkout beside another commit: the same fits and predictions, CPU seconds as ratios.

    python -m benchmarks.compare HEAD~1                         # a commit
    python -m benchmarks.compare /path/to/checkout --only grid  # a folder; cases with this name
    python -m benchmarks.compare HEAD~1 --weights               # the weights instead of seconds

Each side runs in processes of its own, in turn; the least time of a case counts. The cases are of
this checkout and use only public names. A case that fails on one side is shown with its error.

P is alpha-strongly concave, so a fit with gap g has weights within sqrt(2 g / alpha) of the
optimum: `--weights` shows the distance of both sides in units of the sum of their radii.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import (
    Data,
    assignments,
    candidate_pairs,
    groups,
    images,
    least,
    pair_input,
    random_edges,
    sentences,
    show,
)

ROOT = Path(__file__).parents[1]


def cases() -> Iterator[tuple[str, Callable[[], tuple[str, Data, dict[str, Any]]]]]:
    """The name of a case, and what it fits: an estimator, its samples, its parameters."""
    for rho in (1.0, 0.95, 0.5):
        for alpha in (100.0, 1.0):
            name = f"assignments 30 x 30, rho = {rho:g}, alpha = {alpha:g}"
            given = {"rho": rho, "alpha": alpha}
            yield name, lambda own=given: ("BipartiteMatchingCRF", assignments(40, 30), own)
    yield "assignments 200 x 200", lambda: ("BipartiteMatchingCRF", assignments(4, 200), {})
    yield "candidate pairs", lambda: ("BipartiteMatchingCRF", pairs(3_000), {"perfect": False})
    for polytope in ("local", "exact"):
        given = {"polytope": polytope}
        yield f"groups of 40, {polytope}", lambda own=given: ("MatchingCRF", groups(10, 40), own)
    for n_states, side in ((2, 60), (3, 40)):
        data = (8, side, n_states)
        yield f"images, {n_states} states", lambda own=data: ("GridCRF", images(*own), {})
    for n_states in (2, 3, 6):
        yield f"graph, {n_states} states", lambda s=n_states: ("GraphCRF", graph(1_500, s), {})
    yield "sequences, arrays", lambda: ("ChainCRF", sequences(400), {})
    yield "sequences, strings", lambda: ("ChainCRF", sentences(600), {})
    yield "label sets", lambda: ("MultiLabelCRF", label_sets(800), {})
    yield "campus", lambda: ("MatchingCRF", campus(300), {"alpha": 100.0})


def pairs(n_records: int) -> Data:
    row, col, features, partner = candidate_pairs(n_records)
    return [pair_input(row, col, features, (n_records, n_records))], [partner]


def graph(n_nodes: int, n_states: int) -> Data:
    rng = np.random.default_rng(0)
    edges, y = random_edges(n_nodes, rng), rng.integers(n_states, size=n_nodes)
    for _ in range(20):  # neighbours often have the same state
        some = edges[rng.random(len(edges)) < 0.3]
        y[some[:, 0]] = y[some[:, 1]]
    return [(np.eye(n_states)[y] + rng.normal(size=(n_nodes, n_states)), edges)], [y]


def sequences(n_samples: int) -> Data:
    rng = np.random.default_rng(0)
    Y = [rng.integers(6, size=30) for _ in range(n_samples)]
    return [np.eye(6)[y] + rng.normal(size=(30, 6)) for y in Y], Y


def label_sets(n_samples: int) -> Any:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_samples, 10))
    noise = rng.normal(size=(n_samples, 1)) + rng.normal(size=(n_samples, 6))
    return X, (X[:, :6] + noise > 0).astype(int)


def campus(n_students: int) -> Data:
    from mlestruct import PairInput
    from mlestruct.datasets import generate_campus

    found = generate_campus([n_students, n_students - 20], random_state=0)
    partners = [year.partner for year in found.years]
    if hasattr(found, "features"):  # of commits before these were a user's own map
        return [found.features(year) for year in found.years], partners
    from reproduction.questionnaires import AnswerPairs

    maps = [AnswerPairs(found.questions, year.answers) for year in found.years]
    return [PairInput(own, shape=(own.n_people, own.n_people)) for own in maps], partners


def measure(make: Callable[[], tuple[str, Data, dict[str, Any]]]) -> dict[str, float]:
    """CPU seconds of fit, predict and marginals."""
    import mlestruct

    name, (X, Y), parameters = make()
    estimator = getattr(mlestruct, name)
    model = estimator(**parameters).fit(X, Y)
    marginals = getattr(model, "predict_marginals", None) or model.predict_proba
    return {
        "fit": least(lambda: estimator(**parameters).fit(X, Y), 3),
        "predict": least(lambda: model.predict(X), 3),
        "marginals": least(lambda: marginals(X), 3),
    }


def fitted(make: Callable[[], tuple[str, Data, dict[str, Any]]]) -> dict[str, Any]:
    """Weights, and how far from the optimum they may be, of fits at three alphas."""
    import mlestruct

    name, (X, Y), parameters = make()
    out = {}
    for factor in (0.1, 1.0, 10.0):
        alpha = factor * parameters.get("alpha", 1.0)
        model = getattr(mlestruct, name)(**{**parameters, "alpha": alpha}).fit(X, Y)
        radius = float(np.sqrt(2.0 * model.duality_gap_ / alpha))
        out[f"alpha = {alpha:g}"] = [np.ravel(model.coef_).tolist(), radius]
    return out


def measure_all(only: str, weights: bool) -> None:
    """Print the seconds of every case as JSON: in a process with the package of one side."""
    warnings.simplefilter("ignore")
    found: dict[str, Any] = {}
    for name, make in cases():
        if only in name:
            try:
                found[name] = fitted(make) if weights else measure(make)
            except Exception as error:
                found[name] = f"{type(error).__name__}: {error}"
    print(json.dumps(found))


def run(checkout: Path, only: str, weights: bool) -> dict[str, Any]:
    """What `measure_all` prints with the package of a checkout."""
    paths = os.pathsep.join([str(checkout / "src"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    code = f"import benchmarks.compare as b; b.measure_all({only!r}, {weights})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          env=environment, check=False)  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{checkout}: {done.stderr.strip().splitlines()[-1]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def checkout_of(other: str) -> Path:
    """A folder, or the files of a commit; these stay in the temporary folder with their cache."""
    if Path(other).is_dir():
        return Path(other).resolve()
    git = ["git", "-C", str(ROOT)]
    commit = subprocess.run([*git, "rev-parse", "--verify", f"{other}^{{commit}}"],
                            capture_output=True, text=True, check=False)  # fmt: skip
    if commit.returncode:
        raise SystemExit(f"{other!r} is neither a folder nor a commit of {ROOT}.")
    folder = Path(tempfile.gettempdir()) / f"mlestruct-{commit.stdout.strip()}"
    if not folder.is_dir():
        files = subprocess.run([*git, "archive", other, "src"], capture_output=True, check=True)
        with tarfile.open(fileobj=io.BytesIO(files.stdout)) as archive:
            archive.extractall(folder, filter="data")
    return folder


def show_weights(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Distances of the weights of two sides; a failed case shows its error."""
    rows: list[list[Any]] = []
    for name, found in other.items():
        if isinstance(found, str) or isinstance(one[name], str):
            print(f"{name}: {one[name]} / {found}" if isinstance(found, str) else one[name])
            continue
        for alpha, (coef, radius) in found.items():
            before, radius_before = one[name][alpha]
            if len(coef) != len(before):
                print(f"{name}: {len(before)} weights before, {len(coef)} now")
                continue
            distance = float(np.linalg.norm(np.subtract(coef, before)))
            rows.append([name, alpha, distance, distance / (radius + radius_before)])
    show("Distance of weights", ["case", "", "distance", "/ sum of radii"], rows)
    print(f"{len(rows)} fits, {sum(row[-1] > 1.0 for row in rows)} differ by more than their gaps")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", help="a commit, or the folder of a checkout")
    parser.add_argument("--repeat", type=int, default=3, help="processes of each side")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--weights", action="store_true", help="compare weights, not seconds")
    options = parser.parse_args(arguments)
    sides = [checkout_of(options.other), ROOT]
    if options.weights:
        show_weights(*(run(side, options.only, True) for side in sides))
        return
    best: list[dict[str, Any]] = [{}, {}]
    for _ in range(options.repeat):
        for own, side in zip(best, sides, strict=True):
            for name, found in run(side, options.only, False).items():
                if isinstance(found, dict) and isinstance(own.get(name), dict):
                    found = {what: min(found[what], own[name][what]) for what in found}
                own[name] = found
    rows: list[list[Any]] = []
    for name, here in best[1].items():
        other = best[0][name]
        for side, found in ((options.other, other), ("here", here)):
            if isinstance(found, str):
                print(f"{name}, {side}: {found}")
        if isinstance(here, dict) and isinstance(other, dict):
            rows += [[name, what, other[what], here[what], here[what] / other[what]]
                     for what in here]  # fmt: skip
    show("CPU seconds", ["case", "", options.other, "here", "ratio"], rows)


if __name__ == "__main__":
    main()
