"""The report of labelled sentences: words coloured by doubt, weights, convergence."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from ..tagging import SequenceTagger
from . import page as html
from .figures import convergence
from .learned import held_out, weights

MOST_SENTENCES = 300  # the most doubtful ones
HUES = (210, 30, 145, 280, 0, 60, 180, 320, 100, 240)


def tags_report(tagger: SequenceTagger, sentences: Sequence[Any], words: str = "") -> str:
    """A self-contained HTML page about sentences; `words` is a summary that comes first."""
    labels = [str(label) for label in tagger.classes_]
    sections = [
        html.lead(words),
        coloured(tagger, sentences),
        weights(tagger, lambda name: meaning(name, labels), "this"),
        held_out(tagger, "words right"),
        convergence(tagger),
    ]
    return html.page("Labels of words", sections)


def coloured(tagger: SequenceTagger, sentences: Sequence[Any]) -> str:
    """Sentences, the most doubtful first; the colour is the label, its line the doubt."""
    sentences = [sentence for sentence in sentences if len(sentence)]
    if not sentences:
        return ""
    tables = tagger.predict_marginals(sentences)
    labels = tagger.predict(sentences)
    place = {label: k for k, label in enumerate(tagger.classes_)}
    sure = [
        min(float(row[place[label]]) for row, label in zip(table, best, strict=True))
        for table, best in zip(tables, labels, strict=True)
    ]
    lines = []
    for m in np.argsort(sure, kind="stable")[:MOST_SENTENCES]:
        parts, also = [], []
        for token, label, row in zip(sentences[m], labels[m], tables[m], strict=True):
            k = place[label]
            hue, doubt = HUES[k % len(HUES)], 1.0 - float(row[k])
            other = int(np.argmax(np.where(np.arange(row.size) == k, -1.0, row)))
            word = _word(token)
            title = f"{label} {100 * row[k]:.1f} %, "
            title += f"{tagger.classes_[other]} {100 * row[other]:.1f} %"
            if row[k] < 0.9:  # the other label is shown by pointing at the word, too
                also.append(f"{word}: {title}")
            style = f"background: hsl({hue} 70% 50% / .18); "
            style += f"border-bottom-color: rgb(220 60 0 / {doubt:.2f})"
            parts.append(
                f'<span class="token" style="{style}" title="{escape(title)}">{escape(word)}'
                f"<small>{escape(str(label))} {100 * row[k]:.0f}</small></span>"
            )
        lines.append(f"<p>{''.join(parts)}</p>")
        if also:
            lines.append(html.paragraph("In doubt: " + "; ".join(also), "soft also"))
    note = "The most doubtful sentences come first. Below each word: its label and the probability "
    note += "in per cent; the orange line is the doubt. Labels are those of the most probable "
    note += "sequence: by itself a word may have another label that is more probable."
    if len(sentences) > MOST_SENTENCES:
        note += f" These are {MOST_SENTENCES} of {len(sentences)} sentences."
    return html.section("Sentences", html.paragraph(note, "soft"), *lines)


def _word(token: Any) -> str:
    """The word of a token; of features the value of "word", or the first text among them."""
    if not isinstance(token, dict):
        return token if isinstance(token, str) else str(token[0])
    texts = [value for value in token.values() if isinstance(value, str)]
    return str(token.get("word", texts[0] if texts else "·"))


def meaning(name: str, labels: Sequence[str]) -> str:
    """A weight in plain words; labels and features may have any signs in them."""
    for label in sorted(labels, key=len, reverse=True):
        if name.startswith(f"{label}:"):
            return f"label {label}: {name.removeprefix(f'{label}:')}"
        if name.removeprefix(f"{label}->") in labels:
            return f"labels one after the other: {label}, {name.removeprefix(f'{label}->')}"
    return name
