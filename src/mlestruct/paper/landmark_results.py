"""Losses of tuned fits put together: over thirds, over gaps, beside published ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .contract import ROUNDING
from .landmarks import THIRDS, chosen_methods, losses_by_role

Result = Mapping[str, Any]  # of `tuned_losses`


@dataclass(frozen=True)
class Loss:
    """Test losses of a method.

    thirds : with each third as the test set, after cross-validation and a fit on the other two
    roles : of fits to one third, chosen on the second, for all six roles of the thirds
    landmark : what one wrong landmark adds to the loss of a third
    """

    thirds: tuple[float, ...]
    roles: tuple[float, ...]
    landmark: float

    @property
    def mean(self) -> float:
        return float(np.mean(self.thirds))

    @property
    def role_mean(self) -> float:
        return float(np.mean(self.roles))

    @property
    def range(self) -> tuple[float, float]:
        return min(self.thirds), max(self.thirds)


def loss_of(result: Result, n_landmarks: int) -> Loss:
    return Loss(
        tuple(result["test"]),
        tuple(losses_by_role(result["losses"])),
        1.0 / (n_landmarks * min(result["sizes"])),
    )


def best_of(results: Mapping[str, Result], n_landmarks: int) -> Loss:
    """The method chosen by cross-validation as well, of equals the first."""
    names = chosen_methods(results)
    first = next(iter(results.values()))
    joined = [
        [
            None if a == b else [x for result in results.values() for x in result["losses"][a][b]]
            for b in THIRDS
        ]
        for a in THIRDS
    ]
    return Loss(
        tuple(float(results[name]["test"][third]) for third, name in enumerate(names)),
        tuple(losses_by_role(joined)),
        1.0 / (n_landmarks * min(first["sizes"])),
    )


def mean_of(losses: Sequence[Loss]) -> Loss:
    """The mean over gaps, third by third and role by role."""
    return Loss(
        tuple(np.mean([loss.thirds for loss in losses], axis=0).tolist()),
        tuple(np.mean([loss.roles for loss in losses], axis=0).tolist()),
        float(np.mean([loss.landmark for loss in losses])) / len(losses),
    )


def remark(published: float, digit: float, ours: Loss, instead: Mapping[str, Loss]) -> str:
    """What else was measured beside a published loss.

    Always told is the loss after a fit to one third: which of the two the published one is of, is
    not known.

    instead : what else was measured on the same pairs, shown if it is better where ours is worse
    """
    gain = published - ours.mean
    low, high = ours.range
    said = [
        f"by test third {low:.4f} to {high:.4f}, one wrong landmark counts {ours.landmark:.4f}",
        f"fitted to one third instead of two {ours.role_mean:.4f}",
    ]
    if gain < -ROUNDING * digit - 1e-12:
        reached = sum(loss <= published + ROUNDING * digit for loss in ours.thirds)
        said.append(f"{reached} of {len(ours.thirds)} thirds are no worse than published")
        better = {name: loss for name, loss in instead.items() if loss.mean < ours.mean}
        said += [f"{name} on the same pairs {loss.mean:.4f}" for name, loss in better.items()]
    text = "; ".join(said)
    return f"{text[0].upper()}{text[1:]}."


def digit_of(printed: str) -> float:
    """The value of the last digit; zeros are printed short, so theirs is that of the smallest."""
    decimals = len(printed.partition(".")[2])
    return 1e-4 if float(printed) == 0.0 else 10.0**-decimals


def is_whole(printed: str, n_test: int, n_landmarks: int) -> bool:
    """Whether some number of wrong landmarks in `n_test` pairs rounds to the printed loss."""
    count = n_test * n_landmarks
    near = np.arange(np.floor(float(printed) * count) - 1, np.ceil(float(printed) * count) + 2)
    off = np.abs(np.maximum(near, 0.0) / count - float(printed))
    return bool((off <= ROUNDING * digit_of(printed) + 1e-12).any())
