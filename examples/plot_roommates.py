"""
Roommates: from questionnaires to an assignment
===============================================

Students answer a questionnaire, and pairs of students share a room. A matching CRF learns from the
pairs of past years which answers matter, gives every possible pair of the new year a probability,
and proposes an assignment. Logistic regression on pairs ignores that everyone has one roommate.
Below it gets the best assignment for its scores.

The students are generated (`generate_campus`), since housing records are confidential.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from mlestruct import BipartiteMatchingCRF, MatchingCRF
from mlestruct.datasets import generate_campus
from mlestruct.metrics import neg_log_loss

# %%
# Two files, as a housing office has them: answers of all students, and the pairs of each year. Some
# answers are missing.
folder = TemporaryDirectory()
campus = generate_campus([200, 200, 200, 60], random_state=5, strength=2.0, missing=0.02)
questions = [question.name for question in campus.questions]
students, rooms = [], []
for year in campus.years:
    table = pd.DataFrame(year.answers, columns=questions).where(lambda answer: answer >= 0)
    students.append(table.assign(id=year.students, year=year.year))
    ends = [(i, j) for i, j in enumerate(year.partner) if i < j]
    rooms += [(year.students[i], year.students[j]) for i, j in ends]
pd.concat(students).to_csv(Path(folder.name, "students.csv"), index=False)
pd.DataFrame(rooms, columns=["id", "roommate"]).to_csv(Path(folder.name, "rooms.csv"), index=False)

# %%
# Read the files. The features of a pair are the differences of its answers, scaled to [0, 1]; a
# missing answer counts as the mean difference. The label of a student is the place of the roommate.
people = pd.read_csv(Path(folder.name, "students.csv")).set_index("id")
rooms = pd.read_csv(Path(folder.name, "rooms.csv"))
largest = people[questions].max()


def pair_features(group):
    """Array of shape (n_students, n_students, n_questions)."""
    answers = (group[questions] / largest).to_numpy()
    apart = np.abs(answers[:, None] - answers[None])
    return np.where(np.isnan(apart), np.nanmean(apart, axis=(0, 1)), apart)


def roommates(group):
    """The place of every student's roommate; -1 for a single student."""
    pairs = rooms[rooms["id"].isin(group.index)]
    one, other = group.index.get_indexer(pairs["id"]), group.index.get_indexer(pairs["roommate"])
    partner = np.full(len(group), -1)
    partner[one], partner[other] = other, one
    return partner


groups = [group for _, group in people.groupby("year")]
X, Y = [pair_features(g) for g in groups], [roommates(g) for g in groups]

# %%
# Learn from two years, choose the penalty by the log loss of the third, and predict the fourth. If
# students may stay single, use `MatchingCRF(perfect=False)`.
ALPHAS = [0.1, 1, 10, 100]
model = MatchingCRF().fit_path(X[:2], Y[:2], ALPHAS).best(X[2:3], Y[2:3], neg_log_loss)
proposed, chance = model.predict(X[3:])[0], model.predict_marginals(X[3:])[0]
print(f"alpha={model.alpha}, relative gap {model.duality_gap_ / abs(model.objective_):.0e}")


# %%
# Logistic regression on all pairs, and the assignment with the largest sum of log-odds.
def pairs_of(k):
    """Features of all pairs i < j of a year, and whether they share a room."""
    i, j = np.triu_indices(len(Y[k]), 1)
    return X[k][i, j], Y[k][i] == j


