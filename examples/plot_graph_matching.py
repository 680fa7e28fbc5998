"""
Which node is which? Matching two graphs
========================================

Two maps of the same places, one rotated, with every place moved and some roads missing. Nodes are
described by what does not depend on the rotation: how many roads meet, how long they are, and how
far heat spreads along them. Only nodes with a similar number of roads are candidates for each
other. A matching is a linear assignment over the candidate pairs; the model learns from maps with
known matchings what each description is worth, and gives every pair a probability.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection
from scipy.linalg import expm
from scipy.spatial import Delaunay

from mlestruct import BipartiteMatchingCRF, PairInput

rng = np.random.default_rng(5)


def random_map(n_places=24):
    """Places, and the roads of a triangulation with a few left out."""
    places = rng.uniform(size=(n_places, 2))
    return places, roads_between(places)


def roads_between(places, missing=0.05):
    corners = Delaunay(places).simplices
    roads = np.unique(np.sort(corners[:, [0, 1, 1, 2, 0, 2]].reshape(-1, 2), axis=1), axis=0)
    return roads[rng.uniform(size=len(roads)) > missing]


def second_map(places):
    """The same places in another order, moved and rotated, with roads of their own."""
    angle, order = rng.uniform(0.3, 1.2), rng.permutation(len(places))
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    moved = (places + rng.normal(scale=0.012, size=places.shape))[order] @ turn
    return moved, roads_between(moved), np.argsort(order)


# %%
# Descriptions of nodes that no rotation changes, and their differences for candidate pairs.
def describe(places, roads):
    n, (a, b) = len(places), roads.T
    length = np.zeros((n, n))
    length[a, b] = length[b, a] = np.linalg.norm(places[a] - places[b], axis=1)
    linked = length > 0
    degree = linked.sum(axis=1)
    closeness = np.divide(0.2, length, out=np.zeros((n, n)), where=linked)
    laplacian = np.diag(closeness.sum(axis=1)) - closeness
    heat = [np.diag(expm(-t * laplacian)) for t in (0.1, 0.3, 1.0, 3.0)]
    longest = np.sort(length, axis=1)[:, ::-1][:, :4]
    return degree, np.column_stack([degree, linked @ degree, longest * 10, *(10 * h for h in heat)])


def candidates(first, second):
    (degree, one), (other_degree, two) = describe(*first), describe(*second)
    features = -np.abs(one[:, None] - two[None])
    return PairInput(features, mask=np.abs(degree[:, None] - other_degree) <= 3)


def draw_sample():
    while True:
        first = random_map()
        places, roads, match = second_map(first[0])
        x = candidates(first, (places, roads))
        if x.mask[np.arange(len(match)), match].all():
            return first, (places, roads), x, match


samples = [draw_sample() for _ in range(40)]
train, test = samples[:30], samples[30:]
model = BipartiteMatchingCRF(alpha=1.0).fit([s[2] for s in train], [s[3] for s in train])

# %%
# On new maps: are pairs as often right as they are probable?
X, Y = [s[2] for s in test], [s[3] for s in test]
pairs = list(zip(model.predict(X), model.predict_marginals(X), Y, strict=True))
chance = np.concatenate([p[np.arange(len(f)), f] for f, p, _ in pairs])
hits = np.concatenate([f == y for f, _, y in pairs])
print(f"duality gap {model.duality_gap_:.1g}; {hits.mean():.0%} of all predicted pairs are right")
for low, high in ((0.0, 0.4), (0.4, 0.7), (0.7, 1.0)):
    part = (chance > low) & (chance <= high)
    print(f"{hits[part].mean():.0%} of those with a probability of {low} to {high}")

# %%
# One new pair of maps. Lines are the predicted matching, as strong as they are probable.
first, second, x, match = test[0]
found = model.predict([x])[0]
probability = model.predict_marginals([x])[0]

figure, axes = plt.subplots(figsize=(9.5, 5.0), layout="constrained")
left, shift = first[0], np.array([1.75, 0.0])
right_places = second[0] - second[0].mean(axis=0) + left.mean(axis=0) + shift
for places, roads in ((left, first[1]), (right_places, second[1])):
    axes.add_collection(LineCollection(places[roads], colors="#b8c4ce", linewidths=1.4, zorder=1))
rows = np.arange(len(found))
correct = found == match
for good, colour in ((True, "#0072B2"), (False, "#D55E00")):
    chosen = rows[correct == good]
    lines = np.stack([left[chosen], right_places[found[chosen]]], axis=1)
    strength = 0.1 + 0.9 * probability[chosen, found[chosen]]
    axes.add_collection(LineCollection(lines, colors=colour, alpha=strength, linewidths=1.3))
hue = plt.get_cmap("twilight")(np.argsort(np.argsort(left[:, 0])) / len(left) * 0.8 + 0.1)
axes.scatter(*left.T, s=70, c=hue, edgecolors="white", zorder=3)
axes.scatter(*right_places[match].T, s=70, c=hue, edgecolors="white", zorder=3)
axes.set_title(
    f"{correct.sum()} of {len(found)} nodes matched rightly (blue); lines as strong as probable",
    loc="left",
)
axes.set_aspect("equal")
axes.set_axis_off()
plt.show()
