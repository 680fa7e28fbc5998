"""Landmark confidence: what pseudo-marginals say where the predicted partner is right or wrong.

The model is learned as in `landmark_losses`. The pair shown is the one at the upper quartile of
losses in the last third at the largest gap; the numbers are over all test pairs of several gaps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..plotting.matching import plot_mismatch
from ..plotting.style import COLOURS, clean_axes, new_figure
from .contract import Claim, Experiment, Outcome, Picture, Table
from .landmarks import Samples, common_setting, is_real, load_pairs, name_of, tuned_losses
from .parts import Part, Setting, grid, part_name

SHOWN_THIRD = 2
SECOND = 0.05  # the least marginal of a second partner that counts


class Mismatch(Experiment):
    name = "mismatch"
    title = "Landmark matching: confidence in right and wrong partners"
    place = "graph matchings, figure of a match"

    def setting(self, quick: bool) -> Setting:
        return common_setting(quick, ["house"]) | {
            "gaps": [14] if quick else [60, 70, 80, 90],
            "rhos": [1.0, 0.5] if quick else [1.0, 0.95, 0.5],
        }

    def parts(self, setting: Setting) -> Sequence[Part]:
        return grid(landmark_confidence, setting, rho=setting["rhos"], gap=setting["gaps"])

    def outcome(self, setting: Setting, found: Mapping[str, Any]) -> Outcome:
        real, gaps, rhos = is_real(setting), setting["gaps"], setting["rhos"]
        by_rho = {rho: [found[part_name(rho=rho, gap=gap)] for gap in gaps] for rho in rhos}
        points = {rho: collected(results) for rho, results in by_rho.items()}
        numbers = {rho: summarised(points[rho], results) for rho, results in by_rho.items()}
        shown = by_rho[rhos[0]][-1]["shown"]
        a, b = shown["frames"]
        caption = (
            f"Frames {a} and {b} of the {setting['sequences'][0]} (gap {gaps[-1]}), rho = "
            f"{rhos[0]:g}. Top: the predicted matching, wrong pairs in red. Below: marginals of "
            "the most confident right point and of an uncertain wrong one; true partners are "
            "ringed."
        )
        return Outcome(
            summary=[
                f"rho = {rho:g}: {n['wrong']} of {n['landmarks']} test landmarks are matched "
                "wrongly."
                for rho, n in numbers.items()
            ],
            tables=[_table(numbers)],
            pictures=[
                Picture("mismatch", caption, _match_figure(shown), real),
                Picture(
                    "confidence",
                    "Marginals of the predicted partners of test landmarks, by whether they are "
                    "right.",
                    plot_confidence(points),
                ),
            ],
            claims=[claim for rho, n in numbers.items() for claim in claims(rho, n)],
        )


# ---------------------------------------------------------------------- one gap and rho
def landmark_confidence(setting: Setting, rho: float, gap: int) -> dict[str, Any]:
    """Marginals of all test landmarks at one gap, and the pair that is shown.

    Returns
    -------
    dict with
        points : of every test landmark what `described` returns
        shown : frames, points, partners and marginals of one pair
        unconverged : fits that stopped short of their tolerance
    """
    name = setting["sequences"][0]
    inspect = partial(_inspect, setting, name, gap)
    found = tuned_losses(setting, name, gap, name_of(rho), inspect)
    return {
        "points": [point for one in found["inspected"] for point in one["points"]],
        "shown": found["inspected"][SHOWN_THIRD]["shown"],
        "unconverged": found["unconverged"],
    }


def _inspect(
    setting: Setting, name: str, gap: int, fitted: Any, samples: Samples, third: int
) -> dict[str, Any]:
    X, truth = samples
    predicted, marginals = fitted.predict(X), fitted.predict_marginals(X)
    points: list[list[float]] = []
    for p, y, tau in zip(predicted, truth, marginals, strict=True):
        points += described(p, y, tau)
    losses = [float(np.mean(p != y)) for p, y in zip(predicted, truth, strict=True)]
    k = int(np.argsort(losses, kind="stable")[int(0.75 * len(losses))])  # the upper quartile
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
            "marginals": np.round(marginals[k], 9),
        }
    return {"points": points, "shown": shown}


def described(predicted: Any, truth: Any, marginals: Any) -> list[list[float]]:
    """Of every landmark of one pair of frames: whether it was matched rightly, the marginals of
    the predicted and of the true partner, the rank of the true one (1 is the highest), and the
    largest marginal of a partner other than the predicted one."""
    tau, chosen, true = np.asarray(marginals), np.asarray(predicted), np.asarray(truth)
    rows = np.arange(len(true))
    rank = 1 + (tau > tau[rows, true][:, None]).sum(axis=1)
    rest = tau.copy()
    rest[rows, chosen] = 0.0
    columns = (chosen == true, tau[rows, chosen], tau[rows, true], rank, rest.max(axis=1))
    kept: list[list[float]] = np.round(np.column_stack(columns).astype(float), 9).tolist()
    return kept


# ---------------------------------------------------------------------- all test landmarks
def collected(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The columns of `described` for all gaps, each an array."""
    points = np.array([point for result in results for point in result["points"]])
    names = ("right", "predicted", "true", "rank", "second")
    return dict(zip(names, points.T, strict=True)) | {"right": points[:, 0] > 0.5}


