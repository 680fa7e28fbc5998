"""
A neural network with a CRF loss
================================

Noisy pictures of a figure on a ground. A small convolutional network scores the two states of every
pixel. Cross-entropy treats pixels as independent. `GridNLLLoss` is the likelihood of the whole
mask: neighbours are coupled, and the coupling is learned with the network. The loss replaces one
line of the training loop.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

from mlestruct.datasets import make_segmentation
from mlestruct.torch import GridNLLLoss

torch.set_num_threads(1)
images, masks = make_segmentation(44, (24, 24), noise=0.3, random_state=0)
X = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2)
Y = torch.from_numpy(np.stack(masks))
TRAIN, TEST = range(24), range(24, 44)
loss = GridNLLLoss(tol=1e-5)


class Pixels(nn.Module):
    """Scores of states from 5 x 5 pixels, and one score for neighbours in equal states."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 3, padding=1)
        )
        self.coupling = nn.Parameter(torch.zeros(()))

    def forward(self, pictures):
        nodes = self.layers(pictures).permute(0, 2, 3, 1)
        return nodes, self.coupling * torch.eye(2)


def cross_entropy(nodes, edges, target):
    return nn.functional.cross_entropy(nodes.permute(0, 3, 1, 2), target)


# %%
# The same network, the same batches, the same number of steps. Pixels get their most probable
# state. The network with cross-entropy has a coupling of 0.
chance = {}
for name, objective in (("cross-entropy", cross_entropy), ("grid likelihood", loss)):
    torch.manual_seed(0)
    network = Pixels()
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.03)
    for _ in range(30):
        for batch in torch.randperm(len(TRAIN)).split(6):
            optimizer.zero_grad()
            objective(*network(X[batch]), Y[batch]).backward()
            optimizer.step()
    with torch.no_grad():
        scores = network(X[TEST])
        chance[name] = loss.marginals(*scores)[..., 1].numpy()
        wrong = ((chance[name] > 0.5) != Y[TEST].numpy()).mean()
        print(f"{name:16} wrong pixels {wrong:.3f}, log-likelihood of a mask at least "
              f"{-float(loss(*scores, Y[TEST])):.0f}")  # fmt: skip

# %%
# Three new pictures, their masks, and the probability of the figure at every pixel.
figure, axes = plt.subplots(3, 4, figsize=(8.5, 6.6), layout="constrained")
for row, k in zip(axes, (1, 7, 12), strict=True):
    shown = [np.clip(images[24 + k], 0, 1), masks[24 + k], *(table[k] for table in chance.values())]
    titles = ["picture", "mask", *chance]
    for ax, picture, title in zip(row, shown, titles, strict=True):
        ax.imshow(picture, cmap="magma", vmin=0, vmax=1)
        ax.set_title(title, fontsize=10)
        ax.set_axis_off()
plt.show()
