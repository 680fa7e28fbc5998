"""Features of pixels and of edges between them, by hand and against scikit-image."""

import sys

import numpy as np
import pytest

from mlestruct.features.images import (
    edge_feature_names,
    edge_features,
    node_feature_names,
    node_features,
)


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
