"""Fully corrective Frank-Wolfe: its bounds against enumeration, its calls, and how it continues."""

import os
from dataclasses import replace

import numpy as np
import pytest
from dual_problems import DecoderOnly, image_problem, labelling_problem, matching_problem, solve
from hypothesis import given, settings
from hypothesis import strategies as st
from own_decoders import assignment, assignments, best_of, subsets
from scipy.optimize import minimize

from mlestruct.algorithms import _fully_corrective_kernels as kernels
from mlestruct.features import Rows
from mlestruct.learning import Block, BlockFrankWolfe, Checkpoint, FullyCorrective, Problem
from mlestruct.structures import (
    DecoderSpace,
    Decoding,
    SeparableEntropy,
    Structure,
    Vertex,
    coordinate_entropy,
    factor_entropy,
)

SOLVER = FullyCorrective()
EXAMPLES = int(os.environ.get("MLESTRUCT_EXAMPLES", "100"))  # of random problems


# ---------------------------------------------------------------------- enumerated spaces
class Listed(Structure):
    """An output space given by all its vertices, whose decoder may be approximate."""

    def __init__(self, vertices, entropy, loose=0.0, rng=None):
        self.vertices, self._entropy, self._loose, self._rng = vertices, entropy, loose, rng
        self.n_coordinates = vertices.shape[1]

    @property
    def stepping_entropy(self):
        separable = isinstance(self._entropy, SeparableEntropy)
        return self._entropy if separable else super().stepping_entropy

    def decode(self, scores, warm=None, prices=False):
        values = self.vertices @ scores
        best = values.max()
        good = np.flatnonzero(values >= best - self._loose)
        chosen = good[0] if self._rng is None else self._rng.choice(good)
        bound = None if self._loose == 0.0 else best + 0.1 * self._loose
        return Decoding(Vertex.of(self.vertices[chosen]), values[chosen], upper_bound=bound)

    def entropy(self, tau):
        return self._entropy(tau)

    def entropy_gradient(self, tau):
        return self._entropy.gradient(tau)

    def interior(self):
        return self.vertices.mean(axis=0)


class Root:
    """H = sum of sqrt(tau + 0.1): concave, and nothing that the library knows."""

    def __call__(self, tau):
        return float(np.sqrt(tau + 0.1).sum())

    def gradient(self, tau):
        return 0.5 / np.sqrt(tau + 0.1)


def random_vertices(rng, kind):
    """Outputs of 5 coordinates, or of 6 in two groups."""
    if kind == "groups":
        return np.array([np.r_[np.eye(3)[i], np.eye(3)[j]] for i in range(3) for j in range(3)])
    levels = (0.0, 0.5, 1.0) if kind == "halves" else (0.0, 1.0)
    return np.unique(rng.choice(levels, size=(7, 5)), axis=0)


ENTROPIES = {
    "coordinates": lambda n: coordinate_entropy(n),
    "groups": lambda n: factor_entropy(n, [range(n // 2), range(n // 2, n)]),
    "mixed": lambda n: SeparableEntropy(np.linspace(0.5, 1.5, n), -np.linspace(0.1, 0.6, n)),
    "root": lambda n: Root(),
}


def listed_problem(rng, kind, entropy, loose, shared, l1_ratio=0.0, n_blocks=3):
    blocks, space = [], None
    for _ in range(n_blocks):
        if space is None or not shared:
            vertices = random_vertices(rng, kind)
            own = ENTROPIES[entropy](vertices.shape[1])
            varies = np.ptp(vertices, axis=0) > 0
            own = own.masked(varies) if isinstance(own, SeparableEntropy) else own
            space = Listed(vertices, own, loose, rng if loose else None)
        n = space.n_coordinates
        observed = Vertex.of(space.vertices[rng.integers(len(space.vertices))])
        features = Rows(rng.normal(size=(n, 3)))
        offset = rng.normal(size=n) if rng.random() < 0.5 else None
        blocks.append(Block(space, features, observed, rng.uniform(0.5, 2.0), offset))
    return Problem(blocks, float(np.exp(rng.uniform(-3, 2))), l1_ratio)


def enclosed_optimum(problem):
    """Bounds of the optimum by quasi-Newton on softmax weights of all vertices."""
    spaces = [block.structure.vertices for block in problem.blocks]
    cuts = np.cumsum([len(v) for v in spaces])[:-1]

    def tau_at(x):
        parts = [np.exp(part - part.max()) for part in np.split(x, cuts)]
        return [p / p.sum() @ v for p, v in zip(parts, spaces, strict=True)], parts

    def gradients(tau):
        pairs = list(zip(problem.blocks, tau, strict=True))
        r = sum(b.weight * (b.moments_at(b.observed) - b.moments(t)) for b, t in pairs)
        theta = problem.theta(r)
        value = problem.penalty.conjugate(r)
        value += sum(b.weight * (b.offset_gap(t) - b.structure.entropy(t)) for b, t in pairs)
        slopes = [-b.weight * (b.scores(theta) + b.structure.entropy_gradient(t)) for b, t in pairs]
        return value, slopes

    def loss(x):
        tau, parts = tau_at(x)
        value, slopes = gradients(tau)
        out = []
        for p, v, t, g in zip(parts, spaces, tau, slopes, strict=True):
            out.append(p / p.sum() * ((v - t) @ g))
        return value, np.concatenate(out)

    start = np.zeros(sum(map(len, spaces)))
    found = minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-10})
    tau, _ = tau_at(found.x)
    value, slopes = gradients(tau)
    gap = sum(float(g @ t - (v @ g).min()) for v, t, g in zip(spaces, tau, slopes, strict=True))
    return value - gap, value


@settings(deadline=None, max_examples=EXAMPLES)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["binary", "halves", "groups"]),
    st.sampled_from(sorted(ENTROPIES)),
    st.sampled_from([0.0, 0.0, 0.1, 1.0]),
    st.booleans(),
    st.sampled_from([0.0, 0.0, 0.5]),
)
def test_bounds_enclose_the_optimum(seed, kind, entropy, loose, shared, l1_ratio):
    rng = np.random.default_rng(seed)
    if entropy == "groups" and kind != "groups":
        kind = "groups"
    problem = listed_problem(rng, kind, entropy, loose, shared, l1_ratio)
    result = solve(problem, SOLVER, 1e-6, max_iter=100)
    lower, upper = enclosed_optimum(problem)
    slack = 1e-7 * (1.0 + abs(upper))
    assert result.objective <= upper + slack
    assert result.objective_bound >= lower - slack
    assert result.gap == pytest.approx(result.objective_bound - result.objective, abs=slack)
    if loose == 0.0 and l1_ratio == 0.0 and entropy != "root":
        assert result.converged


