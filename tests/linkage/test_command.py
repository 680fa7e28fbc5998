"""`mlestruct link`: from files to files."""

import errno
import io
import json
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import numpy as np
import pandas as pd
import pytest

import mlestruct
from mlestruct.cli import main
from mlestruct.datasets import make_people
from mlestruct.linkage import RecordLinker
from mlestruct.linkage.arguments import EXAMPLES
from mlestruct.linkage.tables import clean_ids, index_by_id, read_table, write_table


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    left, right, links = make_people(120, random_state=0)
    left.to_csv("left.csv")
    right.to_csv("right.csv")
    links.iloc[:60].to_csv("known.csv", index=False)
    return tmp_path


SIDES = ("left", "right")
RESULTS = ("links.csv", "again.csv")
LINK = ["link", "left.csv", "right.csv", "--known", "known.csv", "--alpha", "0.1"]
MODEL = ["link", "left.csv", "right.csv", "-m", "model.mls"]
COUNT = ["link", "left.csv", "right.csv", "--dry-run"]


def test_files_in_files_out(folder, capsys):
    assert main([*LINK, "-o", "links.csv", "--review", "review.csv", "-m", "model.mls"]) == 0
    spoken = capsys.readouterr()
    assert spoken.out == ""
    assert "100.0 % of the known links are among them." in spoken.err.splitlines()[0]
    assert "; 60 were known." in spoken.err.splitlines()[1]
    assert "certified" in spoken.err
    left = pd.read_csv("left.csv", dtype=str)
    links = pd.read_csv("links.csv", dtype=str, keep_default_na=False)
    assert links["left"].tolist() == left["id"].tolist()
    assert set(links["decision"]) <= {"known", "link", "review", "no partner", "not compared"}
    linked = links[links["right"] != ""]
    assert linked["right"].is_unique
    assert (links["decision"] == "link").sum() > 15
    known = pd.read_csv("known.csv", dtype=str)
    taken = links[links["decision"] == "known"].set_index("left")
    assert taken["right"].to_dict() == dict(zip(known["left"], known["right"], strict=True))
    assert (taken["probability"].astype(float) == 1.0).all()
    assert "left surname" in pd.read_csv("review.csv").columns
    again = ["link", "left.csv", "right.csv", "-m", "model.mls", "-o", "again.csv", "--quiet"]
    assert main(again) == 0
    assert capsys.readouterr().err == ""
    fresh = pd.read_csv("again.csv", dtype=str, keep_default_na=False)
    assert fresh["left"].tolist() == links["left"].tolist()
    assert "known" not in set(fresh["decision"])


def test_known_links_need_not_be_candidates(folder):
    def emptied(frame):
        frame.loc[frame["id"] == "a0", frame.columns[1:]] = ""
        return frame

    rewrite("left.csv", emptied)
    assert main([*LINK, "-o", "links.csv", "--top", "2", "--quiet"]) == 0
    links = pd.read_csv("links.csv", dtype=str, keep_default_na=False).set_index("left")
    assert links.loc["a0", ["right", "decision", "candidate_1"]].tolist() == ["b0", "known", "b0"]
    assert (links["right"] == "b0").sum() == 1


def test_data_on_stdout_and_summary_as_json(folder, capsys):
    assert main([*LINK, "--quiet"]) == 0
    printed = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert len(printed) == 120
    assert main([*LINK, "--quiet", "--json", "-o", "links.csv"]) == 0
    summary = json.loads(capsys.readouterr().out)
    decisions = ("known", "link", "no_partner", "review", "not_compared")
    assert sum(summary[name] for name in decisions) == 120
    assert main([*LINK, "--json"]) == 2


def test_records_without_candidates_are_not_said_to_have_no_partner(folder):
    def emptied(frame):
        frame.loc[frame["id"] == "a100", frame.columns[1:]] = ""  # not among the known ones
        return frame

    rewrite("left.csv", emptied)
    assert main([*LINK, "-o", "links.csv", "--quiet"]) == 0
    links = pd.read_csv("links.csv", dtype=str, keep_default_na=False)
    assert links.set_index("left")["decision"]["a100"] == "not compared"


