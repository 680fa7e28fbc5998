"""Losses for neural networks beside their rivals: same network, same data, same epochs, five seeds.

    python -m benchmarks.torch [keypoints segmentation tagging steps] [--seeds 5] [--first-seed 100]

Keypoints: unrolled Sinkhorn of 20 iterations with the logarithms of the true entries as loss, and
pygmtools' permutation loss on its Sinkhorn. Segmentation: cross-entropy of every pixel. Tagging:
pytorch-crf. Errors are those of the most probable pairs or states; the most probable matching or
labelling (MAP) stands beside it. `steps` is the time of a forward and a backward pass,
torch-struct included. Rivals that are not installed are left out. Every network chooses its
learning rate from two by the loss it is trained with, on a tenth of the training samples that is
held out. One thread; seconds are CPU time, after a first call that compiles.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from mlestruct.datasets import make_segmentation
from mlestruct.datasets.words import make_words
from mlestruct.metrics import pair_reliability, state_reliability
from mlestruct.structures import BipartiteMatching
from mlestruct.torch import ChainNLLLoss, GridNLLLoss, MatchingNLLLoss

try:
    import pygmtools
except ImportError:
    pygmtools = None
try:
    from torchcrf import CRF
except ImportError:
    CRF = None
try:
    import torch_struct
except ImportError:
    torch_struct = None

RATES = (3e-3, 1e-2)


class Row(NamedTuple):
    """What is compared: test error, log-likelihood per sample, calibration error, seconds."""

    error: float
    log_likelihood: float
    ece: float
    seconds_per_epoch: float


# ---------------------------------------------------------------------- training
def train(
    make: Callable[[], nn.Module],
    loss_of: Callable[[nn.Module, list[int]], Tensor],
    n_samples: int,
    epochs: int,
    seed: int,
    batch_size: int = 16,
) -> tuple[nn.Module, float]:
    """The network of the learning rate whose loss on held-out samples is smallest."""
    order = np.random.default_rng(seed).permutation(n_samples)
    held, own = order[: n_samples // 10].tolist(), order[n_samples // 10 :]
    found, best, spent = make(), np.inf, 0.0
    loss_of(found, held).backward()  # compiles
    for rate in RATES:
        torch.manual_seed(seed)
        rng = np.random.default_rng(seed)
        module = make()
        steps = torch.optim.AdamW(module.parameters(), lr=rate, weight_decay=1e-4)
        start = time.process_time()
        for _ in range(epochs):
            for batch in np.array_split(rng.permutation(own), max(len(own) // batch_size, 1)):
                steps.zero_grad()
                loss_of(module, batch.tolist()).backward()
                steps.step()
        spent += time.process_time() - start
        with torch.no_grad():
            reached = float(loss_of(module, held))
        if reached < best:
            found, best = module, reached
    return found, spent / (epochs * len(RATES))


# ---------------------------------------------------------------------- keypoints
class Embedding(nn.Module):
    """Scores of pairs: inner products of what a small network makes of descriptors."""

    def __init__(self, n_features: int):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n_features, 32), nn.ReLU(), nn.Linear(32, 16))

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return self.layers(left) @ self.layers(right).transpose(1, 2)


def make_keypoints(n_pairs: int, n: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Descriptors of n points in two pictures, and the place of each point in the second.

    Each picture sees the points through noise; half of the descriptors tell nothing.
    """
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n_pairs, n, 8))
    useless = rng.normal(size=(2, n_pairs, n, 8))
    left, right = (
        np.concatenate([np.tanh(points + 0.6 * rng.normal(size=points.shape)), noise], axis=2)
        for noise in useless
    )
    place = np.stack([rng.permutation(n) for _ in range(n_pairs)])
    moved = np.take_along_axis(right, np.argsort(place)[:, :, None], axis=1)
    return tuple(torch.from_numpy(a) for a in (left.astype("f4"), moved.astype("f4"), place))


def sinkhorn(scores: Tensor, n_iter: int = 20) -> Tensor:
    """Logarithms of the matrix after `n_iter` normalisations of rows and columns, unrolled."""
    for _ in range(n_iter):
        scores = scores - scores.logsumexp(2, keepdim=True)
        scores = scores - scores.logsumexp(1, keepdim=True)
    return scores


