"""Sizes that cannot fit are refused with the bytes that they need, before anything is allocated."""

import numpy as np
import pytest

from mlestruct import BlockFrankWolfe, ChainCRF, FrankWolfe, _arguments
from mlestruct._arguments import check_memory, total_memory
from mlestruct.structures import BipartiteMatching, LocalMatching, Sequences


def test_what_fits_is_let_pass():
    check_memory(1e3, "a little")


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: BipartiteMatching((10**6, 10**6)), "all 1000000 x 1000000 pairs: needs 8,0"),
        (lambda: LocalMatching(10**6), "all pairs of 1000000 nodes: needs 3,999,996,000,000 bytes"),
        (lambda: Sequences([10**6], 3000).interior(), "marginals of 1000000 nodes"),
    ],
)
def test_sizes_beyond_the_machine(make, what):
    assert total_memory() < 4e12
    with pytest.raises(MemoryError, match=what):
        make()


def test_fits_beyond_the_machine(monkeypatch):
    monkeypatch.setattr(_arguments, "total_memory", lambda: 1e6)
    X, Y = [np.ones((50, 1))], [np.arange(50)]
    with pytest.raises(MemoryError, match="marginals of all samples: needs 2,000,000 bytes"):
        ChainCRF(solver=FrankWolfe()).fit(X, Y)
    with pytest.raises(MemoryError, match="moments of 100 blocks with 2550 features: needs 2,0"):
        ChainCRF(solver=BlockFrankWolfe()).fit(X * 100, Y * 100)
