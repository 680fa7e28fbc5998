"""Bipartite matchings by enumeration, in plain NumPy: what the tests compare the library with.

Coordinates are laid out as documented: allowed pairs row by row, then one per row that may stay
single, then one per column that may. Nothing here calls the library except `Space.structure`.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from random_scores import generators
from scipy.special import logsumexp, xlogy

from mlestruct.structures import BipartiteGraph, BipartiteMatching


def all_matchings(mask):
    """Every matching of a mask, as partner column per row (-1: single)."""
    n, m = mask.shape

    def extend(i, used):
        if i == n:
            yield ()
            return
        for rest in extend(i + 1, used):
            yield (-1, *rest)
        for j in range(m):
            if mask[i, j] and j not in used:
                for rest in extend(i + 1, used | {j}):
                    yield (j, *rest)

    return [np.array(label, dtype=int) for label in extend(0, frozenset())]


def covering_matchings(mask):
    """The matchings that cover every node of the smaller side."""
    return [y for y in all_matchings(mask) if (y >= 0).sum() == min(mask.shape)]


@dataclass(frozen=True, eq=False)
class Space:
    """An output space: mask of allowed pairs, whether matchings are perfect, rho per node."""

    mask: np.ndarray
    perfect: bool = True
    rho_rows: np.ndarray | float = 1.0
    rho_cols: np.ndarray | float = 1.0

    @property
    def free_rows(self):
        return not self.perfect or self.mask.shape[0] > self.mask.shape[1]

    @property
    def free_cols(self):
        return not self.perfect or self.mask.shape[1] > self.mask.shape[0]

    @cached_property
    def structure(self):
        n, m = self.mask.shape
        rho = np.broadcast_to(self.rho_rows, n), np.broadcast_to(self.rho_cols, m)
        return BipartiteMatching(BipartiteGraph.from_mask(self.mask), rho, self.perfect)

    def with_rho(self, rho):
        return Space(self.mask, self.perfect, rho, rho)

    @cached_property
    def constraints(self):
        """Rows of 0/1: every node's pairs and its staying single sum to 1."""
        n, m = self.mask.shape
        row, col = np.nonzero(self.mask)
        blocks = [np.vstack([row == i for i in range(n)] + [col == j for j in range(m)])]
        if self.free_rows:
            blocks.append(np.vstack([np.eye(n), np.zeros((m, n))]))
        if self.free_cols:
            blocks.append(np.vstack([np.zeros((n, m)), np.eye(m)]))
        return np.hstack(blocks).astype(float)

    @property
    def size(self):
        return self.constraints.shape[1]

    @cached_property
    def labels(self):
        return covering_matchings(self.mask) if self.perfect else all_matchings(self.mask)

    @cached_property
    def vertices(self):
        """0/1 matrix of shape (number of matchings, size)."""
        row, col = np.nonzero(self.mask)
        out = []
        for y in self.labels:
            parts = [y[row] == col]
            if self.free_rows:
                parts.append(y < 0)
            if self.free_cols:
                parts.append(~np.isin(np.arange(self.mask.shape[1]), y))
            out.append(np.concatenate(parts))
        return np.array(out, dtype=float).reshape(len(out), self.size)

    def entropy(self, tau):
        """H_rho, term by term."""
        n, m = self.mask.shape
        rows, cols = np.broadcast_to(self.rho_rows, n), np.broadcast_to(self.rho_cols, m)
        row, col = np.nonzero(self.mask)
        pair, single = tau[: row.size], tau[row.size :]
        total = ((rows[row] + cols[col] - 1) * xlogy(1 - pair, 1 - pair) - xlogy(pair, pair)).sum()
        rho = np.concatenate([rows if self.free_rows else [], cols if self.free_cols else []])
        return float(total - (rho * xlogy(single, single)).sum())

    def objective(self, scores, tau):
        return float(scores @ tau) + self.entropy(tau)

    def best_score(self, scores):
        return float((self.vertices @ scores).max())

    def log_partition(self, scores):
        return float(logsumexp(self.vertices @ scores))

    def exact_marginals(self, scores):
        scored = self.vertices @ scores
        return np.clip(np.exp(scored - logsumexp(scored)) @ self.vertices, 0.0, 1.0)

    def random_point(self, rng, concentration=1.0):
        """A mixture of matchings; small concentrations lie near one of them."""
        shares = rng.dirichlet(np.full(len(self.vertices), concentration))
        return np.clip(shares @ self.vertices, 0.0, 1.0)

    def infeasibility(self, tau):
        """How far tau is from satisfying all constraints."""
        return max(np.abs(self.constraints @ tau - 1).max(), -tau.min(), 0.0)


@st.composite
def spaces(draw, max_side=4, min_side=1, rho=(0.5, 1.0)):
    """Spaces with at least one matching; rho per node, uniform in the given range."""
    n, m = draw(st.tuples(*[st.integers(min_side, max_side)] * 2))
    perfect = draw(st.booleans())
    mask = draw(arrays(bool, (n, m)) | st.just(np.ones((n, m), bool)))
    rng = draw(generators)
    if perfect:
        mask = mask.copy()
        size = min(n, m)
        mask[rng.permutation(n)[:size], rng.permutation(m)[:size]] = True
    return Space(mask, perfect, rng.uniform(*rho, n), rng.uniform(*rho, m))


def complete(n, m=None, perfect=True, rho=1.0):
    """All pairs allowed, the same rho everywhere."""
    return Space(np.ones((n, n if m is None else m), bool), perfect, rho, rho)
