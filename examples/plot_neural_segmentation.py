"""
Segmentation by a network: neighbours count
===========================================

Noisy pictures of a figure on a ground. A small convolutional network scores the two states of every
pixel. With cross-entropy, pixels are judged one by one; with `GridNLLLoss` neighbours are coupled,
and the coupling is learned with the network, here by `NeuralCRF`, which needs no training loop.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

from mlestruct.datasets import make_segmentation
from mlestruct.metrics import state_reliability
from mlestruct.torch import GridNLLLoss, NeuralCRF

torch.set_num_threads(1)
images, masks = make_segmentation(44, (24, 24), noise=0.3, random_state=0)


class Pixels(nn.Module):
    """Scores of states from 5 x 5 pixels, and one for neighbours in equal states."""

    def __init__(self, coupled):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 3, padding=1)
        )
        self.coupling = nn.Parameter(torch.zeros(()), requires_grad=coupled)

    def forward(self, pictures):
        nodes = self.layers(pictures.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        return nodes, self.coupling * torch.eye(2)


# %%
# Without coupling, the likelihood of an image is that of independent pixels: cross-entropy.
models = {}
for name, coupled in (("cross-entropy", False), ("grid likelihood", True)):
    torch.manual_seed(0)
    models[name] = NeuralCRF(
        Pixels(coupled),
        GridNLLLoss(tol=1e-5),
        max_epochs=40,
        batch_size=6,
        learning_rate=0.03,
        patience=40,
        random_state=0,
    ).fit(images[:24], masks[:24])
    model, test, truth = models[name], images[24:], masks[24:]
    tables = model.predict_marginals(test)
    wrong = np.mean([t.argmax(axis=2) != y for t, y in zip(tables, truth, strict=True)])
    print(
        f"{name:16} error {wrong:.3f}  log-likelihood (lower bound) "
        f"{model.approximate_log_likelihood(test, truth).mean():.1f}  calibration error "
        f"{state_reliability(tables, truth, state=1).ece:.4f}  "
        f"{model.history_[-1]['seconds'] / len(model.history_):.2f} s per epoch"
    )

# %%
# Pixels get their most probable state. A picture, its mask, and the probability of the figure at
# every pixel.
figure, axes = plt.subplots(2, 4, figsize=(10, 5), layout="constrained")
for row, k in zip(axes, (25, 31), strict=True):
    row[0].imshow(np.clip(images[k], 0, 1))
    row[1].imshow(masks[k], cmap="Greys")
    for ax, (name, model) in zip(row[2:], models.items(), strict=True):
        ax.imshow(
            model.predict_marginals(images[k : k + 1])[0][..., 1], cmap="Greys", vmin=0, vmax=1
        )
        ax.set_title(name)
    for ax in row:
        ax.set_xticks([])
        ax.set_yticks([])
plt.show()
