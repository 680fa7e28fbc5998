"""
Tagging words, from a file to probabilities
===========================================

Which words of a delivery note are the person, the street, the city? `ChainCRF` learns from a file
in the format of CoNLL: a word and its label on each line, an empty line between sentences. The
labels are BIO: B-CITY begins a city and I-CITY continues it, so I-CITY never follows O.
sklearn-crfsuite, if it is installed, learns from the same features and is as accurate. `ChainCRF`
also has a certificate, and its predictions and probabilities never break the rule.

The notes are generated. Many words can belong to a person, a street or a city.
"""

import time
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import classification_report

from mlestruct import ChainCRF
from mlestruct.features import token_features
from mlestruct.metrics import neg_log_loss

rng = np.random.default_rng(0)
NAMES = [
    "Lake", "Park", "Hill", "Washington", "Jackson", "Madison", "Franklin", "Clinton", "Salem",
    "Georgia", "Virginia", "Grant", "Lincoln", "Chester", "Milton", "Oxford", "Dover", "Austin",
    "Houston", "Dallas", "Lee", "Marion",
]  # fmt: skip


def note():
    """Words and labels."""

    def span(kind, words):
        return [(str(word), ("I-" if k else "B-") + kind) for k, word in enumerate(words)]

    def some(probability, pairs):
        return pairs if rng.random() < probability else []

    def other(text):
        return [(word, "O") for word in text.split()]

    person = span("PERSON", rng.choice(NAMES, rng.integers(1, 3)))
    suffix = rng.choice(["St", "Ave", "Road", "Park", "Hill"], rng.integers(0, 2))
    number = span("NUMBER", [rng.integers(1, 4000)])
    street = span("STREET", [*rng.choice(NAMES, rng.integers(1, 3)), *suffix])
    city = span("CITY", rng.choice(NAMES, rng.integers(1, 3)))
    opening = other(rng.choice(["Please deliver to", "For", "Parcel of", ""]))
    between = some(0.4, other(rng.choice([",", "in", "near the lake in"])))
    parts = [opening, some(0.7, person), some(0.5, other(",")), number, street, between, city,
             some(0.3, other("before noon"))]  # fmt: skip
    return [pair for part in parts for pair in part]


# %%
# The file, and how to read one.
def read_conll(path):
    """Lists of words and lists of labels."""
    blocks = path.read_text(encoding="utf-8").strip().split("\n\n")
    rows = [[line.split("\t") for line in block.splitlines()] for block in blocks]
    return [[r[0] for r in row] for row in rows], [[r[-1] for r in row] for row in rows]


with TemporaryDirectory() as folder:
    path = Path(folder, "notes.conll")
    notes = ["\n".join("\t".join(pair) for pair in note()) for _ in range(900)]
    path.write_text("\n\n".join(notes), encoding="utf-8")
    sentences, Y = read_conll(path)
X = [token_features(words) for words in sentences]
train, tune, test = slice(80), slice(80, 200), slice(200, None)
ALPHAS = [0.02, 0.1, 0.5, 2, 10]

# %%
# Learning, with the best of five penalties by the log loss of 120 other notes.
start = time.process_time()
crf = ChainCRF(forbidden_transitions="BIO", state_features="observed")
model = crf.fit_path(X[train], Y[train], ALPHAS).best(X[tune], Y[tune], neg_log_loss)
seconds = time.process_time() - start
predicted, marginals = model.predict(X[test]), model.predict_marginals(X[test])
print(f"alpha={model.alpha}, relative gap to the optimum "
      f"{model.duality_gap_ / abs(model.objective_):.0e}")  # fmt: skip
print(classification_report(np.concatenate(Y[test]), np.concatenate(predicted), digits=3))


# %%
# The same model by crfsuite (c2 = alpha / 2).
def breaks_rule(labels):
    """Whether I- follows a label of another kind."""
    before = ["O", *labels[:-1]]
    return any(b[:2] == "I-" and a[2:] != b[2:] for a, b in zip(before, labels, strict=True))


def summary(name, found, tables, classes, seconds):
    truth = np.concatenate(Y[test])
    tokens = (np.concatenate(found) == truth).mean()
    notes = np.mean([list(a) == list(b) for a, b in zip(found, Y[test], strict=True)])
    place = {label: k for k, label in enumerate(classes)}
    own = np.concatenate(tables)[np.arange(len(truth)), [place[label] for label in truth]]
    broken = sum(breaks_rule(list(labels)) for labels in found)
    print(f"{name:17} {tokens:6.3f} {notes:12.3f} {-np.log(own).mean():9.3f} {broken:13} "
          f"{seconds:6.2f}")  # fmt: skip


print("                  words  whole notes  log loss  broken rules  CPU s")
summary("ChainCRF", predicted, marginals, model.classes_, seconds)
try:
    from sklearn_crfsuite import CRF
except ImportError:
    print("pip install sklearn-crfsuite to compare")
else:

    def tables_of(fitted, X):
        return [np.array([[row[label] for label in fitted.classes_] for row in table])
                for table in fitted.predict_marginals(X)]  # fmt: skip

    def log_loss(fitted):
        place = {label: k for k, label in enumerate(fitted.classes_)}
        truth = [place[label] for label in np.concatenate(Y[tune])]
        own = np.concatenate(tables_of(fitted, X[tune]))[np.arange(len(truth)), truth]
        return -np.log(own).mean()

    start = time.process_time()
    fits = [CRF(c1=0.0, c2=a / 2, all_possible_transitions=True).fit(X[train], Y[train])
            for a in ALPHAS]  # fmt: skip
    rival = min(fits, key=log_loss)
    seconds = time.process_time() - start
    summary("sklearn-crfsuite", rival.predict(X[test]), tables_of(rival, X[test]),
            rival.classes_, seconds)  # fmt: skip

# %%
# The least certain notes: the probability of every label of every word. Label these notes next, or
# check them before a parcel leaves.
doubt = np.array([table.max(axis=1).min() for table in marginals])
kinds = {"PERSON": "#CC79A7", "NUMBER": "#56B4E9", "STREET": "#0072B2", "CITY": "#E69F00",
         "O": "#d5dbe0"}  # fmt: skip
figure, axes = plt.subplots(3, 1, figsize=(9, 7), layout="constrained")
for ax, m in zip(axes, np.argsort(doubt)[:3].tolist(), strict=True):
    words, truth, table = sentences[200 + m], Y[200 + m], marginals[m]
    bottom, at = np.zeros(len(words)), np.arange(len(words))
    for kind, colour in kinds.items():
        for label, mark in ((f"B-{kind}", None), (f"I-{kind}", "////"), (kind, None)):
            if label in model.classes_:
                chance = table[:, list(model.classes_).index(label)]
                ax.bar(at, chance, 0.92, bottom, color=colour, hatch=mark, edgecolor="white")
                bottom += chance
    for k, label in enumerate(truth):
        ax.text(k, 1.04, label, ha="center", fontsize=8, color="#26323c")
    ax.set_xticks(at, words, fontsize=11)
    ax.set(yticks=[0, 0.5, 1], ylim=(0, 1.15), xlim=(-0.6, max(9, len(words)) - 0.4))
    ax.spines[["top", "right", "bottom"]].set_visible(False)
    ax.tick_params(axis="x", length=0)
handles = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in kinds.values()]
figure.legend(handles, kinds, loc="outside lower center", ncols=5, frameon=False)
axes[0].set_title("Probabilities of labels (I- is hatched); above, the true labels", loc="left",
                  pad=14)  # fmt: skip
plt.show()
