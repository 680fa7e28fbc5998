"""
Who moves in with whom? Pairs within one group
==============================================

Students answer a questionnaire and choose a roommate, year by year. (Generated: real housing
records are confidential. Pairs are drawn from a known model.) How much do different answers count
against two people? Logistic regression takes all pairs of students as independent, with a
maximum-weight matching of networkx afterwards; a matching CRF knows that everyone has one roommate.
Both learn from two years, choose one of five penalties on a third, and are compared on a fourth.
"""

import time
from itertools import combinations

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from mlestruct import EdgeList, MatchingCRF
from mlestruct.datasets import generate_campus
from mlestruct.metrics import neg_log_loss, pair_f1

campus = generate_campus(160, n_years=4, random_state=1)
questions = [question.name for question in campus.questions]


def couples(year):
    """All pairs of students of a year: differences of answers, and who lives together."""
    answers = pd.DataFrame(year.answers, index=year.students, columns=questions)
    scaled = answers / [question.levels - 1 for question in campus.questions]
    places = np.array(list(combinations(range(len(answers)), 2)))
    index = pd.MultiIndex.from_arrays([answers.index[places[:, 0]], answers.index[places[:, 1]]])
    apart = np.abs(scaled.to_numpy()[places[:, 0]] - scaled.to_numpy()[places[:, 1]])
    together = year.partner[places[:, 0]] == places[:, 1]
    return pd.DataFrame(apart, index=index, columns=questions), together


frames, together = zip(*(couples(year) for year in campus.years), strict=True)
PENALTIES = [0.1, 1, 10, 100, 1000]

# %%
# A matching CRF within one group: `EdgeList` in place of `PairInput`, labels as booleans.
start = time.process_time()
X, Y = [EdgeList.from_frame(frame) for frame in frames], list(together)
path = MatchingCRF().fit_path(X[:2], Y[:2], PENALTIES)
model = path.best(X[2:3], Y[2:3], neg_log_loss)
answer = model.predict_links(X[3:])[0]
seconds = time.process_time() - start

# %%
# Logistic regression on pairs, then a matching of the largest log-odds.
start = time.process_time()
table, happened = pd.concat(frames[:2]), np.concatenate(together[:2])
fits = [
    LogisticRegression(C=1 / penalty, max_iter=1000).fit(table, happened) for penalty in PENALTIES
]
logistic = min(fits, key=lambda fit: log_loss(together[2], fit.predict_proba(frames[2])[:, 1]))
chance = logistic.predict_proba(frames[3])[:, 1]
graph = nx.Graph()
odds = logistic.decision_function(frames[3]).tolist()
graph.add_weighted_edges_from((a, b, w) for (a, b), w in zip(frames[3].index, odds, strict=True))
matched = {frozenset(pair) for pair in nx.max_weight_matching(graph, maxcardinality=True)}
linked = np.array([frozenset(pair) in matched for pair in frames[3].index])
logistic_seconds = time.process_time() - start

truth = together[3]
print("                       right pairs  AUC    log loss  CPU s")
for name, chosen, probability, spent in (
    ("logistic + matching", linked, chance, logistic_seconds),
    ("matching CRF", answer["linked"].to_numpy(), answer["probability"], seconds),
):
    auc, loss = roc_auc_score(truth, probability), log_loss(truth, probability)
    right = f"{(chosen & truth).sum():4d} of {truth.sum():3d}"
    print(f"{name:22} {right} {auc:6.3f} {loss:9.4f} {spent:6.2f}")
print(f"pair F1 of the CRF {pair_f1(model, X[3:], Y[3:]):.3f}, alpha={model.alpha}, duality gap "
      f"{model.duality_gap_:.2g}")  # fmt: skip

# %%
# What counts against living together.
weights = pd.Series(model.named_coef()).sort_values()
figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
axes.barh(weights.index, weights, color="#0072B2")
axes.axvline(0.0, color="black", linewidth=0.7)
axes.set_xlabel("weight of different answers")
axes.set_title("Learned from two years of roommates", loc="left", fontsize=10)
plt.show()
