"""The command line, `mlestruct COMMAND`; what a command does is imported when it runs."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import __version__
from .exceptions import FileProblem, UsageProblem
from .linkage import arguments as link

QUIET = "MLESTRUCT_QUIET"  # no line on stderr while kernels are compiled


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
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
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except (OSError, ImportError, FileProblem) as error:
        print(f"mlestruct: {_said(error)}", file=sys.stderr)
        return 2 if isinstance(error, UsageProblem) else 1


def _said(error: Exception) -> str:
    """The words of an error; those of the system in the form of the package's own."""
    if not isinstance(error, OSError) or error.filename is None:
        return str(error)
    words = {
        FileNotFoundError: "there is no such file or folder",
        IsADirectoryError: "is a folder, expected a file",
        FileExistsError: "is a file, expected a folder",
    }
    return f"{error.filename}: {words.get(type(error), error.strerror)}"


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="mlestruct",
        description="Certified maximum-likelihood learning of matchings, labellings and sequences",
    )
    parser.add_argument("--version", action="version", version=f"mlestruct {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    demo = commands.add_parser(
        "demo",
        help="learn to match generated landmarks and draw the result",
        description="Fits on generated scenes, prints the certified history and the test loss, "
        "and writes a picture. No data needed.",
    )
    demo.add_argument(
        "--out", type=Path, default=Path("mlestruct-demo.png"), help="the picture to write"
    )
    demo.add_argument("--seed", type=link.seed, default=0, help="of the generated scenes")
    demo.add_argument("--quiet", action="store_true", help="no progress bars")
    demo.set_defaults(run=_demo)
    tables = {
        "link": ("link the records of two tables one to one, with probabilities",
                 link.DESCRIPTION, link.EXAMPLES, link.add_arguments, _link),
        "dedupe": ("find the records of one table that are the same",
                   link.DEDUPE, link.DEDUPE_EXAMPLES, link.add_dedupe_arguments, _dedupe),
        "review": ("answer the pairs that teach most on a local page",
                   link.REVIEW, link.REVIEW_EXAMPLES, link.add_review_arguments, _review),
    }  # fmt: skip
    for name, (words, description, examples, add_arguments, run) in tables.items():
        own = commands.add_parser(
            name, help=words, description=description, epilog=examples,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        add_arguments(own)
        own.set_defaults(run=run)
    warmup = commands.add_parser(
        "warmup",
        help="compile the numba kernels in advance, so that the first use is not slow",
        description="Fits every estimator to a tiny problem, which compiles its kernels into "
        "numba's cache on disk. Kernels that are there already are only loaded.",
        epilog="example: mlestruct warmup ChainCRF GridCRF",
    )
    warmup.add_argument("names", nargs="*", metavar="ESTIMATOR", help="only these (default: all)")
    warmup.set_defaults(run=_warmup)
    return parser


def _demo(options: argparse.Namespace) -> int:
    from .demo import run_demo

    run_demo(options.out, options.seed, verbose=0 if options.quiet else 1)
    return 0


def _link(options: argparse.Namespace) -> int:
    from .linkage.command import run

    return run(options)


def _dedupe(options: argparse.Namespace) -> int:
    from .linkage.dedupe_command import run

    return run(options)


def _review(options: argparse.Namespace) -> int:
    from .linkage.review_command import run

    return run(options)


def _warmup(options: argparse.Namespace) -> int:
    from .warmup import run_warmup

    return run_warmup(options.names)


@contextmanager
def _standard_error(quiet: bool) -> Iterator[None]:
    """Warnings as one line of text, without places in the source; if `quiet` nothing but errors."""

    told = set()  # filters that change in between would let a message pass again

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if not quiet and str(message) not in told:
            clear = "\r\x1b[K" * sys.stderr.isatty()  # a line of progress
            print(f"{clear}mlestruct: {message}", file=sys.stderr)
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


if __name__ == "__main__":
    sys.exit(main())