def test_dry_run_counts(folder, capsys):
    assert main(["link", "left.csv", "right.csv", "--dry-run", "--block", "surname"]) == 0
    left, right = (pd.read_csv(f"{name}.csv", dtype=str).dropna() for name in ("left", "right"))
    assert capsys.readouterr().out.splitlines()[0].endswith("of 120 x 120 records")
    assert len(left.merge(right, on="surname")) > 0


def test_empty_columns_are_not_compared_but_named(folder, capsys):
    for name in ("left.csv", "right.csv"):
        rewrite(name, lambda frame: frame.assign(notes=""))
    for command in ([*LINK, "-o", "links.csv"], COUNT):
        assert main(command) == 0
        spoken = capsys.readouterr()
        assert "not compared, empty in both tables: notes" in spoken.err
        assert "notes" not in spoken.out


def rewrite(name, change):
    frame = pd.read_csv(name, dtype=str, keep_default_na=False)
    change(frame).to_csv(name, index=False)


def twice(frame):
    frame.loc[5, "id"] = frame.loc[2, "id"]
    return frame


def blank(frame):
    frame.loc[3, "id"] = ""
    return frame


BROKEN = {
    "no id": (lambda f: f.rename(columns={"id": "key"}), "left.csv: no column is called 'id'"),
    "twice": (twice, r"left.csv, row 7, column 'id': id 'a\d+' is that of row 4"),
    "blank": (blank, "left.csv, row 5, column 'id': no id"),
    "no rows": (lambda f: f.iloc[:0], "left.csv: has a header but no rows"),
    "other columns": (lambda f: f[["id"]].assign(x="1"), "no column in common"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_malformed_tables(folder, capsys, name):
    change, message = BROKEN[name]
    rewrite("left.csv", change)
    assert main([*LINK, "-o", "links.csv"]) == 1
    pd.testing.assert_series_equal(
        pd.Series([capsys.readouterr().err]).str.contains(message), pd.Series([True])
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "left.csv: is empty"),
        (b"id,name\n1,M\xfcller\n", "left.csv, row 2, cell 2: not UTF-8 at byte 11"),
        (b"id,name,name\n1,a,b\n", "left.csv: column 'name' occurs twice"),
        (b"id,name\n1,a\n2,b,c\n", "left.csv: .*line 3"),
        (b"id,name\n1,a,b\n2,b,c\n", "left.csv: .*Expected 2 fields in line 2, saw 3"),
        (b"id;name\n1;a\n2;M\xfcller\n", "left.csv, row 3, cell 2: .*--encoding cp1252"),
        (b"PK\x03\x04\x14", "left.csv: an Excel file; save it as CSV .UTF-8."),
        (b"\xd0\xcf\x11\xe0\xa1", "left.csv: an Excel file; save it as CSV .UTF-8."),
        (b"id,name\n1,a\n\n,\n1,b\n", "left.csv, row 5, column .id.: id .1. is that of row 2"),
        (b"id,name\n1,a\n\n,b\n", "left.csv, row 4, column .id.: no id"),
        (b"id,name\n,\n\n", "left.csv: has a header but no rows"),
    ],
)
def test_malformed_bytes(folder, capsys, content, message):
    (folder / "left.csv").write_bytes(content)
    assert main([*LINK, "-o", "links.csv"]) == 1
    assert pd.Series([capsys.readouterr().err]).str.contains(message).all()


def test_malformed_links(folder, capsys):
    rewrite("known.csv", lambda frame: pd.concat([frame, frame.iloc[:1].assign(right="b99")]))
    assert main([*LINK, "-o", "links.csv"]) == 1
    message = "known.csv: left id 'a0' has two partners: rows 2 and 62; links are one to one"
    assert message in capsys.readouterr().err


