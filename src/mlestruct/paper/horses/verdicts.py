"""What the paper claims of these pictures, and whether the measurements bear it out."""

from __future__ import annotations

import numpy as np

from ..contract import Verdict
from .methods import TRUNCATED
from .published import MINUTES, RIVAL
from .results import Results, Snapshot, mean_error, picture_error

PAPER, AVERAGED, RIVAL_SHORT = "bcfw", "bcfw-wavg", "trw10"
RIVALS = (PAPER, AVERAGED, RIVAL_SHORT, RIVAL)
FAR = 1.0  # from the optimum, as a part of its size


def verdicts(results: Results) -> list[Verdict]:
    """All claims; those about moments that were not reached are left out."""
    found = [
        certificate(results),
        auto_is_nearest(results),
        truncation_misses(results),
        *earliest(results),
        low_error_first(results),
        lowest_error(results),
        smoother(results),
        far_but_good(results),
        *picture_at(results, min(60.0 * MINUTES, results.setting["budget"]), "late"),
    ]
    return [verdict for verdict in found if verdict is not None]


def certificate(results: Results) -> Verdict:
    reached, tol = results.reached, results.setting["tol"]
    remark = (
        f"not within {results.end('auto')['cpu']:.3g} CPU s"
        if reached is None
        else f"after {reached[0]:.3g} CPU s, {reached[1]:.3g} s on the clock"
    )
    return Verdict(
        f"A single run tells how far it is from the optimum: auto proves a gap of {tol:g}",
        reached is not None,
        remark,
    )


def auto_is_nearest(results: Results) -> Verdict | None:
    """When it is done; where the others end is told as well."""
    reached = results.reached
    if reached is None:
        return None
    own = results.shortfall(results.end("auto"))
    known = {name: results.at(name, reached[0]) for name in RIVALS}
    far = {name: None if s is None else results.shortfall(s) for name, s in known.items()}
    then = ", ".join(f"{name} {_far(value)}" for name, value in far.items())
    ends = ", ".join(
        f"{name} {_far(results.shortfall(results.end(name)))} after "
        f"{results.end(name)['cpu']:.3g} CPU s"
        for name in RIVALS
    )
    return Verdict(
        "When auto is done, all others are farther from the optimum",
        own is not None and all(value is None or own < value for value in far.values()),
        f"auto {_far(own)}, {then}; at their ends {ends}",
    )


def truncation_misses(results: Results) -> Verdict:
    """What it climbs is above any value that the likelihood can have."""
    over = {
        name: (curve["values"][-1][2] - results.best_dual) / results.scale
        for name, curve in results.curves.items()
        if name.startswith(TRUNCATED)
    }
    crossed, ended = over[RIVAL_SHORT] > 0.0, results.ended(RIVAL_SHORT)
    remark = (
        "objective at the end minus the proven bound of the optimum, relative: "
        + ", ".join(f"{name} {value:+.2g}" for name, value in over.items())
        + f"; the likelihood itself is {_far(results.shortfall(results.end(RIVAL_SHORT)))} below "
        f"the optimum where {RIVAL_SHORT} ends by {'itself' if ended else 'the budget'}"
    )
    if not crossed and not ended:
        remark += ", so that a longer run may cross"
    return Verdict(
        "Message passing cut off after 10 sweeps crosses the optimal value and goes on beyond it",
        crossed,
        remark,
    )


def earliest(results: Results) -> list[Verdict]:
    """When the rival has made its first steps: test error, and the picture."""
    first = results.curves[RIVAL]["snapshots"][0]
    average = results.at(AVERAGED, first["cpu"])
    found = []
    if average is not None:
        found.append(
            Verdict(
                "Early on the averaged iterates have a lower test error than 40 sweeps",
                mean_error(average) < mean_error(first),
                f"{mean_error(average):.4f} against {mean_error(first):.4f} after "
                f"{first['cpu']:.3g} CPU s, iteration {first['iteration']} of {RIVAL}",
            )
        )
    point = results.curves[RIVAL]["path"][0]
    return found + picture_at(results, point["cpu"], "early")


