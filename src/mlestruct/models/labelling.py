"""What `GridCRF`, `GraphCRF` and `ChainCRF` share: offsets, labels, weights per state."""

from __future__ import annotations

import numbers
import warnings
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from .. import metrics
from .._arguments import check_memory, check_same_length, check_samples, check_unmasked
from .._running import in_time
from ..features.labellings import PairwiseFeatures
from ..features.rows import Rows, prepared_rows
from ..learning.checkpoint import Checkpoint
from ..learning.problem import Block
from ..structures.contract import LabellingStructure, Vertex
from .base import check_scales, unchanged_on_failure
from .sample_estimator import SampleEstimator

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

LARGEST = 2**63 - 1  # of int64
UNKNOWN = -1  # the state number of a label that is not known
OTHER = UNKNOWN - 1  # the number of a label that is none of the states
NO_LABEL = "labels must be whole numbers or strings, None or NaN is an unknown label"


# ---------------------------------------------------------------------- offsets
@dataclass(frozen=True)
class NodeInput:
    """One sample of `GridCRF`, `GraphCRF` or `ChainCRF`: features, and scores that are known.

    Parameters
    ----------
    features : the sample as the estimator takes it: an array, a tuple, a list of dictionaries, ...
    offset : array of shape (*shape of labels, n_states), or (n_states,) for all nodes alike
        Added to the scores of the states of nodes and not learned, for example log-probabilities
        from elsewhere. States are in the order of `classes_`: sorted labels.
    edge_offset : array of shape (n_edges, n_states, n_states), or (n_states, n_states) for all
        edges alike
        Added to the scores of pairs of states, the tail's first: of neighbouring tokens, of listed
        edges, of the edges of a grid direction by direction, each row by row.

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct import ChainCRF, NodeInput
    >>> rng = np.random.default_rng(0)
    >>> Y = [np.repeat(rng.integers(2, size=4), 3) for _ in range(30)]
    >>> X = [np.eye(2)[y] + 0.5 * rng.normal(size=(12, 2)) for y in Y]
    >>> model = ChainCRF().fit(X, Y)
    >>> rare = NodeInput(X[0], offset=[0.0, -20.0])  # the second state is next to impossible
    >>> model.predict([rare])[0].tolist()
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    """

    features: Any
    offset: Any = None
    edge_offset: Any = None


@dataclass(frozen=True, eq=False)
class Offset:
    """Scores that are not learned: of nodes (n_nodes, L) and of edges (n_edges, L, L)."""

    nodes: Floats
    edges: Floats

    def take(self, nodes: Any, edges: Any) -> Offset:
        """The offsets of some nodes and edges."""
        return Offset(self.nodes[nodes], self.edges[edges])

    def scores(self, structure: LabellingStructure) -> Floats:
        """The same in the coordinates of an output space, up to a constant."""
        return structure.from_tables(self.nodes, self.edges)

    @classmethod
    def joined(cls, parts: Sequence[tuple[Offset | None, int, int]], n_states: int) -> Offset:
        """Offsets of parts side by side; each comes with its numbers of nodes and edges."""
        found = [
            own or Offset(np.zeros((n, n_states)), np.zeros((m, n_states, n_states)))
            for own, n, m in parts
        ]
        nodes, edges = [own.nodes for own in found], [own.edges for own in found]
        return cls(np.concatenate(nodes), np.concatenate(edges))


def split_offsets(X: Sequence[Any]) -> tuple[list[Any], list[NodeInput | None]]:
    """Samples as if they had no offsets, and the `NodeInput` of each sample that has one."""
    plain = [x.features if isinstance(x, NodeInput) else x for x in X]
    given = [x if isinstance(x, NodeInput) else None for x in X]
    nothing = [x is None or (x.offset is None and x.edge_offset is None) for x in given]
    return plain, [None if none else x for x, none in zip(given, nothing, strict=True)]


