"""Every example runs in an empty folder and draws."""

import runpy
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest

FOLDER = Path(__file__).parent.parent / "examples"
EXAMPLES = sorted(FOLDER.glob("plot_*.py"))


@pytest.mark.skipif(not FOLDER.is_dir(), reason="the examples are not beside the tests")
def test_there_are_examples():
    assert EXAMPLES


def test_the_gallery_shows_all():
    order = FOLDER.parent / "docs" / "_extensions" / "gallery_order.py"
    if not order.is_file():
        pytest.skip("the documents are not beside the tests")
    names = runpy.run_path(str(order))["ORDER"]
    assert sorted(names) == [path.stem.removeprefix("plot_") for path in EXAMPLES]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_it_runs_and_draws(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLESTRUCT_DATA", raising=False)  # generated data take less time
    monkeypatch.setattr(plt, "show", lambda *args, **options: None)
    matplotlib.use("Agg")
    plt.close("all")
    try:
        names = runpy.run_path(str(path), run_name="__main__")
    except (ImportError, FileNotFoundError) as error:  # an optional package, or data
        pytest.skip(f"{path.name}: {error}")
    figures = [plt.figure(number) for number in plt.get_fignums()]
    try:
        assert names["__doc__"].strip()
        assert figures, "no figure"
        for figure in figures:
            assert any(axes.has_data() for axes in figure.axes), "an empty figure"
    finally:
        plt.close("all")
