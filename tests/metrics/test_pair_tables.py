"""Tables of pairs, dense and sparse, against entries read one by one."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from mlestruct.metrics.pair_tables import PairTable

examples = settings(deadline=None, max_examples=40)
generators = st.integers(0, 2**32 - 1).map(np.random.default_rng)


def draw(rng, group):
    n = int(rng.integers(1, 9))
    m = n if group else int(rng.integers(1, 9))
    array = rng.integers(-2, 3, (n, m)).astype(float)
    return np.triu(array, 1) + np.triu(array, 1).T if group else array


@examples
@given(generators, st.booleans(), st.booleans())
def test_entries(rng, group, sparse):
    array = draw(rng, group)
    table = PairTable(sp.csr_matrix(array) if sparse else array, not group, "table", absent=0.0)
    n, m = array.shape
    assert table.sides == (n, None if group else m)
    pairs = [(i, j) for i in range(n) for j in range(i + 1 if group else 0, m)]
    wanted = [array[i, j] for i, j in pairs if array[i, j] or not sparse]
    assert sorted(table.values()) == sorted(wanted)
    keys, values = table.positive()
    assert keys.tolist() == [i * m + j for i, j in pairs if array[i, j] > 0]
    assert values.tolist() == [array[i, j] for i, j in pairs if array[i, j] > 0]
    rows, cols = rng.integers(0, n, 20), rng.integers(-1, m, 20)
    found = table.at(rows, cols)
    assert found.tolist() == [
        array[i, j] if j >= 0 else 0.0 for i, j in zip(rows, cols, strict=True)
    ]


@examples
@given(generators, st.booleans(), st.sampled_from([1, 20, 1 << 21]), st.sampled_from([0, -np.inf]))
def test_asymmetry_is_found_wherever_it_is(rng, sparse, block, absent):
    n = int(rng.integers(2, 9))
    array = rng.random((n, n)) + 1.0
    array = array + array.T
    array[np.arange(n), np.arange(n)] = rng.normal(size=n)  # the diagonal is no pair
    kind = sp.csr_matrix if sparse else np.asarray
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mlestruct.metrics.pair_tables.BLOCK", block)
        PairTable(kind(array), None, "table", absent).check_symmetric()
        PairTable(kind(array * (1 + 1e-9 * rng.random((n, n)))), None, "t", 0).check_symmetric()
        i, j = rng.permutation(n)[:2]
        array[i, j] += 0.5
        PairTable(kind(array), True, "table", absent).check_symmetric()
        place = rf"\(({i}, {j}\) and \({j}, {i}|{j}, {i}\) and \({i}, {j})\) differ by 0.5"
        with pytest.raises(ValueError, match=place):
            PairTable(kind(array), None, "table", absent).check_symmetric()


def test_a_pair_that_is_stored_once():
    lone = sp.csr_matrix(([1.0], ([0], [1])), shape=(2, 2))
    with pytest.raises(ValueError, match=r"one of them is not stored.*bipartite=True"):
        PairTable(lone, None, "table", -np.inf).check_symmetric()
    with pytest.raises(ValueError, match="differ by 1"):
        PairTable(lone, None, "table", 0.0).check_symmetric()
