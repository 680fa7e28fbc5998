"""An installed package works without its source: `python -P tests/installed_package.py`, anywhere.

Fits, predicts, saves and loads every public estimator on generated data that are easy, and runs
`mlestruct demo` and the help of all commands. Needs nothing but what is installed with the package;
models of tables are included where pandas is installed, too. -P keeps this folder, whose parts have
names of packages, out of the path.
"""

import argparse
import importlib.util
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

ROOMS = ("mlestruct",)
ROOMS_OF_TABLES = ("mlestruct.linkage",)
DECODER = "def positive(scores):\n    return (scores > 0).astype(int)\n"


@dataclass
class Case:
    """An estimator, what it learns from, what it is asked, and how the answer is judged."""

    model: Any
    given: tuple[Any, ...]
    ask: Callable[[Any], Any]
    error: Callable[[Any], float]  # share of the answer that is wrong, or its largest error
    limit: float = 0.1


def predicting(model: Any, X: Any, Y: Any, limit: float = 0.1) -> Case:
    """An estimator with `predict`, asked for what it has learned from."""
    truth = np.concatenate([np.ravel(y) for y in Y])
    return Case(
        model,
        (X, Y),
        lambda fitted: np.concatenate([np.ravel(answer) for answer in fitted.predict(X)]),
        lambda answer: float(np.mean(answer != truth)),
        limit,
    )


def cases() -> Iterator[Case]:
    import mlestruct
    from mlestruct.datasets import make_segmentation

    rng = np.random.default_rng(0)
    places = rng.uniform(0, 10, size=(20, 6, 2))
    moved = places + 0.1 * rng.normal(size=places.shape)
    X = [np.abs(a[:, None] - b[None]) for a, b in zip(places, moved, strict=True)]
    yield predicting(mlestruct.BipartiteMatchingCRF(), X, [np.arange(6)] * 20)
    both = [np.concatenate([a, b]) for a, b in zip(places, moved, strict=True)]
    X = [np.abs(place[:, None] - place[None]) for place in both]
    yield predicting(mlestruct.MatchingCRF(), X, [(np.arange(12) + 6) % 12] * 20)

    masks = make_segmentation(8, (8, 9), random_state=0)[1]
    X = [np.stack([1.0 - mask, mask], axis=2) + 0.3 * rng.normal(size=(8, 9, 2)) for mask in masks]
    yield predicting(mlestruct.GridCRF(), X, masks)
    ring = np.stack([np.arange(9), (np.arange(9) + 1) % 9], axis=1)
    names = np.array(["ground", "figure"])
    yield predicting(
        mlestruct.GraphCRF(), [(x[0], ring) for x in X], [names[mask[0]] for mask in masks]
    )
    yield predicting(mlestruct.ChainCRF(), [x[0] for x in X], [names[mask[0]] for mask in masks])

    X = rng.normal(size=(200, 3))
    yield predicting(mlestruct.MultiLabelCRF(), X, (X > 0).astype(int))
    spikes = (rng.random((500, 5)) < [0.1, 0.3, 0.5, 0.7, 0.9]).astype(int)
    yield Case(
        mlestruct.IsingMRF(graph="full"),
        (spikes,),
        lambda model: model.predict_marginals()[0],
        lambda answer: float(np.abs(answer - spikes.mean(axis=0)).max()),  # maximum likelihood: 0
        0.02,
    )
    X = rng.normal(size=(30, 8, 2))
    decoder = import_module("decoder_of_a_user")
    Y = [decoder.positive(x @ [4.0, -4.0]) for x in X]
    yield predicting(mlestruct.StructuredCRF(decoder.positive, tol=0.01), X, Y)


