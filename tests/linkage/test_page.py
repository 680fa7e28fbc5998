"""Pages: self-contained ones in which nothing that comes from files is markup."""

import io
import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from mlestruct.cli import main
from mlestruct.datasets import make_people
from mlestruct.linkage import RecordLinker
from mlestruct.linkage.learned import effect
from mlestruct.linkage.page import links_page, refused

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
    return linker, links_page(linker, linker.link(left, right), left, right, f"12 links {ATTACK}")


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
        best = [candidate["p"] for candidate in record["candidates"] if candidate["best"]]
        assert len(best) <= 1
        assert record["sure"] == (best[0] if best else record["none"])
        sure.append(record["sure"])
        for candidate in record["candidates"]:
            assert len(candidate["terms"]) == len(data["columns"])
    assert sure == sorted(sure)  # the most doubtful first
    assert ATTACK in [record["id"] for record in data["records"]]


@pytest.fixture(scope="module")
def people():
    left, right, links = make_people(60, random_state=0)
    alone = pd.DataFrame({"left": left.index.difference(links["left"])[:6], "right": ""})
    linker = RecordLinker(alpha=0.1).fit(left, right, pd.concat([links.iloc[:30], alone]))
    return left, right, links, linker, linker.link(left, right)


def explored(text):
    found = re.search(r'<script type="application/json" id="records">(.*?)</script>', text)
    return json.loads(found.group(1))


def test_improbable_pairs_of_a_high_score_name_what_they_compete_with(people):
    left, right, _, linker, links = people
    data = explored(links_page(linker, links, left, right))
    chance = {
        (one, other): p
        for one, other, p in links.pairs[["left", "right", "probability"]].itertuples(index=False)
    }
    named = 0
    for record in data["records"]:
        for candidate in record["candidates"]:
            pair = record["id"], candidate["id"]
            score = sum(candidate["terms"]) + data["start"]
            if abs(score) < 0.01 or abs(candidate["p"] - 0.5) < 1e-5:  # rounding decides
                continue
            if score < 0 or candidate["p"] > 0.5:
                assert "rival" not in candidate
                continue
            rivals = [
                p for other, p in chance.items()
                if other != pair and (other[0] == pair[0] or other[1] == pair[1])
            ]  # fmt: skip
            one, other, p = candidate["rival"]
            assert p == pytest.approx(max(rivals), abs=1e-6)
            assert p == pytest.approx(chance[one, other], abs=1e-6)
            named += 1
    assert named > 3


def test_dates_are_shown_in_the_format_of_the_left_table(people):
    left, right, _, linker, links = people
    german = right["birth"].map(lambda cell: ".".join(cell.split("-")[::-1]))
    page = links_page(linker, links, left, right.assign(birth=german))
    assert explored(page) == explored(links_page(linker, links, left, right))


def test_pages_without_records_tell_of_no_person(people):
    left, right, links, linker, found = people
    doubted = links.assign(probability=0.1)
    whole, safe = (
        links_page(linker, found, left, right, "60 links", doubted, records=records)
        for records in (True, False)
    )
    ids = {*left.index, *right.index, *left["street"], *right["street"]} - {""}
    marks = [f'"{one}"' for one in ids] + [f"<td>{one}</td>" for one in ids]
    assert any(mark in whole for mark in marks)
    assert not any(mark in safe for mark in marks)
    for title in ("What counts", "How many links at which probability", "60 links"):
        assert title in safe
    assert Outline(safe).open == []


def test_the_command_writes_pages(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    left, right, links = make_people(150, random_state=0)
    left.to_csv("left.csv")
    right.to_csv("right.csv")
    alone = pd.DataFrame({"left": left.index.difference(links["left"])[:9], "right": ""})
    pd.concat([links.iloc[:95], alone]).to_csv("known.csv", index=False)
    command = ["link", "left.csv", "right.csv", "--known", "known.csv", "-o", "links.csv"]
    assert main([*command, "--report", "page.html"]) == 0
    headline = capsys.readouterr().err.splitlines()[0]
    page = (tmp_path / "page.html").read_text()
    assert headline in page
    assert page.count("Known links that the model would refuse") == 1
    assert page.count("ROC curve, area") == 2  # label and caption
    assert "In cross-validation" in page
    text = (tmp_path / "known.csv").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    again = [*command[:4], "-", *command[5:], "--report", "again.html"]
    assert main(again) == 0
    curve = re.compile(r"How far from the optimum.*", re.DOTALL)  # has seconds in it
    assert curve.sub("", page) == curve.sub("", (tmp_path / "again.html").read_text())
    assert main([*command, "--report", "safe.html", "--no-records"]) == 0
    assert headline in (tmp_path / "safe.html").read_text()
    assert '"a1"' not in (tmp_path / "safe.html").read_text()
    assert main([*command, "--no-records"]) == 2
    assert main([*command[:-1], "-", "--report", "-"]) == 2


def test_effects_in_words():
    assert effect(np.log(3.0)) == "a link has 3.0 times the odds"
    assert effect(-np.log(20.0)) == "a link has 1/20 of the odds"
    assert effect(0.01) == "no difference"


def test_known_links_that_look_wrong_are_listed():
    doubted = pd.DataFrame({"left": ["a", ATTACK], "right": ["b", "c"], "probability": [0.9, 0.1]})
    text = refused(doubted)
    assert "1 of 2" in text
    assert "<img" not in text
    assert "None of 1" in refused(doubted[:1])
    assert "not compared" not in text
    text = refused(doubted.assign(probability=[np.nan, 0.1]))
    assert "2 of 2" in text
    assert "1 were not compared" in text
    assert re.search(r"<td[^>]*>a</td><td[^>]*>b</td><td[^>]*>not compared</td>", text)
