"""
Segmentation on top of a classifier
===================================

A classifier of pixels, here gradient boosting on filters of scikit-image, labels each pixel by
itself. `GridCRF` couples neighbouring pixels: its only pixel feature is the log-odds of the
classifier, and its edges compare the colours and the probabilities of neighbours. The probabilities
of training images must be out-of-fold, because a classifier is overconfident on its training
images.

With the Weizmann horses in the folder of MLESTRUCT_DATA, the script uses them, else generated
images.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import logit
from skimage.feature import multiscale_basic_features
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import KFold
from threadpoolctl import threadpool_limits

from mlestruct import GridCRF
from mlestruct.datasets import load_horses, make_segmentation

try:
    data = load_horses(max_side=64)
    images, masks, n_train, n_test, n_splits = data.images, data.masks, 40, 60, 3
except (FileNotFoundError, ValueError, ImportError):
    images, masks = make_segmentation(40, ((30, 40), (30, 40)), noise=0.3, random_state=0)
    n_train, n_test, n_splits = 20, 20, 3


# %%
# The classifier: colours, edges and textures at several scales, and the position. A seventh of the
# pixels is enough to train it.
def pixel_features(image):
    """Array of shape (n_pixels, n_features)."""
    height, width = image.shape[:2]
    rows, columns = np.mgrid[0:height, 0:width]
    filters = multiscale_basic_features(image, channel_axis=-1, sigma_min=1, sigma_max=4)
    stacked = np.dstack([filters, image, rows / height, columns / width])
    return stacked.reshape(height * width, -1)


def train(chosen):
    X = np.concatenate([pixels[k][::7] for k in chosen])
    y = np.concatenate([masks[k].ravel()[::7] for k in chosen])
    with threadpool_limits(1):  # more threads are slower with so few pixels
        boosting = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=15, random_state=0)
        return boosting.fit(X, y)


def probabilities(classifier, chosen):
    """The probability of the figure at every pixel, for each image."""
    with threadpool_limits(1):
        tables = {k: classifier.predict_proba(pixels[k])[:, 1] for k in chosen}
    return {k: table.reshape(masks[k].shape) for k, table in tables.items()}


# %%
# The CRF. With `edge_weights="potts"`, equal neighbours have one weight per edge feature.
def crf_input(k, chance):
    """Features of the pixels (H, W, 1), and of the edges to the right and down."""
    edges = []
    for axis in (1, 0):
        colour = np.linalg.norm(np.diff(images[k], axis=axis), axis=2)
        jump = np.abs(np.diff(chance, axis=axis))
        constant = np.ones_like(jump)
        edges.append(np.stack([constant, np.exp(-10 * colour), np.exp(-8 * jump)], axis=-1))
    return logit(np.clip(chance, 0.01, 0.99))[..., None], edges


def quality(found, chosen):
    """Share of right pixels, and intersection over union of the figure."""
    figure = np.concatenate([found[k].ravel() > 0.5 for k in chosen])
    truth = np.concatenate([masks[k].ravel() == 1 for k in chosen])
    return (figure == truth).mean(), (figure & truth).sum() / (figure | truth).sum()


# %%
# Several random splits into training and test images. A pixel gets its most probable state, which
# has fewer wrong pixels than the most probable labelling (MAP).
scores = {"classifier": [], "GridCRF": [], "GridCRF, MAP": []}
for seed in range(n_splits):
    order = np.random.default_rng(seed).permutation(len(images))[: n_train + n_test]
    pixels = {k: pixel_features(images[k]) for k in order}
    learn, test = order[:n_train], order[n_train:]
    out_of_fold = {}
    for fit, held_out in KFold(4).split(learn):
        out_of_fold |= probabilities(train(learn[fit]), learn[held_out])
    alone = probabilities(train(learn), test)

    model = GridCRF(edge_weights="potts")
    model.fit([crf_input(k, out_of_fold[k]) for k in learn], [masks[k] for k in learn])
    X = [crf_input(k, alone[k]) for k in test]
    marginals = [table[..., 1] for table in model.predict_marginals(X)]
    joint = dict(zip(test, marginals, strict=True))
    best = dict(zip(test, model.predict(X), strict=True))
    for name, found in zip(scores, (alone, joint, best), strict=True):
        scores[name].append(quality(found, test))
print(
    f"{n_train} training and {n_test} test images; mean (standard deviation) of {n_splits} splits"
)
print("              right pixels   intersection over union")
for name, values in scores.items():
    (right, overlap), (spread, other) = np.mean(values, axis=0), np.std(values, axis=0, ddof=1)
    print(f"{name:13} {right:.4f} ({spread:.4f})  {overlap:.3f} ({other:.3f})")

# %%
# The test images of the last split that change most, with the probability of the figure.
gain = [np.mean((alone[k] > 0.5) != masks[k]) - np.mean((joint[k] > 0.5) != masks[k]) for k in test]
figure, axes = plt.subplots(4, 4, figsize=(9, 8), layout="constrained")
for row, k in zip(axes, test[np.argsort(np.negative(gain))[:4]], strict=True):
    shown = {"image": np.clip(images[k], 0, 1), "mask": masks[k], "classifier": alone[k],
             "GridCRF": joint[k]}  # fmt: skip
    for ax, (name, picture) in zip(row, shown.items(), strict=True):
        ax.imshow(picture, cmap="magma", vmin=0, vmax=1)
        if name in scores:
            name += f": {np.mean((picture > 0.5) == masks[k]):.0%} right"
        ax.set_title(name, fontsize=10)
        ax.set_axis_off()
plt.show()
