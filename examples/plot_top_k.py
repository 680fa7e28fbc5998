"""
Learning with your own decoder: the k best of n
===============================================

Coaches pick 5 of 14 players by their speed and passing. `StructuredCRF` needs only a function that
returns the best team for given scores, here a sort of three lines. It learns a weight for each
skill, and gives every player a probability. For teams the exact answer is known, by elementary
symmetric polynomials, and the two agree.
"""

import matplotlib.pyplot as plt
import numpy as np

from mlestruct import StructuredCRF
from mlestruct.structures import Subsets

rng = np.random.default_rng(3)
names = ["Ada", "Bo", "Cleo", "Dan", "Eve", "Finn", "Gil"]
names += ["Hana", "Ines", "Jon", "Kim", "Lea", "Max", "Noa"]
team = Subsets(len(names), 5)


def pick_five(scores):
    """The decoder."""
    return np.argsort(np.argsort(-scores)) < 5


# %%
# Forty training camps: speed, passing and a feature of noise, and the team that was picked.
truth = np.array([1.2, 0.8, 0.0])
X = [rng.normal(size=(len(names), 3)) for _ in range(41)]
Y = [team.exact(x @ truth).sample(1, rng)[0] for x in X]
model = StructuredCRF(pick_five, tol=0.01).fit(X[:-1], Y[:-1])
weights = model.named_coef(["speed", "passing", "noise"])
print({name: round(weight, 2) for name, weight in weights.items()})
gap = model.duality_gap_ / abs(model.objective_)
print(f"relative gap {gap:.0e}, {model.n_oracle_calls_} calls of pick_five")

# %%
# A new camp. Left: exact probabilities for teams of 1 to 13. Right: teams of five.
scores = X[-1] @ model.coef_
order = np.argsort(-scores)
sizes = np.arange(1, len(names))
chance = np.array([Subsets(len(names), k).exact(scores).tau[order] for k in sizes]).T
decoded = model.predict_marginals(X[-1:])[0][order]

figure, (table, bars) = plt.subplots(
    1, 2, figsize=(10.0, 4.8), width_ratios=[1.25, 1], sharey=True, layout="constrained"
)
image = table.imshow(chance, cmap="magma", vmin=0, vmax=1, aspect="auto")
table.set_xticks(np.arange(len(sizes)), sizes)
table.set_yticks(np.arange(len(names)), [names[k] for k in order])
table.set_xlabel("size of the team")
table.set_title("Probability to be in the team", loc="left")
table.axvline(3.5, color="white", linewidth=1)
table.axvline(4.5, color="white", linewidth=1)
figure.colorbar(image, ax=table, location="left", shrink=0.6, pad=0.02)

at = np.arange(len(names))
bars.barh(at - 0.2, chance[:, 4], height=0.38, color="#B5367A", label="exact")
bars.barh(at + 0.2, decoded, height=0.38, color="#FBB61A", label="from the decoder only")
chosen = Y[-1][order].astype(bool)
bars.scatter(
    np.full(chosen.sum(), 1.04), at[chosen], marker="*", s=90, color="#26323c", label="picked"
)
bars.set_xlim(0, 1.1)
bars.set_title("Teams of five", loc="left")
bars.set_xlabel("probability")
bars.legend(frameon=False, loc="lower right")
bars.spines[["top", "right"]].set_visible(False)
plt.show()
