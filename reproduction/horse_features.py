"""Features of photographs for grid CRFs: colour, position and gradients; contrast of edges.

These are the features with which Domke (2013, "Learning graphical model parameters with
approximate marginal inference") segments the Weizmann horses: colour and position expanded by
sinusoids and histograms of oriented gradients (HOG) for pixels; thresholded colour difference and
Sobel response for edges.
"""

from itertools import product

import numpy as np
from scipy import ndimage, sparse

SUBSETS = np.array([c for c in product((0, 1), repeat=5) if any(c)], dtype=np.float32)
LUMA = np.array([0.299, 0.587, 0.114])
CELL = 8  # pixels
ORIENTATIONS = 9  # of gradients in a cell, as in the literature

# On the horses at 200 pixels a side the colour difference exceeds these for 41 % (first) to 1.5 %
# (last) of the edges, the Sobel response for 69 % to 5 %.
COLOUR_THRESHOLDS = np.arange(1, 11) * 0.05
SOBEL_THRESHOLDS = np.arange(1, 11) * 0.02


def node_features(image, hog=True):
    """Features of every pixel of an image (height, width, 3) in [0, 1], of order one, as float32.

    In order: a constant; red, green, blue; the position x (rightwards) and y (downwards), all in
    [0, 1]; the 31 sines sin(pi c.s) and 31 cosines cos(pi c.s) of the sums over all non-empty
    subsets c of these five; with `hog` the 36 components of the histogram of oriented gradients
    around the pixel.
    """
    height, width = image.shape[:2]
    y, x = np.mgrid[:height, :width] + 0.5
    base = np.dstack([image, x / width, y / height]).astype(np.float32)
    angle = np.float32(np.pi) * (base @ SUBSETS.T)
    constant = np.ones((height, width, 1), dtype=np.float32)
    parts = [constant, base, np.sin(angle), np.cos(angle)]
    if hog:
        parts.append(_hog(image.astype(np.float64)))
    return np.concatenate(parts, axis=2)


def edge_features(image):
    """Thresholded contrast of neighbouring pixels, a sparse matrix with a row for each edge.

    The two contrasts are the Euclidean distance of the colours, and the larger Sobel response
    (length of the gradient of the grey image, per pixel) of the two pixels. An edge has a constant
    and 10 indicators for each; edges to the right use the first 21 columns, edges down the others,
    so that each direction has its own weights.
    """
    rgb = image.astype(np.float64)
    grey = rgb @ LUMA
    across, along = (ndimage.sobel(grey, axis, mode="nearest") for axis in (0, 1))
    sobel = np.hypot(across, along) / 8.0
    right, down = np.s_[:, :-1], np.s_[:-1]
    blocks = []
    for first, second in ((right, np.s_[:, 1:]), (down, np.s_[1:])):
        distance = np.sqrt(((rgb[first] - rgb[second]) ** 2).sum(axis=2)).ravel()
        larger = np.maximum(sobel[first], sobel[second]).ravel()
        indicators = [
            np.ones((distance.size, 1), dtype=bool),
            distance[:, None] > COLOUR_THRESHOLDS,
            larger[:, None] > SOBEL_THRESHOLDS,
        ]
        blocks.append(sparse.csr_array(np.concatenate(indicators, axis=1)))
    return sparse.csr_array(sparse.block_diag(blocks, format="csr"), dtype=np.float64)


def _hog(rgb):
    """The 2 x 2 cells around each pixel, 9 orientations each, interpolated between blocks.

    The image is mirrored at its border so that a block is centred on every corner of a cell, on
    the border, too; so there is no smallest image.
    """
    from skimage.feature import hog

    height, width = rgb.shape[:2]
    margin = [(CELL, CELL + -n % CELL) for n in (height, width)]
    blocks = hog(
        np.pad(rgb, [*margin, (0, 0)], mode="symmetric"),
        orientations=ORIENTATIONS,
        pixels_per_cell=(CELL, CELL),
        cells_per_block=(2, 2),
        feature_vector=False,
        channel_axis=2,
    )
    rows, columns = blocks.shape[:2]
    # A block of 36 components has length 1; six times that is 1 in the mean square.
    blocks = 6.0 * blocks.reshape(rows, columns, -1).astype(np.float32)
    return _interpolation(width, columns) @ np.tensordot(
        _interpolation(height, rows), blocks, axes=1
    )


def _interpolation(n_pixels, n_blocks):
    """Weights (n_pixels, n_blocks): linear between blocks centred at 0, CELL, 2 CELL, ..."""
    place = (np.arange(n_pixels) + 0.5) / CELL
    distance = np.abs(place[:, None] - np.arange(n_blocks))
    return np.maximum(0.0, 1.0 - distance).astype(np.float32)
