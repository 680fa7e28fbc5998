"""
Answers that depend on each other: multi-label classification
=============================================================

From the upper half of a digit, which patches of its lower half are dark? Twelve yes/no answers that
depend on each other: `MultiLabelCRF` learns weights for every patch and a coupling for every pair.
Inference is exact, so that probabilities of whole pictures are known, and of patches given others.
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
alone = np.log(np.where(Yt == 1, p, 1 - p)).sum(axis=1).mean()
print(f"log-likelihood of all 12 answers: {joint.log_likelihood(Xt, Yt).mean():.2f} jointly, ")
print(f"{alone:.2f} by independent logistic regressions")

# %%
# Three digits: what is seen, the most probable completions, and the probability of every patch once
# the patches of the first column are known.
chosen = [3, 14, 40]
sets = joint.predict_joint(Xt[chosen], k=3)
known = np.where(np.arange(12) % 3 == 0, Yt[chosen], -1)
given = joint.predict_proba(Xt[chosen], known)
figure, axes = plt.subplots(3, 6, figsize=(10, 5), layout="constrained")
for row, m in enumerate(chosen):
    pictures = [images[1400 + m, :4, 1:7], Yt[m], *sets.labels[row], given[row]]
    titles = ["seen", "truth", *(f"p = {q:.2f}" for q in sets.probabilities[row]), "given column 1"]
    for ax, picture, title in zip(axes[row], pictures, titles, strict=True):
        ax.imshow(np.reshape(picture, (4, -1)), cmap="Greys", vmin=0, vmax=1)
        ax.set_title(title, fontsize=9)
        ax.set_xticks([])
        ax.set_yticks([])
plt.show()
