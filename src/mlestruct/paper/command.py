"""`mlestruct reproduce`."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from html import escape
from pathlib import Path

from ..report.markdown import html
from ..report.page import page
from .catalogue import NAMES, load
from .contract import ReproductionError
from .document import DETAILS, check_markdown, claims_table, markdown, section, write_markdown
from .runner import Progress, reproduce
from .store import write_text

DEFAULT = Path("reproduction")
DEFAULT_QUICK = Path("reproduction-quick")
DATA = "MLESTRUCT_DATA"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="experiments, or all; see --list")
    parser.add_argument("--list", action="store_true", help="the experiments there are")
    parser.add_argument(
        "--quick", action="store_true", help="small problems on generated data, minutes in all"
    )
    parser.add_argument(
        "--out",
        type=Path,
        help=f"folder of results (default: {DEFAULT}, with --quick {DEFAULT_QUICK})",
    )
    parser.add_argument("--data", type=Path, help=f"folder of real data (default: ${DATA})")
    parser.add_argument(
        "--budget",
        type=float,
        metavar="SECONDS",
        help="CPU seconds of every method of an experiment that runs against the clock (horses)",
    )
    parser.add_argument(
        "--fresh", action="store_true", help="forget earlier results in the folder, start again"
    )
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="write the results as Markdown, too"
    )
    parser.add_argument("--quiet", action="store_true", help="neither progress nor tables")


def run_command(options: argparse.Namespace) -> int:
    """Returns the exit status: 1 if an experiment failed."""
    if options.list:
        print(listing())
        return 0
    names = chosen(options.names)
    if options.budget is not None and not options.budget > 0.0:
        raise ReproductionError(f"--budget: expected seconds above 0, got {options.budget:g}")
    if options.data is not None:
        if not options.data.is_dir():
            raise NotADirectoryError(f"--data: {options.data} is not a folder")
        os.environ[DATA] = str(options.data)
    elif os.environ.get(DATA) and not Path(os.environ[DATA]).is_dir():
        raise NotADirectoryError(f"{DATA}: {os.environ[DATA]} is not a folder")
    out = options.out or (DEFAULT_QUICK if options.quick else DEFAULT)
    check_writable(out)
    if options.markdown is not None:
        check_markdown(options.markdown, out)
    progress = Progress(options.quiet)
    failed: dict[str, str] = {}
    for name in names:
        try:
            experiment = load(name)
            experiment.budget = options.budget
            record = reproduce(experiment, out, options.quick, options.fresh, progress)
        except Exception as error:
            if len(names) == 1:
                raise
            failed[name] = f"{type(error).__name__}: {error}"
            if not isinstance(error, ReproductionError | OSError | ImportError):
                traceback.print_exc()
        else:
            progress.say("\n" + section(record, out, ship=False).partition(DETAILS)[0])
            progress.say(claims_table([record]))
    index = out / "index.html"
    text = markdown(out, ship=False).partition("\n")[2]
    sections = [
        f'<p class="no">{escape(f"{name} failed: {why}")}</p>' for name, why in failed.items()
    ]
    write_text(index, page("The paper, reproduced", [*sections, html(text, out)]))
    if options.markdown is not None:
        write_markdown(out, options.markdown)
        progress.say(f"\n{options.markdown}")
    progress.say(f"\npage: {index}")
    for name, why in failed.items():
        print(f"mlestruct: {name} failed: {why}", file=sys.stderr)
    return 1 if failed else 0


def listing() -> str:
    """Names and titles."""
    width = max(map(len, NAMES))
    return "\n".join(f"{name:<{width}}  {load(name).title}" for name in NAMES)


def chosen(names: Sequence[str]) -> list[str]:
    """The experiments of these names, each once; "all" is all of them."""
    if not names:
        raise ReproductionError(f"name an experiment, or all:\n{listing()}")
    for name in names:
        if name not in (*NAMES, "all"):
            close = get_close_matches(name, NAMES, 1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            there = f"there are {', '.join(NAMES)}, and all"
            raise ReproductionError(f"no experiment {name!r}: {hint}{there}")
    return [name for name in NAMES if name in names or "all" in names]


def check_writable(folder: Path) -> None:
    """Fail before the work, not after it."""
    if folder.is_file():
        raise NotADirectoryError(f"--out: {folder} is a file, not a folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise type(error)(f"--out: cannot write to {folder} ({error.strerror})") from None
