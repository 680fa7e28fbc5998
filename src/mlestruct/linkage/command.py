"""`mlestruct link left.csv right.csv`: from two files to one-to-one links with probabilities."""

from __future__ import annotations

import argparse
import codecs
import json
import sys
from collections.abc import Sequence
from typing import Any

from ..exceptions import FileProblem, UsageProblem
from ..models import load
from .answers import decide, review_pairs
from .arguments import add_arguments
from .blocking import candidate_pairs
from .comparisons import guess_comparisons, same_dates
from .known import KnownRows, known_links, known_rows, known_table
from .linker import RecordLinker
from .links import Links
from .page import links_page
from .prepared import compared_columns, shared_columns
from .progress import Stages, stages
from .summary import compared, compared_words, describe, summarise
from .tables import (
    STANDARD,
    check_files,
    index_by_id,
    naming,
    read_id_pairs,
    read_table,
    write_output,
    write_table,
)


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    check_options(options)
    with stages(_is_watched(options)) as record:
        return _run(options, record)


def _is_watched(options: argparse.Namespace) -> bool:
    """Whether progress is shown: it is for people."""
    return not options.quiet and sys.stderr.isatty()


def _run(options: argparse.Namespace, record: Stages) -> int:
    saved = options.model if options.known else None
    inputs = [options.left, options.right, *(options.known or ()), None if saved else options.model]
    outputs = {"o": options.out, "review": options.review, "report": options.report, "m": saved}
    check_files(inputs, **outputs)
    is_new = options.known or options.dry_run or options.model is None
    linker = None if is_new else _loaded(options.model)
    record.begin("reading tables")
    left, right = read_records(options, linker)
    if options.dry_run:
        return _count(options, left, right)
    known = read_known_files(options, left, right)
    table = None if known is None else known_table(known.rows)
    with naming(options.left, options.right, *(options.known or ())):
        if linker is None:
            linker, links = _learned(options, left, right, table)
        else:
            links = linker.link(left, right, options.precision, table)
    record.begin("deciding")
    given = None if table is None else table["left"][table["checked"] == "yes"]
    decisions = decide(links, options.accept, options.top, given)
    summary = {
        **summarise(linker, links, decisions, known),
        **compared((one.for_tables(left, right) for one in linker.comparisons_), left, right),
        "accept": options.accept,
        "precision": options.precision,
        "proposed_from": None if options.precision is None else _lowest(decisions),
    }
    record.begin("writing")
    write_table(decisions, options.out)
    if options.review:
        pairs = review_pairs(links, decisions, left, right, options.accept)
        write_table(pairs, options.review)
    if options.report:
        doubted = None if table is None else _as_the_model_sees(linker, left, right, table)
        page = links_page(
            linker, links, left, right, describe(summary), doubted, not options.no_records
        )
        write_output(page.encode(), options.report)
    record.begin("")
    if options.json:
        print(json.dumps({**summary, "cpu_seconds": record.seconds}))
    if not options.quiet:
        print(describe(summary), file=sys.stderr)
        if written := [path for path in outputs.values() if path not in (None, STANDARD)]:
            print(f"Written: {', '.join(written)}", file=sys.stderr)
    return 3 if options.strict and not linker.converged_ else 0


# ---------------------------------------------------------------------- options
def check_options(options: argparse.Namespace) -> None:
    """Raise UsageProblem if an option has a wrong value, or would do nothing."""
    if options.top < 1:
        raise UsageProblem(f"--top: expected at least 1, got {options.top}")
    if not 0.0 <= options.accept < 1.0:
        raise UsageProblem(f"--accept: expected a probability below 1, got {options.accept:g}")
    if options.precision is not None and not 0.0 < options.precision <= 1.0:
        raise UsageProblem(f"--precision: expected a number in (0, 1], got {options.precision}")
    if options.json and options.out == STANDARD:
        raise UsageProblem("--json: name a file for the links with -o")
    if [options.out, options.review, options.report].count(STANDARD) > 1:
        raise UsageProblem("-o, --review, --report: only one of them can be standard output")
    if options.no_records and not options.report:
        raise UsageProblem("--no-records: only with --report")
    if options.known is None and options.model is not None:
        defaults = argparse.ArgumentParser()
        add_arguments(defaults)
        for name in ("columns", "kind", "block", "neighbours", "alpha"):
            if vars(options)[name] != defaults.get_default(name):
                raise UsageProblem(f"--{name}: not with -m alone; a model has its own")
    check_comparison_options(options)


def check_comparison_options(options: argparse.Namespace) -> None:
    """Raise UsageProblem if an option of `add_comparison_arguments` has a wrong value."""
    if options.neighbours < 1:
        raise UsageProblem(f"--neighbours: expected at least 1, got {options.neighbours}")
    _alpha(vars(options).get("alpha", "auto"))
    _kinds(options.kind)
    try:
        codecs.lookup(options.encoding or "utf-8")
    except LookupError:
        raise UsageProblem(f"--encoding: there is no {options.encoding!r}; cp1252?") from None


