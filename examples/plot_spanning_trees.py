"""
Power lines: spanning trees with probabilities
==============================================

Power lines connect villages without loops, and planners avoid long lines and steep slopes. A
`StructuredCRF` learns the costs of length and slope from networks that were built elsewhere.
Learning needs only a solver for the best tree. The matrix-tree theorem gives the exact probability
of every line for comparison.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection
from scipy.spatial import Delaunay

from mlestruct import StructuredCRF
from mlestruct.structures import SpanningTrees

rng = np.random.default_rng(8)


def make_valley(n_villages=30):
    """Villages, possible lines with length and climb, and the height of the land."""
    hills = [(rng.uniform(size=2), rng.uniform(0.05, 0.15), rng.uniform(0.5, 1.0)) for _ in "1234"]

    def height(at):
        return sum(h * np.exp(-((at - c) ** 2).sum(axis=-1) / (2 * w**2)) for c, w, h in hills)

    villages = rng.uniform(0.02, 0.98, size=(n_villages, 2))
    corners = Delaunay(villages).simplices[:, [0, 1, 1, 2, 0, 2]].reshape(-1, 2)
    lines = np.unique(np.sort(corners, axis=1), axis=0)
    ends = villages[lines]
    way = ends[:, :1] + np.linspace(0, 1, 20)[None, :, None] * (ends[:, 1:] - ends[:, :1])
    climb = np.abs(np.diff(height(way), axis=1)).sum(axis=1)
    length = np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1)
    return villages, lines, np.column_stack([-10 * length, -5 * climb]), height


# %%
# Networks are drawn from the model with costs (1.5, 2.0).
valleys = [make_valley() for _ in range(12)]
spaces = {id(v[2]): SpanningTrees(len(v[0]), v[1]) for v in valleys}
X = [v[2] for v in valleys]
Y = [spaces[id(x)].exact(x @ [1.5, 2.0]).sample(1, rng)[0] for x in X]
model = StructuredCRF(structure=lambda x: spaces[id(x)], tol=0.02).fit(X[:-1], Y[:-1])
gap = model.duality_gap_ / abs(model.objective_)
print(f"costs of length and climb {model.coef_.round(2)}, relative gap {gap:.0e}")

# %%
# A new valley: the probability of every line, exact and from decoding only.
villages, lines, x, height = valleys[-1]
space = spaces[id(x)]
exact = space.exact(x @ model.coef_)
approximate = model.predict_marginals([x])[0]
lower, upper = model.log_likelihood_bounds([x], Y[-1:])
print(f"log-likelihood of the network that was built: {model.log_likelihood([x], Y[-1:])[0]:.2f},")
print(f"proven bounds from decoding only: {lower[0]:.2f} to {upper[0]:.2f}")

figure, (land, compare) = plt.subplots(
    1, 2, figsize=(10.5, 5.2), width_ratios=[1.35, 1], layout="constrained"
)
grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 200)] * 2), axis=-1)
land.contourf(*np.moveaxis(grid, -1, 0), height(grid), levels=14, cmap="YlGn_r", alpha=0.55)
built = Y[-1].astype(bool)
land.add_collection(
    LineCollection(villages[lines[built]], colors="#ffd54a", linewidths=7, alpha=0.8)
)
widths = 0.3 + 4.0 * exact.tau
land.add_collection(LineCollection(villages[lines], colors="#26323c", linewidths=widths))
land.scatter(*villages.T, s=36, color="white", edgecolors="#26323c", zorder=3)
land.set_title("Probability of every line (black), and the true network (yellow)", loc="left")
land.set_aspect("equal")
land.set_axis_off()

compare.plot([0, 1], [0, 1], color="#8c8c8c", linewidth=1)
compare.scatter(exact.tau, approximate, s=22, color="#0072B2", alpha=0.7)
compare.set(xlabel="exact, by the matrix-tree theorem", ylabel="from decoding only")
compare.set_title("Probability of a line", loc="left")
compare.set_aspect("equal")
compare.spines[["top", "right"]].set_visible(False)
plt.show()
