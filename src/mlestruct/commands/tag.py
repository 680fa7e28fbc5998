"""`mlestruct tag`: learn labels of words from a file; `mlestruct predict` applies them."""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
from sklearn.metrics import precision_recall_fscore_support

from ..tagging import SequenceTagger, read_json_lines, read_sentences, split_labels
from . import common
from .files import STANDARD, FileProblem, check_files, naming, open_text

JSON_LINES = (".jsonl", ".ndjson")
MOST_LABELS = 20  # that a summary in words lists
NOT_JUDGED = dict.fromkeys(["test_accuracy", "test_labels", "test_labels_not_in_training"])


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    check_files([options.train, options.test], m=options.model)
    sentences, labels = _labelled(options.train)
    tagger = SequenceTagger(
        window=options.window, alpha=common.read_alpha(options.alpha), random_state=options.seed,
        forbidden_transitions="BIO" if options.bio else None,
        verbose=int(common.shows_progress(options)),
    )  # fmt: skip
    with naming(options.train):
        tagger.fit(sentences, labels)
    tagger.save(options.model)
    summary: dict[str, Any] = {
        "sentences": len(sentences),
        "tokens": sum(map(len, sentences)),
        "unlabelled": _n_unlabelled(sentences, labels),
        "labels": len(tagger.classes_),
        "classes": tagger.classes_.tolist(),
        **(_judged(tagger, options.test) if options.test else NOT_JUDGED),
        **common.fit_summary(tagger),
    }
    learned = _learned(summary)
    words = common.label_words(summary, ("words", "sentences"), learned, options.test)
    if options.test:
        words = "\n".join([words, *_by_label(summary, options)])
    common.answer(options, summary, words, [options.model])
    return common.exit_status(tagger, options)


def _n_unlabelled(sentences: list[Any], labels: list[Any]) -> int:
    """Tokens whose label is not known."""
    pairs = zip(sentences, labels, strict=True)
    return sum(len(x) if y is None else y.count(None) for x, y in pairs)


def _learned(summary: dict[str, Any]) -> str:
    """What was learned from, in words."""
    names = summary["classes"]
    shown = ", ".join(names[:MOST_LABELS]) + ", ..." * (len(names) > MOST_LABELS)
    size = "{sentences} sentences, {tokens} words".format(**summary)
    left = summary["unlabelled"]
    return f"{len(names)} labels ({shown}) from {size}" + f", {left} without a label" * (left > 0)


def read_file(path: str) -> list[Any]:
    """Sentences in columns, of a file or of standard input."""
    with open_text(path) as lines:
        return read_sentences(lines, "standard input" if path == STANDARD else path)


def _features(path: str) -> tuple[list[Any], list[Any]]:
    """Sentences of features and their labels, where there are some."""
    with open_text(path) as lines:
        return read_json_lines(lines, path)


def _labelled(path: str) -> tuple[list[Any], list[Any]]:
    """Tokens without their last column, and that column; of JSON lines x and y."""
    if path.endswith(JSON_LINES):
        tokens, labels = _features(path)
        if all(own is None for own in labels):
            raise FileProblem(f'{path}: no sentence has labels "y"')
        return tokens, labels
    found = read_file(path)
    if len(found[0][0]) < 2:
        raise FileProblem(
            f"{path}: one column only; expected one word per line and, in the last column, its "
            "label"
        )
    return split_labels(found)


def _judged(tagger: SequenceTagger, path: str) -> dict[str, Any]:
    """Answers against the words of a file that have a label: all together, and by label."""
    sentences, labels = _labelled(path)
    _check_tokens(tagger, sentences, path)
    with naming(path):
        answers = tagger.predict(sentences)
    pairs = [
        (label, answer)
        for own, best in zip(labels, answers, strict=True)
        if own is not None
        for label, answer in zip(own, best.tolist(), strict=True)
        if label is not None
    ]
    if not pairs:
        raise FileProblem(f"{path}: no label is known, there is nothing to judge by")
    truth, found = zip(*pairs, strict=True)
    names = sorted({*truth, *found})
    # NaN, None in the summary: the precision of labels that no answer has, and the like.
    table = precision_recall_fscore_support(truth, found, labels=names, zero_division=np.nan)
    columns = [[None if np.isnan(v) else v for v in column.tolist()] for column in table]
    keys = ("precision", "recall", "f1", "words")
    rows = [dict(zip(keys, row, strict=True)) for row in zip(*columns, strict=True)]
    return {
        "test_accuracy": float(np.mean([label == answer for label, answer in pairs])),
        "test_labels": dict(zip(names, rows, strict=True)),
        "test_labels_not_in_training": sorted({*truth} - {*tagger.classes_.tolist()}),
    }


