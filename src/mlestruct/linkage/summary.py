"""What a linkage found: in numbers for programs, in words for people."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from .comparisons import Comparison
from .known import AT_RANDOM, MARK, KnownRows, Reviewed, undecided_words
from .linker import RecordLinker
from .links import Links


def summarise(
    linker: RecordLinker, links: Links, decisions: Any, known: KnownRows | None
) -> dict[str, Any]:
    """Numbers about a linkage, in plain types.

    decisions : table of `decide`
    known : the known links that the model was fitted to; None if it was loaded
    """
    counts = decisions["decision"].value_counts()
    names = ("known", "link", "no partner", "review", "not compared")
    weights = sorted(linker.named_coef().items(), key=lambda item: -abs(item[1]))
    rows = KnownRows([]) if known is None else known
    reviewed, held_out = rows.reviewed(), linker.held_out_
    return {
        "left_records": len(links.single_left),
        "right_records": len(links.single_right),
        "candidate_pairs": len(links.pairs),
        **{name.replace(" ", "_"): int(counts.get(name, 0)) for name in names},
        "known_given": known is not None,
        "refused": sum(not row.is_link for row in rows.rows),
        "passed_over": rows.passed_over,
        "unmarked": rows.unmarked,
        "reviewed": None if reviewed is None else asdict(reviewed),
        **_expected(links, decisions),
        "blocking_recall": links.blocking_recall,
        "blocking_recall_error": links.blocking_recall_error,
        "known_links": sum(row.is_link and "" not in (row.left, row.right) for row in rows.rows),
        "learned_from_links": linker.alpha_ is not None,
        "without_partner": linker.single_share_,
        "alpha": linker.alpha_,
        "relative_gap": linker.duality_gap_ / max(1.0, abs(linker.objective_)),
        "certified": bool(linker.converged_),
        "cross_validated_accuracy": None if held_out is None else held_out.score,
        "cross_validated_log_loss": None if held_out is None else held_out.log_loss,
        "cross_validated_auc": None if held_out is None else held_out.auc,
        "strongest": [name for name, _ in weights if name != "link"][:3],
    }


def _expected(links: Links, decisions: Any) -> dict[str, float | None]:
    """Expectations under the model about links that are not known.

    expected_precision, expected_recall : of the new links, among the candidate pairs
    in_review : links of the records that are left to a person
    missed_compared : links among the candidates of other records that are not new links
    missed_not_compared : links that are not candidates, by the recall of candidates
    """
    decision = decisions["decision"].to_numpy()[links.rows]
    chance = links.pairs["probability"].to_numpy()
    total, review = chance[decision != "known"].sum(), chance[decision == "review"].sum()
    accepted = decisions["probability"][decisions["decision"] == "link"]
    recall = links.blocking_recall
    found = {
        "expected_precision": accepted.mean() if len(accepted) else None,
        "expected_recall": accepted.sum() / total if total > 0 else None,
        "in_review": review,
        "missed_compared": max(total - review - accepted.sum(), 0.0),
        "missed_not_compared": total * (1.0 - recall) / recall if recall else None,
    }
    return {name: None if value is None else float(value) for name, value in found.items()}


def compared(comparisons: Iterable[Comparison], left: Any, right: Any) -> dict[str, list[str]]:
    """The columns of ids, the compared ones with their kinds, and those of only one table."""
    return {
        "ids": [left.attrs["ids"], right.attrs["ids"]],
        "compared": [str(one) for one in comparisons],
        "only_left": [str(name) for name in left.columns if name not in right.columns],
        "only_right": [str(name) for name in right.columns if name not in left.columns],
    }


# ---------------------------------------------------------------------- words
def describe(summary: dict[str, Any]) -> str:
    """The summary in words, the result first."""
    lines = [_recall_words(summary)]
    new, known = "new links", f"{summary['known']} were known."
    if not summary["known_given"]:
        new, known = "links", "no links were given as known."
    lines.append(
        f"{summary['link']} {new}, {summary['no_partner']} records without a partner, "
        f"{summary['review']} left to you (probability below {summary['accept']:g}), "
        f"{summary['not_compared']} without a candidate; {known}"
    )
    if summary["expected_precision"] is not None:
        words = f"Of the {new} {percent(summary['expected_precision'])} should be right"
        lines.append(f"{words}{_if_share(summary)}.")
    if summary["reviewed"] is not None and (found := Reviewed(**summary["reviewed"]).surprise()):
        lines.append(f"{found}.")
    elif summary["known_given"] and summary["no_partner"]:
        learned = "known links" if summary["known_given"] else "links that the model learned from"
        advice = f": {AT_RANDOM}" if summary["known_given"] else ""
        lines.append(
            f"If the {learned} were chosen because they were easy to see, many of the "
            f"{summary['no_partner']} records without a partner have one{advice}."
        )
    if summary["missed_compared"] is not None:
        lines.append(_missed_words(summary))
    if summary["proposed_from"] is not None:
        lines.append(
            f"For {percent(summary['precision'])} expected precision: links from "
            f"{summary['proposed_from']:.2f}; of these, --accept leaves those below "
            f"{summary['accept']:g} to you."
        )
    if summary["refused"]:
        lines.append(
            f"{summary['refused']} pairs are known to be no links: they are not proposed, and "
            "learned from if the partner of the left record is known."
        )
    if summary["passed_over"]:
        advice = f"; {MARK}, or give them in a file of their own with --known"
        words = undecided_words(summary["passed_over"], summary["unmarked"], advice)
        lines.append(f"Of the known links {words}.")
    lines.append(compared_words(summary))
    proof = "certified" if summary["certified"] else "NOT proven"
    gap, alpha = summary["relative_gap"], summary["alpha"]
    learned = "the tables" if alpha is None else f"the tables and known links (alpha {alpha:g})"
    return "\n".join(
        [
            *lines,
            f"What counts most: {', '.join(summary['strongest'])}.",
            f"The weights were learned from {learned}. They are {proof} to be those of largest "
            f"likelihood for the compared pairs (relative gap {gap:.1g}). This says nothing about "
            "other pairs, and nothing about whether a link is right.",
        ]
    )


def compared_words(summary: dict[str, Any]) -> str:
    """Columns that are compared, and columns that are not."""
    words = f"Ids: {' and '.join(dict.fromkeys(summary['ids']))}. "
    words += f"Compared: {', '.join(summary['compared'])}."
    for side in ("left", "right"):
        if names := summary[f"only_{side}"]:
            words += f" Only in the {side} table: {', '.join(names)}."
    if summary["only_left"] and summary["only_right"]:
        words += " To compare two of these, give them the same name."
    return words


def _recall_words(summary: dict[str, Any]) -> str:
    """How many pairs were compared, and which share of all links is among them."""
    pairs = (
        f"{summary['candidate_pairs']} pairs of {summary['left_records']} x "
        f"{summary['right_records']} records were compared; "
    )
    share, error = summary["blocking_recall"], summary["blocking_recall_error"]
    if share is None:
        return f"{pairs}the share of the links that are among them is not known."
    if summary["known_links"]:
        return f"{pairs}{percent(share)} of the known links are among them."
    return (
        f"{pairs}about {percent(share)} of the links are among them (standard error "
        f"{100 * error:.1f} %), as a comparison of some records with all others shows."
    )


def _missed_words(summary: dict[str, Any]) -> str:
    words = f"Links probably missed: {summary['missed_compared']:.0f} among the compared pairs"
    if summary["missed_not_compared"] is not None:
        words += f", and {summary['missed_not_compared']:.0f} that were not compared"
    return f"{words}. {summary['in_review']:.0f} more should be among those left to you."


def _if_share(summary: dict[str, Any]) -> str:
    """The share of records without a partner on which an expectation rests."""
    share = percent(summary["without_partner"])
    return f", if about {share} of all left records have no partner, as of those learned from"


def percent(share: float) -> str:
    """Never rounded up to 100 %."""
    return "over 99.9 %" if 0.999 < share < 1.0 else f"{100 * share:.1f} %"
