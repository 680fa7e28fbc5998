"""What a learned matching says of every test landmark: which partner, and how sure it is."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .contract import Setting
from .landmarks import Samples, load_pairs, name_of, tuned_losses

QUANTILE = 0.75  # of the losses of test pairs: the pair that is shown
SHOWN_THIRD = 2
DIGITS = 9


def doubts(setting: Setting, gap: int, rho: float) -> dict[str, Any]:
    """Marginals of all test landmarks at one gap, and the pair that is shown.

    Returns
    -------
    dict with
        points : of every test landmark [whether it was matched rightly, the marginal of the
            predicted partner, of the true one, the place of the true one by marginals (1 is the
            highest), the largest marginal of a partner other than the predicted one]
        shown : frames, points, partners and marginals of one pair
        loss, chosen, unconverged : of the fits
    """
    name = setting["sequences"][0]
    look = partial(_look, setting, name, gap)
    found = tuned_losses(setting, name, gap, name_of(rho), look)
    return {
        "points": [point for look in found["looks"] for point in look["points"]],
        "shown": found["looks"][SHOWN_THIRD]["shown"],
        "loss": float(np.mean(found["test"])),
        "chosen": found["chosen"],
        "unconverged": found["unconverged"],
    }


def _look(
    setting: Setting, name: str, gap: int, fitted: Any, samples: Samples, third: int
) -> dict[str, Any]:
    X, truth = samples
    predicted, marginals = fitted.predict(X), fitted.predict_marginals(X)
    points: list[list[float]] = []
    for p, y, tau in zip(predicted, truth, marginals, strict=True):
        points += described(p, y, tau)
    losses = [float(np.mean(p != y)) for p, y in zip(predicted, truth, strict=True)]
    k = int(np.argsort(losses, kind="stable")[int(QUANTILE * len(losses))])
    shown = None
    if third == SHOWN_THIRD:
        pairs = load_pairs(setting, name, gap)
        index = 3 * k + third
        shown = {
            "frames": pairs.frames[index],
            "left": pairs.left[index],
            "right": pairs.right[index],
            "truth": truth[k],
            "predicted": predicted[k],
            "marginals": np.round(marginals[k], DIGITS),
        }
    return {"points": points, "shown": shown}


def described(predicted: Any, truth: Any, marginals: Any) -> list[list[float]]:
    """What is kept of every landmark of one pair of frames."""
    tau, chosen, true = np.asarray(marginals), np.asarray(predicted), np.asarray(truth)
    rows = np.arange(len(true))
    place = 1 + (tau > tau[rows, true][:, None]).sum(axis=1)
    rest = tau.copy()
    rest[rows, chosen] = 0.0
    columns = (chosen == true, tau[rows, chosen], tau[rows, true], place, rest.max(axis=1))
    kept: list[list[float]] = np.round(np.column_stack(columns).astype(float), DIGITS).tolist()
    return kept