def _alpha(text: str) -> float | str:
    """A penalty, or "auto"."""
    try:
        alpha = text if text == "auto" else float(text)
    except ValueError:
        raise UsageProblem(f"--alpha: expected a number or auto, got {text!r}") from None
    if isinstance(alpha, float) and not 0.0 < alpha < float("inf"):
        raise UsageProblem(f"--alpha: expected a positive number, got {text}")
    return alpha


def _kinds(parts: Sequence[str]) -> dict[str, str]:
    """Kinds by column, from COLUMN=KIND."""
    for part in parts:
        if "=" not in part:
            raise UsageProblem(f"--kind: expected COLUMN=KIND, got {part!r}")
    return dict(part.partition("=")[::2] for part in parts)


def _listed(text: str | None) -> list[str] | None:
    """Names of columns, separated by commas; None if there is no list."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def _rules(text: str | None) -> list[list[str]]:
    """Blocking rules: columns joined by +, separated by commas."""
    return [[part.strip() for part in rule.split("+")] for rule in _listed(text) or []]


# ---------------------------------------------------------------------- reading
def read_records(options: argparse.Namespace, linker: RecordLinker | None = None) -> list[Any]:
    """Both tables, indexed by ids; a model remembers the names of their columns of ids."""
    paths = [options.left, options.right]
    own = {"--left-id": options.left_id, "--right-id": options.right_id}
    if paths.count(STANDARD) > 1:
        raise UsageProblem("only one table can come from standard input")
    if None not in own.values() and options.id is not None:
        raise UsageProblem("--id: does nothing beside --left-id and --right-id")
    learned = [None, None] if linker is None else [name for name, _ in linker.ids_]
    return [
        index_by_id(read_table(path, options.encoding), path, column or options.id, option, before)
        for path, (option, column), before in zip(paths, own.items(), learned, strict=True)
    ]


def read_known_files(options: argparse.Namespace, left: Any, right: Any) -> KnownRows | None:
    """The known links of the files of --known, checked; None without any."""
    if not options.known:
        return None
    with naming():
        found = read_rows(options.known, options.encoding)
        known_links(found.rows, left.index, right.index)
    return found


def read_rows(paths: Sequence[str], encoding: str | None) -> KnownRows:
    """The rows of files of known links."""
    found = KnownRows([])
    for path in paths:
        found += known_rows(read_id_pairs(path, encoding), path, first_row=2)
    return found


def _loaded(path: str) -> RecordLinker:
    linker = load(path)
    if not isinstance(linker, RecordLinker):
        raise FileProblem(f"{path}: is a {type(linker).__name__}, not a RecordLinker")
    return linker


# ---------------------------------------------------------------------- work
def _count(options: argparse.Namespace, left: Any, right: Any) -> int:
    """Print how many pairs would be compared."""
    block = _rules(options.block)
    with naming(options.left, options.right):
        columns = compared_columns(left, right, _listed(options.columns))
        named = [column for rule in block for column in rule]
        used = shared_columns(left, right, [*dict.fromkeys([*columns, *named])])
        comparisons = guess_comparisons(left, right, columns, _kinds(options.kind))
    dated = same_dates(comparisons, right)
    kinds = {one.column: one.kind for one in comparisons}
    with naming(options.left, options.right):
        rows, _ = candidate_pairs(left[used], dated[used], block, options.neighbours, kinds)
    print(f"{rows.size} candidate pairs of {len(left)} x {len(right)} records")
    print(compared_words(compared(comparisons, left, right)))
    return 0


def _learned(
    options: argparse.Namespace, left: Any, right: Any, known: Any
) -> tuple[RecordLinker, Links]:
    """A model of the tables and known links, saved if -m says so, and its links."""
    linker = new_linker(options)
    try:
        return linker, linker.fit_link(left, right, known, options.precision)
    finally:
        if options.model and hasattr(linker, "coef_"):
            linker.save(options.model)


def new_linker(options: argparse.Namespace) -> RecordLinker:
    """A linker with the options of `add_comparison_arguments`."""
    return RecordLinker(
        alpha=_alpha(options.alpha),
        verbose=int(_is_watched(options)),
        **model_options(options),
    )


def model_options(options: argparse.Namespace) -> dict[str, Any]:
    """Parameters that `RecordLinker` and `Deduplicator` share."""
    return {
        "columns": _listed(options.columns),
        "kinds": _kinds(options.kind),
        "block": _rules(options.block),
        "neighbours": options.neighbours,
        "random_state": options.seed,
    }


def _as_the_model_sees(linker: RecordLinker, left: Any, right: Any, known: Any) -> Any:
    """Known links with the probabilities that they would have if they were not given.

    A link that is not a candidate has none.
    """
    named = known[(known["checked"] == "yes") & (known["left"] != "") & (known["right"] != "")]
    alone = linker.link(left, right).pairs[["left", "right", "probability"]]
    return named[["left", "right"]].merge(alone, how="left")


def _lowest(decisions: Any) -> float | None:
    """The lowest probability of a proposed link that was not known."""
    new = (decisions["right"] != "") & (decisions["decision"] != "known")
    return float(decisions["probability"][new].min()) if new.any() else None
