"""One self-contained HTML page of everything that a folder holds."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from .records import read_records
from .runner import Record
from .shown import comparison_rows, is_number, overview_rows, setting_text, shown, shown_rows
from .store import write_text

FILE = "index.html"

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
.better, .equal, .yes { color: var(--good); } .worse, .no { color: var(--bad); }
figure { margin: 1.4rem 0; } figcaption { color: var(--soft); font-size: .88rem; }
img { max-width: 100%; height: auto; background: #fff; border-radius: 4px; }
ul.claims { list-style: none; padding: 0; } ul.claims li { margin: .3rem 0; }
ul.claims b { display: inline-block; min-width: 2.6rem; }
details { margin: .6rem 0; }
"""


def write_page(folder: Path, failed: Mapping[str, str] | None = None) -> Path:
    """Write folder/index.html; `failed` are experiments that did not end well, and why."""
    file = folder / FILE
    write_text(file, page(read_records(folder), folder, failed or {}))
    return file


def page(records: Sequence[Record], folder: Path, failed: Mapping[str, str]) -> str:
    """The whole page."""
    quick = bool(records) and all(record["quick"] for record in records)
    kind = "Small problems on generated data; for published numbers run without --quick. "
    body = [
        "<h1>Bethe Learning of Conditional Random Fields via MAP Decoding, reproduced</h1>",
        f'<p class="soft">{kind if quick else ""}Written by <code>mlestruct reproduce</code>.</p>',
        _overview(records),
        *(
            f'<p class="no"><b>{escape(name)} failed:</b> {escape(why)}</p>'
            for name, why in failed.items()
        ),
        *(_section(record, folder / record["name"]) for record in records),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<title>mlestruct: the paper, reproduced</title>\n"
        f"<style>{STYLE}</style>\n</head>\n<body>\n" + "\n".join(body) + "\n</body>\n</html>\n"
    )


def _overview(records: Sequence[Record]) -> str:
    head, rows = overview_rows(records)
    linked = [
        [f'<a href="#{escape(row[0])}">{escape(row[0])}</a>', *(escape(cell) for cell in row[1:])]
        for row in rows
    ]
    return _html_table(head, linked, numeric=(4,))


def _section(record: Record, folder: Path) -> str:
    blocks = [
        f'<h2 id="{escape(record["name"])}">{escape(record["title"])}</h2>',
        f'<p class="soft">{escape(record["place"])} · <code>mlestruct reproduce '
        f"{escape(record['name'])}{' --quick' if record['quick'] else ''}</code> · "
        f"{shown(record['seconds'])} s</p>",
        *(f"<p>{escape(sentence)}</p>" for sentence in record["summary"]),
        *(_picture(picture, folder) for picture in record["pictures"]),
        _comparisons(record["comparisons"]),
        _claims(record["verdicts"]),
        *(_table(table) for table in record["tables"] if "rows" in table),
        _details(record),
    ]
    return "\n".join(block for block in blocks if block)


def _picture(picture: Mapping[str, Any], folder: Path) -> str:
    file = folder / picture["file"]
    if not file.is_file():
        return f'<p class="no">{escape(picture["file"])} is missing.</p>'
    data = base64.b64encode(file.read_bytes()).decode("ascii")
    caption = escape(picture["caption"])
    return (
        f'<figure><img alt="{caption}" src="data:image/png;base64,{data}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _comparisons(comparisons: Sequence[Mapping[str, Any]]) -> str:
    if not comparisons:
        return ""
    head, rows = comparison_rows(comparisons)
    marked = [
        [*(escape(cell) for cell in row[:-1]), _marked(row[-1], one["verdict"])]
        for row, one in zip(rows, comparisons, strict=True)
    ]
    classes = ["rival" if one["whose"] == "rival" else "" for one in comparisons]
    title = "<h3>Beside the published numbers</h3>"
    return title + _html_table(head, marked, numeric=(1, 2), classes=classes)


def _marked(sentence: str, kind: str) -> str:
    """The first word tells the verdict; colour only repeats it."""
    word, _, rest = sentence.partition(" ")
    return f'<span class="{kind}">{escape(word)}</span> {escape(rest)}'


def _claims(verdicts: Sequence[Mapping[str, Any]]) -> str:
    if not verdicts:
        return ""
    items = []
    for one in verdicts:
        word = "yes" if one["holds"] else "no"
        remark = f' <span class="soft">({escape(one["remark"])})</span>' if one["remark"] else ""
        items.append(f'<li><b class="{word}">{word}</b> {escape(one["claim"])}{remark}</li>')
    return f'<h3>Claims</h3><ul class="claims">{"".join(items)}</ul>'


def _table(table: Mapping[str, Any]) -> str:
    head, rows = table["head"], table["rows"]
    numeric = [k for k in range(len(head)) if any(is_number(row[k]) for row in rows)]
    cells = [[escape(cell) for cell in row] for row in shown_rows(rows)]
    return f"<h3>{escape(table['title'])}</h3>" + _html_table(head, cells, numeric)


def _html_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    numeric: Iterable[int],
    classes: Sequence[str] = (),
) -> str:
    """Cells are HTML already, heads are text."""
    right = set(numeric)

    def line(tag: str, cells: Sequence[str], kind: str = "") -> str:
        inner = "".join(
            f"<{tag}{_class('number' if k in right else '')}>{cell}</{tag}>"
            for k, cell in enumerate(cells)
        )
        return f"<tr{_class(kind)}>{inner}</tr>"

    kinds = classes or [""] * len(rows)
    body = "".join(line("td", row, kind) for row, kind in zip(rows, kinds, strict=True))
    top = line("th", [escape(name) for name in head])
    return f'<div class="scroll"><table>{top}{body}</table></div>'


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


def _details(record: Record) -> str:
    files = [table["file"] for table in record["tables"]]
    lines = [
        f"Setting: {setting_text(record['setting'])}",
        f"Environment: {setting_text(record['environment'])}",
        f"Parts: {setting_text(record.get('parts', {}))}",
        f"Files: {', '.join([record['name'] + '.json', *files])}",
    ]
    inner = "".join(f'<p class="soft">{escape(line)}</p>' for line in lines)
    return f"<details><summary>How it was made</summary>{inner}</details>"
