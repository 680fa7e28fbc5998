"""Features of images, their compact storage, and the pictures to try them on."""

import os
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlestruct.datasets.horses import HorseImages, load_horses, split_horses
from mlestruct.datasets.segmentation import make_segmentation
from mlestruct.features.images import (
    edge_feature_names,
    edge_features,
    node_feature_names,
    node_features,
)
from mlestruct.features.levels import Levels

real_data = pytest.mark.skipif(
    "MLESTRUCT_DATA" not in os.environ, reason="MLESTRUCT_DATA does not name the real data"
)


def indicators(codes, n_levels):
    """The definition, written out: a one, then code >= 1, code >= 2, ... for each channel."""
    rows = [
        [1]
        + [int(c >= level) for c, n in zip(row, n_levels, strict=True) for level in range(1, n + 1)]
        for row in np.asarray(codes)
    ]
    return np.array(rows, dtype=float).reshape(len(rows), 1 + sum(n_levels))


@st.composite
def levels(draw):
    n_levels = draw(st.lists(st.sampled_from([1, 2, 3, 10, 16, 255]), min_size=1, max_size=4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_edges = draw(st.integers(0, 40))
    codes = np.stack([rng.integers(0, n + 1, size=n_edges) for n in n_levels], axis=1)
    return Levels(codes, n_levels), codes, rng


# ---- Levels -----------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(levels())
def test_levels_act_as_the_matrix_they_stand_for(case):
    edges, codes, rng = case
    V = indicators(codes, edges.n_levels)
    n, d = V.shape
    assert edges.shape == (n, d)
    assert len(edges) == n
    assert edges.n_features == d
    np.testing.assert_array_equal(edges.dense(), V)
    for columns in ((), (1,), (4,)):
        weights, values = rng.normal(size=(d, *columns)), rng.normal(size=(n, *columns))
        np.testing.assert_allclose(edges.scores(weights), V @ weights, atol=1e-10)
        np.testing.assert_allclose(edges.moments(values), V.T @ values, atol=1e-10)
    np.testing.assert_array_equal(edges.gram(), V.T @ V)


@settings(max_examples=20, deadline=None)
@given(levels())
def test_levels_can_be_taken(case):
    edges, codes, rng = case
    if not len(edges):
        return
    some = rng.integers(len(edges), size=7)
    np.testing.assert_array_equal(edges.take(some).codes, codes[some])
    assert edges.take(some).n_levels == edges.n_levels
    assert edges.take([]).shape == (0, edges.n_features)
    np.testing.assert_array_equal(edges.take(codes[:, 0] == 1).codes, codes[codes[:, 0] == 1])


def test_levels_take_a_few_bytes_an_edge():
    edges = Levels(np.zeros((1000, 2), dtype=np.uint8), [10, 10])
    assert edges.codes.dtype == np.uint8
    assert edges.nbytes <= 3 * 1000


def test_levels_accept_what_is_not_contiguous_or_not_float64():
    codes = np.random.default_rng(0).integers(0, 4, size=(2, 9)).T
    edges = Levels(codes.astype(float), [3, 3])
    V = indicators(codes, [3, 3])
    values = np.arange(36).reshape(4, 9).T
    np.testing.assert_allclose(edges.moments(values), V.T @ values)
    np.testing.assert_allclose(edges.scores(list(range(7))), V @ np.arange(7))


def test_codes_count_the_thresholds_exceeded():
    values = [[0.1, -1.0], [0.1001, 5.0], [0.3, np.inf]]
    edges = Levels.from_values(values, [[0.1, 0.2], [0.0, 1.0, 2.0]])
    np.testing.assert_array_equal(edges.codes, [[0, 0], [1, 3], [2, 3]])
    assert edges.n_levels == (2, 3)


def test_levels_reject_what_they_cannot_hold():
    for codes, n_levels, message in (
        ([[3]], [2], r"codes: channel 0 must lie in 0\.\.2, found 3 to 3"),
        ([[-1]], [2], "codes: channel 0"),
        ([[0.5]], [2], "codes: .*fractions"),
        ([[np.nan]], [2], "codes: .*NaN"),
        ([["a"]], [2], "codes: .*dtype"),
        ([0, 1], [2], r"codes: expected shape \(n_edges, 1\)"),
        ([[0, 1]], [2], r"codes: .*got \(1, 2\)"),
        ([[0]], [256], "n_levels: .*256"),
        ([[0]], [0], "n_levels"),
        (np.zeros((3, 0)), [], "n_levels"),
    ):
        with pytest.raises(ValueError, match=message):
            Levels(codes, n_levels)
    for values, thresholds, message in (
        ([[np.nan]], [[0.0]], "values: 1 of 1 are NaN"),
        ([[0.0]], [[0.0], [1.0]], r"values: expected shape \(n_edges, 2\)"),
        ([[0.0]], [[1.0, 1.0]], r"thresholds\[0\]: .*increasing"),
        ([[0.0]], [[np.nan]], r"thresholds\[0\]"),
        ([[0.0]], [[]], r"thresholds\[0\]: .*got 0"),
    ):
        with pytest.raises(ValueError, match=message):
            Levels.from_values(values, thresholds)
    edges = Levels([[0], [1]], [1])
    with pytest.raises(ValueError, match=r"weights: expected shape \(2,\) or \(2, k\), got \(3,\)"):
        edges.scores(np.zeros(3))
    with pytest.raises(ValueError, match="values"):
        edges.moments(np.zeros((3, 2)))


# ---- features of pixels -----------------------------------------------------------------------


def picture(height, width, seed=0):
    return np.random.default_rng(seed).uniform(size=(height, width, 3))


@pytest.mark.parametrize("hog", [True, False])
@pytest.mark.parametrize("expansion", [True, False])
@pytest.mark.parametrize("size", [(1, 1), (1, 9), (9, 1), (3, 3), (20, 31)])
def test_every_channel_has_a_name_and_is_of_order_one(size, hog, expansion):
    if hog:
        pytest.importorskip("skimage")
    found = node_features(picture(*size), hog=hog, expansion=expansion)
    names = node_feature_names(hog=hog, expansion=expansion)
    assert found.dtype == np.float32
    assert found.shape == (*size, len(names))
    assert len(set(names)) == len(names) == 6 + 62 * expansion + 36 * hog
    assert np.isfinite(found).all()
    assert np.abs(found).max() <= 6.0


def test_colour_position_and_waves_by_hand():
    image = picture(4, 5)
    names = node_feature_names(hog=False)
    pixel = dict(zip(names, node_features(image, hog=False)[1, 3], strict=True))
    red, green, blue = image[1, 3]
    x, y = 3.5 / 5, 1.5 / 4
    for name, value in {
        "constant": 1.0,
        "red": red,
        "green": green,
        "blue": blue,
        "x": x,
        "y": y,
        "sin(pi(red))": np.sin(np.pi * red),
        "cos(pi(red+x))": np.cos(np.pi * (red + x)),
        "sin(pi(green+blue+y))": np.sin(np.pi * (green + blue + y)),
        "cos(pi(red+green+blue+x+y))": np.cos(np.pi * (red + green + blue + x + y)),
    }.items():
        assert pixel[name] == pytest.approx(value, abs=2e-6)


def test_hog_at_a_cell_corner_is_the_block_of_scikit_image():
    feature = pytest.importorskip("skimage.feature")
    image = picture(64, 64)
    blocks = feature.hog(
        image, 9, (8, 8), (2, 2), feature_vector=False, channel_axis=2
    )  # block (r, c) is centred at 8 (r + 1), 8 (c + 1)
    found = node_features(image, expansion=False)[..., 6:]
    around = found[23:25, 31:33].mean(axis=(0, 1))  # the four pixels at the corner (24, 32)
    weight = np.array([1.0, 15.0]) / 16.0  # half a pixel away, on either side, out of 8
    near = blocks[1:4, 2:5].reshape(3, 3, 36)
    line = np.array([weight[0] / 2, weight[1], weight[0] / 2])
    np.testing.assert_allclose(around, 6 * np.einsum("i,j,ijk->k", line, line, near), atol=1e-4)


def test_grey_and_bytes_are_the_same_picture():
    grey = np.random.default_rng(0).integers(0, 256, size=(10, 12), dtype=np.uint8)
    colour = np.repeat((grey / 255.0)[..., None], 3, axis=2)
    np.testing.assert_allclose(
        node_features(grey, hog=False), node_features(colour, hog=False), atol=1e-6
    )
    for one, other in zip(edge_features(grey), edge_features(colour), strict=True):
        np.testing.assert_array_equal(one.codes, other.codes)


def test_a_flat_picture_has_no_gradients():
    pytest.importorskip("skimage")
    flat = np.full((17, 11, 3), 0.3)
    assert (node_features(flat, expansion=False)[..., 6:] == 0.0).all()
    assert all((edges.codes == 0).all() for edges in edge_features(flat, neighbours=8))


def test_missing_scikit_image_is_explained(monkeypatch):
    monkeypatch.setitem(sys.modules, "skimage.feature", None)
    with pytest.raises(ImportError, match=r"pip install 'mlestruct\[images\]'"):
        node_features(picture(3, 3))
    node_features(picture(3, 3), hog=False)


@pytest.mark.parametrize("function", [edge_features, lambda im: node_features(im, hog=False)])
def test_bad_images_are_named(function):
    hole = picture(3, 3)
    hole[1, 1, 0] = np.nan
    for image, message in (
        (hole, "image: 1 of 27 values are NaN"),
        (np.zeros((3, 3, 4)), r"image: expected shape .*got \(3, 3, 4\)"),
        (np.zeros(3), r"image: .*got \(3,\)"),
        (np.zeros((0, 3)), "image: .*at least one pixel"),
        (np.full((3, 3), 200.0), r"image: floats must lie in \[0, 1\], found 200 to 200"),
        (np.zeros((3, 3), dtype=int), "image: .*dtype int64"),
    ):
        with pytest.raises(ValueError, match=message):
            function(image)


# ---- features of edges ------------------------------------------------------------------------

STEPS = ((0, 1), (1, 0), (1, 1), (1, -1))  # right, down, down-right, down-left


@pytest.mark.parametrize("size", [(1, 1), (1, 6), (5, 1), (4, 6)])
def test_edges_come_row_by_row_in_each_direction(size):
    height, width = size
    image = picture(height, width)
    found = edge_features(image, neighbours=8)
    colour = np.arange(1, 11) * 0.05
    for edges, (down, right) in zip(found, STEPS, strict=True):
        expected = [
            np.sum(np.linalg.norm(image[r, c] - image[r + down, c + right]) > colour)
            for r in range(height)
            for c in range(width)
            if r + down < height and 0 <= c + right < width
        ]
        assert edges.codes[:, 0].tolist() == expected
    for edges, same in zip(edge_features(image), found[:2], strict=True):
        np.testing.assert_array_equal(edges.codes, same.codes)


def test_a_step_in_brightness_is_seen_by_both_channels():
    image = np.zeros((6, 8))
    image[:, 4:] = 0.24
    right, down = edge_features(image, thresholds=([0.4, 0.42], [0.1, 0.119, 0.121]))
    codes = right.codes.reshape(6, 7, 2)
    # A step s is a colour difference s sqrt(3), and a gradient s / 2 on either side of it.
    np.testing.assert_array_equal(codes[0, :, 0], [0, 0, 0, 1, 0, 0, 0])
    np.testing.assert_array_equal(codes[0, :, 1], [0, 0, 2, 2, 2, 0, 0])
    assert (down.codes[:, 0] == 0).all()
    np.testing.assert_array_equal(down.codes[:8, 1], [0, 0, 0, 2, 2, 0, 0, 0])


def test_edges_turn_with_the_picture():
    image = picture(7, 5)
    right, down = edge_features(image)
    turned_right, turned_down = edge_features(image.transpose(1, 0, 2))
    np.testing.assert_array_equal(
        right.codes.reshape(7, 4, 2), turned_down.codes.reshape(4, 7, 2).transpose(1, 0, 2)
    )
    np.testing.assert_array_equal(
        down.codes.reshape(6, 5, 2), turned_right.codes.reshape(5, 6, 2).transpose(1, 0, 2)
    )


def test_edge_names():
    right, _ = edge_features(picture(3, 3))
    names = edge_feature_names()
    assert len(set(names)) == len(names) == right.n_features == 21
    assert names[:2] == ["constant", "colour > 0.05"]
    own = ([0.1], [0.2, 0.3])
    assert edge_feature_names(thresholds=own) == [
        "constant", "colour > 0.1", "sobel > 0.2", "sobel > 0.3",
    ]  # fmt: skip
    assert edge_features(picture(3, 3), thresholds=own)[0].n_features == 4


def test_bad_arguments_of_edges_are_named():
    with pytest.raises(ValueError, match="neighbours: expected 4 or 8, got 6"):
        edge_features(picture(3, 3), neighbours=6)
    with pytest.raises(ValueError, match="thresholds: expected two arrays"):
        edge_features(picture(3, 3), thresholds=[[0.1]])


# ---- generated pictures -----------------------------------------------------------------------


@pytest.mark.parametrize("n_states", [2, 5])
def test_generated_pictures(n_states):
    images, masks = make_segmentation(
        8, ((20, 30), (25, 40)), n_states=n_states, noise=0.1, random_state=0
    )
    assert len({image.shape for image in images}) > 1
    for image, mask in zip(images, masks, strict=True):
        assert image.shape == (*mask.shape, 3)
        assert 20 <= mask.shape[0] <= 30
        assert 25 <= mask.shape[1] <= 40
        assert image.dtype == np.float32
        assert mask.dtype == np.int64
        assert image.min() >= 0.0
        assert image.max() <= 1.0
    assert set(np.unique(np.concatenate([m.ravel() for m in masks]))) == set(range(n_states))


def test_the_seed_decides_the_pictures():
    one, other = make_segmentation(2, random_state=4), make_segmentation(2, random_state=4)
    for part, same in zip(one, other, strict=True):
        for a, b in zip(part, same, strict=True):
            np.testing.assert_array_equal(a, b)
    assert (one[1][0] != make_segmentation(1, random_state=5)[1][0]).any()


def test_generated_pictures_are_hard_for_pixels_and_neighbours_help():
    from scipy import ndimage
    from sklearn.linear_model import LogisticRegression

    train, test = (make_segmentation(20, random_state=seed) for seed in (0, 1))
    X = [node_features(image, hog=False).reshape(2500, -1)[::10] for image in train[0]]
    y = [mask.ravel()[::10] for mask in train[1]]
    model = LogisticRegression(C=0.1, max_iter=300).fit(np.concatenate(X), np.concatenate(y))
    alone, together = [], []
    for image, mask in zip(*test, strict=True):
        score = model.decision_function(node_features(image, hog=False).reshape(2500, -1))
        score = score.reshape(mask.shape)
        alone.append(((score > 0) != mask).mean())
        together.append(((ndimage.gaussian_filter(score, 1.0) > 0) != mask).mean())
    assert 0.08 < np.mean(alone) < 0.2
    assert np.mean(together) < 0.9 * np.mean(alone)


def test_bad_arguments_of_generated_pictures_are_named():
    for arguments, name in (
        ({"n_images": -1}, "n_images"),
        ({"n_states": 1}, "n_states"),
        ({"n_states": 6}, "n_states"),
        ({"noise": -0.1}, "noise"),
        ({"noise": np.nan}, "noise"),
        ({"shape": (0, 5)}, "shape"),
        ({"shape": (5, 5, 3)}, "shape"),
        ({"shape": 5}, "shape"),
        ({"shape": ((9, 5), (3, 4))}, "shape"),
    ):
        with pytest.raises(ValueError, match=f"{name}: expected"):
            make_segmentation(**{"n_images": 1, **arguments})


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
        ({"indices": [328]}, "indices: expected 0 to 327, found 328"),
        ({"max_side": 0}, "max_side"),
        ({"max_pixels": 0}, "max_pixels"),
    ):
        with pytest.raises(ValueError, match=message):
            load_horses(tmp_path, **arguments)
    with pytest.raises(ValueError, match="horses: expected all 328 pictures, got 2"):
        split_horses(load_horses(tmp_path, indices=[0, 1]))
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ImportError, match=r"pip install 'mlestruct\[images\]'"):
        load_horses(tmp_path, indices=[0])
    monkeypatch.delenv("MLESTRUCT_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="MLESTRUCT_DATA"):
        load_horses()


def test_split_is_200_and_128():
    names = [f"horse{k:03d}" for k in range(1, 329)]
    blank = [np.zeros((1, 1, 3), dtype=np.float32)] * 328, [np.zeros((1, 1), dtype=int)] * 328
    train, test = split_horses(HorseImages(*blank, names))
    assert (train.names, test.names) == (names[:200], names[200:])


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
        right, _ = edge_features(image)
        cut = (mask[:, 1:] != mask[:, :-1]).ravel()
        outline.append(right.codes[cut, 0].mean())
        elsewhere.append(right.codes[~cut, 0].mean())
    assert np.mean(outline) > 3 * np.mean(elsewhere)
