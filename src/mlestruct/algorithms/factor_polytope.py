"""The local polytope of a factor graph: linear program, integer program, sums over all states.

Coordinates are the states of all variables, then the joint states of every factor, the state of its
last variable changing fastest.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Any

import highspy
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import csr_array, vstack
from scipy.special import logsumexp

from ..exceptions import TooLargeToCount
from .pairwise.linear_program import PolytopeProgram, equality_program
from .pairwise.separators import LARGEST_TABLE

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
                bounds=Bounds(0.0, 1.0),
                integrality=integral,
            )
            if not found.success:
                raise RuntimeError(f"HiGHS stopped with: {found.message}")
            tau = found.x
        return np.array([int(np.argmax(tau[group])) for group in self.states])

    # ------------------------------------------------------------------ all states
    def joint_scores(self, scores: Floats) -> Floats:
        """The score of every labelling, an array with an axis a variable."""
        n_labellings = prod(self.n_states)
        if n_labellings > LARGEST_TABLE:
            raise TooLargeToCount(
                f"{n_labellings:.3g} labellings, too many to sum over (at most {LARGEST_TABLE})"
            )
        total = np.zeros(self.n_states)
        for i, group in enumerate(self.states):
            total += self._spread(scores[group], (i,))
        for factor, table in zip(self.factors, self.tables, strict=True):
            total += self._spread(scores[table], factor)
        return total

    def _spread(self, values: Floats, factor: tuple[int, ...]) -> Floats:
        """A factor's table as an array that broadcasts over all variables."""
        order = np.argsort(factor)
        shape = [1] * len(self.n_states)
        for i in factor:
            shape[i] = self.n_states[i]
        return np.transpose(values, order).reshape(shape)

    def sum_marginals(self, joint: Floats) -> tuple[float, Floats]:
        """log Z and tau from the scores of all labellings."""
        log_z = float(logsumexp(joint))
        chance = np.exp(joint - log_z)
        tau = np.empty(self.size)
        everything = set(range(len(self.n_states)))
        for factor, places in [
            *(((i,), group) for i, group in enumerate(self.states)),
            *zip(self.factors, self.tables, strict=True),
        ]:
            table = chance.sum(axis=tuple(everything - set(factor)))  # axes in increasing order
            tau[places] = np.transpose(table, np.argsort(np.argsort(factor)))
        return log_z, tau


def is_concave(factors: Sequence[tuple[int, ...]], counting: Floats, variables: Floats) -> bool:
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
