"""The commands that work on files: their words and arguments. Imports nothing that takes time."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..exceptions import FileProblem


class UsageProblem(FileProblem):
    """An option has a value that it cannot have, or one is missing (exit status 2)."""


def seed(text: str) -> int:
    """The value of --seed."""
    if int(text) < 0:
        raise ValueError
    return int(text)


# Options that mean the same in every command that has them.
SHARED: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "known": (
        ("--known",),
        {
            "metavar": "FILE",
            "action": "append",
            "help": "known links, to learn from; may be repeated",
        },
    ),
    "given": (
        ("--known",),
        {
            "metavar": "FILE",
            "action": "append",
            "help": "links or pairs that are known; answers keep to them",
        },
    ),
    "pairs": (("--pairs",), {"metavar": "FILE", "help": "known pairs, to learn from"}),
    "learned": (
        ("-m", "--model"),
        {
            "metavar": "FILE",
            "help": "where to save what was learned; if there is nothing to learn from: the model "
            "to use",
        },
    ),
    "model": (("-m", "--model"), {"metavar": "FILE", "required": True, "help": "file to write"}),
    "out": (("-o", "--out"), {"metavar": "FILE", "default": "-", "help": "default: stdout"}),
    "review": (
        ("--review",),
        {"metavar": "FILE", "help": "doubtful pairs of links, most doubtful first"},
    ),
    "id": (
        ("--id",),
        {
            "metavar": "COLUMN",
            "help": "column of ids, in all tables (default: id, or the first that ends in _id)",
        },
    ),
    "left_id": (("--left-id",), {"metavar": "COLUMN", "help": "column of ids, in the left table"}),
    "right_id": (("--right-id",), {"metavar": "COLUMN", "help": "and in the right table"}),
    "encoding": (
        ("--encoding",),
        {"metavar": "NAME", "help": "of CSV files that are not UTF-8, such as cp1252"},
    ),
    "columns": (("--columns",), {"metavar": "A,B", "help": "columns that count; default: all"}),
    "kind": (
        ("--kind",),
        {
            "metavar": "COLUMN=KIND",
            "action": "append",
            "default": [],
            "help": "where the guess is wrong; may be repeated",
        },
    ),
    "alpha": (
        ("--alpha",),
        {"default": "auto", "help": "penalty; default: auto, chosen by cross-validation"},
    ),
    "accept": (
        ("--accept",),
        {
            "type": float,
            "metavar": "P",
            "help": "answers below this probability are left to a person (default: 0.9 for links, "
            "0 for pairs)",
        },
    ),
    "precision": (
        ("--precision",),
        {
            "type": float,
            "metavar": "P",
            "help": "propose as many links as this expected precision allows, of which --accept "
            "still leaves some to a person (--accept 0: none); default: the links of largest "
            "expected F1",
        },
    ),
    "top": (
        ("--top",),
        {"type": int, "default": 1, "metavar": "K", "help": "the K most probable answers each"},
    ),
    "seed": (("--seed",), {"type": seed, "default": 0, "help": "of random choices (default 0)"}),
    "strict": (("--strict",), {"action": "store_true", "help": "status 3 unless certified"}),
    "json": (("--json",), {"action": "store_true", "help": "a summary as JSON on stdout"}),
    "quiet": (("--quiet",), {"action": "store_true", "help": "nothing on stderr but errors"}),
}
IDS = ("id", "left_id", "right_id")
LEARNING = ("alpha", "seed", "strict", "json", "quiet")


def add_shared(parser: argparse.ArgumentParser, *names: str) -> None:
    """Add options that several commands have."""
    for name in names:
        flags, settings = SHARED[name]
        parser.add_argument(*flags, **settings)


@dataclass(frozen=True)
class Command:
    """One command: `mlestruct.commands.<name>.run` takes what its arguments say."""

    name: str
    help: str
    description: str
    example: str
    add: Callable[[argparse.ArgumentParser], None]


def add_link(parser: argparse.ArgumentParser) -> None:
    """Arguments of `mlestruct link`."""
    parser.add_argument("left", help="CSV or Parquet file; - is standard input")
    parser.add_argument("right", help="the other table")
    add_shared(parser, "known", "learned", "out")
    add_shared(parser, "review", *IDS, "encoding", "columns", "kind")
    parser.add_argument(
        "--block", metavar="A,B", help="compare only records that agree in one of these columns"
    )
    parser.add_argument(
        "--neighbours", type=int, default=10, help="candidates of a record at most (default 10)"
    )
    add_shared(parser, "accept", "precision", "top")
    parser.add_argument("--dry-run", action="store_true", help="count candidate pairs and stop")
    add_shared(parser, *LEARNING)


def add_match(parser: argparse.ArgumentParser) -> None:
    """Arguments of `mlestruct match`."""
    parser.add_argument(
        "tables", nargs="+", metavar="TABLE", help="one CSV or Parquet file of people, or two sides"
    )
    add_shared(parser, "pairs", "learned", "out", *IDS, "encoding", "columns", "kind")
    parser.add_argument(
        "--group", metavar="COLUMN", help="one table: pairs only within a group, such as the year"
    )
    parser.add_argument(
        "--capacity", default="1", metavar="N",
        help="two tables: partners of a right record at most, a number or a column (default 1)",
    )  # fmt: skip
    parser.add_argument(
        "--left-capacity", default="1", metavar="N", help="partners of a left record, likewise"
    )
    parser.add_argument(
        "--singles", action="store_true", help="some stay without a partner, and may have before"
    )
    add_shared(parser, "accept", "top", *LEARNING)


def add_segment(parser: argparse.ArgumentParser) -> None:
    """Arguments of `mlestruct segment`."""
    parser.add_argument("images", help="folder of pictures")
    parser.add_argument("masks", help="folder of PNG masks of the same names")
    add_shared(parser, "model")
    parser.add_argument(
        "--test", nargs=2, metavar=("IMAGES", "MASKS"), help="other folders, to judge by"
    )
    parser.add_argument(
        "--max-side", type=int, default=200, help="shrink pictures to this many pixels (200)"
    )
    parser.add_argument("--unknown", metavar="LABEL", help="label of pixels not to learn from")
    parser.add_argument("--neighbours", type=int, choices=(4, 8), default=4, help="of a pixel (4)")
    add_shared(parser, *LEARNING)


def add_tag(parser: argparse.ArgumentParser) -> None:
    """Arguments of `mlestruct tag`."""
    parser.add_argument("train", help="sentences with labels; - is standard input")
    add_shared(parser, "model")
    parser.add_argument("--test", metavar="FILE", help="other sentences with labels, to judge by")
    parser.add_argument("--window", type=int, default=1, help="neighbours that count (default 1)")
    parser.add_argument(
        "--bio", action="store_true", help="labels are B-x, I-x, O; I-x follows only B-x or I-x"
    )
    add_shared(parser, *LEARNING)


def add_predict(parser: argparse.ArgumentParser) -> None:
    """Arguments of `mlestruct predict`."""
    parser.add_argument("model", help="what `mlestruct link`, match, segment or tag has written")
    parser.add_argument("files", nargs="+", help="data like those that the model learned from")
    add_shared(parser, "out", "given", "review", "top", "accept", "precision", *IDS)
    add_shared(parser, "encoding", "quiet")


def add_report(parser: argparse.ArgumentParser) -> None:
    """Arguments of `mlestruct report`."""
    parser.add_argument("model", help="what `mlestruct link`, match, segment or tag has written")
    parser.add_argument("files", nargs="+", help="data like those that the model learned from")
    parser.add_argument("-o", "--out", metavar="FILE", default="report.html", help="the page")
    parser.add_argument(
        "--no-records", action="store_true",
        help="a page without ids and cells, which may be personal data, of links and pairs",
    )  # fmt: skip
    add_shared(parser, "given", "accept", *IDS, "encoding", "quiet")


def add_ensembles(parser: argparse.ArgumentParser) -> None:
    """Arguments of `mlestruct ensembles`."""
    parser.add_argument("file", help="a recording: .mat, .npz or .csv")
    parser.add_argument("-o", "--out", metavar="FOLDER", help="default: NAME-ensembles")
    parser.add_argument(
        "--select", action="store_true",
        help="choose density, alpha and time span (1 or --time-span) by held-out frames",
    )  # fmt: skip
    parser.add_argument("--alpha", type=float, default=1.0, help="penalty (default 1)")
    parser.add_argument(
        "--density", type=float, help="share of all pairs to keep; default: all that are selected"
    )
    parser.add_argument("--time-span", type=int, default=1, help="frames of a model (default 1)")
    parser.add_argument("--shuffles", type=int, default=100, help="shuffled models (default 100)")
    parser.add_argument(
        "--fdr", type=float, default=0.05, help="false-discovery rate (default .05)"
    )
    parser.add_argument("--jobs", type=int, help="processes (default 1)")
    add_shared(parser, "seed", "strict", "json", "quiet")


COMMANDS = (
    Command(
        "link",
        "link the records of two tables one to one, with probabilities",
        "Learns from known links which columns count how much, and links the records of two "
        "tables. One row for every record of the left one: its partner, how probable that is, and "
        "whether to take it, or to look at it.",
        """\
