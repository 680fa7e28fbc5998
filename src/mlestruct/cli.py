"""The command line: `mlestruct demo`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from . import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
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
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 2
    try:
        from .demo import run_demo

        run_demo(options.out, options.seed, verbose=0 if options.quiet else 1)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except OSError as error:
        print(f"mlestruct: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
