"""The benchmark of time limits runs from end to end on small samples."""

from benchmarks import time_limits


def test_quick_run_prints_a_line_per_case(capsys):
    assert time_limits.main(["--quick", "--only", "assignments"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["assignments", "assignments"]
    seconds = [float(word.rstrip("-!")) for line in lines[2:] for word in line[24:].split()]
    assert len(seconds) == 12