example:
  mlestruct link left.csv right.csv --known known.csv -o links.csv --review review.csv
  mlestruct link left.csv right.csv --known known.csv -m model.mls -o links.csv
  mlestruct link left.csv right.csv -m model.mls -o links.csv

left.csv and right.csv have a column of ids and columns of the same names that are compared.
known.csv has two columns, an id of each table: pairs that are known to be the same, and ids of
either table with an empty cell beside them that have no partner. A few hundred are enough. A column
"checked" has yes for links, no for pairs that are none, and is empty where nothing is known:
review.csv has it, and with it filled in is one more file for --known.
Kinds of columns (--kind): text, number, date, category.
""",
        add_link,
    ),
    Command(
        "match",
        "pair people within a group, or the records of two sides with capacities",
        "Learns from known pairs which answers go together, and proposes partners for all who are "
        "in no known pair.",
        """\
example:
  mlestruct match people.csv --pairs pairs.csv --group year -o matches.csv -m pairs.mls
  mlestruct match papers.csv reviewers.csv --pairs reviews.csv --left-capacity 3 --capacity load

Tables have a column of ids and columns of answers; pairs.csv has two columns of ids. Kinds of
columns (--kind): ordinal, category or number; the order of words is listed like
--kind "noise=ordinal:low;medium;high". Columns that both of two tables have are compared as in
`mlestruct link`.
""",
        add_match,
    ),
    Command(
        "segment",
        "learn to label the pixels of pictures from masks",
        "Learns from a folder of pictures and one of masks of the same names, and saves the model; "
        "`mlestruct predict` labels other pictures, with probabilities.",
        """\
