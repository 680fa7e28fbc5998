"""Sure and doubtful points of one match: what pseudo-marginals say where the prediction is wrong.

The model is learned as in `house_hotel`. The pair shown is the one at the upper quartile of losses
in the last third at the largest gap; the numbers are over all test pairs of several gaps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..plotting.matching import plot_mismatch
from .contract import Experiment, Outcome, Part, Picture, Setting, Table, Verdict
from .doubts import doubts
from .figures.landmarks import plot_sureness
from .landmarks import common_setting, is_real

Floats = NDArray[np.float64]

RHOS = (1.0, 0.95, 0.5)
GAPS = (60, 70, 80, 90)
UPSIDE = np.array([1.0, -1.0])  # pictures count rows downwards
UNSURE = 0.05  # a marginal from which a partner is no longer trivial


class Mismatch(Experiment):
    name: ClassVar[str] = "mismatch"
    title: ClassVar[str] = "Landmark matching: sure and doubtful points"
    place: ClassVar[str] = "graph matchings, figure of a match"

    def setting(self, quick: bool) -> Setting:
        setting = common_setting(quick, ["house"])
        return setting | {
            "gaps": [14] if quick else list(GAPS),
            "rhos": [1.0, 0.5] if quick else list(RHOS),
        }

    def parts(self, setting: Setting) -> Sequence[Part]:
        """One per gap and rho."""
        return [
            Part(part_name(gap, rho), partial(doubts, setting, gap, rho))
            for rho in setting["rhos"]
            for gap in setting["gaps"]
        ]

    def outcome(self, setting: Setting, found: Mapping[str, Any]) -> Outcome:
        real = is_real(setting)
        by_rho = {
            rho: Doubts([found[part_name(gap, rho)] for gap in setting["gaps"]])
            for rho in setting["rhos"]
        }
        first = setting["rhos"][0]
        gap = setting["gaps"][-1]
        shown = found[part_name(gap, first)]["shown"]
        left, right, marginals = (np.array(shown[key]) for key in ("left", "right", "marginals"))
        predicted, truth = (np.array(shown[key], dtype=np.int64) for key in ("predicted", "truth"))
        figure = plot_mismatch(left * UPSIDE, right * UPSIDE, predicted, truth, marginals)
        summary = [f"Generated scenes, since {setting['why']}."] if not real else []
        summary += [doubt.sentence(rho) for rho, doubt in by_rho.items()]
        sure = {f"rho = {rho:g}": (d.sure[d.right], d.sure[~d.right]) for rho, d in by_rho.items()}
        return Outcome(
            summary=summary,
            tables=[_table(by_rho)],
            pictures=[
                Picture("mismatch", _caption(setting, shown, gap, first), figure, real),
                Picture(
                    "sureness",
                    "Marginals of the predicted partners of test landmarks, by whether they are "
                    "right.",
                    plot_sureness(sure),
                ),
            ],
            verdicts=[verdict for rho, d in by_rho.items() for verdict in d.verdicts(rho)],
            numbers={f"rho={rho:g}": doubt.numbers for rho, doubt in by_rho.items()},
        )


class Doubts:
    """All test landmarks of one rho.

    right : whether they were matched rightly
    sure : the marginal of the predicted partner
    true : the marginal of the true partner
    place : of the true partner by marginals, 1 is the highest
    rival : the largest marginal of any other partner than the predicted one
    """

    def __init__(self, results: Sequence[Mapping[str, Any]]):
        points = np.array([point for result in results for point in result["points"]])
        self.right = points[:, 0] > 0.5
        self.sure, self.true, self.place, self.rival = points[:, 1:].T
        self.unconverged = sum(result["unconverged"] for result in results)

    @property
    def numbers(self) -> dict[str, Any]:
        wrong = ~self.right
        return {
            "landmarks": int(self.right.size),
            "wrong": int(wrong.sum()),
            "true partner among the two highest when wrong": _mean(self.place[wrong] <= 2),
            "another partner is not trivial when wrong": _mean(self.rival[wrong] >= UNSURE),
            "another partner is not trivial when right": _mean(self.rival[self.right] >= UNSURE),
            "marginal of the predicted partner when right": _mean(self.sure[self.right]),
            "marginal of the predicted partner when wrong": _mean(self.sure[wrong]),
            "marginal of the true partner when wrong": _mean(self.true[wrong]),
            "fits short of their tolerance": self.unconverged,
        }

    def sentence(self, rho: float) -> str:
        n = self.numbers
        if not n["wrong"]:
            return f"rho = {rho:g}: none of {n['landmarks']} test landmarks is matched wrongly."
        return (
            f"rho = {rho:g}: {n['wrong']} of {n['landmarks']} test landmarks are matched wrongly; "
            f"for {n['true partner among the two highest when wrong']:.0%} of them the true "
            "partner has the highest or second highest marginal. The predicted partner has "
            f"{n['marginal of the predicted partner when right']:.2f} on average when right and "
            f"{n['marginal of the predicted partner when wrong']:.2f} when wrong, where the true "
            f"one has {n['marginal of the true partner when wrong']:.2f}."
        )

    def verdicts(self, rho: float) -> list[Verdict]:
        """The claims of the paper; there is nothing to tell if no landmark is wrong."""
        n = self.numbers
        if not n["wrong"] or not self.right.any():
            return []
        when_right = n["marginal of the predicted partner when right"]
        when_wrong = n["marginal of the predicted partner when wrong"]
        rivals = n["another partner is not trivial when wrong"]
        second = n["true partner among the two highest when wrong"]
        return [
            Verdict(
                f"rho = {rho:g}: marginals show which predictions to doubt: lower when wrong",
                when_wrong < when_right,
                f"{when_right:.3f} when right, {when_wrong:.3f} when wrong",
            ),
            Verdict(
                f"rho = {rho:g}: in many cases a wrongly matched landmark has two partners whose "
                "marginals are not trivial (in at least half)",
                rivals >= 0.5,
                f"{rivals:.0%} have a second one of at least {UNSURE:g}; of those matched rightly "
                f"{n['another partner is not trivial when right']:.0%}",
            ),
            Verdict(
                f"rho = {rho:g}: errors are not unfounded: the true partner has the highest or "
                "second highest marginal in at least half of them",
                second >= 0.5,
                f"{second:.0%} of {n['wrong']}",
            ),
        ]


def part_name(gap: int, rho: float) -> str:
    return f"gap {gap}, rho={rho:g}"


def _mean(values: Any) -> float | None:
    return float(np.mean(values)) if len(values) else None


def _table(by_rho: Mapping[float, Doubts]) -> Table:
    numbers = {rho: doubt.numbers for rho, doubt in by_rho.items()}
    keys = next(iter(numbers.values()))
    rows = [[key, *(found[key] for found in numbers.values())] for key in keys]
    head = ["of test landmarks", *(f"rho = {rho:g}" for rho in by_rho)]
    return Table("doubts", "What marginals say of right and wrong predictions", head, rows)


def _caption(setting: Setting, shown: Mapping[str, Any], gap: int, rho: float) -> str:
    a, b = shown["frames"]
    return (
        f"Frames {a} and {b} of the {setting['sequences'][0]} (gap {gap}), rho = {rho:g}. Top: "
        "the predicted matching, wrong pairs in red. Below: marginals of the surest right point "
        "and of a doubtful wrong one; true partners are ringed."
    )