def test_columns_of_known_links_that_are_not_used_are_named(folder, capsys):
    rewrite("known.csv", lambda frame: frame.assign(result="no"))
    assert main([*LINK, "-o", "links.csv"]) == 0
    assert "known.csv: every row counts as a link; not used: 'result'" in capsys.readouterr().err


def test_reviewed_pairs_are_the_next_known_links(folder, capsys):
    """A person who knows the truth fills in the column checked; answers get better."""
    left, _, links = make_people(120, random_state=0)
    truth = dict(links.itertuples(index=False, name=None))
    alone = pd.DataFrame({"left": left.index.difference(links["left"])[:8], "right": ""})
    rewrite("known.csv", lambda frame: pd.concat([frame, alone]))
    first = [*LINK, "-o", "links.csv", "--review", "review.csv", "--accept", "0.99", "--quiet"]
    assert main(first) == 0
    review = pd.read_csv("review.csv", dtype=str, keep_default_na=False)
    assert review.columns[:3].tolist() == ["left", "right", "checked"]
    assert (review["checked"] == "").all()
    judged = len(review) - 2  # two are left open
    right_ones = review["left"].map(truth) == review["right"]
    review["checked"] = np.where(right_ones, "yes", "no")
    review.loc[judged:, "checked"] = ""
    assert {"yes", "no"} <= set(review["checked"])
    review.to_csv("review.csv", index=False)
    second = [*LINK, "--known", "review.csv", "-o", "again.csv", "--json"]
    assert main(second) == 0
    spoken = capsys.readouterr()
    summary = json.loads(spoken.out)
    assert summary["passed_over"] == 2
    assert "Of the known links 2 rows are not decided, and passed over.\n" in spoken.err
    assert summary["refused"] == (review["checked"] == "no").sum()
    assert f"{summary['refused']} pairs are known to be no links" in spoken.err
    found, again = (
        pd.read_csv(name, dtype=str, keep_default_na=False).set_index("left") for name in RESULTS
    )
    for row in review.itertuples(index=False):
        if row.checked == "yes":
            assert again.loc[row.left, ["right", "decision"]].tolist() == [row.right, "known"]
        elif row.checked == "no":
            assert again.loc[row.left, "right"] != row.right
    wrong = [
        sum(truth.get(one, "") != other for one, other in table["right"].items())
        for table in (found, again)
    ]
    assert wrong[1] < wrong[0]


def test_answers_that_contradict_the_probabilities_are_told(folder, capsys):
    links = make_people(120, random_state=0)[2].iloc[70:90].assign(checked="yes", probability=0.5)
    links.to_csv("review.csv", index=False)
    assert main([*LINK, "--known", "review.csv", "-o", "links.csv", "--json"]) == 0
    spoken = capsys.readouterr()
    found = json.loads(spoken.out)["reviewed"]
    assert found == {"pairs": 20, "links": 20, "expected": 10.0, "error": pytest.approx(5**0.5)}
    assert spoken.err.count("20 of 20 reviewed pairs are links, 10.0 were expected: ") == 1
    links.assign(probability=0.9).to_csv("review.csv", index=False)
    assert main([*LINK, "--known", "review.csv", "-o", "links.csv"]) == 0
    spoken = capsys.readouterr().err
    assert "reviewed pairs" not in spoken
    assert "If the known links were chosen because they were easy to see, many of the " in spoken


@pytest.mark.parametrize("accept", ["0.4", "0.9", "0.995"])
def test_every_record_that_is_left_to_a_person_is_in_the_review(folder, capsys, accept):
    outputs = ["-o", "links.csv", "--review", "review.csv", "--accept", accept, "--json"]
    assert main([*LINK, *outputs, "--top", "50"]) == 0
    summary = json.loads(capsys.readouterr().out)
    links = pd.read_csv("links.csv").set_index("left")
    review = pd.read_csv("review.csv")
    open_ = links[links["decision"] == "review"]
    assert set(review["left"]) == set(open_.index)
    assert review["left"].nunique() == summary["review"]
    pairs = set(map(tuple, review[["left", "right"]].to_numpy()))
    assert pairs >= set(open_["candidate_1"].items())
    sums = [row for row in open_.itertuples() if row.probability_1 <= 1 - float(accept)]
    assert accept != "0.9" or sums  # some have several improbable pairs, none of them doubtful


