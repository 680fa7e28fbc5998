"""`mlestruct review left.csv right.csv`: a person answers doubtful pairs on a local page."""

from __future__ import annotations

import argparse
import shlex
import sys
import webbrowser
from functools import partial

from ..exceptions import UsageProblem
from .answer_file import AnswerFile
from .command import check_comparison_options, new_linker, read_known_files, read_records
from .known import KnownRows
from .review import Review
from .review_server import ReviewServer
from .tables import PARQUET, STANDARD, check_files, naming


def run(options: argparse.Namespace) -> int:
    """Run the command until Ctrl-C; returns the exit status."""
    check_comparison_options(options)
    if options.out == STANDARD or options.out.endswith(PARQUET):
        raise UsageProblem("-o: expected a CSV file, in which answers are kept")
    check_files([options.left, options.right, *(options.known or ())], o=options.out)
    left, right = read_records(options)
    known = read_known_files(options, left, right) or KnownRows([])
    answers = AnswerFile(options.out, options.encoding)
    with naming(options.out, *(options.known or ())):
        review = Review(left, right, answers, known, partial(new_linker, options))
    with naming(options.left, options.right):
        review.learn()
    go_on = _command("link", options, ["-o", "links.csv"], [*(options.known or ()), options.out])
    server = ReviewServer(review, go_on)
    stop = review.start()
    try:
        print(f"Answer at {server.address} and end with Ctrl-C", flush=True)
        if sys.stdout.isatty() if options.open is None else options.open:
            webbrowser.open(server.address)
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
        stop()
    again = _command("review", options, ["-o", options.out], options.known or ())
    print(f"\n{review.n_answers} answers in {options.out}. To go on: {again}\nTo use them: {go_on}")
    return 0


def _command(name: str, options: argparse.Namespace, more: list[str], known: object) -> str:
    """A command on the same tables, to be copied."""
    words = ["mlestruct", name, options.left, options.right]
    for path in known:  # type: ignore[attr-defined]
        words += ["--known", path]
    for option in ("id", "left_id", "right_id", "encoding", "columns", "block"):
        if value := vars(options)[option]:
            words += [f"--{option.replace('_', '-')}", value]
    for kind in options.kind:
        words += ["--kind", kind]
    return shlex.join([*words, *more])
