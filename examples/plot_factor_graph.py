"""
Thin lines: factors over four pixels
====================================

A model of pairs of pixels prefers equal neighbours, which erases thin lines. Factors over blocks of
2 x 2 pixels score the 16 patterns: parts of lines occur in training, specks and checkerboards do
not. A `StructuredCRF` over a `FactorGraph` learns one weight for each pattern up to rotation, from
six pictures. It decodes by a linear program over the local polytope.
"""

import matplotlib.pyplot as plt
import numpy as np

from mlestruct import StructuredCRF
from mlestruct.structures import FactorGraph

rng = np.random.default_rng(12)
SIZE = 12
pixel = np.arange(SIZE * SIZE).reshape(SIZE, SIZE)
blocks = np.stack([pixel[:-1, :-1], pixel[:-1, 1:], pixel[1:, :-1], pixel[1:, 1:]], axis=-1)
space = FactorGraph([2] * SIZE**2, blocks.reshape(-1, 4).tolist())

# %%
# Patterns that are rotations of each other share a weight.
KINDS = ["none", "one", "side", "diagonal", "three", "all"]
kind = np.zeros((2, 2, 2, 2), dtype=int)
for pattern in np.ndindex(kind.shape):
    a, b, c, d = pattern  # upper left and right, lower left and right
    kind[pattern] = [0, 1, 3 if a == d else 2, 4, 5][sum(pattern)]


def features(picture):
    """The brightness of white pixels, a constant for them, and the kind of every block."""
    columns = []
    blank = [np.zeros((2, 2, 2, 2))] * len(space.polytope.factors)
    for values in (picture.ravel(), np.ones(SIZE**2)):
        columns.append(space.from_tables([[0.0, v] for v in values], blank))
    for k in range(len(KINDS)):
        same = [(kind == k).astype(float)] * len(blank)
        columns.append(space.from_tables([[0.0, 0.0]] * SIZE**2, same))
    return np.column_stack(columns)


def draw_lines():
    """Two lines of one pixel, horizontal and vertical, with a bend."""
    clean = np.zeros((SIZE, SIZE), dtype=int)
    for turned in (False, True):
        row, bend = rng.integers(1, SIZE - 1), rng.integers(2, SIZE - 2)
        other = np.clip(row + rng.choice([-3, -2, 2, 3]), 0, SIZE - 1)
        canvas = clean.T if turned else clean
        canvas[row, : bend + 1] = 1
        canvas[min(row, other) : max(row, other) + 1, bend] = 1
        canvas[other, bend:] = 1
    return clean


truth = [draw_lines() for _ in range(7)]
noisy = [clean + rng.normal(scale=0.45, size=clean.shape) - 0.5 for clean in truth]
model = StructuredCRF(structure=space, features=features, alpha=0.3, tol=0.05, max_iter=500)
model.fit(noisy[:-1], [clean.ravel() for clean in truth[:-1]])
weights = model.named_coef(["brightness", "white", *KINDS])
print({name: round(weight, 2) for name, weight in weights.items()})
gap = model.duality_gap_ / abs(model.objective_)
print(f"{model.n_oracle_calls_} linear programs, relative gap {gap:.0e}")

# %%
# A new picture: the threshold of each pixel, and the model of blocks.
x = noisy[-1]
found = model.predict([x])[0].reshape(SIZE, SIZE)
tau = model.predict_marginals([x], tol=0.1)[0]
chance = np.array([p[1] for p in space.variable_marginals(tau)]).reshape(SIZE, SIZE)
single = (x > 0).astype(int)

figure, axes = plt.subplots(1, 4, figsize=(11.0, 3.1), layout="constrained")
wrong = [(picture != truth[-1]).sum() for picture in (single, found)]
shown = [
    (x, "gray", "seen"),
    (single, "gray", f"pixel by pixel: {wrong[0]} wrong"),
    (chance, "magma", "probability of white"),
    (found, "gray", f"blocks of four: {wrong[1]} wrong"),
]
for ax, (picture, colours, title) in zip(axes, shown, strict=True):
    ax.imshow(picture, cmap=colours)
    ax.set_title(title, loc="left", fontsize=10.5)
    ax.set_axis_off()
for ax, picture in ((axes[1], single), (axes[3], found)):
    rows, columns = np.nonzero(picture != truth[-1])
    ax.scatter(columns, rows, marker="x", s=60, color="#D55E00", linewidths=2)
plt.show()