def test_links_that_are_left_to_a_person_are_not_known(folder, capsys):
    assert main([*LINK, "-o", "links.csv", "--accept", "0.99", "--quiet"]) == 0
    counts = pd.read_csv("links.csv", dtype=str)["decision"].value_counts()
    assert counts["review"] > 0
    again = ["link", "left.csv", "right.csv", "--known", "links.csv", "--alpha", "0.1", "--json"]
    assert main([*again, "-o", "again.csv"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["known"] == counts["known"] + counts["link"] + counts.get("no partner", 0)
    assert summary["passed_over"] == counts["review"] + counts.get("not compared", 0)


def test_what_is_compared_is_listed(folder, capsys):
    rewrite("left.csv", lambda frame: frame.assign(ward="x"))
    rewrite("right.csv", lambda frame: frame.rename(columns={"town": "city"}))
    words = "Ids: id. "
    words += "Compared: given_name (text), surname (text), street (text), birth (date YYYY-MM-DD). "
    words += "Only in the left table: town, ward. Only in the right table: city."
    words += " To compare two of these, give them the same name."
    assert main([*LINK, "-o", "links.csv"]) == 0
    assert words in capsys.readouterr().err
    assert main(COUNT) == 0
    assert capsys.readouterr().out.splitlines()[1] == words


def test_warnings_are_told_once(folder, capsys):
    rewrite(
        "right.csv", lambda frame: frame.assign(birth=frame["birth"].where(frame.index > 20, "?"))
    )
    assert main([*LINK, "--kind", "birth=date", "-o", "links.csv"]) == 0
    assert capsys.readouterr().err.count("column 'birth' of the right table") == 1


def test_precision_tells_from_which_probability_links_are_proposed(folder, capsys):
    rewrite("known.csv", lambda f: pd.concat([f, pd.DataFrame({"left": ["a119"], "right": [""]})]))
    options = ["--precision", "0.97", "--accept", "0", "--json"]
    assert main([*LINK, *options, "-o", "links.csv"]) == 0
    spoken = capsys.readouterr()
    links = pd.read_csv("links.csv")
    lowest = links["probability"][links["decision"] == "link"].min()
    assert json.loads(spoken.out)["proposed_from"] == pytest.approx(lowest, abs=1e-6)
    assert f"For 97.0 % expected precision: links from {lowest:.2f}" in spoken.err


def test_expectations_are_about_links_that_are_not_known(folder, capsys):
    rewrite("known.csv", lambda f: pd.concat([f, pd.DataFrame({"left": ["a119"], "right": [""]})]))
    rewrite(
        "left.csv",
        lambda f: f.mask((f["id"] == "a0").to_numpy()[:, None] & (f.columns != "id"), ""),
    )
    assert main([*LINK, "-o", "links.csv", "-m", "model.mls", "--json"]) == 0
    spoken = capsys.readouterr()
    summary = json.loads(spoken.out)
    assert summary["blocking_recall"] == pytest.approx(59 / 60)  # nothing is known of a0
    links = pd.read_csv("links.csv")
    has_one = 1 - links["probability_no_partner"]
    decided = {name: links["decision"] == name for name in ("known", "link", "review")}
    total = has_one[~decided["known"]].sum()
    new = links["probability"][decided["link"]].sum()
    assert summary["expected_recall"] == pytest.approx(new / total, abs=1e-4)
    review = has_one[decided["review"]].sum()
    assert summary["in_review"] == pytest.approx(review, abs=1e-3)
    assert summary["missed_compared"] == pytest.approx(total - new - review, abs=1e-3)
    assert summary["missed_not_compared"] == pytest.approx(total / 59, abs=1e-3)
    words = "Links probably missed: {missed_compared:.0f} among the compared pairs, and "
    words += "{missed_not_compared:.0f} that were not compared"
    assert words.format(**summary) in spoken.err
    assert main([*LINK, "-o", "links.csv", "--report", "page.html", "--quiet"]) == 0
    page = (folder / "page.html").read_text()
    assert "98.3 % of the known links are among them" in page
    assert "1 were not compared" in page


def test_a_model_links_other_tables(folder, capsys):
    assert main([*LINK, "-o", "links.csv", "-m", "model.mls", "--quiet"]) == 0
    assert main([*MODEL, "-o", "links.csv", "--review", "review.csv"]) == 0
    spoken = capsys.readouterr().err
    assert "; no links were given as known.\n" in spoken
    assert "of the known links" not in spoken  # those of other tables
    assert "as a comparison of some records with all others shows" in spoken
    assert "have no partner, as of those learned from" in spoken
    assert "Written: links.csv, review.csv" in spoken
    left, right = (pd.read_csv(f"{name}.csv", dtype=str).set_index("id") for name in SIDES)
    wanted = mlestruct.load("model.mls").link(left, right).proposed.set_index("left")
    found = pd.read_csv("links.csv", dtype=str, keep_default_na=False).set_index("left")
    assert found["right"][found["right"] != ""].to_dict() == wanted["right"].to_dict()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["link", "left.csv", "nowhere.csv", "--known", "known.csv"], "nowhere.csv: there is no"),
        (["link", "left.csv", ".", "--known", "known.csv"], ".: is a folder"),
        ([*LINK, "--accept", "2"], "--accept: expected a probability"),
        ([*LINK, "--alpha", "big"], "--alpha: expected a number or auto"),
        ([*LINK, "--kind", "town=city"], "kind of column 'town'"),
        (["link", "left.csv", "right.csv", "-m", "known.csv"], "not a mlestruct model file"),
        ([*MODEL, "--neighbours", "3"], "--neighbours: not with -m alone"),
        ([*MODEL, "--alpha", "3"], "--alpha: not with -m alone; a model has its own"),
        ([*COUNT, "--columns", "x"], "left.csv, right.csv: the left table has no column 'x'"),
        ([*COUNT, "--block", "x"], "left.csv, right.csv: the left table has no column 'x'"),
    ],
)  # fmt: skip
def test_usage(folder, capsys, arguments, message):
    assert main(arguments) == (2 if message.startswith("--") else 1)
    assert message in capsys.readouterr().err


