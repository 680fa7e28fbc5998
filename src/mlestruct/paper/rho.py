"""Test loss by rho: the house at a gap of 50, and the mean over all gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from .contract import Comparison, Experiment, Outcome, Part, Picture, Setting, Table, Verdict
from .figures.landmarks import plot_losses_by_rho
from .landmark_results import Loss, loss_of, mean_of, remark
from .landmarks import GAPS, common_setting, is_real, landmarks_of, name_of, tuned_losses

RHOS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
PUBLISHED = dict(zip(RHOS, (0.013, 0.013, 0.017, 0.017, 0.020, 0.017), strict=True))
GAP = 50
DIGIT = 1e-3


class RhoTable(Experiment):
    name: ClassVar[str] = "rho"
    title: ClassVar[str] = "Landmark matching: test loss by rho"
    place: ClassVar[str] = "graph matchings, table of rho"

    def setting(self, quick: bool) -> Setting:
        setting = common_setting(quick, ["house"])
        return setting | {
            "gap": 8 if quick else GAP,
            "gaps": [8, 14] if quick else list(GAPS),
            "rhos": [0.5, 0.8, 1.0] if quick else list(RHOS),
        }

    def parts(self, setting: Setting) -> Sequence[Part]:
        """One per gap and rho, the gap of the table first."""
        name = setting["sequences"][0]
        gaps = sorted(setting["gaps"], key=lambda gap: gap != setting["gap"])
        return [
            Part(part_name(gap, rho), partial(tuned_losses, setting, name, gap, name_of(rho)))
            for gap in gaps
            for rho in setting["rhos"]
        ]

    def outcome(self, setting: Setting, found: Mapping[str, Any]) -> Outcome:
        real = is_real(setting)
        rhos, gap = setting["rhos"], setting["gap"]
        losses = gathered(setting, found)
        at_gap = {rho: losses[rho][gap] for rho in rhos}
        means = {rho: mean_of(list(losses[rho].values())) for rho in rhos}
        unconverged = sum(result["unconverged"] for result in found.values())
        fits = sum(result["fits"] for result in found.values())
        summary = [f"Generated scenes, since {setting['why']}."] if not real else []
        summary += [
            f"Loss by rho: {_listed(at_gap)} at gap {gap}; {_listed(means)} on average over "
            f"{len(setting['gaps'])} gaps.",
            f"{unconverged} of {fits} fits stopped short of their tolerance.",
        ]
        return Outcome(
            summary=summary,
            tables=[_table(setting, at_gap, means, real), _raw_table(setting, losses)],
            pictures=[_picture(setting, at_gap, means, real)],
            comparisons=compared(at_gap) if real else [],
            verdicts=[verdict(f"at gap {gap}", at_gap), verdict("on average over gaps", means)],
            numbers={
                "at gap": {name_of(rho): loss.mean for rho, loss in at_gap.items()},
                "mean over gaps": {name_of(rho): loss.mean for rho, loss in means.items()},
            },
        )


def part_name(gap: int, rho: float) -> str:
    return f"gap {gap}, {name_of(rho)}"


def gathered(setting: Setting, found: Mapping[str, Any]) -> dict[float, dict[int, Loss]]:
    """Losses by rho and gap."""
    n_landmarks = landmarks_of(setting)
    return {
        rho: {gap: loss_of(found[part_name(gap, rho)], n_landmarks) for gap in setting["gaps"]}
        for rho in setting["rhos"]
    }


def compared(losses: Mapping[float, Loss]) -> list[Comparison]:
    """The published losses beside ours."""
    best = min(losses.items(), key=lambda item: item[1].mean)
    instead = {name_of(best[0]): best[1]}
    return [
        Comparison(
            what=f"house, gap {GAP}, rho = {rho:g}: loss",
            published=PUBLISHED[rho],
            ours=ours.mean,
            digit=DIGIT,
            spread=ours.range,
            remark=remark(PUBLISHED[rho], DIGIT, ours, instead),
        )
        for rho, ours in losses.items()
    ]


def verdict(where: str, losses: Mapping[float, Loss]) -> Verdict:
    """Whether rho makes less of a difference than the choice of the test third."""
    means = [loss.mean for loss in losses.values()]
    by_rho = max(means) - min(means)
    by_third = float(np.mean([loss.range[1] - loss.range[0] for loss in losses.values()]))
    return Verdict(
        f"Little difference as rho varies, {where}: less than between test thirds",
        by_rho <= by_third,
        f"{by_rho:.4f} between the rhos, {by_third:.4f} between the thirds",
    )


def _listed(losses: Mapping[float, Loss]) -> str:
    return ", ".join(f"{loss.mean:.4f} at {rho:g}" for rho, loss in losses.items())


def _table(
    setting: Setting, at_gap: Mapping[float, Loss], means: Mapping[float, Loss], real: bool
) -> Table:
    rows: list[list[Any]] = []
    for rho, ours in at_gap.items():
        row = [rho, ours.mean, *ours.range, ours.role_mean]
        rows.append([*row, *([PUBLISHED[rho]] if real else []), means[rho].mean])
    head = ["rho", "loss", "lowest third", "highest third", "fit on one third"]
    head += [*(["published"] if real else []), "mean over gaps"]
    name = setting["sequences"][0]
    return Table("loss-by-rho", f"{name}, gap {setting['gap']}: test loss by rho", head, rows)


def _raw_table(setting: Setting, losses: Mapping[float, Mapping[int, Loss]]) -> Table:
    rows = [
        [rho, gap, third, loss]
        for rho, by_gap in losses.items()
        for gap, found in by_gap.items()
        for third, loss in enumerate(found.thirds)
    ]
    return Table("thirds", "Every test third", ["rho", "gap", "third", "loss"], rows, shown=False)


def _picture(
    setting: Setting, at_gap: Mapping[float, Loss], means: Mapping[float, Loss], real: bool
) -> Picture:
    curves = {
        f"gap {setting['gap']}": np.array([loss.thirds for loss in at_gap.values()]).T,
        f"mean over {len(setting['gaps'])} gaps": np.array(
            [loss.thirds for loss in means.values()]
        ).T,
    }
    published = {f"published, gap {GAP}": [PUBLISHED[rho] for rho in at_gap]} if real else {}
    return Picture(
        "loss-by-rho",
        "Test loss by rho: means over the test thirds, and their range"
        + ("; crosses are published values." if real else "."),
        plot_losses_by_rho(list(at_gap), curves, published),
    )
