"""The benchmark of threads runs from end to end on small samples."""

from benchmarks import threads


def test_answers_with_two_threads_are_those_with_one(capsys):
    assert threads.main(["--quick", "--only", "assignments"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("a compiled loop gains")
    assert [line.split()[-1] for line in lines[2:]] == ["0e+00"] * 3  # the same bits


def test_memory_of_repeated_fits_is_printed(capsys):
    assert threads.main(["--soak", "0.2", "--only", "30 x 30"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines] == ["MB"] * len(lines)
    assert float(lines[-1].split()[-2]) > 1.0
