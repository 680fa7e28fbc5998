"""`mlestruct dedupe people.csv`: from one file to clusters of records that are the same."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from .._lazy import pandas_module
from ..exceptions import UsageProblem
from .command import check_comparison_options, model_options, read_rows
from .deduplicator import Deduplicator, known_pairs
from .known import known_table
from .summary import percent
from .tables import STANDARD, check_files, index_by_id, naming, read_table, write_table


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    check_comparison_options(options)
    if options.size < 2:
        raise UsageProblem(f"--size: expected at least 2, got {options.size}")
    if options.out == options.pairs == STANDARD:
        raise UsageProblem("-o, --pairs: only one of them can be standard output")
    check_files([options.table, *(options.known or ())], o=options.out, pairs=options.pairs)
    table = read_table(options.table, options.encoding)
    table = index_by_id(table, options.table, options.id)
    known = None
    if options.known:
        with naming():
            rows = read_rows(options.known, options.encoding).rows
            known_pairs(rows, table.index)
        known = known_table(rows)
    with naming(options.table):
        own = model_options(options)
        found = Deduplicator(size=options.size, **own).fit(table, known)
    write_table(clusters(found, table), options.out)
    if options.pairs:
        pairs = found.pairs_.sort_values("probability", ascending=False, kind="stable")
        write_table(pairs, options.pairs)
    if not options.quiet:
        print(describe(found, table), file=sys.stderr)
    return 0


def clusters(found: Deduplicator, table: Any) -> Any:
    """One row per record, clusters of several records first."""
    sizes = (
        pandas_module()
        .Series(found.labels_)
        .map(pandas_module().Series(found.labels_).value_counts())
    )
    ids = {"id": table.index, "cluster": found.labels_, "records": sizes.to_numpy()}
    out = pandas_module().DataFrame(ids)
    for column in table.columns:
        out[column if column not in ids else f"{column} "] = table[column].to_numpy()
    return out.sort_values(["records", "cluster"], ascending=[False, True], kind="stable")


def describe(found: Deduplicator, table: Any) -> str:
    """What was found, in words."""
    pairs, sizes = found.pairs_, pandas_module().Series(found.labels_).value_counts()
    joined = pairs["probability"][pairs["same_cluster"]]
    several = sizes[sizes > 1]
    lines = [
        f"{len(table)} records in {len(sizes)} clusters; {len(several)} of these have several "
        f"records, the largest {sizes.max()}."
    ]
    if len(joined):
        expected = joined.sum() / pairs["probability"].sum()
        lines.append(
            f"Of the {len(joined)} compared pairs within clusters {percent(float(joined.mean()))} "
            f"should be duplicates, and {percent(float(expected))} of the duplicates among all "
            "compared pairs should be within clusters."
        )
    conflict = pairs["conflict"]
    if conflict.any():
        lines.append(
            f"{conflict.sum()} pairs contradict their cluster, column 'conflict' of --pairs: "
            f"{(conflict & pairs['same_cluster']).sum()} within one that are not probable, "
            f"{(conflict & ~pairs['same_cluster']).sum()} probable ones between two."
        )
    if (full := int((several == found.size).sum())) and found.size > 2:
        lines.append(f"{full} clusters are as large as --size allows; there may be larger ones.")
    compared = ", ".join(map(str, found.comparisons_))
    lines.append(
        f"{len(pairs)} pairs were compared. Ids: {table.attrs['ids']}. Compared: {compared}."
    )
    return "\n".join(lines)
