"""Reports: self-contained pages in which nothing that comes from files is markup."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from mlestruct.cli import main
from mlestruct.datasets import make_people
from mlestruct.linkage import RecordLinker
from mlestruct.report.links import links_report
from mlestruct.report.tags import tags_report
from mlestruct.tagging import SequenceTagger

ATTACK = """<img src=x onerror="document.title='owned'"></script><script>document.title='owned'"""


class Outline(HTMLParser):
    """Tags of a page, and everything that it loads."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.sources, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.sources += [value for name, value in attributes if name in ("src", "href", "srcset")]
        if tag not in ("meta", "input", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def hostile():
    """A page about records whose cells, ids and columns try to be markup."""
    left, right, links = make_people(60, random_state=0)
    left.loc[left.index[:20], "street"] = ATTACK
    right = right.rename(columns={"town": ATTACK})
    left = left.rename(columns={"town": ATTACK})
    left = left.rename(index={"a0": ATTACK})
    links.loc[0, "left"] = ATTACK
    linker = RecordLinker(alpha=1.0).fit(left, right, links.iloc[:30])
    return linker, links_report(linker, linker.link(left, right), left, right, f"12 links {ATTACK}")


def test_pages_load_nothing_and_close_their_tags(hostile):
    outline = Outline(hostile[1])
    assert outline.open == []
    assert [source for source in outline.sources if not source.startswith("#")] == []
    assert outline.tags.count("script") == 2
    assert "img" not in outline.tags
    assert 'lang="en"' in hostile[1]


def test_explorer_holds_records_with_their_candidates(hostile):
    linker, text = hostile
    found = re.search(r'<script type="application/json" id="records">(.*?)</script>', text)
    data = json.loads(found.group(1))
    assert data["columns"] == [one.column for one in linker.comparisons_]
    assert len(data["records"]) == 60
    sure = []
    for record in data["records"]:
        chances = [candidate["p"] for candidate in record["candidates"]]
        assert sum(chances) + record["none"] <= 1.0 + 1e-4
        assert chances == sorted(chances, reverse=True)
        sure.append(record["none"] if record["best"] < 0 else chances[record["best"]])
        for candidate in record["candidates"]:
            assert len(candidate["terms"]) == len(data["columns"])
    assert sure == sorted(sure)  # the most doubtful first
    assert ATTACK in [record["id"] for record in data["records"]]


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_in_a_browser_the_first_record_is_shown_and_nothing_else_runs(hostile, tmp_path):
    (tmp_path / "page.html").write_text(hostile[1])
    done = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
         f"--user-data-dir={tmp_path / 'profile'}", (tmp_path / "page.html").as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert "<title>Links between two tables</title>" in done.stdout
    detail = done.stdout[done.stdout.index('id="detail"') :]
    assert "No partner: " in detail
    assert "<img" not in done.stdout
    assert done.stdout.count('aria-current="true"') == 1
    assert "60 records" in done.stdout


def test_words_are_escaped():
    sentences = [[("the",), (ATTACK,)], [("a",), ("b",)]] * 3
    tagger = SequenceTagger(alpha=1.0).fit(sentences, [["O", "X"], ["O", "O"]] * 3)
    text = tags_report(tagger, sentences, "6 sentences")
    outline = Outline(text)
    assert outline.open == []
    assert "img" not in outline.tags
    assert "script" not in outline.tags
    assert text.count('class="token"') == 12


def test_the_command_writes_pages(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    left, right, links = make_people(60, random_state=0)
    left.to_csv("left.csv")
    right.to_csv("right.csv")
    links.iloc[:30].to_csv("known.csv", index=False)
    known = ["--known", "known.csv", "--alpha", "1", "-m", "model.mls", "-o", "links.csv"]
    assert main(["link", "left.csv", "right.csv", *known]) == 0
    headline = capsys.readouterr().err.splitlines()[0]
    tables = ["left.csv", "right.csv", "--known", "known.csv"]
    assert main(["report", "model.mls", *tables]) == 0
    assert headline in (tmp_path / "report.html").read_text()
    assert main(["report", "model.mls", "left.csv"]) == 2
    (tmp_path / "train.tsv").write_text("a\tX\nb\tY\n\nb\tY\n\n" * 4)
    assert main(["tag", "train.tsv", "-m", "tags.mls", "--alpha", "1"]) == 0
    assert main(["report", "tags.mls", "train.tsv", "-o", "tags.html"]) == 0
    assert "12 words of 8 sentences" in (tmp_path / "tags.html").read_text()
