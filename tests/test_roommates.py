"""The roommate experiment and benchmark from end to end at toy size, and their picture."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import roommates as benchmark
from experiments import roommates as experiment
from mlestruct.datasets import Campus, generate_campus, write_campus
from mlestruct.plotting.roommates import plot_roommates
from mlestruct.ranking import pair_roc

CHOICES = {"ALPHAS": (100.0, 10.0), "SVM_ALPHAS": (1e6, 1.0), "PASSES": ((1, 0.0), (3, 1.0))}


@pytest.fixture
def few_choices(monkeypatch):
    for name, values in CHOICES.items():
        monkeypatch.setattr(experiment, name, values)
    monkeypatch.setattr(experiment, "warm_up", lambda: None)


@pytest.fixture(scope="module")
def campus():
    return generate_campus(40, random_state=0)


def said(printed, text):
    """Whether a verdict says yes."""
    found = re.search(re.escape(text) + r".*: (yes|NO)", printed)
    assert found, text
    return found[1] == "yes"


def test_experiment_tells_what_its_numbers_say(few_choices, tmp_path, capsys):
    call = ["--students", "40", "--seeds", "2", "--output", str(tmp_path)]
    found = experiment.main(call)
    printed = capsys.readouterr().out
    aucs = found["aucs"]
    ours = [experiment.OURS, experiment.BETHE, experiment.OURS + experiment.EARLIER]
    ours.append(experiment.LIKELY)
    assert set(aucs) == {*ours, *experiment.RIVALS, experiment.TRUTH}
    for name, values in aucs.items():
        assert printed.count(f"  {name} ") == 3  # two campuses and the means
        assert all(0.0 <= value <= 1.0 for value in values)
        assert "AUC " + " ".join(f"{value:.4f}" for value in values) in printed
    above = all(
        aucs[experiment.OURS][k] > max(aucs[rival][k] for rival in experiment.RIVALS)
        for k in range(2)
    )
    assert said(printed, "AUC above constant, perceptron and SVM") is above
    assert said(printed, "signs of strong questions") is found["verdicts"]["signs"]
    assert said(printed, "order of strong questions") is found["verdicts"]["order"]
    true = dict(zip(found["weights"], found["true_weights"], strict=True))
    for k in range(2):
        learned = {name: values[k] for name, values in found["weights"].items()}
        order = sorted(experiment.STRONG, key=learned.get)
        if order != sorted(experiment.STRONG, key=true.get):
            assert not found["verdicts"]["order"]
    assert "of 2" in printed.split("by alpha")[1]
    assert (tmp_path / "roommates.png").stat().st_size > 10_000
    assert json.loads((tmp_path / "roommates.json").read_text())["aucs"] == aucs


def test_own_files_have_no_truth(few_choices, campus, tmp_path, capsys):
    lonely = replace(campus.years[2], partner=campus.years[2].partner.copy())
    for i in (0, lonely.partner[0]):
        lonely.partner[i] = -1
    write_campus(Campus(campus.questions, [*campus.years[:2], lonely]), tmp_path / "own")
    found = experiment.main(["--data", str(tmp_path / "own"), "--output", str(tmp_path)])
    printed = capsys.readouterr().out
    assert f"{lonely.partner.size - 2} students" in printed  # only those with a roommate
    assert f"  {experiment.TRUTH} " not in printed
    assert list(found["verdicts"]) == ["auc"]
    assert found["true_weights"] is None
    assert (tmp_path / "roommates.png").stat().st_size > 10_000


def test_too_few_years_are_refused(campus, tmp_path, capsys):
    write_campus(Campus(campus.questions, campus.years[:2]), tmp_path)
    with pytest.raises(SystemExit):
        experiment.main(["--data", str(tmp_path)])
    assert "at least 3 years, got 2" in capsys.readouterr().err


def test_accepted_pairs_are_those_above_the_threshold(campus):
    years = experiment.Years.of(campus)
    entry = experiment.judge(years, campus.true_theta)
    scores = years.X[-1].scores(campus.true_theta)
    table = experiment.score_table(years.X[-1], campus.true_theta)
    np.testing.assert_array_equal(table, table.T)
    np.testing.assert_array_equal(table[np.triu_indices(len(table), 1)], scores)
    people = np.arange(len(table))
    true = table[people, years.Y[-1]]
    threshold = entry.roc.threshold_at(false_positive_rate=0.05)
    assert entry.accepted(0.05) == pytest.approx(np.mean(true >= threshold))
    wrong = table[(people[:, None] < people) & (years.Y[-1][:, None] != people)]
    assert np.mean(wrong >= threshold) <= 0.05
    assert entry.auc > 0.6


def test_quick_benchmark_prints_all_tables(monkeypatch, capsys):
    monkeypatch.setattr(benchmark, "warm_up", lambda: None)
    monkeypatch.setattr(benchmark, "FITS", ((1.0, "local", 1), (0.95, "local", 1)))
    fine = benchmark.run(generate_campus(40, 2, random_state=0), budget=0.5, fresh=False)
    printed = capsys.readouterr().out
    for text in ("  1    local", "  0.95 local", "in decoder", "fractional", "bcfw, pass"):
        assert text in printed
    assert said(printed, "the local optimum is proven to be that of the exact polytope")
    assert ("memory at most 2 GB: yes" in printed) is fine["memory"]
    assert ("so close: yes" in printed) is fine["sooner"]


def test_benchmark_measures_the_objective_of_the_estimator(campus, tmp_path):
    write_campus(Campus(campus.questions, campus.years[:2]), tmp_path)
    X, Y = benchmark.load(str(tmp_path))
    setting = {"rho": 0.95, "polytope": "local", "n_jobs": 1, "budget": 10.0}
    ours = benchmark.measure_auto(X, Y, setting)
    assert [row is not None for row in ours["reached"]] == [True] * 3
    assert ours["gap"] <= 1e-6
    assert benchmark.same_optimum(str(tmp_path), ours | setting)
    for polytope in ("local", "exact"):
        other = benchmark.measure_bcfw(X, Y, setting | {"polytope": polytope, "budget": 0.5})
        duals = [row[1] for row in other["history"]]
        assert duals[0] > duals[-1] >= ours["optimum"] - 1e-5 * abs(ours["optimum"])
        assert other["calls"] > 4
        assert 0.0 < other["share"] < 1.0


def test_moments_when_gaps_were_reached():
    one = {"history": [(1.0, -90.0, 20.0), (2.0, -99.5, 9.0), (3.0, -100.0, 0.9)]}
    assert benchmark.certified_gap_below(one, 1e-2) == 3.0
    assert benchmark.true_gap_below(one, 1e-2, -100.0) == 2.0
    assert benchmark.certified_gap_below(one, 1e-3) is None


# ---------------------------------------------------------------------- picture
def test_picture_has_a_curve_for_each_method_and_a_row_for_each_question(tmp_path):
    rng = np.random.default_rng(0)
    table = rng.normal(size=(10, 10))
    roc = pair_roc(table + table.T, np.arange(10) ^ 1)
    learned = rng.normal(size=(2, 3))
    figure = plot_roommates({"a": roc, "b": roc}, ["x", "y", "z"], learned, [-1, 0, -2])
    left, right = figure.axes
    labels = [text.get_text() for text in left.get_legend().get_texts()]
    assert labels == [f"a, AUC {roc.auc:.3f}", f"b, AUC {roc.auc:.3f}", "chance, AUC 0.500"]
    assert [tick.get_text() for tick in right.get_yticklabels()] == ["y", "x", "z"]  # upwards
    figure.savefig(tmp_path / "picture.png")
    assert len(plot_roommates({"a": roc}, ["x"], [1.0]).axes) == 2


def test_weights_of_another_number_are_refused():
    with pytest.raises(ValueError, match=r"learned: expected 2 weights, got \(3,\)"):
        plot_roommates({}, ["x", "y"], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"truth: expected 2 weights, got \(1,\)"):
        plot_roommates({}, ["x", "y"], [1.0, 2.0], [1.0])
