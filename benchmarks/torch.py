"""Losses for neural networks beside rivals: same network, same data, same epochs, three seeds.

    python -m benchmarks.torch [--quick]

Keypoints: 20 unrolled Sinkhorn iterations with the logarithms of the true entries as loss.
Segmentation: cross-entropy of every pixel. Tagging: pytorch-crf. Every network chooses its learning
rate from two by its own loss on a tenth of the training samples. Errors are of the most probable
pairs, states and letters of new samples, log losses of their marginals. One thread. The second
table has the CPU time of a forward and a backward pass of 16 samples.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

try:
    import torch
    from torch import Tensor, nn
except ModuleNotFoundError:
    message = "benchmarks.torch needs PyTorch: pip install 'mlestruct[torch]'"
    raise ModuleNotFoundError(message, name="torch") from None

from benchmarks.measuring import command, has, least, show, timed
from mlestruct.datasets import make_segmentation, make_words
from mlestruct.torch import ChainNLLLoss, GridNLLLoss, MatchingNLLLoss

Result = dict[str, tuple[float, float, float]]  # error, log loss, CPU seconds of training


def train(
    make: Callable[[], Any], loss_of: Callable[[Any, Any], Tensor], n: int, epochs: int, seed: int
) -> tuple[float, Any]:
    """CPU seconds, and the network of the learning rate whose held-out loss is smallest."""
    order = np.random.default_rng(seed).permutation(n)
    held, own = order[: n // 10].tolist(), order[n // 10 :]
    loss_of(make(), held).backward()  # compiles

    def one(rate: float) -> tuple[float, Any]:
        torch.manual_seed(seed)
        rng, network = np.random.default_rng(seed), make()
        optimiser = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=1e-4)
        for _ in range(epochs):
            for batch in np.array_split(rng.permutation(own), max(len(own) // 16, 1)):
                optimiser.zero_grad()
                loss_of(network, batch.tolist()).backward()
                optimiser.step()
        with torch.no_grad():
            return float(loss_of(network, held)), network

    seconds, found = timed(lambda: [one(rate) for rate in (3e-3, 1e-2)])
    return seconds, min(found, key=lambda pair: pair[0])[1]


def log_loss(marginals: Tensor, truth: Tensor) -> float:
    """Mean of -log of the probability of the true state or partner, in the last dimension."""
    chance = marginals.gather(-1, truth[..., None]).clamp(min=1e-12)
    return float(-chance.log().mean())


# ---------------------------------------------------------------------- keypoints
class Embedding(nn.Module):
    """Scores of pairs: inner products of what a small network makes of descriptors."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return self.layers(left) @ self.layers(right).transpose(1, 2)


