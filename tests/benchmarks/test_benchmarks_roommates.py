"""The benchmark of roommates at toy size."""

import re

import pytest

from benchmarks import roommates as benchmark
from mlestruct.datasets import Campus, generate_campus, write_campus


@pytest.fixture(scope="module")
def campus():
    return generate_campus(40, random_state=0)


def said(printed, text):
    """Whether a printed verdict says yes."""
    found = re.search(re.escape(text) + r".*: (yes|NO)", printed)
    assert found, text
    return found[1] == "yes"


def test_quick_benchmark_prints_all_tables(monkeypatch, capsys):
    monkeypatch.setattr(benchmark, "warm_up", lambda: None)
    monkeypatch.setattr(benchmark, "FITS", ((1.0, "local", 1), (0.95, "local", 1)))
    fine = benchmark.run(generate_campus(40, 2, random_state=0), budget=0.5, fresh=False)
    printed = capsys.readouterr().out
    for text in (
        "| 1    | local ",
        "| 0.95 | local ",
        "of the decoder",
        "fractional",
        "bcfw, pass",
    ):
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
