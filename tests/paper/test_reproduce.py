"""What `mlestruct reproduce` does with any experiment: keep parts, go on, compare, show."""

import base64
import csv
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from mlestruct.cli import main
from mlestruct.paper import command
from mlestruct.paper.catalogue import NAMES, load
from mlestruct.paper.contract import (
    Claim,
    Comparison,
    Experiment,
    Outcome,
    Picture,
    ReproductionError,
    Table,
)
from mlestruct.paper.document import (
    NOTES,
    counted,
    difference,
    markdown,
    read_records,
    shown,
    shown_column,
    table,
    write_markdown,
)
from mlestruct.paper.parts import Part, grid
from mlestruct.paper.runner import reproduce
from mlestruct.paper.store import Store, file_name, plain

CAPTION = "squares & <roots>"


class Squares(Experiment):
    """Counts how often each part was computed; `broken` raises in the part of that number."""

    name = "synthetic"  # a name that pages know
    title = "squares"
    place = "nowhere"
    solvers = "multiplication."

    def __init__(self, numbers=(1, 2, 3), broken=None):
        self.numbers, self.broken, self.calls = numbers, broken, []

    def setting(self, quick):
        return {"numbers": self.numbers, "quick": quick}

    def parts(self, setting):
        return [Part(f"square of {k}", lambda k=k: self.square(k)) for k in setting["numbers"]]

    def square(self, k):
        self.calls.append(k)
        if k == self.broken:
            raise KeyboardInterrupt
        return {"square": np.float64(k * k), "row": np.arange(k)}

    def outcome(self, setting, found):
        squares = [found[f"square of {k}"]["square"] for k in setting["numbers"]]
        figure = Figure(figsize=(2, 2))
        figure.subplots().plot(squares)
        rows = [[k, square] for k, square in zip(setting["numbers"], squares, strict=True)]
        return Outcome(
            ["The sum is " + shown(float(sum(squares)))],
            [Table("squares", "all squares", ["number", "square"], rows)],
            [Picture("curve", CAPTION, figure), Picture("secret", "data", figure, shows_data=True)],
            [Comparison("square of 1", 1.0, squares[0], digit=0.1, note="they round"),
             Comparison("square of 2", 3.0, squares[1], spread=(2.0, 5.0))],
            [Claim("squares grow", squares == sorted(squares), "three of them"),
             Claim("nobody knows", None, "no data"), Claim("cubes grow", True, "all", "ours")],
        )  # fmt: skip


# ---------------------------------------------------------------------- running
def test_an_experiment_leaves_numbers_tables_and_pictures(tmp_path):
    record = reproduce(Squares(), tmp_path)
    folder = tmp_path / "synthetic"
    assert json.loads((folder / "synthetic.json").read_text()) == record
    assert record["summary"] == ["The sum is 14"]
    with (folder / "squares.csv").open(newline="") as stream:
        assert list(csv.reader(stream)) == [["number", "square"], ["1", "1.0"], ["2", "4.0"],
                                            ["3", "9.0"]]  # fmt: skip
    assert record["tables"][0]["rows"] == [[1, 1.0], [2, 4.0], [3, 9.0]]
    for picture in record["pictures"]:
        assert (folder / picture["file"]).read_bytes()[:4] == b"\x89PNG"
    assert record["environment"]["numpy"] == np.__version__
    assert record["seconds"] >= 0.0
    assert [one["holds"] for one in record["claims"]] == [True, None, True]
    assert record["solvers"] == "multiplication."
    assert record["parts"]["number"] == 3
    assert record["parts"]["first finished"] <= record["parts"]["last finished"]


def test_a_run_goes_on_where_it_was_interrupted(tmp_path):
    first = Squares(broken=3)
    with pytest.raises(KeyboardInterrupt):
        reproduce(first, tmp_path)
    assert first.calls == [1, 2, 3]
    second = Squares()
    record = reproduce(second, tmp_path)
    assert second.calls == [3]
    assert record["summary"] == ["The sum is 14"]
    third = Squares()
    reproduce(third, tmp_path)
    assert third.calls == []
    fresh = Squares()
    reproduce(fresh, tmp_path, fresh=True)
    assert fresh.calls == [1, 2, 3]


def test_results_are_the_same_whether_computed_or_kept(tmp_path):
    first, second = (reproduce(Squares(), tmp_path) for _ in range(2))
    assert first == second


