"""Tables: the methods at their ends and after equal times, and all that was measured."""

from __future__ import annotations

from typing import Any

from ..contract import Table
from .results import KINDS, Results, mean_error, picture_error

ERRORS = [f"error, {words}" for words in KINDS.values()]
DISTANCES = ["certified gap", "from the optimum"]


def tables(results: Results) -> list[Table]:
    """Those that are shown first."""
    found = [at_the_end(results)]
    if results.reached is not None:
        found.append(after_equal_time(results, results.reached[0]))
    return [*found, picture_by_time(results), progress(results), path(results), pictures(results)]


def at_the_end(results: Results) -> Table:
    """One row for each curve."""
    rows: list[list[Any]] = []
    for name in results.curves:
        end, memory = results.end(name), results.memory(name)
        rows.append(
            [
                name,
                round(end["cpu"], 2),
                results.ended(name),
                *_distances(results, name, end),
                *_errors(end),
                picture_error(results.path_end(name)),
                None if memory is None else round(memory, 2),
            ]
        )
    head = ["method", "CPU s", "ended by itself", *DISTANCES, *ERRORS, results.picture_name, "GB"]
    title = "At the end of each method (test errors: mean share of wrong pixels)"
    return Table("methods", title, head, rows)


def after_equal_time(results: Results, cpu: float) -> Table:
    """Where all methods are when "auto" is done; weights are the last looked at by then."""
    rows: list[list[Any]] = []
    for name in results.curves:
        known = results.at(name, cpu)
        if known is None:
            rows.append([name, *[None] * 6])
            continue
        rows.append(
            [
                name,
                round(known["cpu"], 2),
                known["iteration"],
                *_distances(results, name, known),
                *_errors(known),
            ]
        )
    head = ["method", "weights of CPU s", "iteration", *DISTANCES, *ERRORS]
    return Table("equal-time", f"After the {cpu:.3g} CPU s that auto takes", head, rows)


def picture_by_time(results: Results) -> Table:
    """Errors on the shown picture, a row for each moment and a column for each curve."""
    rows: list[list[Any]] = []
    for cpu in results.setting["moments"]:
        known = [results.path_at(name, cpu) for name in results.curves]
        rows.append([round(cpu, 2), *(None if s is None else picture_error(s) for s in known)])
    title = f"{results.picture_name}: share of wrong pixels, {KINDS['marginal']}"
    return Table("picture-by-time", title, ["CPU s", *results.curves], rows)


def progress(results: Results) -> Table:
    """Every snapshot."""
    rows = [
        [
            name,
            shot["cpu"],
            shot["wall"],
            shot["iteration"],
            *_distances(results, name, shot),
            *_errors(shot),
        ]
        for name, curve in results.curves.items()
        for shot in curve["snapshots"]
    ]
    head = ["method", "CPU s", "wall s", "iteration", *DISTANCES, *ERRORS]
    return Table("progress", "All weights that were looked at", head, rows, shown=False)


def path(results: Results) -> Table:
    """Every point of the paths of the shown picture."""
    rows = [
        [name, s["cpu"], s["iteration"], *(picture_error(s, kind) for kind in KINDS)]
        for name, curve in results.curves.items()
        for s in curve["path"]
    ]
    head = ["method", "CPU s", "iteration", *ERRORS]
    return Table("picture-path", f"{results.picture_name} by time", head, rows, shown=False)


def pictures(results: Results) -> Table:
    """Errors of every test picture at the end."""
    first = results.setting["train"] + 1
    ends = [results.end(name)["marginal_errors"] for name in results.curves]
    rows = [
        [first + k, share, *(errors[k] for errors in ends)]
        for k, share in enumerate(results.found["picture"]["shares"])
    ]
    head = ["picture", "share of figure", *results.curves]
    title = f"Errors of every test picture at the end, {KINDS['marginal']}"
    return Table("pictures", title, head, rows, shown=False)


def _distances(results: Results, name: str, snapshot: Any) -> list[float | None]:
    return [results.own_gap(name, snapshot["cpu"]), results.shortfall(snapshot)]


def _errors(snapshot: Any) -> list[float]:
    return [mean_error(snapshot, kind) for kind in KINDS]
