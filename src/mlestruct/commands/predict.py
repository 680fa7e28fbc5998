"""`mlestruct predict model.mls FILES`: what a model that a command has written says of new data."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .._files import write_whole
from ..linkage import RecordLinker
from ..models import load
from ..tagging import SequenceTagger
from .files import STANDARD, FileProblem, UsageProblem, index_by_id, read_table, write_table
from .link import answers
from .tag import tag_file


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    if options.top < 1:
        raise UsageProblem(f"--top: expected at least 1, got {options.top}")
    model = load(options.model)
    if isinstance(model, SequenceTagger):
        text = "".join(tag_file(model, path, options.top) for path in options.files)
        if options.out == STANDARD:
            sys.stdout.write(text)
        else:
            write_whole(options.out, text.encode())
    elif isinstance(model, RecordLinker):
        if len(options.files) != 2:
            raise UsageProblem(f"expected two tables, left and right, got {len(options.files)}")
        left, right = (index_by_id(read_table(path), path, options.id) for path in options.files)
        links = model.link(left, right, options.precision)
        write_table(answers(links, options.accept), options.out)
    else:
        raise FileProblem(
            f"{options.model}: a {type(model).__name__} predicts from arrays, in Python; "
            "`mlestruct predict` takes models of `mlestruct tag` and `mlestruct link`"
        )
    if not options.quiet and options.out != STANDARD:
        print(f"Written: {Path(options.out)}", file=sys.stderr)
    return 0
