"""The benchmark of threads runs from end to end on small samples."""

from benchmarks import threads


def cells(printed):
    """Rows of a Markdown table without its head."""
    lines = [line for line in printed.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]]


def test_answers_with_two_threads_are_those_with_one(capsys):
    assert threads.main(["--quick", "--only", "assignments"]) == 0
    printed = capsys.readouterr().out
    assert "a compiled loop gained" in printed
    assert [row[-1] for row in cells(printed)] == ["0"] * 3  # the same bits


def test_memory_of_repeated_fits_is_shown(capsys):
    assert threads.main(["--soak", "0.2", "--only", "30 x 30"]) == 0
    rows = cells(capsys.readouterr().out)
    assert len(rows) == 4
    assert float(rows[0][2].replace(",", "")) > 1.0
    assert int(rows[0][1]) <= int(rows[-1][1])
