"""Sentences in files: a line per token, an empty line between sentences (CoNLL); JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ..exceptions import FileProblem

Token = tuple[str, ...]


def read_sentences(lines: Iterable[str], name: str) -> list[list[Token]]:
    """Sentences of tokens, each a tuple of as many columns as the first one has.

    Columns are separated by tabs or, where there is none, by spaces. -DOCSTART- lines are passed
    over, and so are comments: lines that begin with "# ", before a sentence or with other columns.
    `split_labels` takes the last column for labels; an empty cell is a label that is not known.
    """
    sentences: list[list[Token]] = [[]]
    width, tabs = 0, False
    for number, line in enumerate(lines, start=1):
        text = line.rstrip("\r\n").lstrip("\ufeff")
        if not text.strip():
            sentences.append([])
            continue
        token = tuple(cell.strip() for cell in text.split("\t" if "\t" in text else None))
        like_before = sentences[-1] and (len(token), "\t" in text) == (width, tabs)
        if text.startswith("-DOCSTART-") or (text.startswith("# ") and not like_before):
            continue
        width, tabs = width or len(token), "\t" in text
        if len(token) != width:
            raise FileProblem(
                f"{name}, line {number}: {len(token)} columns, but the lines before have {width}"
            )
        sentences[-1].append(token)
    found = [sentence for sentence in sentences if sentence]
    if not found:
        raise FileProblem(f"{name}: has no tokens")
    return found


def split_labels(
    sentences: Iterable[Iterable[Token]],
) -> tuple[list[list[Token]], list[list[str | None]]]:
    """Tokens without their last column, and that column: labels, None where a cell is empty."""
    listed = [list(sentence) for sentence in sentences]
    tokens = [[token[:-1] for token in sentence] for sentence in listed]
    return tokens, [[token[-1] or None for token in sentence] for sentence in listed]


def read_json_lines(lines: Iterable[str], name: str) -> tuple[list[Any], list[Any]]:
    """Features and labels of sentences, one a line: {"x": [{"word": "the"}, ...], "y": [...]}.

    x holds a dictionary for each token, as sklearn-crfsuite takes them. Labels are None where a
    line has no y; in y, null is a label that is not known, None.
    """
    sentences: list[Any] = []
    labels: list[Any] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            found = json.loads(line)
        except ValueError as error:
            raise FileProblem(f"{where}: not JSON ({error})") from None
        tokens = found.get("x") if isinstance(found, dict) else None
        if not isinstance(tokens, list):
            raise FileProblem(f'{where}: expected an object with a list "x" of tokens')
        if not all(isinstance(token, dict) for token in tokens):
            raise FileProblem(f'{where}: tokens in "x" must be objects of features')
        own = found.get("y")
        if own is not None and (not isinstance(own, list) or len(own) != len(tokens)):
            raise FileProblem(f'{where}: expected a list "y" of {len(tokens)} labels')
        sentences.append(tokens)
        labels.append(None if own is None else [_label(label) for label in own])
    if not sentences:
        raise FileProblem(f"{name}: has no tokens")
    return sentences, labels


def _label(value: Any) -> str | None:
    return None if value is None else str(value)
