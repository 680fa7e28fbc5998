"""Test loss by rho: the house at a gap of 50, and the mean over all gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..plotting.style import clean_axes, new_figure
from .contract import Claim, Comparison, Experiment, Outcome, Part, Picture, Setting, Table
from .landmarks import (
    GAPS,
    Loss,
    common_setting,
    is_real,
    loss_of,
    mean_of,
    name_of,
    plot_losses,
    thirds_table,
    tuned_losses,
)

GAP = 50
PUBLISHED = {0.5: 0.013, 0.6: 0.013, 0.7: 0.017, 0.8: 0.017, 0.9: 0.020, 1.0: 0.017}


class RhoTable(Experiment):
    name = "rho"
    title = "Landmark matching: test loss by rho"
    place = "graph matchings, table of rho"

    def setting(self, quick: bool) -> Setting:
        return common_setting(quick, ["house"]) | {
            "gap": 8 if quick else GAP,
            "gaps": [8, 14] if quick else list(GAPS),
            "rhos": [0.5, 0.8, 1.0] if quick else list(PUBLISHED),
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
        real, gaps, rhos = is_real(setting), setting["gaps"], setting["rhos"]
        losses = {rho: {gap: loss_of(found[part_name(gap, rho)]) for gap in gaps} for rho in rhos}
        at_gap = {rho: by_gap[setting["gap"]] for rho, by_gap in losses.items()}
        means = {rho: mean_of(list(by_gap.values())) for rho, by_gap in losses.items()}
        short, fits = (sum(one[key] for one in found.values()) for key in ("unconverged", "fits"))
        return Outcome(
            summary=[f"{short} of {fits} fits stopped short of their tolerance."],
            tables=[_table(setting, at_gap, means, real), thirds_table(found)],
            pictures=[_picture(setting, at_gap, means, real)],
            comparisons=compared(at_gap) if real else [],
            claims=[
                little_difference(f"at gap {setting['gap']}", at_gap),
                little_difference("on average over gaps", means),
            ],
            numbers={
                "at gap": {name_of(rho): loss.mean for rho, loss in at_gap.items()},
                "mean over gaps": {name_of(rho): loss.mean for rho, loss in means.items()},
            },
        )


def part_name(gap: int, rho: float) -> str:
    return f"gap {gap}, {name_of(rho)}"


def compared(losses: Mapping[float, Loss]) -> list[Comparison]:
    """The published losses beside ours."""
    return [
        Comparison(
            f"house, gap {GAP}, rho = {rho:g}: loss",
            PUBLISHED[rho],
            ours.mean,
            digit=1e-3,
            spread=ours.range,
            note=f"fit on one third {ours.role_mean:.4f}",
        )
        for rho, ours in losses.items()
    ]


def little_difference(where: str, losses: Mapping[float, Loss]) -> Claim:
    means = [loss.mean for loss in losses.values()]
    by_rho = max(means) - min(means)
    by_third = float(np.mean([loss.range[1] - loss.range[0] for loss in losses.values()]))
    return Claim(
        f"Little difference as rho varies, {where}: less than between test thirds",
        by_rho <= by_third,
        f"{by_rho:.4f} between the rhos, {by_third:.4f} between the thirds",
    )


def _table(
    setting: Setting, at_gap: Mapping[float, Loss], means: Mapping[float, Loss], real: bool
) -> Table:
    ours = list(at_gap.values())
    columns: dict[str, list[Any]] = {
        "rho": list(at_gap),
        "loss": [loss.mean for loss in ours],
        "lowest third": [loss.range[0] for loss in ours],
        "highest third": [loss.range[1] for loss in ours],
        "fit on one third": [loss.role_mean for loss in ours],
        **({"published": [PUBLISHED[rho] for rho in at_gap]} if real else {}),
        "mean over gaps": [loss.mean for loss in means.values()],
    }
    title = f"{setting['sequences'][0]}, gap {setting['gap']}: test loss by rho"
    return Table.of("loss-by-rho", title, columns)


def _picture(
    setting: Setting, at_gap: Mapping[float, Loss], means: Mapping[float, Loss], real: bool
) -> Picture:
    figure = new_figure(6.2, 4.2)
    axes = figure.subplots()
    curves = {
        f"gap {setting['gap']}": list(at_gap.values()),
        f"mean over {len(setting['gaps'])} gaps": list(means.values()),
    }
    published = {f"published, gap {GAP}": [PUBLISHED[rho] for rho in at_gap]} if real else {}
    plot_losses(axes, list(at_gap), curves, published)
    axes.set_xlabel("rho")
    clean_axes(axes)
    axes.legend(frameon=False, fontsize=8.5)
    caption = "Test loss by rho: means over the test thirds, and their range"
    return Picture("loss-by-rho", caption + ("; crosses: published." if real else "."), figure)
