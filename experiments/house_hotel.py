"""House and hotel: matching hand-labelled landmarks of two frames (the paper's graph matchings).

For every gap between frames, pairs (i, i + gap) go to train, validation and test by i mod 3;
features are -(difference of shape-context bins)^2; alpha is chosen on the validation pairs.
Printed beside the published columns: the CRF at the paper's rho = 1, at the default .95, at 1/2,
with rho chosen on the validation pairs as well, and the structured hinge loss ("linear +
learning") on the same features. Then the test loss by rho at one gap.

    python -m experiments.house_hotel --data PATH      # or set MLESTRUCT_DATA
    python -m experiments.house_hotel --generated      # on generated scenes, no data needed
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mlestruct import BipartiteMatchingCRF
from mlestruct.baselines import StructuredSVM
from mlestruct.datasets import (
    FramePairs,
    LandmarkSequence,
    frame_pairs,
    load_cmu_landmarks,
    make_landmark_sequence,
    split_in_three,
)

GAPS = range(0, 100, 10)
RHOS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
ALPHAS = tuple(10.0**k for k in range(4, -4, -1))
SVM_ALPHAS = tuple(10.0**k for k in range(3, -4, -1))

PUBLISHED = {
    "hotel": {
        "FW": (0.0, 0.0, 0.0049, 0.020, 0.023, 0.0614, 0.13, 0.17, 0.24, 0.33),
        "lin.+l.": (0.0, 0.0022, 0.0049, 0.020, 0.013, 0.050, 0.12, 0.15, 0.19, 0.30),
    },
    "house": {
        "FW": (0.0, 0.0040, 0.0022, 0.0049, 0.0, 0.017, 0.041, 0.051, 0.080, 0.12),
        "lin.+l.": (0.0, 0.0, 0.0022, 0.0, 0.0, 0.022, 0.051, 0.067, 0.14, 0.11),
    },
}
PUBLISHED_RHO = dict(zip(RHOS, (0.013, 0.013, 0.017, 0.017, 0.020, 0.017), strict=True))


class Split:
    """Train, validation and test pairs of one gap, features scaled by the training pairs."""

    def __init__(self, sequence: LandmarkSequence, gap: int):
        parts = split_in_three(frame_pairs(sequence, gap))
        features = np.concatenate([x.reshape(-1, x.shape[2]) for x in parts[0].X])
        scale = features.std(axis=0).mean() or 1.0

        def scaled(pairs: FramePairs) -> tuple[list, list]:
            return [x / scale for x in pairs.X], pairs.Y

        self.train, self.validate, self.test = (scaled(part) for part in parts)


def crf_losses(split: Split, rho: float) -> tuple[float, float, float, int]:
    """(validation loss, test loss, alpha, unconverged fits) of the alpha best on validation."""
    path = BipartiteMatchingCRF(rho=rho, tol=1e-4, max_time=15).fit_path(*split.train, ALPHAS)
    best = path.best(*split.validate)
    unconverged = sum(not estimator.converged_ for estimator in path.estimators)
    return (
        1.0 - best.score(*split.validate),
        1.0 - best.score(*split.test),
        best.alpha,
        unconverged,
    )


def svm_loss(split: Split) -> float:
    """Test loss of the structured hinge loss, alpha chosen on the validation pairs."""
    fitted = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for alpha in SVM_ALPHAS:
            machine = StructuredSVM(alpha=alpha, tol=1e-2, max_iter=100, random_state=0)
            fitted.append(machine.fit(*split.train))
    best = max(fitted, key=lambda machine: machine.score(*split.validate))
    return 1.0 - best.score(*split.test)


def run_sequence(sequence: LandmarkSequence, gaps: range | tuple[int, ...]) -> dict:
    """Losses of one sequence at all gaps, printed as they come."""
    published = PUBLISHED.get(sequence.name, {})
    columns = ["rho=1", "rho=.95", "rho=.5", "rho val.", "hinge"]
    print(f"\n{sequence.name}: mean Hamming loss on the test pairs")
    print(f"{'gap':>5}" + "".join(f"{c:>10}" for c in [*columns, *(f"p.{k}" for k in published)]))
    rows = {name: [] for name in columns}
    started = time.perf_counter()
    unconverged = 0
    for k, gap in enumerate(gaps):
        split = Split(sequence, gap)
        by_rho = {rho: crf_losses(split, rho) for rho in (0.5, 0.95, 1.0)}
        unconverged += sum(found[3] for found in by_rho.values())
        rows["rho=1"].append(by_rho[1.0][1])
        rows["rho=.95"].append(by_rho[0.95][1])
        rows["rho=.5"].append(by_rho[0.5][1])
        rows["rho val."].append(min(by_rho.values(), key=lambda found: found[0])[1])
        rows["hinge"].append(svm_loss(split))
        values = [rows[name][-1] for name in columns] + [p[k] for p in published.values()]
        print(f"{gap:>5}" + "".join(f"{value:>10.4f}" for value in values), flush=True)
    means = [float(np.mean(rows[name])) for name in columns]
    means += [float(np.mean(values)) for values in published.values()]
    print(f"{'mean':>5}" + "".join(f"{value:>10.4f}" for value in means))
    seconds = time.perf_counter() - started
    print(f"{seconds:.1f} s in all; {unconverged} CRF fits short of their certificate")
    return {"gaps": list(gaps), **rows, "means": dict(zip(columns, means, strict=False))}


def run_rho(sequence: LandmarkSequence, gap: int = 50) -> dict:
    """Test loss by rho at one gap."""
    split = Split(sequence, gap)
    losses = {rho: crf_losses(split, rho)[1] for rho in RHOS}
    print(f"\n{sequence.name}, gap {gap}: test loss by rho")
    print(f"{'rho':>10}" + "".join(f"{rho:>8.1f}" for rho in RHOS))
    print(f"{'ours':>10}" + "".join(f"{losses[rho]:>8.3f}" for rho in RHOS))
    if sequence.name == "house":
        print(f"{'published':>10}" + "".join(f"{PUBLISHED_RHO[rho]:>8.3f}" for rho in RHOS))
    return {str(rho): loss for rho, loss in losses.items()}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="House and hotel landmark matching")
    parser.add_argument("--data", help="folder with cmu_landmarks/ (default: $MLESTRUCT_DATA)")
    parser.add_argument("--generated", action="store_true", help="use a generated sequence")
    parser.add_argument("--gaps", type=int, nargs="*", help="frame gaps (default: 0 10 ... 90)")
    parser.add_argument("--out", help="write all numbers to this JSON file")
    options = parser.parse_args(arguments)
    gaps = tuple(options.gaps) if options.gaps else GAPS
    if options.generated:
        sequences = [make_landmark_sequence(random_state=0)]
    else:
        sequences = [load_cmu_landmarks(name, options.data) for name in ("hotel", "house")]
    found = {s.name: run_sequence(s, gaps) for s in sequences}
    found["rho"] = run_rho(sequences[-1])
    if options.out:
        Path(options.out).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
