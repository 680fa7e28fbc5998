"""Internal links of a built site: `python docs/check_links.py BUILD`.

Every href, src and srcset of the pages must lead to a file of the site, and a fragment to an
element with that id or name. Broken links are printed page by page, and the command then exits
with 1. Links to other sites are listed with --external; nothing is fetched.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """Links and anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[tuple[int, str]] = []  # line, address
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        line = self.getpos()[0]
        for name, value in attrs:
            if name == "id" or (name == "name" and tag == "a"):
                self.anchors.add(value or "")
            elif name in ("href", "src"):
                self.links.append((line, (value or "").strip()))
            elif name == "srcset":
                self.links += [(line, part.split()[0]) for part in (value or "").split(",") if part]


def read(file: Path) -> Page:
    page = Page()
    page.feed(file.read_text(encoding="utf-8"))
    page.close()
    return page


def fault(address: str, file: Path, root: Path, pages: dict[Path, Page]) -> str:
    """What is wrong with an internal link of a page, or nothing."""
    parts = urlsplit(address)
    path = unquote(parts.path)
    target = root / path.lstrip("/") if path.startswith("/") else file.parent / path
    target = (target if path else file).resolve()
    if target.is_dir():
        target = target / "index.html"
    if root not in target.parents:
        return "leads out of the site"
    if not target.is_file():
        return "no such file"
    anchor = unquote(parts.fragment)
    # "#" alone and "#top" are the top of any page.
    known = target not in pages or anchor in ("", "top") or anchor in pages[target].anchors
    return "" if known else "no such anchor"


def external(address: str) -> bool:
    parts = urlsplit(address)
    return bool(parts.scheme or parts.netloc)


def broken(root: Path, pages: dict[Path, Page]) -> Iterator[str]:
    """A line for every internal link that leads nowhere."""
    for file, page in pages.items():
        for line, address in page.links:
            found = "" if external(address) else fault(address, file, root, pages)
            if found:
                yield f"{file.relative_to(root)}:{line}: {address!r}: {found}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("site", type=Path, help="the folder with the HTML files")
    parser.add_argument("--external", action="store_true", help="list links to other sites")
    options = parser.parse_args(arguments)
    root = options.site.resolve()
    # Themes put templates into _static, which nobody sees.
    files = [file for file in sorted(root.rglob("*.html")) if root / "_static" not in file.parents]
    if not files:
        parser.error(f"site: no HTML files in {options.site}")
    pages = {file: read(file) for file in files}
    faults = list(broken(root, pages))
    for line in faults:
        print(line)
    addresses = [address for page in pages.values() for _, address in page.links]
    others = sorted({address for address in addresses if external(address)})
    if options.external:
        print(*others, sep="\n")
    inside = sum(not external(address) for address in addresses)
    print(
        f"{len(pages)} pages, {inside} internal links, {len(faults)} broken; "
        f"{len(others)} addresses elsewhere"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
