"""Random batches of any size, with masks, unmatched and ignored nodes, extreme scores, float32.

MLESTRUCT_FUZZ=10000 runs that many, of samples with up to 40 nodes.
"""

import os

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")

from mlestruct.torch import (  # noqa: E402
    ChainNLLLoss,
    GraphNLLLoss,
    GridNLLLoss,
    GroupMatchingNLLLoss,
    MatchingNLLLoss,
)

LARGEST = 40 if "MLESTRUCT_FUZZ" in os.environ else 12


class Draw:
    """Random scores of one scale and type, and random targets."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.scale = self.rng.choice([0.1, 1.0, 10.0, 1e4])
        self.signs = self.scale == 1e4 and self.rng.random() < 0.5
        self.dtype = torch.float32 if self.rng.random() < 0.5 else torch.float64
        self.samples = self.size(3)

    def size(self, largest=LARGEST):
        return int(self.rng.integers(1, largest + 1))

    def scores(self, *shape):
        values = torch.randn(*shape, generator=self.generator, dtype=torch.float64)
        values = values.sign() if self.signs else values
        return (self.scale * values).to(self.dtype).requires_grad_()

    def mask(self, *shape):
        return self.rng.random(shape) < self.rng.choice([0.8, 1.0])

    def ignore(self, target):
        return np.where(self.rng.random(target.shape) < self.rng.choice([0, 0.3, 1]), -100, target)


def matching(draw, perfect=False):
    n, m, rng = draw.size(), draw.size(), draw.rng
    rows, cols = draw.mask(draw.samples, n), draw.mask(draw.samples, m)
    # Of perfect matchings a row is matched or ignored: it may be the one that stays single.
    target = np.full((draw.samples, n), -100 if perfect else -1)
    for b in range(draw.samples):
        own, others = (rng.permutation(np.flatnonzero(mask[b])) for mask in (rows, cols))
        k = rng.integers(0, min(own.size, others.size) + 1)
        target[b, own[:k]] = others[:k]
    loss = MatchingNLLLoss("none", perfect=perfect, rho=rng.choice([0.5, 0.95, 1.0]))
    return loss, (draw.scores(draw.samples, n, m),), draw.ignore(target), (rows, cols)


def perfect_matching(draw):
    return matching(draw, perfect=True)


def group(draw):
    n = draw.size()
    target, mask = np.full((draw.samples, n), -1), draw.mask(draw.samples, n)
    for b in range(draw.samples):
        own = draw.rng.permutation(np.flatnonzero(mask[b]))
        third = own.size // 3
        target[b, own[:third]], target[b, own[third : 2 * third]] = (
            own[third : 2 * third],
            own[:third],
        )
    loss = GroupMatchingNLLLoss("none", rho=draw.rng.choice([0.5, 0.95]))
    return loss, (draw.scores(draw.samples, n, n),), draw.ignore(target), (mask,)


def chain(draw):
    shape, n_states = (draw.samples, draw.size()), 1 + draw.size(4)
    scores = draw.scores(*shape, n_states), draw.scores(n_states, n_states)
    target = draw.ignore(draw.rng.integers(0, n_states, shape))
    return ChainNLLLoss("none"), scores, target, (draw.mask(*shape),)


def graph(draw):
    n, n_states = 1 + draw.size(), 1 + draw.size(4)
    pairs = np.array([draw.rng.choice(n, 2, replace=False) for _ in range(draw.size(2 * n))])
    scores = draw.scores(n, n_states), draw.scores(len(pairs), n_states, n_states)
    target = draw.ignore(draw.rng.integers(0, n_states, n))
    return GraphNLLLoss("none", tol=1e-4), scores, target, (pairs.T,)


def image(draw):
    shape, n_states = (draw.samples, draw.size(12), draw.size(12)), 1 + draw.size(3)
    scores = draw.scores(*shape, n_states), draw.scores(2, n_states, n_states)
    target = draw.ignore(draw.rng.integers(0, n_states, shape))
    return GridNLLLoss("none", tol=1e-4), scores, target, (draw.mask(*shape),)


FAMILIES = (matching, matching, matching, perfect_matching, group, chain, chain, graph, image)


@pytest.mark.parametrize("seed", range(int(os.environ.get("MLESTRUCT_FUZZ", "36"))))
def test_losses_and_gradients_are_finite(seed):
    draw = Draw(seed)
    loss, scores, target, rest = FAMILIES[seed % len(FAMILIES)](draw)
    found = loss(*scores, torch.as_tensor(target), *rest)
    found.sum().backward()
    assert torch.isfinite(found).all()
    rounding = 1e-9 * draw.scale * sum(s.numel() for s in scores) ** 0.5
    assert (found.double() >= -loss.last_gap - rounding).all()
    assert all(torch.isfinite(s.grad).all() for s in scores)