def test_output_is_safe_to_open_in_a_spreadsheet(folder):
    def formula(frame):
        frame.loc[:, "surname"] = "=HYPERLINK(1)"
        frame["id"] = "@" + frame["id"]
        return frame

    rewrite("left.csv", formula)
    rewrite("known.csv", lambda frame: frame.assign(left="@" + frame["left"]))
    assert main([*LINK, "-o", "links.csv", "--review", "review.csv", "--accept", "0.9999"]) == 0
    for name in ("links.csv", "review.csv"):
        cells = pd.read_csv(name, dtype=str, keep_default_na=False)
        text = cells[
            [c for c in cells.columns if cells[c].str.contains("[a-df-z]").any()]
        ]  # not 1e-5
        assert not text.map(lambda cell: cell.startswith(("=", "+", "-", "@"))).any(axis=None)
        assert text.map(lambda cell: cell.startswith("'@")).any(axis=None)
    assert main(["link", "left.csv", "right.csv", "--known", "links.csv", "-o", "again.csv"]) == 0
    found, again = (pd.read_csv(name, dtype=str, keep_default_na=False) for name in RESULTS)
    decided = found["decision"].isin(["known", "link", "no partner"])
    assert (again["decision"] == "known").equals(decided)
    assert found[decided][["left", "right"]].equals(again[decided][["left", "right"]])


