"""`mlestruct predict model.mls FILES`: what a model that a command has written says of new data."""

from __future__ import annotations

import argparse
import sys

from ..linkage import RecordLinker
from ..models import ChainCRF, load
from ..pairing import GroupMatcher, SideMatcher
from ..segmentation import ImageSegmenter
from ..tagging import SequenceTagger
from . import link
from .arguments import IDS, UsageProblem
from .common import read_accept, read_records, refuse
from .files import (
    STANDARD,
    FileProblem,
    check_files,
    naming,
    write_output,
    write_table,
)
from .match import propose, read_ends
from .segment import label_pictures
from .tag import tag_file


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    if options.top < 1:
        raise UsageProblem(f"--top: expected at least 1, got {options.top}")
    link.check_precision(options)
    model = load(options.model)
    if not isinstance(model, ImageSegmenter):  # which writes into a folder
        inputs = [options.model, *options.files, *(options.known or ())]
        check_files(inputs, o=options.out, review=options.review)
    if isinstance(model, SequenceTagger | ImageSegmenter):
        others = ("known", "accept", *IDS, "encoding")
        refuse(options, others, "only for models of link and match")
    if not isinstance(model, RecordLinker):
        refuse(options, ("precision", "review"), "only for models of link")
    if isinstance(model, SequenceTagger):
        text = "".join(tag_file(model, path, options.top) for path in options.files)
        write_output(text.encode(), options.out)
    elif isinstance(model, RecordLinker):
        found, _ = link.answer_files(model, options, options.precision, options.top)
        link.write_answer(found, options)
        if not options.quiet:
            print(link.describe(found.summary), file=sys.stderr)
    elif isinstance(model, GroupMatcher | SideMatcher):
        tables = read_records(options.files, options)
        ends = read_ends(options, tables)
        accept = read_accept(options)
        with naming(*options.files, *(options.known or ())):
            table, _, _ = propose(model, tables, accept, options.top, ends)
        write_table(table, options.out)
    elif isinstance(model, ImageSegmenter):
        label_pictures(model, options.files, options.out, options.top)
    elif isinstance(model, ChainCRF):
        raise FileProblem(
            f"{options.model}: a ChainCRF predicts in Python; for files learn a "
            "mlestruct.tagging.SequenceTagger, which takes the same dictionaries, or use "
            "`mlestruct tag`"
        )
    else:
        raise FileProblem(
            f"{options.model}: a {type(model).__name__} predicts from arrays, in Python; "
            "`mlestruct predict` takes models of `mlestruct link`, match, segment and tag"
        )
    written = [path for path in (options.out, options.review) if path not in (None, STANDARD)]
    if not options.quiet and written:
        print(f"Written: {', '.join(written)}", file=sys.stderr)
    return 0
