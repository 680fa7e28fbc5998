"""
Frustrated magnets: a planar Ising model
========================================

Atoms on a surface have spins up or down. Close neighbours prefer opposite spins, which a triangle
cannot satisfy. On planar graphs without a field this model is solvable: the ground state is a
perfect matching in the dual graph, and the partition function is a determinant (Kac and Ward). A
`StructuredCRF` learns from measured spins how the coupling depends on the distance. Learning needs
only matchings; the determinant checks the proven bounds.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection
from scipy.spatial import Delaunay

from mlestruct import StructuredCRF
from mlestruct.structures import PlanarIsing

rng = np.random.default_rng(2)


def make_surface(n_atoms):
    """Atoms that keep some distance from each other, and bonds between neighbours."""
    atoms = np.empty((0, 2))
    while len(atoms) < n_atoms:
        new = rng.uniform(size=2)
        if len(atoms) == 0 or np.linalg.norm(atoms - new, axis=1).min() > 0.62 / np.sqrt(n_atoms):
            atoms = np.vstack([atoms, new])
    corners = Delaunay(atoms).simplices[:, [0, 1, 1, 2, 0, 2]].reshape(-1, 2)
    bonds = np.unique(np.sort(corners, axis=1), axis=0)
    length = np.linalg.norm(atoms[bonds[:, 0]] - atoms[bonds[:, 1]], axis=1) * np.sqrt(n_atoms)
    bonds, length = bonds[length < 2.2], length[length < 2.2]
    features = np.column_stack([np.exp(-length), np.ones(len(bonds))])
    return PlanarIsing(atoms, bonds), features


# %%
# Measured spins on small surfaces, drawn from the model itself; weights (12, -2): bonds up to a
# length of about 1.8 prefer opposite spins, longer ones equal spins.
truth = np.array([12.0, -2.0])
spaces, X, Y = [], [], []
for _ in range(12):
    space, features = make_surface(20)
    spaces.append(space)
    X.append(features)
    Y.append(space.exact(features @ truth).sample(1, rng)[0])
space_of = {id(x): space for x, space in zip(X, spaces, strict=True)}
model = StructuredCRF(structure=lambda x: space_of[id(x)], alpha=0.05, tol=0.02).fit(X, Y)
lower, upper = model.log_likelihood_bounds(X[:3], Y[:3])
exact = model.log_likelihood(X[:3], Y[:3])
print(
    f"weights {model.coef_.round(2)}, relative gap {model.duality_gap_ / abs(model.objective_):.0e}"
)
print(f"log-likelihood of three: {exact.sum():.1f}, proven: {lower.sum():.1f} to {upper.sum():.1f}")
assert (lower <= exact + 1e-9).all()
assert (exact <= upper + 1e-9).all()

# %%
# The ground state of a larger surface, and the exact probability of opposite spins for every bond.
space, features = make_surface(160)
scores = features @ model.coef_
cut = space.label(space.decode(scores).vertex)
spins = space.spins(cut)
chance = space.exact(scores).tau
frustrated = (cut == 1) != (scores > 0)

figure, (left, right) = plt.subplots(1, 2, figsize=(11.0, 5.6), layout="constrained")
ends = space.positions[space.edges]
strength = 0.4 + 2.2 * np.abs(scores) / np.abs(scores).max()
left.add_collection(LineCollection(ends, colors="#c9d1d8", linewidths=strength))
left.add_collection(LineCollection(ends[frustrated], colors="#D55E00", linewidths=2.4))
left.scatter(*space.positions[spins > 0].T, s=46, color="#1b2a41", zorder=3)
left.scatter(*space.positions[spins < 0].T, s=46, color="white", edgecolors="#1b2a41", zorder=3)
left.set_title(f"Ground state: {frustrated.sum()} of {len(cut)} bonds are frustrated", loc="left")

colours = plt.get_cmap("coolwarm")(chance)
right.add_collection(LineCollection(ends, colors=colours, linewidths=3.2, capstyle="round"))
right.scatter(*space.positions.T, s=8, color="#1b2a41", zorder=3)
right.set_title("Probability of opposite spins: 0 (blue) to 1 (red)", loc="left")
for axes in (left, right):
    axes.set_aspect("equal")
    axes.set_axis_off()
plt.show()
