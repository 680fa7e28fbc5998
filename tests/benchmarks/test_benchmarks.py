"""Benchmarks run from end to end on small problems."""

import time
from pathlib import Path

import numba
from numba.core.event import install_listener

from benchmarks import (
    alternatives,
    block_frank_wolfe,
    boundary,
    compare,
    decoders,
    first_use,
    graphs,
    marginal_accuracy,
    matching,
    slow_decoders,
)


def test_solver_comparison_runs_all_sides(capsys):
    X, Y, Xt, Yt = matching.landmark_data(4)
    assert len(X) == len(Y) == len(Xt) == len(Yt) == 4
    problem = matching.dual_problem(X, Y, 1.0, 100.0)
    matching.make_solver("auto", problem).solve(problem, matching.Stopping())  # loads kernels
    matching._compare_at(X, Y, 1.0, 100.0, patience=0.5)
    printed = capsys.readouterr().out
    for name in ("auto (newton)", "fw, line search", "bcfw, line search, gap", "bcfw, fixed"):
        assert name in printed


def test_alternatives_run(capsys):
    matching.compare_alternatives(4)
    printed = capsys.readouterr().out
    for name in ("mlestruct", "softmax", "Sinkhorn", "belief propagation"):
        assert name in printed


def test_block_frank_wolfe_is_timed_beside_its_decoder(capsys):
    rows = block_frank_wolfe.maxflow_rows(2, (12, 12), 3)
    for row in rows:
        assert 0.0 < row[4] < 1.0
        assert abs(sum(row[4:]) - 1.0) < 1e-9
    block_frank_wolfe.show_maxflow(rows)
    block_frank_wolfe.count_calls(quick=True)
    printed = capsys.readouterr().out
    for words in ("max-flow", "scores and moments", "one block", "working set 100"):
        assert words in printed


def test_shrinking_the_polytope_is_measured(capsys):
    assert boundary.main(["--samples", "2", "--max-time", "0.5"]) == 0
    printed = capsys.readouterr().out
    assert "smallest marginal" in printed
    assert printed.count("\n| ") == 2 + 8  # head, rule, rows


def test_slow_decoders_are_called_less_often_by_auto(capsys):
    calls = slow_decoders.compare(3, 0.0, 300.0, [(1.0, 0.1, 10)])
    assert calls["auto"] < 0.7 * calls["bcfw"]
    assert calls["auto, n_jobs=8"] == calls["auto"]
    assert "perturbed Fenchel-Young" in capsys.readouterr().out


def test_decoders_agree_with_other_libraries(capsys):
    assert decoders.main(["--quick"]) == 0
    printed = capsys.readouterr().out
    assert "DIFFERENT" not in printed
    for table in ("QPBO", "Assignments", "Perfect matchings", "Fractional matchings"):
        assert table in printed


def test_default_rho_has_the_closest_marginals_at_moderate_scores():
    found = marginal_accuracy.errors(5, 1.0, n_tables=20)
    assert found[0.95].mean() < min(found[0.5].mean(), found[1.0].mean())


def test_two_ways_are_compared(capsys):
    alternatives.elimination_orders()
    alternatives.spanning_trees(100)
    printed = capsys.readouterr().out
    assert "grid 10 x 100" in printed
    assert "32 trees" in printed


def test_graphs_of_growing_size_beside_logistic_regression_and_another_checkout(capsys):
    root = str(Path(graphs.__file__).parents[1])
    assert graphs.main(["--sizes", "60", "120", "--kinds", "random", "--other", root]) == 0
    printed = capsys.readouterr().out
    for part in ("| random |", "grows as edges to the power", "ratio", "logistic", "pass"):
        assert part in printed


def test_two_checkouts_are_compared(capsys, monkeypatch):
    """The checkout beside itself: every workload is printed with its ratio."""
    root = str(Path(compare.__file__).parents[1])
    arguments = ["compare", root, "--repeat", "1", "--only", "matching predict"]
    monkeypatch.setattr("sys.argv", arguments)
    compare.main()
    rows = capsys.readouterr().out.splitlines()
    assert [row.split("  ")[0] for row in rows[1:]] == [
        "matching predict",
        "matching predict_marginals",
    ]


def test_import_compiles_nothing(capsys):
    first_use.main(["--only", "import"])
    cells = [cell.strip() for cell in capsys.readouterr().out.splitlines()[-2].split("|")]
    assert cells[1] == "import"
    assert cells[3:5] == ["0", "0"]


def test_nested_compilations_are_counted_once():
    @numba.njit
    def inner(x):
        return x + 1

    @numba.njit
    def outer(x):
        return inner(x)

    found, start = first_use.Compiling(), time.process_time()
    with install_listener("numba:compile", found):
        outer(1)
    assert found.kernels == 2
    assert 0.0 < found.seconds <= time.process_time() - start
