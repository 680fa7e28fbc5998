"""`mlestruct predict model.mls FILES`: what a model that a command has written says of new data."""

from __future__ import annotations

import argparse
import sys

from ..linkage import RecordLinker
from ..models import load
from ..pairing import GroupMatcher, SideMatcher
from ..segmentation import ImageSegmenter
from ..tagging import SequenceTagger
from .arguments import UsageProblem
from .common import read_accept, read_records, refuse
from .files import (
    STANDARD,
    FileProblem,
    check_files,
    naming,
    write_output,
    write_table,
)
from .link import check_precision, link_files
from .match import propose, read_ends
from .segment import label_pictures
from .tag import tag_file


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    if options.top < 1:
        raise UsageProblem(f"--top: expected at least 1, got {options.top}")
    check_precision(options)
    model = load(options.model)
    if not isinstance(model, ImageSegmenter):  # which writes into a folder
        check_files([options.model, *options.files, options.known], o=options.out)
    if isinstance(model, SequenceTagger | ImageSegmenter):
        refuse(options, ("known", "accept", "id"), "only for models of link and match")
    if not isinstance(model, RecordLinker):
        refuse(options, ("precision",), "only for models of link")
    if isinstance(model, SequenceTagger):
        text = "".join(tag_file(model, path, options.top) for path in options.files)
        write_output(text.encode(), options.out)
    elif isinstance(model, RecordLinker):
        _, table, *_ = link_files(model, options, options.precision, options.top)
        write_table(table, options.out)
    elif isinstance(model, GroupMatcher | SideMatcher):
        tables = read_records(options.files, options.id)
        ends = read_ends(options.known, tables)
        accept = read_accept(options)
        with naming(*options.files, options.known):
            table, _, _ = propose(model, tables, accept, options.top, ends)
        write_table(table, options.out)
    elif isinstance(model, ImageSegmenter):
        label_pictures(model, options.files, options.out, options.top)
    else:
        raise FileProblem(
            f"{options.model}: a {type(model).__name__} predicts from arrays, in Python; "
            "`mlestruct predict` takes models of `mlestruct link`, match, segment and tag"
        )
    if not options.quiet and options.out != STANDARD:
        print(f"Written: {options.out}", file=sys.stderr)
    return 0
