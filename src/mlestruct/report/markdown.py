"""Markdown as the package writes it, turned into HTML: headings, tables, lists, pictures."""

from __future__ import annotations

import base64
import re
from html import escape
from pathlib import Path


def html(markdown: str, folder: Path) -> str:
    """Blocks of Markdown as HTML, with the pictures of `folder` inside."""
    return "\n".join(_block(text, folder) for text in re.split(r"\n{2,}", markdown.strip()))


def _block(text: str, folder: Path) -> str:
    if text.startswith(("<details>", "</details>")):
        return text
    if heading := re.fullmatch(r"## (.*)", text):
        return f'<h2 id="{escape(heading[1])}">{escape(heading[1])}</h2>'
    if text.startswith("|"):
        return _table(text)
    if text.startswith("* "):
        items = "".join(
            f"<li>{_inline(item)}</li>" for item in re.split(r"\n?^\* ", text, flags=re.M)[1:]
        )
        return f"<ul>{items}</ul>"
    if heading := re.fullmatch(r"\*\*(.*)\*\*", text):
        return f"<h3>{_inline(heading[1])}</h3>"
    if picture := re.fullmatch(r"!\[(.*)\]\((.*)\)", text):
        return _picture(escape(picture[1]), folder.joinpath(*Path(picture[2]).parts[-2:]))
    return f"<p>{_inline(text)}</p>"


def _picture(caption: str, file: Path) -> str:
    if not file.is_file():
        return f'<p class="no">{escape(file.name)} is missing.</p>'
    data = base64.b64encode(file.read_bytes()).decode("ascii")
    return (
        f'<figure><img alt="{caption}" src="data:image/png;base64,{data}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _table(text: str) -> str:
    head, rule, *rows = (
        [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in text.split("\n")
    )
    kinds = [' class="number"' if cell.endswith(":") else "" for cell in rule]
    lines = []
    for tag, row in [("th", head), *(("td", row) for row in rows)]:
        cells = (
            f"<{tag}{kind}>{_verdict(_inline(cell))}</{tag}>"
            for cell, kind in zip(row, kinds, strict=True)
        )
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f'<div class="scroll"><table>{"".join(lines)}</table></div>'


def _verdict(cell: str) -> str:
    return f'<b class="{cell}">{cell}</b>' if cell in ("yes", "no") else cell


def _inline(text: str) -> str:
    """Links within the page, code and emphasis."""
    text = re.sub(r"\[(.+?)\]\((#.+?)\)", r'<a href="\2">\1</a>', escape(text))
    text = re.sub(r"`(.+?)`", r"<code>\1</code>", text)
    text = re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", text)
    return re.sub(r"(?<!\*)\*([^*]+)\*", r"<em>\1</em>", text)
