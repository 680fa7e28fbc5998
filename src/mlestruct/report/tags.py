"""The report of labelled sentences: words coloured by doubt, weights, convergence."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from ..tagging import SequenceTagger
from . import page as html
from .figures import convergence

MOST_SENTENCES = 300
STRONGEST = 40
HUES = (210, 30, 145, 280, 0, 60, 180, 320, 100, 240)


def tags_report(tagger: SequenceTagger, sentences: Sequence[Any], words: str = "") -> str:
    """A self-contained HTML page about sentences; `words` is a summary that comes first."""
    lead = [
        html.paragraph(line, "lead" if k == 0 else "") for k, line in enumerate(words.splitlines())
    ]
    sections = [*lead, coloured(tagger, sentences), weights(tagger), convergence(tagger)]
    return html.page("Labels of words", sections)


def coloured(tagger: SequenceTagger, sentences: Sequence[Any]) -> str:
    """Sentences, the most doubtful first; the colour is the label, its line the doubt."""
    tables = tagger.predict_marginals(sentences)
    labels = tagger.predict(sentences)
    place = {label: k for k, label in enumerate(tagger.classes_)}
    sure = [
        min(float(row[place[label]]) for row, label in zip(table, best, strict=True))
        for table, best in zip(tables, labels, strict=True)
    ]
    lines = []
    for m in np.argsort(sure, kind="stable")[:MOST_SENTENCES]:
        parts = []
        for token, label, row in zip(sentences[m], labels[m], tables[m], strict=True):
            k = place[label]
            hue, doubt = HUES[k % len(HUES)], 1.0 - float(row[k])
            second = tagger.classes_[int(np.argsort(-row)[1])]
            title = f"{label} {100 * row[k]:.1f} %, {second} {100 * np.sort(row)[-2]:.1f} %"
            style = f"background: hsl({hue} 70% 50% / .18); "
            style += f"border-bottom-color: rgb(220 60 0 / {doubt:.2f})"
            parts.append(
                f'<span class="token" style="{style}" title="{escape(title)}">{escape(token[0])}'
                f"<small>{escape(str(label))} {100 * row[k]:.0f}</small></span>"
            )
        lines.append(f"<p>{''.join(parts)}</p>")
    note = "The most doubtful sentences come first. Below each word: its label and the probability "
    note += "in per cent; the orange line is the doubt."
    if len(sentences) > MOST_SENTENCES:
        note += f" These are {MOST_SENTENCES} of {len(sentences)} sentences."
    return html.section("Sentences", html.paragraph(note, "soft"), *lines)


def weights(tagger: SequenceTagger) -> str:
    """The strongest weights."""
    rows = sorted(tagger.named_coef().items(), key=lambda item: -abs(item[1]))[:STRONGEST]
    note = (
        f"The {len(rows)} strongest of {tagger.coef_.size} weights: of a label and a feature, or "
    )
    note += "of a label and the next one."
    shown = [(name, round(weight, 3)) for name, weight in rows]
    return html.section(
        "What counts", html.paragraph(note, "soft"), html.table(["weight of", "weight"], shown)
    )
