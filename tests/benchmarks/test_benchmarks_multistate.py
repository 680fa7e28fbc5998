"""The benchmark of several states runs from end to end on tiny problems."""

from pathlib import Path

from benchmarks import multistate


def test_quick_run_prints_both_tables(capsys):
    here = str(Path(multistate.__file__).parents[1])
    assert multistate.main([here, "--quick"]) == 0
    printed = capsys.readouterr().out
    for words in ("first fit and prediction", "grid", "graph", "attractive", "random", "per entry"):
        assert words in printed
    values = [line.split()[1:] for line in printed.splitlines() if line.startswith("random")]
    value, bound, relaxed, best = (float(word) for word in values[-1])
    assert value <= best + 1e-4
    assert best <= min(bound, relaxed) + 1e-4