def test_results_of_another_setting_are_neither_mixed_nor_lost(tmp_path):
    reproduce(Squares(), tmp_path)
    with pytest.raises(ReproductionError, match=r"numbers: \[1, 2, 3\] there, \[1, 2\] wanted"):
        reproduce(Squares(numbers=(1, 2)), tmp_path)
    with pytest.raises(ReproductionError, match="quick: false there, true wanted"):
        reproduce(Squares(), tmp_path, quick=True)
    assert len(list((tmp_path / "synthetic" / "parts").glob("*.json"))) == 3
    again = reproduce(Squares(numbers=(1, 2)), tmp_path, fresh=True)
    assert again["summary"] == ["The sum is 5"]


def test_a_damaged_part_is_named(tmp_path):
    reproduce(Squares(), tmp_path)
    file = tmp_path / "synthetic" / "parts" / "square_of_2.json"
    file.write_text(file.read_text()[:40])
    with pytest.raises(ReproductionError, match=r"square_of_2\.json cannot be read.*--fresh"):
        reproduce(Squares(), tmp_path)


def test_parts_and_rows_are_checked(tmp_path):
    class Twice(Squares):
        def parts(self, setting):
            return [Part("a b", lambda: 1), Part("a_b", lambda: 2)]

    class Ragged(Squares):
        def outcome(self, setting, found):
            return Outcome([], [Table("t", "t", ["a", "b"], [[1, 2], [3]])], [])

    with pytest.raises(ValueError, match="different names, got a_b twice"):
        reproduce(Twice(), tmp_path / "twice")
    with pytest.raises(ValueError, match="table 't': a row has 1 cells under 2 heads"):
        reproduce(Ragged(), tmp_path / "ragged")


def test_a_grid_has_a_part_for_each_combination():
    def work(setting, gap, rho):
        return setting["scale"] * gap * rho

    parts = grid(work, {"scale": 2}, gap=[1, 3], rho=[0.5, 1.0])
    assert [(part.name, part.work()) for part in parts] == [
        ("gap 1, rho 0.5", 1.0), ("gap 1, rho 1.0", 2.0),
        ("gap 3, rho 0.5", 3.0), ("gap 3, rho 1.0", 6.0),
    ]  # fmt: skip


def test_only_plain_data_is_kept(tmp_path):
    assert plain({1: (np.arange(2), np.float32(0.5), float("nan"), None, True)}) == {
        "1": [[0, 1], 0.5, None, None, True]
    }
    store = Store(tmp_path, {})
    with pytest.raises(TypeError, match="plain data, got object"):
        store.keep(Part("a", int), object(), 0.0)
    assert list(tmp_path.rglob("*.json")) == []


@given(st.text())
def test_file_names_are_harmless(text):
    assert re.fullmatch(r"[A-Za-z0-9.=+_-]+", file_name(text))
    assert "/" not in file_name(text)


def test_control_c_is_not_taken_for_a_result(tmp_path):
    """Estimators answer Ctrl-C with the best model so far; the part must not be kept."""
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from test_reproduce import Squares
from mlestruct.paper.runner import reproduce

class Patient(Squares):
    def square(self, k):
        if k == 2:
            try:
                print("ready", flush=True)
                while True:
                    pass
            except KeyboardInterrupt:
                return {{"square": -1.0}}
        return super().square(k)

try:
    reproduce(Patient(), Path({str(tmp_path)!r}))
except KeyboardInterrupt:
    sys.exit(130)
