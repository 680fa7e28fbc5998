"""Arguments of the commands; imports nothing that takes time."""

from __future__ import annotations

import argparse

LINK_EXAMPLE = """\
example:
  mlestruct link left.csv right.csv --known known.csv -o links.csv --review review.csv
  mlestruct link left.csv right.csv --known known.csv -m model.mls -o links.csv
  mlestruct link new_left.csv new_right.csv -m model.mls -o links.csv

left.csv and right.csv have a column of ids and columns of the same names that are compared.
known.csv has two columns, an id of each table: pairs that are known to be the same, and left ids
with an empty cell beside them that are known to have no partner. A few hundred are enough.
"""


def add_link(parser: argparse.ArgumentParser) -> None:
    """Arguments of `mlestruct link`."""
    parser.epilog, parser.formatter_class = LINK_EXAMPLE, argparse.RawDescriptionHelpFormatter
    parser.add_argument("left", help="CSV or Parquet file; - is standard input")
    parser.add_argument("right", help="the other table")
    parser.add_argument("--known", metavar="FILE", help="known links, to learn from")
    parser.add_argument(
        "-m", "--model", metavar="FILE",
        help="with --known: where to save what was learned; else: the model to use",
    )  # fmt: skip
    parser.add_argument("-o", "--out", metavar="FILE", default="-", help="links; default: stdout")
    parser.add_argument("--review", metavar="FILE", help="doubtful pairs, most doubtful first")
    parser.add_argument("--id", metavar="COLUMN", help="column of ids, in both tables")
    parser.add_argument("--columns", metavar="A,B", help="compared columns; default: all")
    parser.add_argument(
        "--kind", metavar="COLUMN=KIND", action="append", default=[],
        help="text, number, date or category, where the guess is wrong; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--block", metavar="A,B", help="compare only records that agree in one of these columns"
    )
    parser.add_argument(
        "--neighbours", type=int, default=10, help="candidates of a record at most (default 10)"
    )
    parser.add_argument("--alpha", default="auto", help="penalty, or auto: cross-validated")
    parser.add_argument(
        "--accept", type=float, default=0.9,
        help="answers below this probability are left to a person (default 0.9)",
    )  # fmt: skip
    parser.add_argument(
        "--precision", type=float, metavar="P",
        help="propose as many links as this expected precision allows; default: the likeliest set",
    )  # fmt: skip
    parser.add_argument("--dry-run", action="store_true", help="count candidate pairs and stop")
    _add_common(parser)


TAG_EXAMPLE = """\
example:
  mlestruct tag train.tsv -m model.mls
  mlestruct predict model.mls new.tsv -o tagged.tsv

A line per word, an empty line between sentences; columns are separated by tabs or spaces, the word
comes first and, in train.tsv, its label last. Columns in between are features as they are.
"""


def add_tag(parser: argparse.ArgumentParser) -> None:
    """Arguments of `mlestruct tag`."""
    parser.epilog, parser.formatter_class = TAG_EXAMPLE, argparse.RawDescriptionHelpFormatter
    parser.add_argument("train", help="sentences with labels, in columns; - is standard input")
    parser.add_argument("-m", "--model", metavar="FILE", required=True, help="the model to write")
    parser.add_argument("--test", metavar="FILE", help="other sentences with labels, to judge by")
    parser.add_argument("--window", type=int, default=1, help="neighbours that count (default 1)")
    parser.add_argument("--alpha", default="auto", help="penalty, or auto: cross-validated")
    _add_common(parser)


PREDICT_EXAMPLE = """\
example:
  mlestruct predict model.mls new.tsv -o tagged.tsv --top 3
  mlestruct predict model.mls left.csv right.csv -o links.csv

What FILES are depends on the model: sentences for one of `mlestruct tag`, two tables for one of
`mlestruct link`.
"""


def add_predict(parser: argparse.ArgumentParser) -> None:
    """Arguments of `mlestruct predict`."""
    parser.epilog, parser.formatter_class = PREDICT_EXAMPLE, argparse.RawDescriptionHelpFormatter
    parser.add_argument("model", help="what `mlestruct tag` or `mlestruct link` has written")
    parser.add_argument("files", nargs="+", help="data like those that the model learned from")
    parser.add_argument("-o", "--out", metavar="FILE", default="-", help="default: stdout")
    parser.add_argument(
        "--top", type=int, default=1, metavar="K", help="the K most probable labels of each word"
    )
    parser.add_argument("--accept", type=float, default=0.9, help="of links, as in mlestruct link")
    parser.add_argument("--precision", type=float, help="of links, as in mlestruct link")
    parser.add_argument("--id", metavar="COLUMN", help="column of ids, in tables")
    parser.add_argument("--quiet", action="store_true", help="nothing on stderr but errors")


REPORT_EXAMPLE = """\
example:
  mlestruct report people.mls left.csv right.csv -o report.html
  mlestruct report tagger.mls new.tsv -o report.html
"""


def add_report(parser: argparse.ArgumentParser) -> None:
    """Arguments of `mlestruct report`."""
    parser.epilog, parser.formatter_class = REPORT_EXAMPLE, argparse.RawDescriptionHelpFormatter
    parser.add_argument("model", help="what `mlestruct tag` or `mlestruct link` has written")
    parser.add_argument("files", nargs="+", help="data like those that the model learned from")
    parser.add_argument("-o", "--out", metavar="FILE", default="report.html", help="the page")
    parser.add_argument("--accept", type=float, default=0.9, help="as in `mlestruct link`")
    parser.add_argument("--id", metavar="COLUMN", help="column of ids, in tables")
    parser.add_argument("--quiet", action="store_true", help="nothing on stderr but errors")


ENSEMBLES_EXAMPLE = """\
example:
  mlestruct ensembles mouse_day1.mat --jobs 2
  mlestruct ensembles mouse_day1.mat --select --time-span 2 -o results

The file is that of graph_ensemble or Pat-Map (.mat: data, stimuli or udf, coords or rois), a .npz
file with the same names, or a CSV file with a column for each neuron and columns whose names start
with stim. The folder gets ensembles.csv, the model and three pictures; with --select also the
scores of all models, so that an interrupted run goes on where it stopped.
"""


def add_ensembles(parser: argparse.ArgumentParser) -> None:
    """Arguments of `mlestruct ensembles`."""
    parser.epilog, parser.formatter_class = ENSEMBLES_EXAMPLE, argparse.RawDescriptionHelpFormatter
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
    parser.add_argument("--seed", type=int, default=0, help="of the shuffles")
    parser.add_argument("--strict", action="store_true", help="status 3 if a fit is not certified")
    parser.add_argument("--json", action="store_true", help="a summary as JSON on stdout")
    parser.add_argument("--quiet", action="store_true", help="nothing on stderr but errors")


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=0, help="of cross-validation")
    parser.add_argument("--strict", action="store_true", help="status 3 if a fit is not certified")
    parser.add_argument("--json", action="store_true", help="a summary as JSON on stdout")
    parser.add_argument("--quiet", action="store_true", help="nothing on stderr but errors")
