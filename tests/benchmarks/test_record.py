"""Tables of benchmarks, their records, and the page that is made of these."""

import json
import re
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import pytest

from benchmarks import measuring, record

PAGE = "by hand\n\n<!-- toy -->\nold\n<!-- end of toy -->\n\nby hand\n"


@pytest.fixture
def docs(tmp_path, monkeypatch):
    """A folder with a page, and a benchmark that shows one table."""
    (tmp_path / "benchmarks.md").write_text(PAGE)
    monkeypatch.setattr(record, "DOCS", tmp_path)
    shown = SimpleNamespace(main=lambda _: measuring.show("Seconds", ["size", "s"], [[4, 0.25]]))
    monkeypatch.setitem(sys.modules, "benchmarks.toy", shown)
    return tmp_path


def test_a_run_is_kept_and_written_into_the_page(docs):
    record.main(["toy"])
    kept = json.loads((docs / "benchmarks" / "toy.json").read_text())
    assert kept["command"] == "python -m benchmarks.toy"
    assert kept["tables"] == [{"title": "Seconds", "head": ["size", "s"], "rows": [["4", "0.250"]]}]
    page = (docs / "benchmarks.md").read_text()
    assert page.startswith("by hand\n\n<!-- toy -->\n\nSeconds:\n\n| size |     s |\n")
    assert "`python -m benchmarks.toy`, 0 seconds" in page
    assert page.endswith("<!-- end of toy -->\n\nby hand\n")
    assert "old" not in page
    record.main([])
    assert (docs / "benchmarks.md").read_text() == page


def test_a_benchmark_without_a_place_is_refused_before_it_runs(docs):
    with pytest.raises(SystemExit, match="must have the lines <!-- none -->"):
        record.main(["none"])


def test_the_page_has_every_record():
    if not record.DOCS.is_dir():
        pytest.skip("the documents are not beside the tests")
    page = (record.DOCS / "benchmarks.md").read_text(encoding="utf-8")
    for file in (record.DOCS / "benchmarks").glob("*.json"):
        kept = json.loads(file.read_text(encoding="utf-8"))
        assert record.section(kept) in page, f"{file.stem}: run python -m benchmarks.record"
    for name in re.findall(r"<!-- end of (.*?) -->", page):
        assert find_spec(f"benchmarks.{name}"), name
        assert (record.DOCS / "benchmarks" / f"{name}.json").is_file(), name


def test_figures_have_three_digits():
    values = [5.408e-5, 0.03148, 0.9996, 9.996, 12.75, 376.44, 20345.6, 897631, 0.0, -0.25, None]
    assert [measuring.cell(value) for value in values] == [
        "5.41e-5", "0.0315", "1.00", "10.0", "12.8", "376", "20,346", "897,631", "0", "-0.250",
        measuring.NOTHING,
    ]  # fmt: skip
