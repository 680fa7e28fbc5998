"""The grid of Ising models: scores, resuming, the same frames for all time spans."""

import json

import numpy as np
import pytest

from mlestruct import IsingMRF
from mlestruct.datasets import make_spikes
from mlestruct.models import ising_selection, select_ising

DATA = make_spikes(10, 500, 1, 4, random_state=0)


def test_scores_are_those_of_held_out_frames():
    found = select_ising(DATA.spikes, DATA.stimuli, density=[0.2], alpha=[2.0], n_folds=2)
    model = IsingMRF(l1=0.5, density=0.2, alpha=2.0).fit(DATA.spikes[250:], DATA.stimuli[250:])
    expected = model.score(DATA.spikes[:250], DATA.stimuli[:250])
    first = next(row for row in found.scores if row["fold"] == 0)
    assert first["score"] == pytest.approx(expected, abs=1e-4)
    assert found.model.alpha == 2.0
    assert found.best_score == pytest.approx(np.mean([row["score"] for row in found.scores]))


def test_earlier_frames_help_where_they_predict():
    rng = np.random.default_rng(0)
    Y = (rng.random((1500, 4)) < 0.3).astype(int)
    Y[1:, 0] = Y[:-1, 1] ^ (rng.random(1499) < 0.05)
    found = select_ising(Y, density=[None], alpha=[1.0], time_span=[1, 2], n_folds=2)
    assert found.best_params["time_span"] == 2
    scores = {row["time_span"]: row["score"] for row in found.means()}
    assert scores[2] > scores[1] + 0.2


def test_resuming_computes_only_what_is_missing(tmp_path, monkeypatch):
    file, grid = tmp_path / "scores.jsonl", {"density": [0.1, 0.2], "n_folds": 2, "refit": False}
    select_ising(DATA.spikes, alpha=[1.0], resume=file, **grid)
    lines = file.read_text().splitlines()
    assert len(lines) == 4
    calls = []
    evaluate = ising_selection._evaluate
    monkeypatch.setattr(
        ising_selection, "_evaluate", lambda *args: calls.append(args) or evaluate(*args)
    )
    found = select_ising(DATA.spikes, alpha=[1.0, 5.0], resume=file, **grid)
    assert [args[-1] for args in calls] == [[5.0]] * 4
    assert len(found.scores) == 8
    assert found.model is None
    select_ising(DATA.spikes[:400], alpha=[1.0], resume=file, **grid)
    assert len(calls) == 8, "other data have scores of their own"
    assert all("of" in json.loads(line) for line in file.read_text().splitlines())
    file.write_text("no json\n")
    with pytest.raises(ValueError, match="line 1"):
        select_ising(DATA.spikes, alpha=[1.0], resume=file, **grid)


def test_errors():
    with pytest.raises(ValueError, match="n_folds"):
        select_ising(DATA.spikes, n_folds=1)
    with pytest.raises(ValueError, match="n_folds"):
        select_ising(DATA.spikes[:3], n_folds=3)
    with pytest.raises(ValueError, match="at least one value"):
        select_ising(DATA.spikes, alpha=[])
