"""Landmark matching, as several experiments need it: pairs of frames in thirds, tuned fits, losses.

Pairs (i, i + gap) of frames fall into three thirds by i mod 3. Each third is the test set once.
The configuration of a method (alpha, passes, ...) is chosen by cross-validation over the other two:
fit on one, count wrong landmarks in the other, and the other way round. Then it is fitted on both.
Every method is treated alike, on the same features, and may try at least as many configurations.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..baselines import StructuredPerceptron, StructuredSVM
from ..datasets import (
    FramePairs,
    frame_pairs,
    load_cmu_landmarks,
    make_landmark_sequence,
)
from ..models import BipartiteMatchingCRF
from .algorithm_one import solved_by_each
from .parts import Setting

REAL = "CMU landmarks"
GENERATED, SCENE_NAME = "generated", "scene"
HINGE, PERCEPTRON = "hinge", "perceptron"
THIRDS = (0, 1, 2)
GAPS = tuple(range(0, 100, 10))

SCENE = {"n_landmarks": 30, "n_frames": 111, "degrees_per_frame": 0.8, "noise": 0.015, "seed": 0}
QUICK_SCENE = {
    "n_landmarks": 12, "n_frames": 36, "degrees_per_frame": 2.0, "noise": 0.01, "seed": 0,
}  # fmt: skip

Samples = tuple[list[Any], list[Any]]
Configuration = dict[str, Any]


# ---------------------------------------------------------------------- what decides the results
def common_setting(quick: bool, names: Sequence[str]) -> Setting:
    """Data, solver tolerances and the configurations that methods may choose from.

    Penalties are per training pair, so that they mean the same for a third and for two.
    """
    setting: Setting = {
        **_data(quick, names),
        "folds": "thirds by i mod 3; two-fold cross-validation, then a fit on both",
        "scaling": "one scale for all features: their mean standard deviation in training",
        "tol": 1e-3,
        "max_iter": 300,
        "hinge tol": 1e-2,
        "hinge max_iter": 100,
    }
    if quick:
        return setting | {
            "penalties": [10.0**k for k in (0, -1, -2)],
            "hinge penalties": [10.0**k for k in (0, -1, -2)],
            "passes": [3, 30],
            "decays": [0.0, 0.1, 1.0],
        }
    return setting | {
        "penalties": [10.0 ** (k / 2) for k in range(2, -10, -1)],
        "hinge penalties": [10.0 ** (k / 3) for k in range(6, -12, -1)],
        "passes": [1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100, 300],
        "decays": [0.0, 0.1, 1.0],
    }


def _data(quick: bool, names: Sequence[str]) -> Setting:
    """Which data there is, and why if it is not the real one."""
    why = "quick runs need no data"
    if not quick:
        try:
            for name in names:
                load_cmu_landmarks(name)
            return {"data": REAL, "sequences": list(names)}
        except FileNotFoundError:
            files = " and ".join(f"cmu_landmarks/{name}.csv" for name in names)
            why = f"MLESTRUCT_DATA names no folder with {files}"
    scene = QUICK_SCENE if quick else SCENE
    return {"data": GENERATED, "why": why, "sequences": [SCENE_NAME], "scene": dict(scene)}


def is_real(setting: Setting) -> bool:
    return bool(setting["data"] == REAL)


def load_pairs(setting: Setting, name: str, gap: int) -> FramePairs:
    """All pairs of frames `gap` apart, of a real sequence or of the generated scene."""
    if name != SCENE_NAME:
        return frame_pairs(load_cmu_landmarks(name), gap)
    options = dict(setting["scene"])
    scene = make_landmark_sequence(random_state=options.pop("seed"), **options)
    return frame_pairs(scene, gap)


def algorithms_setting(quick: bool, gap: int, rho: float, seconds: float = 20.0) -> Setting:
    """Of the one problem that Algorithm 1 solves beside the default solver: the first two thirds
    of one gap, at a penalty per pair; and CPU seconds for each algorithm."""
    return {"gap": gap, "rho": rho, "penalty": 0.1, "seconds": 2.0 if quick else seconds}


# ---------------------------------------------------------------------- thirds
class Thirds:
    """The pairs of one gap by i mod 3."""

    def __init__(self, pairs: FramePairs):
        index = np.arange(len(pairs))
        self.parts = [pairs.take(index[index % 3 == third]) for third in THIRDS]

    @property
    def sizes(self) -> list[int]:
        return [len(part) for part in self.parts]

    def scale(self, train: Sequence[int]) -> float:
        """The mean standard deviation of the features of some thirds."""
        rows = [x.reshape(-1, x.shape[2]) for third in train for x in self.parts[third].X]
        return float(np.concatenate(rows).std(axis=0).mean()) or 1.0

    def samples(self, thirds: Sequence[int], scale: float) -> Samples:
        X = [x / scale for third in thirds for x in self.parts[third].X]
        Y = [y for third in thirds for y in self.parts[third].Y]
        return X, Y


def others(third: int) -> tuple[int, int]:
    """The two thirds beside one."""
    a, b = (other for other in THIRDS if other != third)
    return a, b


# ---------------------------------------------------------------------- methods
def configurations(setting: Setting, method: str) -> list[Configuration]:
    """What `method` ("rho=..." for the CRF, "hinge" or "perceptron") may choose from.

    The most regularised is the first.
    """
    if method == HINGE:
        return [
            {"penalty": penalty, "averaging": averaging}
            for penalty in setting["hinge penalties"]
            for averaging in (False, True)
        ]
    if method == PERCEPTRON:
        return [
            {"passes": passes, "decay": decay}
            for passes in setting["passes"]
            for decay in setting["decays"]
        ]
    return [{"penalty": penalty} for penalty in setting["penalties"]]


def name_of(rho: float) -> str:
    """The name of the CRF with this rho among the methods."""
    return f"rho={rho:g}"


def estimator(setting: Setting, method: str, chosen: Configuration, n_pairs: int) -> Any:
    """An estimator that is yet to be fitted to `n_pairs` pairs of frames."""
    if method == PERCEPTRON:
        return StructuredPerceptron(
            BipartiteMatchingCRF(random_state=0), max_iter=chosen["passes"], decay=chosen["decay"]
        )
    alpha = chosen["penalty"] * n_pairs
    if method == HINGE:
        crf = BipartiteMatchingCRF(
            alpha=alpha, tol=setting["hinge tol"], max_iter=setting["hinge max_iter"],
            random_state=0,
        )  # fmt: skip
        return StructuredSVM(crf, averaging=chosen["averaging"])
    rho = float(method.removeprefix("rho="))
    return BipartiteMatchingCRF(
        rho=rho, alpha=alpha, tol=setting["tol"], max_iter=setting["max_iter"]
    )


def _fit_all(setting: Setting, method: str, samples: Samples) -> list[Any]:
    """One fitted estimator per configuration."""
    choices = configurations(setting, method)
    unfitted = [estimator(setting, method, chosen, len(samples[0])) for chosen in choices]
    if isinstance(unfitted[0], BipartiteMatchingCRF):
        fitted = unfitted[0].fit_path(*samples, [each.alpha for each in unfitted])
        return list(fitted.estimators)
    return [each.fit(*samples) for each in unfitted]


# ---------------------------------------------------------------------- tuned fits
Inspect = Callable[[Any, Samples, int], Any]
"""From the fitted estimator, the scaled test pairs and the number of the test third."""


def tuned_losses(
    setting: Setting, sequence: str, gap: int, method: str, inspect: Inspect | None = None
) -> dict[str, Any]:
    """Losses of one method at one gap, for each third as the test set.

    Returns
    -------
    dict with
        losses : [third of training][third of evaluation][configuration], None where they are one
        chosen : [test third], the configuration that cross-validation chose
        validation : [test third], its loss in cross-validation
        test : [test third], its loss there after the fit on the other two
        sizes : pairs in each third; seconds : of CPU time; fits, unconverged : numbers of fits
        inspected : [test third], what `inspect` returned
        solver : the solver of the last fit
    """
    thirds = Thirds(load_pairs(setting, sequence, gap))
    choices = configurations(setting, method)
    losses: list[list[list[float] | None]] = [[None] * 3 for _ in THIRDS]
    chosen, validation, test, inspected = [], [], [], []
    fits = 0
    started = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        for train in THIRDS:
            scale = thirds.scale([train])
            fitted = _fit_all(setting, method, thirds.samples([train], scale))
            fits += len(fitted)
            for third in others(train):
                held_out = thirds.samples([third], scale)
                losses[train][third] = [1.0 - each.score(*held_out) for each in fitted]
        for third in THIRDS:
            best, loss = cross_validated(losses, thirds.sizes, third)
            scale = thirds.scale(others(third))
            both = thirds.samples(others(third), scale)
            refitted = estimator(setting, method, choices[best], len(both[0])).fit(*both)
            fits += 1
            samples = thirds.samples([third], scale)
            chosen.append(choices[best])
            validation.append(loss)
            test.append(1.0 - refitted.score(*samples))
            if inspect is not None:
                inspected.append(inspect(refitted, samples, third))
    return {
        "losses": losses,
        "chosen": chosen,
        "validation": validation,
        "test": test,
        "inspected": inspected,
        "sizes": thirds.sizes,
        "seconds": time.process_time() - started,
        "fits": fits,
        "solver": refitted.solver_,
        "unconverged": sum(issubclass(each.category, ConvergenceWarning) for each in caught),
    }


def algorithms_part(setting: Setting) -> dict[str, Any]:
    """Algorithm 1 beside auto on two thirds of one gap."""
    own = setting["algorithms"]
    samples = two_thirds(setting, own["gap"])
    model = estimator(setting, name_of(own["rho"]), {"penalty": own["penalty"]}, len(samples[0]))
    return solved_by_each(model, *samples, own["seconds"])


def algorithms_problem(setting: Setting) -> str:
    """The name of that problem."""
    own = setting["algorithms"]
    return f"{main_sequence(setting)}, gap {own['gap']}, rho = {own['rho']:g}"


def main_sequence(setting: Setting) -> str:
    return "house" if is_real(setting) else SCENE_NAME


def two_thirds(setting: Setting, gap: int) -> Samples:
    """The first two thirds of the house, or of the scene."""
    thirds = Thirds(load_pairs(setting, main_sequence(setting), gap))
    return thirds.samples((0, 1), thirds.scale((0, 1)))


def cross_validated(
    losses: Sequence[Sequence[Any]], sizes: Sequence[int], test: int
) -> tuple[int, float]:
    """The configuration with the smallest loss over both folds, and this loss.

    Of equals the first one, which is the most regularised.
    """
    a, b = others(test)
    total = np.asarray(losses[a][b]) * sizes[b] + np.asarray(losses[b][a]) * sizes[a]
    mean = total / (sizes[a] + sizes[b])
    best = int(np.argmin(np.round(mean, 12)))
    return best, float(mean[best])
