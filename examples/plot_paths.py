"""
Where do hikers walk? Paths with probabilities
==============================================

Hikers cross mountains from west to east. Each step goes east, north-east or south-east, and costs
more if it climbs or enters the forest. A `StructuredCRF` over `Paths` learns these costs from
observed routes, by exact maximum likelihood. The picture shows the probability of every step on new
land. A shortest-path method gives one route and no probabilities.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection

from mlestruct import StructuredCRF
from mlestruct.structures import Paths

rng = np.random.default_rng(11)
HEIGHT, WIDTH = 26, 48
place = np.arange(HEIGHT * WIDTH).reshape(HEIGHT, WIDTH)
rows, columns = np.divmod(np.arange(HEIGHT * WIDTH), WIDTH)
steps = np.concatenate(
    [
        np.stack([place[:, :-1], place[:, 1:]], axis=-1).reshape(-1, 2),
        np.stack([place[:-1, :-1], place[1:, 1:]], axis=-1).reshape(-1, 2),
        np.stack([place[1:, :-1], place[:-1, 1:]], axis=-1).reshape(-1, 2),
    ]
)
space = Paths(steps, source=place[HEIGHT // 2, 0], target=place[HEIGHT // 2, -1])


def random_land(n_hills=9):
    """Height and forest at every place: sums of smooth hills."""
    layers = []
    for size in (n_hills, n_hills):
        total = np.zeros(HEIGHT * WIDTH)
        for _ in range(size):
            up, right = rng.uniform(0, HEIGHT), rng.uniform(0.1, 0.9) * WIDTH
            width = rng.uniform(2.0, 4.5)
            away = (rows - up) ** 2 + (columns - right) ** 2
            total += rng.uniform(0.6, 1.4) * np.exp(-away / (2 * width**2))
        layers.append(total)
    return layers[0], layers[1] > 0.75


def features(land):
    """Of every step: minus its length, its climb, and whether it leads into the forest."""
    height, forest = land
    start, end = steps.T
    length = np.hypot(rows[start] - rows[end], columns[start] - columns[end])
    climb = np.maximum(height[end] - height[start], 0.0)
    return -np.column_stack([length, 10 * climb, forest[end]])


# %%
# Twenty walks, each on its own land, and the costs learned from them.
lands = [random_land() for _ in range(21)]
truth = np.array([4.0, 3.0, 1.5])
walks = [space.exact(features(land) @ truth).sample(1, rng)[0] for land in lands]
model = StructuredCRF(structure=space, features=features, tol=1e-6).fit(lands[:-1], walks[:-1])
costs = model.named_coef(["length", "climb", "forest"])
print({name: round(cost, 2) for name, cost in costs.items()}, "true:", truth.tolist())
print(f"exact likelihood, relative gap {model.duality_gap_ / abs(model.objective_):.0e}")

# %%
# New land: the probability that a walk passes each place, and ten sampled walks.
land = lands[-1]
tau = model.predict_marginals([land])[0]
passes = np.bincount(steps[:, 1], tau, HEIGHT * WIDTH).reshape(HEIGHT, WIDTH)
walked = model.sample([land], 10, random_state=0)[0]
best = model.predict([land])[0].astype(bool)

figure, axes = plt.subplots(figsize=(10.5, 6.0), layout="constrained")
relief, forest = land[0].reshape(HEIGHT, WIDTH), land[1]
axes.imshow(relief, cmap="YlGn_r", interpolation="bicubic", alpha=0.75)
axes.contour(relief, levels=9, colors="white", linewidths=0.5, alpha=0.8)
axes.scatter(columns[forest], rows[forest], marker="^", s=20, color="#0b3d1e", alpha=0.7)
glow = plt.get_cmap("inferno")(np.sqrt(passes))
glow[..., 3] = np.clip(1.6 * np.sqrt(passes), 0, 0.95)
axes.imshow(glow, interpolation="bilinear")
ends = np.stack([columns[steps], rows[steps]], axis=-1)
for walk in walked:
    shifted = ends[walk.astype(bool)] + rng.normal(scale=0.1, size=2)
    axes.add_collection(LineCollection(shifted, colors="#7fd4ff", linewidths=0.8, alpha=0.9))
axes.add_collection(LineCollection(ends[best], colors="white", linewidths=2.2))
axes.set_title(
    "Where walks pass (glow), ten sampled ones (blue) and the most probable one (white)",
    loc="left",
)
axes.set_axis_off()
plt.show()
