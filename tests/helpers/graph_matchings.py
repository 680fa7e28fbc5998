"""Matchings and b-matchings of small general graphs by enumeration, in plain NumPy.

Coordinates are laid out as documented: edges in the order of the strict upper triangle, then, if
any node may have fewer partners than its capacity, one per node for its unused capacity. Nothing
here calls the library except `Space.local` and `Space.exact`.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from hypothesis import strategies as st
from random_scores import generators
from scipy.optimize import linprog
from scipy.special import logsumexp, xlogy

from mlestruct.structures.graphs.simple import SimpleGraph
from mlestruct.structures.matchings.local import LocalMatching
from mlestruct.structures.matchings.matching_polytope import MatchingPolytope


def fillings(n, edges, capacity, free, levels):
    """All edge values out of `levels` that respect capacities; exact nodes are filled."""
    values, left = np.zeros((1, 0)), np.asarray(capacity, float)[None, :]
    last = {int(i): k for k, e in enumerate(edges) for i in e}

    def settle(nodes):
        return [i for i in nodes if not free[i]]

    keep = np.all(left[:, settle(set(range(n)) - set(last))] == 0, axis=1)
    values, left = values[keep], left[keep]
    for k, (i, j) in enumerate(edges):
        x = np.repeat(levels, len(values))
        values = np.column_stack([np.tile(values, (len(levels), 1)), x])
        left = np.tile(left, (len(levels), 1))
        left[:, [i, j]] -= x[:, None]
        closed = settle(v for v in (i, j) if last[int(v)] == k)
        keep = (left[:, [i, j]] >= 0).all(axis=1) & (left[:, closed] == 0).all(axis=1)
        values, left = values[keep], left[keep]
    return values, left


@dataclass(frozen=True, eq=False)
class Space:
    """An output space: mask of allowed pairs, nodes to be filled, capacities, rho per node."""

    mask: np.ndarray
    perfect: np.ndarray | bool = True
    rho: np.ndarray | float = 1.0
    capacity: np.ndarray | int = 1

    @property
    def n(self):
        return self.mask.shape[0]

    @cached_property
    def edges(self):
        return np.argwhere(np.triu(self.mask, 1))

    @property
    def n_edges(self):
        return len(self.edges)

    @cached_property
    def free(self):
        return ~np.broadcast_to(np.asarray(self.perfect, bool), (self.n,))

    @cached_property
    def capacities(self):
        return np.broadcast_to(self.capacity, (self.n,))

    @cached_property
    def rhos(self):
        """rho of every node; where some capacity is above 1, it is 0 there and 1/2 elsewhere."""
        if (self.capacities > 1).any():
            return np.where(self.capacities > 1, 0.0, 0.5)
        return np.broadcast_to(np.asarray(self.rho, float), (self.n,))

    @property
    def size(self):
        return self.n_edges + (self.n if self.free.any() else 0)

    @property
    def graph(self):
        return SimpleGraph.from_mask(self.mask)

    @cached_property
    def local(self):
        return LocalMatching(self.graph, self.rho, self.perfect, self.capacity)

    @cached_property
    def exact(self):
        assert np.all(self.capacities == 1)
        return MatchingPolytope(self.graph, self.rho, bool(np.all(self.perfect)))

    def with_rho(self, rho):
        return Space(self.mask, self.perfect, rho, self.capacity)

    def with_slack(self, edges, slack):
        return np.hstack([edges, slack]) if self.free.any() else edges

    @cached_property
    def vertices(self):
        """All (b-)matchings, as a matrix of shape (number, size)."""
        return self.with_slack(
            *fillings(self.n, self.edges, self.capacities, self.free, (0.0, 1.0))
        )

    @cached_property
    def halves(self):
        """All half-integral points of the local polytope; its vertices are among them."""
        return self.with_slack(
            *fillings(self.n, self.edges, self.capacities, self.free, (0.0, 0.5, 1.0))
        )

    @cached_property
    def incidence(self):
        """Rows of 0/1: every node's edges and its unused capacity sum to its capacity."""
        nodes = np.arange(self.n)[:, None]
        ends = (self.edges[:, 0] == nodes) | (self.edges[:, 1] == nodes)
        return self.with_slack(ends, np.diag(self.free)).astype(float)

    def infeasibility(self, tau):
        """How far tau is from the local polytope."""
        wrong = np.abs(self.incidence @ tau - self.capacities).max(initial=0.0)
        if self.free.any():
            wrong = max(wrong, np.abs(tau[self.n_edges :][~self.free]).max(initial=0.0))
        return max(wrong, -tau.min(initial=0.0), tau[: self.n_edges].max(initial=0.0) - 1.0)

    # ------------------------------------------------------------------ entropy
    @cached_property
    def weights(self):
        """a and c of  -a t log t + c (1-t) log(1-t),  coordinate by coordinate."""
        i, j = self.edges.T
        a = self.with_slack(np.ones(self.n_edges), np.where(self.free, self.rhos, 0.0))
        c = self.with_slack(self.rhos[i] + self.rhos[j] - 1.0, np.zeros(self.n))
        return a, c

    def entropy(self, tau, varies=slice(None)):
        """H_rho; `varies` leaves out fixed coordinates."""
        a, c = (x[varies] for x in self.weights)
        t = tau[varies]
        rest = np.where(c == 0.0, 1.0, np.maximum(1.0 - t, 0.0))
        return float((c * xlogy(rest, rest) - a * xlogy(t, t)).sum())

    def entropy_slope(self, tau):
        a, c = self.weights
        with np.errstate(all="ignore"):
            up = np.where(a == 0.0, 0.0, -a * (1.0 + np.log(np.maximum(tau, 1e-300))))
            down = np.where(c == 0.0, 0.0, -c * (1.0 + np.log(np.maximum(1.0 - tau, 1e-300))))
        return up + down

    def local_varies(self):
        return np.ptp(self.halves, axis=0) > 0

    def objective(self, scores, tau, points):
        """<scores, tau> + H, coordinates that are the same at all points left out of H."""
        return float(scores @ tau) + self.entropy(tau, np.ptp(points, axis=0) > 0)

    # ------------------------------------------------------------------ exact answers
    def best_score(self, scores):
        return float((self.vertices @ scores).max())

    def log_partition(self, scores):
        return float(logsumexp(self.vertices @ scores))

    def exact_marginals(self, scores):
        scored = self.vertices @ scores
        return np.exp(scored - logsumexp(scored)) @ self.vertices

    def best_local(self, scores):
        """The optimum of the linear program over the local polytope, by HiGHS."""
        if self.size == 0:
            return 0.0
        upper = self.with_slack(np.ones(self.n_edges), np.where(self.free, np.inf, 0.0))
        bounds = np.stack([np.zeros(self.size), upper], axis=1)
        found = linprog(-scores, A_eq=self.incidence, b_eq=self.capacities, bounds=bounds)
        return -found.fun

    def distance_from_hull(self, tau):
        """max-norm distance of tau from the mixtures of matchings, by linear programming."""
        k, size = self.vertices.shape
        cost = np.append(np.zeros(k), 1.0)
        columns = np.vstack([self.vertices.T, -self.vertices.T])
        found = linprog(
            cost,
            A_ub=np.column_stack([columns, -np.ones(2 * size)]),
            b_ub=np.concatenate([tau, -tau]),
            A_eq=np.append(np.ones(k), 0.0)[None, :],
            b_eq=[1.0],
        )
        return found.fun

    def random_point(self, rng, concentration=1.0, points=None):
        """A mixture of matchings (or other points); small concentrations lie near one of them."""
        points = self.vertices if points is None else points
        shares = rng.dirichlet(np.full(len(points), concentration))
        return np.clip(shares @ points, 0.0, None)

    # ------------------------------------------------------------------ the concave program
    def local_optimum(self, scores):
        """Enclosure (low, high) of log Z_rho over the local polytope, and the point of `low`."""
        varies = self.local_varies()
        fixed = np.where(varies, 0.0, self.halves[0])
        basis = np.eye(self.size)[:, varies]
        rows = self.incidence[:, varies]
        return self._optimum(
            scores, self.halves, basis, fixed, rows, self.halves.mean(axis=0)[varies]
        )

    def exact_optimum(self, scores):
        """The same over mixtures of matchings."""
        k = len(self.vertices)
        start = np.full(k, 1.0 / k)
        nothing = np.zeros(self.size)
        return self._optimum(
            scores, self.vertices, self.vertices.T, nothing, np.ones((1, k)), start
        )

    def _optimum(self, scores, points, basis, fixed, rows, x):
        """Barrier method on tau = fixed + basis x, rows x constant; the gap by enumeration."""
        varies = np.ptp(points, axis=0) > 0
        if not varies.any():
            tau = points[0]
            return float(scores @ tau), float(scores @ tau), tau
        a, c = (np.where(varies, w, 0.0) for w in self.weights)
        _, values, axes = np.linalg.svd(rows)
        null = axes[(values > 1e-9).sum() :].T
        bounded = varies & (np.arange(self.size) < self.n_edges)

        def value(x, mu):
            tau = fixed + basis @ x
            if (x <= 0).any() or (tau[bounded] >= 1).any():
                return -np.inf
            barrier = np.log(x).sum() + np.log(1 - tau[bounded]).sum()
            return float(scores @ tau) + self.entropy(tau, varies) + mu * barrier

        low, high, best = -np.inf, np.inf, None
        for mu in 10.0 ** np.arange(-1, -11, -1.0):
            for _ in range(60):
                tau = fixed + basis @ x
                rest = np.where(bounded, 1 - tau, 1.0)
                safe = np.where(varies, tau, 1.0)
                down = np.where(bounded, mu / rest, 0.0)
                slope = scores - a * (1 + np.log(safe)) - c * (1 + np.log(rest)) - down
                bend = -a / safe + c / rest - np.where(bounded, mu / rest**2, 0.0)
                g = null.T @ (basis.T @ slope + mu / x)
                B = basis @ null
                H = B.T @ (bend[:, None] * B) - null.T @ ((mu / x**2)[:, None] * null)
                step = null @ np.linalg.lstsq(-H, g, rcond=None)[0]
                decrement = float((basis.T @ slope + mu / x) @ step)
                if not decrement > 1e-3 * mu:
                    break
                eta, now = 1.0, value(x, mu)
                while eta > 1e-12 and not value(x + eta * step, mu) > now + 0.1 * eta * decrement:
                    eta *= 0.5
                if eta <= 1e-12:
                    break
                x = x + eta * step
            tau = fixed + basis @ x
            slope = scores + np.where(varies, self.entropy_slope(tau), 0.0)
            now = float(scores @ tau) + self.entropy(tau, varies)
            if now > low:
                low, best = now, tau
            high = min(high, now + float((points @ slope).max() - tau @ slope))
        return low, high, best


