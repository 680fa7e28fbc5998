"""Docstrings as reStructuredText.

They are plain text with `code`, numpydoc sections, and in short ones lines such as "tol : gap per
variable". Such lines become lists, and what would be taken for markup is escaped.
"""

from __future__ import annotations

import re
from typing import Any

NAMED = re.compile(r"(\**\w[\w, .*]*) : (.+)")


def escaped(text: str) -> str:
    """Stars, bars and trailing underscores outside of `code` as themselves."""
    bullet, rest = re.fullmatch(r"(\s*[*] |)(.*)", text).groups()
    parts = re.split(r"(`[^`]*`)", rest)
    for k in range(0, len(parts), 2):
        bars = re.sub(r"([*|])", r"\\\1", parts[k])
        parts[k] = re.sub(r"(?<=\w)_(?!\w)", r"\\_", bars)
    return bullet + "".join(parts)


def escape_lines(lines: list[str]) -> None:
    """All but doctests, underlines and the names of parameters, which numpydoc escapes."""
    in_doctest = False
    for k, line in enumerate(lines):
        stripped = line.lstrip()
        in_doctest = stripped.startswith(">>>") or (in_doctest and bool(stripped))
        if in_doctest or set(stripped) <= {"-"}:
            continue
        head, colon, rest = line.partition(" : ")
        if NAMED.fullmatch(line.strip()):
            lines[k] = head + colon + escaped(rest)
        else:
            lines[k] = escaped(line)


def list_names(lines: list[str]) -> list[str]:
    """Paragraphs of "name : meaning" lines before the first section as lists."""
    starts = [k for k, line in enumerate(lines) if line and set(line) == {"-"}]
    end = starts[0] - 1 if starts else len(lines)
    found: list[str] = []
    in_list = False
    for line in lines[:end]:
        named = NAMED.fullmatch(line)
        if named:
            found += ["", f"* **{escaped(named[1])}** : {named[2]}"]
            in_list = True
        elif in_list and line.startswith(" "):
            found.append("  " + line.strip())
        else:
            if in_list and line:
                found.append("")
            in_list = False
            found.append(line)
    return [*found, "", *lines[end:]]


def convert(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    escape_lines(lines)
    lines[:] = list_names(lines)


def skip_foreign(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool:
    """Members that scikit-learn and PyTorch add are documented there."""
    module = getattr(obj, "__module__", None) or ""
    return skip or module.startswith(("sklearn", "torch"))


def setup(app: Any) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", convert, priority=400)  # before numpydoc
    app.connect("autodoc-skip-member", skip_foreign)
    return {"parallel_read_safe": True}
