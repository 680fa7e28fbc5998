"""What `python -m reproduction` does with any experiment: keep parts, resume, write, show."""

import csv
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure

import reproduction.__main__ as command
from reproduction import NAMES
from reproduction.runner import (
    HEADINGS,
    OPEN,
    SMOKE_TEST,
    VERDICTS,
    Claim,
    Comparison,
    Picture,
    Report,
    SettingError,
    Table,
    grid,
    is_less,
    plain,
    reproduce,
    shown,
    sign_beyond_spread,
    summary,
    write_manifest,
)

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "reproduction" / "results"


def squares(numbers=(1, 2, 3), broken=None, error=KeyboardInterrupt):
    """An experiment that counts its `calls`; the part of the number `broken` raises an error."""
    calls = []

    def square(k):
        calls.append(k)
        if k == broken:
            raise error("out of luck")
        return {"square": np.float64(k * k), "row": np.arange(k)}

    def report(setting, found):
        rows = [[k, found[f"square of {k}"]["square"]] for k in setting["numbers"]]
        figure = Figure(figsize=(2, 2))
        figure.subplots().plot([square for _, square in rows])
        return Report(
            [Table("squares", "all squares", ["number", "square"], rows)],
            [Claim("squares grow", rows == sorted(rows), "three of them"),
             Claim("nobody knows", None, "nothing", "no data"),
             Claim("cubes grow", True, "all", whose="ours")],
            [Picture("curve", "squares", figure)],
            [Comparison("square of 2", 3.0, rows[1][1], (2.0, 5.0), "they round")],
            [f"The sum is {sum(square for _, square in rows):g}."],
        )  # fmt: skip

    return SimpleNamespace(
        TITLE="squares",
        PLACE="nowhere",
        SOLVERS="multiplication.",
        calls=calls,
        setting=lambda quick: {"data": "made up", "numbers": numbers, "quick": quick},
        parts=lambda setting: {f"square of {k}": lambda k=k: square(k) for k in setting["numbers"]},
        report=report,
    )


# ---------------------------------------------------------------------- running
def test_an_experiment_leaves_numbers_tables_and_pictures(tmp_path):
    record = reproduce("squares", squares(), tmp_path)
    folder = tmp_path / "squares"
    assert json.loads((folder / "squares.json").read_text()) == record
    with (folder / "squares.csv").open(newline="") as stream:
        assert list(csv.reader(stream)) == [["number", "square"], ["1", "1.0"], ["2", "4.0"],
                                            ["3", "9.0"]]  # fmt: skip
    assert (folder / "curve.png").read_bytes()[:4] == b"\x89PNG"
    assert record["tables"][0]["rows"] == [[1, 1.0], [2, 4.0], [3, 9.0]]
    assert record["made"]["numpy"] == np.__version__
    assert re.fullmatch(r"[0-9a-f]{7,}\+?|unknown", record["made"]["commit"])
    text = shown(record)
    assert "The sum is 14." in text
    assert "| squares | squares grow | holds | three of them |" in text
    assert "| squares | nobody knows | not decided here: no data | nothing |" in text
    assert re.search(r"\| square of 2 +\| +\| 3 +\| 4 +\| 2 to 5 +\| they round", text)


def test_a_run_resumes_where_it_was_interrupted(tmp_path):
    first = squares(broken=3)
    with pytest.raises(KeyboardInterrupt):
        reproduce("squares", first, tmp_path)
    assert first.calls == [1, 2, 3]
    second, third, fresh = squares(), squares(), squares()
    resumed = reproduce("squares", second, tmp_path)
    assert second.calls == [3]
    assert reproduce("squares", third, tmp_path) == resumed
    assert third.calls == []
    reproduce("squares", fresh, tmp_path, fresh=True)
    assert fresh.calls == [1, 2, 3]