def read_offset(
    given: NodeInput | None, shape: tuple[int, ...], n_edges: int, n_states: int, where: str
) -> Offset | None:
    """Validated offsets of a sample whose labels have this shape."""
    if given is None:
        return None
    nodes = _read_scores(given.offset, (*shape, n_states), 1, f"{where}: offset")
    edges = _read_scores(
        given.edge_offset, (n_edges, n_states, n_states), 2, f"{where}: edge_offset"
    )
    return Offset(nodes.reshape(-1, n_states), edges)


def _read_scores(given: Any, shape: tuple[int, ...], n_shared: int, name: str) -> Floats:
    """An array of a shape; one without its first dimensions holds for all of these alike."""
    if given is None:
        return np.zeros(shape)
    try:
        array = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: cannot be read as numbers ({error})") from None
    if array.shape not in (shape, shape[-n_shared:]):
        raise ValueError(
            f"{name}: expected shape {shape} or {shape[-n_shared:]}, got {array.shape}"
        )
    if not np.isfinite(array).all():
        raise ValueError(
            f"{name}: must be finite; for a state that is ruled out take a number like -50"
        )
    return np.broadcast_to(array, shape)


# ---------------------------------------------------------------------- reading labels
class Labels:
    """Labels of all samples in a row, as a user gave them: integers or strings, None and NaN.

    Parameters
    ----------
    given : sequence of arrays, or None in place of one: no label of the sample is known
    shapes : the shape of each array
    name, part : the argument, and what has a label, for messages

    Attributes
    ----------
    values : integer array, or array of objects that holds strings
    hidden : boolean array, True for unknown labels
    named : whether labels are strings; None if no label is known
    """

    def __init__(
        self, given: Sequence[Any], shapes: Sequence[tuple[int, ...]], name: str, part: str
    ):
        self._name, self._shapes = name, shapes
        pairs = in_time(zip(given, shapes, strict=True), f"reading {name}")
        arrays = [_as_array(y, shape, f"{name}[{m}]", part) for m, (y, shape) in enumerate(pairs)]
        self.starts = np.cumsum([0, *(array.size for array in arrays)]).tolist()
        values = np.concatenate([array.ravel() for array in arrays])
        self.hidden = np.zeros(values.shape, dtype=np.bool_)
        self.named: bool | None = False
        if values.dtype == object:
            values = self._read_objects(values.tolist())
        if not self.named:
            values = self._whole_numbers(values)
        self.values: NDArray[Any] = values
        if self.hidden.all():
            self.named = None

    def _read_objects(self, values: list[Any]) -> NDArray[Any]:
        """Strings as objects, or numbers; learns where labels are hidden."""
        known = (str, numbers.Integral, float, np.floating, np.bool_, type(None))
        odd = tuple(kind for kind in set(map(type, values)) if not issubclass(kind, known))
        if odd:
            self.check([isinstance(v, odd) for v in values], NO_LABEL, values)
        self.hidden = np.array([v is None or v != v for v in values], dtype=np.bool_)
        is_text = np.array([isinstance(v, str) for v in values], dtype=np.bool_)
        self.named = bool(is_text.any())
        if self.named:
            mixed = ~self.hidden & ~is_text
            self.check(mixed, "labels must be all strings or all integers", values)
            return np.array(values, dtype=object)
        return np.array([0 if h else v for v, h in zip(values, self.hidden.tolist(), strict=True)])

    def _whole_numbers(self, values: NDArray[Any]) -> Ints:
        if values.dtype.kind == "f":
            self.hidden |= np.isnan(values)
            values = np.where(self.hidden, 0.0, values)
            whole = (np.abs(values) < 2.0**53) & (values == np.round(values))
            self.check(~whole, NO_LABEL, values)
        if values.dtype.kind in "uO":
            self.check(np.abs(values) > LARGEST, f"labels must be at most {LARGEST}", values)
        return values.astype(np.int64)

    def check(self, wrong: Any, rule: str, values: Any = None) -> None:
        """Raise if some label is wrong."""
        if not np.any(wrong):
            return
        k = int(np.argmax(wrong))
        label = np.array(self.values if values is None else values, dtype=object)[k]
        m = int(np.searchsorted(self.starts, k, side="right")) - 1
        at = position(k - self.starts[m], self._shapes[m])
        raise ValueError(f"{self._name}[{m}]: found {label!r} at position {at}; {rule}")


