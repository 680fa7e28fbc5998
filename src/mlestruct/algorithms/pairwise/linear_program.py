"""MAP decoding of pairwise graphs with any number of states: the local-polytope linear program.

Scores and solutions have the overcomplete layout: n_nodes * n_states node entries, node by node,
then n_states * n_states entries per edge, edge by edge, the state of the tail changing slowest.
"""

from __future__ import annotations

from functools import cached_property
from threading import Event, Lock
from typing import Any

import highspy
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from ..._running import wait_for
from ..edge_lists import checked_edges, checked_scores

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class PolytopeProgram:
    """Linear programs over one polytope whose scores change from call to call.

    HiGHS keeps the last basis, so a call is fast where scores have moved little. Safe to call from
    several threads, one at a time. Subclasses make `_highs`, the program without costs.
    """

    _highs: Any

    def __init__(self, size: int) -> None:
        self.size = size
        self._columns = np.arange(size, dtype=np.int32)
        self._lock = Lock()

    def solve(self, scores: ArrayLike, fresh: bool = False) -> tuple[Floats, float]:
        """A vertex `tau`, of the shape of `scores`, that maximises scores . tau, and the maximum.

        `fresh` discards the last basis: where there are several optima, the one found then depends
        on the scores only.

        Raises
        ------
        RuntimeError
            If HiGHS does not reach the optimum.
        """
        given = checked_scores("scores", scores, self.size)
        scale = float(np.abs(given).max()) or 1.0  # tolerances of HiGHS are absolute
        with self._lock:
            if fresh:
                self._highs.clearSolver()
            self._highs.changeColsCost(self.size, self._columns, given / -scale)
            if self.size > 10_000:  # it may take seconds
                self._run_watched()
            else:
                self._highs.run()
            status = self._highs.getModelStatus()
            if status != highspy.HighsModelStatus.kOptimal:
                self._highs.clearSolver()
                raise RuntimeError(f"HiGHS stopped with: {self._highs.modelStatusToString(status)}")
            tau = np.array(self._highs.getSolution().col_value)
        for integer in (0.0, 1.0):  # up to the tolerance of HiGHS
            tau[np.abs(tau - integer) <= 1e-11] = integer
        return tau, float((given * tau).sum())

    def _run_watched(self) -> None:
        """Run HiGHS on a thread, to be ended by the deadline or by Ctrl-C."""
        stop = Event()

        def end_if_asked(event: Any) -> None:
            if stop.is_set():
                event.interrupt()

        self._highs.cbSimplexInterrupt += end_if_asked
        try:
            wait_for("linear program", self._highs.run, cancel=stop.set)
        except BaseException:
            del self._highs  # still at work; the next call makes another
            raise
        self._highs.cbSimplexInterrupt -= end_if_asked


class LocalPolytope(PolytopeProgram):
    """Linear programs over the local polytope of a graph.

    Parameters
    ----------
    tail, head : integer arrays of shape (n_edges,), every undirected edge once
    n_states : number of states of every node

    Examples
    --------
    >>> program = LocalPolytope(2, [0], [1], n_states=2)
    >>> tau, value = program.solve([0.0, 1.0, 0.0, 0.0, 3.0, 0.0, 0.0, 1.0])
    >>> tau.tolist(), value
    ([1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0], 3.0)
    """

    def __init__(self, n_nodes: int, tail: ArrayLike, head: ArrayLike, n_states: int) -> None:
        if n_states < 1:
            raise ValueError(f"n_states must be at least 1, got {n_states}")
        self.n_nodes, self.n_states = int(n_nodes), int(n_states)
        self.tail, self.head = checked_edges(n_nodes, tail, head)
        self.n_edges = self.tail.size
        super().__init__(self.n_nodes * self.n_states + self.n_edges * self.n_states**2)

    @cached_property
    def _highs(self) -> highspy.Highs:
        """Built when first needed."""
        constraints = _constraints(self.n_nodes, self.tail, self.head, self.n_states)
        return equality_program(constraints, self.n_nodes)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and other processes build their own program."""
        return type(self), (self.n_nodes, self.tail, self.head, self.n_states)


def _constraints(n: int, tail: Ints, head: Ints, L: int) -> csr_array:
    """Node simplices, then the marginals of every edge's table at its tail and at its head.

    The last state at the head follows from the others.
    """
    m = tail.size
    node = np.arange(n * L).reshape(n, L)
    table = n * L + np.arange(m * L * L).reshape(m, L, L)
    at_tail = n + np.arange(m * L).reshape(m, L)
    at_head = n + m * L + np.arange(m * (L - 1)).reshape(m, L - 1)
    ones = [
        (np.arange(n)[:, None], node),
        (at_tail[:, :, None], table),
        (at_head[:, None, :], table[:, :, :-1]),
    ]
    minus_ones = [(at_tail, node[tail]), (at_head, node[head][:, :-1])]
    entries = [(r, c, 1.0) for r, c in ones] + [(r, c, -1.0) for r, c in minus_ones]
    rows = np.concatenate([np.broadcast_to(r, c.shape).ravel() for r, c, _ in entries])
    cols = np.concatenate([c.ravel() for _, c, _ in entries])
    values = np.concatenate([np.full(c.size, v) for _, c, v in entries])
    return csr_array((values, (rows, cols)), shape=(n + m * (2 * L - 1), n * L + m * L * L))


def equality_program(constraints: csr_array, n_sums: int) -> highspy.Highs:
    """Points of at least 0 whose first `n_sums` rows of constraints are 1, the others 0."""
    n_rows, n_columns = constraints.shape
    right = np.zeros(n_rows)
    right[:n_sums] = 1.0
    lp = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = n_rows, n_columns
    lp.col_cost_ = lp.col_lower_ = np.zeros(n_columns)
    lp.col_upper_ = np.full(n_columns, highspy.kHighsInf)
    lp.row_lower_ = lp.row_upper_ = right
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = constraints.indptr
    lp.a_matrix_.index_ = constraints.indices
    lp.a_matrix_.value_ = constraints.data
    highs = highspy.Highs()
    options: dict[str, bool | int | float | str] = {
        "output_flag": False,
        "threads": 1,
        "solver": "simplex",  # dual: faster than primal, also from a warm basis
        "primal_feasibility_tolerance": 1e-10,
        "dual_feasibility_tolerance": 1e-10,
    }
    for option, value in options.items():
        highs.setOptionValue(option, value)
    highs.passModel(lp)
    return highs