@pytest.mark.parametrize("n_iter", [0, 1, 3])
def test_bounds_hold_at_any_round(n_iter):
    for seed in range(10):
        problem = listed_problem(np.random.default_rng(seed), "binary", "coordinates", 0.0, False)
        result = solve(problem, SOLVER, 0.0, max_iter=n_iter)
        lower, upper = enclosed_optimum(problem)
        assert lower - 1e-6 <= result.objective_bound
        assert result.objective <= upper + 1e-6
        assert np.isfinite(result.gap)


PROBLEMS = [
    ("matchings", lambda: matching_problem(1, rho=0.7, alpha=1.0, offset=True)[1]),
    ("bethe", lambda: matching_problem(1, rho=1.0, alpha=1.0)[1]),
    ("states", lambda: labelling_problem(3, alpha=1.0)[1]),
]


@pytest.mark.parametrize("make", [make for _, make in PROBLEMS], ids=[name for name, _ in PROBLEMS])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
def test_it_agrees_with_marginals(make, l1_ratio):
    problem = make()
    problem = Problem(problem.blocks, problem.alpha, l1_ratio)
    best = solve(problem, tol=1e-9)
    result = solve(problem, SOLVER, 1e-4)
    assert result.converged
    assert best.objective - 1e-8 <= result.objective_bound
    assert result.objective <= best.objective_bound + 1e-8
    np.testing.assert_allclose(result.theta, best.theta, atol=0.03)


def test_entropies_of_which_only_the_gradient_is_known():
    problem = image_problem(n_images=3, shape=(3, 3))
    one = DecoderOnly(problem.blocks[0].structure)
    given = Problem([replace(b, structure=one) for b in problem.blocks], problem.alpha)
    best, result = solve(problem), solve(given, SOLVER, 1e-2, max_iter=60)
    assert best.objective - 1e-8 <= result.objective_bound
    assert result.objective <= best.objective_bound + 1e-8
    assert result.converged


# ---------------------------------------------------------------------- calls
def subset_problem(n_samples=20, shared=True, n_jobs=1, decode=None, alpha=1.0):
    rng = np.random.default_rng(0)
    calls = []

    def counted(scores):
        calls.append(1)
        return (decode or (lambda s: best_of(s, 4)))(scores)

    one = DecoderSpace(counted, 10, interior=np.full(10, 0.4))
    blocks = []
    for _ in range(n_samples):
        own = one if shared else DecoderSpace(counted, 10, interior=np.full(10, 0.4))
        x = rng.normal(size=(10, 3))
        label = best_of(x @ np.array([1.0, -1.0, 0.5]) + rng.gumbel(size=10), 4).astype(int)
        blocks.append(Block(own, Rows(x), own.encode(label)))
    calls.clear()
    return Problem(blocks, alpha, n_jobs=n_jobs), calls


