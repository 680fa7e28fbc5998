"""Parts of an HTML page: style, sections, tables, pictures, data. All text is escaped."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from numbers import Real
from typing import Any

import matplotlib
from matplotlib.figure import Figure

INK, ACCENT = "#7a8490", "#2a8fcb"  # readable on light and on dark paper


def page(title: str, sections: Iterable[str]) -> str:
    """A whole document without outside sources."""
    style = _resource("style.css")
    policy = "default-src 'none'; img-src data:; "
    policy += "style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
    )
    return (
        head + f"<h1>{escape(title)}</h1>\n" + "\n".join(sections) + "\n</main>\n</body>\n</html>\n"
    )


def section(title: str, *parts: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n" + "\n".join(parts) + "\n</section>"


def paragraph(text: str, kind: str = "") -> str:
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def lead(words: str) -> str:
    """Lines of a summary, the first one larger."""
    lines = words.splitlines()
    return "\n".join(paragraph(line, "" if k else "lead") for k, line in enumerate(lines))


def text(value: str) -> str:
    """Text that cannot be markup."""
    return escape(value)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Numbers are set to the right."""
    body = []
    numeric = [True] * len(columns)
    rows = [list(row) for row in rows]
    for row in rows:
        numeric = [own and _is_number(cell) for own, cell in zip(numeric, row, strict=True)]
    kinds = [' class="number"' if own and rows else "" for own in numeric]
    for row in rows:
        cells = (
            f"<td{kind}>{escape(_shown(cell))}</td>" for kind, cell in zip(kinds, row, strict=True)
        )
        body.append(f"<tr>{''.join(cells)}</tr>")
    head = "".join(
        f'<th scope="col"{kind}>{escape(name)}</th>'
        for kind, name in zip(kinds, columns, strict=True)
    )
    whole = f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody>"
    return f'<div class="scroll"><table>{whole}</table></div>'


def plot(width: float, height: float, labels: tuple[str, str]) -> tuple[Figure, Any]:
    """A figure with one plot, and its axes."""
    drawn = Figure(figsize=(width, height), layout="constrained")
    axes = drawn.subplots()
    axes.tick_params(colors=INK)
    axes.set_xlabel(labels[0], color=INK)
    axes.set_ylabel(labels[1], color=INK)
    for name, spine in axes.spines.items():
        spine.set_color(INK)
        spine.set_visible(name in ("left", "bottom"))
    return drawn, axes


def picture(drawn: Figure, caption: str) -> str:
    """A figure of matplotlib as SVG inside the page."""
    stream = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "mlestruct", "svg.fonttype": "path"}):
        drawn.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
    svg = stream.getvalue()
    svg = svg[svg.index("<svg") :].replace(
        "<svg", f'<svg role="img" aria-label="{escape(caption)}"', 1
    )
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def data(name: str, value: Any) -> str:
    """Plain data for scripts; no text in it can end the element."""
    text = json.dumps(value, allow_nan=False).replace("<", "\\u003c").replace("&", "\\u0026")
    return f'<script type="application/json" id="{escape(name)}">{text}</script>'


def script(name: str) -> str:
    return f"<script>\n{_resource(name)}</script>"


def _resource(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _is_number(cell: Any) -> bool:
    return isinstance(cell, Real) and not isinstance(cell, bool)


def _shown(cell: Any) -> str:
    if isinstance(cell, float):
        return f"{cell:.4g}" if math.isfinite(cell) else ""
    return str(cell)
