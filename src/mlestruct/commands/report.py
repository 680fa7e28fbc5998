"""`mlestruct report model.mls FILES`: a page to show."""

from __future__ import annotations

import argparse
import sys

from .._files import write_whole
from ..linkage import RecordLinker
from ..models import load
from ..report.links import links_report
from ..report.tags import tags_report
from ..tagging import SequenceTagger
from .files import FileProblem
from .link import describe, link_files, summarise
from .tag import read_unlabelled


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    model = load(options.model)
    if isinstance(model, RecordLinker):
        links, table, left, right = link_files(model, options, None, 1)
        summary = summarise(model, links, table)
        text = links_report(model, links, left, right, describe(summary, options.accept))
    elif isinstance(model, SequenceTagger):
        sentences = [one for path in options.files for one in read_unlabelled(model, path)]
        words = f"{sum(map(len, sentences))} words of {len(sentences)} sentences, labelled."
        text = tags_report(model, sentences, words)
    else:
        raise FileProblem(
            f"{options.model}: a {type(model).__name__}; `mlestruct report` takes models of "
            "`mlestruct tag` and `mlestruct link`"
        )
    write_whole(options.out, text.encode())
    if not options.quiet:
        print(f"Written: {options.out}", file=sys.stderr)
    return 0
