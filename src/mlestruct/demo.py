"""The demonstration: learn to match landmarks of a turning object, and show how sure the model is.

Everything is generated; nothing is downloaded.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from .datasets import FramePairs, frame_pairs, make_landmark_sequence, split_in_three
from .models import BipartiteMatchingCRF
from .plotting import plot_mismatch

ALPHAS = (1000.0, 100.0, 10.0, 1.0)


def run_demo(picture: Path, seed: int = 0, verbose: int = 1, gap: int = 12) -> None:
    """Fit on generated scenes, print what was learned and write `picture`."""
    check_writable(picture)
    started = time.perf_counter()
    sequence = make_landmark_sequence(n_landmarks=30, n_frames=101, noise=0.006, random_state=seed)
    train, validate, test = split_in_three(frame_pairs(sequence, gap=gap, random_state=seed))
    scale = float(np.concatenate([x.reshape(-1, x.shape[2]) for x in train.X]).std(axis=0).mean())

    def scaled(pairs: FramePairs) -> list:
        return [x / scale for x in pairs.X]

    print(
        f"A rigid set of 30 landmarks turns before a camera. {len(train)} pairs of views, "
        f"{0.8 * gap:g} degrees apart, to learn from,\n{len(validate)} to choose alpha, "
        f"{len(test)} to test; 60 shape-context features per pair of landmarks.\n"
    )
    model = BipartiteMatchingCRF(tol=1e-6, verbose=verbose)
    path = model.fit_path(scaled(train), train.Y, ALPHAS)
    for alpha, fitted in zip(path.alphas, path.estimators, strict=True):
        score = fitted.score(scaled(validate), validate.Y)
        print(f"alpha {alpha:>6g}: validation Hamming loss {1.0 - score:.4f}")
    best = path.best(scaled(validate), validate.Y)
    print(f"\nchosen: alpha = {best.alpha:g}. Every row of its history is a certificate:\n")
    print(best.history_.table())
    print(
        f"\ncertified: the log-likelihood is within {best.duality_gap_:.2g} of the best attainable"
        f" ({best.objective_:.6g})"
    )
    predicted = best.predict(scaled(test))
    marginals = best.predict_marginals(scaled(test))
    losses = np.array([np.mean(p != y) for p, y in zip(predicted, test.Y, strict=True)])
    print(f"test Hamming loss {losses.mean():.4f} ({len(test)} pairs of views)")
    _print_confidence(predicted, test.Y, marginals)
    shown = int(np.argsort(losses, kind="stable")[int(0.75 * len(losses))])
    figure = plot_mismatch(
        test.left[shown], test.right[shown], predicted[shown], test.Y[shown], marginals[shown]
    )
    figure.savefig(picture, dpi=150)
    print(f"picture: {picture}   ({time.perf_counter() - started:.1f} s in all)")


def _print_confidence(predicted: list, truth: list, marginals: list) -> None:
    """How often the model is right, by how sure it says it is."""
    sure = np.concatenate(
        [tau[np.arange(len(p)), p] for tau, p in zip(marginals, predicted, strict=True)]
    )
    right = np.concatenate([p == y for p, y in zip(predicted, truth, strict=True)])
    parts = []
    for low, high in ((0.0, 0.5), (0.5, 0.9), (0.9, 1.01)):
        inside = (sure >= low) & (sure < high)
        if inside.any():
            parts.append(
                f"{low:.1f}-{min(high, 1.0):.1f}: {right[inside].mean():.0%} of {inside.sum()}"
            )
    print("right, by the probability given to the predicted partner: " + "; ".join(parts))


def check_writable(picture: Path) -> None:
    """Fail before the work rather than after it."""
    if picture.suffix.lower() not in (".png", ".pdf", ".svg", ".jpg"):
        raise FileNotFoundError(f"--out: expected a .png, .pdf, .svg or .jpg file, got {picture}")
    folder = picture.parent
    if not folder.is_dir():
        raise FileNotFoundError(f"--out: folder {folder} does not exist")
    try:
        with picture.open("ab"):
            pass
    except OSError as error:
        raise PermissionError(f"--out: cannot write {picture} ({error.strerror})") from error
    if picture.stat().st_size == 0:
        picture.unlink()
