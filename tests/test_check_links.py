"""The check of internal links, on a site of three pages."""

import importlib.util
from pathlib import Path

import pytest

FILE = Path(__file__).parents[1] / "docs" / "check_links.py"
if not FILE.is_file():
    pytest.skip("the documents are not beside the tests", allow_module_level=True)
SPEC = importlib.util.spec_from_file_location("check_links", FILE)
check_links = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(check_links)

GOOD = """<html><body id="body">
<a href="#body">here</a> <a href="#">top</a> <a href="">itself</a>
<a href="sub/page.html#a%20b">another page</a> <a href="sub/">a folder</a>
<a href="/sub/page.html?v=1#named">from the root</a>
<img src="picture.png" srcset="picture.png 1x, picture.png 2x">
<a href="picture.png#anything">fragments of pictures are not looked up</a>
<a href="https://example.org/x#y">elsewhere</a> <a href="mailto:a@example.org">mail</a>
<a href="//example.org">elsewhere, too</a>
</body></html>"""
PAGE = '<h1 id="a b">Title</h1><a name="named" href="../index.html#body">back</a>'


@pytest.fixture
def site(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "_static").mkdir()
    (tmp_path / "index.html").write_text(GOOD)
    (tmp_path / "picture.png").write_bytes(b"")
    for name in ("page.html", "index.html"):
        (tmp_path / "sub" / name).write_text(PAGE)
    (tmp_path / "_static" / "template.html").write_text('<a href="{{ nowhere }}">not a page</a>')
    return tmp_path


def test_good_links_pass(site, capsys):
    assert check_links.main([str(site)]) == 0
    printed = capsys.readouterr().out
    assert printed == "3 pages, 12 internal links, 0 broken; 3 addresses elsewhere\n"
    check_links.main([str(site), "--external"])
    assert "https://example.org/x#y\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("link", "reason"),
    [
        ('<a href="../missing.html">', "no such file"),
        ('<img src="missing.png">', "no such file"),
        ('<img srcset="../picture.png 1x, missing.png 2x">', "no such file"),
        ('<a href="../index.html#missing">', "no such anchor"),
        ('<a href="#missing">', "no such anchor"),
        ('<a href="../../index.html">', "leads out of the site"),
    ],
)
def test_broken_links_are_told_with_their_place(site, capsys, link, reason):
    (site / "sub" / "page.html").write_text(f"{PAGE}\n{link}")
    assert check_links.main([str(site)]) == 1
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("sub/page.html:2: ")
    assert first.endswith(reason)
    assert "1 broken" in last


def test_a_folder_without_pages_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        check_links.main([str(tmp_path)])
    assert "no HTML files" in capsys.readouterr().err