def _by_label(summary: dict[str, Any], options: argparse.Namespace) -> list[str]:
    """A table of the judged labels, and those that cannot be right."""
    found = summary["test_labels"]
    width = max(map(len, ["label", *found]))
    lines = [f"{'label':{width}}  precision  recall     F1   words"]
    for name, row in found.items():
        shares = [row[key] for key in ("precision", "recall", "f1")]
        a, b, c = ("-" if share is None else f"{share:.3f}" for share in shares)
        lines.append(f"{name:{width}}  {a:>9}  {b:>6}  {c:>5}  {row['words']:>6}")
    if new := summary["test_labels_not_in_training"]:
        lines.append(f"Labels in {options.test} that {options.train} has not: {', '.join(new)}.")
    return lines


def _check_tokens(tagger: SequenceTagger, sentences: list[Any], path: str) -> None:
    """Raise unless tokens are like those that were learned from."""
    first = next((token for sentence in sentences for token in sentence), None)
    if first is None:
        return
    found = 0 if isinstance(first, dict) else len(first)
    if found != tagger.n_columns_:
        raise FileProblem(
            f"{path}: {_tokens(found)}, but the model has {_tokens(tagger.n_columns_)}"
        )


def _tokens(columns: int) -> str:
    return f"{columns} column{'s'[: columns - 1]}" if columns else "features (JSON lines)"


def read_unlabelled(tagger: SequenceTagger, path: str) -> list[Any]:
    """Sentences as the model takes them; a last column of labels is left out."""
    if path.endswith(JSON_LINES):
        sentences = _features(path)[0]
    else:
        sentences = read_file(path)
        if tagger.n_columns_ and len(sentences[0][0]) == tagger.n_columns_ + 1:
            return [[token[:-1] for token in sentence] for sentence in sentences]
    _check_tokens(tagger, sentences, path)
    return sentences


def tag_file(tagger: SequenceTagger, path: str, top: int) -> str:
    """The lines of a file with the most probable label of each word and its probability.

    With `top` above 1 the most probable labels follow, each with its probability. JSON lines
    become JSON lines with the keys y, probability and, with `top` above 1, alternatives.
    """
    sentences = read_unlabelled(tagger, path)
    found = zip(tagger.predict(sentences), tagger.predict_marginals(sentences), strict=True)
    lines = []
    for sentence, (best, table) in zip(sentences, found, strict=True):
        place = {label: k for k, label in enumerate(tagger.classes_)}
        chances = [row[place[label]] for label, row in zip(best, table, strict=True)]
        others = [_most_probable(tagger.classes_, row, top) for row in table] if top > 1 else None
        if tagger.n_columns_ == 0:
            line = {
                "y": [str(label) for label in best],
                "probability": np.round(chances, 6).tolist(),
            }
            lines.append(json.dumps(line if others is None else {**line, "alternatives": others}))
            continue
        for k, (token, label) in enumerate(zip(sentence, best, strict=True)):
            cells = [*token, str(label), f"{chances[k]:.4f}"]
            for name, chance in others[k] if others else ():
                cells += [name, f"{chance:.4f}"]
            lines.append("\t".join(cells))
        lines.append("")
    return "\n".join(lines) + "\n"


def _most_probable(classes: Any, row: Any, top: int) -> list[tuple[str, float]]:
    order = np.argsort(-row, kind="stable")[:top]
    return [(str(classes[k]), round(float(row[k]), 6)) for k in order]