def make_keypoints(n_pairs: int, n: int, seed: int) -> tuple[Tensor, ...]:
    """Noisy descriptors of n points in two pictures, half of them useless, and true places."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n_pairs, n, 8))
    left, right = (
        np.concatenate([np.tanh(points + 0.6 * rng.normal(size=points.shape)), noise], axis=2)
        for noise in rng.normal(size=(2, n_pairs, n, 8))
    )
    place = np.stack([rng.permutation(n) for _ in range(n_pairs)])
    moved = np.take_along_axis(right, np.argsort(place)[:, :, None], axis=1)
    return tuple(torch.from_numpy(a) for a in (left.astype("f4"), moved.astype("f4"), place))


def sinkhorn(scores: Tensor, n_iter: int = 20) -> Tensor:
    """Logarithms of the matrix after normalisations of rows and columns."""
    for _ in range(n_iter):
        scores = scores.log_softmax(2).log_softmax(1)
    return scores


def sinkhorn_loss(scores: Tensor, place: Tensor) -> Tensor:
    return -sinkhorn(scores).gather(2, place[..., None]).sum((1, 2)).mean()


def keypoints(seed: int, quick: bool) -> Result:
    n = 40 if quick else 200
    left, right, place = make_keypoints(n + 50, 10, seed)
    ours, found = MatchingNLLLoss(perfect=True, tol=1e-4), {}
    for name, loss in (("matching likelihood", ours), ("Sinkhorn", sinkhorn_loss)):

        def loss_of(network: Any, at: Any, loss: Any = loss) -> Tensor:
            return loss(network(left[at], right[at]), place[at])

        seconds, network = train(Embedding, loss_of, n, 2 if quick else 10, seed)
        with torch.no_grad():
            scores = network(left[n:], right[n:])
            marginals = ours.marginals(scores) if loss is ours else sinkhorn(scores).exp()
            wrong = float((ours.decode(marginals) != place[n:]).double().mean())
        found[name] = wrong, log_loss(marginals, place[n:]), seconds
    return found


# ---------------------------------------------------------------------- segmentation
class Pixels(nn.Module):
    """Scores of states from 5 x 5 pixels, and of equal neighbours from their contrast."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 3, padding=1)
        )
        self.bonus = nn.Parameter(torch.tensor([0.5, 0.0]))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        nodes = self.layers(images.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        across, down = torch.zeros_like(images), torch.zeros_like(images)
        across[:, :, :-1], down[:, :-1] = images.diff(dim=2), images.diff(dim=1)
        contrast = torch.stack([across, down], dim=1).abs().mean(dim=-1)
        bonus = self.bonus[0] + self.bonus[1] * contrast
        return nodes, bonus[..., None, None] * torch.eye(2)


def segmentation(seed: int, quick: bool) -> Result:
    n, side = (10, 8) if quick else (40, 20)
    images, masks = make_segmentation(n + 20, (side, side), noise=0.4, random_state=seed)
    X, Y = torch.from_numpy(np.stack(images)), torch.from_numpy(np.stack(masks))
    ours, found = GridNLLLoss(tol=1e-5), {}
    for name in ("grid likelihood", "cross-entropy"):
        is_ours = name == "grid likelihood"

        def loss_of(network: Any, at: Any, is_ours: bool = is_ours) -> Tensor:
            nodes, edges = network(X[at])
            if is_ours:
                return ours(nodes, edges, Y[at])
            each = nn.functional.cross_entropy(nodes.permute(0, 3, 1, 2), Y[at], reduction="none")
            return each.sum((1, 2)).mean()

        seconds, network = train(Pixels, loss_of, n, 2 if quick else 30, seed)
        with torch.no_grad():
            nodes, edges = network(X[n:])
            marginals = ours.marginals(nodes, edges) if is_ours else nodes.softmax(3)
        wrong = float((marginals.argmax(3) != Y[n:]).double().mean())
        found[name] = wrong, log_loss(marginals, Y[n:]), seconds
    return found


# ---------------------------------------------------------------------- tagging
class Letters(nn.Module):
    """Scores of letters from their pixels, and transitions, in the parameters of pytorch-crf."""

    def __init__(self, n_states: int):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(128, 32), nn.ReLU(), nn.Linear(32, n_states))
        self.transitions = nn.Parameter(torch.zeros(n_states, n_states))
        self.ends = nn.Parameter(torch.zeros(2, n_states))

    def scores(self, words: Tensor, mask: Tensor) -> Tensor:
        """Scores of tokens, with those of beginning and ending."""
        nodes = self.layers(words)
        last = mask & ~nn.functional.pad(mask[:, 1:], (0, 1))
        nodes = nodes + last[..., None] * self.ends[1]
        return torch.cat([nodes[:, :1] + self.ends[0], nodes[:, 1:]], dim=1)


def pytorch_crf(network: Letters) -> Any:
    """The layer of pytorch-crf with the parameters of a network."""
    from torchcrf import CRF

    layer = CRF(network.transitions.shape[0], batch_first=True)
    layer.transitions = network.transitions
    del layer.start_transitions, layer.end_transitions
    layer.start_transitions, layer.end_transitions = network.ends
    return layer