def position(k: int, shape: tuple[int, ...]) -> int | tuple[int, ...]:
    """The place of entry k of an array, for messages."""
    return tuple(int(i) for i in np.unravel_index(k, shape)) if len(shape) > 1 else k


def _as_array(label: Any, shape: tuple[int, ...], where: str, part: str) -> NDArray[Any]:
    """Labels of a sample as an array of numbers or objects."""
    if label is None:
        return np.full(shape, None)
    check_unmasked(label, where)
    try:
        array = np.asarray(label)
        if array.dtype.kind in "UT":
            array = np.asarray(label, dtype=object)  # keeps None and NaN apart from strings
    except ValueError:
        raise ValueError(f"{where}: labels do not form an array (rows of unequal size)") from None
    if array.shape != shape:
        found = f"{array.shape}" if array.ndim else f"the one label {label!r:.60}"
        raise ValueError(f"{where}: expected shape {shape}, a label for every {part}, got {found}")
    if array.dtype.kind not in "biufO":
        raise ValueError(f"{where}: labels must be integers or strings, got dtype {array.dtype}")
    return array


class States:
    """The states that nodes can take: distinct integers or strings, numbered in sorted order."""

    def __init__(self, classes: Iterable[Any]):
        listed = sorted(classes)
        self.named = isinstance(listed[0], str)
        self.classes: NDArray[Any] = np.array(listed, dtype=str if self.named else np.int64)
        self._counted = not self.named and listed == list(range(len(listed)))
        self._number = {label: k for k, label in enumerate(listed)}

    def __len__(self) -> int:
        return len(self._number)

    @classmethod
    def learn(cls, labels: Labels, classes: Any = None) -> States:
        """The states that a user lists, or the states that occur among labels."""
        found = _distinct(labels) if classes is None else _listed(classes)
        size = float(len(found)) ** 2
        check_memory(size, f"{len(found)} classes: a weight for each pair of states")
        return cls(found)

    def encode(self, labels: Labels, others: bool = False) -> list[Ints]:
        """State numbers of each sample's labels in a row, -1 if not known.

        With `others`, labels that are none of the states get -2; otherwise they are an error.
        """
        if labels.named not in (None, self.named):
            kinds = ("strings", "integers")
            expected, found = kinds if self.named else kinds[::-1]
            labels.check(~labels.hidden, f"expected {expected} like the classes, not {found}")
        values, n = labels.values, len(self)
        if labels.named is None:
            states = np.full(values.shape, UNKNOWN)
        elif self.named:
            states = np.array([self._number.get(v, OTHER) for v in values.tolist()], dtype=np.int64)
        elif self._counted:
            states = np.where((values >= 0) & (values < n), values, OTHER)
        else:
            at = np.minimum(np.searchsorted(self.classes, values), n - 1)
            states = np.where(self.classes[at] == values, at, OTHER)
        states[labels.hidden] = UNKNOWN
        if not others:
            names = ", ".join(map(repr, self.classes[:10].tolist())) + ", ..." * (n > 10)
            expected = f"0 to {n - 1}" if self._counted else f"one of {names}"
            labels.check(states == OTHER, f"expected {expected}, or None if not known")
        return [states[a:b] for a, b in pairwise(labels.starts)]


