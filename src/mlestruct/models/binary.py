"""What `MultiLabelCRF` and `IsingMRF` share: yes/no answers, a graph, inference on it."""

from __future__ import annotations

import inspect
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import issparse
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.special import xlogy
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from .._arguments import as_positive, check_unmasked
from .._running import check_time, threaded_map
from ..exceptions import TooLargeToCount
from ..inference.marginals import marginals
from ..structures.graphs.pairwise import PairwiseGraph, check_edges
from ..structures.labellings.repeated import RepeatedBinary
from .base import Estimator

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Part = tuple[Floats, Floats, Ints | None]  # fields, couplings and known states of some samples
Bounds = tuple[Floats, Floats]

CONSTANT_SCALE = 10.0  # of constants beside couplings: rates of variables are hardly regularised
FALSE_POSITIVES = 0.05  # expected share of variables with a neighbour if all are independent
INTERCEPT_SCALING = 100.0  # liblinear penalises the intercept, divided by this

# scikit-learn 1.8 replaced penalty="l1" by l1_ratio=1.
_L1: dict[str, Any] = (
    {"penalty": "l1"}
    if inspect.signature(LogisticRegression).parameters["penalty"].default == "l2"
    else {"l1_ratio": 1.0}
)
GRAPHS = ("full", "tree", "none", "l1")
UNKNOWN = -1


# ---------------------------------------------------------------------- answers
class Answers:
    """The two classes of every column of a table of answers; the second one is "yes".

    Attributes
    ----------
    classes : list of ndarrays of shape (2,), one per column
    flat : bool, whether there is one column and its answers have the shape (n_samples,)
    """

    def __init__(self, classes: Sequence[Any], flat: bool = False):
        self.classes = [np.asarray(pair) for pair in classes]
        self.flat = flat
        mixed = len({pair.dtype.kind in "biuf" for pair in self.classes}) > 1  # numbers and text
        self._no, self._yes = np.array(list(classes), object if mixed else None).T

    def __len__(self) -> int:
        return len(self.classes)

    @classmethod
    def learn(cls, Y: Any) -> Answers:
        """The classes of observed answers: 0 and 1, or the two that occur in a column."""
        table = read_table(Y, "Y")
        classes = [_two_classes(column, j) for j, column in enumerate(table.T)]
        return cls(classes, flat=not issparse(Y) and np.asarray(Y).ndim == 1)

    def encode(self, Y: Any, name: str, n_samples: int | None = None, partly: bool = False) -> Ints:
        """Answers as 0 and 1, shape (n_samples, n_columns); with `partly`, -1 for an unknown one.

        Unknown are None, NaN and, unless it is a class, -1.
        """
        table = read_table(Y, name)
        if table.shape[1] != len(self):
            raise ValueError(f"{name}: expected {len(self)} columns, got {table.shape[1]}")
        if n_samples is not None and len(table) != n_samples:
            raise ValueError(f"X has {n_samples} samples but {name} has {len(table)} rows")
        yes = table == self._yes
        strange = ~(yes | (table == self._no))
        states = np.where(strange, UNKNOWN, yes.astype(np.int64))
        if partly:
            strange &= ~(_missing(table) | (table == UNKNOWN))
        if strange.any():
            m, j = np.argwhere(strange)[0]
            found = table[m, j].item() if isinstance(table[m, j], np.generic) else table[m, j]
            allowed = " or ".join(repr(label) for label in self.classes[j].tolist())
            hint = ". Pass a threshold, for example X > 0." if name == "X" else ""
            raise ValueError(f"{name}[{m}, {j}] is {found!r}, expected {allowed}{hint}")
        return states

    def decode(self, states: Ints) -> NDArray[Any]:
        """Answers of the classes from 0 and 1, shape (..., n_columns), or (...) if flat."""
        found = np.where(states == 1, self._yes, self._no)
        return found[..., 0] if self.flat else found

    def to_list(self) -> list[list[Any]]:
        """Plain types, for `Answers(...)` again."""
        return [pair.tolist() for pair in self.classes]


def read_table(Y: Any, name: str, flat: bool = True) -> NDArray[Any]:
    """A table of answers as an array of 2 dimensions; `flat`: one column may have only 1."""
    check_unmasked(Y, name)
    try:
        table = Y.toarray() if issparse(Y) else np.asarray(Y)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{name}: expected an array of labels: {error}") from None
    if table.dtype.kind == "c":
        raise ValueError(f"{name}: expected labels, got complex numbers")
    if table.ndim not in ((1, 2) if flat else (2,)) or table.shape[-1] == 0:
        shape = "(n_samples, n_labels)" if flat else "(n_samples, n_variables)"
        raise ValueError(f"{name}: expected shape {shape}, got {table.shape}")
    return table[:, None] if table.ndim == 1 else table


def _missing(table: NDArray[Any]) -> NDArray[np.bool_]:
    """Which entries are None or NaN."""
    if table.dtype.kind == "O":
        return np.array([x is None or x != x for x in table.flat], bool).reshape(table.shape)
    return np.isnan(table) if table.dtype.kind == "f" else np.zeros(table.shape, dtype=bool)


