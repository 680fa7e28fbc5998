"""Tables of candidate pairs that do not fit into memory: cut into files of whole components.

Records that no chain of candidate pairs connects do not compete: a matching falls apart into
connected components. Files of whole components are the `Parts` of a fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from ..learning.workers import Parts
from ..models import PairInput

Ints = NDArray[np.int64]


def _parquet() -> tuple[Any, Any]:
    try:
        import pandas
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(
            "tables of pairs in files need pandas and pyarrow: pip install pandas pyarrow"
        ) from error
    return pandas, parquet


def split_pairs(
    table: str | Path, folder: str | Path, ids: tuple[str, str], pairs: int = 500_000
) -> list[Path]:
    """Cut a Parquet table of candidate pairs into files of whole connected components.

    One row group is in memory at a time, and two numbers for each record. Rows keep their order.

    Parameters
    ----------
    table : file with one row for each pair
    folder : of the files, made if it is not there
    ids : the columns with the id on the left and that on the right
    pairs : of a file, about; a larger component is a file of its own

    Returns
    -------
    the files, for `pair_parts`
    """
    _, parquet = _parquet()
    if pairs < 1:
        raise ValueError(f"pairs: expected a positive number, got {pairs!r}")
    with parquet.ParquetFile(table) as source, ExitStack() as writing:
        missing = [name for name in ids if name not in source.schema_arrow.names]
        if missing:
            raise ValueError(f"ids: {table} has no column {missing[0]!r}")
        if source.metadata.num_rows == 0:
            raise ValueError(f"table: {table} has no rows")
        left, right = (_known_ids(source, name) for name in ids)
        components = _components(source, ids, left, right)
        file_of = _files(source, ids, left, components, pairs)
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"pairs-{k:05d}.parquet" for k in range(int(file_of.max()) + 1)]
        schema = source.schema_arrow
        writers = [writing.enter_context(parquet.ParquetWriter(path, schema)) for path in paths]
        for k in range(source.num_row_groups):
            rows = source.read_row_group(k)
            at = file_of[components[left.get_indexer(rows[ids[0]].to_pandas())]]
            for place in np.unique(at).tolist():
                writers[place].write_table(rows.filter(at == place))
    return paths


def pair_parts(
    files: Sequence[str | Path],
    ids: tuple[str, str],
    linked: str,
    features: Sequence[str] | None = None,
    **options: Any,
) -> Parts:
    """Samples for `BipartiteMatchingCRF.fit`, one for each file of candidate pairs.

    Parameters
    ----------
    files : Parquet tables whose records do not occur in each other, as `split_pairs` makes them
    ids : the columns with the id on the left and that on the right
    linked : the boolean column of true links
    features : columns to learn from; by default all others
    options : other parameters of `Parts`, such as `client`
    """
    read = partial(_read, ids=ids, linked=linked, features=features)
    return Parts(read, [str(path) for path in files], **options)


def _read(
    path: str, ids: tuple[str, str], linked: str, features: Sequence[str] | None
) -> tuple[list[PairInput], list[Any]]:
    pandas, _ = _parquet()
    frame = pandas.read_parquet(path)
    if linked not in frame:
        raise ValueError(f"linked: {path} has no column {linked!r}")
    sample = PairInput.from_frame(frame.drop(columns=linked), ids=ids, features=features)
    return [sample], [frame[linked].to_numpy(dtype=bool)]


def _column(source: Any, name: str) -> Iterator[Any]:
    """A column, one row group at a time."""
    for k in range(source.num_row_groups):
        yield source.read_row_group(k, columns=[name])[name].to_pandas()


def _known_ids(source: Any, name: str) -> Any:
    """All ids of a column."""
    pandas, _ = _parquet()
    found = pandas.Index([])
    for part in _column(source, name):
        if part.isna().any():
            raise ValueError(f"ids: column {name!r} has missing ids")
        new = pandas.Index(part.unique())
        found = new if found.empty else found.append(new.difference(found))
    return found


def _components(source: Any, ids: tuple[str, str], left: Any, right: Any) -> Ints:
    """The number of the connected component of each record, those on the left first.

    Row group by row group: the pairs of each join components that were found before.
    """
    component = np.arange(len(left) + len(right))
    for a, b in zip(*(_column(source, name) for name in ids), strict=True):
        ends = component[left.get_indexer(a)], component[len(left) + right.get_indexer(b)]
        size = int(component.max()) + 1
        joined = sparse.coo_array((np.ones(len(a), dtype=bool), ends), shape=(size, size))
        component = connected_components(joined, directed=False)[1].astype(np.int64)[component]
    return component


def _files(source: Any, ids: tuple[str, str], left: Any, component: Ints, pairs: int) -> Ints:
    """The file of each component: filled one after the other, all with about as many pairs."""
    sizes = np.zeros(int(component.max()) + 1, dtype=np.int64)
    for part in _column(source, ids[0]):
        sizes += np.bincount(component[left.get_indexer(part)], minlength=sizes.size)
    before = np.cumsum(sizes) - sizes
    total = int(sizes.sum())
    file = before * max(round(total / pairs), 1) // total
    return np.unique(file, return_inverse=True)[1].astype(np.int64)
