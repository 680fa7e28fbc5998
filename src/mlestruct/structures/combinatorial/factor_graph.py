"""Factor graphs: factors over any number of variables, each with its own number of states.

Coordinates of tau: the states of all variables, then the joint states of every factor. The
entropy has general counting numbers,

    H = sum_f c_f H(tau_f) + sum_i d_i H(tau_i),

the polytope is the local one: factors agree on the marginals of their variables. Coordinates of a
factor are its joint states, the state of its last variable changing fastest.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Any

import highspy
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import Bounds as Limits
from scipy.optimize import LinearConstraint, linprog, milp
from scipy.sparse import csr_array, vstack
from scipy.special import logsumexp

from ...algorithms.pairwise.junction_tree import LARGEST_TABLE
from ...algorithms.pairwise.linear_program import PolytopeProgram, equality_program
from ...exceptions import TooLargeToCount
from ..contract import Bounds, Decoding, Structure, Vertex
from ..decoder import bounds_by_decoding
from ..entropy import SeparableEntropy, factor_entropy

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class FactorGraph(Structure):
    """Output space of labellings scored by factors over any number of variables.

    Decoded by a linear program over the local polytope (HiGHS), predictions by an integer program;
    `exact` sums over all labellings of small graphs.

    Parameters
    ----------
    n_states : number of states, of every variable
    factors : sequence of tuples of different variables
    counting : c_f, a number or one for each factor
        1 is the Bethe entropy. By default 1 over the largest number of factors that share a
        variable of the factor: with d_i >= 0 this is concave, and by Shearer's lemma log Z_rho is
        an upper bound of log Z.
    variables : d_i, for each variable; by default 1 minus the sum of c_f of its factors

    Attributes
    ----------
    has_bound : whether the entropy is concave (Heskes' condition), so that certificates hold

    Examples
    --------
    Three bits of even parity, with a preference for ones:

    >>> import numpy as np
    >>> from mlestruct.inference import marginals
    >>> from mlestruct.structures import FactorGraph
    >>> bits = FactorGraph([2, 2, 2], [(0, 1, 2)])
    >>> even = np.add.outer(np.add.outer([0, 1], [0, 1]), [0, 1]) % 2 == 0
    >>> found = marginals(bits, bits.from_tables([[0.0, 1.0]] * 3, [np.where(even, 0.0, -50.0)]))
    >>> bool(np.allclose(found.tau[:6:2], 1 - found.tau[1:6:2])), found.converged
    (True, True)
    """

    def __init__(
        self,
        n_states: Sequence[int],
        factors: Sequence[Sequence[int]],
        counting: ArrayLike | None = None,
        variables: ArrayLike | None = None,
    ):
        sizes = [int(size) for size in n_states]
        if not sizes or min(sizes) < 2:
            raise ValueError(f"n_states: expected at least 2 for every variable, got {n_states!r}")
        groups = [tuple(int(i) for i in factor) for factor in factors]
        for f, group in enumerate(groups):
            if (
                not group
                or len(set(group)) != len(group)
                or not set(group) <= set(range(len(sizes)))
            ):
                raise ValueError(
                    f"factors[{f}]: expected different variables of 0 .. {len(sizes) - 1}, "
                    f"got {group}"
                )
        self.polytope = FactorPolytope(sizes, groups)
        self.n_coordinates = self.polytope.size
        degree = np.bincount([i for group in groups for i in group], minlength=len(sizes))
        cover = [1.0 / max(degree[i] for i in group) for group in groups]
        weights = np.asarray(cover if counting is None else counting, dtype=np.float64)
        self.counting = np.broadcast_to(weights, (len(groups),))
        rest = self._rest() if variables is None else variables
        self.variables = np.broadcast_to(np.asarray(rest, dtype=np.float64), (len(sizes),))
        self.fingerprint = (
            f"factors {sizes} {groups} {self.counting.tolist()} {self.variables.tolist()}"
        )

    def _rest(self) -> Floats:
        """What is missing at each variable for it to be counted once."""
        out = np.ones(self.n_nodes)
        for group, weight in zip(self.polytope.factors, self.counting.tolist(), strict=True):
            out[list(group)] -= weight
        return np.where(np.abs(out) < 1e-12, 0.0, out)

    @property
    def n_nodes(self) -> int:
        return len(self.polytope.n_states)

    @cached_property
    def has_bound(self) -> bool:
        """Whether the entropy is concave on the local polytope."""
        return _is_concave(self.polytope.factors, self.counting, self.variables)

    # ------------------------------------------------------------------ tables
    def from_tables(self, variables: Sequence[ArrayLike], factors: Sequence[ArrayLike]) -> Floats:
        """Scores of all coordinates from tables of variables and factors."""
        out = np.zeros(self.n_coordinates)
        places = [*self.polytope.states, *self.polytope.tables]
        given = [*variables, *factors]
        if len(given) != len(places):
            raise ValueError(
                f"expected {len(places)} tables of variables and factors, got {len(given)}"
            )
        for place, table in zip(places, given, strict=True):
            out[place] = np.asarray(table, dtype=np.float64).reshape(place.shape)
        return out

    def variable_marginals(self, tau: Floats) -> list[Floats]:
        """P(state) of every variable."""
        return [tau[group] for group in self.polytope.states]

    # ------------------------------------------------------------------ entropy
    @cached_property
    def stepping_entropy(self) -> SeparableEntropy:
        groups = [*self.polytope.states, *(table.ravel() for table in self.polytope.tables)]
        weights = np.concatenate([self.variables, self.counting])
        return factor_entropy(self.n_coordinates, groups, weights)

    def entropy(self, tau: Floats) -> float:
        """H(tau)."""
        return self.stepping_entropy(tau)

    def entropy_gradient(self, tau: Floats) -> Floats:
        """Gradient of H."""
        return self.stepping_entropy.gradient(tau)

    def interior(self) -> Floats:
        """All labellings equally probable."""
        out = np.empty(self.n_coordinates)
        for place in [*self.polytope.states, *self.polytope.tables]:
            out[place] = 1.0 / place.size
        return out

    # ------------------------------------------------------------------ outputs
    def encode(self, label: Any) -> Vertex:
        """The vertex of the states of all variables."""
        states = np.asarray(label)
        sizes = np.array(self.polytope.n_states)
        if states.shape != sizes.shape or states.dtype.kind not in "iub":
            raise ValueError(
                f"label: expected {sizes.size} whole numbers, the states of all variables, "
                f"got shape {states.shape} of {states.dtype}"
            )
        if (states < 0).any() or (states >= sizes).any():
            i = int(np.argmax((states < 0) | (states >= sizes)))
            raise ValueError(f"label: variable {i} has states 0 to {sizes[i] - 1}, got {states[i]}")
        at = [group[s] for group, s in zip(self.polytope.states, states.tolist(), strict=True)]
        at += [
            table[tuple(states[list(group)].tolist())]
            for group, table in zip(self.polytope.factors, self.polytope.tables, strict=True)
        ]
        return Vertex(np.array(at, dtype=np.int64), np.ones(len(at)))

    def label(self, vertex: Vertex) -> Ints:
        """The state of every variable."""
        tau = vertex.dense(self.n_coordinates)
        return np.array([int(np.argmax(tau[group])) for group in self.polytope.states])

    def hamming_loss(self, vertex: Vertex) -> tuple[float, Floats]:
        """The share of variables in another state, as constant + <scores, tau>."""
        scores = np.zeros(self.n_coordinates)
        seen = np.concatenate(self.polytope.states)
        scores[seen] = -vertex.dense(self.n_coordinates)[seen] / self.n_nodes
        return 1.0, scores

    # ------------------------------------------------------------------ inference
    def decode(self, scores: Floats, warm: Floats | None = None, prices: bool = False) -> Decoding:
        """A vertex of the local polytope, which may have fractions."""
        tau, score = self.polytope.solve(scores)
        at = np.flatnonzero(tau > 0.0)
        return Decoding(Vertex(at, tau[at]), score)

    def best_label(self, scores: Floats) -> Ints:
        """The best labelling itself, by an integer program where the linear one has fractions."""
        return self.polytope.best_states(scores)

    def exact(self, scores: Floats) -> CountedLabellings:
        """Sums over all labellings; TooLargeToCount where there are too many."""
        return CountedLabellings(self.polytope, scores)

    def log_partition_bounds(self, scores: Floats, tol: float) -> Bounds:
        """Labellings found on the way from below; a cover by factors from above (Shearer)."""
        cover = self._cover
        return bounds_by_decoding(cover, scores, tol, cover.stepping_entropy, "cover by factors")

    @cached_property
    def _cover(self) -> FactorGraph:
        """The same outputs with the default counting numbers, whatever they are here."""
        return FactorGraph(self.polytope.n_states, self.polytope.factors)


class CountedLabellings:
    """An `ExactDistribution` over labellings, from the scores of all of them."""

    def __init__(self, polytope: FactorPolytope, scores: Floats):
        n_states = polytope.n_states
        if prod(n_states) > LARGEST_TABLE:
            raise TooLargeToCount(
                f"{prod(n_states):.3g} labellings, too many to sum over (at most {LARGEST_TABLE})"
            )
        factors = [*((i,) for i in range(len(n_states))), *polytope.factors]
        tables = list(zip(factors, [*polytope.states, *polytope.tables], strict=True))
        joint = np.zeros(n_states)
        for factor, places in tables:
            shape = [size if i in factor else 1 for i, size in enumerate(n_states)]
            joint += np.transpose(scores[places], np.argsort(factor)).reshape(shape)
        self.log_partition = float(logsumexp(joint))
        self._chance, self.tau = np.exp(joint - self.log_partition), np.empty(polytope.size)
        for factor, places in tables:
            others = tuple(i for i in range(len(n_states)) if i not in factor)
            table = self._chance.sum(axis=others)  # axes in increasing order
            self.tau[places] = np.transpose(table, np.argsort(np.argsort(factor)))

    def sample(self, n_samples: int, rng: np.random.Generator) -> Ints:
        """Independent labels, shape (n_samples, n_variables)."""
        chance = self._chance.ravel()
        drawn = rng.choice(chance.size, size=n_samples, p=chance / chance.sum())
        return np.stack(np.unravel_index(drawn, self._chance.shape), axis=1).astype(np.int64)


class FactorPolytope(PolytopeProgram):
    """Linear program over the local polytope of a factor graph.

    Parameters
    ----------
    n_states : number of states of every variable
    factors : the variables of every factor

    Attributes
    ----------
    states : for each variable the coordinates of its states
    tables : for each factor the coordinates of its joint states, an array with an axis a variable
    """

    def __init__(self, n_states: Sequence[int], factors: Sequence[tuple[int, ...]]):
        self.n_states, self.factors = tuple(n_states), [tuple(factor) for factor in factors]
        ends = np.cumsum([0, *self.n_states])
        self.states = [np.arange(a, b) for a, b in pairwise(ends.tolist())]
        self.tables: list[Ints] = []
        start = int(ends[-1])
        for factor in self.factors:
            shape = tuple(self.n_states[i] for i in factor)
            self.tables.append(start + np.arange(prod(shape)).reshape(shape))
            start += prod(shape)
        super().__init__(start)

    @cached_property
    def constraints(self) -> csr_array:
        """Rows: variables sum to 1; then every factor has the marginals of its variables."""
        rows, columns, values = [], [], []
        at = len(self.states)
        for i, group in enumerate(self.states):
            rows.append(np.full(group.size, i))
            columns.append(group)
            values.append(np.ones(group.size))
        for factor, table in zip(self.factors, self.tables, strict=True):
            for axis, i in enumerate(factor):
                for state in range(self.n_states[i]):
                    joint = np.take(table, state, axis=axis).ravel()
                    rows.append(np.full(joint.size + 1, at))
                    columns.append(np.append(joint, self.states[i][state]))
                    values.append(np.append(np.ones(joint.size), -1.0))
                    at += 1
        entries = np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))
        return csr_array(entries, shape=(at, self.size))

    @cached_property
    def _highs(self) -> highspy.Highs:
        return equality_program(self.constraints, len(self.states))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.n_states, self.factors)

    def best_states(self, scores: Floats) -> Ints:
        """The best labelling, by an integer program where the linear one has fractions."""
        tau, _ = self.solve(scores, fresh=True)
        if not np.isin(tau[: self.tables[0].min()] if self.tables else tau, (0.0, 1.0)).all():
            right = np.zeros(self.constraints.shape[0])
            right[: len(self.states)] = 1.0
            integral = np.zeros(self.size)
            integral[np.concatenate(self.states)] = 1
            scale = float(np.abs(scores).max()) or 1.0
            found = milp(
                -scores / scale,
                constraints=LinearConstraint(self.constraints, right, right),
                bounds=Limits(0.0, 1.0),
                integrality=integral,
            )
            if not found.success:
                raise RuntimeError(f"HiGHS stopped with: {found.message}")
            tau = found.x
        return np.array([int(np.argmax(tau[group])) for group in self.states])


def _is_concave(factors: Sequence[tuple[int, ...]], counting: Floats, variables: Floats) -> bool:
    """Whether sum c_f H_f + sum d_i H_i is concave on every local polytope, by a linear program.

    It is if shares s_fi >= 0 of the factors exist with sum over i of s_fi <= c_f and d_i + sum over
    f of s_fi >= 0 (Heskes 2006): every negative d_i is then made up for by entropies of factors
    given the variable.
    """
    pairs = [(f, i) for f, factor in enumerate(factors) for i in factor]
    if not pairs:
        return bool((variables >= 0.0).all())
    f, i = np.array(pairs).T
    column = np.arange(len(pairs))
    of_factor = csr_array((np.ones(len(pairs)), (f, column)), shape=(len(counting), len(pairs)))
    of_variable = csr_array((np.ones(len(pairs)), (i, column)), shape=(len(variables), len(pairs)))
    limits = np.concatenate([counting, variables]) + 1e-9
    found = linprog(
        np.zeros(len(pairs)), A_ub=vstack([of_factor, -of_variable]), b_ub=limits, method="highs"
    )
    return bool(found.status == 0)
