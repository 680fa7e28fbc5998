"""Exact inference in pairwise models of small treewidth, P(x) proportional to exp(total score).

Nodes are eliminated one after another. The *bucket* of a node has a table over its own state and
those of its separator: the nodes that its elimination couples. All of them are eliminated later;
the first of them is the node's parent, to which the bucket sends a message over the separator. The
bucket keeps the conditional distribution of the node given its separator. From the conditionals,
last bucket first, follow marginals and independent draws (Koller and Friedman, Probabilistic
Graphical Models, chapters 9 and 10). Messages are logarithms and conditionals plain numbers, so
that scores may have any size and -inf forbids a state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from math import fsum
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._deadline import in_time
from ...exceptions import InfeasibleError
from ..edge_lists import checked_edges
from .separators import checked_order, elimination_order, links_of, plan_of, require_small
from .tables import checked_tables

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


DOING = "a pass over a junction tree"


class Bucket(NamedTuple):
    """One elimination; nodes of the separator are given by their place in the order.

    `separator` is increasing, so its first member is the parent. `edges` are the edges to members:
    (number of the edge, place of the other end in the separator, whether this node is the tail).
    """

    node: int
    separator: tuple[int, ...]
    edges: list[tuple[int, int, bool]]


class JunctionTree:
    """The distribution P(x) ~ exp(sum of node scores + sum of edge scores), exactly.

    Parameters
    ----------
    n_nodes : int
    tail, head : integer arrays of shape (n_edges,), every undirected edge once
    node_scores : array of shape (n_nodes, n_states)
    edge_scores : array of shape (n_edges, n_states, n_states), the state of the tail first
        Scores of -inf forbid a state or a pair of states.
    order : integer array of shape (n_nodes,), optional
        The elimination order, such as that of an earlier tree of the same graph; searched if None.

    Attributes
    ----------
    order : the elimination order
    treewidth : its width, one less than the number of nodes of the largest table; an upper bound of
        the treewidth of the graph

    Raises
    ------
    TooLargeToCount : the tables of the best order found would be too large
    InfeasibleError : every labelling is forbidden

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.algorithms.pairwise.junction_tree import JunctionTree
    >>> equal = np.log([[3.0, 1.0], [1.0, 3.0]])
    >>> tree = JunctionTree(3, [0, 1, 2], [1, 2, 0], np.zeros((3, 2)), [equal] * 3)
    >>> print(np.exp(tree.log_partition).round(6))  # 27 twice, 3 six times
    72.0
    >>> tree.edge_marginals[0].round(6).tolist()
    [[0.416667, 0.083333], [0.083333, 0.416667]]
    """

    def __init__(
        self,
        n_nodes: int,
        tail: ArrayLike,
        head: ArrayLike,
        node_scores: ArrayLike,
        edge_scores: ArrayLike,
        order: ArrayLike | None = None,
    ):
        self.n_nodes = int(n_nodes)
        self.tail, self.head = checked_edges(self.n_nodes, tail, head)
        self.node_scores, self.edge_scores = checked_tables(
            self.n_nodes, self.tail.size, node_scores, edge_scores
        )
        self.n_states = self.node_scores.shape[1]
        if order is None:
            self.order = elimination_order(self.n_nodes, self.tail, self.head, self.n_states)
        else:
            self.order = checked_order(order, self.n_nodes)
        links = links_of(self.order, self.tail, self.head)
        plan = plan_of(links, self.n_nodes, self.n_states)
        require_small(plan, self.n_states)
        self.treewidth = plan.width
        self._buckets = self._filled(plan.separators, links)
        if np.isneginf(self.node_scores).any() or np.isneginf(self.edge_scores).any():
            _ = self.log_partition  # raises where nothing is admissible

    def _filled(self, separators: list[tuple[int, ...]], links: Ints) -> list[Bucket]:
        """Buckets with their edges: each edge goes to the end that is eliminated first."""
        buckets = [
            Bucket(node, separator, [])
            for node, separator in zip(self.order.tolist(), separators, strict=True)
        ]
        tails = self.tail.tolist()
        for e, (k, other) in enumerate(links.tolist()):
            bucket = buckets[k]
            place = bucket.separator.index(other)
            bucket.edges.append((e, place, tails[e] == bucket.node))
        return buckets

    # ------------------------------------------------------------------ from leaves to roots
    def _eliminate(self, absorb: Callable[[Floats], Floats]) -> float:
        """Eliminate all nodes; log Z, or the best score, as `absorb` sums or maximises.

        `absorb` takes the table of each bucket, its own node on axis 0, which it may overwrite, and
        returns the message over the other axes. Scores and messages are shifted so that the
        largest is 0; the shifts add up to the result.
        """
        inbox: list[list[tuple[tuple[int, ...], Floats]]] = [[] for _ in self._buckets]
        node_tops, edge_tops = self.node_scores.max(axis=1), self.edge_scores.max(axis=(1, 2))
        shifts = [*node_tops.tolist(), *edge_tops.tolist()]
        if -np.inf in shifts:
            raise _nothing_admissible()
        nodes = self.node_scores - node_tops[:, None]
        edges = self.edge_scores - edge_tops[:, None, None]
        for k, bucket in enumerate(in_time(self._buckets, DOING)):
            n_axes = 1 + len(bucket.separator)
            table = np.zeros((self.n_states,) * n_axes)
            table += nodes[bucket.node].reshape(self._shape(n_axes, [0]))
            for e, place, from_tail in bucket.edges:
                pair = edges[e] if from_tail else edges[e].T
                table += pair.reshape(self._shape(n_axes, [0, 1 + place]))
            scope = (k, *bucket.separator)
            for members, message in inbox[k]:
                table += message.reshape(self._shape(n_axes, [scope.index(m) for m in members]))
            inbox[k] = []
            message = absorb(table)
            shift = float(message.max())
            if shift == -np.inf:
                raise _nothing_admissible()
            shifts.append(shift)
            if bucket.separator:
                inbox[bucket.separator[0]].append((bucket.separator, message - shift))
        return fsum(shifts)

    def _shape(self, n_axes: int, own: Sequence[int]) -> tuple[int, ...]:
        """The shape that lets a table over the axes `own` be added to one over all of them."""
        shape = [1] * n_axes
        for axis in own:
            shape[axis] = self.n_states
        return tuple(shape)

    @cached_property
    def _collected(self) -> tuple[float, list[Floats]]:
        """log Z, and every node's conditional distribution given its separator.

        Where the states of a separator are impossible it is zero.
        """
        conditionals = []

        def absorb(table: Floats) -> Floats:
            top = table.max(axis=0)
            top = np.where(np.isneginf(top), 0.0, top)
            table -= top
            np.exp(table, out=table)
            total = table.sum(axis=0)
            table /= np.where(total > 0.0, total, 1.0)
            conditionals.append(table)
            with np.errstate(divide="ignore"):
                return np.asarray(np.log(total) + top)

        return self._eliminate(absorb), conditionals

    @property
    def log_partition(self) -> float:
        """log Z: the logarithm of the sum of exp(score) over all labellings."""
        return self._collected[0]

    # ------------------------------------------------------------------ from roots to leaves
    @cached_property
    def _marginals(self) -> tuple[Floats, Floats]:
        n_states = self.n_states
        nodes, edges = np.empty_like(self.node_scores), np.empty_like(self.edge_scores)
        children: list[list[int]] = [[] for _ in self._buckets]
        for k, bucket in enumerate(self._buckets):
            if bucket.separator:
                children[bucket.separator[0]].append(k)
        of_separator: dict[int, Floats] = {}
        for k in in_time(range(self.n_nodes - 1, -1, -1), DOING):
            bucket, belief = self._buckets[k], self._collected[1][k]
            if bucket.separator:
                belief = belief * of_separator.pop(k)
            nodes[bucket.node] = belief.reshape(n_states, -1).sum(axis=1)
            for e, place, from_tail in bucket.edges:
                after = n_states ** (len(bucket.separator) - 1 - place)
                pair = belief.reshape(n_states, -1, n_states, after).sum(axis=(1, 3))
                edges[e] = pair if from_tail else pair.T
            scope = (k, *bucket.separator)
            for child in children[k]:
                kept = self._buckets[child].separator
                others = tuple(axis for axis, member in enumerate(scope) if member not in kept)
                of_separator[child] = belief.sum(axis=others)
        return nodes, edges

    @property
    def node_marginals(self) -> Floats:
        """P(x_n = s), shape (n_nodes, n_states)."""
        return self._marginals[0]

    @property
    def edge_marginals(self) -> Floats:
        """P(x_tail = s, x_head = t), shape (n_edges, n_states, n_states)."""
        return self._marginals[1]

    def sample(self, n_samples: int, rng: np.random.Generator) -> Ints:
        """Independent labellings from the distribution, shape (n_samples, n_nodes)."""
        if n_samples < 1:
            raise ValueError(f"n_samples: expected at least 1, got {n_samples}")
        states = np.empty((self.n_nodes, n_samples), dtype=np.int64)  # in order of elimination
        conditionals = self._collected[1]
        for k in in_time(range(self.n_nodes - 1, -1, -1), DOING):
            table = conditionals[k].reshape(self.n_states, -1)
            upto = np.cumsum(table[:, self._where(k, states)], axis=0)
            states[k] = (upto <= rng.random(n_samples) * upto[-1]).sum(axis=0)
        return self._by_node(states)

    def best(self) -> tuple[Ints, float]:
        """A labelling of the largest score, shape (n_nodes,), and that score."""
        choices = []
        smallest_type = np.min_scalar_type(self.n_states)

        def absorb(table: Floats) -> Floats:
            choices.append(table.argmax(axis=0).astype(smallest_type).ravel())
            return np.asarray(table.max(axis=0))

        self._eliminate(absorb)
        states = np.empty((self.n_nodes, 1), dtype=np.int64)
        for k in range(self.n_nodes - 1, -1, -1):
            states[k] = choices[k][self._where(k, states)]
        label = self._by_node(states)[0]
        of_nodes = self.node_scores[np.arange(self.n_nodes), label]
        of_edges = self.edge_scores[np.arange(self.tail.size), label[self.tail], label[self.head]]
        return label, fsum([*of_nodes, *of_edges])

    def _where(self, k: int, states: Ints) -> Ints:
        """The entry of the separator's states in a table over them; states (n_nodes, n_samples)."""
        separator = self._buckets[k].separator
        at = np.zeros(states.shape[1], dtype=np.int64)
        for other in separator:
            at *= self.n_states
            at += states[other]
        return at

    def _by_node(self, states: Ints) -> Ints:
        out = np.empty((states.shape[1], self.n_nodes), dtype=np.int64)
        out[:, self.order] = states.T
        return out


def _nothing_admissible() -> InfeasibleError:
    return InfeasibleError(
        "every labelling has a score of -inf: nothing is admissible", [], "nodes"
    )