@pytest.mark.parametrize(("shared", "most"), [(False, 22), (True, 10)])
def test_tens_of_calls_are_enough(shared, most):
    problem, calls = subset_problem(40, shared)
    result = solve(problem, SOLVER, 1e-4)
    assert result.converged
    assert result.oracle_calls == len(calls) <= most * 40
    _, calls = fewer = subset_problem(40, shared)
    plain = solve(fewer[0], BlockFrankWolfe(), 1e-2)
    assert len(calls) > 2 * result.oracle_calls
    assert plain.objective <= result.objective_bound + 1e-9


def test_assignments_with_the_bethe_entropy():
    n, rng = 4, np.random.default_rng(0)
    lines = [range(i * n, (i + 1) * n) for i in range(n)] + [range(j, n * n, n) for j in range(n)]
    space = DecoderSpace(assignment, n * n, entropy=factor_entropy(n * n, lines, 1.0, -1.0))
    vertices = assignments(n)
    blocks = [
        Block(space, Rows(rng.normal(size=(n * n, 2))), Vertex.of(vertices[rng.integers(24)]))
        for _ in range(6)
    ]
    assert solve(Problem(blocks, 1.0), SOLVER, 1e-4).converged


def test_threads_do_not_change_the_result():
    one, three = (solve(subset_problem(n_jobs=n)[0], SOLVER, 1e-4) for n in (1, 3))
    np.testing.assert_array_equal(one.theta, three.theta)
    assert one.history.gap == three.history.gap


def test_decoders_without_bounds_prove_nothing():
    problem = subset_problem()[0]
    space = DecoderSpace(lambda s: best_of(s, 4), 10, exact=False, interior=np.full(10, 0.4))
    blocks = [replace(block, structure=space) for block in problem.blocks]
    assert not solve(Problem(blocks, 1.0), SOLVER, 1e-3).proven
    assert solve(problem, SOLVER, 1e-3).proven


def test_it_stops_once_calls_bring_nothing():
    rng = np.random.default_rng(3)
    problem = listed_problem(rng, "binary", "coordinates", 1.0, False)
    result = solve(problem, SOLVER, 1e-9, max_iter=10_000)
    assert not result.converged
    assert result.iterations < 1000
    assert 0.0 < result.slack <= result.gap


# ---------------------------------------------------------------------- continuing
def test_a_start_saves_calls():
    problem, calls = subset_problem()
    first = solve(problem, SOLVER, 1e-3)
    fresh = len(calls)
    calls.clear()
    solve(problem.with_alpha(0.7), SOLVER, 1e-3, start=first.state)
    assert len(calls) < 0.5 * fresh


def test_a_resumed_run_makes_the_same_steps(tmp_path):
    whole = solve(subset_problem()[0], SOLVER, 1e-5)

    def kept():
        checkpoint = Checkpoint(tmp_path, every=0.0)
        checkpoint.open({})
        return checkpoint

    def interrupt(progress):
        if progress.iteration == 4:
            raise KeyboardInterrupt

    part = solve(subset_problem()[0], SOLVER, 1e-5, checkpoint=kept(), callback=interrupt)
    assert part.interrupted
    again = solve(subset_problem()[0], SOLVER, 1e-5, checkpoint=kept())
    np.testing.assert_array_equal(again.theta, whole.theta)
    assert again.history.gap == whole.history.gap
    assert again.oracle_calls == whole.oracle_calls


# ---------------------------------------------------------------------- kernels
@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32 - 1))
def test_the_conjugate_bounds_every_point(seed):
    rng = np.random.default_rng(seed)
    a, z = rng.uniform(0.1, 2.0), rng.normal(scale=5.0)
    c = -a * rng.choice([0.0, 0.3, 1.0, 1.7])
    t = np.linspace(0.0, 1.0, 10_001)[1:-1]
    values = z * t - a * t * np.log(t) + c * (1 - t) * np.log1p(-t)
    found = kernels.conjugate(z, a, c, np.nan)
    assert found >= values.max() - 1e-12
    if c < 0.0 or z <= a:
        assert found == pytest.approx(max(values.max(), z, 0.0), rel=1e-5, abs=1e-4)


def test_finite_slopes_score_the_step():
    rng = np.random.default_rng(0)
    outputs = subsets(6, 3)
    a, c = rng.uniform(0.5, 1.0, 6), -rng.uniform(0.0, 0.5, 6)
    entropy, tau, s = SeparableEntropy(a, c), np.full(6, 0.5), rng.normal(size=6)
    u = np.empty(6)
    kernels.finite_slopes(tau, a, c, s, 0.0, 0.3, u)
    after = [0.7 * tau + 0.3 * y for y in outputs]
    values = [s @ t + entropy(t) for t in after]
    assert np.argmax(outputs @ u) == np.argmax(values)
    kernels.finite_slopes(tau, a, c, s, 0.0, 1e-7, u)
    np.testing.assert_allclose(u, s + entropy.gradient(tau), atol=1e-5)
    kernels.finite_slopes(tau, a, c, s, 0.0, 0.0, u)
    np.testing.assert_allclose(u, s + entropy.gradient(tau), rtol=1e-12)
