"""One self-contained HTML page of everything that a folder holds."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from .document import Rows, Writer, numeric_columns, overview, read_records, section, shown_rows
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
tr.rival td:first-child { color: var(--soft); }
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
    writer = Html(folder)
    quick = bool(records) and all(record["quick"] for record in records)
    kind = "Small problems on generated data; for published numbers run without --quick. "
    head, rows = overview(records)
    body = [
        "<h1>Bethe Learning of Conditional Random Fields via MAP Decoding, reproduced</h1>",
        f'<p class="soft">{kind if quick else ""}Written by <code>mlestruct reproduce</code>.</p>',
        writer.table(head, rows, links=True),
        *(
            f'<p class="no"><b>{escape(name)} failed:</b> {escape(why)}</p>'
            for name, why in failed.items()
        ),
        *(section(record, writer) for record in records),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<title>mlestruct: the paper, reproduced</title>\n"
        f"<style>{STYLE}</style>\n</head>\n<body>\n" + "\n".join(body) + "\n</body>\n</html>\n"
    )


class Html(Writer):
    """HTML, with the pictures of a folder inside."""

    def __init__(self, folder: Path):
        self.folder = folder

    def title(self, record: Record) -> str:
        name, quick = escape(record["name"]), " --quick" if record["quick"] else ""
        return (
            f'<h2 id="{name}">{escape(record["title"])}</h2>\n'
            f'<p class="soft">{escape(record["place"])} · '
            f"<code>mlestruct reproduce {name}{quick}</code> · {record['seconds']:.4g} s</p>"
        )

    def heading(self, text: str) -> str:
        return f"<h3>{escape(text)}</h3>"

    def paragraph(self, text: str) -> str:
        return f"<p>{escape(text)}</p>"

    def picture(self, record: Record, picture: Mapping[str, Any]) -> str:
        file = self.folder / record["name"] / picture["file"]
        if not file.is_file():
            return f'<p class="no">{escape(picture["file"])} is missing.</p>'
        data = base64.b64encode(file.read_bytes()).decode("ascii")
        caption = escape(picture["caption"])
        return (
            f'<figure><img alt="{caption}" src="data:image/png;base64,{data}">'
            f"<figcaption>{caption}</figcaption></figure>"
        )

    def table(
        self, head: Sequence[str], rows: Rows, kinds: Sequence[str] = (), links: bool = False
    ) -> str:
        """`links` says that the first column names sections."""
        right = numeric_columns(rows) or [False] * len(head)

        looks = [' class="number"' if number else "" for number in right]

        def line(tag: str, cells: Sequence[str]) -> str:
            pairs = zip(cells, looks, strict=True)
            return "".join(f"<{tag}{look}>{cell}</{tag}>" for cell, look in pairs)

        body = ""
        for row, kind in zip(shown_rows(rows), kinds or [""] * len(rows), strict=True):
            cells = [escape(cell) for cell in row]
            if links:
                cells[0] = f'<a href="#{cells[0]}">{cells[0]}</a>'
            body += f'<tr class="{kind}">{line("td", cells)}</tr>'
        top = f"<tr>{line('th', [escape(name) for name in head])}</tr>"
        return f'<div class="scroll"><table>{top}{body}</table></div>'

    def claims(self, claims: Sequence[Mapping[str, Any]]) -> str:
        items = []
        for one in claims:
            word, measured = "yes" if one["holds"] else "no", escape(one["measured"])
            more = f' <span class="soft">({measured})</span>' if measured else ""
            items.append(f'<li><b class="{word}">{word}</b> {escape(one["sentence"])}{more}</li>')
        return f'<ul class="claims">{"".join(items)}</ul>'

    def details(self, lines: Sequence[str]) -> str:
        inner = "".join(f'<p class="soft">{escape(line)}</p>' for line in lines)
        return f"<details><summary>How it was made</summary>{inner}</details>"