example:
  mlestruct segment images masks -m pixels.mls
  mlestruct predict pixels.mls images -o labelled

A mask has the label of a pixel as its grey value or colour. Masks are PNG files: JPEG blurs labels.
""",
        add_segment,
    ),
    Command(
        "tag",
        "learn to label the words of sentences from a file",
        "Learns a label for every word from sentences in columns (CoNLL), or from features as JSON "
        "lines, and saves the model; `mlestruct predict` labels other sentences.",
        """\
example:
  mlestruct tag train.tsv -m tagger.mls
  mlestruct predict tagger.mls train.tsv -o tagged.tsv

A line per word, an empty line between sentences; columns are separated by tabs or spaces, the word
comes first and, in train.tsv, its label last. Columns in between are features as they are.
Files that end in .jsonl have a sentence per line: {"x": [{"word": "the", ...}, ...], "y": [...]},
x as for sklearn-crfsuite and y its labels.
""",
        add_tag,
    ),
    Command(
        "predict",
        "apply a model of link, match, segment or tag to other files",
        "Predictions for files like those that the model learned from, each with its probability.",
        """\
example:
  mlestruct predict tagger.mls train.tsv -o tagged.tsv --top 3
  mlestruct predict model.mls left.csv right.csv -o links.csv
  mlestruct predict pairs.mls people.csv -o matches.csv --top 3
  mlestruct predict pixels.mls images -o labelled

What FILES are depends on the model: sentences for one of `mlestruct tag`, two tables for one of
`mlestruct link`, one or two for `mlestruct match`, folders or pictures for `mlestruct segment`.
""",
        add_predict,
    ),
    Command(
        "report",
        "one page about a model: answers, doubts, weights, certificate",
        "Writes a self-contained HTML page that needs no network.",
        """\
example:
  mlestruct report model.mls left.csv right.csv -o report.html
  mlestruct report pairs.mls people.csv -o report.html
  mlestruct report tagger.mls train.tsv -o report.html
  mlestruct report pixels.mls images -o report.html
""",
        add_report,
    ),
    Command(
        "ensembles",
        "find the neurons of a recording that respond together to a stimulus",
        "Fits an Ising model to binary activity and finds, for every stimulus, the neurons that "
        "predict it better than in shuffled recordings.",
        """\
example:
  mlestruct ensembles mouse_day1.mat --jobs 2
  mlestruct ensembles mouse_day1.mat --select --time-span 2 -o results

The file is that of graph_ensemble or Pat-Map (.mat: data, stimuli or udf, coords or rois), a .npz
file with the same names, or a CSV file with a column for each neuron and columns whose names start
with stim. The folder gets ensembles.csv, the model and three pictures; with --select also the
scores of all models, so that an interrupted run goes on where it stopped.
""",
        add_ensembles,
    ),
)
