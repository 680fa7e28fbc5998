"""Landmark matching, for three experiments: pairs of frames in thirds, tuned fits, losses.

Features are -(difference of shape-context bins)^2. Pairs (i, i + gap) of frames fall into three
thirds by i mod 3. Losses are shares of wrongly matched landmarks in test pairs, by two protocols:

    fit on one third     chosen on the second third and tested on the last, as the paper splits
                         them, over all six roles of the thirds
    refit on two thirds  after cross-validation over these two, over the three test thirds

All methods are tuned alike, and each rival may try at least as many configurations as the CRF.
"""

import warnings
from itertools import permutations

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mlestruct import BipartiteMatchingCRF
from mlestruct.baselines import StructuredPerceptron, StructuredSVM
from mlestruct.datasets import data_folder, frame_pairs, make_landmark_sequence
from mlestruct.datasets.scenes import LandmarkSequence

from .runner import Comparison, part_name

REAL, GENERATED, SCENE_NAME = "CMU landmarks", "generated", "scene"
HINGE, PERCEPTRON = "hinge", "perceptron"
ONE, TWO = PROTOCOLS = ("fit on one third", "refit on two thirds")
THIRDS = (0, 1, 2)
SCENE = {"n_landmarks": 30, "n_frames": 111, "degrees_per_frame": 0.8, "noise": 0.015, "seed": 0}
QUICK_SCENE = {
    "n_landmarks": 12, "n_frames": 36, "degrees_per_frame": 2.0, "noise": 0.01, "seed": 0,
}  # fmt: skip


# ---------------------------------------------------------------------- settings
def common_setting(quick, names):
    """Data, tolerances and the configurations that methods may choose from.

    Penalties are per training pair, so that they mean the same for a third and for two.
    """
    exponents = (0, -1, -2) if quick else [k / 2 for k in range(2, -10, -1)]
    hinge_exponents = (0, -1, -2) if quick else [k / 3 for k in range(6, -12, -1)]
    return {
        **which_data(quick, names),
        "folds": "thirds by i mod 3; two-fold cross-validation, then a fit on both",
        "scaling": "one scale for all features: their mean standard deviation in training",
        "tol": 1e-3,
        "max_iter": 300,
        "hinge tol": 1e-2,
        "hinge max_iter": 100,
        "penalties": [10.0**k for k in exponents],
        "hinge penalties": [10.0**k for k in hinge_exponents],
        "passes": [3, 30] if quick else [1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100, 300],
        "decays": [0.0, 0.1, 1.0],
    }


def which_data(quick, names):
    """The real sequences if they are there, otherwise a generated scene and the reason."""
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
    return {"data": GENERATED, "why": why, "sequences": [SCENE_NAME], "scene": scene}


def is_real(setting):
    return setting["data"] == REAL


# ---------------------------------------------------------------------- data
def load_cmu_landmarks(name):
    """The hand-labelled landmarks of the CMU house (111 frames) or hotel (101 frames).

    Reads cmu_landmarks/{name}.csv with the columns frame, landmark, x, y.
    """
    file = data_folder() / "cmu_landmarks" / f"{name}.csv"
    rows = np.loadtxt(file, delimiter=",", skiprows=1)
    frame, landmark = rows[:, :2].astype(int).T
    points = np.full((frame.max() + 1, landmark.max() + 1, 2), np.nan)
    points[frame, landmark] = rows[:, 2:]
    return LandmarkSequence(points, name)


def load_pairs(setting, name, gap):
    """All pairs of frames `gap` apart, of a real sequence or of the generated scene."""
    if name != SCENE_NAME:
        return frame_pairs(load_cmu_landmarks(name), gap)
    options = dict(setting["scene"])
    return frame_pairs(make_landmark_sequence(random_state=options.pop("seed"), **options), gap)


class Thirds:
    """The pairs of one gap by i mod 3."""

    def __init__(self, pairs):
        index = np.arange(len(pairs))
        self.parts = [pairs.take(index[index % 3 == third]) for third in THIRDS]
        self.sizes = [len(part) for part in self.parts]

    def scale(self, train):
        """The mean standard deviation of the features of some thirds."""
        rows = [x.reshape(-1, x.shape[2]) for third in train for x in self.parts[third].X]
        return float(np.concatenate(rows).std(axis=0).mean()) or 1.0

    def samples(self, thirds, scale):
        X = [x / scale for third in thirds for x in self.parts[third].X]
        return X, [y for third in thirds for y in self.parts[third].Y]


def others(third):
    """The two thirds beside one."""
    return tuple(other for other in THIRDS if other != third)


# ---------------------------------------------------------------------- methods
def crf(rho):
    """The name of the CRF with this rho among the methods."""
    return f"rho={rho:g}"


