"""`mlestruct tag`: learn labels of words from a file; `mlestruct predict` applies them."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import numpy as np

from ..tagging import SentenceProblem, SequenceTagger, read_sentences
from .common import exit_status, read_alpha, shows_progress
from .files import STANDARD, FileProblem, open_text


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    sentences, labels = _labelled(options.train)
    tagger = SequenceTagger(
        window=options.window, alpha=read_alpha(options.alpha), random_state=options.seed,
        verbose=int(shows_progress(options)),
    )  # fmt: skip
    try:
        tagger.fit(sentences, labels)
    except ValueError as error:
        raise FileProblem(f"{options.train}: {error}") from error
    tagger.save(options.model)
    summary: dict[str, Any] = {
        "sentences": len(sentences),
        "tokens": sum(map(len, sentences)),
        "labels": len(tagger.classes_),
        "alpha": tagger.alpha_,
        "cross_validated_accuracy": _number(tagger.held_out_score_),
        "test_accuracy": None,
        "duality_gap": tagger.duality_gap_,
        "certified": bool(tagger.converged_),
    }
    if options.test:
        summary["test_accuracy"] = accuracy(tagger, options.test)
    if options.json:
        print(json.dumps(summary))
    if not options.quiet:
        print(describe(summary, options), file=sys.stderr)
    return exit_status(tagger, options)


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None


def read_file(path: str) -> list[Any]:
    """Sentences of a file, or of standard input."""
    name = "standard input" if path == STANDARD else path
    try:
        with open_text(path) as lines:
            return read_sentences(lines, name)
    except SentenceProblem as error:
        raise FileProblem(str(error)) from None


def _labelled(path: str) -> tuple[list[Any], list[list[str]]]:
    """Tokens without their last column, and that column."""
    found = read_file(path)
    if len(found[0][0]) < 2:
        raise FileProblem(f"{path}: one column only; expected a word and, in the last, its label")
    tokens = [[token[:-1] for token in sentence] for sentence in found]
    return tokens, [[token[-1] for token in sentence] for sentence in found]


def accuracy(tagger: SequenceTagger, path: str) -> float:
    """The share of words whose label is right."""
    sentences, labels = _labelled(path)
    if len(sentences[0][0]) != tagger.n_columns_:
        raise FileProblem(
            f"{path}: {len(sentences[0][0]) + 1} columns, but the training file has "
            f"{tagger.n_columns_ + 1}"
        )
    found = tagger.predict(sentences)
    return float(np.mean(np.concatenate(found) == np.concatenate(labels)))


def describe(summary: dict[str, Any], options: argparse.Namespace) -> str:
    """The summary in plain words, the result first."""
    lines = []
    if summary["test_accuracy"] is not None:
        lines.append(
            f"{100 * summary['test_accuracy']:.1f} % of the words in {options.test} right."
        )
    if summary["cross_validated_accuracy"] is not None:
        share = 100 * summary["cross_validated_accuracy"]
        lines.append(f"{share:.1f} % of the words right in sentences left out of the training.")
    lines.append(
        f"Learned {summary['labels']} labels from {summary['sentences']} sentences, "
        f"{summary['tokens']} words."
    )
    proof = "certified" if summary["certified"] else "NOT certified"
    gap, alpha = summary["duality_gap"], summary["alpha"]
    lines.append(f"The fit is {proof} (duality gap {gap:.2g}, alpha {alpha:g}).")
    lines.append(f"Written: {options.model}")
    return "\n".join(lines)


def read_unlabelled(tagger: SequenceTagger, path: str) -> list[Any]:
    """Sentences as the model takes them; a last column of labels is left out."""
    sentences = read_file(path)
    width = len(sentences[0][0])
    if width == tagger.n_columns_ + 1:
        return [[token[:-1] for token in sentence] for sentence in sentences]
    if width != tagger.n_columns_:
        raise FileProblem(f"{path}: {width} columns, but the model has {tagger.n_columns_}")
    return sentences


def tag_file(tagger: SequenceTagger, path: str, top: int) -> str:
    """The lines of a file with the most probable label of each word and its probability.

    With `top` above 1 the most probable labels follow, each with its probability.
    """
    sentences = read_unlabelled(tagger, path)
    lines = []
    for sentence, best, table in zip(
        sentences, tagger.predict(sentences), tagger.predict_marginals(sentences), strict=True
    ):
        place = {label: k for k, label in enumerate(tagger.classes_)}
        for token, label, row in zip(sentence, best, table, strict=True):
            cells = [*token, str(label), f"{row[place[label]]:.4f}"]
            if top > 1:
                for k in np.argsort(-row, kind="stable")[:top]:
                    cells += [str(tagger.classes_[k]), f"{row[k]:.4f}"]
            lines.append("\t".join(cells))
        lines.append("")
    return "\n".join(lines) + "\n"
