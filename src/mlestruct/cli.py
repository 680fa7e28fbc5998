"""The command line, `mlestruct COMMAND`; what a command does is imported when it runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from . import __version__
from .exceptions import ModelFileError


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    from .commands.files import FileProblem, UsageProblem
    from .paper.contract import ReproductionError
    from .paper.runner import Interrupted

    parser = make_parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 2
    try:
        return int(options.run(options))
    except (KeyboardInterrupt, Interrupted):
        print("\ninterrupted", file=sys.stderr)
        if options.command == "reproduce":
            again = "it again without --fresh" if options.fresh else "the same command again"
            print(f"run {again} to go on where it stopped", file=sys.stderr)
        return 130
    except (OSError, ImportError, ReproductionError, FileProblem, ModelFileError) as error:
        print(f"mlestruct: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageProblem) else 1


def make_parser() -> argparse.ArgumentParser:
    from .commands.arguments import (
        add_ensembles,
        add_link,
        add_predict,
        add_report,
        add_tag,
    )
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
    demo.add_argument("--seed", type=int, default=0, help="of the generated scenes")
    demo.add_argument("--quiet", action="store_true", help="no progress bars")
    demo.set_defaults(run=_demo)
    link = commands.add_parser(
        "link",
        help="link the records of two tables one to one, with probabilities",
        description="Learns from known links which columns count how much, and links the records "
        "of two tables. One row for every record of the left one: its partner, how probable that "
        "is, and whether to take it, or to look at it.",
    )
    add_link(link)
    link.set_defaults(run=_link)
    tag = commands.add_parser(
        "tag",
        help="learn to label the words of sentences from a file",
        description="Learns a label for every word from sentences in columns (CoNLL) and saves "
        "the model; `mlestruct predict` labels other sentences, with probabilities.",
    )
    add_tag(tag)
    tag.set_defaults(run=_tag)
    predict = commands.add_parser(
        "predict",
        help="apply a model that link or tag has written to other files",
        description="Predictions for files like those that the model learned from, each with its "
        "probability.",
    )
    add_predict(predict)
    predict.set_defaults(run=_predict)
    report = commands.add_parser(
        "report",
        help="one page about a model of link or tag: answers, doubts, weights, certificate",
        description="Writes a self-contained HTML page that needs no network.",
    )
    add_report(report)
    report.set_defaults(run=_report)
    ensembles = commands.add_parser(
        "ensembles",
        help="find the neurons of a recording that respond together to a stimulus",
        description="Fits an Ising model to binary activity and finds, for every stimulus, the "
        "neurons that predict it better than in shuffled recordings.",
    )
    add_ensembles(ensembles)
    ensembles.set_defaults(run=_ensembles)
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


def _link(options: argparse.Namespace) -> int:
    from .commands.link import run

    return run(options)


def _tag(options: argparse.Namespace) -> int:
    from .commands.tag import run

    return run(options)


def _predict(options: argparse.Namespace) -> int:
    from .commands.predict import run

    return run(options)


def _report(options: argparse.Namespace) -> int:
    from .commands.report import run

    return run(options)


def _ensembles(options: argparse.Namespace) -> int:
    from .commands.ensembles import run

    return run(options)


def _reproduce(options: argparse.Namespace) -> int:
    from .paper.command import run_command

    return run_command(options)


def _warmup(options: argparse.Namespace) -> int:
    from .warmup import WORKLOADS, run_warmup

    unknown = sorted(set(options.names) - set(WORKLOADS))
    if unknown or (options.jobs is not None and options.jobs < 1):
        fault = f"no workload {', '.join(unknown)}" if unknown else "--jobs is at least 1"
        print(f"mlestruct warmup: {fault}; workloads: {' '.join(WORKLOADS)}", file=sys.stderr)
        return 1
    return run_warmup(options.names, options.jobs)


if __name__ == "__main__":
    sys.exit(main())
