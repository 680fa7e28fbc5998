"""Choosing density, regularisation and time span of an `IsingMRF` by held-out frames.

Folds are contiguous parts of the recording, since neighbouring frames resemble each other. A model
is judged by `IsingMRF.score`: the mean log-likelihood of held-out frames given those before, or its
proven lower bound. All time spans are judged on the same frames.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed

from .ising import IsingMRF
from .ising_variables import read_frames
from .validation import check_count

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

Score = dict[str, Any]  # density, alpha, time_span, fold, score, edges, exact


@dataclass(frozen=True)
class IsingSelection:
    """Scores of a grid of models.

    Attributes
    ----------
    scores : list of dictionaries with density, alpha, time_span, fold, score, edges, exact
    best_params : dict, those of the largest mean score; of equals the sparsest, then the most
        regularised
    best_score : float, mean over folds
    model : IsingMRF, fitted to all frames with `best_params`; None without refit
    """

    scores: list[Score]
    best_params: dict[str, Any]
    best_score: float
    model: IsingMRF | None

    def means(self) -> list[dict[str, Any]]:
        """Mean score, number of edges and exactness of every model of the grid, best first."""
        groups: dict[tuple[Any, ...], list[Score]] = {}
        for row in self.scores:
            groups.setdefault((row["density"], row["alpha"], row["time_span"]), []).append(row)
        found = [
            {
                "density": density,
                "alpha": alpha,
                "time_span": time_span,
                "score": float(np.mean([row["score"] for row in rows])),
                "edges": float(np.mean([row["edges"] for row in rows])),
                "exact": all(row["exact"] for row in rows),
            }
            for (density, alpha, time_span), rows in groups.items()
        ]
        return sorted(found, key=lambda row: (-row["score"], row["edges"], -row["alpha"]))


def select_ising(
    Y: Any,
    stimuli: Any = None,
    model: IsingMRF | None = None,
    *,
    density: Sequence[float | None] = (0.01, 0.02, 0.05, 0.1),
    alpha: Sequence[float] = (0.3, 1.0, 3.0, 10.0, 30.0),
    time_span: Sequence[int] = (1,),
    n_folds: int = 3,
    n_jobs: int | None = None,
    resume: str | Path | None = None,
    refit: bool = True,
) -> IsingSelection:
    """Fit a grid of models and choose the one whose held-out frames are most probable.

    Parameters
    ----------
    Y, stimuli : as in `IsingMRF.fit`
    model : IsingMRF, optional
        All other parameters. Densities are reached only where its `l1` selects enough pairs.
    density, alpha, time_span : the grid
    n_folds : contiguous parts of the recording, each held out once
    n_jobs : processes
    resume : path of a file, optional
        Scores are appended as they are found; those that it has already are not computed again.
    refit : whether to fit the best model to all frames

    Examples
    --------
    >>> from mlestruct.datasets import make_spikes
    >>> data = make_spikes(12, 600, n_stimuli=1, ensemble_size=5, random_state=0)
    >>> found = select_ising(data.spikes, density=[0.0, 0.15], alpha=[1.0], n_folds=2)
    >>> found.best_params
    {'density': 0.15, 'alpha': 1.0, 'time_span': 1}
    """
    frames, shown = read_frames(Y, stimuli)
    settings = clone(IsingMRF(l1=0.5) if model is None else model).set_params(n_jobs=None)
    spans = sorted({check_count(span, "time_span") for span in time_span})
    n_folds = check_count(n_folds, "n_folds")
    if n_folds < 2 or frames.shape[0] < n_folds * (spans[-1] + 1):
        raise ValueError(
            f"n_folds: expected at least 2, with {spans[-1] + 1} frames each, got {n_folds} folds "
            f"of {frames.shape[0]} frames"
        )
    alphas = sorted({float(value) for value in alpha}, reverse=True)
    if not alphas or not density:
        raise ValueError("density and alpha: expected at least one value each")
    store = _Store(resume, _fingerprint(settings, frames, shown, n_folds))
    tasks = [
        (fold, span, share, missing)
        for fold, span, share in product(range(n_folds), spans, dict.fromkeys(density))
        if (missing := [a for a in alphas if not store.has(fold, span, share, a)])
    ]
    runs = Parallel(n_jobs=n_jobs, return_as="generator_unordered")(
        delayed(_evaluate)(settings, frames, shown, n_folds, spans[-1], *task) for task in tasks
    )
    for rows in runs:
        store.add(rows)
    wanted = set(product(dict.fromkeys(density), alphas, spans, range(n_folds)))
    scores = [row for row in store.rows if _key(row) in wanted]
    best = IsingSelection(scores, {}, -np.inf, None).means()[0]
    chosen = {name: best[name] for name in ("density", "alpha", "time_span")}
    fitted = clone(settings).set_params(**chosen).fit(frames, shown) if refit else None
    return IsingSelection(scores, chosen, best["score"], fitted)


def _key(row: Score) -> tuple[Any, ...]:
    return row["density"], row["alpha"], row["time_span"], row["fold"]


def _evaluate(
    settings: IsingMRF, frames: Ints, stimuli: Any, n_folds: int, longest: int,
    fold: int, span: int, density: float | None, alphas: list[float],
) -> list[Score]:  # fmt: skip
    """Scores of one graph under all alphas, from strong to weak, each starting from the last."""
    n = frames.shape[0]
    first, stop = round(n * fold / n_folds), round(n * (fold + 1) / n_folds)
    kept = np.r_[0:first, stop:n]
    weights = np.ones(kept.size)
    weights[first : first + span - 1] = 0.0  # rows across the gap join frames that are far apart
    shown = None if stimuli is None else stimuli[kept]
    fitted = clone(settings).set_params(density=density, time_span=span, alpha=alphas[0])
    held_out = slice(first + longest - span, stop)
    found = []
    for alpha in alphas:
        fitted.set_params(alpha=alpha).fit(frames[kept], shown, weights)
        fitted.set_params(graph=fitted.edges_, warm_start=True)
        score = fitted.score(frames[held_out], None if stimuli is None else stimuli[held_out])
        found.append(
            {
                "density": density,
                "alpha": alpha,
                "time_span": span,
                "fold": fold,
                "score": score,
                "edges": len(fitted.edges_),
                "exact": fitted.is_exact_,
            }
        )
    return found


def _fingerprint(settings: IsingMRF, frames: Ints, stimuli: Any, n_folds: int) -> str:
    """The same for equal data and equal parameters outside the grid."""
    digest = hashlib.sha1(usedforsecurity=False)
    for table in (frames, np.zeros((0, 0), dtype=np.int64) if stimuli is None else stimuli):
        digest.update(repr(table.shape).encode())
        digest.update(np.packbits(table.astype(bool)).tobytes())
    outside = {
        name: value
        for name, value in sorted(settings.get_params().items())
        if name not in ("density", "alpha", "time_span", "callback", "n_jobs", "verbose")
    }
    digest.update(repr((outside, n_folds)).encode())
    return digest.hexdigest()


class _Store:
    """Rows of scores, and the file they are kept in: one JSON text a line."""

    def __init__(self, path: str | Path | None, fingerprint: str):
        self._path = None if path is None else Path(path)
        self._fingerprint = fingerprint
        self.rows = [] if self._path is None else list(self._stored(self._path))
        self._keys = {_key(row) for row in self.rows}

    def _stored(self, path: Path) -> Iterator[Score]:
        if not path.exists():
            return
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                row = json.loads(line)
                if row.pop("of") == self._fingerprint:
                    yield row
            except (ValueError, KeyError, AttributeError) as error:
                raise ValueError(f"resume: line {number} of {path} is no score: {error}") from None

    def has(self, fold: int, time_span: int, density: float | None, alpha: float) -> bool:
        return (density, alpha, time_span, fold) in self._keys

    def add(self, rows: list[Score]) -> None:
        self.rows += rows
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps({**row, "of": self._fingerprint}) + "\n" for row in rows)
