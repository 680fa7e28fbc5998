"""`mlestruct link left.csv right.csv`: one-to-one links between two tables, with probabilities."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from .._lazy import pandas_module
from ..linkage import Comparison, Links, RecordLinker, count_candidates, guess_comparisons
from ..linkage.comparisons import same_dates
from ..linkage.known import (
    AT_RANDOM,
    MARK,
    KnownRows,
    Reviewed,
    known_links,
    known_rows,
    undecided_words,
)
from ..linkage.linker import LIST_SINGLES, NO_SINGLES, compared_columns, shared_columns
from ..models import load
from . import common
from .arguments import UsageProblem
from .decisions import decide
from .files import FileProblem, check_files, naming, read_id_pairs, write_table

ACCEPT = 0.9  # links below this probability are for a person to judge, unless options say other


@dataclass(frozen=True)
class Known:
    """Known links of some files.

    table : DataFrame with the columns left, right and checked, yes or no
    passed_over, unmarked, reviewed : as in `KnownRows`
    """

    table: Any
    passed_over: int
    unmarked: int
    reviewed: Reviewed | None

    @property
    def links(self) -> Any:
        """Rows that name a partner, or none."""
        return self.table[self.table["checked"] == "yes"]


@dataclass(frozen=True)
class Answer:
    """Links of two tables, the table of decisions, and what happened in numbers."""

    left: Any
    right: Any
    links: Links
    table: Any
    summary: dict[str, Any]


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    _check(options)
    common.read_accept(options, ACCEPT)
    model = options.model if options.known else None
    inputs = [options.left, options.right, *(options.known or ()), None if model else options.model]
    check_files(inputs, o=options.out, review=options.review, m=model)
    linker = None if options.known or options.dry_run else _loaded(options.model)
    ids = None if linker is None else _id_names(linker)
    left, right = common.read_records([options.left, options.right], options, ids)
    if options.dry_run:
        return _count(options, left, right)
    known = read_known(options, left, right)
    with naming(options.left, options.right, *(options.known or ())):
        if known is not None:
            linker = _learned(options, left, right, known)
        assert linker is not None
        found = answer(linker, options, left, right, known, options.precision, options.top)
        found.summary["learned_here"] = known is not None
    write_answer(found, options)
    written = [options.out, options.review, model]
    common.answer(options, found.summary, describe(found.summary), written)
    return common.exit_status(linker, options)


def _check(options: argparse.Namespace) -> None:
    if options.known is None and options.model is None and not options.dry_run:
        raise UsageProblem("--known or -m: give known links to learn from, or a model that has")
    common.check_output(options, "links")
    if options.neighbours < 1:
        raise UsageProblem(f"--neighbours: expected at least 1, got {options.neighbours}")
    if options.known is None and not options.dry_run:
        learning = ("columns", "kind", "block", "neighbours", "alpha")
        common.refuse(options, learning, "only with --known; a model has its own")
    check_precision(options)


def check_precision(options: argparse.Namespace) -> None:
    if options.precision is not None and not 0.0 < options.precision <= 1.0:
        raise UsageProblem(f"--precision: expected a number in (0, 1], got {options.precision}")


def _count(options: argparse.Namespace, left: Any, right: Any) -> int:
    block = common.listed(options.block) or []
    with naming(options.left, options.right):
        columns = compared_columns(left, right, common.listed(options.columns))
        used = shared_columns(left, right, [*dict.fromkeys([*columns, *block])])
        kinds = common.read_kinds(options.kind)
        comparisons = guess_comparisons(left, right, columns, kinds)
    dated = same_dates(comparisons, right)
    count = count_candidates(left[used], dated[used], block, options.neighbours)
    print(f"{count} candidate pairs of {len(left)} x {len(right)} records")
    print(_compared_words(_compared(comparisons, left, right)))
    return 0


def read_known(options: argparse.Namespace, left: Any, right: Any) -> Known | None:
    """The known links of the files of --known, checked; None without any."""
    if not options.known:
        return None
    found = KnownRows([])
    try:
        for path in options.known:
            found += known_rows(read_id_pairs(path, options.encoding), path, first_row=2)
        known_links(found.rows, left.index, right.index)
    except ValueError as error:
        raise FileProblem(str(error)) from None
    cells = [(row.left, row.right, "yes" if row.is_link else "no") for row in found.rows]
    table = pandas_module().DataFrame(cells, columns=["left", "right", "checked"], dtype=object)
    return Known(table, found.passed_over, found.unmarked, found.reviewed())


def answer(
    linker: RecordLinker, options: argparse.Namespace, left: Any, right: Any, known: Known | None,
    precision: float | None = None, top: int = 1,
) -> Answer:  # fmt: skip
    """Links of two tables by a model, and decisions."""
    accept = common.read_accept(options, ACCEPT)
    given = None if known is None else known.table
    links = linker.link(left, right, precision, given)
    table = decide(links, accept, top, None if known is None else known.links["left"])
    found = {
        **_summary(linker, links, table, known),
        **_compared((one.for_tables(left, right) for one in linker.comparisons_), left, right),
        "accept": accept,
        "learned_here": False,
        "precision": precision,
        "proposed_from": _lowest(table) if precision is not None else None,
    }
    return Answer(left, right, links, table, found)


def answer_files(
    linker: RecordLinker, options: argparse.Namespace, precision: float | None = None, top: int = 1
) -> tuple[Answer, Known | None]:
    """`answer` for two files that options name, and their known links."""
    if len(options.files) != 2:
        raise UsageProblem(f"expected two tables, left and right, got {len(options.files)}")
    left, right = common.read_records(options.files, options, _id_names(linker))
    known = read_known(options, left, right)
    with naming(*options.files):
        return answer(linker, options, left, right, known, precision, top), known


def write_answer(found: Answer, options: argparse.Namespace) -> None:
    """The table of links and that of pairs to review."""
    write_table(found.table, options.out)
    if options.review:
        write_table(_review(found), options.review)


def _loaded(path: str) -> RecordLinker:
    linker = load(path)
    if not isinstance(linker, RecordLinker):
        raise FileProblem(f"{path}: is a {type(linker).__name__}, not a RecordLinker")
    return linker


def _id_names(linker: RecordLinker) -> list[str | None]:
    """The columns of ids of the tables that a model has learned from."""
    return [name for name, _ in linker.ids_]


def _learned(options: argparse.Namespace, left: Any, right: Any, known: Known) -> RecordLinker:
    """A model of known links, saved where options say so."""
    linker = RecordLinker(
        columns=common.listed(options.columns), kinds=common.read_kinds(options.kind),
        block=common.listed(options.block) or [], neighbours=options.neighbours,
        alpha=common.read_alpha(options.alpha), random_state=options.seed,
        verbose=int(common.shows_progress(options)),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", f"known: {NO_SINGLES}")  # the summary says it first
        linker.fit(left, right, known.table)
    if options.model:
        linker.save(options.model)
    return linker


def _review(found: Answer) -> Any:
    """Doubtful pairs with the cells of both records side by side, for a person to judge.

    Of each record that is left to a person its most probable pair is there in any case: where
    several improbable ones add up, none of them is doubtful by itself.
    """
    queue, accept = found.links.review_queue, found.summary["accept"]
    open_ = found.table["left"][found.table["decision"] == "review"]
    queue = queue[queue["left"].isin(open_)]
    chance = queue["probability"]
    best = queue.index.isin(chance.groupby(queue["left"]).idxmax())
    queue = queue[best | ((chance > 1 - accept) & (chance < accept))]
    out = queue[["left", "right", "probability", "proposed", "margin", "group"]].reset_index(
        drop=True
    )
    out.insert(2, "checked", "")
    for column in found.left.columns:
        out[f"left {column}"] = found.left[column].reindex(out["left"]).to_numpy()
        if column in found.right.columns:
            out[f"right {column}"] = found.right[column].reindex(out["right"]).to_numpy()
    return out


# ---------------------------------------------------------------------- summaries
def _summary(linker: RecordLinker, links: Links, table: Any, known: Known | None) -> dict[str, Any]:
    """What happened, in numbers."""
    counts = table["decision"].value_counts()
    honest = linker.learned_singles_  # without, probabilities are too high
    weights = sorted(linker.named_coef().items(), key=lambda item: -abs(item[1]))
    names = ("known", "link", "no partner", "review", "not compared")
    return {
        "left_records": len(links.single_left),
        "right_records": len(links.single_right),
        "candidate_pairs": len(links.pairs),
        **{name.replace(" ", "_"): int(counts.get(name, 0)) for name in names},
        "known_given": known is not None,
        "refused": 0 if known is None else len(known.table) - len(known.links),
        "passed_over": 0 if known is None else known.passed_over,
        "unmarked": 0 if known is None else known.unmarked,
        "reviewed": None if known is None or known.reviewed is None else asdict(known.reviewed),
        **_expected(links, table, honest),
        "blocking_recall": links.blocking_recall,
        "learned_singles": linker.learned_singles_,
        "without_partner": linker.single_share_,
        "without_partner_error": linker.single_share_error_,
        **common.fit_summary(linker),
        "strongest": [name for name, _ in weights if name != "link"][:3],
    }


def _expected(links: Links, table: Any, honest: bool) -> dict[str, float | None]:
    """Expectations under the model about links that are not known; all None unless it is honest.

    expected_precision, expected_recall : of the new links, among what candidates allow
    in_review : links of the records that are left to a person
    missed_compared : links among candidates of the other records that are not among the new links
    missed_not_compared : links that are no candidates, if these have as large a share of all links
        as of the known ones
    """
    decision = table.set_index("left")["decision"].reindex(links.pairs["left"]).to_numpy()
    chance = links.pairs["probability"].to_numpy()
    total, review = chance[decision != "known"].sum(), chance[decision == "review"].sum()
    accepted = table["probability"][table["decision"] == "link"]
    recall = links.blocking_recall
    found = {
        "expected_precision": accepted.mean() if len(accepted) else None,
        "expected_recall": accepted.sum() / total if total > 0 else None,
        "in_review": review,
        "missed_compared": max(total - review - accepted.sum(), 0.0),
        "missed_not_compared": total * (1.0 - recall) / recall if recall else None,
    }
    return {
        name: float(value) if honest and value is not None else None
        for name, value in found.items()
    }


def _missed_words(summary: dict[str, Any]) -> str:
    words = f"Links probably missed: {summary['missed_compared']:.0f} among the compared pairs"
    if summary["missed_not_compared"] is not None:
        words += (
            f", and {summary['missed_not_compared']:.0f} that were not compared, if as large "
            "a share of these links was compared as of the known ones"
        )
    return f"{words}. {summary['in_review']:.0f} more should be among those left to you."


def _compared(comparisons: Iterable[Comparison], left: Any, right: Any) -> dict[str, list[str]]:
    """The columns of ids, the compared ones with their kinds, and those of only one table."""
    return {
        "ids": [left.attrs["ids"], right.attrs["ids"]],
        "compared": [str(one) for one in comparisons],
        "only_left": [str(name) for name in left.columns if name not in right.columns],
        "only_right": [str(name) for name in right.columns if name not in left.columns],
    }


def _compared_words(summary: dict[str, Any]) -> str:
    words = f"Ids: {' and '.join(dict.fromkeys(summary['ids']))}. "
    words += f"Compared: {', '.join(summary['compared'])}."
    for side in ("left", "right"):
        if names := summary[f"only_{side}"]:
            words += f" Only in the {side} table: {', '.join(names)}."
    if summary["only_left"] and summary["only_right"]:
        words += " To compare two of these, give them the same name."
    return words


def _lowest(table: Any) -> float | None:
    """The lowest probability of a proposed link that was not known."""
    chance = table["probability"][(table["right"] != "") & (table["decision"] != "known")]
    return float(chance.min()) if len(chance) else None


def _if_share(summary: dict[str, Any]) -> str:
    """On which share of records without a partner an expectation rests."""
    share, error = summary["without_partner"], summary["without_partner_error"]
    if share is None:
        return ""
    words = f", if about {common.percent(share)} of all left records have no partner"
    if not summary["learned_here"]:
        words += ", as in the tables that the model has learned from"
        return words if error is None else f"{words} (estimated, ± {common.percent(1.96 * error)})"
    if error is None:
        return f"{words}, as of those that were learned from"
    return (
        f"{words}. This share is estimated (± {common.percent(1.96 * error)}), since no record was "
        f"known to have none. To check it, {LIST_SINGLES}"
    )


def describe(summary: dict[str, Any]) -> str:
    """The summary in plain words, the result first."""
    lines = []
    if not summary["learned_singles"]:
        lines.append(
            f"How many of the links are right cannot be stated: {NO_SINGLES}. To change that, "
            f"{LIST_SINGLES}, and learn again."
        )
    new, known = "new links", f"{summary['known']} were known."
    if not summary["known_given"]:
        new, known = "links", "no links were given as known."
    lines.append(
        f"{summary['link']} {new}, {summary['no_partner']} records without a partner, "
        f"{summary['review']} left to you (probability below {summary['accept']:g}), "
        f"{summary['not_compared']} without a candidate; {known}"
    )
    if summary["expected_precision"] is not None:
        words = f"Of the {new} {common.percent(summary['expected_precision'])} should be right"
        lines.append(f"{words}{_if_share(summary)}.")
    if summary["reviewed"] is not None and (found := Reviewed(**summary["reviewed"]).surprise()):
        lines.append(f"{found}.")
    elif summary["learned_singles"] and summary["no_partner"]:
        learned = "known links" if summary["learned_here"] else "links that the model learned from"
        advice = f": {AT_RANDOM}" if summary["learned_here"] else ""
        lines.append(
            f"If the {learned} were chosen because they were easy to see, many of the "
            f"{summary['no_partner']} records without a partner have one{advice}."
        )
    if summary["missed_compared"] is not None:
        lines.append(_missed_words(summary))
    if summary["proposed_from"] is not None and summary["learned_singles"]:
        lines.append(
            f"For {common.percent(summary['precision'])} expected precision: links from "
            f"{summary['proposed_from']:.2f}; of these, --accept leaves those below "
            f"{summary['accept']:g} to you."
        )
    if summary["refused"]:
        learned = ", and learned from where the partner of the left record is known"
        learned = learned if summary["learned_here"] else ""
        lines.append(
            f"{summary['refused']} pairs are known to be no links: they are not proposed{learned}."
        )
    if summary["passed_over"]:
        advice = f"; {MARK}, or give them in a file of their own with --known"
        words = undecided_words(summary["passed_over"], summary["unmarked"], advice)
        lines.append(f"Of the known links {words}.")
    lines.append(_compared_words(summary))
    compared = (
        f"{summary['candidate_pairs']} pairs of {summary['left_records']} x "
        f"{summary['right_records']} records were compared"
    )
    if summary["blocking_recall"] is not None:
        share = common.percent(summary["blocking_recall"])
        compared += f"; {share} of the known links are among them"
    lines.append(f"{compared}.")
    lines.append(f"What counts most: {', '.join(summary['strongest'])}.")
    return "\n".join([*lines, common.fit_words(summary)])
