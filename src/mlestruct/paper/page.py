"""One self-contained HTML page of everything that a folder holds."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from .document import overview, read_records, section
from .runner import Record
from .store import write_text

STYLE = """
:root { color-scheme: light dark; --ink: #1c1f23; --soft: #5d6670; --line: #d9dee3; --paper: #fff;
  --good: #00694f; --bad: #b3400d; --accent: #0072b2; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8ea; --soft: #9aa4ae; --line: #343a41;
  --paper: #15181b; --good: #4cc9a3; --bad: #f2935c; --accent: #6cb8e6; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 2rem 1.2rem 5rem; color: var(--ink);
  background: var(--paper); font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem; }
h2 { font-size: 1.35rem; margin: 3.2rem 0 .2rem; padding-top: 1rem;
  border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.6rem 0 .4rem; }
a { color: var(--accent); }
.soft { color: var(--soft); font-size: .88rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums; }
th, td { padding: .28rem .7rem; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; }
th { font-weight: 600; border-bottom: 2px solid var(--line); }
td.number, th.number { text-align: right; white-space: nowrap; }
td em { color: var(--soft); font-style: normal; }
.yes, tr.better td:last-child, tr.equal td:last-child { color: var(--good); }
.no, tr.worse td:last-child { color: var(--bad); }
figure { margin: 1.4rem 0; } figcaption { color: var(--soft); font-size: .88rem; }
img { max-width: 100%; height: auto; background: #fff; border-radius: 4px; }
ul.claims { list-style: none; padding: 0; } ul.claims li { margin: .3rem 0; }
ul.claims b { display: inline-block; min-width: 2.6rem; }
details { margin: .6rem 0; }
"""


def write_page(folder: Path, failed: Mapping[str, str] | None = None) -> Path:
    """Write folder/index.html; `failed` are experiments that did not end well, and why."""
    file = folder / "index.html"
    write_text(file, page(read_records(folder), folder, failed or {}))
    return file


def page(records: Sequence[Record], folder: Path, failed: Mapping[str, str]) -> str:
    """The whole page."""
    quick = bool(records) and all(record["quick"] for record in records)
    kind = "Small problems on generated data; for published numbers run without --quick. "
    body = [
        "<h1>Bethe Learning of Conditional Random Fields via MAP Decoding, reproduced</h1>",
        f'<p class="soft">{kind if quick else ""}Written by <code>mlestruct reproduce</code>.</p>',
        html(overview(records), folder),
        *(
            f'<p class="no"><b>{escape(name)} failed:</b> {escape(why)}</p>'
            for name, why in failed.items()
        ),
        *(html(section(record, folder, ship=False), folder) for record in records),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<title>mlestruct: the paper, reproduced</title>\n"
        f"<style>{STYLE}</style>\n</head>\n<body>\n" + "\n".join(body) + "\n</body>\n</html>\n"
    )


# ---------------------------------------------------------------------- Markdown to HTML
def html(markdown: str, folder: Path) -> str:
    """The Markdown that `document.py` writes, with the pictures of the folder inside."""
    return "\n".join(_block(text, folder) for text in re.split(r"\n{2,}", markdown.strip()))


def _block(text: str, folder: Path) -> str:
    if text.startswith(("<details>", "</details>")):
        return text
    if text.startswith("## "):
        return f'<h2 id="{escape(text[3:])}">{escape(text[3:])}</h2>'
    if text.startswith("|"):
        return _table(text)
    if text.startswith("* "):
        items = "".join(f"<li>{_inline(item[2:])}</li>" for item in text.split("\n"))
        return f'<ul class="claims">{items}</ul>'
    if heading := re.fullmatch(r"\*\*(.*)\*\*", text):
        return f"<h3>{_inline(heading[1])}</h3>"
    if picture := re.fullmatch(r"!\[(.*)\]\((.*)\)", text):
        return _picture(escape(picture[1]), folder.joinpath(*Path(picture[2]).parts[-2:]))
    soft = re.match(r"(Setting|Environment|Parts|Files): ", text)
    look = ' class="soft"' if soft else ""
    return f"<p{look}>{_inline(text)}</p>"


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
    looks = [' class="number"' if cell.endswith(":") else "" for cell in rule]
    lines = []
    for tag, row in [("th", head), *(("td", row) for row in rows)]:
        kind = re.match("better|equal|worse", row[-1])
        cells = "".join(
            f"<{tag}{look}>{_inline(cell)}</{tag}>" for cell, look in zip(row, looks, strict=True)
        )
        lines.append(f'<tr class="{kind[0] if kind else ""}">{cells}</tr>')
    return f'<div class="scroll"><table>{"".join(lines)}</table></div>'


def _inline(text: str) -> str:
    """Yes and no, links, code and emphasis."""
    text = escape(text)
    text = re.sub(r"^\*\*(yes|no)\*\*: ", r'<b class="\1">\1</b> ', text)
    text = re.sub(r"\[(.+?)\]\((#.+?)\)", r'<a href="\2">\1</a>', text)
    text = re.sub(r"`(.+?)`", r"<code>\1</code>", text)
    return re.sub(r"(?<!\*)\*([^*]+)\*", r"<em>\1</em>", text)
