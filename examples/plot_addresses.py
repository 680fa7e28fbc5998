"""
Parts of an address, from the dictionaries of an address parser
===============================================================

The package usaddress describes the tokens of an address by dictionaries, for crfsuite. `ChainCRF`
takes them as they are. (The package has no training file, so the addresses here are generated; some
words can be the name of a street, a place or a person.) sklearn-crfsuite and `ChainCRF` learn the
same model from 150 addresses, each with five penalties to choose from by the log loss of 50 others.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
import usaddress
from sklearn_crfsuite import CRF
from sklearn_crfsuite.metrics import flat_accuracy_score

from mlestruct import ChainCRF
from mlestruct.metrics import neg_log_loss, token_accuracy
from mlestruct.plotting import plot_token_marginals

rng = np.random.default_rng(0)
words = """Lake Park Hill Washington Jackson Madison Franklin Clinton Salem Georgia Virginia Grant
Lincoln Chester Milton Oxford Dover Austin Houston Dallas Lee Marion"""
NAMES = words.split()
SUFFIXES = ["St", "Ave", "Rd", "Blvd", "Court", "Lane", "Park", "Hill"]
STATES = ["IL", "NY", "TX", "Georgia", "Virginia"]


def address():
    """Words and labels; a comma belongs to the word before it."""
    pick, often = rng.choice, (rng.random(6) < [0.3, 0.3, 0.3, 0.8, 0.3, 0.2]).tolist()
    parts = [(pick(NAMES), "Recipient")] * often[0]
    parts += [(str(rng.integers(1, 4000)), "AddressNumber")]
    parts += [(pick(["N", "S", "East", "West"]), "StreetNamePreDirectional")] * often[1]
    parts += [(pick(NAMES), "StreetName") for _ in range(1 + often[2])]
    parts += [(pick(SUFFIXES), "StreetNamePostType")] * often[3]
    if often[4]:
        parts += [
            (pick(["Apt", "#", "Unit"]), "OccupancyType"),
            (pick(list("1234AB")), "Occupancy"),
        ]
    parts += [(pick(NAMES), "PlaceName") for _ in range(1 + often[5])]
    parts += [(pick(STATES), "StateName"), (str(rng.integers(10000, 99999)), "ZipCode")]
    return [str(word) for word, _ in parts], [label for _, label in parts]


texts = [address() for _ in range(600)]
X = [usaddress.tokens2features(words) for words, _ in texts]
Y = [labels for _, labels in texts]
train, tune, test = slice(150), slice(150, 200), slice(200, None)

# %%
# With mlestruct.
start = time.process_time()
path = ChainCRF().fit_path(X[train], Y[train], alphas=[0.02, 0.1, 0.5, 2, 10])
ours = path.best(X[tune], Y[tune], neg_log_loss)
seconds = {"ChainCRF": time.process_time() - start}


# %%
# With sklearn-crfsuite: c2 = alpha / 2.
def mean_log(model, X, Y):
    """The mean of log(probability of the right label)."""
    chances = [
        row[label]
        for table, y in zip(model.predict_marginals(X), Y, strict=True)
        for row, label in zip(table, y, strict=True)
    ]
    return np.mean(np.log(chances))


start = time.process_time()
fitted = [
    CRF(c1=0.0, c2=alpha / 2, all_possible_states=True, all_possible_transitions=True).fit(
        X[train], Y[train]
    )
    for alpha in (0.02, 0.1, 0.5, 2, 10)
]
theirs = max(fitted, key=lambda model: mean_log(model, X[tune], Y[tune]))
seconds["sklearn-crfsuite"] = time.process_time() - start


def whole(found):
    return np.mean([list(y) == list(t) for y, t in zip(found, Y[test], strict=True)])


print("                  tokens  addresses  log loss  CPU s")
for name, accuracy, right, loss in (
    ("sklearn-crfsuite", flat_accuracy_score(Y[test], theirs.predict(X[test])),
     whole(theirs.predict(X[test])), -mean_log(theirs, X[test], Y[test])),
    ("ChainCRF", token_accuracy(ours, X[test], Y[test]), whole(ours.predict(X[test])),
     -neg_log_loss(ours, X[test], Y[test])),
):  # fmt: skip
    print(f"{name:17} {accuracy:6.3f} {right:10.3f} {loss:9.3f} {seconds[name]:6.2f}")
print(f"ChainCRF: alpha={ours.alpha}, proven to be within {ours.duality_gap_:.2g} of the optimum "
      f"{ours.objective_:.1f}; {len(ours.state_features_)} weights that are not 0")  # fmt: skip
sparse = ChainCRF(alpha=ours.alpha, l1_ratio=0.7).fit(X[train], Y[train])
print(f"l1_ratio=0.7: {len(sparse.state_features_)} weights, tokens "
      f"{token_accuracy(sparse, X[test], Y[test]):.3f}")  # fmt: skip

# %%
# The least certain of the test addresses.
marginals = ours.predict_marginals(X[test])
worst = int(np.argmin([table.max(axis=1).min() for table in marginals]))
words, labels = texts[200 + worst]
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
shown = plot_token_marginals(axes, words, marginals[worst], ours.classes_, labels,
                             "Probability of every label; dots are the true ones")  # fmt: skip
figure.colorbar(shown, ax=axes, label="probability")
plt.show()