def picture_at(results: Results, cpu: float, when: str) -> list[Verdict]:
    """BCFW against the rival on the picture that is shown."""
    points = {name: results.path_at(name, cpu) for name in (PAPER, AVERAGED, RIVAL)}
    known = {name: picture_error(point) for name, point in points.items() if point is not None}
    rival = points[RIVAL]
    if rival is None or PAPER not in known:
        return []
    words = "when 40 sweeps have their first weights" if when == "early" else "late"
    around = [
        picture_error(point)
        for point in results.curves[PAPER]["path"]
        if 0.5 * cpu <= point["cpu"] <= 2.0 * cpu
    ]
    remark = ", ".join(f"{name} {error:.4f}" for name, error in known.items())
    if around:
        remark += f"; {PAPER} {min(around):.4f} to {max(around):.4f} from half to twice that time"
    return [
        Verdict(
            f"BCFW errs less on {results.picture_name} than 40 sweeps, {words} ({cpu:.3g} CPU s)",
            known[PAPER] < known[RIVAL],
            f"{remark}; {rival['iteration']} iterations of {RIVAL} by then",
        )
    ]


def low_error_first(results: Results) -> Verdict:
    """Below what pixels alone can tell."""
    level = mean_error(results.end("unary"))
    times = {name: results.first_below(name, level) for name in (AVERAGED, RIVAL)}
    ours, theirs = times[AVERAGED], times[RIVAL]
    remark = "below the error without edges, {:.4f}: {}".format(
        level,
        ", ".join(
            f"{name} never" if shot is None else f"{name} after {shot['cpu']:.3g} CPU s"
            for name, shot in times.items()
        ),
    )
    holds = ours is not None and (theirs is None or ours["cpu"] < theirs["cpu"])
    return Verdict("The averaged iterates reach a low test error before 40 sweeps", holds, remark)


def lowest_error(results: Results) -> Verdict:
    """Of all weights that were looked at."""
    least = {
        name: min(results.curves[name]["snapshots"], key=mean_error) for name in ("auto", *RIVALS)
    }
    winner = min(least, key=lambda name: mean_error(least[name]))
    remark = ", ".join(
        f"{name} {mean_error(shot):.4f} after {shot['cpu']:.3g} CPU s"
        for name, shot in least.items()
    )
    ends = ", ".join(f"{name} {mean_error(results.end(name)):.4f}" for name in least)
    return Verdict(
        "The averaged iterates have the lowest test error of all",
        winner == AVERAGED,
        f"{remark}; at the ends {ends}",
    )


def smoother(results: Results) -> Verdict:
    """How much the test error goes up, in all."""
    rises = {name: _rises(results.curves[name]["snapshots"]) for name in (PAPER, AVERAGED)}
    return Verdict(
        "The test error of averaged iterates falls more smoothly than that of the iterates",
        rises[AVERAGED] < rises[PAPER],
        f"sum of all rises {rises[AVERAGED]:.4f} against {rises[PAPER]:.4f}",
    )


def far_but_good(results: Results) -> Verdict:
    """Errors in tau cancel in theta, which has few dimensions."""
    level = mean_error(results.end("unary"))
    shot = results.first_below(AVERAGED, level)
    far = None if shot is None else results.shortfall(shot)
    remark = (
        f"not below the error without edges, {level:.4f}"
        if shot is None
        else f"{_far(far)} from the optimum when the test error is {mean_error(shot):.4f}"
    )
    return Verdict(
        "The dual algorithm has a low test error while it is still far from the optimum",
        far is not None and far > FAR,
        remark,
    )


def _rises(snapshots: list[Snapshot]) -> float:
    changes = np.diff([mean_error(shot) for shot in snapshots])
    return float(np.maximum(changes, 0.0).sum())


def _far(shortfall: float | None) -> str:
    return "nothing yet" if shortfall is None else f"{shortfall:.2g}"
