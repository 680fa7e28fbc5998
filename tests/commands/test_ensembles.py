"""`mlestruct ensembles`: from a recording to tables and pictures."""

import csv
import json

import numpy as np
import pytest

from mlestruct import load
from mlestruct.cli import main
from mlestruct.datasets import make_spikes

DATA = make_spikes(16, 900, 1, 6, random_state=0)


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("mouse.npz", data=DATA.spikes, stimuli=DATA.stimuli, coords=DATA.coords)
    return "mouse.npz"


def test_a_recording_becomes_a_folder(file, tmp_path, capsys):
    assert main(["ensembles", file, "--shuffles", "6", "--json"]) == 0
    spoken = capsys.readouterr()
    assert "900 frames of 16 neurons, 1 stimuli" in spoken.err
    summary = json.loads(spoken.out)
    assert sorted(summary["ensembles"][0]) == DATA.ensembles[0].tolist()
    folder = tmp_path / "mouse-ensembles"
    with (folder / "ensembles.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    members = [int(row["neuron"]) for row in rows if row["member"] == "True"]
    assert members == DATA.ensembles[0].tolist()
    assert len(load(folder / "model.mls").edges_) == summary["couplings"]
    for name in ("couplings", "raster", "roc"):
        assert (folder / f"{name}.png").stat().st_size > 5_000


def test_selection_goes_on_where_it_stopped(file, tmp_path, capsys):
    command = ["ensembles", file, "--select", "--shuffles", "2", "-o", "out"]
    assert main(command) == 0
    assert "chosen of 20 models" in capsys.readouterr().err
    stored = (tmp_path / "out" / "selection.jsonl").read_text()
    assert main([*command, "--quiet"]) == 0
    assert (tmp_path / "out" / "selection.jsonl").read_text() == stored
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("contents", "options", "message"),
    [
        ({"spikes": DATA.spikes}, [], "no stimuli"),
        ({"other": DATA.spikes}, [], "activity should be named"),
        ({"data": DATA.spikes[:1], "stimuli": DATA.stimuli[:1]}, ["--time-span", "2"], "too few"),
    ],
)
def test_errors_name_the_file(contents, options, message, file, capsys):
    np.savez("bad.npz", **contents)
    assert main(["ensembles", "bad.npz", *options]) == 1
    spoken = capsys.readouterr().err
    assert message in spoken
    assert "bad.npz" in spoken
    assert main(["ensembles", "missing.mat"]) == 1
    assert "does not exist" in capsys.readouterr().err


@pytest.mark.parametrize(
    "option",
    [["--fdr", "2"], ["--alpha", "0"], ["--density", "3"], ["--shuffles", "0"], ["--jobs", "0"]],
)
def test_options_out_of_range(option, file, capsys):
    assert main(["ensembles", file, *option]) == 2
    assert option[0] in capsys.readouterr().err


def test_what_select_chooses_is_not_given(file, capsys):
    assert main(["ensembles", file, "--select", "--density", "0.1"]) == 2
    assert "--density: --select chooses it" in capsys.readouterr().err