@pytest.mark.parametrize(
    ("written", "read"), [("'=a", "=a"), (" '-1 ", "-1"), ("'@x", "@x"), ("'+1", "+1"),
                          ("'a", "'a"), ("''=a", "''=a"), ("=a", "=a"), ("'", "'"), ("", "")],
)  # fmt: skip
def test_the_quote_before_a_formula_is_no_part_of_an_id(written, read):
    assert clean_ids(pd.Series([written])).tolist() == [read]


def test_parquet_and_standard_input(folder, capsys, monkeypatch):
    pytest.importorskip("pyarrow")
    pd.read_csv("right.csv", dtype=str, keep_default_na=False).to_parquet("right.parquet")
    text = (folder / "left.csv").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    known = ["--known", "known.csv", "--alpha", "0.1", "--quiet"]
    assert main(["link", "-", "right.parquet", *known, "-o", "links.parquet"]) == 0
    assert main([*LINK, "--quiet", "-o", "links.csv"]) == 0
    found, wanted = pd.read_parquet("links.parquet"), pd.read_csv("links.csv", dtype=str)
    assert found["left"].tolist() == wanted["left"].tolist()
    assert found["decision"].tolist() == wanted["decision"].tolist()
    assert main(["link", "-", "-", *known]) == 2


def test_parquet_columns_of_whole_numbers_and_dates_are_read_as_csv_writes_them(tmp_path):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(
        {
            "id": [12.0, np.nan],
            "size": [1.5, 2.0],
            "born": pd.to_datetime(["1990-02-03", None]),
            "member": [True, False],
            "count": [3, 4],
        }
    )
    frame.to_parquet(tmp_path / "a.parquet")
    frame.convert_dtypes().to_parquet(tmp_path / "b.parquet")
    for name in ("a.parquet", "b.parquet"):
        found = read_table(str(tmp_path / name))
        assert found.iloc[0].tolist() == ["12", "1.5", "1990-02-03", "True", "3"]
        assert found.iloc[1].tolist() == ["", "2.0", "", "False", "4"]