"""
    running = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    assert running.stdout.readline().strip() == "ready"
    time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    assert running.wait(timeout=30) == 130
    kept = [file.name for file in (tmp_path / "synthetic" / "parts").iterdir()]
    assert kept == ["square_of_1.json"]


# ---------------------------------------------------------------------- comparing
@given(st.floats(0, 1), st.floats(0, 1), st.sampled_from(["lower", "higher"]), st.floats(1e-4, 0.1))
def test_comparisons_know_the_better(published, ours, better, digit):
    one = Comparison("x", published, ours, better, digit)
    if abs(published - ours) <= digit / 2:
        assert one.verdict == "equal"
    else:
        assert (one.verdict == "better") == ((ours < published) == (better == "lower"))


def test_differences_in_words():
    def said(*fields, **more):
        one = Comparison("x", *fields, **more)
        return difference(vars(one) | {"verdict": one.verdict})

    assert said(0.1, None) == "not measured"
    assert said(0.1, 0.3, note="noise") == "worse by 0.2; noise"
    assert said(0.1, 0.3, spread=(0.0, 0.4)) == "worse by 0.2; published value within the range"
    assert said(0.1, 0.3, better="none", note="other data") == "other data"
    assert said(0.1, 0.1001, digit=0.01) == "equal in the published digits"


def test_counting_is_of_ours_alone():
    kinds = (("better", "ours"), ("worse", "rival"), ("better", "ours"), ("equal", "ours"))
    made = [{"verdict": verdict, "whose": whose, "protocol": ""} for verdict, whose in kinds]
    assert counted(made) == "2 better, 1 equal"
    assert counted([]) == "not compared"


def test_protocols_are_counted_apart():
    kinds = (("better", "a"), ("worse", "b"), ("better", "a"), ("equal", "b"))
    made = [{"verdict": verdict, "whose": "ours", "protocol": p} for verdict, p in kinds]
    assert counted(made) == "a: 2 better; b: 1 equal, 1 worse"


def test_claims_of_the_paper_are_told_once_and_apart_from_ours(tmp_path):
    reproduce(Squares(), tmp_path)
    text = markdown(tmp_path)
    assert text.count("squares grow") == 1
    assert "Of 2 claims of the paper 1 hold, 1 cannot be judged." in text
    assert "| nobody knows | not judged | no data " in text
    claims, _, rest = text.partition("**Beyond the paper's claims**")
    assert "cubes grow" not in claims
    assert "* **yes**: cubes grow (all)" in rest
    assert "Solvers: multiplication." in text


def test_tables_are_aligned():
    lines = table(["a", "long head"], [["x|y", 1.0], ["yy", 12345.678]]).splitlines()
    assert lines == [
        "| a    | long head |", "| ---- | --------: |",
        "| x\\|y |         1 |", "| yy   | 1.235e+04 |",
    ]  # fmt: skip
    assert shown_column([1.25, 12.0, None]) == ["1.25", "12.00", shown(None)]
    assert shown(None) != shown(0.0)


# ---------------------------------------------------------------------- showing
def test_markdown_ships_no_pictures_of_real_data(tmp_path):
    out, file = tmp_path / "out", tmp_path / "docs" / "reproduction.md"
    mine = tmp_path / "docs" / "reproduction" / "holiday" / "photo.png"
    mine.parent.mkdir(parents=True)
    mine.write_bytes(b"mine")
    reproduce(Squares(), out)
    write_markdown(out, file)
    notes = tmp_path / "docs" / "reproduction" / "synthetic" / NOTES
    notes.write_text("By hand.\n")
    write_markdown(out, file)
    assert mine.read_bytes() == b"mine"
    mine.unlink()
    text = file.read_text()
    assert "\nBy hand.\n" in text
    shipped = sorted(path.name for path in (tmp_path / "docs" / "reproduction").rglob("*.png"))
    assert shipped == ["curve.png"]
    assert "(reproduction/synthetic/curve.png)" in text
    assert "secret.png" in text
    assert "| square of 1 | 1.0       | 1    |" in text
    assert text == markdown(tmp_path / "docs" / "reproduction")


# ---------------------------------------------------------------------- the command
@pytest.fixture
def catalogue(monkeypatch):
    """Two experiments, of which the second may fail."""

    class Failing(Squares):
        name = "rho"

        def square(self, k):
            raise RuntimeError("out of luck")

    made = {"synthetic": Squares, "rho": Failing}
    monkeypatch.setattr(command, "NAMES", tuple(made))
    monkeypatch.setattr(command, "load", lambda name: made[name]())


@pytest.mark.usefixtures("catalogue")
def test_one_failure_does_not_stop_the_others(tmp_path, capsys):
    assert main(["reproduce", "all", "--out", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert "rho failed: RuntimeError: out of luck" in printed.err
    assert "| squares grow | yes        | three of them |" in printed.out
    page = (tmp_path / "index.html").read_text()
    assert "out of luck" in page
    assert "The sum is 14" in page
    pictures = re.findall(r'src="data:image/png;base64,([^"]*)"', page)
    secret = (tmp_path / "synthetic" / "secret.png").read_bytes()  # at home data may be seen
    assert secret in [base64.b64decode(picture) for picture in pictures]
    assert "http://" not in page
    assert "https://" not in page
    assert not re.findall(r'(?:src|href)="(?!data:|#)', page)


@pytest.mark.usefixtures("catalogue")
def test_the_command_writes_everything(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "synthetic", "--quick", "--markdown", "doc.md", "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert (tmp_path / "reproduction-quick" / "index.html").is_file()
    assert (tmp_path / "doc.md").is_file()
    assert main(["reproduce", "synthetic", "--out", "reproduction-quick"]) == 1
    assert "another setting" in capsys.readouterr().err


def test_names_are_listed_and_checked(tmp_path, capsys):
    assert main(["reproduce", "--list"]) == 0
    listed = capsys.readouterr().out
    assert [line.split()[0] for line in listed.splitlines()] == list(NAMES)
    assert main(["reproduce"]) == 1
    assert "horses" in capsys.readouterr().err
    assert main(["reproduce", "horse", "--out", str(tmp_path / "x")]) == 1
    assert "no experiment 'horse': did you mean 'horses'?" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


@pytest.mark.usefixtures("catalogue")
def test_results_are_safe_from_the_markdown_file(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, told in (("reproduction.md", "is the folder of results"), ("doc", "needs an ending"),
                       ("none/doc.md", "does not exist")):  # fmt: skip
        assert main(["reproduce", "synthetic", "--markdown", name]) == 1
        assert told in capsys.readouterr().err


@pytest.mark.usefixtures("catalogue")
def test_a_damaged_record_is_named(tmp_path, capsys):
    out = str(tmp_path)
    assert main(["reproduce", "synthetic", "--quiet", "--out", out]) == 0
    (tmp_path / "synthetic" / "synthetic.json").write_text("{")
    with pytest.raises(ReproductionError, match=r"synthetic\.json cannot be read"):
        read_records(tmp_path)
    assert main(["reproduce", "synthetic", "--quiet", "--out", out]) == 0  # written anew
    assert capsys.readouterr().err == ""


def test_data_that_is_not_there_is_told_first(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("MLESTRUCT_DATA", str(tmp_path / "none"))
    assert main(["reproduce", "rho", "--out", str(tmp_path / "out")]) == 1
    assert "MLESTRUCT_DATA" in capsys.readouterr().err
    monkeypatch.setenv("MLESTRUCT_DATA", "")
    assert load("rho").setting(False)["data"] == "generated"


def test_places_that_cannot_be_written_to_are_told_first(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["reproduce", "rho", "--quick", "--out", str(tmp_path / "file" / "x")]) == 1
    assert "--out: cannot write to" in capsys.readouterr().err
    assert main(["reproduce", "rho", "--quick", "--out", str(tmp_path / "file")]) == 1
    assert "is a file, not a folder" in capsys.readouterr().err
    assert main(["reproduce", "rho", "--data", str(tmp_path / "none")]) == 1
    assert "--data:" in capsys.readouterr().err


def test_the_budget_is_part_of_the_setting(tmp_path, capsys):
    experiment = load("horses")
    experiment.budget = 7.0
    setting = experiment.setting(True)
    assert setting["budget"] == setting["moments"][-1] == 7.0
    assert main(["reproduce", "horses", "--budget", "-1", "--out", str(tmp_path / "x")]) == 1
    assert "--budget: expected seconds above 0, got -1" in capsys.readouterr().err


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_can_be_loaded(name):
    experiment = load(name)
    assert experiment.name == name
    assert experiment.solvers
    for quick in (True, False):
        setting = plain(experiment.setting(quick))
        json.dumps(setting)
        parts = experiment.parts(setting)
        files = [file_name(part.name) for part in parts]
        assert len(set(files)) == len(files) > 0


# ---------------------------------------------------------------------- the documentation
DOCS = Path(__file__).parents[2] / "docs" / "reproduction"
NUMBER = re.compile(r"(?<![\w.-])-?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?%?")


def test_the_documentation_is_made_from_its_records():
    records = read_records(DOCS)
    assert [record["name"] for record in records] == list(NAMES)
    assert not any(record["quick"] for record in records)
    assert DOCS.with_suffix(".md").read_text(encoding="utf-8") == markdown(DOCS)


def numbers_in(value):
    """All numbers of a record, those in its texts as well."""
    if isinstance(value, str):
        return [float(text.replace(",", "").rstrip("%")) for text in NUMBER.findall(value)]
    if isinstance(value, list | dict):
        items = value.values() if isinstance(value, dict) else value
        return [number for item in items for number in numbers_in(item)]
    return [] if value is None else [float(value)]


@pytest.mark.parametrize("name", NAMES)
def test_numbers_written_by_hand_are_those_of_the_record(name):
    record = json.loads((DOCS / name / f"{name}.json").read_text())
    known = np.array(numbers_in(record))
    text = (DOCS / name / NOTES).read_text()
    found = NUMBER.findall(text)
    assert found
    for printed in found:
        value = float(printed.replace(",", "").rstrip("%"))
        scale = 100.0 if printed.endswith("%") else 1.0
        digit = 10.0 ** -len(printed.rstrip("%").partition(".")[2])
        near = [np.abs(factor * known - value).min() for factor in {1.0, scale}]
        assert min(near) <= 0.5001 * digit, printed


def test_what_is_worse_or_does_not_hold_is_explained():
    for record in read_records(DOCS):
        worse = [one for one in record["comparisons"] if one["verdict"] == "worse"]
        if worse or any(one["holds"] is False for one in record["claims"]):
            assert len((DOCS / record["name"] / NOTES).read_text()) > 200, record["name"]
