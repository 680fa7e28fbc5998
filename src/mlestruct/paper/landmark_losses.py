"""Matching hand-labelled landmarks of two frames: test losses by gap and by rho (both tables).

At every gap between frames: the CRF at the paper's rho = 1, at .95 and at 1/2, with rho chosen by
cross-validation as well, the structured hinge loss ("linear + learning") and an averaged
perceptron, all on the same features, -(difference of shape-context bins)^2, and tuned alike (see
`landmarks`); and the CRF on the house for more values of rho. Losses are shares of wrongly matched
landmarks in test pairs, averaged over the three thirds of the pairs that can be the test set. Which
pairs were tested for the published numbers is not known; their digits are those of a third of all
pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Literal

import numpy as np

from ..plotting.style import GREY, clean_axes, new_figure, plot_band
from .contract import Claim, Comparison, Experiment, Outcome, Picture, Table, listed
from .landmarks import (
    GAPS,
    HINGE,
    PERCEPTRON,
    THIRDS,
    common_setting,
    configurations,
    is_real,
    name_of,
    tuned_losses,
)
from .parts import Part, Setting, grid, part_name

PAPER, CHOSEN = name_of(1.0), "rho chosen"
COLUMNS = (PAPER, name_of(0.95), name_of(0.5), CHOSEN, HINGE, PERCEPTRON)
DRAWN = {PAPER: "CRF, rho = 1", CHOSEN: "CRF, rho chosen", HINGE: "hinge loss",
         PERCEPTRON: "averaged perceptron"}  # fmt: skip

PRINTED = {  # at gaps of 0, 10, ..., 90
    "hotel": {
        "FW": "0.0 0.0 0.0049 0.020 0.023 0.0614 0.13 0.17 0.24 0.33",
        "lin.+l.": "0.0 0.0022 0.0049 0.020 0.013 0.050 0.12 0.15 0.19 0.30",
    },
    "house": {
        "FW": "0 0.0040 0.0022 0.0049 0.0 0.017 0.041 0.051 0.080 0.12",
        "lin.+l.": "0.0 0.0 0.0022 0.0 0.0 0.022 0.051 0.067 0.14 0.11",
    },
}
PUBLISHED_BY_GAP = {
    name: {key: row.split() for key, row in rows.items()} for name, rows in PRINTED.items()
}
COLUMN_OF = {"FW": PAPER, "lin.+l.": HINGE}  # of ours that a published one is compared with

RHO_GAP = 50  # of the table by rho
PUBLISHED_BY_RHO = {0.5: 0.013, 0.6: 0.013, 0.7: 0.017, 0.8: 0.017, 0.9: 0.020, 1.0: 0.017}

# ---------------------------------------------------------------------- losses of one method
Result = Mapping[str, Any]
"""What `tuned_losses` returns."""


@dataclass(frozen=True)
class Loss:
    """Test losses of a method.

    thirds : with each third as the test set, after cross-validation and a fit on the other two
    roles : of fits to one third, chosen on the second, for all six roles of the thirds
    """

    thirds: tuple[float, ...]
    roles: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.thirds))

    @property
    def role_mean(self) -> float:
        return float(np.mean(self.roles))

    @property
    def range(self) -> tuple[float, float]:
        return min(self.thirds), max(self.thirds)


def loss_parts(setting: Setting, methods: Iterable[str]) -> list[Part]:
    """`tuned_losses` for each sequence, gap and method."""
    axes = {"sequence": setting["sequences"], "gap": setting["gaps"], "method": methods}
    return grid(tuned_losses, setting, **axes)


def part_result(found: Mapping[str, Any], sequence: str, gap: int, method: str) -> Result:
    result: Result = found[part_name(sequence=sequence, gap=gap, method=method)]
    return result


def loss_of(result: Result) -> Loss:
    return Loss(tuple(result["test"]), tuple(losses_by_role(result["losses"])))


def best_of(results: Mapping[str, Result]) -> Loss:
    """The method chosen by cross-validation as well, of equals the first."""
    chosen = [
        min(results.values(), key=lambda result: round(result["validation"][third], 12))
        for third in THIRDS
    ]
    test = tuple(float(result["test"][third]) for third, result in enumerate(chosen))
    joined = [
        [[x for result in results.values() for x in result["losses"][a][b] or ()] for b in THIRDS]
        for a in THIRDS
    ]
    return Loss(test, tuple(losses_by_role(joined)))


def losses_by_role(losses: Sequence[Sequence[Any]]) -> list[float]:
    """Test losses of fits to one third, chosen on the second, for all six roles of the thirds."""
    found = []
    for train, validate, test in permutations(THIRDS):
        best = int(np.argmin(np.round(losses[train][validate], 12)))
        found.append(float(losses[train][test][best]))
    return found


def mean_of(losses: Sequence[Loss]) -> Loss:
    """The mean over gaps, third by third and role by role."""
    return Loss(
        tuple(np.mean([loss.thirds for loss in losses], axis=0).tolist()),
        tuple(np.mean([loss.roles for loss in losses], axis=0).tolist()),
    )


# ---------------------------------------------------------------------- for both tables
def compared(
    what: str,
    published: float,
    digit: float,
    loss: Loss,
    whose: Literal["ours", "rival"] = "ours",
    note: str = "",
) -> Comparison:
    """A published loss beside ours, with the range over test thirds and the other protocol."""
    told = f"fit on one third {loss.role_mean:.4f}{note}"
    return Comparison(what, published, loss.mean, "lower", digit, loss.range, whose, told)


def loss_picture(
    by: str,
    x: Sequence[float],
    panels: Mapping[str, Mapping[str, Sequence[Loss]]],
    published: Mapping[str, Mapping[str, Sequence[float]]],
) -> Picture:
    """Means over the test thirds and their range for each place of `x`; published ones as crosses.

    panels : by sequence and label, the most important curve first; `published` likewise
    """
    figure = new_figure(5.6 * len(panels), 4.4)
    row = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (name, curves) in zip(row, panels.items(), strict=True):
        for k, (label, losses) in enumerate(curves.items()):
            plot_band(axes, x, np.array([loss.thirds for loss in losses]).T, label, k)
        crosses = zip("x+", ("black", GREY), published.get(name, {}).items(), strict=False)
        for marker, colour, (label, values) in crosses:
            axes.plot(
                x, values, linestyle="none", marker=marker, color=colour, markersize=8.0,
                markeredgewidth=1.8, label=label, zorder=20,
            )  # fmt: skip
        axes.set_xlabel(by)
        axes.set_ylim(bottom=0.0)
        axes.set_xticks(list(x))
        clean_axes(axes, name)
    row[0].set_ylabel("share of landmarks matched wrongly")
    row[0].legend(frameon=False, fontsize=8.5)
    told = "; crosses: published" if any(published.values()) else ""
    caption = f"Test loss by {by}: means over the test thirds, and their range{told}."
    return Picture(f"loss-by-{by.split()[0]}", caption, figure)


# ---------------------------------------------------------------------- by gap
Losses = dict[str, dict[Any, dict[str, Loss]]]
"""By sequence, gap (or "mean") and column."""


class HouseHotel(Experiment):
    name = "house-hotel"
    title = "Landmark matching: test loss by gap between frames"
    place = "graph matchings, table of the hotel and the house"

    def setting(self, quick: bool) -> Setting:
        return common_setting(quick, ["hotel", "house"]) | {
            "gaps": [8, 14] if quick else list(GAPS),
            "methods": [*(name_of(rho) for rho in (0.5, 0.95, 1.0)), HINGE, PERCEPTRON],
        }

    def parts(self, setting: Setting) -> Sequence[Part]:
        return loss_parts(setting, setting["methods"])

    def outcome(self, setting: Setting, found: Mapping[str, Any]) -> Outcome:
        losses = losses_by_gap(setting, found)
        real = is_real(setting)
        means = {
            name: {column: loss.mean for column, loss in rows["mean"].items()}
            for name, rows in losses.items()
        }
        return Outcome(
            summary=[
                f"{name}, mean loss over gaps and test thirds: {listed(by_column, '.4f')}"
                for name, by_column in means.items()
            ],
            tables=[
                *(gap_table(name, rows, real) for name, rows in losses.items()),
                effort_table(setting, found),
                protocol_table(losses),
            ],
            pictures=[gap_picture(setting, losses, real)],
            comparisons=comparisons(losses) if real else [],
            claims=claims(means) if real else [],
        )


def losses_by_gap(setting: Setting, found: Mapping[str, Any]) -> Losses:
    """Losses of all columns, those of the CRF with rho chosen among them, and their means."""
    losses: Losses = {}
    for name in setting["sequences"]:
        losses[name] = {}
        for gap in setting["gaps"]:
            results = {m: part_result(found, name, gap, m) for m in setting["methods"]}
            every = {m: loss_of(result) for m, result in results.items()}
            every[CHOSEN] = best_of({m: r for m, r in results.items() if m.startswith("rho")})
            losses[name][gap] = {column: every[column] for column in COLUMNS}
        rows = losses[name].values()
        losses[name]["mean"] = {c: mean_of([row[c] for row in rows]) for c in COLUMNS}
    return losses


def last_digit(printed: str) -> float:
    """The value of the last digit; zeros are printed short, so theirs is that of the smallest."""
    return 1e-4 if float(printed) == 0.0 else 10.0 ** -len(printed.partition(".")[2])


def published_rows(name: str) -> dict[Any, dict[str, tuple[float, float]]]:
    """By gap (or "mean") and column: a published loss and its last digit."""
    rows: dict[Any, dict[str, tuple[float, float]]] = {
        gap: {key: (float(t[k]), last_digit(t[k])) for key, t in PUBLISHED_BY_GAP[name].items()}
        for k, gap in enumerate(GAPS)
    }
    columns = {key: np.mean([row[key] for row in rows.values()], axis=0) for key in COLUMN_OF}
    return rows | {"mean": {key: (float(m[0]), float(m[1])) for key, m in columns.items()}}


def comparisons(losses: Losses) -> list[Comparison]:
    """All published losses beside ours, and the means over gaps."""
    found = []
    what = {PAPER: "CRF at rho = 1", HINGE: "hinge"}
    for name in PUBLISHED_BY_GAP:
        for key, column in COLUMN_OF.items():
            for gap, row in published_rows(name).items():
                ours = losses[name][gap][column]
                where = "mean over gaps" if gap == "mean" else f"gap {gap}"
                text = f"{name}, {where}: loss, {what[column]}"
                if column == HINGE:
                    found.append(compared(text, *row[key], ours, "rival"))
                else:
                    note = f"; rho chosen {losses[name][gap][CHOSEN].mean:.4f}"
                    found.append(compared(text, *row[key], ours, note=note))
    return found


def claims(means: Mapping[str, Mapping[str, float]]) -> list[Claim]:
    printed = [published_rows(name)["mean"] for name in PUBLISHED_BY_GAP]
    widest = max(abs(row["FW"][0] - row["lin.+l."][0]) for row in printed)
    apart = max(abs(row[PAPER] - row[HINGE]) for row in means.values())
    found = [
        Claim(
            "The CRF and the hinge loss perform comparably: their means over gaps differ by no "
            f"more than the published ones, {widest:.4f}",
            apart <= widest,
            f"by at most {apart:.4f}",
        )
    ]
    for name, words, better, other in (
        ("house", "the CRF", PAPER, HINGE),
        ("hotel", "the hinge loss", HINGE, PAPER),
    ):
        row = {column: means[name][column] for column in (PAPER, CHOSEN, HINGE)}
        sentence = f"On the {name} {words} is slightly better"
        found.append(Claim(sentence, row[better] <= row[other], listed(row, ".4f")))
    return found


def gap_table(name: str, losses: Mapping[Any, Mapping[str, Loss]], real: bool) -> Table:
    columns: dict[str, list[Any]] = {"gap": list(losses)}
    for column in COLUMNS:
        columns[column] = [row[column].mean for row in losses.values()]
    for key in COLUMN_OF if real else ():
        columns[f"published {key}"] = [row[key][0] for row in published_rows(name).values()]
    return Table.of(f"loss-{name}", f"{name}: mean Hamming loss on test pairs by gap", columns)


def effort_table(setting: Setting, found: Mapping[str, Any]) -> Table:
    rows = []
    for method in setting["methods"]:
        results = [result for part, result in found.items() if part.endswith(f" {method}")]
        totals = [sum(one[key] for one in results) for key in ("fits", "unconverged", "seconds")]
        rows.append([method, len(configurations(setting, method)), *totals])
    head = ["method", "configurations", "fits", "short of tolerance", "CPU seconds"]
    return Table("effort", "What tuning took, over all gaps and thirds", head, rows)


def protocol_table(losses: Losses) -> Table:
    rows = [
        [name, column, loss.mean, *loss.range, loss.role_mean, min(loss.roles), max(loss.roles)]
        for name, by_gap in losses.items()
        for column, loss in by_gap["mean"].items()
    ]
    return Table(
        "protocols",
        "Mean loss over gaps: cross-validation over two thirds and a fit on both (three test "
        "thirds), or a fit on one third, chosen on another (six roles)",
        ["sequence", "method", "fit on two thirds", "lowest", "highest", "fit on one third",
         "lowest ", "highest "],
        rows,
    )  # fmt: skip


def gap_picture(setting: Setting, losses: Losses, real: bool) -> Picture:
    gaps = setting["gaps"]
    panels = {
        name: {label: [by_gap[gap][column] for gap in gaps] for column, label in DRAWN.items()}
        for name, by_gap in losses.items()
    }
    published = {
        name: {f"published, {key}": list(map(float, row)) for key, row in rows.items()}
        for name, rows in PUBLISHED_BY_GAP.items()
    }
    return loss_picture("gap between frames", gaps, panels, published if real else {})


# ---------------------------------------------------------------------- by rho
ByRho = Mapping[float, Loss]


class RhoTable(Experiment):
    name = "rho"
    title = "Landmark matching: test loss by rho"
    place = "graph matchings, table of rho"

    def setting(self, quick: bool) -> Setting:
        return common_setting(quick, ["house"]) | {
            "gap": 8 if quick else RHO_GAP,
            "gaps": [8, 14] if quick else list(GAPS),
            "rhos": [0.5, 0.8, 1.0] if quick else list(PUBLISHED_BY_RHO),
        }

    def parts(self, setting: Setting) -> Sequence[Part]:
        return loss_parts(setting, map(name_of, setting["rhos"]))

    def outcome(self, setting: Setting, found: Mapping[str, Any]) -> Outcome:
        (name,) = setting["sequences"]
        published = PUBLISHED_BY_RHO if is_real(setting) else {}
        losses = {
            rho: {
                gap: loss_of(part_result(found, name, gap, name_of(rho))) for gap in setting["gaps"]
            }
            for rho in setting["rhos"]
        }
        at_gap = {rho: by_gap[setting["gap"]] for rho, by_gap in losses.items()}
        means = {rho: mean_of(list(by_gap.values())) for rho, by_gap in losses.items()}
        short, fits = (sum(one[key] for one in found.values()) for key in ("unconverged", "fits"))
        return Outcome(
            summary=[f"{short} of {fits} fits stopped short of their tolerance."],
            tables=[rho_table(setting, at_gap, means, published)],
            pictures=[rho_picture(setting, at_gap, means, published)],
            comparisons=[
                compared(f"house, gap {RHO_GAP}, rho = {rho:g}: loss", loss, 1e-3, at_gap[rho])
                for rho, loss in published.items()
            ],
            claims=[
                little_difference(f"at gap {setting['gap']}", at_gap),
                little_difference("on average over gaps", means),
            ],
        )


def little_difference(where: str, losses: ByRho) -> Claim:
    means = [loss.mean for loss in losses.values()]
    by_rho = max(means) - min(means)
    by_third = float(np.mean([loss.range[1] - loss.range[0] for loss in losses.values()]))
    return Claim(
        f"Little difference as rho varies, {where}: less than between test thirds",
        by_rho <= by_third,
        f"{by_rho:.4f} between the rhos, {by_third:.4f} between the thirds",
    )


def rho_table(
    setting: Setting, at_gap: ByRho, means: ByRho, published: Mapping[float, float]
) -> Table:
    ours = list(at_gap.values())
    columns: dict[str, list[Any]] = {
        "rho": list(at_gap),
        "loss": [loss.mean for loss in ours],
        "lowest third": [loss.range[0] for loss in ours],
        "highest third": [loss.range[1] for loss in ours],
        "fit on one third": [loss.role_mean for loss in ours],
        **({"published": list(published.values())} if published else {}),
        "mean over gaps": [loss.mean for loss in means.values()],
    }
    title = f"{setting['sequences'][0]}, gap {setting['gap']}: test loss by rho"
    return Table.of("loss-by-rho", title, columns)


def rho_picture(
    setting: Setting, at_gap: ByRho, means: ByRho, published: Mapping[float, float]
) -> Picture:
    curves = {
        f"gap {setting['gap']}": list(at_gap.values()),
        f"mean over {len(setting['gaps'])} gaps": list(means.values()),
    }
    crosses = {f"published, gap {RHO_GAP}": list(published.values())} if published else {}
    name = setting["sequences"][0]
    return loss_picture("rho", setting["rhos"], {name: curves}, {name: crosses})