def test_results_of_another_setting_are_neither_mixed_nor_lost(tmp_path):
    reproduce("squares", squares(), tmp_path)
    with pytest.raises(SettingError, match=r"another setting \(numbers differ\).*--fresh"):
        reproduce("squares", squares(numbers=(1, 2)), tmp_path)
    with pytest.raises(SettingError, match="quick differ"):
        reproduce("squares", squares(), tmp_path, quick=True)
    assert len(list((tmp_path / "squares" / "parts").glob("square*.json"))) == 3


def test_quick_runs_judge_nothing(tmp_path):
    record = reproduce("squares", squares(), tmp_path, quick=True)
    assert record["claims"] == record["comparisons"] == []
    assert SMOKE_TEST in shown(record)


def test_generated_data_decide_no_claim_of_the_paper(tmp_path):
    experiment = squares()
    made = experiment.setting
    experiment.setting = lambda quick: made(quick) | {"why": "the real ones are secret"}
    record = reproduce("squares", experiment, tmp_path)
    verdicts = {one["sentence"]: one["verdict"] for one in record["claims"]}
    assert verdicts == {"squares grow": OPEN, "nobody knows": OPEN, "cubes grow": "holds"}
    assert HEADINGS["stand-in"] in shown(record)


def test_differences_within_their_spread_have_no_sign():
    assert sign_beyond_spread([1.0, 1.1, 0.9], independent=False) == 1
    assert sign_beyond_spread([-1.0, -2.5], independent=False) == -1
    assert sign_beyond_spread([-1.0, -4.0], independent=False) is None
    assert sign_beyond_spread([1.0, 1.1, -0.9], independent=False) is None
    assert sign_beyond_spread([1.0], independent=True) is None
    noise = np.random.default_rng(0).normal(size=100)
    assert sign_beyond_spread(noise - noise.mean() + 0.15, independent=True) is None
    assert sign_beyond_spread(noise - noise.mean() + 0.25, independent=True) == 1
    assert is_less([1.0, 2.0], [3.0, 4.0], independent=True)


