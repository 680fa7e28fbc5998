"""
Digits of which few are labelled
================================

1,797 handwritten digits, 5 % of them labelled. Most neighbours in the space of images
show the same digit, so a graph of nearest neighbours tells what the labels of a few say about the
others.

`GraphCRF` learns from the labelled digits what each of the ten looks like. That neighbours agree is
given as an offset of the edges, since 90 labels have too few edges among them to learn a table of
10 x 10 weights. Prediction is given the known labels. Beside it two of scikit-learn: logistic
regression, which does not see the unlabelled digits, and label spreading, which sees nothing but
the similarities. Each chooses among four settings by the same three folds of the labelled digits.
"""

# %%
import time
from functools import cache
from itertools import product

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.manifold import SpectralEmbedding
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import kneighbors_graph
from sklearn.semi_supervised import LabelSpreading

from mlestruct import GraphCRF, NodeInput

images, digits = load_digits(return_X_y=True)
images = images / 16.0
labelled = np.random.default_rng(0).permutation(digits.size)[:90]
hidden = np.setdiff1d(np.arange(digits.size), labelled)


# %%
# The three models: labels of all digits from those of some.
def neighbours(k):
    """Edges between nearest neighbours, and how similar they are."""
    graph = kneighbors_graph(images, k, mode="distance")
    both = graph.maximum(graph.T).tocoo()
    once = both.row < both.col
    distance = both.data[once]
    edges = np.stack([both.row[once], both.col[once]], axis=1)
    return edges, np.exp(-((distance / np.median(distance)) ** 2))


graphs = {k: neighbours(k) for k in (5, 8)}


@cache
def appearances(some):
    """What digits look like, from those labelled, as nodes without edges."""
    no_edges, some = np.zeros((0, 2), dtype=int), list(some)
    return GraphCRF(unknown=-1, n_states=10).fit([(images[some], no_edges)], [digits[some]])


def graph_crf(some, k, strength):
    """A model, a sample in which neighbours tend to agree, and the known labels."""
    model = appearances(tuple(some))
    edges, similarity = graphs[k]
    agreement = strength * similarity[:, None, None] * np.eye(10)
    return model, NodeInput((images, edges), edge_offset=agreement), only(some)


def only(some):
    known = np.full(digits.size, -1)
    known[some] = digits[some]
    return known


def by_graph_crf(some, k, strength):
    model, sample, known = graph_crf(some, k, strength)
    return model.predict([sample], known=[known])[0]


def by_regression(some, c):
    return LogisticRegression(C=c, max_iter=1000).fit(images[some], digits[some]).predict(images)


def by_spreading(some, kernel, size, alpha):
    size = {"n_neighbors" if kernel == "knn" else "gamma": size}
    model = LabelSpreading(kernel=kernel, alpha=alpha, max_iter=200, **size)
    return model.fit(images, only(some)).transduction_


# %%
# Every model is tuned on the labelled digits alone: a third of them is hidden in turn.
kernels = (("knn", 8), ("rbf", 6))
spreading = [(*kernel, alpha) for kernel in kernels for alpha in (0.2, 0.8)]
rivals = {
    "logistic regression": (by_regression, [(c,) for c in (0.1, 0.3, 1.0, 3.0)]),
    "label spreading": (by_spreading, spreading),
    "GraphCRF": (by_graph_crf, list(product((5, 8), (4.0, 8.0)))),
}
folds = list(StratifiedKFold(3, shuffle=True, random_state=0).split(labelled, digits[labelled]))
chosen, found = {}, {}
for name, (predict, settings) in rivals.items():
    started = time.perf_counter()
    scores = []
    for setting in settings:
        tests = [(labelled[test], predict(labelled[train], *setting)) for train, test in folds]
        scores.append(np.mean([(answer[own] == digits[own]).mean() for own, answer in tests]))
    chosen[name] = settings[int(np.argmax(scores))]
    found[name] = predict(labelled, *chosen[name])
    accuracy = (found[name][hidden] == digits[hidden]).mean()
    seconds = time.perf_counter() - started
    print(f"{name:20} {chosen[name]!s:18} right on hidden digits {accuracy:.3f}, {seconds:.1f} s")

# %%
# Marginals given the known labels tell which answers to doubt.
model, sample, known = graph_crf(labelled, *chosen["GraphCRF"])
probability = model.predict_proba([sample], known=[known], tol=1e-2)[0]
certainty = probability.max(axis=1)
sure = certainty[hidden] > 0.9
right = probability.argmax(axis=1)[hidden] == digits[hidden]
print(
    f"{sure.mean():.2f} of the hidden digits are more than 90 % certain: {right[sure].mean():.3f}"
)
print(f"of these are right, and {right[~sure].mean():.3f} of the others")

# %%
edges, similarity = graphs[chosen["GraphCRF"][0]]
weights = np.zeros((digits.size, digits.size))
weights[edges[:, 0], edges[:, 1]] = weights[edges[:, 1], edges[:, 0]] = similarity
layout = SpectralEmbedding(2, affinity="precomputed", random_state=0).fit_transform(weights)
layout = np.argsort(np.argsort(layout, axis=0), axis=0)  # ranks spread the points out
figure = plt.figure(figsize=(10, 5), layout="constrained")
left, right_half = figure.subfigures(1, 2)
axis = left.subplots()
axis.scatter(*layout.T, c=found["GraphCRF"], cmap="tab10", s=6)
axis.scatter(*layout[labelled].T, c=digits[labelled], cmap="tab10", s=50, edgecolors="black")
wrong = hidden[found["GraphCRF"][hidden] != digits[hidden]]
axis.scatter(*layout[wrong].T, marker="x", c="black", s=30)
axis.set(xticks=[], yticks=[], title="predicted digits: labelled (rings), wrong (crosses)")
doubtful = hidden[np.argsort(certainty[hidden])[:12]]
right_half.suptitle("most doubtful: probabilities of two digits, and the truth")
for place, node in zip(right_half.subplots(3, 4).ravel(), doubtful, strict=True):
    likely = [f"{d}: {probability[node, d]:.2f}" for d in np.argsort(-probability[node])[:2]]
    place.imshow(images[node].reshape(8, 8), cmap="gray_r")
    place.set_title("  ".join(likely) + f"\nis {digits[node]}", fontsize=9)
    place.axis("off")
plt.show()
