"""Benchmarks run from end to end on small problems."""

from benchmarks import decoders, marginal_accuracy, matching


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