def _two_classes(column: NDArray[Any], j: int) -> NDArray[Any]:
    kind = column.dtype.kind
    if _missing(column).any():
        raise ValueError(f"Y contains NaN: column {j} has an answer that is NaN or None")
    if kind == "f" and np.isinf(column).any():
        raise ValueError(f"Y contains infinity: column {j} has an answer that is inf")
    try:
        found = np.unique(column)
    except TypeError as error:
        raise ValueError(f"Y: column {j} has answers of different types: {error}") from None
    if kind in "biuf" and np.isin(found, (0, 1)).all():
        return np.array([0, 1], dtype=column.dtype if kind in "iu" else np.int64)
    if kind == "f" and (found != np.round(found)).any():
        raise ValueError(f"Unknown label type: column {j} of Y is continuous, expected two classes")
    if found.size != 2:
        raise ValueError(
            f"Only binary classification is supported. Column {j} of Y has {found.size} "
            f"class{'es' * (found.size != 1)}, expected 0 and 1 or two others; a label of several "
            "states can be several columns"
        )
    return found


# ---------------------------------------------------------------------- estimators
class BinaryEstimator(Estimator):
    """Base of `MultiLabelCRF` and `IsingMRF`.

    Scores of samples are fields (n, n_nodes) and couplings (n, n_edges), with n = 1 if all samples
    have the same.
    """

    graph: Any
    inference: str

    _model: RepeatedBinary
    _answers: Answers

    @abstractmethod
    def _constants(self) -> Floats:
        """Of every weight: what its feature is in training if it is constant, else 1."""

    def _full_coef(self, theta: Floats) -> Floats:
        return theta * self._constants()

    def _solver_coef(self, model: Any) -> Floats:
        return np.asarray(model.coef_ / model._constants())

    # ------------------------------------------------------------------ the graph
    def _choose_graph(self, states: Ints, weights: Floats, select: Callable[[], Ints]) -> None:
        """Take the graph that the parameter names or lists; `select` finds the edges of "l1"."""
        n = states.shape[1]
        edges: Any = []
        if not isinstance(self.graph, str):
            edges = self.graph
        elif self.graph not in GRAPHS:
            raise ValueError(
                f"`graph` must be one of {list(GRAPHS)} or an array of pairs; got {self.graph!r}."
            )
        elif self.graph == "l1":
            edges = select()
        elif self.graph == "tree" and n > 1:
            edges = chow_liu_tree(states, weights)
        elif self.graph == "full":
            edges = np.stack(np.triu_indices(n, 1), axis=1)
        self._take_edges(edges)

    def _take_edges(self, edges: Any) -> None:
        graph = PairwiseGraph(len(self._answers), check_edges(edges, len(self._answers), "graph"))
        self._model = RepeatedBinary(graph, inference=self.inference)
        self.edges_ = np.stack([graph.tail, graph.head], axis=1).astype(np.int64)
        self.is_exact_ = self._model.tree is not None

    def _exact_tree(self, purpose: str) -> Any:
        if self._model.tree is None:
            why = (
                f"the graph of {len(self.edges_)} edges is too dense. Pass a sparser one, such as "
            )
            why += "graph='tree'"
            if self.inference == "reweighted":
                why = "inference='reweighted' has none. Pass inference='auto'"
            other = ", or use log_likelihood_bounds" if purpose == "log_likelihood" else ""
            raise TooLargeToCount(f"{purpose} needs exact inference; {why}{other}.")
        return self._model.tree

    # ------------------------------------------------------------------ questions
    def _parts(
        self, fields: Floats, couplings: Floats, known: Ints | None, alone: bool = False
    ) -> Iterator[Part]:
        """Chunks of samples, for threads, or each sample alone."""
        single = (slice(m, m + 1) for m in range(len(fields)))
        for part in single if alone else self._model.chunks(len(fields)):
            own = couplings if len(couplings) == 1 else couplings[part]
            yield fields[part], own, None if known is None else known[part]

    def _node_marginals(
        self,
        fields: Floats,
        couplings: Floats,
        known: Ints | None,
        tol: float = 1e-6,
        method: str = "auto",
        options: dict[str, Any] | None = None,
    ) -> Floats:
        """P(variable = 1) in all samples, shape (n_samples, n_nodes)."""
        as_positive(tol, "tol")
        own = method == "auto" or (method == "exact" and self.is_exact_)

        def one(part: Part) -> Floats:
            if own and not options:
                return self._model.marginals(*part, tol).nodes
            space, scores = self._model.query(*part)
            chosen = self._options(method, options or {})
            answer = marginals(space, scores, method, tol=tol * space.n_nodes, **chosen)
            return space.marginal_table(answer.tau)[:, 1].reshape(part[0].shape)

        # Outputs that Frank-Wolfe mixes are of all samples in a part: few mixtures suit them all.
        parts = self._parts(fields, couplings, known, alone=method == "fw")
        found = self._each(one, parts)
        return np.clip(np.concatenate(found), 0.0, 1.0)

    def _likelihood_bounds(
        self, states: Ints, fields: Floats, couplings: Floats, known: Ints | None, tol: float
    ) -> Bounds:
        """Bounds of log p of observed states, given the known states."""
        as_positive(tol, "tol")
        if known is not None:
            wrong = (known != UNKNOWN) & (known != states)
            if wrong.any():
                m, j = np.argwhere(wrong)[0].tolist()
                raise ValueError(f"known[{m}, {j}] differs from what was observed")
            fields = np.broadcast_to(fields, known.shape)

        def one(part: Part) -> Bounds:
            return self._model.log_partition_bounds(*part[:2], tol, part[2])

        scores = self._model.scores_of(states, fields, couplings)
        found = self._each(one, self._parts(fields, couplings, known))
        least, most = (np.concatenate(side) for side in zip(*found, strict=True))
        return np.minimum(scores - most, 0.0), np.minimum(scores - least, 0.0)


