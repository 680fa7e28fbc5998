"""The numbers that the paper gives for picture 207, beside those measured here."""

from __future__ import annotations

from ..contract import Comparison
from .published import BCFW, DOMKE, HOURS, ITERATIONS, MINUTES, PASSES, RIVAL, RIVAL_HOURS
from .results import Results, Snapshot, mean_error, picture_error, rank

OTHER_MACHINE = "Times of another machine and of Matlab"


def comparisons(results: Results) -> list[Comparison]:
    """All of them; for the real pictures only."""
    return [*ours(results), *rival(results), *times(results)]


def ours(results: Results) -> list[Comparison]:
    """The paper's algorithm, its averaged iterates, and the optimum that it approaches."""
    found = []
    for name, words in (("bcfw", "last iterate"), ("bcfw-wavg", "averaged iterates")):
        point = results.path_at(name, 60 * MINUTES)
        recent = [
            picture_error(s)
            for s in results.curves[name]["path"]
            if 30 * MINUTES <= s["cpu"] <= 60 * MINUTES
        ]
        found.append(
            Comparison(
                f"error on picture 207, BCFW after {MINUTES} min, {words}",
                BCFW[0].error,
                None if point is None else picture_error(point),
                digit=BCFW[0].digit,
                spread=(min(recent), max(recent)) if recent else None,
                remark=_iterate_remark(results, name, point, recent) + _features(results),
            )
        )
    end = results.path_end("auto")
    found.append(
        Comparison(
            f"error on picture 207, end of the paper's algorithm ({HOURS} h), here of auto",
            BCFW[1].error,
            picture_error(end),
            digit=BCFW[1].digit,
            remark=_optimum_remark(results) + _features(results),
        )
    )
    return found


def _iterate_remark(
    results: Results, name: str, point: Snapshot | None, recent: list[float]
) -> str:
    if point is None or not recent:
        return "No weights by then."
    gap = results.at(name, 60 * MINUTES)
    far = None if gap is None else results.shortfall(gap)
    text = (
        f"Iterates of the second half of that time err on {min(recent):.3f} to {max(recent):.3f}"
        " (the range)"
    )
    if far is not None:
        text += f", while they are {far:.2g} times the optimum's size away from it"
    steps = PASSES * results.setting["train"]
    known = [s for s in results.curves[name]["path"] if s["iteration"] <= steps]
    if known:
        text += (
            f"; {picture_error(known[-1]):.3f} already after {known[-1]['iteration']} iterations, "
            f"{known[-1]['cpu']:.3g} CPU s ({steps} there)"
        )
    if picture_error(point) > BCFW[0].error + 0.5 * BCFW[0].digit:
        best = picture_error(results.path_end("auto"))
        text += f"; single iterates jump, the optimum itself errs on {best:.3f}"
    return text + "."


def _optimum_remark(results: Results) -> str:
    errors = results.end("auto")["marginal_errors"]
    low, high = min(errors), max(errors)
    lower = sum(error < BCFW[1].error for error in errors)
    place = rank(errors, results.picture_in_test)
    reached = results.reached
    state = (
        f"no certificate of {results.setting['tol']:g} within the budget"
        if reached is None
        else f"certified within {results.setting['tol']:g} after {reached[0]:.3g} CPU s"
    )
    return (
        f"Here {state}; the same weights err on {low:.3f} to {high:.3f} of the pixels of a test "
        f"picture, {mean_error(results.end('auto')):.3f} in the mean, and this picture is number "
        f"{place} of {len(errors)} from the easiest; {lower} of them err less than the published "
        "share."
    )


def _features(results: Results) -> str:
    """How much of a difference may lie in the features and not in the method."""
    alone = f"; without edges they err on {picture_error(results.path_end('unary')):.3f}"
    made = " Pictures are resized and features made anew"
    return f"{made}{alone if 'unary' in results.curves else ''}."


def rival(results: Results) -> list[Comparison]:
    """Truncated message passing with 40 sweeps, after as many iterations as in the paper."""
    one, many = ITERATIONS
    moments = (
        (f"after one iteration ({MINUTES} min there)", results.path_after(RIVAL, one)),
        (f"after {many} iterations ({HOURS} h there)", results.path_after(RIVAL, many)),
        (f"at its end ({RIVAL_HOURS} h there)", results.path_end(RIVAL)),
    )
    return [
        Comparison(
            f"error on picture 207, 40 sweeps {words}",
            published.error,
            None if point is None else picture_error(point),
            digit=published.digit,
            whose="rival",
            remark=_rival_remark(results, point) + _features(results),
        )
        for published, (words, point) in zip(DOMKE, moments, strict=True)
    ]


def _rival_remark(results: Results, point: Snapshot | None) -> str:
    if point is None:
        return f"Not so many iterations within {results.setting['budget']:g} CPU s."
    text = f"Here iteration {point['iteration']}, after {point['cpu']:.3g} CPU s"
    if abs(picture_error(point) - results.share_of_figure) < 5e-4:
        text += f"; as if nothing were horse, which is {results.share_of_figure:.3f} of the picture"
    if point is results.path_end(RIVAL) and not results.ended(RIVAL):
        text += ", where the budget ended it and not its own criterion"
    return text + "."


def times(results: Results) -> list[Comparison]:
    """How long it took; faster machines are no merit of a method."""
    found = []
    point = results.path_at("bcfw", 60 * MINUTES)
    passes = None if point is None else point["iteration"] / results.setting["train"]
    found.append(
        Comparison(
            f"passes of BCFW over the training pictures in {MINUTES} min",
            PASSES,
            passes,
            better="none",
            digit=1.0,
            remark=OTHER_MACHINE + ".",
        )
    )
    reached = results.reached
    found.append(
        Comparison(
            "hours until the paper's algorithm ends, here until auto's certificate",
            HOURS,
            None if reached is None else reached[0] / 3600,
            better="none",
            digit=0.1,
            remark=f"{OTHER_MACHINE}; another algorithm for the same optimum.",
        )
    )
    found.append(
        Comparison(
            "minutes of one iteration with 40 sweeps",
            MINUTES,
            _minutes_of_an_iteration(results),
            better="none",
            digit=0.1,
            whose="rival",
            remark=OTHER_MACHINE + ".",
        )
    )
    end = results.end(RIVAL)["cpu"] / 3600 if results.ended(RIVAL) else None
    found.append(
        Comparison(
            "hours until 40 sweeps end by their own criterion",
            RIVAL_HOURS,
            end,
            better="none",
            digit=0.1,
            whose="rival",
            remark=f"{OTHER_MACHINE}."
            if end is not None
            else f"Not within the budget of {results.setting['budget']:g} CPU s.",
        )
    )
    return found


def _minutes_of_an_iteration(results: Results) -> float | None:
    """The mean, without the first evaluation."""
    values = results.curves[RIVAL]["values"]
    if len(values) < 2:
        return None
    return float((values[-1][0] - values[0][0]) / (values[-1][1] - values[0][1]) / 60)
