"""
A probabilistic dependency parser
=================================

A dependency parse gives every word a head: it is a tree directed from a root. `DirectedTrees` sums
over all trees by the matrix-tree theorem, so `StructuredCRF` learns from a treebank by exact
maximum likelihood. Does the sailor have the telescope, or the bird? The picture shows the
probability of every arc.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Arc

from mlestruct import StructuredCRF
from mlestruct.structures import DirectedTrees, ExactInference

rng = np.random.default_rng(0)
WORDS = {
    "DET": ["the", "a", "every"],
    "ADJ": ["old", "small", "quiet"],
    "NOUN": ["sailor", "bird", "telescope", "harbour", "storm"],
    "VERB": ["saw", "drew", "followed"],
    "PREP": ["with", "near", "in"],
    "ADV": ["slowly", "often"],
}
TAGS = ["ROOT", *WORDS]


# %%
# A treebank: sentences from a small grammar, as tags and heads. A phrase with a preposition belongs
# to the verb or to the noun before it.
def noun_phrase(tags, heads, head):
    tags.append("DET")
    n_adjectives = int(rng.choice(3, p=[0.6, 0.3, 0.1]))
    noun = len(tags) + n_adjectives
    heads += [noun] * (1 + n_adjectives) + [head]
    tags += ["ADJ"] * n_adjectives + ["NOUN"]
    return noun


def sentence():
    tags, heads = ["ROOT"], [-1]
    subject = noun_phrase(tags, heads, None)
    verb = len(tags)
    heads[subject] = verb
    tags.append("VERB")
    heads.append(0)
    if rng.uniform() < 0.4:
        tags.append("ADV")
        heads.append(verb)
    noun = noun_phrase(tags, heads, verb)
    while rng.uniform() < 0.45:
        preposition = len(tags)
        tags.append("PREP")
        heads.append(verb if rng.uniform() < 0.5 else noun)
        noun = noun_phrase(tags, heads, preposition)
    return tags, heads


spaces = {n: ExactInference(DirectedTrees(n)) for n in range(2, 40)}


def features(tags):
    """Of every arc: the tags of head and child, the direction, and the distance."""
    head, child = spaces[len(tags)].approximate.edges.T
    number = np.array([TAGS.index(tag) for tag in tags])
    pair = np.eye(len(TAGS) ** 2)[number[head] * len(TAGS) + number[child]]
    gap = np.abs(head - child)[:, None]
    near = np.hstack([gap == 1, gap == 2, gap > 4, -gap / 5])
    ahead = (child > head)[:, None] * np.eye(len(TAGS))[number[child]]
    return np.hstack([pair, near, ahead])


treebank = [sentence() for _ in range(150)]
X = [tags for tags, _ in treebank]
Y = [spaces[len(tags)].approximate.label_of_parents(heads) for tags, heads in treebank]
model = StructuredCRF(structure=lambda tags: spaces[len(tags)], features=features, alpha=0.3)
model.fit(X[:100], Y[:100])
parents = [spaces[len(x)].approximate.parents(y) for x, y in zip(X, model.predict(X), strict=True)]
right = [p[1:] == np.array(h[1:]) for p, (_, h) in zip(parents[100:], treebank[100:], strict=True)]
print(f"{np.concatenate(right).mean():.0%} of the heads of new sentences are right")
print(f"exact likelihood, relative gap {model.duality_gap_ / abs(model.objective_):.0e}")

# %%
# One sentence, all its parses at once.
words = ["", "the", "old", "sailor", "saw", "a", "bird", "with", "a", "telescope"]
tag_of = {word: tag for tag, group in WORDS.items() for word in group}
tags = ["ROOT"] + [tag_of[word] for word in words[1:]]
space = spaces[len(tags)].approximate
tau = model.predict_marginals([tags])[0]
best = space.parents(model.predict([tags])[0])

figure, axes = plt.subplots(figsize=(10.5, 4.6), layout="constrained")
for (head, child), chance in zip(space.edges.tolist(), tau.tolist(), strict=True):
    if chance < 0.01:
        continue
    wide = abs(head - child)
    colour = "#0072B2" if best[child] == head else "#D55E00"
    centre = ((head + child) / 2, 0.0)
    axes.add_patch(
        Arc(centre, wide, 1.1 * wide**0.8, theta1=0, theta2=180, color=colour,
            linewidth=0.5 + 4.5 * chance, alpha=0.15 + 0.85 * chance)
    )  # fmt: skip
    tip = child + (0.08 if head > child else -0.08)
    axes.plot(tip, 0.03, marker="v", color=colour, alpha=0.15 + 0.85 * chance, markersize=5)
    if 0.03 < chance < 0.97:
        axes.text(centre[0], 0.55 * wide**0.8 + 0.05, f"{chance:.2f}", ha="center", color=colour)
for place, (word, tag) in enumerate(zip(words, tags, strict=True)):
    axes.text(place, -0.18, word or "•", ha="center", va="top", fontsize=13)
    axes.text(place, -0.52, tag, ha="center", va="top", fontsize=8, color="#8c8c8c")
axes.set_xlim(-0.5, len(words) - 0.5)
axes.set_ylim(-0.75, 0.62 * (len(words) - 1) ** 0.8)
axes.set_title(
    "The best parse (blue) and its rivals (orange), with exact probabilities", loc="left"
)
axes.set_axis_off()
plt.show()
