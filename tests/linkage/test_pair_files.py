"""Tables of pairs in files: whole components, and the optimum of the whole table."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pyarrow")

from mlestruct import BipartiteMatchingCRF, PairInput
from mlestruct.linkage import pair_parts, split_pairs

IDS = ("left", "right")


def pair_table(n_records=60, seed=0):
    """Candidates among groups of four records; every other record has its true partner."""
    rng = np.random.default_rng(seed)
    left = np.repeat(np.arange(n_records), 3)
    right = 4 * (left // 4) + rng.integers(4, size=left.size)
    table = pd.DataFrame({"left": left, "right": right}).drop_duplicates()
    table["linked"] = (table["left"] == table["right"]) & (table["left"] % 2 == 0)
    table["name"] = rng.normal(size=len(table)) + 2.0 * table["linked"]
    table["place"] = rng.normal(size=len(table))
    table = table.sample(frac=1.0, random_state=0, ignore_index=True)
    return table.assign(left="a" + table["left"].astype(str))


@pytest.fixture
def files(tmp_path):
    table = pair_table()
    table.to_parquet(tmp_path / "pairs.parquet", row_group_size=17, index=False)
    return table, split_pairs(tmp_path / "pairs.parquet", tmp_path / "parts", IDS, pairs=30)


def test_files_hold_all_rows_and_share_no_record(files):
    table, paths = files
    parts = [pd.read_parquet(path) for path in paths]
    assert len(parts) > 2
    assert max(len(part) for part in parts) < 50
    for name in IDS:
        assert sum(part[name].nunique() for part in parts) == table[name].nunique()
    together = pd.concat(parts).sort_values(list(IDS), ignore_index=True)
    pd.testing.assert_frame_equal(together, table.sort_values(list(IDS), ignore_index=True))


def test_the_fit_to_files_is_that_of_the_whole_table(files):
    table, paths = files
    parts = pair_parts(paths, IDS, "linked")
    model = BipartiteMatchingCRF(perfect=False, tol=1e-7).fit(parts)
    sample = PairInput.from_frame(table.drop(columns="linked"), ids=IDS)
    whole = BipartiteMatchingCRF(perfect=False, tol=1e-7).fit([sample], [table["linked"]])
    np.testing.assert_allclose(model.objective_bound_, whole.objective_bound_, rtol=1e-8)
    # alpha / 2 |difference|^2 is at most the gap, of which both have one.
    gap = model.duality_gap_ + whole.duality_gap_
    assert np.linalg.norm(model.coef_ - whole.coef_) <= 2.0 * np.sqrt(gap)
    assert list(model.feature_names_in_) == ["name", "place"]
    found = pd.concat(model.predict_links([parts.read(path)[0][0] for path in paths]))
    expected = whole.predict_links([sample])[0]
    both = [frame.set_index(list(IDS)).sort_index() for frame in (found, expected)]
    np.testing.assert_allclose(both[0]["probability"], both[1]["probability"], atol=1e-3)
    assert (both[0]["linked"] == both[1]["linked"]).all()


def test_errors_name_the_column(tmp_path):
    path = tmp_path / "pairs.parquet"
    pair_table().to_parquet(path)
    with pytest.raises(ValueError, match="has no column 'old'"):
        split_pairs(path, tmp_path, ("old", "right"))
    with pytest.raises(ValueError, match="pairs: expected a positive number"):
        split_pairs(path, tmp_path, IDS, pairs=0)
    pair_table().iloc[:0].to_parquet(path)
    with pytest.raises(ValueError, match="has no rows"):
        split_pairs(path, tmp_path, IDS)
    pair_table().assign(left=[None] + ["a"] * (len(pair_table()) - 1)).to_parquet(path)
    with pytest.raises(ValueError, match="column 'left' has missing ids"):
        split_pairs(path, tmp_path, IDS)
