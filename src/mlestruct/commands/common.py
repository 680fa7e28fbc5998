"""What the commands have in common: options, summaries, words."""

from __future__ import annotations

import argparse
import codecs
import json
import sys
from collections.abc import Sequence
from typing import Any

from ..models.tuned import TunedModel
from .arguments import COMMANDS, UsageProblem
from .files import STANDARD, index_by_id, read_table


# ---------------------------------------------------------------------- options
def read_alpha(text: str) -> float | str:
    """A penalty, or "auto"."""
    try:
        alpha = text if text == "auto" else float(text)
    except ValueError:
        raise UsageProblem(f"--alpha: expected a number or auto, got {text!r}") from None
    if isinstance(alpha, float) and not 0.0 < alpha < float("inf"):
        raise UsageProblem(f"--alpha: expected a positive number, got {text}")
    return alpha


def read_kinds(parts: Sequence[str]) -> dict[str, str]:
    """Kinds by column, from COLUMN=KIND."""
    for part in parts:
        if "=" not in part:
            raise UsageProblem(f"--kind: expected COLUMN=KIND, got {part!r}")
    return dict(part.partition("=")[::2] for part in parts)


def listed(text: str | None) -> list[str] | None:
    """Names of columns, separated by commas; None if there is no list."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def read_accept(options: argparse.Namespace, default: float = 0.0) -> float:
    """The probability below which answers are left to a person; at 0, none are."""
    accept = default if options.accept is None else float(options.accept)
    if not 0.0 <= accept < 1.0:
        raise UsageProblem(f"--accept: expected a probability below 1, got {accept:g}")
    return accept


def check_output(options: argparse.Namespace, what: str) -> None:
    """Raise where options of output cannot be met."""
    if options.top < 1:
        raise UsageProblem(f"--top: expected at least 1, got {options.top}")
    if options.json and options.out == STANDARD:
        raise UsageProblem(f"--json: name a file for the {what} with -o")


def refuse(options: argparse.Namespace, names: Sequence[str], why: str) -> None:
    """Raise where one of these options is given: it would do nothing."""
    parser = argparse.ArgumentParser()
    next(one for one in COMMANDS if one.name == options.command).add(parser)
    for name in names:
        if vars(options)[name] != parser.get_default(name):
            raise UsageProblem(f"--{name.replace('_', '-')}: {why}")


def shows_progress(options: argparse.Namespace) -> bool:
    """Progress bars are for people: on a terminal only."""
    return not options.quiet and sys.stderr.isatty()


def exit_status(model: Any, options: argparse.Namespace) -> int:
    """0, or 3 where --strict asks for a certificate that the fit does not have."""
    return 3 if options.strict and not model.converged_ else 0


def read_records(
    paths: Sequence[str], options: argparse.Namespace, learned: Sequence[str | None] | None = None
) -> list[Any]:
    """Tables indexed by ids; at most one of them from standard input.

    `learned` has the columns of ids of the tables that a model has learned from.
    """
    check_encoding(options)
    if list(paths).count(STANDARD) > 1:
        raise UsageProblem("only one table can come from standard input")
    return [
        index_by_id(read_table(path, options.encoding), path, *own, before)
        for path, own, before in zip(
            paths, _id_columns(options, len(paths)), learned or [None] * len(paths), strict=True
        )
    ]


def _id_columns(options: argparse.Namespace, n_tables: int) -> list[tuple[str | None, str]]:
    """The column of ids of each table, None if it is to be guessed, and the option to name it."""
    own = {"--left-id": options.left_id, "--right-id": options.right_id}
    given = [option for option, column in own.items() if column is not None]
    if n_tables != 2:
        if given:
            raise UsageProblem(f"{given[0]}: only with two tables; use --id")
        return [(options.id, "--id")] * n_tables
    if len(given) == 2 and options.id is not None:
        raise UsageProblem("--id: does nothing beside --left-id and --right-id")
    return [(options.id if column is None else column, option) for option, column in own.items()]


def check_encoding(options: argparse.Namespace) -> None:
    """Raise where --encoding names none."""
    try:
        codecs.lookup(options.encoding or "utf-8")
    except LookupError:
        raise UsageProblem(f"--encoding: there is no {options.encoding!r}; cp1252?") from None


# ---------------------------------------------------------------------- answers
def fit_summary(model: TunedModel) -> dict[str, Any]:
    """Numbers about a fit, in plain types."""
    found = model.held_out_
    return {
        "alpha": model.alpha_,
        "duality_gap": model.duality_gap_,
        "certified": bool(model.converged_),
        "cross_validated_accuracy": None if found is None else found.score,
        "cross_validated_log_loss": None if found is None else found.log_loss,
        "cross_validated_auc": None if found is None else found.auc,
    }


def fit_words(summary: dict[str, Any]) -> str:
    """The certificate in plain words."""
    proof = "certified" if summary["certified"] else "NOT certified"
    gap, alpha = summary["duality_gap"], summary["alpha"]
    return f"The fit is {proof} (duality gap {gap:.2g}, alpha {alpha:g})."


def label_words(
    summary: dict[str, Any], what: tuple[str, str], learned: str, test: str | None
) -> str:
    """What a model of labels is worth, in plain words; `what` has labels, and what that is in."""
    lines = []
    if summary["test_accuracy"] is not None:
        lines.append(f"{percent(summary['test_accuracy'])} of the {what[0]} in {test} right.")
    if summary["cross_validated_accuracy"] is not None:
        share = percent(summary["cross_validated_accuracy"])
        lines.append(f"{share} of the {what[0]} right in {what[1]} left out of the learning.")
    return "\n".join([*lines, f"Learned {learned}.", fit_words(summary)])


def percent(share: float) -> str:
    """Never rounded up to all."""
    return "over 99.9 %" if 0.999 < share < 1.0 else f"{100 * share:.1f} %"


def answer(
    options: argparse.Namespace, summary: dict[str, Any], words: str, written: Sequence[str | None]
) -> None:
    """The summary for programs on standard output, words for people on standard error."""
    if options.json:
        print(json.dumps(summary))
    if options.quiet:
        return
    print(words, file=sys.stderr)
    files = [path for path in written if path not in (None, STANDARD)]
    if files:
        print(f"Written: {', '.join(map(str, files))}", file=sys.stderr)
