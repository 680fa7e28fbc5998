"""The demonstration: match the corners of a turning toy house, and tell how sure the model is.

Everything is generated; nothing is downloaded.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from ._files import check_target
from .datasets import FramePairs, frame_pairs, make_landmark_sequence, split_in_three, toy_house
from .exceptions import FileProblem
from .models import BipartiteMatchingCRF
from .plotting import plot_mismatch

ALPHAS = (1000.0, 100.0, 10.0, 1.0)


def run_demo(picture: Path, seed: int = 0, verbose: int = 1, gap: int = 15) -> None:
    """Fit to generated views of a house, print what was learned and write `picture`."""
    check_writable(picture)
    started = time.perf_counter()
    house = toy_house()
    views = make_landmark_sequence(
        n_frames=101, noise=0.03, random_state=seed, body=house.points, first_degrees=-40.0,
        elevation=15.0,
    )  # fmt: skip
    train, validate, test = split_in_three(frame_pairs(views, gap=gap, random_state=seed))
    scale = float(np.concatenate([x.reshape(-1, x.shape[2]) for x in train.X]).std(axis=0).mean())

    def scaled(pairs: FramePairs) -> list:
        return [x / scale for x in pairs.X]

    print(
        f"A toy house turns before a camera. Which of its 30 corners is which, in two views "
        f"{0.8 * gap:g} degrees apart?\nLearning from {len(train)} pairs of views ...",
        flush=True,
    )
    model = BipartiteMatchingCRF(tol=1e-6, verbose=verbose)
    path = model.fit_path(scaled(train), train.Y, ALPHAS)
    best = path.best(scaled(validate), validate.Y)
    predicted = best.predict(scaled(test))
    marginals = best.predict_marginals(scaled(test))
    losses = np.array([np.mean(p != y) for p, y in zip(predicted, test.Y, strict=True)])
    print(
        f"\nIn {len(test)} new pairs of views {1.0 - losses.mean():.0%} of the corners are matched "
        "correctly, and the probabilities say which:\n"
    )
    print(confidence_table(predicted, test.Y, marginals))
    shown = int(np.argsort(losses, kind="stable")[int(0.75 * len(losses))])
    figure = plot_mismatch(
        test.left[shown], test.right[shown], predicted[shown], test.Y[shown], marginals[shown],
        house,
    )  # fmt: skip
    figure.savefig(picture, dpi=150)
    print(f"\nPicture of one pair of views: {picture}\n\nHow it was learned\n")
    for alpha, fitted in zip(path.alphas, path.estimators, strict=True):
        score = fitted.score(scaled(validate), validate.Y)
        mark = "   <- chosen" if fitted is best else ""
        print(f"  alpha {alpha:>6g}: {1.0 - score:.1%} wrong in {len(validate)} other pairs{mark}")
    print("\nEach row is a certificate: the optimum is between objective and objective_bound.\n")
    print(best.history_.table())
    print(
        f"\ncertified: relative gap {best.duality_gap_ / abs(best.objective_):.1g} to the best "
        f"attainable log-likelihood   ({time.perf_counter() - started:.1f} s in all)"
    )


def confidence_table(predicted: list, truth: list, marginals: list) -> str:
    """How often the model is right, by how sure it says it is."""
    sure = np.concatenate(
        [tau[np.arange(len(p)), p] for tau, p in zip(marginals, predicted, strict=True)]
    )
    right = np.concatenate([p == y for p, y in zip(predicted, truth, strict=True)])
    rows = []
    for low, high in ((0.0, 0.5), (0.5, 0.9), (0.9, 1.0)):
        inside = (sure >= low) & ((sure < high) | (high == 1.0))
        if inside.any():
            rows.append(
                f"  probability {low:.0%} to {high:.0%}:".ljust(30)
                + f"{right[inside].mean():4.0%} of {inside.sum():4d} are right"
            )
    return "\n".join(rows)


def check_writable(picture: Path) -> None:
    """Fail before the work rather than after it."""
    if picture.suffix.lower() not in (".png", ".pdf", ".svg", ".jpg"):
        raise FileProblem(f"--out: expected a .png, .pdf, .svg or .jpg file, got {picture}")
    check_target(picture)
