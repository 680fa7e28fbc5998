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
from .algorithm_one import algorithms_table, same_optimum
from .contract import Claim, Experiment, Outcome, Picture, Table
from .landmarks import (
    Samples,
    algorithms_part,
    algorithms_problem,
    algorithms_setting,
    common_setting,
    is_real,
    load_pairs,
    name_of,
    tuned_losses,
)
from .parts import Part, Setting, grid, part_name

SECOND = 0.05  # the least marginal of a second partner that counts


class Mismatch(Experiment):
    name = "mismatch"
    title = "Landmark matching: confidence in right and wrong partners"
    place = "graph matchings, figure of a match"
    solvers = (
        "all CRFs and marginals by auto (Newton over marginals); Algorithm 1 solves one of the "
        "problems beside it (the table of algorithms), with the same optimum."
    )

    def setting(self, quick: bool) -> Setting:
        return common_setting(quick, ["house"]) | {
            "gaps": [14] if quick else [60, 70, 80, 90],
            "rho": 1.0,
            "algorithms": algorithms_setting(quick, gap=14 if quick else 90, rho=1.0),
        }

    def parts(self, setting: Setting) -> Sequence[Part]:
        return [
            *grid(landmark_confidence, setting, gap=setting["gaps"]),
            Part("algorithms", partial(algorithms_part, setting)),
        ]

    def outcome(self, setting: Setting, found: Mapping[str, Any]) -> Outcome:
        gaps, problem = setting["gaps"], algorithms_problem(setting)
        results = [found[part_name(gap=gap)] for gap in gaps]
        numbers, shown = summarised(results), results[-1]["shown"]
        a, b = shown["frames"]
        caption = (
            f"Frames {a} and {b} of the {setting['sequences'][0]} (gap {gaps[-1]}), rho = 1. Top: "
            "the predicted matching, wrong pairs in red. Below: marginals of the most confident "
            "right point and of an uncertain wrong one; true partners are ringed."
        )
        title = "Marginals of right and wrong predictions, rho = 1"
        return Outcome(
            summary=[
                f"{numbers['wrong']} of {numbers['landmarks']} test landmarks are matched wrongly."
            ],
            tables=[
                Table("confidence", title, ["of test landmarks", ""], list(numbers.items())),
                algorithms_table(problem, found["algorithms"]),
            ],
            pictures=[Picture("mismatch", caption, _match_figure(shown), is_real(setting))],
            claims=[*claims(numbers), same_optimum(problem, found["algorithms"])],
        )


def landmark_confidence(setting: Setting, gap: int) -> dict[str, Any]:
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
    found = tuned_losses(setting, name, gap, name_of(setting["rho"]), inspect)
    return {
        "points": [point for one in found["inspected"] for point in one["points"]],
        "shown": found["inspected"][-1]["shown"],
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
    if third == 2:  # the last
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


def summarised(results: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Over all gaps."""
    points = np.array([point for result in results for point in result["points"]])
    right, second = points[:, 0] > 0.5, points[:, 4] >= SECOND

    def mean(values: Any, where: Any) -> float | None:
        return float(np.mean(values[where])) if where.any() else None

    return {
        "landmarks": int(right.size),
        "wrong": int((~right).sum()),
        "true partner among the two highest when wrong": mean(points[:, 3] <= 2, ~right),
        "another partner is not trivial when wrong": mean(second, ~right),
        "another partner is not trivial when right": mean(second, right),
        "marginal of the predicted partner when right": mean(points[:, 1], right),
        "marginal of the predicted partner when wrong": mean(points[:, 1], ~right),
        "marginal of the true partner when wrong": mean(points[:, 2], ~right),
        "fits short of their tolerance": sum(result["unconverged"] for result in results),
    }


def claims(n: Mapping[str, Any]) -> list[Claim]:
    """There is nothing to tell if no landmark is wrong."""
    right = n["marginal of the predicted partner when right"]
    wrong = n["marginal of the predicted partner when wrong"]
    if right is None or wrong is None:
        return []
    second = n["another partner is not trivial when wrong"]
    high = n["true partner among the two highest when wrong"]
    return [
        Claim(
            "Pseudomarginals indicate the confidence in a prediction: they are lower where it is "
            "wrong",
            wrong < right,
            f"{right:.3f} when right, {wrong:.3f} when wrong",
        ),
        Claim(
            "In many cases (half of them) two edges at a wrongly matched landmark have relatively "
            "high marginals",
            second >= 0.5,
            f"{second:.0%} have a second one of at least {SECOND:g}; of those matched rightly "
            f"{n['another partner is not trivial when right']:.0%}",
        ),
        Claim(
            "Errors are not unfounded: the true partner has the highest or second highest marginal "
            "in at least half of them",
            high >= 0.5,
            f"{high:.0%} of {n['wrong']}",
        ),
    ]


def _match_figure(shown: Mapping[str, Any]) -> Any:
    upside = np.array([1.0, -1.0])  # pictures count rows downwards
    left, right = (np.array(shown[key]) * upside for key in ("left", "right"))
    predicted, truth = (np.array(shown[key], dtype=np.int64) for key in ("predicted", "truth"))
    return plot_mismatch(left, right, predicted, truth, np.array(shown["marginals"]))
