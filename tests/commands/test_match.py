"""`mlestruct match`: from questionnaires and pairs to proposals."""

import json

import numpy as np
import pandas as pd
import pytest

from mlestruct.cli import main


def people(n, seed, year):
    """Who is noisy and when they sleep, and who lives with whom: those most alike."""
    rng = np.random.default_rng(seed)
    bed = rng.integers(0, 5, size=n)
    noise = rng.choice(["low", "high"], size=n)
    order = np.lexsort((bed + rng.normal(scale=0.3, size=n), noise))
    ids = [f"{year}-{k:02d}" for k in range(n)]
    table = pd.DataFrame({"id": ids, "bed": bed, "noise": noise, "year": year})
    pairs = pd.DataFrame(np.array(ids)[order].reshape(-1, 2), columns=["id_a", "id_b"])
    return table.assign(name=[f"person {k}" for k in range(n)]), pairs


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    years = [people(20, seed, 2020 + seed) for seed in range(3)]
    pd.concat([table for table, _ in years]).to_csv("people.csv", index=False)
    pd.concat([pairs for _, pairs in years[:2]]).to_csv("pairs.csv", index=False)
    years[2][1].to_csv("truth.csv", index=False)
    return tmp_path


MATCH = ["match", "people.csv", "--pairs", "pairs.csv", "--group", "year", "--alpha", "0.1"]


def read(name):
    return pd.read_csv(name, dtype=str, keep_default_na=False)


def test_the_last_year_is_matched(folder, capsys):
    assert main([*MATCH, "-o", "matches.csv", "-m", "model.mls", "--top", "2"]) == 0
    spoken = capsys.readouterr()
    assert spoken.out == ""
    assert spoken.err.startswith("20 of 20 have a proposed partner")
    found = read("matches.csv").set_index("id")
    assert found.index.str.startswith("2022").all()
    assert (found["partner"][found["partner"]] == found.index).all()  # mutual
    table = read("people.csv").set_index("id")
    same = table["noise"][found.index].to_numpy() == table["noise"][found["partner"]].to_numpy()
    assert same.mean() >= 0.9
    chances = found[["probability_1", "probability_2"]].astype(float)
    assert (chances["probability_1"] >= chances["probability_2"]).all()
    last = read("people.csv").query("year == '2022'")
    last.to_csv("new.csv", index=False)
    assert main(["predict", "model.mls", "new.csv", "-o", "again.csv", "--top", "2"]) == 0
    assert (folder / "again.csv").read_text() == (folder / "matches.csv").read_text()