def configurations(setting, method):
    """What a method may choose from; the most regularised is the first."""
    if method == HINGE:
        penalties = setting["hinge penalties"]
        return [{"penalty": p, "averaging": a} for p in penalties for a in (False, True)]
    if method == PERCEPTRON:
        decays = setting["decays"]
        return [{"passes": p, "decay": d} for p in setting["passes"] for d in decays]
    return [{"penalty": penalty} for penalty in setting["penalties"]]


def estimator(setting, method, chosen, n_pairs):
    """An estimator that is yet to be fitted to `n_pairs` pairs of frames."""
    if method == PERCEPTRON:
        learner = StructuredPerceptron(max_iter=chosen["passes"], decay=chosen["decay"])
        return BipartiteMatchingCRF(solver=learner, random_state=0)
    alpha = chosen["penalty"] * n_pairs
    if method == HINGE:
        limits = {"tol": setting["hinge tol"], "max_iter": setting["hinge max_iter"]}
        learner = StructuredSVM(averaging=chosen["averaging"])
        return BipartiteMatchingCRF(alpha=alpha, solver=learner, random_state=0, **limits)
    rho = float(method.removeprefix("rho="))
    return BipartiteMatchingCRF(
        rho=rho, alpha=alpha, tol=setting["tol"], max_iter=setting["max_iter"]
    )


def fit_all(setting, method, X, Y):
    """One fitted estimator per configuration."""
    unfitted = [
        estimator(setting, method, chosen, len(X)) for chosen in configurations(setting, method)
    ]
    if method in (HINGE, PERCEPTRON):
        return [each.fit(X, Y) for each in unfitted]
    return unfitted[0].fit_path(X, Y, [each.alpha for each in unfitted]).estimators


# ---------------------------------------------------------------------- tuned fits
def tuned_losses(setting, sequence, gap, method, inspect=None):
    """Losses of one method at one gap.

    Returns
    -------
    dict with
        losses : [third of training][third of evaluation][configuration], None where they are one
        chosen : [test third], the configuration that cross-validation chose
        test : [test third], its loss there after the fit on the other two
        inspected : [test third], what `inspect(fitted, X, Y, test third)` returned
        unconverged : number of fits
    """
    thirds = Thirds(load_pairs(setting, sequence, gap))
    losses = [[None] * 3 for _ in THIRDS]
    chosen, test, inspected = [], [], []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        for train in THIRDS:
            scale = thirds.scale([train])
            fitted = fit_all(setting, method, *thirds.samples([train], scale))
            for third in others(train):
                held_out = thirds.samples([third], scale)
                losses[train][third] = [1.0 - each.score(*held_out) for each in fitted]
        for third in THIRDS:
            best = cross_validated(losses, thirds.sizes, third)
            chosen.append(configurations(setting, method)[best])
            scale = thirds.scale(others(third))
            X, Y = thirds.samples(others(third), scale)
            refitted = estimator(setting, method, chosen[-1], len(X)).fit(X, Y)
            X, Y = thirds.samples([third], scale)
            test.append(1.0 - refitted.score(X, Y))
            if inspect is not None:
                inspected.append(inspect(refitted, X, Y, third))
    unconverged = sum(issubclass(each.category, ConvergenceWarning) for each in caught)
    return {
        "losses": losses, "chosen": chosen, "test": test, "inspected": inspected,
        "unconverged": unconverged,
    }  # fmt: skip


def cross_validated(losses, sizes, test):
    """The configuration with the smallest loss over both folds; the first of equal ones."""
    a, b = others(test)
    total = np.asarray(losses[a][b]) * sizes[b] + np.asarray(losses[b][a]) * sizes[a]
    return int(np.argmin(np.round(total / (sizes[a] + sizes[b]), 12)))


def losses_by_role(losses):
    """Test losses of fits to one third, chosen on the second, for all six roles of the thirds."""
    found = []
    for train, validate, test in permutations(THIRDS):
        best = int(np.argmin(np.round(losses[train][validate], 12)))
        found.append(losses[train][test][best])
    return found


def loss_of(found, sequence, gap, method):
    """By protocol, the test losses that `tuned_losses` has found."""
    result = found[part_name(sequence=sequence, gap=gap, method=method)]
    return {ONE: np.array(losses_by_role(result["losses"])), TWO: np.array(result["test"])}


def compared(what, published, loss):
    """A published loss beside ours under both protocols."""
    return [
        Comparison(what, published, ours.mean(), (ours.min(), ours.max()), protocol=protocol)
        for protocol, ours in loss.items()
    ]


# ---------------------------------------------------------------------- one problem of two thirds
def main_sequence(setting):
    return "house" if is_real(setting) else SCENE_NAME


def two_thirds(setting, gap):
    """The first two thirds of the house, or of the scene."""
    thirds = Thirds(load_pairs(setting, main_sequence(setting), gap))
    return thirds.samples((0, 1), thirds.scale((0, 1)))
