"""Tables that benchmarks show, their records, and the page that is made of these."""

import json
import sys
from types import SimpleNamespace

import pytest

from benchmarks import record

PLACE = "by hand\n\n<!-- toy -->\nold\n<!-- end of toy -->\n\nby hand\n"


@pytest.fixture
def toy(monkeypatch):
    """A benchmark that shows one table."""

    def main(arguments):
        record.show("Seconds", ["size", "fit"], [[int(arguments[0]), 0.25], [9, float("inf")]])
        return 0

    monkeypatch.setitem(sys.modules, "benchmarks.toy", SimpleNamespace(main=main))


def test_page_and_records_agree():
    if not record.PAGE.is_file():
        pytest.skip("the documents are not beside the tests")
    text = record.PAGE.read_text(encoding="utf-8")
    assert record.filled(text, record.PAGE.with_suffix("")) == text


def test_a_run_is_kept_and_shown(toy, tmp_path, capsys):
    record.measure("toy", ["4"], tmp_path / "new")
    assert "0.2500" in capsys.readouterr().out
    kept = json.loads((tmp_path / "new" / "toy.json").read_text())
    assert kept["command"] == "python -m benchmarks.toy 4"
    assert kept["tables"][0]["rows"] == [[4, 0.25], [9, None]]
    page = record.filled(PLACE, tmp_path / "new")
    assert page.startswith("by hand\n\n<!-- toy -->\n\nSeconds:\n\n| size |")
    assert page.endswith("</details>\n\n<!-- end of toy -->\n\nby hand\n")
    assert "old" not in page
    assert record.filled(page, tmp_path / "new") == page


def test_limits_that_are_not_met_are_told(toy, tmp_path):
    record.measure("toy", ["4"], tmp_path)
    kept = json.loads((tmp_path / "toy.json").read_text())
    assert "did not meet" not in record.section(kept)
    assert "did not meet" in record.section(kept | {"passed": False})


def test_a_page_without_a_place_is_refused(toy, tmp_path):
    record.measure("toy", ["4"], tmp_path)
    with pytest.raises(SystemExit, match="0 places <!-- toy -->"):
        record.filled("nothing", tmp_path)


def test_a_benchmark_without_tables_is_refused(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "benchmarks.mute", SimpleNamespace(main=lambda _: 0))
    with pytest.raises(SystemExit, match="hands no table"):
        record.measure("mute", [], tmp_path)