def permutation_loss(scores: Tensor, place: Tensor) -> Tensor:
    """pygmtools: cross-entropy of all entries of its doubly stochastic matrix."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        matrix = pygmtools.sinkhorn(scores, max_iter=20, backend="pytorch")
        truth = torch.nn.functional.one_hot(place, scores.shape[2]).to(scores)
        return pygmtools.utils.permutation_loss(matrix, truth, backend="pytorch")


def keypoints(seed: int, epochs: int, n: int = 10) -> dict[str, Row]:
    left, right, place = make_keypoints(250, n, seed)
    first, test = list(range(200)), slice(200, 250)
    ours = MatchingNLLLoss(perfect=True, tol=1e-4)
    losses: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        "matching likelihood": ours,
        "Sinkhorn-20": lambda s, y: -sinkhorn(s).gather(2, y[..., None]).sum((1, 2)).mean(),
    }
    if pygmtools is not None:
        losses["permutation loss"] = permutation_loss
    rows = {}
    for name, loss in losses.items():

        def loss_of(module: nn.Module, at: list[int], loss: Any = loss) -> Tensor:
            return loss(module(left[at], right[at]), place[at])

        module, seconds = train(lambda: Embedding(16), loss_of, len(first), epochs, seed)
        with torch.no_grad():
            scores = module(left[test], right[test])
            marginals = ours.marginals(scores) if loss is ours else sinkhorn(scores).exp()
        truth = place[test]
        space = BipartiteMatching((n, n))
        exact = [
            float(s.gather(1, y[:, None]).sum())
            - space.exact(s.double().numpy().ravel()).log_partition
            for s, y in zip(scores, truth, strict=True)
        ]
        tables = list(np.clip(marginals.double().numpy(), 0.0, 1.0))
        ece = pair_reliability(tables, list(truth.numpy()), bipartite=True).ece
        outputs = {name: ours.decode(marginals), f"{name}, MAP": ours.decode(scores)}
        for shown, output in outputs.items():
            wrong = float((output != truth).double().mean())
            rows[shown] = Row(wrong, float(np.mean(exact)), ece, seconds)
    return rows


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


def segmentation(seed: int, epochs: int, side: int = 20) -> dict[str, Row]:
    images, masks = make_segmentation(60, (side, side), noise=0.4, random_state=seed)
    X, Y = torch.from_numpy(np.stack(images)), torch.from_numpy(np.stack(masks))
    first, test = list(range(40)), slice(40, 60)
    ours = GridNLLLoss(tol=1e-5)
    rows = {}
    for name in ("grid likelihood", "cross-entropy"):
        is_ours = name == "grid likelihood"

        def loss_of(module: nn.Module, at: list[int], is_ours: bool = is_ours) -> Tensor:
            nodes, edges = module(X[at])
            if is_ours:
                return ours(nodes, edges, Y[at])
            each = nn.functional.cross_entropy(nodes.permute(0, 3, 1, 2), Y[at], reduction="none")
            return each.sum((1, 2)).mean()

        module, seconds = train(Pixels, loss_of, len(first), epochs, seed, batch_size=8)
        with torch.no_grad():
            nodes, edges = module(X[test])
            edges = edges if is_ours else torch.zeros_like(edges)
            marginals, decoded = ours.marginals(nodes, edges), ours.decode(nodes, edges)
            # log Z_rho is an upper bound: a lower bound of the likelihood, exact without edges.
            likelihood = -float(ours(nodes, edges, Y[test]))
        ece = state_reliability(
            list(marginals.double().numpy()), list(Y[test].numpy()), state=1
        ).ece
        outputs = {name: marginals.argmax(dim=3)}
        if is_ours:
            outputs[f"{name}, MAP"] = decoded
        for shown, output in outputs.items():
            wrong = float((output != Y[test]).double().mean())
            rows[shown] = Row(wrong, likelihood, ece, seconds)
    return rows


# ---------------------------------------------------------------------- tagging
class Letters(nn.Module):
    """Scores of letters from their pixels, and transitions."""

    def __init__(self, n_states: int):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(128, 32), nn.ReLU(), nn.Linear(32, n_states))
        self.crf = CRF(n_states, batch_first=True) if CRF is not None else None
        self.transitions = nn.Parameter(torch.zeros(n_states, n_states))
        self.ends = nn.Parameter(torch.zeros(2, n_states))

    def scores(self, words: Tensor, mask: Tensor) -> Tensor:
        """Scores of tokens, with those of beginning and ending."""
        nodes = self.layers(words)
        last = mask & ~torch.nn.functional.pad(mask[:, 1:], (0, 1))
        nodes = nodes + last[..., None] * self.ends[1]
        return torch.cat([nodes[:, :1] + self.ends[0], nodes[:, 1:]], dim=1)


def padded(X: list[Any], Y: list[Any]) -> tuple[Tensor, Tensor, Tensor]:
    words = nn.utils.rnn.pad_sequence([torch.from_numpy(x) for x in X], batch_first=True)
    letters = nn.utils.rnn.pad_sequence([torch.from_numpy(y) for y in Y], batch_first=True)
    lengths = torch.tensor([len(y) for y in Y])
    return words, letters, torch.arange(words.shape[1]) < lengths[:, None]


def tagging(seed: int, epochs: int, n_states: int = 10) -> dict[str, Row]:
    words, letters, mask = padded(*make_words(300, n_states, random_state=seed))
    first, test = list(range(200)), slice(200, 300)
    loss = ChainNLLLoss()
    rows = {}
    for name in ("chain likelihood", *(["pytorch-crf"] if CRF is not None else [])):

        def loss_of(module: Any, at: list[int], theirs: bool = name == "pytorch-crf") -> Tensor:
            if theirs:
                emissions = module.layers(words[at])
                return -module.crf(emissions, letters[at], mask[at], reduction="mean")
            scores = module.scores(words[at], mask[at])
            return loss(scores, module.transitions, letters[at], mask[at])

        module: Any
        module, seconds = train(lambda: Letters(n_states), loss_of, len(first), epochs, seed)
        with torch.no_grad():
            if name == "pytorch-crf":  # evaluated as ours, with its weights
                module.transitions.copy_(module.crf.transitions)
                module.ends.copy_(
                    torch.stack([module.crf.start_transitions, module.crf.end_transitions])
                )
            scores = module.scores(words[test], mask[test]), module.transitions
            own, likelihood = mask[test], -float(loss(*scores, letters[test], mask[test]))
            wrong = float((loss.decode(*scores, own) != letters[test])[own].double().mean())
            marginals = loss.marginals(*scores, own)[own].double().numpy()
        ece = state_reliability(marginals, letters[test][own].numpy(), top=True).ece
        rows[name] = Row(wrong, likelihood, ece, seconds)
    return rows


# ---------------------------------------------------------------------- time of a step
def seconds_of(work: Callable[[], Any], repeat: int = 5) -> float:
    """Least CPU time of a call."""
    work()
    best = np.inf
    for _ in range(repeat):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def steps() -> None:
    """Milliseconds (CPU) of a forward and a backward pass, 16 samples."""
    print("\nforward and backward, 16 samples, CPU milliseconds")
    generator = torch.Generator().manual_seed(0)
    for n in (10, 20, 40):
        for spread in (1.0, 5.0):
            scores = spread * torch.randn(16, n, n, generator=generator)
            scores.requires_grad_()
            place, ours = torch.arange(n).expand(16, n), MatchingNLLLoss(perfect=True, tol=1e-4)

            def loss(keys: Any = None, s: Tensor = scores, y: Tensor = place) -> None:
                ours(s, y, keys=keys).backward()  # noqa: B023

            def table(s: Tensor = scores) -> None:
                ours.marginals(s).square().sum().backward()  # noqa: B023

            def unrolled(s: Tensor = scores, y: Tensor = place) -> None:
                (-sinkhorn(s).gather(2, y[..., None]).sum()).backward()

            cold, warm = seconds_of(loss), seconds_of(lambda: loss(range(16)))
            layer, rival = seconds_of(table), seconds_of(unrolled)
            print(
                f"  matching {n:2d} x {n:2d}, spread {spread:g}: likelihood {1e3 * cold:7.1f} "
                f"(warm, same scores {1e3 * warm:6.1f}), layer {1e3 * layer:7.1f}, "
                f"Sinkhorn-20 {1e3 * rival:6.1f}"
            )
    for length, n_states in ((20, 10), (50, 20)):
        nodes = torch.randn(16, length, n_states, generator=generator, requires_grad=True)
        table = torch.randn(n_states, n_states, generator=generator, requires_grad=True)
        target = torch.randint(n_states, (16, length), generator=generator)
        chain = ChainNLLLoss("sum")
        found = {"likelihood": seconds_of(lambda: chain(nodes, table, target).backward())}  # noqa: B023
        if CRF is not None:
            crf = CRF(n_states, batch_first=True)
            found["pytorch-crf"] = seconds_of(lambda: (-crf(nodes, target)).backward())  # noqa: B023
        if torch_struct is not None:
            found["torch-struct"] = seconds_of(lambda: _torch_struct(nodes, table))  # noqa: B023
        shown = ", ".join(f"{name} {1e3 * value:.1f}" for name, value in found.items())
        print(f"  chain, {length} tokens, {n_states} states: {shown}")


def _torch_struct(nodes: Tensor, table: Tensor) -> None:
    """log Z of torch-struct's linear chain, and its gradient."""
    potentials = nodes[:, 1:, :, None] + table.T
    first = torch.zeros_like(potentials)
    first[:, 0] = nodes[:, 0, None, :]
    torch_struct.LinearChainCRF(potentials + first).partition.sum().backward()


# ---------------------------------------------------------------------- the command
TASKS: dict[str, tuple[Callable[..., dict[str, Row]], int]] = {  # each with its epochs
    "keypoints": (keypoints, 10),
    "segmentation": (segmentation, 30),
    "tagging": (tagging, 10),
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("parts", nargs="*", default=[*TASKS, "steps"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=100, help="of the data and networks")
    parser.add_argument("--epochs", type=int, help="other than those of each task")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    for part in given.parts:
        if part == "steps":
            steps()
            continue
        task, epochs = TASKS[part]
        epochs = given.epochs or epochs
        seeds = range(given.first_seed, given.first_seed + given.seeds)
        found = [task(seed, epochs) for seed in seeds]
        print(f"\n{part}, {given.seeds} seeds, {epochs} epochs: mean (standard deviation)")
        print(f"  {'':26}" + "".join(f"{name:>24}" for name in Row._fields))
        for name in found[0]:
            values = np.array([rows[name] for rows in found])
            cells = zip(values.mean(axis=0), values.std(axis=0), strict=True)
            shown = "".join(f"{mean:15.4f} ({std:.4f})" for mean, std in cells)
            print(f"  {name:26}{shown}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
