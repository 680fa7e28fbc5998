"""Sentences in columns: a line per token, an empty line between sentences (CoNLL)."""

from __future__ import annotations

from collections.abc import Iterable

Token = tuple[str, ...]


class SentenceProblem(ValueError):
    """A line does not fit; the message names it."""


def read_sentences(lines: Iterable[str], name: str) -> list[list[Token]]:
    """Sentences of tokens, each a tuple of as many columns as the first one has.

    Columns are separated by tabs or, where there is none, by spaces. Lines that begin with "# " and
    -DOCSTART- lines are passed over.
    """
    sentences: list[list[Token]] = [[]]
    width = 0
    for number, line in enumerate(lines, start=1):
        text = line.rstrip("\r\n").lstrip("\ufeff")
        if not text.strip():
            sentences.append([])
            continue
        if text.startswith(("# ", "-DOCSTART-")):
            continue
        token = tuple(text.split("\t") if "\t" in text else text.split())
        width = width or len(token)
        if len(token) != width:
            raise SentenceProblem(
                f"{name}, line {number}: {len(token)} columns, but the lines before have {width}"
            )
        sentences[-1].append(token)
    found = [sentence for sentence in sentences if sentence]
    if not found:
        raise SentenceProblem(f"{name}: has no tokens")
    return found
