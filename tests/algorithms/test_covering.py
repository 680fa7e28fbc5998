"""Outputs that cover all coordinates, against enumeration."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlestruct.algorithms.covering import covering_outputs


def decoder(outputs, calls):
    def maximise(scores):
        calls.append(scores)
        return outputs[np.argmax(outputs @ scores)]

    return maximise


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_every_coordinate_that_can_vary_does(data):
    """Any set of outputs, at most two calls a coordinate."""
    n = data.draw(st.integers(1, 7))
    size = data.draw(st.integers(1, min(2**n, 12)))
    chosen = data.draw(st.lists(st.integers(0, 2**n - 1), min_size=size, max_size=size))
    outputs = np.array([[(c >> k) & 1 for k in range(n)] for c in chosen], dtype=float)
    calls = []
    found = covering_outputs(decoder(outputs, calls), n, np.random.default_rng(0))
    assert len(np.unique(found, axis=0)) == len(found)
    np.testing.assert_array_equal(found.max(axis=0), outputs.max(axis=0))
    np.testing.assert_array_equal(found.min(axis=0), outputs.min(axis=0))
    assert all(any(np.array_equal(row, o) for o in outputs) for row in found)
    assert len(calls) <= 2 * n + 4


@pytest.mark.parametrize("exact", [True, False])
def test_a_decoder_that_misses_outputs_is_asked_for_each_coordinate(exact):
    outputs = np.eye(6)
    calls = []

    def timid(scores):
        """Finds output 3 only if nothing else is asked for."""
        calls.append(scores)
        order = np.argsort(-scores)
        best = order[0]
        return outputs[order[1] if best == 3 and scores[order[1]] > 0.04 else best]

    found = covering_outputs(timid, 6, np.random.default_rng(1), exact)
    assert found.max(axis=0)[[0, 1, 2, 4, 5]].all()
    if not exact:
        assert found.max(axis=0)[3] == 1.0