def cases_of_tables() -> Iterator[Case]:
    import pandas as pd

    from mlestruct.datasets import make_people
    from mlestruct.linkage import RecordLinker

    def as_pairs(table: Any) -> Iterator[tuple[Any, ...]]:
        return table[["left", "right"]].itertuples(index=False, name=None)

    def missing(truth: Any) -> Callable[[Any], float]:
        pairs = set(as_pairs(truth))
        return lambda found: len(pairs - set(as_pairs(found))) / len(pairs)

    left, right, truth = make_people(60, random_state=0)
    alone = left.index.difference(truth["left"])
    known = pd.concat([truth, pd.DataFrame({"left": alone, "right": ""})])
    yield Case(
        RecordLinker(alpha=0.1),
        (left, right, known),
        lambda model: model.link(left, right).proposed,
        missing(truth),
    )


def check(case: Case, folder: Path) -> str:
    """Fit, ask, save, load and ask again; returns what to print."""
    import mlestruct

    began = time.perf_counter()
    model = case.model.fit(*case.given)
    name = type(model).__name__
    assert model.converged_, f"{name} has not converged"
    error = case.error(answer := case.ask(model))
    assert error <= case.limit, f"{name}: error {error}, expected at most {case.limit}"
    model.save(folder / "model.mls")
    again = mlestruct.load(folder / "model.mls", trusted=["decoder_of_a_user"])
    np.testing.assert_array_equal(again.coef_, model.coef_, err_msg=name)
    np.testing.assert_array_equal(np.asarray(case.ask(again)), np.asarray(answer), err_msg=name)
    return f"{name:22} error {error:.3f}  {time.perf_counter() - began:6.1f} s"


def check_estimators(folder: Path) -> None:
    """All of them: one that is public and has no case is an error."""
    (folder / "decoder_of_a_user.py").write_text(DECODER)
    sys.path.insert(0, str(folder))
    tables = importlib.util.find_spec("pandas") is not None
    todo, rooms = list(cases()), ROOMS
    if tables:
        todo, rooms = todo + list(cases_of_tables()), ROOMS + ROOMS_OF_TABLES
    public = {
        value
        for room in map(import_module, rooms)
        for value in (getattr(room, name) for name in room.__all__)
        if hasattr(value, "fit") and hasattr(value, "save")
    }
    assert public == {type(case.model) for case in todo}, (public, todo)
    for case in todo:
        print(check(case, folder), flush=True)
    if not tables:
        print(f"without pandas, so not tried: {', '.join(ROOMS_OF_TABLES)}")


def check_commands(folder: Path) -> None:
    from mlestruct import __version__
    from mlestruct.cli import make_parser

    command = Path(sysconfig.get_path("scripts"), "mlestruct")

    def said(*arguments: str) -> str:
        done = subprocess.run(
            [command, *arguments], cwd=folder, capture_output=True, text=True, encoding="utf-8"
        )
        assert done.returncode == 0, (arguments, done.stderr)
        return done.stdout

    assert said("--version").split() == ["mlestruct", __version__]
    actions = make_parser()._actions
    (commands,) = (part for part in actions if isinstance(part, argparse._SubParsersAction))
    overview = said("--help")
    for name in commands.choices:
        assert name in overview.split(), f"{name} is not in mlestruct --help"
        assert said(name, "--help").startswith(f"usage: mlestruct {name} ")
    print(f"mlestruct --help, and of {', '.join(commands.choices)}")
    assert "certified: the log-likelihood is within" in said("demo")
    assert (folder / "mlestruct-demo.png").read_bytes()[:4] == b"\x89PNG"
    print("mlestruct demo")


def main() -> None:
    import mlestruct

    place = Path(mlestruct.__file__).parent
    expected = Path(sysconfig.get_path("purelib"), "mlestruct")
    assert place == expected, f"mlestruct is taken from {place}, expected {expected}"
    assert (place / "py.typed").exists(), "type checkers need py.typed"
    print(f"mlestruct {mlestruct.__version__}, Python {sys.version.split()[0]}")
    with tempfile.TemporaryDirectory() as folder:
        check_estimators(Path(folder))
        check_commands(Path(folder))


if __name__ == "__main__":
    main()
