"""The report of labelled pictures: the probability of each label laid over each picture."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from ..features import edge_feature_names
from ..segmentation import ImageSegmenter
from . import page as html
from .figures import convergence
from .learned import held_out, weights

MOST_PICTURES = 24  # the most doubtful ones: a page of a few megabytes
HEAT = (230, 60, 0)  # where a label is certain


def pictures_report(
    segmenter: ImageSegmenter, images: Sequence[Any], names: Sequence[str], words: str = ""
) -> str:
    """A self-contained HTML page about pictures (height, width, 3) of bytes."""
    sections = [
        html.lead(words),
        overlays(segmenter, images, names),
        weights(segmenter, meaning, "this"),
        held_out(segmenter, "pixels right"),
        convergence(segmenter),
    ]
    return html.page("Labels of pixels", sections)


def meaning(name: str) -> str:
    """A feature in plain words: "1:red", or "0->1:right:3" of an edge."""
    if "->" not in name:
        label, _, feature = name.partition(":")
        return f"label {label}, per unit of {feature}"
    labels, _, rest = name.partition(":")
    direction, _, number = rest.partition(":")
    contrast = edge_feature_names()[int(number)] if number else "constant"
    where = "" if contrast == "constant" else f" where {contrast}"
    words = direction.replace("_", " ")
    return f"a pixel and the one {words} of it labelled {labels.replace('->', ' and ')}{where}"


def overlays(segmenter: ImageSegmenter, images: Sequence[Any], names: Sequence[str]) -> str:
    """Pictures, the most doubtful first, under the probabilities of a label that is chosen."""
    tables = segmenter.predict_marginals(images)
    doubt = [float(1.0 - table.max(axis=2).mean()) for table in tables]
    labels = [str(label) for label in segmenter.classes_]
    shown = np.argsort(doubt, kind="stable")[::-1][:MOST_PICTURES]
    cards = []
    for m in shown.tolist():
        layers = [*np.moveaxis(tables[m], 2, 0), 1.0 - tables[m].max(axis=2)]
        parts = [f'<img alt="{html.text(names[m])}" src="{_source(images[m])}">']
        for k, chance in enumerate(layers):
            alpha = np.round(255 * np.clip(chance, 0.0, 1.0)).astype(np.uint8)
            colour = np.broadcast_to(np.array(HEAT, dtype=np.uint8), (*alpha.shape, 3))
            source = _source(np.dstack([colour, alpha]))
            parts.append(f'<img alt="" class="layer" data-layer="{k}" hidden src="{source}">')
        caption = f"{names[m]}: doubt {100 * doubt[m]:.1f} % of a pixel on average"
        cards.append(
            f'<figure><div class="stack">{"".join(parts)}</div>'
            f"<figcaption>{html.text(caption)}</figcaption></figure>"
        )
    choices = [*(f"probability of label {label}" for label in labels), "doubt", "nothing"]
    options = "".join(f'<option value="{k}">{html.text(c)}</option>' for k, c in enumerate(choices))
    controls = (
        '<p class="controls"><label>Show <select id="layer">' + options + "</select></label> "
        '<label>as strongly as <input type="range" id="strength" min="0" max="100" value="70">'
        "</label></p>"
    )
    note = "The most doubtful pictures come first; what is chosen here is laid over them in red."
    if len(images) > MOST_PICTURES:
        note += f" These are {MOST_PICTURES} of {len(images)}."
    body = f'<div class="pictures">{"".join(cards)}</div>'
    return html.section(
        "Pictures", html.paragraph(note, "soft"), controls, body, html.script("pictures.js")
    )


def _source(array: Any) -> str:
    """An array of bytes as a PNG file inside the page."""
    stream = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(array)).save(stream, format="PNG")
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode("ascii")
