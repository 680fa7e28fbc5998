"""Likelihood losses: gradients, exact likelihoods of small spaces, padding, order, bad input."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="needs PyTorch")

from scipy.optimize import linear_sum_assignment  # noqa: E402
from torch.autograd import gradcheck, gradgradcheck  # noqa: E402

from mlestruct import BipartiteMatchingCRF  # noqa: E402
from mlestruct.structures import (  # noqa: E402
    DecoderSpace,
    ExactInference,
    Pairwise,
    SpanningTrees,
    Subsets,
    grid,
)
from mlestruct.torch import (  # noqa: E402
    ChainNLLLoss,
    GraphNLLLoss,
    GridNLLLoss,
    GroupMatchingNLLLoss,
    MatchingNLLLoss,
    StructuredLoss,
)

TIGHT = 1e-12


def normal(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=dtype).requires_grad_()


def best_two(scores):
    output = np.zeros(scores.shape[0])
    output[np.argsort(-scores)[:2]] = 1.0
    return output


def cases():
    """Name, loss, scores, target, further arguments; with masks, unmatched and ignored nodes."""
    matched = torch.tensor([[0, 1, -1, -100], [2, -1, -1, 4], [-100] * 4])
    rows = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 1], [1, 1, 1, 1]], dtype=torch.bool)
    yield "matching", MatchingNLLLoss("none", tol=TIGHT), (normal(3, 4, 5),), matched, (rows,)
    perfect = MatchingNLLLoss("none", tol=TIGHT, rho=1.0, perfect=True)
    yield "perfect", perfect, (normal(1, 3, 3),), torch.tensor([[2, -100, -100]]), ()
    group = torch.tensor([[1, 0, -100, 4, 3], [-1, -100, -100, -100, -1]])
    yield "group", GroupMatchingNLLLoss("none", tol=TIGHT), (normal(2, 5, 5),), group, ()
    for n_states in (2, 3):
        target = torch.tensor([[[0, 1], [-100, 1]], [[1, 0], [0, 0]]])
        mask = torch.ones(2, 2, 2, dtype=torch.bool)
        mask[1, 1, 0] = False
        scores = normal(2, 2, 2, n_states), normal(2, n_states, n_states, seed=1)
        yield f"grid {n_states}", GridNLLLoss("none", tol=TIGHT), scores, target, (mask,)
        edges = torch.tensor([[0, 1, 2, 0, 1, 4], [1, 2, 3, 3, 0, 5]])  # 0 - 1 in both directions
        batch = torch.tensor([0, 0, 0, 0, 2, 2])
        scores = normal(6, n_states), normal(6, n_states, n_states, seed=1)
        target = torch.tensor([0, -100, 1, 0, 1, 0])
        yield f"graph {n_states}", GraphNLLLoss("none", tol=TIGHT), scores, target, (edges, batch)
        target = torch.tensor([[0, 1, 1, 0], [1, -100, 0, 1], [0, 0, 0, 0]])
        scores = normal(3, 4, n_states), normal(n_states, n_states, seed=1)
        mask = torch.arange(4) < torch.tensor([4, 3, 0])[:, None]
        yield f"chain {n_states}", ChainNLLLoss("none"), scores, target, (mask,)
    pairs = [[1, 1, 0, 0, 0], [0, 0, 1, 0, 1]]
    yield "subsets", StructuredLoss(Subsets(5, 2), "none", tol=1e-10), (normal(2, 5),), pairs, ()
    decoder = StructuredLoss(DecoderSpace(best_two, 5), "none", tol=1e-10)
    yield "decoder", decoder, (normal(2, 5),), pairs, ()


CASES = list(cases())


@pytest.mark.parametrize(
    ("loss", "scores", "target", "rest"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
class TestEveryFamily:
    def test_gradients(self, loss, scores, target, rest):
        assert gradcheck(lambda *s: loss(*s, target, *rest), scores)

    def test_layer_and_second_derivatives(self, loss, scores, target, rest):
        options = {"eps": 1e-4, "atol": 1e-5, "fast_mode": True}
        assert gradcheck(lambda *s: loss.marginals(*s, *rest), scores, **options)
        assert gradgradcheck(lambda *s: loss(*s, target, *rest), scores, **options)

    def test_loss_is_not_negative_and_certified(self, loss, scores, target, rest):
        found = loss(*scores, target, *rest)
        assert found.shape == loss.last_gap.shape
        assert (loss.last_gap >= 0).all()
        assert (loss.last_gap < 1e-6).all()
        assert (found >= -loss.last_gap).all()

    def test_float32_and_reductions(self, loss, scores, target, rest):
        each = loss(*scores, target, *rest)
        single = [s.detach().float().requires_grad_() for s in scores]
        found = loss(*single, target, *rest)
        assert found.dtype == torch.float32
        assert torch.allclose(found, each.float(), atol=1e-4)
        found.sum().backward()
        assert all(s.grad.dtype == torch.float32 for s in single)
        loss.reduction = "sum"
        total = loss(*scores, target, *rest)
        loss.reduction = "none"
        assert torch.allclose(total, each.sum())

    def test_the_best_output_has_the_smallest_loss(self, loss, scores, target, rest):
        best = loss.decode(*scores, *rest)
        assert (loss(*scores, best, *rest) <= loss(*scores, target, *rest) + 1e-6).sum() > 0
        if isinstance(best, torch.Tensor):
            whole = torch.as_tensor(target) != -100
            better = loss(*scores, best, *rest) <= loss(*scores, target, *rest) + 1e-6
            if whole.dim() > 1:
                complete = whole.flatten(1).all(dim=1)
                assert better[complete].all()


# ---------------------------------------------------------------------- exact likelihoods
def all_matchings(n, m, perfect):
    for columns in itertools.product(range(-1, m), repeat=n):
        used = [j for j in columns if j >= 0]
        if len(set(used)) == len(used) and (not perfect or len(used) == min(n, m)):
            yield columns


@pytest.mark.parametrize("perfect", [False, True])
def test_rho_encloses_the_exact_loss_of_matchings(perfect):
    scores = 2.0 * normal(2, 3, 4)
    target = torch.tensor([[0, 3, 1], [2, 1, -100]])
    outputs = list(all_matchings(3, 4, perfect))
    total = torch.stack(
        [
            sum(scores[:, i, j] for i, j in enumerate(y) if j >= 0) + 0 * scores[:, 0, 0]
            for y in outputs
        ]
    )
    agree = torch.tensor(
        [
            [all(t in (-100, j) for t, j in zip(row, y, strict=True)) for row in target.tolist()]
            for y in outputs
        ]
    )
    exact = total.logsumexp(0) - total.masked_fill(~agree, -torch.inf).logsumexp(0)
    low, high = (
        MatchingNLLLoss("none", rho=rho, perfect=perfect, tol=TIGHT)(scores, target)
        for rho in (1.0, 0.5)
    )
    # The bounds are those of log Z: they hold where the whole output is observed.
    assert low[0] <= exact[0] + 1e-9
    assert exact[0] <= high[0] + 1e-9
    assert torch.allclose(MatchingNLLLoss("none", perfect=perfect)(scores, target), exact, atol=0.2)


def brute_force_chain(nodes, transitions, target):
    """-log P(target), ignored tokens summed out."""
    length, n_states = nodes.shape
    total, agreeing = [], []
    for y in itertools.product(range(n_states), repeat=length):
        score = sum(nodes[t, s] for t, s in enumerate(y))
        score = score + sum(transitions[a, b] for a, b in itertools.pairwise(y))
        total.append(score)
        if all(t in (-100, s) for t, s in zip(target, y, strict=True)):
            agreeing.append(score)
    return torch.stack(total).logsumexp(0) - torch.stack(agreeing).logsumexp(0)


def test_chains_are_exact_and_ignored_tokens_are_summed_out():
    nodes, transitions = normal(3, 4, 3), normal(3, 3, seed=1)
    target = torch.tensor([[0, 2, 1, 1], [-100, 1, -100, 0], [2, -100, 7, 7]])
    lengths = [4, 4, 2]
    mask = torch.arange(4) < torch.tensor(lengths)[:, None]
    found = ChainNLLLoss("none")(nodes, transitions, target, mask)
    tables = transitions.expand(3, 3, 3, 3)
    assert torch.allclose(ChainNLLLoss("none")(nodes, tables, target, mask), found)
    assert (ChainNLLLoss().decode(nodes, transitions, mask)[~mask] == -100).all()
    for b, n in enumerate(lengths):
        expected = brute_force_chain(nodes[b, :n], transitions, target[b, :n].tolist())
        assert found[b].item() == pytest.approx(expected.item(), abs=1e-10)


def test_a_tree_is_exact():
    """A star of four nodes against the sum over all labellings."""
    nodes, edges = normal(4, 3), normal(3, 3, 3, seed=1)
    index = torch.tensor([[0, 2, 0], [1, 0, 3]])
    target = [1, 0, 2, 1]
    total = torch.stack([
        sum(nodes[n, s] for n, s in enumerate(y))
        + sum(edges[e, y[a], y[b]] for e, (a, b) in enumerate(index.T.tolist()))
        for y in itertools.product(range(3), repeat=4)
    ])  # fmt: skip
    at = int(np.ravel_multi_index(target, (3,) * 4))
    found = GraphNLLLoss(tol=TIGHT)(nodes, edges, torch.tensor(target), index)
    assert found.item() == pytest.approx((total.logsumexp(0) - total[at]).item(), abs=1e-10)


def test_images_have_an_upper_bound_of_the_exact_loss():
    nodes, edges = normal(1, 3, 3, 3), normal(3, 3, seed=1)
    target = torch.tensor([[[0, 1, 2], [1, 1, 0], [2, 0, 0]]])
    space = Pairwise(grid(3, 3), 3)
    tables = nodes.detach().numpy().reshape(9, 3), np.tile(edges.detach().numpy(), (12, 1, 1))
    scores = space.from_tables(*tables)
    exact = space.exact(scores).log_partition - space.encode(target.numpy().ravel()).dot(scores)
    found = GridNLLLoss(tol=TIGHT)(nodes, edges, target).item()
    assert exact <= found <= exact + 1.0


def test_spanning_trees_are_counted():
    """All scores equal: every one of the n^(n-2) trees of a complete graph is equally probable."""
    pairs = list(itertools.combinations(range(5), 2))
    loss = StructuredLoss(ExactInference(SpanningTrees(5, pairs)))
    star = [[int(i == 0) for i, _ in pairs]]
    assert loss(torch.zeros(1, len(pairs)), star).item() == pytest.approx(np.log(5**3), abs=1e-5)


# ---------------------------------------------------------------------- invariance
@given(seed=st.integers(0, 10**6), pad=st.integers(0, 3))
@settings(max_examples=20, deadline=None)
def test_padding_and_order_do_not_matter(seed, pad):
    rng = np.random.default_rng(seed)
    n, m = rng.integers(1, 6, 2)
    scores = normal(1, n, m, seed=seed).detach()
    partner = np.where(rng.random(n) < 0.3, -100, -1)
    k = min(n, m)
    partner[rng.permutation(n)[:k]] = rng.permutation(m)[:k]
    loss = MatchingNLLLoss(tol=TIGHT)
    plain = loss(scores, torch.tensor(partner[None]))
    padded = torch.full((1, n + pad, m + pad), torch.nan, dtype=torch.float64)
    rows, cols = rng.permutation(n + pad)[:n], rng.permutation(m + pad)[:m]
    padded[0, rows[:, None], cols] = scores[0]
    target = torch.full((1, n + pad), 77)
    target[0, rows] = torch.tensor(np.where(partner >= 0, cols[np.maximum(partner, 0)], partner))
    row_mask, col_mask = torch.zeros(1, n + pad), torch.zeros(1, m + pad)
    row_mask[0, rows], col_mask[0, cols] = 1, 1
    padded.requires_grad_()
    found = loss(padded, target, row_mask.bool(), col_mask.bool())
    assert found.item() == pytest.approx(plain.item(), abs=1e-9)
    found.backward()
    outside = torch.ones_like(padded, dtype=torch.bool)
    outside[0, rows[:, None], cols] = False
    assert (padded.grad[outside] == 0).all()


def test_other_families_are_padded_too():
    nodes, edges = normal(1, 3, 4, 3), normal(2, 3, 3, seed=1)
    target = torch.randint(3, (1, 3, 4), generator=torch.Generator().manual_seed(0))
    plain = GridNLLLoss(tol=TIGHT)(nodes, edges, target)
    wide, more = torch.full((1, 5, 6, 3), torch.nan), torch.full((1, 5, 6), -100)
    wide, mask = wide.double(), torch.zeros(1, 5, 6, dtype=torch.bool)
    wide[:, 1:4, 2:6], more[:, 1:4, 2:6], mask[:, 1:4, 2:6] = nodes, target, True
    assert torch.allclose(GridNLLLoss(tol=TIGHT)(wide, edges, more, mask), plain)
    assert (GridNLLLoss().decode(wide, edges, mask)[~mask] == -100).all()

    scores, partner = normal(1, 4, 4).detach(), torch.tensor([[3, -1, -1, 0]])
    plain = GroupMatchingNLLLoss(tol=TIGHT)(scores, partner)
    wide = torch.full((1, 6, 6), torch.nan, dtype=torch.float64)
    wide[:, 1:5, 1:5] = scores
    mask = torch.tensor([[0, 1, 1, 1, 1, 0]], dtype=torch.bool)
    target = torch.tensor([[9, 4, -1, -1, 1, 9]])
    assert torch.allclose(GroupMatchingNLLLoss(tol=TIGHT)(wide, target, mask), plain)


def test_masked_pixels_are_reweighted_like_whole_images():
    """An image without one corner: half of its rows and half of its columns."""
    nodes, edges = normal(1, 3, 3, 3).detach(), normal(3, 3, seed=1).detach()
    mask = torch.ones(1, 3, 3, dtype=torch.bool)
    mask[0, 2, 2] = False
    target = torch.zeros(1, 3, 3, dtype=torch.long)
    given = nodes.clone()
    # A pixel that is all but fixed and scores nothing with its neighbours is not there.
    tables = edges.expand(1, 2, 3, 3, 3, 3).clone()
    tables[0, 0, 2, 1] = tables[0, 1, 1, 2] = 0.0
    given[0, 2, 2] = torch.tensor([0.0, -200.0, -200.0])
    whole = GridNLLLoss(tol=TIGHT)(given, tables, target)
    part = GridNLLLoss(tol=TIGHT)(nodes, tables, target, mask)
    assert part.item() == pytest.approx(whole.item(), abs=1e-6)


def test_tokens_left_out_are_skipped():
    nodes, transitions = normal(1, 5, 3), normal(3, 3, seed=1)
    target = torch.tensor([[0, 9, 1, 9, 2]])
    mask = torch.tensor([[True, False, True, False, True]])
    found = ChainNLLLoss()(nodes, transitions, target, mask)
    assert torch.equal(found, ChainNLLLoss()(nodes[:, ::2], transitions, target[:, ::2]))
    with pytest.raises(ValueError, match="mask: tokens are left out"):
        ChainNLLLoss()(nodes, transitions.expand(1, 4, 3, 3), target, mask)


def test_both_directions_of_an_edge_are_added():
    nodes, tables = normal(3, 2), normal(2, 2, 2, seed=1)
    target = torch.tensor([0, 1, 1])
    twice = GraphNLLLoss()(nodes, tables, target, torch.tensor([[0, 1], [1, 0]]))
    once = GraphNLLLoss()(nodes, (tables[0] + tables[1].T)[None], target, torch.tensor([[0], [1]]))
    assert torch.allclose(twice, once)


# ---------------------------------------------------------------------- warm starts, certificates
def test_warm_starts_need_fewer_iterations_and_change_nothing():
    scores = 3.0 * normal(4, 12, 12).detach()
    target = torch.arange(12).expand(4, 12)
    warm, cold = MatchingNLLLoss(tol=1e-8), MatchingNLLLoss(tol=1e-8)
    for step in range(3):
        moved = scores + 0.01 * step
        assert warm(moved, target, keys="abcd").item() == pytest.approx(
            cold(moved, target).item(), abs=1e-6
        )
    assert len(warm.warm) == 4
    warm(scores[:, :11], target[:, :11], keys="abcd")  # another output space under the same names
    with pytest.raises(ValueError, match="keys: expected one for each of 4"):
        warm(scores, target, keys=[1])


def test_a_loose_tolerance_is_reported_and_holds():
    scores = 4.0 * normal(1, 15, 15, seed=3).detach()
    target = torch.arange(15)[None]
    exact = MatchingNLLLoss(tol=1e-12)(scores, target).item()
    loose = MatchingNLLLoss(tol=1e-2)
    value = loose(scores, target).item()
    assert value <= exact + 1e-9
    assert exact <= value + loose.last_gap.item() + 1e-9
    assert loose.last_gap.item() <= 0.3


def test_threads_change_nothing():
    scores, target = normal(9, 6, 6), torch.arange(6).expand(9, 6)
    one, two = (MatchingNLLLoss("none", n_jobs=n)(scores, target) for n in (1, 2))
    assert torch.equal(one, two)


# ---------------------------------------------------------------------- edges of what is allowed
def test_empty_samples_and_batches():
    loss = MatchingNLLLoss("none")
    nobody = torch.zeros(2, 3, dtype=torch.bool)
    found = loss(normal(2, 3, 4), torch.full((2, 3), -1), nobody)
    assert found.tolist() == [0.0, 0.0]
    assert loss(normal(2, 3, 0), torch.full((2, 3), -1)).tolist() == [0.0, 0.0]
    assert MatchingNLLLoss()(normal(0, 3, 4), torch.zeros(0, 3, dtype=torch.long)).item() == 0.0
    everything = torch.full((2, 3), -100)
    scores = normal(2, 3, 4)
    total = MatchingNLLLoss()(scores, everything)
    total.backward()
    assert total.item() == 0.0
    assert (scores.grad == 0).all()
    one = MatchingNLLLoss()(scores[:1], torch.tensor([[0, 1, 2]]))
    more = MatchingNLLLoss()(scores, torch.tensor([[0, 1, 2], [-100] * 3]))
    assert torch.equal(one, more)  # the mean is over samples of which something is known
    none, table = torch.zeros(0, 2, 2, dtype=torch.long), torch.zeros(3, 3)
    assert GridNLLLoss()(torch.zeros(0, 2, 2, 3), table, none).item() == 0.0
    assert GridNLLLoss().marginals(torch.zeros(0, 2, 2, 3), table).shape == (0, 2, 2, 3)
    graph = torch.zeros(0, 3), table, none[:, 0, 0], torch.zeros(2, 0, dtype=torch.long)
    assert GraphNLLLoss()(*graph).item() == 0.0


def test_forbidden_pairs_and_states():
    scores = normal(1, 3, 3).detach()
    scores[0, 0, 1] = -torch.inf
    scores.requires_grad_()
    loss = MatchingNLLLoss()
    table = loss.marginals(scores)
    assert table[0, 0, 1] == 0
    loss(scores, torch.tensor([[0, -1, -100]])).backward()
    assert torch.isfinite(scores.grad).all()
    assert scores.grad[0, 0, 1] == 0
    with pytest.raises(ValueError, match="target"):
        loss(scores, torch.tensor([[1, -1, -1]]))
    for family, target in ((loss, [[0, -1]]), (GroupMatchingNLLLoss(), [[1, 0]])):
        with pytest.raises(ValueError, match=r"target\[0\]: has a pair, but scores forbid all"):
            family(torch.full((1, 2, 2), -torch.inf), target)
    transitions = torch.tensor([[0.0, -torch.inf], [0.0, 0.0]])
    chain = ChainNLLLoss()
    assert chain(
        torch.zeros(1, 3, 2), transitions, torch.tensor([[1, 1, 0]])
    ).item() == pytest.approx(np.log(4.0))
    with pytest.raises(ValueError, match="-inf forbid the target of sample 0"):
        chain(torch.zeros(1, 3, 2), transitions, torch.tensor([[0, 1, 0]]))
    with pytest.raises(ValueError, match="-inf forbid every output of sample 0"):
        chain.marginals(torch.full((1, 3, 2), -torch.inf), transitions)


# ---------------------------------------------------------------------- training
def test_third_derivatives_are_refused():
    scores = normal(1, 3, 3)
    (gradient,) = torch.autograd.grad(
        MatchingNLLLoss()(scores, [[0, 1, 2]]), scores, create_graph=True
    )
    (second,) = torch.autograd.grad(gradient.square().sum(), scores, create_graph=True)
    with pytest.raises(RuntimeError, match="twice"):
        second.sum().backward()


def test_a_linear_layer_reaches_the_optimum_of_the_estimator():
    """alpha / 2 |theta|^2 - log-likelihood, minimised by L-BFGS of PyTorch and by the estimator."""
    rng = np.random.default_rng(0)
    pairs = rng.normal(size=(12, 4, 4, 3))
    noisy = pairs @ np.arange(1, 4) / 2 + rng.gumbel(size=(12, 4, 4))
    partners = np.stack([linear_sum_assignment(-table)[1] for table in noisy])
    estimator = BipartiteMatchingCRF(alpha=2.0, rho=0.95, tol=1e-8).fit(pairs, partners)
    theta = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    loss = MatchingNLLLoss("sum", rho=0.95, perfect=True, tol=1e-9)
    steps = torch.optim.LBFGS(
        [theta], max_iter=100, tolerance_grad=1e-9, line_search_fn="strong_wolfe"
    )

    def objective():
        steps.zero_grad()
        total = (theta**2).sum() + loss(torch.tensor(pairs) @ theta, partners, keys=range(12))
        total.backward()
        return total

    steps.step(objective)
    assert theta.detach().numpy() == pytest.approx(estimator.coef_, abs=1e-4)
    assert -objective().item() == pytest.approx(estimator.objective_bound_, abs=1e-5)