def _distinct(labels: Labels) -> list[Any]:
    """The labels that occur."""
    seen = labels.values[~labels.hidden] if labels.hidden.any() else labels.values
    if seen.size == 0:
        raise ValueError("Y: no label is known, there is nothing to learn from")
    found = list(set(seen.tolist())) if labels.named else np.unique(seen).tolist()
    if len(found) < 2:
        raise ValueError(
            f"Y has only the label {found[0]!r}: there is nothing to learn. If there are labels "
            "that were not observed, list all of them in `classes`"
        )
    if len(found) > 2 and found[0] == UNKNOWN and not labels.named:
        warnings.warn(
            f"Y: -1 is a class like {', '.join(map(str, found[1:4]))}, ...; give None or NaN for "
            "labels that are not known",
            UserWarning,
            stacklevel=2,
        )
    return found


def _listed(classes: Any) -> list[Any]:
    """Classes as a user lists them."""
    if isinstance(classes, str) or not isinstance(classes, Iterable):
        raise TypeError(f"`classes` must be a list of all labels; got {classes!r}.")
    found = [c.item() if isinstance(c, np.generic) else c for c in classes]
    if {type(c) for c in found} not in ({str}, {int}) or len({*found}) < max(len(found), 2):
        raise ValueError(
            "`classes` must hold at least two different strings or at least two different "
            f"integers; got {classes!r:.200}."
        )
    return found


# ---------------------------------------------------------------------- the estimators
class Shaped(NamedTuple):
    """The block of a new sample, and the shape of its labels."""

    block: Block
    shape: tuple[int, ...]


