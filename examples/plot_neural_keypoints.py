"""
Matching keypoints by a network: likelihood against Sinkhorn
============================================================

Twelve points are seen in two pictures, each with a noisy descriptor; which is which? A small
network embeds descriptors, and scores of pairs are inner products. It is trained by the likelihood
of whole matchings (`MatchingNLLLoss`), by twenty unrolled Sinkhorn iterations with the
cross-entropy of the true entries, and, where pygmtools is installed, by its permutation loss.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

from mlestruct.metrics import pair_reliability
from mlestruct.plotting import plot_reliability
from mlestruct.torch import MatchingNLLLoss

try:
    import pygmtools
except ImportError:
    pygmtools = None

rng = np.random.default_rng(0)
POINTS, TRAINING, EPOCHS = 12, 300, 10
torch.set_num_threads(1)


class Embedding(nn.Module):
    """Inner products of what two layers make of the descriptors of both pictures."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))

    def forward(self, left, right):
        return self.layers(left) @ self.layers(right).transpose(1, 2)


def pictures(n_pairs):
    """Descriptors in both pictures, of which half tell nothing, and the place of every point."""
    points = rng.normal(size=(n_pairs, POINTS, 8))
    left, right = (
        np.concatenate([np.tanh(points + 0.7 * rng.normal(size=points.shape)), noise], axis=2)
        for noise in rng.normal(size=(2, *points.shape))
    )
    place = np.stack([rng.permutation(POINTS) for _ in range(n_pairs)])
    right = np.take_along_axis(right, np.argsort(place)[:, :, None], axis=1)
    return [torch.from_numpy(a) for a in (left.astype("f4"), right.astype("f4"), place)]


def sinkhorn(scores):
    """Logarithms of rows and columns normalised in turn, twenty times."""
    for _ in range(20):
        scores = scores - scores.logsumexp(2, keepdim=True)
        scores = scores - scores.logsumexp(1, keepdim=True)
    return scores


def permutation_loss(scores, place):
    matrix = pygmtools.sinkhorn(scores, max_iter=20, backend="pytorch")
    truth = nn.functional.one_hot(place, POINTS).float()
    return pygmtools.utils.permutation_loss(matrix, truth, backend="pytorch")


likelihood = MatchingNLLLoss(perfect=True, tol=1e-4)
losses = {
    "likelihood": likelihood,
    "Sinkhorn-20": lambda s, y: -sinkhorn(s).gather(2, y[..., None]).sum((1, 2)).mean(),
}
if pygmtools is not None:
    losses["permutation loss"] = permutation_loss

# %%
# The same network, the same pictures, the same number of steps.
left, right, place = pictures(TRAINING)
test_left, test_right, test_place = pictures(60)
found, curves = {}, {}
for name, loss in losses.items():
    torch.manual_seed(0)
    network = Embedding()
    steps = torch.optim.AdamW(network.parameters(), lr=1e-2, weight_decay=0.01)
    start, curves[name] = time.process_time(), []
    for _ in range(EPOCHS):
        for batch in torch.randperm(TRAINING).split(20):
            steps.zero_grad()
            loss(network(left[batch], right[batch]), place[batch]).backward()
            steps.step()
        with torch.no_grad():
            scores = network(test_left, test_right)
            wrong = (likelihood.decode(scores) != test_place).float().mean()
        curves[name].append(float(wrong))
    seconds = (time.process_time() - start) / EPOCHS
    with torch.no_grad():
        tables = likelihood.marginals(scores) if name == "likelihood" else sinkhorn(scores).exp()
        nll = float(likelihood(scores, test_place))
    tables = list(tables.double().clip(0, 1).numpy())
    found[name] = pair_reliability(tables, list(test_place.numpy()), bipartite=True)
    print(
        f"{name:17} error {curves[name][-1]:.3f}  log-likelihood {-nll:.2f}  "
        f"calibration error {found[name].ece:.4f}  {seconds:.2f} s per epoch"
    )

# %%
# Left: errors on new pictures after every epoch. Right: are the probabilities right?
figure, axes = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained")
for name, curve in curves.items():
    axes[0].plot(range(1, len(curve) + 1), curve, marker="o", markersize=3, label=name)
axes[0].set(xlabel="epoch", ylabel="share of points matched wrongly")
axes[0].legend(frameon=False)
plot_reliability(found, ax=axes[1])
plt.show()
