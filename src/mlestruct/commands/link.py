"""`mlestruct link left.csv right.csv`: one-to-one links between two tables, with probabilities."""

from __future__ import annotations

import argparse
import warnings
from typing import Any

from ..linkage import Links, RecordLinker, count_candidates
from ..linkage.linker import LIST_SINGLES, NO_SINGLES, read_links, shared_columns
from ..models import load
from . import common
from .arguments import UsageProblem
from .decisions import decide
from .files import FileProblem, check_files, naming, read_id_pairs, write_table

ACCEPT = 0.9  # links below this probability are for a person to judge, unless options say other


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    _check(options)
    accept = common.read_accept(options, ACCEPT)
    model = options.model if options.known else None
    inputs = [options.left, options.right, options.known, None if model else options.model]
    check_files(inputs, o=options.out, review=options.review, m=model)
    left, right = common.read_records([options.left, options.right], options.id)
    if options.dry_run:
        return _count(options, left, right)
    known = read_known(options.known, left, right)
    with naming(options.left, options.right, options.known):
        linker = _linker(options, left, right, known)
        links = linker.link(left, right, options.precision, known)
    table = decide(links, accept, options.top, known)
    write_table(table, options.out)
    if options.review:
        write_table(_review(links, table, left, right, accept), options.review)
    summary = summarise(linker, links, table)
    common.answer(options, summary, describe(summary, accept), [options.out, options.review, model])
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
        columns = shared_columns(left, right, common.listed(options.columns))
        used = shared_columns(left, right, [*dict.fromkeys([*columns, *block])])
    count = count_candidates(left[used], right[used], block, options.neighbours)
    print(f"{count} candidate pairs of {len(left)} x {len(right)} records")
    return 0


def read_known(path: str | None, left: Any, right: Any) -> Any:
    """The table of known links, checked; None without one."""
    if path is None:
        return None
    known = read_id_pairs(path)
    try:
        read_links(known, left.index, right.index, path, first_row=2)
    except ValueError as error:
        raise FileProblem(str(error)) from None
    return known


def link_files(
    linker: RecordLinker, options: argparse.Namespace, precision: float | None, top: int
) -> tuple[Links, Any, Any, Any, Any]:
    """Links of two files by a model, the table of answers, both tables, and the known links."""
    if len(options.files) != 2:
        raise UsageProblem(f"expected two tables, left and right, got {len(options.files)}")
    accept = common.read_accept(options, ACCEPT)
    left, right = common.read_records(options.files, options.id)
    known = read_known(options.known, left, right)
    with naming(*options.files):
        links = linker.link(left, right, precision, known)
    return links, decide(links, accept, top, known), left, right, known


def _linker(options: argparse.Namespace, left: Any, right: Any, known: Any) -> RecordLinker:
    """The model: learned from known links, or loaded."""
    if known is None:
        linker = load(options.model)
        if not isinstance(linker, RecordLinker):
            raise FileProblem(f"{options.model}: is a {type(linker).__name__}, not a RecordLinker")
        return linker
    linker = RecordLinker(
        columns=common.listed(options.columns), kinds=common.read_kinds(options.kind),
        block=common.listed(options.block) or [], neighbours=options.neighbours,
        alpha=common.read_alpha(options.alpha), random_state=options.seed,
        verbose=int(common.shows_progress(options)),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", f"known: {NO_SINGLES}")  # the summary says it first
        linker.fit(left, right, known)
    if options.model:
        linker.save(options.model)
    return linker


def _review(links: Links, table: Any, left: Any, right: Any, accept: float) -> Any:
    """Doubtful pairs with the cells of both records side by side, for a person to judge."""
    queue = links.review_queue
    open_ = table["left"][table["decision"] != "known"]
    doubtful = (queue["probability"] > 1 - accept) & (queue["probability"] < accept)
    queue = queue[doubtful & queue["left"].isin(open_)]
    out = queue[["left", "right", "probability", "proposed", "margin", "group"]].reset_index(
        drop=True
    )
    for column in left.columns:
        out[f"left {column}"] = left[column].reindex(out["left"]).to_numpy()
        if column in right.columns:
            out[f"right {column}"] = right[column].reindex(out["right"]).to_numpy()
    return out


def summarise(linker: RecordLinker, links: Links, table: Any) -> dict[str, Any]:
    """What happened, in numbers."""
    counts = table["decision"].value_counts()
    accepted = table["probability"][table["decision"] == "link"]
    honest = linker.learned_singles_  # without, probabilities are too high
    total = float(links.pairs["probability"].sum())
    weights = sorted(linker.named_coef().items(), key=lambda item: -abs(item[1]))
    names = ("known", "link", "no partner", "review", "not compared")
    return {
        "left_records": len(links.single_left),
        "right_records": len(links.single_right),
        "candidate_pairs": len(links.pairs),
        **{name.replace(" ", "_"): int(counts.get(name, 0)) for name in names},
        "expected_precision": float(accepted.mean()) if honest and len(accepted) else None,
        "expected_recall": float(accepted.sum()) / total if honest and total > 0 else None,
        "blocking_recall": linker.blocking_recall_,
        "learned_singles": linker.learned_singles_,
        **common.fit_summary(linker),
        "strongest": [name for name, _ in weights if name != "link"][:3],
    }


def describe(summary: dict[str, Any], accept: float) -> str:
    """The summary in plain words, the result first."""
    lines = []
    if not summary["learned_singles"]:
        lines.append(
            f"How many of the links are right cannot be stated: {NO_SINGLES}. To change that, "
            f"{LIST_SINGLES}, and learn again."
        )
    lines.append(
        f"{summary['link']} new links, {summary['no_partner']} records without a partner, "
        f"{summary['review']} left to you (probability below {accept:g}), "
        f"{summary['not_compared']} without a candidate; {summary['known']} were known."
    )
    if summary["expected_precision"] is not None:
        lines.append(
            f"Of the new links {common.percent(summary['expected_precision'])} should be right."
        )
    lines.append(
        f"{summary['candidate_pairs']} pairs of {summary['left_records']} x "
        f"{summary['right_records']} records were compared; "
        f"{common.percent(summary['blocking_recall'])} of the known links are among them."
    )
    lines.append(f"What counts most: {', '.join(summary['strongest'])}.")
    return "\n".join([*lines, common.fit_words(summary)])
