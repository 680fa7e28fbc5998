"""
Completing digits: labels that depend on each other
===================================================

Given the upper half of a digit, which of twelve patches of the lower half are dark? `MultiLabelCRF`
learns weights for every patch and a coupling for every pair of patches. Inference is exact: the
model gives the probability of a whole completion, of a patch given other patches, and the
likelihood of all labels together. Independent logistic regressions give none of these.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import MultiOutputClassifier

from mlestruct import MultiLabelCRF

images = load_digits().images / 16
upper = images[:, :4].reshape(len(images), -1)
patches = images[:, 4:, 1:7].reshape(-1, 4, 3, 2).mean(axis=3).reshape(len(images), -1)
dark = (patches > 0.375).astype(int)
X, Y, Xt, Yt = upper[:600], dark[:600], upper[1400:], dark[1400:]

joint = MultiLabelCRF(alpha=1.0).fit(X, Y)
apart = MultiOutputClassifier(LogisticRegression()).fit(X, Y)
p = np.stack([found[:, 1] for found in apart.predict_proba(Xt)], axis=1)
independent = np.log(np.where(Yt == 1, p, 1 - p)).sum(axis=1).mean()
all_right = (joint.predict(Xt) == Yt).all(axis=1).mean()
print(f"log-likelihood of all 12 labels: {joint.log_likelihood(Xt, Yt).mean():.2f}, by independent "
      f"logistic regressions {independent:.2f}")  # fmt: skip
print(f"all 12 labels right: {all_right:.3f}, by independent logistic regressions "
      f"{((p > 0.5) == Yt).all(axis=1).mean():.3f}")  # fmt: skip

# %%
# Four digits: the truth, the three most probable completions of the upper half, what independent
# regressions choose, and the probability of every patch if the left column is known.
chosen = [3, 14, 40, 77]
sets = joint.predict_joint(Xt[chosen], k=3)
known = np.where(np.arange(12) % 3 == 0, Yt[chosen], -1)
given = joint.predict_proba(Xt[chosen], known)


def completed(m, labels):
    """The upper half as seen, the lower half as the patches of `labels`."""
    lower = np.zeros((4, 8))
    lower[:, 1:7] = np.repeat(np.reshape(labels, (4, 3)), 2, axis=1)
    return np.vstack([images[1400 + m, :4], lower])


figure, axes = plt.subplots(4, 6, figsize=(9, 6.6), layout="constrained")
for row, m in enumerate(chosen):
    titles = [f"probability {q:.2f}" for q in sets.probabilities[row]]
    titles = ["true patches", *titles, "independent", "left column known"]
    lower = [Yt[m], *sets.labels[row], p[m] > 0.5, given[row]]
    for ax, title, labels in zip(axes[row], titles, lower, strict=True):
        ax.imshow(completed(m, labels), cmap="bone_r", vmin=0, vmax=1.15)
        ax.axhline(3.5, color="#D55E00", linewidth=1.5)
        ax.set_title(title, fontsize=9)
        ax.set(xticks=[], yticks=[])
plt.show()