def log_matchings(weights, single=None):
    """log of the sum over (perfect) matchings of all pairs, by a recursion over sets of nodes."""
    n = len(weights)
    total = np.full(1 << n, -np.inf)
    total[0] = 0.0
    for left in range(1, 1 << n):
        i = left.bit_length() - 1
        rest = left & ~(1 << i)
        terms = [weights[i, j] + total[rest & ~(1 << j)] for j in range(i) if rest >> j & 1]
        if single is not None:
            terms.append(single[i] + total[rest])
        total[left] = np.logaddexp.reduce(terms) if terms else -np.inf
    return float(total[-1])


def odd_set_violation(n, edges, tau):
    """The largest 1 - tau(edges leaving S) over odd sets S of the nodes; n even."""
    worst = -np.inf
    for size in range(3, n // 2 + 1, 2):
        for inside in combinations(range(n), size):
            leaving = np.isin(edges, inside).sum(axis=1) == 1
            worst = max(worst, 1.0 - tau[leaving].sum())
    return worst


rhos = st.sampled_from([0.5, 0.75, 0.95, 1.0, "mixed"])


def draw_rho(rng, n, rho):
    return rng.uniform(0.5, 1.0, n) if rho == "mixed" else rho


def random_mask(rng, n, density):
    upper = np.triu(rng.random((n, n)) < density, 1)
    return upper | upper.T


def with_perfect_matching(rng, mask):
    """The mask and the pairs of a random perfect matching (all but one node if n is odd)."""
    n = len(mask)
    mask, order = mask.copy(), rng.permutation(n)
    i, j = order[0 : n - 1 : 2], order[1:n:2]
    mask[i, j] = mask[j, i] = True
    return mask


@st.composite
def matching_spaces(draw, max_nodes=6, min_nodes=2, perfect=None, rho=rhos):
    """Spaces of matchings that have one; complete and sparse graphs."""
    rng = draw(generators)
    perfect = draw(st.booleans()) if perfect is None else perfect
    n = draw(st.integers(min_nodes, max_nodes))
    n -= n % 2 if perfect else 0
    density = draw(st.sampled_from([1.0, 0.0, 0.2, 0.4, 0.7]))
    mask = random_mask(rng, n, density)
    if perfect:
        mask = with_perfect_matching(rng, mask)
    return Space(mask, perfect, draw_rho(rng, n, draw(rho)))


@st.composite
def b_spaces(draw, max_nodes=5, rho=rhos):
    """Spaces of b-matchings with at least one; some, all or no nodes must be filled."""
    rng = draw(generators)
    n = draw(st.integers(2, max_nodes))
    mask = random_mask(rng, n, draw(st.sampled_from([1.0, 0.5, 0.8] if n < 5 else [0.4, 0.6])))
    which = draw(st.sampled_from(["all", "none", "some"]))
    return b_space(rng, mask, which, draw_rho(rng, n, draw(rho)))


def b_space(rng, mask, which, rho):
    """Capacities around the degrees of a random set of edges, which is a b-matching of them."""
    n = len(mask)
    chosen = mask & random_mask(rng, n, 0.5)
    used = chosen.sum(axis=1)
    perfect = {"all": np.ones(n, bool), "none": np.zeros(n, bool), "some": rng.random(n) < 0.5}
    perfect = perfect[which]
    capacity = np.where(perfect, used, used + rng.integers(0, 2, n))
    return Space(mask, perfect, rho, capacity)


def complete(n, perfect=True, rho=1.0, capacity=1):
    """All pairs allowed, the same rho and capacity everywhere."""
    return Space(~np.eye(n, dtype=bool), perfect, rho, capacity)


def from_edges(n, pairs, perfect=True, rho=1.0, capacity=1):
    mask = np.zeros((n, n), bool)
    for i, j in pairs:
        mask[i, j] = mask[j, i] = True
    return Space(mask, perfect, rho, capacity)


def two_triangles():
    """Two triangles joined by one edge: its perfect matchings must use that edge."""
    return [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (3, 5), (4, 5)]