def summarised(
    points: Mapping[str, Any], results: Sequence[Mapping[str, Any]]
) -> dict[str, float | None]:
    right, second = points["right"], points["second"] >= SECOND

    def mean(values: Any, where: Any) -> float | None:
        return float(np.mean(values[where])) if where.any() else None

    return {
        "landmarks": int(right.size),
        "wrong": int((~right).sum()),
        "true partner among the two highest when wrong": mean(points["rank"] <= 2, ~right),
        "another partner is not trivial when wrong": mean(second, ~right),
        "another partner is not trivial when right": mean(second, right),
        "marginal of the predicted partner when right": mean(points["predicted"], right),
        "marginal of the predicted partner when wrong": mean(points["predicted"], ~right),
        "marginal of the true partner when wrong": mean(points["true"], ~right),
        "fits short of their tolerance": sum(result["unconverged"] for result in results),
    }


def claims(rho: float, n: Mapping[str, Any]) -> list[Claim]:
    """The claims of the paper; there is nothing to tell if no landmark is wrong."""
    right = n["marginal of the predicted partner when right"]
    wrong = n["marginal of the predicted partner when wrong"]
    if right is None or wrong is None:
        return []
    second = n["another partner is not trivial when wrong"]
    high = n["true partner among the two highest when wrong"]
    return [
        Claim(
            f"rho = {rho:g}: marginals show which predictions to distrust: lower when wrong",
            wrong < right,
            f"{right:.3f} when right, {wrong:.3f} when wrong",
        ),
        Claim(
            f"rho = {rho:g}: in many cases a wrongly matched landmark has two partners whose "
            "marginals are not trivial (in at least half)",
            second >= 0.5,
            f"{second:.0%} have a second one of at least {SECOND:g}; of those matched rightly "
            f"{n['another partner is not trivial when right']:.0%}",
        ),
        Claim(
            f"rho = {rho:g}: errors are not unfounded: the true partner has the highest or "
            "second highest marginal in at least half of them",
            high >= 0.5,
            f"{high:.0%} of {n['wrong']}",
        ),
    ]


# ---------------------------------------------------------------------- table and pictures
def _table(numbers: Mapping[float, Mapping[str, Any]]) -> Table:
    keys = next(iter(numbers.values()))
    rows = [[key, *(found[key] for found in numbers.values())] for key in keys]
    head = ["of test landmarks", *(f"rho = {rho:g}" for rho in numbers)]
    return Table("confidence", "Marginals of right and wrong predictions", head, rows)


def _match_figure(shown: Mapping[str, Any]) -> Any:
    upside = np.array([1.0, -1.0])  # pictures count rows downwards
    left, right = (np.array(shown[key]) * upside for key in ("left", "right"))
    predicted, truth = (np.array(shown[key], dtype=np.int64) for key in ("predicted", "truth"))
    return plot_mismatch(left, right, predicted, truth, np.array(shown["marginals"]))


def plot_confidence(points: Mapping[float, Mapping[str, Any]]) -> Any:
    """Shares of landmarks by the marginal of the predicted partner, right and wrong ones."""
    figure = new_figure(4.2 * len(points), 3.6)
    panels = figure.subplots(1, len(points), squeeze=False, sharey=True)[0]
    for axes, (rho, found) in zip(panels, points.items(), strict=True):
        for k, (where, label) in enumerate(((found["right"], "right"), (~found["right"], "wrong"))):
            row = found["predicted"][where]
            axes.hist(
                row, np.linspace(0.0, 1.0, 11), weights=np.full(row.shape, 1.0 / max(row.size, 1)),
                color=COLOURS[k], alpha=0.65, label=f"{label} ({row.size})",
            )  # fmt: skip
        axes.set_xlabel("marginal of the predicted partner")
        clean_axes(axes, f"rho = {rho:g}")
        axes.legend(frameon=False, fontsize=8.5, loc="upper left")
    panels[0].set_ylabel("share of landmarks")
    return figure