# ---------------------------------------------------------------------- structure search
def chow_liu_tree(states: Ints, weights: Floats) -> Ints:
    """The spanning tree of the largest mutual information (Chow and Liu 1968), shape (n - 1, 2).

    Counts start at 1/2 a cell, so that no pair of rare answers has all the information.
    """
    total = float(weights.sum()) + 2.0
    on = states.astype(np.float64)
    both = ((on * weights[:, None]).T @ on + 0.5) / total
    one = ((on * weights[:, None]).sum(axis=0) + 1.0) / total
    information = np.zeros_like(both)
    for pair, left, right in (
        (both, one, one),
        (one[:, None] - both, one, 1.0 - one),
        (one[None, :] - both, 1.0 - one, one),
        (1.0 - one[:, None] - one[None, :] + both, 1.0 - one, 1.0 - one),
    ):
        information += xlogy(pair, np.maximum(pair, 1e-300) / np.outer(left, right))
    cost = 1.0 + information.max() - information  # SciPy takes 0 for no edge
    tree = minimum_spanning_tree(np.triu(cost, 1)).tocoo()
    return np.stack([tree.row, tree.col], axis=1).astype(np.int64)


def select_neighbourhoods(
    states: Any,
    weights: Floats,
    l1: float = 1.0,
    predictions: Floats | None = None,
    n_jobs: int = 1,
) -> Ints:
    """Edges (i, j), i < j, by l1 neighbourhood selection (Ravikumar, Wainwright and Lafferty 2010).

    A logistic regression of every variable on all others, with an l1 penalty, selects its
    neighbours; an edge joins two variables that select each other. Columns are scaled to unit
    variance. The penalty of variable i is

        l1 * z * sqrt(n p_i (1 - p_i))

    with p_i its rate and z the normal quantile of 1 - FALSE_POSITIVES / (2 (n_variables - 1)): if
    all variables are independent, l1 = 1 leaves a variable without neighbours with a probability of
    about 1 - FALSE_POSITIVES.

    Parameters
    ----------
    states : integer array of shape (n_frames, n_variables), 0 and 1
    weights : array of shape (n_frames,)
    l1 : the penalty in units of the one above
    predictions : array of shape (n_frames, n_variables), optional
        What is known of every variable without the others, for example log odds given features; a
        column of its regression that is hardly penalised.
    n_jobs : threads over variables
    """
    n_variables, total = states.shape[1], float(weights.sum())
    on = sparse.csr_array(states.astype(np.float64))
    both = (on.T @ (on * weights[:, None])).toarray()
    rates = np.diag(both) / total
    spread = np.sqrt(np.maximum(rates * (1.0 - rates), 0.0))
    varies = spread > 1e-7  # more than rounding
    scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=varies)
    columns = sparse.csc_array(on * scale)
    quantile = float(norm.isf(FALSE_POSITIVES / (2.0 * max(n_variables - 1, 1))))
    # The gradient without neighbours: below the penalty, no neighbour is selected.
    slopes = np.abs(both - total * np.outer(rates, rates)) * scale
    found = np.zeros((n_variables, n_variables))

    def regress(i: int) -> None:
        check_time("the neighbours of all variables")
        others = np.flatnonzero(varies & (np.arange(n_variables) != i))
        penalty = l1 * quantile * np.sqrt(total) * spread[i]
        reached = predictions is not None or (slopes[i, others] > penalty).any()
        if not varies[i] or others.size == 0 or not reached:
            return
        design = columns[:, others]
        if predictions is not None:
            design = sparse.hstack([design, INTERCEPT_SCALING * predictions[:, i : i + 1]])
        regression = LogisticRegression(
            **_L1,
            C=1.0 / penalty,
            solver="liblinear",
            intercept_scaling=INTERCEPT_SCALING,
            tol=1e-4,
        )
        regression.fit(design.tocsr(), states[:, i], weights)
        found[i, others] = regression.coef_[0, : others.size]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # more neighbours than frames can tell
        with threaded_map(n_jobs, n_variables) as each:
            list(each(regress, range(n_variables)))
    return np.argwhere(np.triu((found != 0) & (found.T != 0))).astype(np.int64)
