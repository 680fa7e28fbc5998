"""Variables of Ising models: lags, stimuli, distinct rows, errors."""

import numpy as np
import pytest
from scipy import sparse

from mlestruct.models.ising_variables import Variables, distinct, read_binary, read_frames


def test_lagged_rows():
    frames = np.array([[1, 0], [0, 1], [1, 1], [0, 0]])
    stimuli = np.array([[0], [1], [0], [1]])
    variables = Variables(2, 1, 3)
    table = variables.table(frames, stimuli)
    assert table.tolist() == [[1, 1, 0, 1, 1, 0, 0], [0, 0, 1, 1, 0, 1, 1]]
    assert variables.lag.tolist() == [0, 0, 1, 1, 2, 2, 0]
    assert variables.names[2] == "neuron0(-1)"
    assert (variables.table(frames, None)[:, -1] == -1).all()
    with pytest.raises(ValueError, match="too few for time_span=3"):
        variables.table(frames[:2], stimuli[:2])


def test_earlier_states_are_coupled_to_the_current_frame_only():
    allowed = Variables(2, 1, 2).allowed
    assert not allowed[2, 3]
    assert allowed[0, 2]
    assert allowed[2, 4]
    assert not allowed.diagonal().any()


def test_distinct_rows_keep_their_weight():
    rng = np.random.default_rng(0)
    table, weights = rng.integers(0, 2, size=(200, 3)), rng.random(200)
    rows, totals = distinct(table, weights)
    assert len(rows) == 8
    for row, total in zip(rows, totals, strict=True):
        assert total == pytest.approx(weights[(table == row).all(axis=1)].sum())


def test_matrices_of_any_kind():
    table = np.array([[0, 1], [1, 1]])
    for given in (table, table.astype(bool), table.astype(float), sparse.csr_array(table)):
        np.testing.assert_array_equal(read_binary(given, "Y"), table)
    assert read_frames(table, [1, 0])[1].shape == (2, 1)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([[0, 2]], r"Y\[0, 1\] is 2.*Y > 0"),
        ([[0.0, np.nan]], r"Y\[0, 1\] is nan"),
        ([0, 1], "matrix"),
        (np.zeros((0, 3)), "matrix"),
        ([["a"]], "dtype"),
    ],
)
def test_errors(table, message):
    with pytest.raises(ValueError, match=message):
        read_binary(table, "Y")


def test_as_many_stimuli_as_frames():
    with pytest.raises(ValueError, match="stimuli has 3 frames, but Y has 2"):
        read_frames([[0, 1], [1, 0]], [[1], [0], [1]])
