"""The command line, and that importing the package is quick."""

import os
import subprocess
import sys
import warnings

import pytest

import mlestruct
from mlestruct import _compile
from mlestruct.cli import main


def test_demo_prints_the_certificate_and_writes_a_picture(tmp_path, capsys):
    picture = tmp_path / "demo.png"
    assert main(["demo", "--out", str(picture), "--quiet"]) == 0
    printed = capsys.readouterr().out
    result, history = (printed.index(words) for words in ("are matched correctly", "iteration"))
    assert result < history < printed.index("certified: relative gap")
    assert picture.read_bytes()[:4] == b"\x89PNG"
    assert picture.stat().st_size > 20_000


def test_demo_refuses_an_unwritable_place_before_working(tmp_path, capsys):
    assert main(["demo", "--out", str(tmp_path / "missing" / "demo.png")]) == 1
    printed = capsys.readouterr()
    assert "does not exist" in printed.err
    assert printed.out == ""
    assert main(["demo", "--out", str(tmp_path)]) == 1
    assert main(["demo", "--out", str(tmp_path / "demo.txt")]) == 1
    assert "expected a .png" in capsys.readouterr().err


@pytest.mark.parametrize("quiet", [True, False])
def test_quiet_commands_write_nothing_but_errors_on_stderr(quiet, capsys, monkeypatch):
    def work(*_, **__):
        _compile._Notice.write()  # as at the first use of a kernel
        warnings.warn("the data are odd", UserWarning, stacklevel=1)

    monkeypatch.setattr(_compile._Notice, "written", False)
    monkeypatch.setenv("MLESTRUCT_QUIET", "")
    monkeypatch.setattr("mlestruct.demo.run_demo", work)
    assert main(["demo", *["--quiet"] * quiet]) == 0
    said = capsys.readouterr().err
    assert (said == "") if quiet else ("compiling" in said and "the data are odd" in said)
    assert os.environ["MLESTRUCT_QUIET"] == ""


def test_no_command_shows_help(capsys):
    assert main([]) == 2
    assert "demo" in capsys.readouterr().out


def test_version(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert mlestruct.__version__ in capsys.readouterr().out


def test_importing_the_package_and_wrong_usage_load_nothing_heavy():
    for used in ("mlestruct.__version__", "from mlestruct.cli import main; main(['link'])"):
        code = (
            f"import sys, mlestruct\ntry: {used}\nexcept SystemExit: pass\n"
            "print([m for m in ('sklearn', 'numba', 'scipy', 'matplotlib') if m in sys.modules])"
        )
        finished = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=True
        )
        assert finished.stdout.strip() == "[]"


def test_unknown_names_are_attribute_errors():
    assert "BipartiteMatchingCRF" in dir(mlestruct)
    with pytest.raises(AttributeError, match="Nonsense"):
        mlestruct.Nonsense  # noqa: B018


def test_missing_files_are_named(tmp_path, capsys):
    missing = str(tmp_path / "model.mls")
    assert main(["link", "left.csv", "right.csv", "-m", missing]) == 1
    assert capsys.readouterr().err == f"mlestruct: {missing}: there is no such file or folder\n"
