"""Reports: self-contained pages in which nothing that comes from files is markup."""

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
from mlestruct.pairing import GroupMatcher, Matches
from mlestruct.report.learned import _effect
from mlestruct.report.links import links_report, refused
from mlestruct.report.matches import look_again, matches_report
from mlestruct.report.tags import coloured, tags_report
from mlestruct.report.tags import meaning as tag_meaning
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
    data = explored(links_report(linker, links, left, right))
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
    page = links_report(linker, links, left, right.assign(birth=german))
    assert explored(page) == explored(links_report(linker, links, left, right))


def test_pages_without_records_tell_of_no_person(people, matched):
    left, right, links, linker, found = people
    doubted = links.assign(probability=0.1)
    whole, safe = (
        links_report(linker, found, left, right, "60 links", doubted, records=records)
        for records in (True, False)
    )
    ids = {*left.index, *right.index, *left["street"], *right["street"]} - {""}
    marks = [f'"{one}"' for one in ids] + [f"<td>{one}</td>" for one in ids]
    assert any(mark in whole for mark in marks)
    assert not any(mark in safe for mark in marks)
    for title in ("What counts", "How many links at which probability", "60 links"):
        assert title in safe
    matcher, people_, _ = matched
    page = matches_report(matcher, matcher.match(people_), [people_], "24 people", records=False)
    assert not any(f'"{one}"' in page or f"<td>{one}</td>" in page for one in people_.index[1:])
    assert Outline(safe).open == []


def test_words_are_escaped():
    sentences = [[("the",), (ATTACK,)], [("a",), ("b",)]] * 3
    tagger = SequenceTagger(alpha=1.0).fit(sentences, [["O", "X"], ["O", "O"]] * 3)
    text = tags_report(tagger, sentences, "6 sentences")
    outline = Outline(text)
    assert outline.open == []
    assert "img" not in outline.tags
    assert "script" not in outline.tags
    assert text.count('class="token"') == 12


def test_doubtful_words_show_the_answer_and_the_most_probable_other_label():
    """Of three sequences AA .4, BA .3, BB .3 the first is best, though B is more probable first."""

    class Three:
        classes_ = np.array(["A", "B"])

        def predict(self, sentences):
            return [np.array(["A", "A"])]

        def predict_marginals(self, sentences):
            return [np.array([[0.4, 0.6], [0.7, 0.3]])]

    text = coloured(Three(), [[("one",), ("two",)]])
    assert coloured(Three(), [["one", "two"]]) == text
    assert "In doubt: one: A 40.0 %, B 60.0 %; two: A 70.0 %, B 30.0 %" in text


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
    text = (tmp_path / "known.csv").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert main(["report", "model.mls", *tables[:3], "-", "-o", "again.html"]) == 0
    pages = [(tmp_path / name).read_text() for name in ("report.html", "again.html")]
    assert pages[0].count("Known links that the model would refuse") == 1
    assert pages[0] == pages[1]
    assert main(["report", "model.mls", *tables, "--no-records", "-o", "safe.html"]) == 0
    assert headline in (tmp_path / "safe.html").read_text()
    assert '"a1"' not in (tmp_path / "safe.html").read_text()
    assert main(["report", "model.mls", "left.csv"]) == 2
    (tmp_path / "train.tsv").write_text("a\tX\nb\tY\n\nb\tY\n\n" * 4)
    assert main(["tag", "train.tsv", "-m", "tags.mls", "--alpha", "1"]) == 0
    assert main(["report", "tags.mls", "train.tsv", "-o", "tags.html"]) == 0
    assert main(["report", "tags.mls", "train.tsv", "--no-records", "-o", "tags.html"]) == 2
    assert "12 words of 8 sentences" in (tmp_path / "tags.html").read_text()


@pytest.fixture(scope="module")
def matched():
    rng = np.random.default_rng(0)
    people = pd.DataFrame(
        {"bed": rng.integers(0, 4, 24).astype(str), ATTACK: rng.choice(["x", ATTACK], 24)}
    )
    people.index = pd.Index([ATTACK, *(f"p{k}" for k in range(1, 24))], name="id")
    order = np.argsort(people["bed"].to_numpy(), kind="stable")
    pairs = pd.DataFrame(people.index.to_numpy()[order].reshape(-1, 2))
    matcher = GroupMatcher().fit(people, pairs)
    return matcher, people, matches_report(matcher, matcher.match(people), [people], "24 people")


def test_pages_of_pairs_tell_weights_errors_and_held_out_quality(matched):
    matcher, people, text = matched
    outline = Outline(text)
    assert outline.open == []
    assert "img" not in outline.tags
    assert text.count("ROC curve, area") == 2  # label and caption
    assert "In cross-validation" in text
    k = matcher.feature_names_in_.tolist().index("bed: difference")
    assert f"± {1.96 * matcher.coef_error_[k]:.2f}" in text
    assert "per step that the two differ in bed" in text
    found = re.search(r'<script type="application/json" id="records">(.*?)</script>', text)
    data = json.loads(found.group(1))
    one = next(record for record in data["records"] if record["id"] == "p3")
    best = next(candidate for candidate in one["candidates"] if candidate["best"])
    row = people.index.get_indexer(["p3", best["id"]])
    score = matcher._pairs(people).rows(row[:1], row[1:]) @ matcher.coef_
    assert sum(best["terms"]) == pytest.approx(float(score[0]), abs=0.01)


def test_effects_in_plain_words():
    assert _effect(np.log(3.0), None, "a pair") == "a pair has 3.0 times the odds"
    assert _effect(-np.log(20.0), 0.1, "a link") == "a link has 1/20 of the odds"
    assert _effect(0.5, 0.5, "a pair").endswith("(may be chance)")
    assert _effect(0.01, 0.001, "a pair") == "no difference"


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


def test_pairs_of_equal_margins_are_both_listed():
    pairs = pd.DataFrame({"left": list("abcd"), "right": list("badc")})
    pairs = pairs.assign(probability=0.5, proposed=True, margin=0.0)
    text = look_again(Matches(pairs, None), both_ways=True)
    assert [text.count(f"<td>{one}</td>") for one in "abcd"] == [1, 1, 1, 1]
    assert look_again(Matches(pairs, None), both_ways=False).count("<tr>") == 5


def test_meanings_of_weights_with_any_signs():
    labels = ["A", "A:B", "B->A"]
    assert tag_meaning("A:B->A", labels) == "labels one after the other: A:B, A"
    assert tag_meaning("A:+0 word=->", labels) == "label A: +0 word=->"
    assert tag_meaning("A:B:ends:x", labels) == "label A:B: ends:x"
    assert tag_meaning("B->A->A", labels) == "labels one after the other: B->A, A"
