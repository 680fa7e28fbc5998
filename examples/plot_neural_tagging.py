"""
Tagging by a network: the same likelihood as pytorch-crf
========================================================

Letters of words, each a noisy picture. A network of two layers scores letters, a table scores pairs
of neighbours. `ChainNLLLoss` takes both and returns what is to be minimised; pytorch-crf returns
the log-likelihood and keeps the table, with scores of beginning and ending. Where it is installed,
both learn the same model.
"""

import time

import matplotlib.pyplot as plt
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from mlestruct.datasets.words import make_words
from mlestruct.metrics import state_reliability
from mlestruct.plotting import plot_reliability
from mlestruct.torch import ChainNLLLoss

try:
    from torchcrf import CRF
except ImportError:
    CRF = None

torch.set_num_threads(1)
STATES, TRAINING = 12, 160
X, Y = make_words(TRAINING + 80, STATES, random_state=0)
words = pad_sequence([torch.from_numpy(x) for x in X], batch_first=True)
letters = pad_sequence([torch.from_numpy(y) for y in Y], batch_first=True, padding_value=-100)
mask = letters != -100
loss = ChainNLLLoss()


class Tagger(nn.Module):
    """Scores of letters and of pairs; pytorch-crf's table where `theirs` is asked for."""

    def __init__(self, theirs=False):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(128, 32), nn.ReLU(), nn.Linear(32, STATES))
        self.transitions = nn.Parameter(torch.zeros(STATES, STATES))
        self.ends = nn.Parameter(torch.zeros(2, STATES))  # scores of beginning and ending
        self.crf = CRF(STATES, batch_first=True) if theirs else None

    def loss(self, at):
        if self.crf is not None:
            labels = letters[at].clamp(min=0)
            return -self.crf(self.layers(words[at]), labels, mask[at], reduction="mean")
        return loss(*self.scores(at), letters[at], mask[at])

    def scores(self, at):
        nodes = self.layers(words[at])
        table, (first, last) = self.transitions, self.ends
        if self.crf is not None:
            table = self.crf.transitions
            first, last = self.crf.start_transitions, self.crf.end_transitions
        ending = mask[at] & ~nn.functional.pad(mask[at][:, 1:], (0, 1))
        nodes = nodes + ending[..., None] * last
        return torch.cat([nodes[:, :1] + first, nodes[:, 1:]], dim=1), table


# %%
# Both networks start from the same weights and see the same batches.
test = list(range(TRAINING, TRAINING + 80))
names = {"mlestruct.torch": False} | ({"pytorch-crf": True} if CRF is not None else {})
curves, found = {}, {}
for name, theirs in names.items():
    torch.manual_seed(0)
    network = Tagger(theirs)
    steps = torch.optim.AdamW(network.parameters(), lr=1e-2)
    start, curves[name] = time.process_time(), []
    for epoch in range(10):
        order = torch.randperm(TRAINING, generator=torch.Generator().manual_seed(epoch))
        for batch in order.split(16):
            steps.zero_grad()
            network.loss(batch).backward()
            steps.step()
        with torch.no_grad():
            curves[name].append(-float(loss(*network.scores(test), letters[test], mask[test])))
    seconds = (time.process_time() - start) / 10
    with torch.no_grad():
        scores, own = network.scores(test), mask[test]
        wrong = (loss.decode(*scores, own) != letters[test])[own].float().mean()
        tables = loss.marginals(*scores, own)[own].double().numpy()
    found[name] = state_reliability(tables, letters[test][own].numpy(), top=True)
    print(
        f"{name:16} error {wrong:.3f}  log-likelihood {curves[name][-1]:.2f}  "
        f"calibration error {found[name].ece:.4f}  {seconds:.2f} s per epoch"
    )

# %%
# Left: log-likelihood of new words after every epoch. Right: are the probabilities right?
figure, axes = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained")
for name, curve in curves.items():
    axes[0].plot(range(1, len(curve) + 1), curve, marker="o", markersize=3, label=name)
axes[0].set(xlabel="epoch", ylabel="log-likelihood of a new word")
axes[0].legend(frameon=False)
plot_reliability(found, ax=axes[1])
plt.show()
