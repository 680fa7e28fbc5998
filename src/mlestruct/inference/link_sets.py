"""Which pairs to report, given the probability of each: sets of links with a chosen quality.

Let P(S) be the sum of the probabilities in a set S of N(S) pairs that form a matching: its expected
number of correct links. Both questions here are answered by matchings of largest P(S) - c N(S),
one assignment per price c of a link.
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..structures.contract import MatchingStructure, as_scores

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class LinkSet:
    """Pairs that form a matching, and what to expect of them.

    Attributes
    ----------
    edges : ndarray, the numbers of the chosen pairs
    expected_correct : float, the sum of their probabilities P
    expected_precision : float, P over the number of chosen pairs; 1 for the empty set
    expected_recall : float, P over the sum of all probabilities; 1 if that is 0
    expected_f1 : float, 2 P over the number of chosen pairs plus the sum of all probabilities
    """

    edges: Ints
    expected_correct: float
    expected_precision: float
    expected_recall: float
    expected_f1: float


def links_of_largest_f1(structure: MatchingStructure, probabilities: Floats) -> LinkSet:
    """The matching with the largest expected F1, 2 P(S) / (N(S) + sum of all probabilities).

    This is the ratio of the expectations. Dinkelbach's iteration: the price of a link is half
    of the best ratio so far.

    Parameters
    ----------
    structure : matchings in which every node may stay single
    probabilities : ndarray of shape (n_pairs,)
    """
    problem = _PricedLinks(structure, probabilities)
    best = problem.at(0.0)
    while True:
        found = problem.at(best.expected_f1 / 2.0)
        if found.expected_f1 <= best.expected_f1:
            return best
        best = found


def links_at_precision(
    structure: MatchingStructure, probabilities: Floats, precision: float
) -> tuple[LinkSet, float]:
    """A matching with as many expected correct links as possible at an expected precision.

    The constraint P(S) >= precision N(S) gets a Lagrange multiplier, which acts as a price; the
    price is found by intersecting the lines P(S) - c N(S) of the best sets so far. A set between
    two prices can be better than both; `bound` limits by how much.

    Returns
    -------
    links : LinkSet
    bound : float, no set of this precision has more expected correct links
    """
    if not isinstance(precision, numbers.Real) or not 0.0 < precision <= 1.0:
        raise ValueError(f"`precision` must be a number in (0, 1]; got {precision!r}.")
    problem = _PricedLinks(structure, probabilities)
    free = problem.at(0.0)
    if free.expected_precision >= precision:
        return free, free.expected_correct
    precise, bound = problem.at(precision), free.expected_correct
    while True:
        more = free.edges.size - precise.edges.size
        price = (free.expected_correct - precise.expected_correct) / more if more > 0 else precision
        if price >= precision:
            break
        found = problem.at(price)
        value = found.expected_correct - price * found.edges.size
        bound = min(bound, value * precision / (precision - price))
        known = precise.expected_correct - price * precise.edges.size
        if value <= known + 1e-12 * max(known, 1.0):
            break
        if found.expected_precision >= precision:
            precise = found
        else:
            free = found
    filled = problem.most_probable(free.edges, precision)
    if filled.expected_correct > precise.expected_correct:
        precise = filled
    return precise, max(bound, precise.expected_correct)


class _PricedLinks:
    """The best matching at each price of a link."""

    def __init__(self, structure: MatchingStructure, probabilities: Floats):
        if not structure.free.all():
            raise ValueError(
                "structure: every node must be able to stay single. Pass perfect=False."
            )
        self.structure = structure
        self.probabilities = as_scores(probabilities, "probabilities")
        if self.probabilities.shape != (structure.n_scored,):
            raise ValueError(
                f"probabilities: expected shape ({structure.n_scored},), got "
                f"{self.probabilities.shape}"
            )
        if not ((self.probabilities >= -1e-9) & (self.probabilities <= 1.0 + 1e-9)).all():
            raise ValueError("probabilities: expected numbers from 0 to 1, up to rounding")
        self.total = float(self.probabilities.sum())

    def at(self, price: float) -> LinkSet:
        scores = np.zeros(self.structure.n_coordinates)
        scores[: self.probabilities.size] = self.probabilities - price
        chosen = self.structure.decode_integral(scores).vertex.indices
        chosen = chosen[chosen < self.probabilities.size]
        return self.links(chosen[scores[chosen] > 0.0])

    def most_probable(self, edges: Ints, precision: float) -> LinkSet:
        """The most probable ones of some pairs, as many as the precision allows."""
        order = edges[np.argsort(-self.probabilities[edges], kind="stable")]
        slack = np.cumsum(self.probabilities[order] - precision)
        return self.links(order[: int((slack >= 0.0).sum())])

    def links(self, edges: Ints) -> LinkSet:
        correct, size = float(self.probabilities[edges].sum()), edges.size
        both = size + self.total
        return LinkSet(
            edges,
            correct,
            correct / size if size else 1.0,
            correct / self.total if self.total > 0.0 else 1.0,
            2.0 * correct / both if both > 0.0 else 1.0,
        )
