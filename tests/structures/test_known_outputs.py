"""Known outputs against sums over all of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_scores import generators

from mlestruct.structures import known_outputs
from mlestruct.structures.known_outputs import KnownOutputs


@given(generators, st.integers(1, 30), st.integers(1, 8))
def test_the_best_known_output_is_told_and_no_other(rng, n_outputs, n):
    outputs = np.unique(rng.random((n_outputs, n)) < 0.4, axis=0)  # the empty one among them
    known = KnownOutputs(n)
    for k, output in enumerate(outputs):
        assert known.add(np.flatnonzero(output), f"output {k}")
        assert not known.add(np.flatnonzero(output), "again")
    scores = rng.normal(size=n)
    sums = outputs @ scores
    score, name, indices = known.better_than(sums.max() - 0.1, scores)
    assert score == pytest.approx(sums.max(), abs=1e-12)
    np.testing.assert_array_equal(indices, np.flatnonzero(outputs[sums.argmax()]))
    assert name == f"output {sums.argmax()}"
    assert known.better_than(sums.max(), scores) is None


def test_the_oldest_outputs_are_forgotten(monkeypatch):
    monkeypatch.setattr(known_outputs, "ONES", 20)
    known = KnownOutputs(30)
    for k in range(30):
        known.add(np.array([k, (k + 1) % 30]), f"output {k}")
    found = [known.better_than(1.5, np.isin(np.arange(30), [k, k + 1]) * 1.0) for k in range(29)]
    assert found[0] is None
    assert [name for _, name, _ in found[24:]] == [f"output {k}" for k in range(24, 29)]
