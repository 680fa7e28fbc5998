"""The loader of the real horses."""

import os
import sys

import numpy as np
import pytest

from mlestruct.datasets.horses import load_horses
from reproduction.horse_features import edge_features

real_data = pytest.mark.skipif(
    "MLESTRUCT_DATA" not in os.environ, reason="MLESTRUCT_DATA does not name the real data"
)


# ---- horses -----------------------------------------------------------------------------------
def horse_files(folder, n=2):
    """A few pictures with a bright rectangle for a horse; masks have a size of their own."""
    pillow = pytest.importorskip("PIL.Image")
    for part in ("rgb", "figure_ground"):
        (folder / "weizmann_horses" / part).mkdir(parents=True)
    for k in range(1, n + 1):
        picture = np.zeros((120, 240, 3), dtype=np.uint8)
        picture[30:90, 60:180] = 200
        mask = np.zeros((80, 160), dtype=np.uint8)
        mask[20:60, 40:120] = 255
        root = folder / "weizmann_horses"
        pillow.fromarray(picture).save(root / "rgb" / f"horse{k:03d}.jpg")
        pillow.fromarray(mask).save(root / "figure_ground" / f"horse{k:03d}.jpg")


def test_loader_brings_pictures_and_masks_to_one_size(tmp_path):
    horse_files(tmp_path)
    for limits, size in (
        ({}, (100, 200)),
        ({"max_side": None}, (120, 240)),
        ({"max_side": 500}, (120, 240)),
        ({"max_side": 24}, (12, 24)),
        ({"max_pixels": 20 * 40}, (20, 40)),
        ({"max_side": 40, "max_pixels": 10**6}, (20, 40)),
    ):
        horses = load_horses(tmp_path, indices=[1, 0], **limits)
        assert horses.names == ["horse002", "horse001"]
        image, mask = horses[0]
        assert image.shape == (*size, 3)
        assert image.dtype == np.float32
        assert mask.dtype == np.int64
        expected = np.zeros(size, dtype=int)
        height, width = size
        expected[height // 4 : 3 * height // 4, width // 4 : 3 * width // 4] = 1
        np.testing.assert_array_equal(mask, expected)
        assert image[mask == 1].mean() > 0.7
        assert image[mask == 0].mean() < 0.05
    assert len(list(horses)) == len(horses) == 2
    assert horses.take([1]).names == ["horse001"]


def test_loader_names_what_is_wrong(tmp_path, monkeypatch):
    horse_files(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"horse003\.jpg does not exist"):
        load_horses(tmp_path)
    for arguments, message in (
        ({"indices": [328]}, "`indices` must be from 0 to 327; got 328"),
        ({"max_side": 0}, "max_side"),
        ({"max_pixels": 0}, "max_pixels"),
    ):
        with pytest.raises(ValueError, match=message):
            load_horses(tmp_path, **arguments)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ImportError, match=r"pip install '.\[images\]'"):
        load_horses(tmp_path, indices=[0])
    monkeypatch.delenv("MLESTRUCT_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="MLESTRUCT_DATA"):
        load_horses()


@real_data
def test_real_horses():
    horses = load_horses(indices=range(0, 328, 8))
    for image, mask in horses:
        assert max(mask.shape) == 200
        assert image.shape == (*mask.shape, 3)
        assert 10_000 <= mask.size <= 40_000
        assert 0.03 < mask.mean() < 0.7
    # Horses differ from what is behind them: contrast is higher across their outline.
    outline, elsewhere = [], []
    for image, mask in list(horses)[:10]:
        cut = (mask[:, 1:] != mask[:, :-1]).ravel()
        colour = edge_features(image)[: cut.size, 1:11].sum(axis=1)
        outline.append(colour[cut].mean())
        elsewhere.append(colour[~cut].mean())
    assert np.mean(outline) > 3 * np.mean(elsewhere)