def tagging(seed: int, quick: bool, n_states: int = 10) -> Result:
    n = 40 if quick else 200
    X, Y = make_words(n + 100, n_states, random_state=seed)
    pad = nn.utils.rnn.pad_sequence
    words = pad([torch.from_numpy(x) for x in X], batch_first=True)
    letters = pad([torch.from_numpy(y) for y in Y], batch_first=True)
    mask = torch.arange(words.shape[1]) < torch.tensor([len(y) for y in Y])[:, None]
    ours, found = ChainNLLLoss(), {}
    rival = ["pytorch-crf"] if has("torchcrf", "pytorch-crf") else []
    for name in ("chain likelihood", *rival):

        def loss_of(network: Any, at: Any, theirs: bool = name in rival) -> Tensor:
            if theirs:
                emissions = network.layers(words[at])
                return -pytorch_crf(network)(emissions, letters[at], mask[at], reduction="mean")
            scores = network.scores(words[at], mask[at])
            return ours(scores, network.transitions, letters[at], mask[at])

        seconds, network = train(lambda: Letters(n_states), loss_of, n, 2 if quick else 10, seed)
        with torch.no_grad():
            own = mask[n:]
            given = network.scores(words[n:], own), network.transitions, own
            marginals, truth = ours.marginals(*given)[own], letters[n:][own]
        wrong = float((marginals.argmax(1) != truth).double().mean())
        found[name] = wrong, log_loss(marginals, truth), seconds
    return found


# ---------------------------------------------------------------------- time of a step
def steps(quick: bool) -> list[list[Any]]:
    """A row for every size: milliseconds of ours, and how many times as long the rival takes."""
    generator, rows, repeat = torch.Generator().manual_seed(0), [], 1 if quick else 5
    for n in (10,) if quick else (10, 20, 40):
        scores = torch.randn(16, n, n, generator=generator, requires_grad=True)
        place, ours = torch.arange(n).expand(16, n), MatchingNLLLoss(perfect=True, tol=1e-4)
        own = least(lambda: ours(scores, place).backward(), repeat)  # noqa: B023
        other = least(lambda: sinkhorn_loss(scores, place).backward(), repeat)  # noqa: B023
        rows.append([f"assignment, {n} x {n}", 1e3 * own, "Sinkhorn", other / own])
    for length, n_states in ((20, 10),) if quick else ((20, 10), (50, 20)):
        network = Letters(n_states)
        nodes = torch.randn(16, length, n_states, generator=generator, requires_grad=True)
        target = torch.randint(n_states, (16, length), generator=generator)
        chain, own_name = ChainNLLLoss(), f"sequence, {length} tokens, {n_states} states"
        own = least(lambda: chain(nodes, network.transitions, target).backward(), repeat)  # noqa: B023
        if has("torchcrf", "pytorch-crf"):
            layer = pytorch_crf(network)
            other = least(lambda: layer(nodes, target).backward(retain_graph=True), repeat)  # noqa: B023
            rows.append([own_name, 1e3 * own, "pytorch-crf", other / own])
        else:
            rows.append([own_name, 1e3 * own, "", None])
    return rows


def run(quick: bool) -> None:
    torch.set_num_threads(1)
    rows: list[list[Any]] = []
    seeds = range(100, 101 if quick else 103)
    for task in (keypoints, segmentation, tagging):
        found = [task(seed, quick) for seed in seeds]
        first = np.mean([next(iter(one.values()))[2] for one in found])
        for name in found[0]:
            error, loss, seconds = np.mean([one[name] for one in found], axis=0)
            rows.append([task.__name__, name, error, loss, seconds / first])
    show(
        f"Means over seeds ({len(seeds)})",
        ["task", "loss", "error", "log loss", "CPU time of training, ours = 1"],
        rows,
    )
    show(
        "Forward and backward pass of 16 samples: CPU milliseconds, and how many times as long the "
        "rival takes",
        ["", "CPU ms", "rival", "times as long"],
        steps(quick),
    )


main = command(__doc__, run)

if __name__ == "__main__":
    main()
