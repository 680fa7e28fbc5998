"""The arguments of the commands on tables. Imports nothing that takes time."""

from __future__ import annotations

import argparse

DESCRIPTION = """\
Links the records of two tables one to one. How much each column counts follows from the tables
themselves, and from known links if there are any. The result has one row per left record: its
match, the probability, and a decision: link, no partner, or review.
"""

EXAMPLES = """\
example:
  mlestruct link left.csv right.csv -o links.csv --review review.csv
  mlestruct link left.csv right.csv --known known.csv -m model.mls -o links.csv --report page.html
  mlestruct link left.csv right.csv -m model.mls -o links.csv

left.csv and right.csv have a column of ids, and are compared by the columns that they share.
known.csv has two columns, an id of each table. A row with an empty cell says that the record has no
match. At least a hundred rows, some of them without a match, change the weights. A column "checked"
has yes for links, no for non-links, and is empty for undecided pairs: fill it in review.csv, and
pass that file to --known as well.
Kinds of columns (--kind): text, number, date, category.
"""

DEDUPE = """\
Finds the records of one table that are the same person or thing. No labels are needed. The result
has one row per record with the number of its cluster.
"""

DEDUPE_EXAMPLES = """\
example:
  mlestruct dedupe people.csv -o clusters.csv --pairs pairs.csv
"""

REVIEW = """\
Asks you about doubtful pairs on a local page, one at a time, and learns from the answers. Each
answer is written at once; to go on later, run the same command again. No labels are needed to
start.
"""

REVIEW_EXAMPLES = """\
example:
  mlestruct review left.csv right.csv -o answers.csv
  mlestruct link left.csv right.csv --known answers.csv -o links.csv
"""


def seed(text: str) -> int:
    """The value of --seed."""
    if int(text) < 0:
        raise ValueError
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `mlestruct link`."""
    add = parser.add_argument
    _add_tables(parser)
    add("-m", "--model", metavar="FILE",
        help="with --known: where to save the model; without: the model to use")  # fmt: skip
    add("-o", "--out", metavar="FILE", default="-", help="the links (default: standard output)")
    add("--review", metavar="FILE", help="uncertain pairs, the most uncertain first")
    add("--report", metavar="FILE", help="a self-contained HTML page of the links and the model")
    add("--no-records", action="store_true",
        help="leave ids and cells, which may be personal data, out of the page")  # fmt: skip
    add("--accept", type=float, default=0.9, metavar="P",
        help="leave answers below this probability to a person (default 0.9)")  # fmt: skip
    add("--precision", type=float, metavar="P",
        help="propose as many links as this expected precision allows (default: the links of "
        "largest expected F1)")  # fmt: skip
    add("--top", type=int, default=1, metavar="K", help="list the K best candidates per record")
    add("--dry-run", action="store_true", help="count candidate pairs and stop")
    add("--strict", action="store_true", help="exit status 3 if the fit is not certified")
    add("--json", action="store_true", help="print a summary as JSON")
    _add_alpha(parser)
    add_comparison_arguments(parser)


def add_review_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `mlestruct review`."""
    add = parser.add_argument
    _add_tables(parser)
    add("-o", "--out", metavar="FILE", default="answers.csv",
        help="the answers; continued if it exists (default: answers.csv)")  # fmt: skip
    add("--open", action=argparse.BooleanOptionalAction,
        help="open the page in a browser (default: if standard output is a terminal)")  # fmt: skip
    _add_alpha(parser)
    add_comparison_arguments(parser)


def add_dedupe_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `mlestruct dedupe`."""
    add = parser.add_argument
    add("table", help="CSV or Parquet file; - is standard input")
    add("--known", metavar="FILE", action="append",
        help="known pairs of ids (column checked: yes or no), if any; may be repeated")  # fmt: skip
    add("-o", "--out", metavar="FILE", default="-", help="the clusters (default: standard output)")
    add("--pairs", metavar="FILE", help="the compared pairs with probabilities and conflicts")
    add("--size", type=int, default=10, metavar="N",
        help="maximum number of records of a cluster (default 10); 2 if nobody is listed three "
        "times, which is more accurate then")  # fmt: skip
    add_comparison_arguments(parser)


def _add_tables(parser: argparse.ArgumentParser) -> None:
    """Two tables, their ids, and what is known of their links."""
    add = parser.add_argument
    add("left", help="CSV or Parquet file; - is standard input")
    add("right", help="the other table")
    add("--known", metavar="FILE", action="append",
        help="known links to learn from, if any; may be repeated")  # fmt: skip
    add("--left-id", metavar="COLUMN", help="column of ids in the left table")
    add("--right-id", metavar="COLUMN", help="column of ids in the right table")


def _add_alpha(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--alpha", default="auto", help="penalty (default: auto, by cross-validation)"
    )


def add_comparison_arguments(parser: argparse.ArgumentParser) -> None:
    """How tables are read, and which records are compared by which columns."""
    add = parser.add_argument
    add("--id", metavar="COLUMN",
        help="column of ids (default: id, or the first that ends in _id)")  # fmt: skip
    add("--encoding", metavar="NAME", help="of CSV files that are not UTF-8, such as cp1252")
    add("--columns", metavar="A,B", help="columns to compare (default: all)")
    add("--kind", metavar="COLUMN=KIND", action="append", default=[],
        help="the kind of a column if the guess is wrong; may be repeated")  # fmt: skip
    add("--block", metavar="A+B,C",
        help="compare only records that agree in A and B, or in C")  # fmt: skip
    add("--neighbours", type=int, default=10,
        help="maximum number of candidates per record (default 10)")  # fmt: skip
    add("--seed", type=seed, default=0, help="of random choices (default 0)")
    add("--quiet", action="store_true", help="print nothing but errors to standard error")
