"""Recordings from files of several kinds, and what is wrong with others."""

import numpy as np
import pytest
from scipy.io import savemat

from mlestruct.datasets import load_neural_demo, read_spikes

SPIKES = np.random.default_rng(0).integers(0, 2, size=(30, 4))
STIMULI = np.random.default_rng(1).integers(0, 2, size=(30, 2))
COORDS = np.random.default_rng(2).uniform(size=(4, 2))


def check(data):
    np.testing.assert_array_equal(data.spikes, SPIKES)
    np.testing.assert_array_equal(data.stimuli, STIMULI)
    np.testing.assert_allclose(data.coords, COORDS)


def test_matlab(tmp_path):
    file = tmp_path / "mouse_day1.mat"
    savemat(file, {"data": SPIKES.astype(np.uint8), "stimuli": STIMULI, "coords": COORDS})
    check(read_spikes(file))
    assert read_spikes(str(file)).name == "mouse_day1"


def test_matlab_of_the_newest_kind(tmp_path):
    h5py = pytest.importorskip("h5py")
    file = tmp_path / "new.mat"
    with h5py.File(file, "w") as stored:
        for name, part in (("data", SPIKES), ("stimuli", STIMULI), ("coords", COORDS)):
            stored[name] = part.T
    check(read_spikes(file))


def test_patmap_names_numbers_and_outlines(tmp_path):
    file = tmp_path / "patmap.mat"
    number = np.random.default_rng(3).integers(0, 4, size=30)
    outlines = np.empty(4, dtype=object)
    for i in range(4):
        outlines[i] = COORDS[i] + np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1]])
    savemat(file, {"data": SPIKES, "UDF": number[:, None], "ROIs": outlines})
    data = read_spikes(file)
    np.testing.assert_array_equal(data.stimuli, number[:, None] == [1, 2, 3])
    np.testing.assert_allclose(data.coords, COORDS)


def test_npz(tmp_path):
    np.savez(tmp_path / "a.npz", data=SPIKES, stimuli=STIMULI, coords=COORDS)
    check(read_spikes(tmp_path / "a.npz"))
    np.savez(tmp_path / "b.npz", spikes=SPIKES)
    assert read_spikes(tmp_path / "b.npz").stimuli.shape == (30, 0)


def test_csv(tmp_path):
    file = tmp_path / "a.csv"
    table = np.concatenate([SPIKES[:, :2], STIMULI, SPIKES[:, 2:]], axis=1)
    np.savetxt(file, table, "%d", ",", header="n0,n1,stim_a,Stimulus b,n2,n3", comments="")
    data = read_spikes(file)
    np.testing.assert_array_equal(data.spikes, SPIKES)
    np.testing.assert_array_equal(data.stimuli, STIMULI)
    np.savetxt(file, SPIKES, "%d", ",")
    np.testing.assert_array_equal(read_spikes(file).spikes, SPIKES)


def test_the_demo_of_graph_ensemble():
    try:
        data = load_neural_demo()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    assert data.spikes.shape == (100, 10)
    assert data.stimuli.sum(axis=0).tolist() == [42, 22]
    assert data.coords.shape == (10, 2)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ({"activity": SPIKES}, "activity should be named data or spikes; there is activity"),
        ({"data": 2.5 * SPIKES}, "found 2.5"),
        ({"data": SPIKES[0]}, "matrix"),
        ({"data": SPIKES, "stimuli": STIMULI.T}, "transposed"),
        ({"data": SPIKES, "stimuli": STIMULI[:5]}, "30 frames"),
        ({"data": SPIKES, "udf": np.full(30, -1.0)}, "numbers from 0"),
        ({"data": SPIKES, "coords": COORDS[:2]}, "positions of 2 neurons"),
    ],
)
def test_errors(contents, message, tmp_path):
    np.savez(tmp_path / "a.npz", **contents)
    with pytest.raises(ValueError, match=message):
        read_spikes(tmp_path / "a.npz")


def test_not_a_recording(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_spikes(tmp_path / "none.mat")
    for name in ("a.mat", "a.npz", "a.csv", "a.txt"):
        (tmp_path / name).write_text("neither\nnumbers, nor arrays\n")
        with pytest.raises(ValueError, match=r"a\.\w+"):
            read_spikes(tmp_path / name)
    (tmp_path / "b.csv").write_text("n0,n1\n")
    with pytest.raises(ValueError, match="no frames"):
        read_spikes(tmp_path / "b.csv")
