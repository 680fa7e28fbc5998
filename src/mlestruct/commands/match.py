"""`mlestruct match`: partners within one group, or between two sides with capacities."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from ..models import load
from ..pairing import GroupMatcher, Matches, SideMatcher
from ..pairing.matches import read_pairs
from . import common
from .arguments import UsageProblem
from .decisions import decide
from .files import FileProblem, check_files, naming, read_id_pairs, write_table

Matcher = GroupMatcher | SideMatcher


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    _check(options)
    accept = common.read_accept(options)  # in large groups even good partners are improbable
    model = options.model if options.pairs else None
    inputs = [*options.tables, options.pairs, None if model else options.model]
    check_files(inputs, o=options.out, m=model)
    tables = common.read_records(options.tables, options)
    if options.pairs is None:
        matcher, ends = _loaded(options), None
    else:
        pairs = read_id_pairs(options.pairs, options.encoding)
        ends = _places(pairs, options.pairs, tables)
        with naming(*options.tables, options.pairs):
            matcher = _learned(options, tables, pairs)
    with naming(*options.tables):
        table, _, _ = propose(matcher, tables, accept, options.top, ends)
    write_table(table, options.out)
    summary = summarise(matcher, table)
    common.answer(options, summary, describe(summary, accept), [options.out, model])
    return common.exit_status(matcher, options)


def _check(options: argparse.Namespace) -> None:
    if options.pairs is None and options.model is None:
        raise UsageProblem("--pairs or -m: give known pairs to learn from, or a model that has")
    if len(options.tables) > 2:
        raise UsageProblem(f"expected one table of people or two sides, got {len(options.tables)}")
    if options.pairs is None:
        learning = ("columns", "kind", "group", "capacity", "left_capacity", "singles", "alpha")
        common.refuse(options, learning, "only with --pairs; a model has its own")
    elif len(options.tables) == 2:
        common.refuse(options, ("group",), "only with one table")
    else:
        common.refuse(options, ("capacity", "left_capacity"), "only with two tables")
    common.check_output(options, "matches")


def read_ends(options: argparse.Namespace, tables: list[Any]) -> Any:
    """Places of both ends of known pairs; None without a file."""
    if not options.known:
        return None
    if len(options.known) > 1:
        raise UsageProblem(f"--known: expected one file of pairs, got {len(options.known)}")
    path = options.known[0]
    return _places(read_id_pairs(path, options.encoding), path, tables)


def _places(pairs: Any, path: str, tables: list[Any]) -> Any:
    right = tables[1].index if len(tables) > 1 else None
    try:
        return read_pairs(pairs, tables[0].index, right, path, first_row=2)
    except ValueError as error:
        raise FileProblem(str(error)) from None


def _loaded(options: argparse.Namespace) -> Matcher:
    matcher = load(options.model)
    if not isinstance(matcher, GroupMatcher | SideMatcher):
        raise FileProblem(f"{options.model}: is a {type(matcher).__name__}, not of `match`")
    return matcher


def _learned(options: argparse.Namespace, tables: list[Any], pairs: Any) -> Matcher:
    settings: dict[str, Any] = {
        "columns": common.listed(options.columns),
        "kinds": common.read_kinds(options.kind),
        "singles": options.singles,
        "alpha": common.read_alpha(options.alpha),
        "random_state": options.seed,
        "verbose": int(common.shows_progress(options)),
    }
    matcher: Matcher
    if len(tables) == 1:
        matcher = GroupMatcher(group=options.group, **settings).fit(tables[0], pairs)
    else:
        capacity = {"capacity": options.capacity, "left_capacity": options.left_capacity}
        matcher = SideMatcher(**capacity, **settings).fit(tables[0], tables[1], pairs)
    if options.model:
        matcher.save(options.model)
    return matcher


def propose(
    matcher: Matcher, tables: list[Any], accept: float, top: int, ends: Any = None
) -> tuple[Any, Matches, list[Any]]:
    """The table of answers for all records that are in no known pair, and what it comes from.

    Returns
    -------
    the table of answers, the matches, and the tables without the left records of known pairs
    """
    wanted = 1 if isinstance(matcher, GroupMatcher) else 2
    if len(tables) != wanted:
        raise UsageProblem(f"the model takes {wanted} table{'s'[: wanted - 1]}, got {len(tables)}")
    ends = np.zeros((0, 2), dtype=np.int64) if ends is None else ends
    paired = ends if isinstance(matcher, GroupMatcher) else ends[:, 0]
    first = tables[0].drop(index=tables[0].index[np.unique(paired)])
    if len(first) + wanted < 3:  # of one group two are needed
        raise FileProblem(
            f"{len(first)} of {len(tables[0])} are in no known pair, so there is nobody to match: "
            "add others, or save the model (-m) and use `mlestruct predict` on them"
        )
    if isinstance(matcher, GroupMatcher):
        found = matcher.match(first, max(top, 5))
    else:
        used = np.bincount(ends[:, 1], minlength=len(tables[1]))
        found = matcher.match(first, tables[1], max(top, 5), used)
    table = decide(found, accept, top, word="pair")
    return table.rename(columns={"left": "id", "right": "partner"}), found, [first, *tables[1:]]


def summarise(matcher: Matcher, table: Any) -> dict[str, Any]:
    """What happened, in numbers."""
    counts = table["decision"].value_counts()
    paired = table[table["partner"] != ""]
    weights = sorted(matcher.named_coef().items(), key=lambda item: -abs(item[1]))
    return {
        "records": int(table["id"].nunique()),
        "with_partner": int(paired["id"].nunique()),
        "without_partner": int((table["partner"] == "").sum()),
        "review": int(counts.get("review", 0)),
        "expected_correct": float(paired["probability"].mean()) if len(paired) else None,
        **common.fit_summary(matcher),
        "strongest": [name for name, _ in weights[:3]],
    }


def describe(summary: dict[str, Any], accept: float) -> str:
    """The summary in plain words, the result first."""
    first = f"{summary['with_partner']} of {summary['records']} have a proposed partner"
    if accept > 0.0:
        first += f"; {summary['review']} answers have a probability below {accept:g}"
    lines = [f"{first}."]
    if summary["expected_correct"] is not None:
        share = common.percent(summary["expected_correct"])
        lines.append(
            f"On average {share} of the proposed partners should be those that people would choose "
            "themselves."
        )
    if summary["cross_validated_auc"] is not None:
        lines.append(
            f"In data left out of the learning, a pair ranks above one that is none in "
            f"{common.percent(summary['cross_validated_auc'])} of the cases (50 % is chance)."
        )
    lines.append(f"What counts most: {', '.join(summary['strongest'])}.")
    return "\n".join([*lines, common.fit_words(summary)])
