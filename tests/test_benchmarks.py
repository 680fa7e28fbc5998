"""Benchmarks and experiments run from end to end on small problems."""

import numpy as np
import pytest

from benchmarks import decoders, matching
from experiments import house_hotel, marginal_accuracy


def test_solver_comparison_runs_all_sides(capsys):
    X, Y, Xt, Yt = matching.landmark_data(4)
    assert len(X) == len(Y) == len(Xt) == len(Yt) == 4
    matching._compare_at(X, Y, 1.0, 100.0, patience=0.5)
    printed = capsys.readouterr().out
    for name in ("auto (newton)", "fw, line search", "bcfw, line search, gap", "bcfw, fixed"):
        assert name in printed


def test_alternatives_run(capsys):
    matching.compare_alternatives(4)
    printed = capsys.readouterr().out
    for name in ("mlestruct", "softmax", "Sinkhorn", "BP"):
        assert name in printed


def test_decoders_agree_with_other_libraries(capsys):
    assert decoders.main(["--quick"])
    assert "DIFFERENT" not in capsys.readouterr().out


def test_default_rho_has_the_closest_marginals_at_moderate_scores():
    found = marginal_accuracy.errors(5, 1.0, n_tables=20)
    assert found[0.95].mean() < min(found[0.5].mean(), found[1.0].mean())


@pytest.mark.slow
def test_house_hotel_experiment_runs_on_generated_scenes(tmp_path, capsys):
    out = tmp_path / "numbers.json"
    house_hotel.main(["--generated", "--gaps", "90", "95", "--out", str(out)])
    printed = capsys.readouterr().out
    assert "test loss by rho" in printed
    assert out.stat().st_size > 100


def test_published_columns_have_the_means_they_are_known_by():
    means = {
        name: {key: float(np.mean(values)) for key, values in columns.items()}
        for name, columns in house_hotel.PUBLISHED.items()
    }
    assert means["house"]["FW"] == pytest.approx(0.032, abs=5e-4)
    assert means["hotel"]["lin.+l."] == pytest.approx(0.085, abs=5e-4)