table, together = (np.concatenate(part) for part in zip(pairs_of(0), pairs_of(1), strict=True))
fits = [LogisticRegression(C=1 / alpha, max_iter=1000).fit(table, together) for alpha in ALPHAS]
held_out, truth = pairs_of(2)
logistic = min(fits, key=lambda fit: log_loss(truth, fit.predict_proba(held_out)[:, 1]))
new, truth = pairs_of(3)
i, j = np.triu_indices(len(Y[3]), 1)
graph = nx.Graph()
odds = logistic.decision_function(new)
graph.add_weighted_edges_from(zip(i.tolist(), j.tolist(), odds.tolist(), strict=True))
matched = nx.max_weight_matching(graph, maxcardinality=True)
print("                       right pairs    AUC  log loss")
for name, right, probability in (
    ("logistic + matching", np.sum([Y[3][a] == b for a, b in matched]), expit(odds)),
    ("matching CRF", (proposed == Y[3]).sum() // 2, chance[i, j]),
):
    auc, loss = roc_auc_score(truth, probability), log_loss(truth, probability)
    print(f"{name:22} {right:5} of {truth.sum()} {auc:6.3f} {loss:9.4f}")

# %%
# The answer: a file with the proposed roommate of every student, the probability, and the three
# most probable candidates.
ids = groups[3].index.to_numpy()
best = np.argsort(-chance, axis=1)[:, :3]
rows = np.arange(len(ids))
matches = pd.DataFrame(
    {"id": ids, "roommate": ids[proposed], "probability": chance[rows, proposed]}
)
for k in range(3):
    candidates = zip(ids[best[:, k]], chance[rows, best[:, k]], strict=True)
    matches[f"candidate {k + 1}"] = [f"{name} ({p:.2f})" for name, p in candidates]
matches.to_csv(Path(folder.name, "matches.csv"), index=False, float_format="%.3f")
print(matches.head().to_string(index=False, float_format="%.2f"))

# %%
# The proposed roommate is not always a student's first candidate. A matching is one joint decision:
# the first candidate of many students can live with one of them only, and the assignment as a whole
# has the largest probability.
second = np.flatnonzero(best[:, 0] != proposed)
print(f"{len(second)} of {len(ids)} students are not proposed their first candidate")
a = second[np.argmax(chance[second, best[second, 0]])]
b = best[a, 0]
print(f"{ids[a]}: first candidate {ids[b]} ({chance[a, b]:.2f}), who is proposed "
      f"{ids[proposed[b]]} ({chance[b, proposed[b]]:.2f})")  # fmt: skip

# %%
# Two sides instead of one group, such as students and houses with three places each: an array of
# shape (students, houses, features), and labels as pairs (student, house).
houses = np.random.default_rng(0).normal(size=(30, 10, 2))
lived = np.column_stack([np.arange(30), np.repeat(np.arange(10), 3)])
places = BipartiteMatchingCRF(capacity=(1, 3)).fit([houses], [lived]).predict([houses])[0]
print("students in each house:", np.bincount(places[:, 1]).tolist())

# %%
# Left: what matters, learned (bars) and true (dots). Right: the students of the new year on a
# circle; lines are as strong as a pair is probable, and the proposed pairs are orange.
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5.2), width_ratios=[1, 1.1],
                                     layout="constrained")  # fmt: skip
order = np.argsort(model.coef_)[::-1]
true = [campus.true_weights.get(f"|{q}|", 0.0) * largest[q] for q in questions]
left.barh(np.array(questions)[order], model.coef_[order], color="#0072B2", alpha=0.75)
left.scatter(np.array(true)[order], np.arange(len(order)), color="black", s=16, zorder=3)
left.set_title("Weight of different answers; dots: true", loc="left", fontsize=10.5)
left.spines[["top", "right"]].set_visible(False)

ranks = np.argsort(nx.spectral_ordering(nx.from_numpy_array(chance)))
angle = 2 * np.pi * ranks / len(ids)
places = np.column_stack([np.cos(angle), np.sin(angle)])
for a, b in zip(*np.nonzero(np.triu(chance) > 0.01), strict=True):
    own = proposed[a] == b
    bend = np.array([places[a], 0.25 * (places[a] + places[b]), places[b]])
    t = np.linspace(0, 1, 30)[:, None]
    curve = (1 - t) ** 2 * bend[0] + 2 * t * (1 - t) * bend[1] + t**2 * bend[2]
    right.plot(*curve.T, color="#D55E00" if own else "#0072B2", zorder=2 if own else 1,
               linewidth=0.4 + 4 * chance[a, b], alpha=0.9 if own else 0.35)  # fmt: skip
right.scatter(*places.T, s=30, color="white", edgecolors="#26323c", zorder=3)
right.set_title("Probable pairs, and the proposed ones (orange)", loc="left", fontsize=10.5)
right.set_aspect("equal")
right.set_axis_off()
folder.cleanup()
plt.show()
