"""The base of the estimators of labellings: states, weights per state, scores."""

from __future__ import annotations

import copy
import warnings
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import spsolve
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from .._deadline import in_time
from ..features.contract import Columns, FeatureMap
from ..features.transformed import standardizing
from ..labels import UNKNOWN, States
from ..learning.problem import Block, DualProblem
from ..metrics import Events, state_events
from ..structures.contract import Vertex
from .base import StructuredEstimator
from .partitioned import over_partitions
from .probabilities import block_samples, certified_marginals, seeded
from .validation import check_node_weights, check_same_length, check_samples, check_weights

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class LabellingEstimator(StructuredEstimator):
    """Base of `GridCRF`, `GraphCRF` and `ChainCRF`.

    coef_ holds the weights of node features, (n_states, C), the constant last if there is one, then
    those of edge features, (n_states, n_states, D), in a row.
    """

    feature_names: Sequence[str] | None
    n_states: int | None
    unknown: Any
    fit_intercept: bool
    missing: str
    _part: ClassVar[str] = "node"  # what has a label, for messages

    @property
    def states_(self) -> States:
        check_is_fitted(self, "coef_")
        return self._states

    # ------------------------------------------------------------------ how to read coef_
    @property
    def _layout(self) -> dict[str, Any]:
        """How coef_ is to be read; plain types only."""
        return {
            "classes": self._states.to_list(),
            "unknown": [self._states.unknown],
            "n_node_features": self.n_features_in_,
            "n_edge_features": self._n_edge_features,
            "intercept": self._intercept,
        }

    def _restore(self, layout: dict[str, Any]) -> None:
        """Take a layout: of training data, or of a stored model."""
        self._states = States(layout["classes"], layout.get("unknown", [None])[0])
        self._states.part = self._part
        self.classes_ = self._states.classes
        self.n_features_in_ = layout["n_node_features"]
        self._n_edge_features = layout["n_edge_features"]
        self._intercept = bool(layout.get("intercept", False))
        names, size = self.feature_names, self.n_features_in_
        if names is None:
            names = layout.get("columns")  # of data frames
        if names is not None and len(names) != size:
            raise ValueError(f"feature_names: expected {size} names, got {len(names)}")
        self.feature_names_in_ = np.array(
            [f"x{k}" for k in range(size)] if names is None else list(names), dtype=object
        )

    def _learned_names(self) -> tuple[list[str], dict[str, Any] | None]:
        return self.feature_names_in_.tolist(), self._layout

    def _reload(self, coef: Floats, names: list[str], layout: dict[str, Any] | None) -> None:
        super()._reload(coef, names, layout)
        if layout is None:
            return
        # Before anything is made in these sizes: files may be hostile.
        n, n_edge = len(layout["classes"]), layout["n_edge_features"]
        n_node = layout["n_node_features"] + bool(layout.get("intercept", False))
        if n * n_node + n**2 * (1 if n_edge is None else n_edge) != coef.size:
            raise ValueError(f"{coef.size} weights do not fit {n} classes")
        self._restore({"columns": names, **layout})

    def _learn_names(self, problem: DualProblem) -> None:
        """Names belong to the columns of node features, not to coef_; `_restore` has taken them."""

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
    def _split_coef(self) -> tuple[Floats, Floats]:
        """Weights of nodes, (n_states, C or C+1), and the others."""
        check_is_fitted(self, "coef_")
        n, size = len(self.classes_), self.n_features_in_ + self._intercept
        return self.coef_[: n * size].reshape(n, size), self.coef_[n * size :]

    @property
    def edge_coef_(self) -> Floats:
        """Weights of edge features, shape (n_states, n_states, D), tail (or left) state first."""
        n = len(self.classes_)
        return self._split_coef[1].reshape(n, n, -1)

    def _edge_names(self) -> list[str]:
        """Suffixes of the names of edge weights, "" for the constant."""
        size = self._n_edge_features
        return [""] if size is None else [f":{k}" for k in range(size)]

    def named_coef(self) -> dict[str, float]:
        """Learned weights by name: "state:feature" of nodes, "state->state" of edges."""
        check_is_fitted(self, "coef_")
        states = [str(label) for label in self.classes_]
        columns = self.feature_names_in_.tolist() + ["intercept"] * self._intercept
        names = [f"{state}:{name}" for state in states for name in columns]
        suffixes = self._edge_names()
        names += [f"{a}->{b}{suffix}" for a in states for b in states for suffix in suffixes]
        return dict(zip(names, self.coef_.tolist(), strict=True))

    # ------------------------------------------------------------------ samples in partitions
    def survey(self, X: Any, Y: Any) -> Any:
        """The labels that occur."""
        labels = check_same_length(check_samples(X), Y, entries=self._entries)
        return {"labels": States.occurring(labels, self.unknown)}

    def agreement(self, surveys: Sequence[Any]) -> Any:
        return {"states": self._learn_states([found["labels"] for found in surveys])}

    def _learn_states(self, Y: Sequence[Any]) -> States:
        """The states of observed labels, or those that all partitions have agreed on."""
        if self._in_partition:
            states: States = copy.copy(self._agreement["states"])
        else:
            states = States.learn(Y, self.n_states, self.unknown)
        states.part = self._part
        return states

    # ------------------------------------------------------------------ constants and scales
    def _wants_intercept(self) -> bool:
        return bool(self.fit_intercept)

    def _with_constant(self, features: Any) -> FeatureMap:
        constant: FeatureMap = features.with_constant()
        return constant

    def column_statistics(self, blocks: Sequence[Block]) -> list[Columns]:
        parts: list[tuple[Any, float]] = [(block.features, block.weight) for block in blocks]
        return [
            Columns.weighted((features.nodes.columns(), weight) for features, weight in parts),
            Columns.weighted((features.edges.columns(), weight) for features, weight in parts),
        ]

    def _transformation(self, columns: Sequence[Columns]) -> sparse.csr_array:
        n = len(self.classes_)
        nodes = standardizing(columns[0], self._intercept)
        edges = standardizing(columns[1], centred=False)
        copies = [
            sparse.kron(sparse.eye_array(n), nodes),
            sparse.kron(sparse.eye_array(n * n), edges),
        ]
        return sparse.csr_array(sparse.block_diag(copies))

    # ------------------------------------------------------------------ what is known or missing
    def _marginalises(self) -> bool:
        """Whether nodes without a label stay in the graph, rather than being left out."""
        if self.missing not in ("drop", "marginalise"):
            raise ValueError(f"missing: expected 'drop' or 'marginalise', got {self.missing!r}")
        return self.missing == "marginalise"

    def _weighted(
        self, X: Sequence[Any], Y: Sequence[Any], sample_weight: Any
    ) -> tuple[Sequence[Any], Sequence[Any], Floats]:
        """Samples in parts that have one weight each.

        The likelihood of a connected part does not split into terms of its nodes, so that only
        parts which labels of weight 0 separate may have different weights.
        """
        several = isinstance(sample_weight, Iterable) and getattr(sample_weight, "ndim", 1) > 0
        if not several or all(np.ndim(weight) == 0 for weight in sample_weight):
            return super()._weighted(X, Y, sample_weight)
        given = check_same_length(X, sample_weight, "sample_weight")
        parts: list[tuple[Any, Any, float]] = []
        for m, (x, label, weight) in enumerate(zip(X, Y, given, strict=True)):
            if np.ndim(weight) == 0:
                parts.append((x, label, float(weight)))
                continue
            where = f"sample_weight[{m}]"
            own = check_node_weights(weight, np.shape(label), where)
            self._check_parts(x, own.ravel(), where)
            for value in np.unique(own[own > 0]).tolist():
                kept = np.array(label, dtype=object)
                kept[own != value] = None
                parts.append((x, kept, value))
        if not parts:
            raise ValueError("sample_weight: all are 0")
        samples, labels, weights = (list(column) for column in zip(*parts, strict=True))
        return samples, labels, check_weights(weights, len(weights), all_zero=self._in_partition)

    def _check_parts(self, x: Any, weights: Floats, where: str) -> None:
        """Raise if neighbours have different positive weights."""
        tail, head = self._ends(x, weights.size)
        low = np.minimum(weights[tail], weights[head])
        differ = (weights[tail] != weights[head]) & (low > 0)
        hidden = self._marginalises() and np.unique(weights[weights > 0]).size > 1
        if hidden or differ.any():
            what = "labelled nodes of one sample have different weights"
            if differ.any():
                i, j = (int(ends[np.argmax(differ)]) for ends in (tail, head))
                what = f"neighbours {i} and {j} have weights {weights[i]:g} and {weights[j]:g}"
            raise ValueError(
                f"{where}: {what}. The likelihood of nodes that depend on each other has no terms "
                "of single nodes that could be weighted: a connected part has one weight, and 0 "
                "leaves nodes out (as missing='drop' does). To favour states, give NodeInput an "
                "offset"
            )

    @abstractmethod
    def _ends(self, x: Any, n_nodes: int) -> tuple[Ints, Ints]:
        """The two nodes of every edge of a sample."""

    def _first_theta(self, X: Any, Y: Any, sample_weight: Any) -> Floats | None:
        """The fit that leaves nodes without a label out."""
        dropped = clone(self).set_params(missing="drop", callback=None, verbose=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # thin graphs and unfinished fits are a fine start
            dropped.fit(X, Y, sample_weight)
        if dropped._intercept != self._intercept:
            return None
        return self._inverse_coef(dropped.coef_)

    def _inverse_coef(self, coef: Floats) -> Floats:
        """Weights of a solver from `coef_`; inverse of `_full_coef`."""
        if self._transform is None:
            return coef
        transform = self._transform.tocsc()
        if transform.shape[0] > transform.shape[1]:  # of tied weights
            transform, coef = transform.T @ transform, transform.T @ coef
        return spsolve(transform.tocsc(), coef)

    @abstractmethod
    def _shaped(self, X: Any) -> list[tuple[Block, tuple[int, ...]]]:
        """Blocks of new samples, checked against what was fitted, and the shapes of labels."""

    def _prepare(self, X: Sequence[Any]) -> list[Block]:
        return [block for block, _ in self._shaped(X)]

    def _given(self, X: Any, known: Any) -> list[tuple[Block, tuple[int, ...]]]:
        """`_shaped` where some states are known; `known` is shaped as Y, or None."""
        prepared = self._shaped(X)
        if known is None:
            return prepared
        labels = check_same_length(prepared, known, "known", self._entries)
        out = []
        for m, (block, shape) in enumerate(prepared):
            if labels[m] is not None:
                states = self._read_known(labels[m], m, shape)
                block = replace(block, structure=block.structure.given(states))
            out.append((block, shape))
        return out

    def _read_known(self, label: Any, m: int, shape: tuple[int, ...]) -> Ints:
        """State numbers of what is known of sample m, -1 where nothing is."""
        return self._states.encode(label, f"known[{m}]", shape).ravel()

    def _marginals(
        self, X: Any, tol: float, method: str, known: Any, options: dict[str, Any]
    ) -> list[Floats]:
        """Probabilities of states, arrays of shape (*shape of labels, n_states)."""
        prepared = self._given(X, known)
        options = seeded(options, method, self.random_state)
        blocks = [block for block, _ in prepared]
        found = certified_marginals(blocks, self.coef_, tol, method, options, self._each)
        return [
            block.structure.marginal_table(tau).reshape(*shape, -1)
            for (block, shape), tau in zip(prepared, found, strict=True)
        ]

    def _observations(
        self, Y: Any, known: Any, shapes: Sequence[tuple[int, ...]]
    ) -> list[tuple[Ints, Ints | None]]:
        """States of every sample that are observed or known (-1: neither), and the known ones."""
        labels = check_same_length(shapes, Y, entries=self._entries)
        given = (
            [None] * len(shapes)
            if known is None
            else check_same_length(shapes, known, "known", self._entries)
        )
        out: list[tuple[Ints, Ints | None]] = []
        listed = in_time(zip(labels, given, shapes, strict=True), "reading Y")
        for m, (label, own, shape) in enumerate(listed):
            states = self._states.encode(label, f"Y[{m}]", shape).ravel()
            if own is None:
                out.append((states, None))
                continue
            fixed = self._read_known(own, m, shape)
            differs = (states != fixed) & (states != UNKNOWN) & (fixed != UNKNOWN)
            if differs.any():
                at = np.unravel_index(int(np.argmax(differs)), shape)
                where = tuple(int(k) for k in at) if len(shape) > 1 else int(at[0])
                raise ValueError(f"known[{m}]: differs from Y[{m}] at position {where}")
            out.append((np.where(fixed == UNKNOWN, states, fixed), fixed))
        return out

    # ------------------------------------------------------------------ probabilities
    @abstractmethod
    def predict_marginals(
        self, X: Any, tol: float = 1e-3, method: str = "auto", **options: Any
    ) -> list[Floats]:
        """Probabilities of the states of every node."""

    def predict_proba(self, X: Any, **options: Any) -> list[Any]:
        """`predict_marginals` under the name that scikit-learn has for it."""
        return self.predict_marginals(X, **options)

    @abstractmethod
    def decision_function(self, X: Any) -> list[Floats]:
        """Scores of the states of every node by its own features, constant and offset.

        Larger is more likely, whatever the neighbours; `predict_marginals` counts them in.

        Returns
        -------
        list of arrays of shape (*shape of labels, n_states)
        """

    def sample(
        self,
        X: Any,
        n_samples: int = 1,
        method: str = "auto",
        *,
        known: Any = None,
        random_state: Any = None,
        **options: Any,
    ) -> list[NDArray[Any]]:
        """Labellings drawn from p(y | x; coef_) itself, without approximation, per sample.

        Parameters
        ----------
        method : "auto", "exact" or "mcmc", as in `mlestruct.inference.sample`
        known : labels that are given, as in `predict`
        random_state : int, Generator or None

        Returns
        -------
        list of arrays of shape (n_samples, *shape of labels)
        """
        prepared = self._given(X, known)
        blocks = [block for block, _ in prepared]
        found = block_samples(
            blocks, self.coef_, n_samples, method, random_state, options, self._each
        )
        return [
            self._states.decode(drawn.labels.reshape(n_samples, *shape))
            for drawn, (_, shape) in zip(found, prepared, strict=True)
        ]

    def events(self, X: Any, Y: Any, **options: Any) -> Events:
        """Which states were observed and their probabilities, for scikit-learn's metrics.

        See `mlestruct.metrics.state_events`; `options` are those of `predict_marginals`.
        """
        samples = check_samples(X)
        labels = check_same_length(samples, Y, entries=self._entries)
        tables = self.predict_marginals(samples, **options)
        return state_events(tables, labels, self.classes_, unknown=self._states.unknown)

    # ------------------------------------------------------------------ scoring
    def score(self, X: Any, Y: Any) -> float:
        """1 - mean Hamming loss per sample, over what is labelled."""
        return super().score(X, Y)

    @over_partitions
    def _losses(self, X: Any, Y: Any) -> Any:
        samples = check_samples(X)
        labels = check_same_length(samples, Y, entries=self._entries)
        losses = []
        pairs = in_time(zip(self.predict(samples), labels, strict=True), "reading Y")
        for m, (found, label) in enumerate(pairs):
            truth = self._states.encode(label, f"Y[{m}]", found.shape, allow_others=True)
            known = truth != UNKNOWN
            if known.any():
                states = self._states.encode(found, "found")
                losses.append(float(np.mean(states[known] != truth[known])))
        return losses


def observed_in(block: Block, states: Ints, known: Ints | None = None) -> Block:
    """The block with a labelling observed, or with a part of one (-1: not known).

    Where states are `known` beforehand, its outputs are those that agree with them.
    """
    space = block.structure if known is None else block.structure.given(known)
    if (states != UNKNOWN).all():
        return replace(block, observed=block.structure.encode(states), structure=space)
    partial = block.structure.given(states)
    inside = partial.interior()
    observed = Vertex(np.flatnonzero(inside), inside[np.flatnonzero(inside)])
    return replace(block, observed=observed, partial=partial, structure=space)
