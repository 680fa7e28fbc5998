"""Any file gives a table, or an error that names the file."""

import tempfile
from pathlib import Path

import pytest
from changed_arrays import answer, fuzzed
from hypothesis import given
from hypothesis import strategies as st

from mlestruct.linkage.tables import index_by_id, read_id_pairs, read_table, write_table

pytest.importorskip("pandas")
FOLDER = Path(tempfile.mkdtemp())
PIECES = st.sampled_from(
    [b"id", b"name", b",", b",", b",", b"\n", b"\n", b"\r\n", b"1", b"2", b'"', b"'", b" ", b";",
     b"\t", b"\xff", b"\xef\xbb\xbf", b"\x00", b"=1+1", b"\xc3\xa4", b"nan", b"1e400", b"_id"]
)  # fmt: skip
CSV = st.lists(PIECES, max_size=30).map(b"".join)


@fuzzed
@given(
    content=st.one_of(CSV, CSV.map(lambda rest: b"id,name\n1,a\n" + rest), st.binary(max_size=60))
)
def test_tables(content):
    path = FOLDER / "table.csv"
    path.write_bytes(content)
    table = answer(read_table, str(path))
    if table is None:
        return
    assert table.columns.is_unique
    assert all(isinstance(cell, str) for cell in table.to_numpy().ravel())
    records = answer(index_by_id, table, str(path), None)
    assert records is None or (records.index.is_unique and "" not in records.index)
    pairs = answer(read_id_pairs, str(path))
    assert pairs is None or len(pairs) == len(table)
    write_table(table, str(FOLDER / "again.csv"))
    lines = (FOLDER / "again.csv").read_text().splitlines()
    assert not any(line.startswith(("=", "+", "@")) for line in lines)  # what a spreadsheet runs


@fuzzed
@given(content=st.binary(max_size=200))
def test_parquet(content):
    path = FOLDER / "table.parquet"
    path.write_bytes(content)
    assert answer(read_table, str(path)) is None