def test_a_closed_pipe_is_no_error(folder):
    program = "import sys; from mlestruct.cli import main; sys.exit(main(sys.argv[1:]))"
    with subprocess.Popen(
        [sys.executable, "-c", program, *LINK, "--quiet"], stdout=PIPE, stderr=PIPE
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_strict_wants_a_certificate(folder, capsys, monkeypatch):
    def stopped(self, model):
        adopt(self, model)
        self.converged_ = False

    adopt = RecordLinker._adopt
    monkeypatch.setattr(RecordLinker, "_adopt", stopped)
    assert main([*LINK, "-o", "links.csv", "--strict"]) == 3
    assert "NOT proven" in capsys.readouterr().err
    assert main([*LINK, "-o", "links.csv", "--quiet"]) == 0


def test_links_without_known_ones(folder, capsys):
    assert main(["link", "left.csv", "right.csv", "-o", "links.csv", "--json"]) == 0
    spoken = capsys.readouterr()
    summary = json.loads(spoken.out)
    assert summary["alpha"] is None
    assert 0.9 < summary["blocking_recall"] <= 1.0
    first = spoken.err.splitlines()[0]
    assert f"about {100 * summary['blocking_recall']:.1f} % of the links are among them" in first
    assert set(summary["cpu_seconds"]) >= {"finding candidates", "comparing pairs", "marginals"}
    assert 0.0 < summary["without_partner"] < 1.0
    assert f"about {100 * summary['without_partner']:.1f} % of all left records" in spoken.err
    assert "learned from the tables." in spoken.err
    truth = make_people(120, random_state=0)[2].set_index("left")["right"]
    links = pd.read_csv("links.csv", dtype=str, keep_default_na=False).set_index("left")
    links = links[links["decision"] == "link"]
    assert len(links) > 60
    assert (links["right"] == truth.reindex(links.index)).mean() > 0.97


def test_columns_of_ids_may_have_different_names(folder, capsys):
    assert main([*LINK, "-o", "links.csv", "--quiet"]) == 0
    wanted = Path("links.csv").read_text()
    rewrite("left.csv", lambda frame: frame.rename(columns={"id": "key"}))
    rewrite("right.csv", lambda frame: frame.rename(columns={"id": "number"}))
    named = ["--left-id", "key", "--right-id", "number"]
    assert main([*LINK, *named, "-o", "links.csv", "-m", "model.mls"]) == 0
    assert "Ids: key and number." in capsys.readouterr().err
    assert Path("links.csv").read_text() == wanted
    assert main([*MODEL, *named, "-o", "links.csv", "--quiet"]) == 0
    assert mlestruct.load("model.mls").ids_ == [("key", False), ("number", False)]
    rewrite("left.csv", lambda frame: frame.assign(id="x", house_id=frame.index % 3))
    ids = pd.read_csv("left.csv")["key"]
    assert main([*MODEL, "--quiet"]) == 0  # names are remembered
    assert (pd.read_csv(io.StringIO(capsys.readouterr().out))["left"] == ids).all()
    rewrite("left.csv", lambda frame: frame.assign(other="z" + frame["key"]))
    assert main([*MODEL, "--left-id", "other", "--quiet"]) == 0  # unless others are given
    assert (pd.read_csv(io.StringIO(capsys.readouterr().out))["left"] == "z" + ids).all()
    rewrite("left.csv", lambda frame: frame.drop(columns=["id", "house_id", "other"]))
    mixed = ["--id", "key", "--right-id", "number"]
    assert main([*LINK, *mixed, "-o", "links.csv", "--quiet"]) == 0
    assert Path("links.csv").read_text() == wanted
    assert main([*LINK, "--id", "key"]) == 1
    assert "right.csv: has no column 'key'; it has number, given_name" in capsys.readouterr().err
    assert main([*LINK, "--left-id", "key"]) == 1
    message = "right.csv: no column is called 'id' or '..._id'; name one with --right-id: number"
    assert message in capsys.readouterr().err
    assert main([*LINK, *named, "--id", "id"]) == 2
    assert "--id: does nothing beside --left-id and --right-id" in capsys.readouterr().err


def test_records_known_to_have_no_partner_are_learned_from(folder, capsys):
    rewrite("known.csv", lambda f: pd.concat([f, pd.DataFrame({"left": ["a119"], "right": [""]})]))
    assert main([*LINK, "-o", "links.csv", "-m", "model.mls"]) == 0
    spoken = capsys.readouterr().err
    assert "should be right, if about 1.6 % of all left records have no partner" in spoken  # 1 / 61
    assert mlestruct.load("model.mls").single_share_ == pytest.approx(1 / 61)
    links = pd.read_csv("links.csv", dtype=str, keep_default_na=False).set_index("left")
    assert links.loc["a119", ["right", "decision"]].tolist() == ["", "known"]


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (["-o", "nowhere/links.csv"], "nowhere does not exist"),
        (["-o", "links.csv", "-m", "nowhere/model.mls"], "nowhere does not exist"),
        (["-o", "links.csv", "--review", "links.csv"], "--review: links.csv is the file of -o"),
        (["-o", "links.csv", "-m", "./links.csv"], "-m: ./links.csv is the file of -o, too"),
        (["-o", "left.csv"], "-o: left.csv is an input, too; name another file"),
        (["-o", "."], "is not a regular file"),
    ],
)
def test_outputs_are_checked_before_any_work(folder, capsys, monkeypatch, outputs, message):
    monkeypatch.setattr(RecordLinker, "fit", None)
    assert main([*LINK, *outputs]) == (2 if message.startswith("-") else 1)
    assert message in capsys.readouterr().err


def test_an_interrupted_write_leaves_the_old_table(folder, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    (folder / "links.csv").write_text("old")
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match=r"cannot write .*links.csv: No space left on device"):
        write_table(pd.DataFrame({"a": ["1"]}), "links.csv")
    assert (folder / "links.csv").read_text() == "old"
    assert not list(folder.glob(".*"))


