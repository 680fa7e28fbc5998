"""
Scribbles on a mosaic of textures
=================================

Nine strokes of a pen, three on each of three textures, are all that is known of a picture.
`GridCRF` learns from the pixels under the strokes how textures answer to Gabor filters and where
they are. That neighbours agree is given as an offset of the edges: inside a stroke all neighbours
agree, so that strokes do not tell how often they do elsewhere. Prediction is given the strokes.

Beside it scikit-image's random walker, on the picture or on the filters. Each side chooses among
three settings by hiding one stroke of every texture in turn; three pictures are drawn.
"""

# %%
import time

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from skimage import data
from skimage.draw import line
from skimage.filters import gabor, gaussian
from skimage.segmentation import random_walker

from mlestruct import GridCRF, NodeInput

size = 96
rows, columns = np.mgrid[:size, :size] / size
upper = rows + 0.1 * np.cos(7 * columns) < 0.5
truth = np.where(columns + 0.12 * np.sin(6 * rows) < 0.36, 0, np.where(upper, 1, 2))


def mosaic(rng):
    """Pieces of three photographs, alike in brightness and contrast."""
    pieces = []
    for name in ("brick", "grass", "gravel"):
        top, left = rng.integers(512 - size, size=2)
        piece = getattr(data, name)()[top : top + size, left : left + size].astype(float)
        pieces.append((piece - piece.mean()) / piece.std())
    return np.choose(truth, pieces)


def stroke(rng, state):
    """Pixels of a straight line, two wide, somewhere on this texture."""
    while True:
        start, angle = rng.integers(3, size - 3, size=2), rng.uniform(0.0, np.pi)
        end = np.round(start + 16 * np.array([np.sin(angle), np.cos(angle)])).astype(int)
        if end.min() >= 2 and end.max() < size - 2:
            down, across = line(*start, *end)
            pixels = np.r_[down, down + 1], np.r_[across, across]
            if (truth[pixels] == state).all():
                return pixels


def under(strokes, kept):
    """Labels under some of the strokes, -1 elsewhere."""
    labels = np.full(truth.shape, -1)
    for k in kept:
        labels[strokes[k]] = k // 3
    return labels


# %%
# Features of a pixel: energies of Gabor filters, averaged around it, and its position.
def features(picture):
    responses = [gabor(picture, f, a) for f in (0.1, 0.2, 0.35) for a in np.arange(4) * np.pi / 4]
    energies = [np.log(gaussian(np.hypot(*parts), 5)) for parts in responses]
    table = np.stack([*energies, rows, columns], axis=-1)
    return (table - table.mean(axis=(0, 1))) / table.std(axis=(0, 1))


def by_grid_crf(picture, filters, labels, alpha):
    """Textures are learned from single pixels, that neighbours agree is given."""
    seen = labels >= 0
    pixels, states = filters[seen][:, None, None], labels[seen][:, None, None]
    model = GridCRF(alpha=alpha, unknown=-1, n_states=3).fit(pixels, states)
    sample = NodeInput(filters, edge_offset=2.0 * np.eye(3))
    return model.predict([sample], known=[labels])[0]


def by_random_walker(picture, filters, labels, which, beta):
    image, axis = (picture, None) if which == "picture" else (filters[..., :-2], -1)
    return random_walker(image, labels + 1, beta=beta, mode="bf", channel_axis=axis) - 1


# %%
rivals = {
    "random walker": (by_random_walker, [("picture", 10), ("picture", 100), ("filters", 100)]),
    "GridCRF": (by_grid_crf, [(10.0,), (100.0,), (1000.0,)]),
}
folds = [[k, 3 + k, 6 + k] for k in range(3)]
accuracies = {name: [] for name in rivals}
seconds = dict.fromkeys(rivals, 0.0)
for seed in range(3):
    rng = np.random.default_rng(seed)
    picture = mosaic(rng)
    strokes = [stroke(rng, k // 3) for k in range(9)]
    filters, everything = features(picture), under(strokes, range(9))
    found = {}
    for name, (predict, settings) in rivals.items():
        started = time.perf_counter()
        scores = []
        for setting in settings:
            right = []
            for fold in folds:
                kept, test = under(strokes, {*range(9)} - {*fold}), under(strokes, fold)
                answer = predict(picture, filters, kept, *setting)
                right.append((answer == test)[test >= 0].mean())
            scores.append(np.mean(right))
        best = settings[int(np.argmax(scores))]
        found[name] = predict(picture, filters, everything, *best)
        accuracies[name].append((found[name] == truth)[everything < 0].mean())
        seconds[name] += time.perf_counter() - started
for name, values in accuracies.items():
    listed = ", ".join(f"{value:.3f}" for value in values)
    print(f"{name:14} right on unmarked pixels {np.mean(values):.3f} ({listed}), ", end="")
    print(f"{seconds[name]:.1f} s")

# %%
colours = ListedColormap(["#0072B2", "#E69F00", "#009E73"])
figure, axes = plt.subplots(1, 4, figsize=(12, 3.4), layout="constrained")
axes[0].imshow(picture, cmap="gray")
marked = np.ma.masked_less(everything, 0)
axes[0].imshow(marked, cmap=colours, vmin=0, vmax=2, interpolation="none")
axes[0].set_title("last mosaic, scribbles")
axes[1].imshow(truth, cmap=colours, vmin=0, vmax=2)
axes[1].set_title("truth")
for axis, name in zip(axes[2:], found, strict=True):
    axis.imshow(found[name], cmap=colours, vmin=0, vmax=2)
    axis.set_title(f"{name}: {accuracies[name][-1]:.3f}")
for axis in axes:
    axis.axis("off")
plt.show()
