"""Newton's system in the prices against dense linear algebra, and where it must be factored."""

from itertools import pairwise

import numpy as np
import pytest

from mlestruct.algorithms.matching import _newton_kernels as kernels
from mlestruct.algorithms.matching.newton import PriceSystem
from mlestruct.structures import BipartiteGraph, BipartiteMatching


def band(n, width):
    """Row i may take columns i, ..., i + width - 1, around a ring."""
    column = np.sort((np.arange(n)[:, None] + np.arange(width)) % n, axis=1)
    return BipartiteGraph(n, n, width * np.arange(n + 1), column.ravel())


def system(rng, perfect):
    """A system at random marginals of a band, and its matrix from the inverse Hessians of rows."""
    structure = BipartiteMatching(band(12, 4), 0.9, perfect)
    rows = structure._presolved.rows
    n, n_cols = rows.ptr.shape[0] - 1, rows.rho_cols.shape[0]
    t = rng.random(rows.col.shape[0])
    t /= np.repeat(np.add.reduceat(t, rows.ptr[:-1]), np.diff(rows.ptr))
    largest, h, spread, den = np.empty(n, np.int64), np.empty_like(t), np.empty(n), np.empty(n)
    z = rng.random(n_cols)
    largest[:] = [start + np.argmax(t[start:stop]) for start, stop in pairwise(rows.ptr)]
    kernels.factor_rows(rows, t, largest, 0.0, h, spread, den)
    matrix = np.zeros((n_cols + 1, n_cols + 1))
    for i in range(n):
        entries = np.arange(rows.ptr[i], rows.ptr[i + 1])
        hessian = np.diag(rows.a[entries] / t[entries] - rows.c[entries] / (1.0 - t[entries]))
        # Inverse on the simplex: the upper left block of the inverse of the bordered matrix.
        ones = np.ones((entries.size, 1))
        bordered = np.block([[hessian, ones], [ones.T, np.zeros((1, 1))]])
        inverse = np.linalg.inv(bordered)[:-1, :-1]
        matrix[np.ix_(rows.col[entries], rows.col[entries])] += inverse
    matrix = matrix[:-1, :-1]
    free = rows.rho_cols > 0
    matrix[free, free] += z[free] / rows.rho_cols[free]
    return rows, (h, spread, den, largest, z), matrix


@pytest.mark.parametrize("perfect", [True, False])
def test_matrix_and_solutions(perfect):
    rng = np.random.default_rng(0)
    for _ in range(5):
        rows, curvature, matrix = system(rng, perfect)
        solver = PriceSystem(rows)
        np.testing.assert_allclose(solver.matrix(*curvature).toarray(), matrix, atol=1e-12)
        rhs = np.append(matrix @ rng.normal(size=12), 0.0)
        for is_slow in (False, True):
            solver.is_slow = is_slow
            change = np.zeros(13)
            solver.solve(*curvature, rhs, 1e-12, change)
            np.testing.assert_allclose(matrix @ change[:-1], rhs[:-1], atol=1e-9)


@pytest.mark.parametrize("rho", [0.95, 1.0])
@pytest.mark.parametrize("width", [4, 8])
def test_long_bands_converge(rho, width):
    """Conjugate gradients would need about as many steps as there are columns."""
    structure = BipartiteMatching(band(2000, width), rho)
    scores = 2.0 * np.random.default_rng(1).normal(size=structure.n_coordinates)
    assert structure.marginals(scores, None, 1e-4).gap <= 1e-4