def test_standard_output_is_utf_8_in_every_locale(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", stream)
    write_table(pd.DataFrame({"name": ["Zoë"]}), "-")
    assert stream.buffer.getvalue().decode() == "name\nZoë\n"


@pytest.mark.skipif(sys.platform == "win32", reason="devices of POSIX")
def test_tables_go_to_devices():
    write_table(pd.DataFrame({"name": ["a"]}), "/dev/null")


def test_tables_without_a_column_of_the_model_are_named(folder, capsys):
    assert main([*LINK, "-o", "links.csv", "-m", "model.mls", "--quiet"]) == 0
    rewrite("right.csv", lambda frame: frame.drop(columns="town"))
    assert main(["link", "left.csv", "right.csv", "-m", "model.mls"]) == 1
    assert "left.csv, right.csv: the right table has no column 'town'" in capsys.readouterr().err


def test_seeds_are_not_negative(folder, capsys):
    for command in (LINK, ["demo"]):
        with pytest.raises(SystemExit) as stopped:
            main([*command, "--seed", "-1"])
        assert stopped.value.code == 2
        assert "argument --seed: invalid seed value: '-1'" in capsys.readouterr().err


def test_headers_are_taken_as_they_are(tmp_path):
    (tmp_path / "a.csv").write_text(",house_id,x,x.1,ID,\n0,7,a,b,1,\n\n1,7,c,d,2,\n,,,,,\n")
    table = index_by_id(read_table(str(tmp_path / "a.csv")), "a.csv", None)
    assert table.columns.tolist() == ["house_id", "x", "x.1"]  # not those without a name
    assert table.index.tolist() == ["1", "2"]
    assert table.to_numpy().tolist() == [["7", "a", "b"], ["7", "c", "d"]]


def test_rows_of_links_are_counted_with_empty_ones(folder, capsys):
    (folder / "known.csv").write_text("left,right\na0,b0\n\n,\na1,b1\nnobody,b2\n")
    assert main([*LINK, "-o", "links.csv"]) == 1
    assert "known.csv, row 6: the left table has no id 'nobody'" in capsys.readouterr().err


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252"])
def test_spreadsheets_write_other_separators_and_encodings(folder, separator, encoding):
    def umlauts(frame):
        return frame.assign(town="Zoë, " + frame["town"])

    rewrite("left.csv", umlauts)
    assert main([*LINK, "-o", "links.csv", "--quiet"]) == 0
    frame = pd.read_csv("left.csv", dtype=str, keep_default_na=False)
    frame.to_csv("left.csv", index=False, sep=separator, encoding=encoding)
    assert main([*LINK, "-o", "again.csv", "--encoding", "cp1252", "--quiet"]) == 0
    assert Path("again.csv").read_text() == Path("links.csv").read_text()
    assert main([*LINK, "-o", "again.csv", "--encoding", "martian"]) == 2


def test_the_index_of_a_parquet_file_may_have_the_ids(tmp_path):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"size": [1e300, 2.0]}, index=pd.Index([7, 8], name="id"))
    frame.to_parquet(tmp_path / "a.parquet")
    assert read_table(str(tmp_path / "a.parquet")).to_numpy().tolist() == [
        ["7", "1e+300"],
        ["8", "2.0"],
    ]


def test_the_examples_of_the_help_work_in_order(folder, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["link", "--help"])
    assert stopped.value.code == 0
    assert EXAMPLES in capsys.readouterr().out
    lines = [line.split()[1:] for line in EXAMPLES.splitlines() if line.startswith("  mlestruct ")]
    assert len(lines) == 3
    for arguments in lines:
        assert main([*arguments, "--quiet"]) == 0, (arguments, capsys.readouterr().err)
        assert capsys.readouterr().err == ""
    for name in ("links.csv", "review.csv", "page.html"):
        assert (folder / name).stat().st_size > 50
