"""Tables that benchmarks show, their records, and the pages that are made of these."""

import json
import re
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import pytest

from benchmarks import record

PLACE = "by hand\n\n<!-- toy -->\nold\n<!-- end of toy -->\n\nby hand\n"


@pytest.fixture
def toy(monkeypatch):
    """A benchmark that shows one table; with --double another one."""

    def main(arguments):
        rows = [[int(arguments[-1]), 0.25], [9, float("inf")]]
        record.show("Doubled" if "--double" in arguments else "Seconds", ["size", "fit"], rows)
        record.show("All steps", ["step"], [[k] for k in range(3)], keep=False)
        return 0

    monkeypatch.setitem(sys.modules, "benchmarks.toy", SimpleNamespace(main=main))


@pytest.fixture
def docs(tmp_path, monkeypatch):
    """A folder of pages, two of them with a place."""
    (tmp_path / "first.md").write_text(PLACE)
    (tmp_path / "second.md").write_text(PLACE.replace("toy", "toy-double"))
    (tmp_path / "third.md").write_text("nothing\n")
    monkeypatch.setattr(record, "DOCS", tmp_path)
    return tmp_path


def test_pages_and_records_agree(tmp_path):
    if not record.DOCS.is_dir():
        pytest.skip("the documents are not beside the tests")
    for file in (record.DOCS / "benchmarks").glob("*.json"):
        kept = json.loads(file.read_text(encoding="utf-8"))
        assert kept["name"] == file.stem
        page = record.page_of(kept["name"], record.DOCS)
        text = page.read_text(encoding="utf-8")
        assert record.filled(text, kept) == text, f"{page.name}: run python -m benchmarks.record"


def test_every_place_has_a_benchmark_and_a_row_of_numbers():
    if not record.DOCS.is_dir():
        pytest.skip("the documents are not beside the tests")
    numbers = (record.DOCS / "numbers.md").read_text(encoding="utf-8")
    for page in record.DOCS.glob("*.md"):
        for name in re.findall(r"<!-- end of (.*?) -->", page.read_text(encoding="utf-8")):
            assert record.page_of(name, record.DOCS) == page
            benchmark = f"benchmarks.{name.split('-')[0]}"
            assert find_spec(benchmark), f"{page.name}: {name}"
            assert f"`python -m {benchmark}" in numbers, name
            assert f"({page.name})" in numbers, page.name


def test_commands_of_numbers_exist():
    if not record.DOCS.is_dir():
        pytest.skip("the documents are not beside the tests")
    numbers = (record.DOCS / "numbers.md").read_text(encoding="utf-8")
    for name in re.findall(r"benchmarks\.(\w+)", numbers):
        assert find_spec(f"benchmarks.{name}") or name == "md", name
    for name in re.findall(r"plot_\w+\.py", numbers):
        assert (record.DOCS.parent / "examples" / name).is_file(), name


def test_a_run_is_kept_and_written_into_its_page(toy, docs, capsys):
    record.main(["toy", "4"])
    printed = capsys.readouterr().out
    assert "0.250" in printed
    assert "All steps" in printed
    kept = json.loads((docs / "benchmarks" / "toy.json").read_text())
    assert kept["command"] == "python -m benchmarks.toy 4"
    assert [table["title"] for table in kept["tables"]] == ["Seconds"]
    assert kept["tables"][0]["rows"] == [[4, 0.25], [9, None]]
    page = (docs / "first.md").read_text()
    assert page.startswith("by hand\n\n<!-- toy -->\n\nSeconds:\n\n| size |")
    assert page.endswith("</details>\n\n<!-- end of toy -->\n\nby hand\n")
    assert "old" not in page
    assert "old" in (docs / "second.md").read_text()
    record.main([])
    assert (docs / "first.md").read_text() == page


def test_a_mode_has_a_record_of_its_own(toy, docs):
    record.main(["toy", "4"])
    record.main(["toy", "--double", "5"])
    kept = json.loads((docs / "benchmarks" / "toy-double.json").read_text())
    assert kept["command"] == "python -m benchmarks.toy --double 5"
    assert "Doubled" in (docs / "second.md").read_text()
    assert "Doubled" not in (docs / "first.md").read_text()


def test_limits_that_are_not_met_are_told(toy, tmp_path):
    record.measure("toy", "toy", ["4"], tmp_path)
    kept = json.loads((tmp_path / "toy.json").read_text())
    assert "did not meet" not in record.section(kept)
    assert "did not meet" in record.section(kept | {"passed": False})


@pytest.mark.parametrize(("copies", "number"), [(0, "0"), (2, "2")])
def test_a_record_without_one_place_is_refused_before_it_runs(docs, copies, number):
    (docs / "first.md").write_text(copies * PLACE)
    with pytest.raises(SystemExit, match=f"{number} places <!-- toy -->"):
        record.main(["toy", "4"])  # there is no benchmarks.toy


def test_a_benchmark_without_tables_is_refused(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "benchmarks.mute", SimpleNamespace(main=lambda _: 0))
    with pytest.raises(SystemExit, match="hands no table"):
        record.measure("mute", "mute", [], tmp_path)


def test_figures_have_three_digits():
    values = [0.0005408, 0.03148, 0.9996, 9.996, 12.75, 376.44, 20345.6, 897631, 0.0, -0.25, 3e7]
    assert record.cells(values) == [
        "5.41e-4", "0.0315", "1.00", "10.0", "12.8", "376", "20,346", "897,631", "0", "-0.250",
        "3.00e7",
    ]  # fmt: skip
    assert record.cells([True, "auto", 0.0009999]) == ["yes", "auto", "0.00100"]
