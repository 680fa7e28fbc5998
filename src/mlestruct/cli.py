"""The command line, `mlestruct COMMAND`; what a command does is imported when it runs."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from . import __version__
from .exceptions import FileProblem

QUIET = "MLESTRUCT_QUIET"  # no line on stderr where kernels are compiled


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    from .commands.arguments import UsageProblem
    from .paper.contract import ReproductionError
    from .paper.runner import Interrupted

    parser = make_parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 2
    try:
        with _standard_error(vars(options).get("quiet", False)):
            status = int(options.run(options))
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader, such as head, has all it wants
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        return 0
    except (KeyboardInterrupt, Interrupted):
        print("\ninterrupted", file=sys.stderr)
        if options.command == "reproduce":
            again = "it again without --fresh" if options.fresh else "the same command again"
            print(f"run {again} to go on where it stopped", file=sys.stderr)
        return 130
    except (OSError, ImportError, ReproductionError, FileProblem) as error:
        print(f"mlestruct: {_said(error)}", file=sys.stderr)
        return 2 if isinstance(error, UsageProblem) else 1


def _said(error: Exception) -> str:
    """The words of an error; of the system's own in the same form as those of the package."""
    if not isinstance(error, OSError) or error.filename is None:
        return str(error)
    words = {
        FileNotFoundError: "there is no such file or folder",
        IsADirectoryError: "is a folder, expected a file",
        FileExistsError: "is a file, expected a folder",
    }
    return f"{error.filename}: {words.get(type(error), error.strerror)}"


def make_parser() -> argparse.ArgumentParser:
    from .commands.arguments import COMMANDS, seed
    from .paper.command import add_arguments

    parser = argparse.ArgumentParser(
        prog="mlestruct",
        description="Certified maximum-likelihood learning of matchings, labellings and sequences",
    )
    parser.add_argument("--version", action="version", version=f"mlestruct {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    demo = commands.add_parser(
        "demo",
        help="learn to match generated landmarks and draw what the model believes",
        description="Fits on generated scenes, prints the certified history and the test loss, "
        "and writes a picture. No data needed.",
    )
    demo.add_argument(
        "--out", type=Path, default=Path("mlestruct-demo.png"), help="the picture to write"
    )
    demo.add_argument("--seed", type=seed, default=0, help="of the generated scenes")
    demo.add_argument("--quiet", action="store_true", help="no progress bars")
    demo.set_defaults(run=_demo)
    for command in COMMANDS:
        own = commands.add_parser(
            command.name, help=command.help, description=command.description,
            epilog=command.example, formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        command.add(own)
        own.set_defaults(run=_on_files)
    reproduce = commands.add_parser(
        "reproduce",
        help="the figures and tables of the paper, published numbers beside ours",
        description="Runs experiments of the paper; writes pictures, CSV and JSON files, and a "
        "page of all that the folder holds. What was interrupted goes on where it stopped.",
    )
    add_arguments(reproduce)
    reproduce.set_defaults(run=_reproduce)
    warmup = commands.add_parser(
        "warmup",
        help="compile the numba kernels in advance, so that the first use is not slow",
        description="Compiles what the estimators use, in parallel processes, into numba's cache "
        "on disk. Kernels that are there already are only loaded.",
        epilog="example: mlestruct warmup chain --jobs 1",
    )
    warmup.add_argument("names", nargs="*", metavar="NAME", help="only these workloads")
    warmup.add_argument("--jobs", type=int, help="processes at a time; default: one per core")
    warmup.set_defaults(run=_warmup)
    return parser


def _demo(options: argparse.Namespace) -> int:
    from .demo import run_demo

    run_demo(options.out, options.seed, verbose=0 if options.quiet else 1)
    return 0


def _on_files(options: argparse.Namespace) -> int:
    """A command of `mlestruct.commands`, in a module of its name."""
    module = import_module(f"{__package__}.commands.{options.command}")
    return int(module.run(options))


@contextmanager
def _standard_error(quiet: bool) -> Iterator[None]:
    """Warnings as one line of text, without places in the source; if `quiet` nothing but errors."""

    told = set()  # filters that change in between would let a message pass again

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if not quiet and str(message) not in told:
            print(f"mlestruct: {message}", file=sys.stderr)
        told.add(str(message))

    before = os.environ.get(QUIET, "")
    os.environ[QUIET] = "1" if quiet else before  # reaches the processes that it starts, too
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = show
            yield
    finally:
        os.environ[QUIET] = before


def _reproduce(options: argparse.Namespace) -> int:
    from .paper.command import run_command

    return run_command(options)


def _warmup(options: argparse.Namespace) -> int:
    from .commands.arguments import UsageProblem
    from .warmup import WORKLOADS, run_warmup

    if unknown := sorted(set(options.names) - set(WORKLOADS)):
        raise UsageProblem(f"no workload {', '.join(unknown)}; there are {' '.join(WORKLOADS)}")
    if options.jobs is not None and options.jobs < 1:
        raise UsageProblem(f"--jobs: expected at least 1, got {options.jobs}")
    return run_warmup(options.names, options.jobs)


if __name__ == "__main__":
    sys.exit(main())
