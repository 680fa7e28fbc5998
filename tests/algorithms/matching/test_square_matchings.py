"""The oracle of square matchings at rho = 1, against Newton's method on the same problem.

Values are recomputed from marginals in plain NumPy; both oracles enclose the same number, so each
one's lower end lies below the other one's upper end.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from scipy.special import xlogy

from mlestruct.algorithms.matching import newton
from mlestruct.algorithms.matching.belief_propagation import Oracle, certified_marginals
from mlestruct.inference import marginals
from mlestruct.structures import BipartiteMatching

examples = settings(deadline=None, max_examples=120)


def scores_of(kind, n, rng):
    """Scores of a kind, (n, n), of size about 1."""
    w = rng.normal(size=(n, n))
    if kind == "ties":
        return rng.integers(-1, 2, (n, n)).astype(float)
    if kind == "equal":
        return np.full((n, n), -1.5)
    if kind == "near ties":
        return rng.integers(-1, 2, (n, n)) + 1e-9 * w
    if kind == "low rank":
        return w[:, :2] @ w[:2] if n > 2 else np.outer(w[:, 0], w[0])
    if kind == "potentials":
        return w[:, :1] + w[:1]
    if kind == "dominant":
        return 3.0 * np.eye(n)[rng.permutation(n)] + 0.1 * w
    if kind == "two matchings":
        w *= 0.2
        for order in (rng.permutation(n), rng.permutation(n)):
            w[np.arange(n), order] = 2.0
        return w
    if kind == "blocks":
        half = np.arange(n) < n // 2
        return np.where(half[:, None] == half, 0.0, -5.0) + 0.01 * w
    return w


KINDS = ("normal", "ties", "equal", "near ties", "low rank", "potentials", "dominant",
         "two matchings", "blocks")  # fmt: skip


class Solved:
    """One problem solved by both oracles."""

    def __init__(self, w, tol, reference_tol=1e-8):
        self.w, n = w, len(w)
        structure = BipartiteMatching((n, n))
        rows = structure._presolved.rows
        flat = np.ascontiguousarray(w).ravel().copy()
        kept = flat.copy()
        self.found = Oracle(rows).each(
            flat[None], np.zeros((1, n)), structure._start, [None], np.array([tol])
        )[0]
        np.testing.assert_array_equal(flat, kept)
        self.newton = newton.solve(rows, flat, np.zeros(n), structure._start, None, reference_tol)
        self.tau = self.found.t.reshape(n, n)
        self.slack = 1e-8 + 1e-11 * n * np.abs(w).max()

    @property
    def excess(self):
        """How far the worst sum is from 1."""
        return max(np.abs(self.tau.sum(axis=k) - 1.0).max() for k in (0, 1))

    @property
    def value(self):
        """<w, tau> + Bethe entropy, term by term."""
        t = np.clip(self.tau, 0.0, 1.0)
        return float((self.w * t).sum() + (xlogy(1 - t, 1 - t) - xlogy(t, t)).sum())


problems = st.builds(
    lambda seed, n, kind, scale: scale * scores_of(kind, n, np.random.default_rng(seed)),
    st.integers(0, 2**32 - 1),
    st.sampled_from([2, 3, 4, 6, 10]),
    st.sampled_from(KINDS),
    st.sampled_from([0.01, 0.3, 1.0, 4.0, 20.0, 60.0]),
)
tolerances = st.sampled_from([10.0, 1.0, 1e-2, 1e-4, 1e-6, 1e-8, 1e-10])


@examples
@given(problems, tolerances)
def test_both_oracles_enclose_the_same_value(w, tol):
    solved = Solved(w, tol)
    found, newton = solved.found, solved.newton
    assert found.value <= newton.upper_bound + solved.slack
    assert found.upper_bound >= newton.value - solved.slack


@examples
@given(problems, tolerances)
def test_marginals_are_feasible_and_attain_the_value(w, tol):
    solved = Solved(w, tol)
    assert np.isfinite(solved.tau).all()
    assert solved.tau.min() >= 0.0
    assert solved.excess <= 1e-8
    found = solved.found
    if np.isfinite(found.value):
        assert found.value <= solved.value + solved.slack
    if found.upper_bound - found.value <= tol:
        assert found.value >= solved.value - tol - solved.slack


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tol", [1.0, 1e-3, 1e-6])
def test_tolerances_are_reached(kind, tol):
    for n in (2, 3, 5, 12):
        for scale in (0.1, 1.0, 5.0):
            w = scale * scores_of(kind, n, np.random.default_rng(n))
            found = Solved(w, tol).found
            assert -1e-9 <= found.upper_bound - found.value <= tol


@examples
@given(problems)
def test_sweeps_alone_certify_what_they_say(w):
    n = len(w)
    rows = BipartiteMatching((n, n))._presolved.rows
    found = certified_marginals(
        rows, True, w.reshape(1, -1), np.zeros((1, n)), [None], np.array([1e-6]), 300
    )[0]
    value, bound = found.value, found.upper_bound
    newton = Solved(w, 1e-8).newton
    slack = 1e-8 + 1e-11 * n * np.abs(w).max()
    assert found.iterations <= 300
    if np.isfinite(value):
        assert value <= bound
        assert value <= newton.upper_bound + slack
        assert bound >= newton.value - slack
        sums = found.t.reshape(n, n)
        np.testing.assert_allclose(sums.sum(axis=0), 1.0, atol=1e-8)
        np.testing.assert_allclose(sums.sum(axis=1), 1.0, atol=1e-8)


@pytest.mark.parametrize("n", [2, 3, 6])
@pytest.mark.parametrize("kind", KINDS)
def test_constants_of_rows_and_columns_change_nothing(kind, n):
    rng = np.random.default_rng(0)
    w = scores_of(kind, n, rng)
    rows, cols = 30.0 * rng.normal(size=(n, 1)), 30.0 * rng.normal(size=n)
    plain, moved = Solved(w, 1e-8), Solved(w + rows + cols, 1e-8)
    shift = float(rows.sum() + cols.sum())
    assert moved.found.value - plain.found.value == pytest.approx(shift, abs=1e-7)


@pytest.mark.parametrize("tol", [1e-2, 1e-6, 1e-10])
@pytest.mark.parametrize("scale", [0.01, 1.0, 50.0])
def test_two_by_two_is_the_better_matching(scale, tol):
    # The Bethe permanent of a 2 x 2 matrix is the larger of its two products.
    w = scale * np.random.default_rng(1).normal(size=(2, 2))
    best = max(np.trace(w), w[0, 1] + w[1, 0])
    found = Solved(w, tol).found
    assert best - tol - 1e-9 <= found.value <= best + 1e-9
    assert found.upper_bound >= best - 1e-9


@pytest.mark.parametrize("n", [2, 3, 7, 30])
def test_equal_scores_have_their_closed_form(n):
    # tau = 1 / n everywhere.
    value = n * np.log(n) + n * (n - 1) * np.log(1.0 - 1.0 / n)
    solved = Solved(np.zeros((n, n)), 1e-10)
    assert solved.found.value == pytest.approx(value, abs=1e-9)
    if n > 2:  # at n = 2 all mixtures of the two matchings are as good
        np.testing.assert_allclose(solved.tau, 1.0 / n, atol=1e-5)


@pytest.mark.parametrize("n", [3, 5, 12])
@pytest.mark.parametrize("scale", [20.0, 1e3, 1e6])
def test_dominant_matchings_are_exact(n, scale):
    w = scale * scores_of("dominant", n, np.random.default_rng(n))
    rows, cols = linear_sum_assignment(w, maximize=True)
    found = BipartiteMatching((n, n)).marginals(w.ravel(), None, 1e-8)
    assert found.value == pytest.approx(w[rows, cols].sum(), rel=1e-12)
    np.testing.assert_allclose(found.tau.reshape(n, n), np.eye(n)[cols], atol=1e-8)


@pytest.mark.parametrize("scale", [30.0, 100.0, 1e4, 1e6])
@pytest.mark.parametrize("gap", [0.0, 1e-9, 1e-3])
def test_two_optimal_matchings(scale, gap):
    # Disjoint cycles of pairs: each 2 x 2 block is as good as its better matching.
    block = np.array([[1.0, 1.0], [1.0, 1.0 + gap]])
    w = scale * np.kron(np.eye(3), block) - scale * (1 - np.kron(np.eye(3), np.ones((2, 2))))
    found = marginals(BipartiteMatching((6, 6)), w, tol=1e-6)
    best = 3.0 * scale * (2.0 + gap)
    assert best <= found.log_partition + found.gap + 1e-9 * scale
    assert found.log_partition == pytest.approx(best, rel=1e-9, abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1e3, 1e5, 1e6])
def test_huge_scores_keep_their_certificates(kind, scale):
    for n in (2, 3, 6):
        w = scale * scores_of(kind, n, np.random.default_rng(n))
        rows, cols = linear_sum_assignment(w, maximize=True)
        best = float(w[rows, cols].sum())
        found = BipartiteMatching((n, n)).marginals(w.ravel(), None, 1e-6)
        slack = 1e-6 + 1e-10 * n * scale
        assert np.isfinite([found.value, found.upper_bound]).all()
        assert np.isfinite(found.tau).all()
        # A matching has no entropy, and n (log n) bounds that of any point.
        assert best - slack <= found.upper_bound
        assert best - slack <= found.value <= best + n * np.log(n) + slack
