"""`mlestruct report model.mls FILES`: a page to show."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from ..linkage import RecordLinker
from ..models import load
from ..pairing import GroupMatcher, SideMatcher
from ..report.links import links_report
from ..report.matches import matches_report
from ..report.pictures import pictures_report
from ..report.tags import tags_report
from ..segmentation import ImageSegmenter, read_picture
from ..tagging import SequenceTagger
from . import link, match
from .arguments import IDS
from .common import fit_summary, fit_words, read_accept, read_records, refuse
from .files import STANDARD, FileProblem, check_files, naming, write_output
from .segment import pictures
from .tag import read_unlabelled


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    check_files([options.model, *options.files, *(options.known or ())], o=options.out)
    model = load(options.model)
    if isinstance(model, SequenceTagger | ImageSegmenter):
        refuse(
            options,
            ("known", "accept", *IDS, "encoding", "no_records"),
            "only for models of link and match",
        )
    for kind, make in PAGES.items():
        if isinstance(model, kind):
            write_output(make(model, options).encode(), options.out)
            if not options.quiet and options.out != STANDARD:
                print(f"Written: {options.out}", file=sys.stderr)
            return 0
    raise FileProblem(
        f"{options.model}: a {type(model).__name__}; `mlestruct report` takes models of "
        "`mlestruct link`, match, segment and tag"
    )


def _links(linker: RecordLinker, options: argparse.Namespace) -> str:
    found, known = link.answer_files(linker, options)
    doubted = None
    if known is not None:
        named = known.links[["left", "right"]]
        named = named[(named["left"] != "") & (named["right"] != "")]
        alone = linker.link(found.left, found.right).pairs[["left", "right", "probability"]]
        doubted = named.merge(alone, how="left")  # no probability: not among the candidates
    words = link.describe(found.summary)
    return links_report(
        linker, found.links, found.left, found.right, words, doubted, not options.no_records
    )


def _matches(matcher: GroupMatcher | SideMatcher, options: argparse.Namespace) -> str:
    accept = read_accept(options)
    tables = read_records(options.files, options)
    ends = match.read_ends(options, tables)
    with naming(*options.files, *(options.known or ())):
        table, found, tables = match.propose(matcher, tables, accept, 1, ends)
    words = match.describe(match.summarise(matcher, table), accept)
    return matches_report(matcher, found, tables, words, not options.no_records)


def _pictures(segmenter: ImageSegmenter, options: argparse.Namespace) -> str:
    paths = pictures(options.files)
    images = [read_picture(path, segmenter.max_side) for path in paths]
    words = f"{len(images)} pictures, labelled.\n{fit_words(fit_summary(segmenter))}"
    return pictures_report(segmenter, images, [path.name for path in paths], words)


def _tags(tagger: SequenceTagger, options: argparse.Namespace) -> str:
    sentences = [one for path in options.files for one in read_unlabelled(tagger, path)]
    words = f"{sum(map(len, sentences))} words of {len(sentences)} sentences, labelled."
    return tags_report(tagger, sentences, f"{words}\n{fit_words(fit_summary(tagger))}")


PAGES: dict[Any, Any] = {
    RecordLinker: _links,
    GroupMatcher: _matches,
    SideMatcher: _matches,
    ImageSegmenter: _pictures,
    SequenceTagger: _tags,
}
