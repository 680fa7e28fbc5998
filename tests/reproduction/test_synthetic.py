"""Likelihoods of approximate estimates: from end to end, and against permanents."""

from copy import deepcopy

import numpy as np
import pytest
from experiment_runs import perm, run, table
from hypothesis import given
from hypothesis import strategies as st

from mlestruct.structures import BipartiteMatching
from reproduction import synthetic


@pytest.fixture(scope="module")
def small():
    return run(synthetic, sizes=[10, 30], seeds=2)


def test_a_small_run(small):
    setting, found, report = small
    assert all(claim.holds for claim in report.claims)
    assert "80 of 80 inequalities proven" in report.claims[5].figure
    assert len(found) == 2 * 2 + 2
    for name, part in found.items():
        for point in part if name.startswith("regime") else ():
            low, exact, high = (point["values"][f"{kind} at exact"][0] for kind in synthetic.KINDS)
            assert low < exact < high
    # Means of the repetitions, from the stored intervals.
    shown = table(report, "likelihoods, low SNR")
    ends = [found[f"regime low SNR, seed {seed}"][1]["values"]["RW optimum"] for seed in range(2)]
    assert shown.rows[1][0] == 30
    assert shown.rows[1][shown.head.index("RW optimum")] == pytest.approx(np.mean(ends))
    assert setting["regimes"] == {"high SNR": -2.0, "low SNR": -0.5}


def test_drawn_matchings_follow_their_weights():
    drawn = synthetic.draw(3, -1.0, 4000, 0)
    weights = np.exp(-1.0 * (1.0 - np.eye(3)))
    share = weights[0, 0] * perm(weights[1:, 1:]) / perm(weights)
    assert (drawn[:, 0] == 0).mean() == pytest.approx(share, abs=0.03)
    assert (np.sort(drawn, axis=1) == np.arange(3)).all()


def test_exact_likelihood_is_that_of_a_permanent():
    rng = np.random.default_rng(0)
    theta, n, alpha = rng.normal(size=100), 7, 0.6
    labels = np.array([rng.permutation(10) for _ in range(n)])
    matched = np.zeros((10, 10))
    for y in labels:
        matched[np.arange(10), y] += 1.0
    found = synthetic.likelihoods_at(theta, matched.ravel(), n, alpha)
    log_z = np.log(perm(np.exp(theta.reshape(10, 10))))
    expected = sum(theta.reshape(10, 10)[np.arange(10), y].sum() - log_z for y in labels)
    expected = (expected - alpha / 2 * theta @ theta) / n
    assert np.mean(found["exact"]) == pytest.approx(expected, rel=1e-10)
    assert found["RW"][1] < expected < found["Bethe"][0]


def test_optimum_of_an_estimate_is_its_likelihood_there():
    drawn = np.array([np.random.default_rng(k).permutation(10) for k in range(15)])
    values = synthetic.one_point(drawn, 1.0, 1e-9)["values"]
    for kind in synthetic.KINDS:
        best, there = values[f"{kind} optimum"], values[f"{kind} at {kind}"]
        assert np.mean(there) == pytest.approx(np.mean(best), abs=1e-6)
        for other in synthetic.KINDS:
            assert values[f"{kind} at {other}"][0] <= best[1] + 1e-9


@given(st.tuples(*[st.integers(-20, 20)] * 4))
def test_inequality_is_proven_open_or_failed(ends):
    a, b = sorted(ends[:2]), sorted(ends[2:])
    found = [{"values": {"a": a, "b": b}, "not_converged": 0}]
    setting = {"sizes": [10], "seeds": 1, "regimes": {"high SNR": -2.0}}
    results = synthetic.Likelihoods(setting, {"regime high SNR, seed 0": found})
    pairs = [x <= y for x in a for y in b]
    expected = "proven" if all(pairs) else "open" if any(pairs) else "failed"
    assert results.compared("a", "b").ravel().tolist() == [expected]


def test_a_broken_sandwich_is_told(small):
    setting, found, _ = deepcopy(small)
    values = found["regime high SNR, seed 0"][0]["values"]
    values["RW at RW"], values["Bethe at RW"] = values["Bethe at RW"], values["RW at RW"]
    claim = synthetic.likelihood_claims(synthetic.Likelihoods(setting, found))[-1]
    assert not claim.holds
    assert claim.figure == "78 of 80 inequalities proven by certificates"


def test_worse_estimates_are_told(small):
    """A Bethe estimate far below the others breaks the claims about it."""
    setting, found, _ = deepcopy(small)
    found["regime low SNR, seed 0"][0]["values"]["exact at Bethe"] = [-99.0, -98.0]
    found["regime low SNR, seed 0"][0]["not_converged"] = 2
    likelihoods = synthetic.Likelihoods(setting, found)
    lost = [claim.sentence for claim in synthetic.likelihood_claims(likelihoods) if not claim.holds]
    assert [text.partition(":")[0].partition(" (")[0] for text in lost] == [
        "The dual has the optimum of the saddle point problem",
        "The Bethe estimator is superior to the RW estimator, at high and at low SNR",
        "Low SNR",
        "RW <= exact <= Bethe",
    ]
    assert likelihoods.not_converged == 2


# ---------------------------------------------------------------------- the method as such
def test_the_entropy_of_a_graph_of_two_sides_is_that_of_the_structure():
    rng, n = np.random.default_rng(0), 4
    half = np.zeros((2 * n, 2 * n))
    half[:n, n:] = rng.dirichlet(np.ones(n * n)).reshape(n, n)
    rho = rng.uniform(0.5, 1.0, size=2 * n)
    structure = BipartiteMatching((n, n), (rho[:n], rho[n:]), perfect=False)
    tau = np.concatenate([half[:n, n:].ravel(), 1 - half.sum(axis=1)[:n], 1 - half.sum(axis=0)[n:]])
    expected = structure.entropy(tau[: structure.n_coordinates])
    assert synthetic.entropy(half + half.T, rho) == pytest.approx(expected)


def test_points_are_in_the_local_polytope():
    rng = np.random.default_rng(1)
    for perfect in (True, False):
        table = synthetic.random_point(rng, 6, perfect)
        np.testing.assert_allclose(table, table.T)
        assert (table >= 0).all()
        sums = table.sum(axis=1)
        assert sums.max() <= 1 + 1e-12
        assert (sums > 0.95).all() == perfect


def test_entropies_with_rho_above_1_are_not_concave():
    """The check can fail: outside [0, 1] the theorem does not hold."""
    rng, against = np.random.default_rng(2), 0
    for _ in range(400):
        rho = 1.0 + rng.random(6)
        one, other = (synthetic.random_point(rng, 6, False) for _ in range(2))
        ends = 0.5 * (synthetic.entropy(one, rho) + synthetic.entropy(other, rho))
        against += synthetic.entropy(0.5 * (one + other), rho) < ends
    assert against > 0
    found = synthetic.convexity({"convexity": {"nodes": 5, "segments": 60, "seed": 0}})
    assert found["failed"] == 0
    assert synthetic.convexity_claim(found).holds
    assert not synthetic.convexity_claim(found | {"failed": 1}).holds


def test_passes_have_to_fall_with_entropy():
    rows = [{"entropy": e, "passes": p} for e, p in ((12.0, 10), (6.0, 30), (1.0, 90))]
    assert synthetic.speed_claim(rows).holds
    assert not synthetic.speed_claim([rows[0] | {"passes": 40}, *rows[1:]]).holds