class LabellingEstimator(SampleEstimator):
    """Base of `GridCRF`, `GraphCRF` and `ChainCRF`.

    coef_ holds the weights of node features, (n_states, C), the constant last if there is one, then
    those of edge features, (n_states, n_states, D), in a row.
    """

    fit_intercept: bool
    standardize: bool
    _part: ClassVar[str] = "node"  # what has a label, for messages
    _missing = "drop"
    _map: PairwiseFeatures  # how the solver's theta is read

    def fit(
        self,
        X: Any,
        Y: Any = None,
        sample_weight: Any = None,
        *,
        classes: Any = None,
        missing: str = "drop",
        start: Any = None,
        checkpoint: str | Path | Checkpoint | None = None,
    ) -> Any:
        """Learn `coef_` from samples X and their labels Y; None and NaN are labels not known.

        Parameters
        ----------
        X, Y : sequences of equal length; or X is `Parts`, samples that are read where they are
        sample_weight : array of shape (n_samples,), optional
        classes : list of labels, optional
            All labels that nodes can have; by default the labels that occur in Y.
        missing : "drop" or "marginalise"
            Leave nodes without a label out, with their edges; or sum over their states. The
            log-likelihood log Z(x, labels) - log Z(x) is then not concave: the fit starts from
            the one with "drop" and ends at a stationary point. Log-likelihoods treat nodes
            without a label in the same way.
        start : fitted estimator of the same kind, from whose weights the fit starts, optional
        checkpoint : folder or `Checkpoint`, optional
            The state of the fit is written there every 30 seconds; the same call continues from it.
        """
        if missing not in ("drop", "marginalise"):
            raise ValueError(f"`missing` must be 'drop' or 'marginalise'; got {missing!r}.")
        with unchanged_on_failure(self):
            self._missing = missing
            return self._fit(X, Y, sample_weight, classes, start, checkpoint)

    # ------------------------------------------------------------------ how to read coef_
    @property
    def _layout(self) -> dict[str, Any]:
        """How coef_ is to be read; plain types only."""
        return {
            "classes": self.classes_.tolist(),
            "n_node_features": self.n_features_in_,
            "n_edge_features": self._n_edge_features,
            "intercept": self._intercept,
            "missing": self._missing,
        }

    def _restore(self, layout: dict[str, Any], names: Sequence[str] | None) -> None:
        """Take a layout, of training data or of a stored model, and names of node features."""
        self._states = States(layout["classes"])
        self.classes_ = self._states.classes
        self._n_edge_features = layout["n_edge_features"]
        self._intercept = bool(layout.get("intercept", False))
        self._missing = layout.get("missing", "drop")
        self._learn_names(names, layout["n_node_features"])

    def _learned_names(self) -> tuple[list[str], dict[str, Any] | None]:
        return self.feature_names_in_.tolist(), self._layout

    def _reload(self, coef: Floats, names: list[str], layout: dict[str, Any] | None) -> None:
        assert layout is not None
        # Before anything is made in these sizes: files may be hostile.
        n, n_edge = len(layout["classes"]), layout["n_edge_features"]
        n_node = layout["n_node_features"] + bool(layout.get("intercept", False))
        if n * n_node + n**2 * (1 if n_edge is None else n_edge) != coef.size:
            raise ValueError(f"{coef.size} weights do not fit {n} classes")
        self.coef_ = coef
        self._restore(layout, names)

    @property
    def node_coef_(self) -> Floats:
        """Weights of node features, shape (n_states, C)."""
        return self._split_coef[0][:, : self.n_features_in_]

    @property
    def intercept_(self) -> Floats:
        """The constant of each state, shape (n_states,); 0 without `fit_intercept`."""
        nodes = self._split_coef[0]
        return nodes[:, -1] if self._intercept else np.zeros(nodes.shape[0])

    @property
    def edge_coef_(self) -> Floats:
        """Weights of edge features, shape (n_states, n_states, D), tail (or left) state first."""
        n = len(self.classes_)
        return self._split_coef[1].reshape(n, n, -1)

    @property
    def _split_coef(self) -> tuple[Floats, Floats]:
        """Weights of nodes, (n_states, C or C+1), and the others."""
        check_is_fitted(self, "coef_")
        n, size = len(self.classes_), self.n_features_in_ + self._intercept
        return self.coef_[: n * size].reshape(n, size), self.coef_[n * size :]

    def named_coef(self, names: Sequence[str] | None = None) -> dict[str, float]:
        """Learned weights by name: "state:feature" of nodes, "state->state" of edges.

        `names` replaces `feature_names_in_`.
        """
        check_is_fitted(self, "coef_")
        states = [str(label) for label in self.classes_]
        columns = self._own_names(names) + ["intercept"] * self._intercept
        size = self._n_edge_features
        suffixes = [""] if size is None else [f":{k}" for k in range(size)]
        found = [f"{state}:{name}" for state in states for name in columns]
        found += [f"{a}->{b}{suffix}" for a in states for b in states for suffix in suffixes]
        return dict(zip(found, self.coef_.tolist(), strict=True))

    # ------------------------------------------------------------------ constants and scales
    def _prepared(
        self, rows: Sequence[tuple[Rows, Rows]], weights: Sequence[float]
    ) -> list[tuple[Rows, Rows]]:
        """Rows of nodes and edges of blocks, with the constant and scales that all of them decide.

        Learns whether there is a constant.
        """
        nodes, edges = ([pair[k] for pair in rows] for k in (0, 1))
        scaled = bool(self.standardize)
        nodes, of_nodes, self._intercept, _ = prepared_rows(
            nodes, weights, bool(self.fit_intercept), scaled
        )
        edges, of_edges, _, _ = prepared_rows(edges, weights, False, scaled)
        names = self.feature_names_in_.tolist() + ["intercept"] * self._intercept
        edge_names = [f"edge feature {k}" for k in range(of_edges.total.size)]
        check_scales([of_nodes, of_edges], [names, edge_names], scaled)
        return list(zip(nodes, edges, strict=True))

    def _full_coef(self, theta: Floats) -> Floats:
        return self._map.original(theta)

    def _solver_coef(self, model: Any) -> Floats:
        own, other = self._layout, model._layout
        if any(own[name] != other[name] for name in own if name != "missing"):
            raise ValueError(
                "`start` has other classes or features than this fit. Pass an estimator that was "
                "fitted to the same features and labels."
            )
        return self._map.standardised(model.coef_)

    def _first_fit(self, X: Any, Y: Any, sample_weight: Any, classes: Any) -> Any:
        """The fit that leaves nodes without a label out."""
        start = clone(self).set_params(verbose=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # thin graphs and unfinished fits are a fine start
            start.fit(X, Y, sample_weight, classes=classes)
        return start if start._intercept == self._intercept else None

    # ------------------------------------------------------------------ what is known or missing
    @abstractmethod
    def _shaped(self, X: Any) -> list[Shaped]:
        """New samples, checked against what was fitted."""

    def _read_labels(
        self, Y: Any, shapes: Sequence[tuple[int, ...]], name: str = "Y", others: bool = False
    ) -> list[Ints]:
        """State numbers of every sample's labels in a row, -1 if not known."""
        given = check_same_length(shapes, Y, name, self._entries)
        return self._states.encode(Labels(given, shapes, name, self._part), others)

    def _queries(self, X: Any, known: Any = None) -> list[Shaped]:
        queries = self._shaped(X)
        if known is None:
            return queries
        states = self._read_labels(known, [shape for _, shape in queries], "known")
        return [
            Shaped(replace(block, structure=block.structure.given(own)), shape)
            for (block, shape), own in zip(queries, states, strict=True)
        ]

    def _output(self, query: Shaped, label: Any) -> Any:
        return self.classes_[label.reshape(*label.shape[:-1], *query.shape)]

    def _table(self, query: Shaped, tau: Floats) -> Any:
        return query.block.structure.marginal_table(tau).reshape(*query.shape, -1)

    def _observations(
        self, Y: Any, known: Any, shapes: Sequence[tuple[int, ...]]
    ) -> list[tuple[Ints, Ints | None]]:
        """States of every sample that are observed or known (-1: neither), and the known ones."""
        observed = self._read_labels(Y, shapes)
        if known is None:
            return [(states, None) for states in observed]
        out: list[tuple[Ints, Ints | None]] = []
        for m, fixed in enumerate(self._read_labels(known, shapes, "known")):
            states = observed[m]
            differs = (states != fixed) & (states != UNKNOWN) & (fixed != UNKNOWN)
            if differs.any():
                at = position(int(np.argmax(differs)), shapes[m])
                raise ValueError(f"known[{m}]: differs from Y[{m}] at position {at}")
            out.append((np.where(fixed == UNKNOWN, states, fixed), fixed))
        return out

    # ------------------------------------------------------------------ scoring
    def events(self, X: Any, Y: Any, **options: Any) -> metrics.Events:
        """Which states were observed and their probabilities, for scikit-learn's metrics.

        `options` are passed to `predict_marginals`.

        Returns
        -------
        Events, node by node: `reshape(-1, n_states)` of an array has a row for each known label
        """
        tables = self.predict_marginals(check_samples(X), **options)
        labels = self._read_labels(Y, [table.shape[:-1] for table in tables], others=True)
        truth = np.concatenate(labels)
        probability = np.concatenate([table.reshape(-1, len(self._states)) for table in tables])
        known = truth != UNKNOWN
        happened = truth[known][:, None] == np.arange(len(self._states))
        return metrics.as_events(happened, probability[known])

    def _losses(self, X: Any, Y: Any) -> list[float]:
        predicted = self.predict(check_samples(X))
        labels = self._read_labels(Y, [found.shape for found in predicted], others=True)
        losses = []
        for found, truth in zip(predicted, labels, strict=True):
            known = truth != UNKNOWN
            if known.any():
                states = np.searchsorted(self.classes_, found.ravel()[known])
                losses.append(float(np.mean(states != truth[known])))
        return losses


def observed_in(block: Block, states: Ints, known: Ints | None = None) -> Block:
    """The block with a labelling observed, or with a part of one (-1: not known).

    If states are `known` beforehand, its outputs are those that agree with them.
    """
    space = block.structure if known is None else block.structure.given(known)
    if (states != UNKNOWN).all():
        return replace(block, observed=block.structure.encode(states), structure=space)
    partial = block.structure.given(states)
    inside = partial.interior()
    return replace(block, observed=Vertex.of(inside), partial=partial, structure=space)