def test_the_manifest_tells_versions_and_hours(tmp_path):
    reproduce("rho", squares(), tmp_path)
    part = tmp_path / "rho" / "parts" / "square of 2.json"
    older = json.loads(part.read_text())
    older["made"]["commit"] = "0123456"
    part.write_text(json.dumps(older))
    reproduce("rho", squares(), tmp_path)
    write_manifest(tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert "0123456; " in manifest["commit"]  # of two versions
    assert manifest["experiments"]["rho"]["hours"] == pytest.approx(manifest["hours"], abs=0.01)


def test_a_grid_has_a_part_for_each_combination():
    parts = grid(lambda setting, gap, rho: 2 * gap * rho, {}, gap=[1, 3], rho=[0.5, 1.0])
    assert {name: work() for name, work in parts.items()} == {
        "gap 1, rho 0.5": 1.0, "gap 1, rho 1.0": 2.0,
        "gap 3, rho 0.5": 3.0, "gap 3, rho 1.0": 6.0,
    }  # fmt: skip


def test_arrays_and_numbers_that_are_not_finite_become_plain():
    assert plain({1: (np.arange(2), np.float32(0.5), float("nan"), None, np.bool_(True))}) == {
        "1": [[0, 1], 0.5, None, None, True]
    }


def test_control_c_is_not_taken_for_a_result(tmp_path):
    """Estimators answer Ctrl-C with the best model so far; the part must not be kept."""
    code = f"""
import sys
sys.path[:0] = [{str(ROOT)!r}, {str(Path(__file__).parent)!r}]
from pathlib import Path
from test_runner import squares
from reproduction.runner import reproduce

def patient():
    try:
        print("ready", flush=True)
        while True:
            pass
    except KeyboardInterrupt:
        return -1.0

experiment = squares()
parts = experiment.parts
experiment.parts = lambda setting: parts(setting) | {{"square of 2": patient}}
try:
    reproduce("squares", experiment, Path({str(tmp_path)!r}))
except KeyboardInterrupt:
    sys.exit(130)
"""
    running = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert any(line.endswith("ready\n") for line in running.stdout)
    time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    assert running.wait(timeout=30) == 130
    kept = {file.name for file in (tmp_path / "squares" / "parts").iterdir()}
    assert kept == {"setting.json", "square of 1.json"}


# ---------------------------------------------------------------------- the command
def test_one_failure_does_not_stop_the_others(tmp_path, capsys, monkeypatch):
    made = {"rho": squares(broken=2, error=RuntimeError), "horses": squares()}
    monkeypatch.setattr(command, "load", made.__getitem__)
    assert command.main(["rho", "horses", "--out", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert "failed: rho: RuntimeError: out of luck" in printed.err
    assert (tmp_path / "horses" / "horses.json").is_file()
    made["rho"] = squares()
    assert command.main(["rho", "horses", "--out", str(tmp_path)]) == 0
    assert made["rho"].calls == [2, 3]


def test_names_are_listed_and_checked(tmp_path, capsys):
    assert command.main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(NAMES)
    for wrong, message in (
        (["horse"], "no experiment 'horse'. Did you mean 'horses'?"),
        ([], "name an experiment"),
        (["rho", "--data", str(tmp_path / "none")], "does not exist"),
    ):
        assert command.main([*wrong, "--out", str(tmp_path / "x")]) == 2
        printed = capsys.readouterr().err
        assert message in printed
        assert printed.count("\n") == 1
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("quick", [True, False])
def test_names_of_parts_are_names_of_files(name, quick):
    experiment = command.load(name)
    setting = plain(experiment.setting(quick))
    names = list(experiment.parts(setting))
    assert all(re.fullmatch(r"[\w ,.=+-]+", part) for part in names)
    assert len({part.lower() for part in names}) == len(names)


# ---------------------------------------------------------------------- the records
NUMBER = re.compile(r"(?<![\w.-])-?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?%?")


def numbers_in(value):
    """All numbers of a record, those in its texts as well."""
    if isinstance(value, str):
        return [float(text.replace(",", "").rstrip("%")) for text in NUMBER.findall(value)]
    if isinstance(value, list | dict):
        items = value.values() if isinstance(value, dict) else value
        return [number for item in items for number in numbers_in(item)]
    return [] if value is None else [float(value)]


README = (ROOT / "reproduction" / "README.md").read_text()


def record_of(name):
    return json.loads((RECORDS / name / f"{name}.json").read_text())


@pytest.mark.parametrize("name", NAMES)
def test_numbers_of_the_page_are_those_of_the_record(name):
    record = record_of(name)
    assert not record["quick"]
    known = np.array(numbers_in(record))
    section = README.partition(f"\n### {name}\n")[2].partition("\n### ")[0]
    found = NUMBER.findall(section)
    assert found
    for printed in found:
        value = float(printed.replace(",", "").rstrip("%"))
        scale = 100.0 if printed.endswith("%") else 1.0
        digit = 10.0 ** -len(printed.rstrip("%").partition(".")[2])
        near = [np.abs(factor * known - value).min() for factor in {1.0, scale}]
        assert min(near) <= 0.5001 * digit, printed


def test_records_are_shown_and_the_page_has_their_claims(capsys):
    assert command.main(["--show"]) == 0
    table = capsys.readouterr().out
    assert table == summary([record_of(name) for name in NAMES]) + "\n"
    assert table in README
    assert command.main(["rho", "--show"]) == 0
    assert "| house, gap 50, rho = 0.5: loss" in capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
def test_no_verdict_on_generated_data(name):
    record = record_of(name)
    stand_in = "why" in record["setting"]
    for claim in record["claims"]:
        assert claim["verdict"] in VERDICTS
        assert (claim["verdict"] == OPEN) == bool(claim["reason"])
        if stand_in and claim["whose"] == "paper":
            assert claim["verdict"] == OPEN
