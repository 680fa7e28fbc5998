"""Learning sequences: `ChainCRF` beside python-crfsuite, same data, same objective.

    python -m benchmarks.chains [--quick]

Both sides maximise the same penalised log-likelihood over the same weights (crfsuite: L-BFGS,
c1 = 0, c2 = alpha/2, all states and transitions), each in one thread. `ChainCRF` is timed until it
proves a relative gap of 1e-4, crfsuite until its objective is within 1e-4 of the better one; both
from the data as the library reads them: arrays or dictionaries (`ChainCRF`), dictionaries.

With an l1 penalty (c1), weights of observed features only: `ChainCRF` until it proves a relative
gap of 1e-3, crfsuite (OWL-QN) until it stops by itself.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import Data, command, has, sentences, show, timed
from mlestruct import ChainCRF
from mlestruct.datasets import make_words

ALPHA, TOL = 1.0, 1e-4
C2, L1_TOL = 0.1, 1e-3


def words(n_words: int, n_states: int = 26) -> Data:
    """Generated words of 16 x 8 pixels a letter, with a constant feature."""
    X, Y = make_words(n_words, n_states, random_state=0)
    return [np.hstack([x, np.ones((len(x), 1), dtype=x.dtype)]) for x in X], Y


def word_items(X: list[Any], Y: list[Any]) -> Data:
    """Arrays as crfsuite reads them."""
    items = [[{str(k): float(row[k]) for k in np.flatnonzero(row)} for row in x] for x in X]
    return items, [[str(state) for state in y] for y in Y]


def crfsuite_trainer(
    X: list[Any], Y: list[Any], alpha: float, weights: str = "all", c1: float = 0.0
) -> Any:
    """A trainer that holds the data; `weights`: "all", or "observed" together in the data."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params(
        {
            "c1": c1,
            "c2": alpha / 2.0,
            "feature.possible_states": weights == "all",
            "feature.possible_transitions": weights == "all",
            "max_iterations": 10_000,
        }
    )
    for x, y in zip(X, Y, strict=True):
        trainer.append(pycrfsuite.ItemSequence(x), y)
    return trainer


def run_crfsuite(X: list[Any], Y: list[Any], *penalty: Any) -> list[tuple[float, float]]:
    """CPU seconds and objective after every iteration."""
    start = time.process_time()
    trainer = crfsuite_trainer(X, Y, *penalty)
    read = time.process_time() - start
    with tempfile.TemporaryDirectory() as folder:
        spent, _ = timed(lambda: trainer.train(str(Path(folder) / "model")))
    rows = trainer.logparser.iterations
    return [(read + spent * (k + 1) / len(rows), -row["loss"]) for k, row in enumerate(rows)]


def compare(name: str, data: Data, items: Data) -> list[Any]:
    """A row of the table."""
    seconds, model = timed(lambda: ChainCRF(alpha=ALPHA, tol=TOL).fit(*data))
    path = run_crfsuite(*items, ALPHA)
    best = max(model.objective_bound_, path[-1][1])
    theirs = next((now for now, value in path if value >= best - TOL * abs(best)), np.inf)
    difference = (model.objective_bound_ - path[-1][1]) / abs(best)
    tokens = sum(map(len, data[1]))
    return [name, len(data[0]), tokens, model.coef_.size, seconds, theirs / seconds,
            model.n_oracle_calls_, len(path), difference]  # fmt: skip


def compare_sparse(data: Data, c1: float) -> list[Any]:
    """A row of the table with an l1 penalty."""
    alpha = c1 + 2.0 * C2
    model = ChainCRF(alpha=alpha, l1_ratio=c1 / alpha, tol=L1_TOL)
    model.set_params(state_features="observed", transitions="observed")
    seconds, _ = timed(lambda: model.fit(*data))
    path = run_crfsuite(*data, 2.0 * C2, "observed", c1)
    scale, bound = abs(model.objective_), model.objective_bound_
    return [c1, len(data[0]), model.coef_.size, int(np.count_nonzero(model.coef_)), seconds,
            path[-1][0], model.n_oracle_calls_ // model.history_.oracle_calls[0], len(path),
            model.duality_gap_ / scale, (bound - path[-1][1]) / scale]  # fmt: skip


def run(quick: bool) -> None:
    if not has("pycrfsuite", "python-crfsuite"):
        return
    for data in (words(20), sentences(20)):
        ChainCRF(tol=0.1).fit(*data)  # compiles
    rows = []
    for n in (60,) if quick else (600, 6_000):
        data = words(n)
        rows.append(compare("words, arrays", data, word_items(*data)))
    for n in (100,) if quick else (1_500, 6_000, 20_000):
        data = sentences(n)
        rows.append(compare("sentences, strings", data, data))
    show(
        f"`ChainCRF` to a certified relative gap of {TOL:g}, and how many times as long crfsuite "
        "takes to the same objective",
        ["data", "sequences", "tokens", "weights", "CPU s", "times as long: crfsuite",
         "evaluations", "crfsuite", "relative difference of objectives"],
        rows,
    )  # fmt: skip
    run_sparse(quick)


def run_sparse(quick: bool) -> None:
    """The table with an l1 penalty."""
    ChainCRF(l1_ratio=0.5, tol=0.1).fit(*sentences(20))  # compiles
    sizes = (100,) if quick else (1_500, 6_000)
    show(
        f"With the penalty c1 |weights|_1 + {C2:g} |weights|^2: `ChainCRF` to a certified relative "
        f"gap of {L1_TOL:g}, and crfsuite to its own stop; distances from the bound are relative",
        ["c1", "sequences", "weights", "not 0", "CPU s", "CPU s: crfsuite", "evaluations",
         "crfsuite", "distance", "distance: crfsuite"],
        [compare_sparse(sentences(n), c1) for n in sizes for c1 in (0.1, 1.0)],
    )  # fmt: skip


main = command(__doc__, run)

if __name__ == "__main__":
    main()
