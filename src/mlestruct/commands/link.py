"""`mlestruct link left.csv right.csv`: one-to-one links between two tables, with probabilities."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import numpy as np

from ..linkage import RecordLinker, count_candidates
from ..linkage.linker import shared_columns
from ..models import load
from .common import exit_status, read_alpha, shows_progress
from .files import (
    FileProblem,
    UsageProblem,
    index_by_id,
    pandas_module,
    read_table,
    write_table,
)


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    _check(options)
    left, right = (_table(path, options.id) for path in (options.left, options.right))
    if options.dry_run:
        return _count(options, left, right)
    linker = _linker(options, left, right)
    links = linker.link(left, right, options.precision)
    answer = answers(links, options.accept)
    write_table(answer, options.out)
    if options.review:
        queue = links.review_queue
        doubtful = (queue["probability"] > 1 - options.accept) & (
            queue["probability"] < options.accept
        )
        write_table(_with_records(queue[doubtful], left, right), options.review)
    summary = summarise(linker, links, answer)
    if options.json:
        print(json.dumps(summary))
    if not options.quiet:
        print(describe(summary, options.accept), file=sys.stderr)
        written = [path for path in (options.out, options.review) if path not in (None, "-")]
        written += [options.model] if options.known and options.model else []
        if written:
            print(f"Written: {', '.join(written)}", file=sys.stderr)
    return exit_status(linker, options)


def _check(options: argparse.Namespace) -> None:
    if options.known is None and options.model is None and not options.dry_run:
        raise UsageProblem("--known or -m: give known links to learn from, or a model that has")
    if not 0.0 < options.accept < 1.0:
        raise UsageProblem(f"--accept: expected a probability, got {options.accept}")
    if options.known is None and not options.dry_run:
        own = {"--columns": options.columns, "--kind": options.kind, "--block": options.block}
        for name in (name for name, value in own.items() if value):
            raise UsageProblem(f"{name}: only with --known; a model has its own")
    if options.precision is not None and not 0.0 < options.precision <= 1.0:
        raise UsageProblem(f"--precision: expected a number in (0, 1], got {options.precision}")
    if options.json and options.out == "-":
        raise UsageProblem("--json: name a file for the links with -o")
    if "-" in (options.left, options.right) and options.left == options.right:
        raise UsageProblem("only one table can come from standard input")


def _table(path: str, column: str | None) -> Any:
    return index_by_id(read_table(path), path, column)


def _listed(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def _count(options: argparse.Namespace, left: Any, right: Any) -> int:
    columns = shared_columns(left, right, _listed(options.columns))
    block = _listed(options.block) or []
    used = [*columns, *(name for name in block if name not in columns)]
    count = count_candidates(left[used], right[used], block, options.neighbours)
    print(f"{count} candidate pairs of {len(left)} x {len(right)} records")
    return 0


def _linker(options: argparse.Namespace, left: Any, right: Any) -> RecordLinker:
    """The model: learned from known links, or loaded."""
    if options.known is None:
        linker = load(options.model)
        if not isinstance(linker, RecordLinker):
            raise FileProblem(f"{options.model}: is a {type(linker).__name__}, not a RecordLinker")
        return linker
    kinds = dict(part.partition("=")[::2] for part in options.kind)
    alpha = read_alpha(options.alpha)
    known = read_table(options.known).apply(lambda column: column.str.strip())
    linker = RecordLinker(
        columns=_listed(options.columns), kinds=kinds, block=_listed(options.block) or [],
        neighbours=options.neighbours, alpha=alpha, random_state=options.seed,
        verbose=int(shows_progress(options)),
    )  # fmt: skip
    try:
        linker.fit(left, right, known)
    except ValueError as error:
        raise FileProblem(str(error).replace("known,", f"{options.known},")) from error
    if options.model:
        linker.save(options.model)
    return linker


def answers(links: Any, accept: float) -> Any:
    """One row for every left record: its partner or none, how probable that is, what to do."""
    pandas = pandas_module()
    single = links.single_left
    best = links.proposed.drop_duplicates("left").set_index("left").reindex(single.index)
    linked = best["right"].notna().to_numpy()
    chance = np.where(linked, best["probability"], single).astype(float)
    decision = np.where(chance < accept, "review", np.where(linked, "link", "no partner"))
    compared = single.index.isin(links.pairs["left"])
    decision = np.where(compared, decision, "not compared")  # nothing shares a rare word with it
    return pandas.DataFrame(
        {
            "left": single.index,
            "right": best["right"].where(linked, "").to_numpy(),
            "probability": chance,
            "decision": decision,
            "margin": best["margin"].to_numpy(),
            "probability_no_partner": single.to_numpy(),
        }
    )


def _with_records(pairs: Any, left: Any, right: Any) -> Any:
    """Pairs with the cells of both records side by side, for a person to judge."""
    out = pairs[["left", "right", "probability", "proposed", "margin", "group"]].reset_index(
        drop=True
    )
    for column in left.columns:
        out[f"left {column}"] = left[column].reindex(out["left"]).to_numpy()
        if column in right.columns:
            out[f"right {column}"] = right[column].reindex(out["right"]).to_numpy()
    return out


def summarise(linker: RecordLinker, links: Any, answer: Any) -> dict[str, Any]:
    """What happened, in numbers."""
    accepted = answer[answer["decision"] == "link"]
    total = float(links.pairs["probability"].sum())
    weights = sorted(linker.named_coef().items(), key=lambda item: -abs(item[1]))
    return {
        "left_records": len(links.single_left),
        "right_records": len(links.single_right),
        "candidate_pairs": len(links.pairs),
        "links": len(accepted),
        "no_partner": int((answer["decision"] == "no partner").sum()),
        "review": int((answer["decision"] == "review").sum()),
        "not_compared": int((answer["decision"] == "not compared").sum()),
        "expected_precision": float(accepted["probability"].mean()) if len(accepted) else None,
        "expected_recall": float(accepted["probability"].sum()) / total if total > 0 else None,
        "blocking_recall": linker.blocking_recall_,
        "alpha": linker.alpha_,
        "duality_gap": linker.duality_gap_,
        "certified": bool(linker.converged_),
        "strongest": [name for name, _ in weights[:3]],
    }


def _percent(share: float) -> str:
    """Never rounded up to all."""
    return "over 99.9 %" if 0.999 < share < 1.0 else f"{100 * share:.1f} %"


def describe(summary: dict[str, Any], accept: float) -> str:
    """The summary in plain words, the result first."""
    lines = [
        f"{summary['links']} links, {summary['no_partner']} records without a partner, "
        f"{summary['review']} left to you (probability below {accept:g}), "
        f"{summary['not_compared']} without a candidate."
    ]
    if summary["links"]:
        lines.append(
            f"Of the links {_percent(summary['expected_precision'])} should be right; they are "
            f"{_percent(summary['expected_recall'])} of all that the model expects."
        )
    lines.append(
        f"{summary['candidate_pairs']} pairs of {summary['left_records']} x "
        f"{summary['right_records']} records were compared; "
        f"{_percent(summary['blocking_recall'])} of the known links are among them."
    )
    lines.append(f"What counts most: {', '.join(summary['strongest'])}.")
    proof = "certified" if summary["certified"] else "NOT certified"
    gap, alpha = summary["duality_gap"], summary["alpha"]
    lines.append(f"The fit is {proof} (duality gap {gap:.2g}, alpha {alpha:g}).")
    return "\n".join(lines)