def test_alpha_is_cross_validated_over_groups_or_parts_of_one(folder, capsys):
    assert main([*MATCH[:-2], "-o", "matches.csv", "--json", "--quiet", "--strict"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["certified"]
    assert summary["cross_validated_auc"] > 0.7
    one = read("people.csv").query("year != '2021'").drop(columns="year")
    one.to_csv("people.csv", index=False)
    read("pairs.csv")[:10].to_csv("pairs.csv", index=False)
    assert main(["match", "people.csv", "--pairs", "pairs.csv", "-o", "m.csv", "--quiet"]) == 0
    assert len(read("m.csv")) == 20


def test_of_an_odd_number_one_stays_alone(folder):
    table = read("people.csv")
    table.iloc[:-1].to_csv("people.csv", index=False)
    assert main([*MATCH, "-o", "matches.csv", "--quiet"]) == 0
    found = read("matches.csv")
    assert (found["partner"] == "").sum() == 1
    assert len(found) == 19


def test_singles(folder):
    read("pairs.csv").iloc[2:].to_csv("pairs.csv", index=False)
    assert main([*MATCH, "--singles", "-o", "matches.csv", "-m", "model.mls", "--quiet"]) == 0
    found = read("matches.csv")
    assert len(found) == 24  # and those of whom nothing is known
    assert (found["probability_no_partner"].astype(float) > 0.01).any()


def reviews():
    rng = np.random.default_rng(0)
    topics = np.array(["text", "vision"])
    papers = pd.DataFrame({"id": [f"p{k}" for k in range(12)], "topic": topics[np.arange(12) % 2]})
    people = pd.DataFrame({"id": [f"r{k}" for k in range(8)], "topic": topics[np.arange(8) % 2]})
    people["load"], people["rank"] = 3, rng.choice(["junior", "senior"], size=8)
    pairs = []
    for k in range(10):  # two reviewers of the same topic for each
        pairs += [(f"p{k}", f"r{(k + 2 * s) % 8}") for s in range(2)]
    return papers, people, pd.DataFrame(pairs, columns=["paper", "reviewer"])


TWO = ["match", "papers.csv", "reviewers.csv", "--pairs", "reviews.csv", "--left-capacity", "2",
       "--capacity", "load", "--alpha", "0.1", "-o", "found.csv"]  # fmt: skip


@pytest.fixture
def sides(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, table in zip(("papers", "reviewers", "reviews"), reviews(), strict=True):
        table.to_csv(f"{name}.csv", index=False)
    return tmp_path


def test_two_sides_with_capacities(sides):
    assert main([*TWO, "-m", "model.mls", "--quiet"]) == 0
    found = read("found.csv")
    assert found["id"].tolist() == ["p10", "p10", "p11", "p11"]
    reviewers = read("reviewers.csv").set_index("id")
    wanted = read("papers.csv").set_index("id")["topic"][found["id"]]
    assert reviewers["topic"][found["partner"]].tolist() == wanted.tolist()
    load = pd.concat([read("reviews.csv")["reviewer"], found["partner"]]).value_counts()
    assert load.max() <= 3
    assert main(["predict", "model.mls", "papers.csv", "reviewers.csv", "-o", "all.csv"]) == 0
    everything = read("all.csv")
    assert (everything["id"].value_counts() == 2).all()
    assert everything["partner"].value_counts().max() <= 3


def change(name, function):
    function(read(name)).to_csv(name, index=False)


@pytest.mark.parametrize(
    ("file", "function", "message"),
    [
        ("pairs.csv", lambda f: pd.concat([f, f[:1]]), "pairs.csv, row 22: the pair of row 2"),
        ("pairs.csv", lambda f: f.assign(id_b="2020-00"), r"row \d: id .* (?:partner|itself)"),
        ("pairs.csv", lambda f: f.replace("2020-03", "x"), r"pairs.csv, row \d+, .*no id 'x'"),
        ("pairs.csv", lambda f: f[["id_a"]], "pairs.csv: expected two columns"),
        ("pairs.csv", lambda f: f[:1], "pairs.csv: pairs: at least 2 pairs"),
        ("people.csv", lambda f: f.assign(year="1"), "everyone|ok"),
        ("people.csv", lambda f: f.drop(columns="year"), "people.csv, .*there is no column 'year'"),
        ("people.csv", lambda f: f[["id", "name", "year"]], "people.csv, .* is a question"),
        ("people.csv", lambda f: f.assign(year=f["id"].str[-1]), "pairs.csv: .*same group"),
    ],
)  # fmt: skip
def test_malformed_files(folder, capsys, file, function, message):
    change(file, function)
    status = main([*MATCH, "-o", "matches.csv"])
    spoken = capsys.readouterr().err
    if message.endswith("ok"):
        assert status == 0
        return
    assert status == 1
    assert pd.Series([spoken]).str.contains(message).all(), spoken


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--capacity", "none"], "capacity: expected a positive number or one of the columns"),
        (["--left-capacity", "3"], "id 'p0' has 2 partners, it should have exactly 3"),
        (["--capacity", "1"], r"id 'r0' has \d partners, it should have at most 1"),
        (["--kind", "rank=ordinal"], "the order of .* is not known"),
        (["--kind", "nothing=text"], "neither table has a column 'nothing'"),
    ],
)
def test_malformed_sides(sides, capsys, options, message):
    assert main([*TWO, *options]) == 1
    spoken = capsys.readouterr().err
    assert pd.Series([spoken]).str.contains(message).all(), spoken


@pytest.mark.parametrize(
    "arguments",
    [
        ["match", "people.csv"],
        ["match", "people.csv", "people.csv", "people.csv", "--pairs", "pairs.csv"],
        ["match", "people.csv", "people.csv", "--pairs", "pairs.csv", "--group", "year"],
        [*MATCH, "--capacity", "3"],
        ["match", "people.csv", "-m", "model.mls", "--group", "year"],
        ["match", "people.csv", "-m", "model.mls", "--singles"],
        ["match", "people.csv", "-m", "model.mls", "--alpha", "3"],
        [*MATCH, "--json"],
        [*MATCH, "--kind", "bed"],
        [*MATCH, "--top", "0"],
    ],
)
def test_usage(folder, arguments):
    assert main(arguments) == 2


def test_known_pairs_beyond_a_capacity_are_named(sides, capsys):
    assert main([*TWO, "-m", "model.mls", "--quiet"]) == 0
    change("reviewers.csv", lambda frame: frame.assign(load="1"))
    given = ["papers.csv", "reviewers.csv", "--known", "reviews.csv"]
    assert main(["predict", "model.mls", *given]) == 1
    assert "reviews.csv: used: id 'r0' has 3 partners" in capsys.readouterr().err
