"""The losses as functions, with marginals and most probable outputs beside them.

Scores are tensors of any floating-point type on any device; marginals are found in float64 on the
CPU. In targets -100 is ignored: the likelihood is that of all outputs that agree with the rest. In
those of matchings -1 is unmatched. Losses are negative log-likelihoods, to be minimised;
`reduction="mean"` is over the samples of which something is observed.

Arguments that all functions share:

oracle : `Oracle`, optional
    Tolerance, threads, warm starts; `oracle.last_gap` holds the certificates afterwards.
keys : sequence of hashable, optional
    One name per sample, under which the oracle keeps its state: the next call with the same name
    starts from it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from torch import Tensor

from .batching import Oracle
from .labellings import Chain, Graph, GridLabelling
from .matchings import GroupMatching, Matching
from .structured import Spaces, Structured

Keys = Sequence[Hashable] | None


# ---------------------------------------------------------------------- two sides
def matching_nll_loss(
    scores: Tensor,
    target: Any,
    row_mask: Any = None,
    col_mask: Any = None,
    *,
    rho: float = 0.95,
    perfect: bool = False,
    reduction: str = "mean",
    oracle: Oracle | None = None,
    keys: Keys = None,
) -> Tensor:
    """Negative log-likelihood of matchings; see `MatchingNLLLoss`."""
    problem = Matching(scores, row_mask, col_mask, rho, perfect)
    return problem.loss(target, reduction, oracle, keys)


def matching_marginals(
    scores: Tensor,
    row_mask: Any = None,
    col_mask: Any = None,
    *,
    rho: float = 0.95,
    perfect: bool = False,
    oracle: Oracle | None = None,
    keys: Keys = None,
) -> Tensor:
    """Probabilities of pairs, shape (B, n, m); 0 in the padding."""
    return Matching(scores, row_mask, col_mask, rho, perfect).marginals(oracle, keys)


def matching_decode(
    scores: Tensor,
    row_mask: Any = None,
    col_mask: Any = None,
    *,
    perfect: bool = False,
    oracle: Oracle | None = None,
) -> Tensor:
    """The matching of the largest score, shape (B, n): -1 unmatched, -100 in the padding."""
    return Matching(scores, row_mask, col_mask, 1.0, perfect).decode(oracle)


# ---------------------------------------------------------------------- one group
def group_matching_nll_loss(
    scores: Tensor,
    target: Any,
    mask: Any = None,
    *,
    rho: float = 0.95,
    perfect: bool = False,
    reduction: str = "mean",
    oracle: Oracle | None = None,
    keys: Keys = None,
) -> Tensor:
    """Negative log-likelihood of matchings within a group; see `GroupMatchingNLLLoss`."""
    return GroupMatching(scores, mask, rho, perfect).loss(target, reduction, oracle, keys)


def group_matching_marginals(
    scores: Tensor,
    mask: Any = None,
    *,
    rho: float = 0.95,
    perfect: bool = False,
    oracle: Oracle | None = None,
    keys: Keys = None,
) -> Tensor:
    """Probabilities of pairs, shape (B, n, n) and symmetric; 0 in the padding."""
    return GroupMatching(scores, mask, rho, perfect).marginals(oracle, keys)


def group_matching_decode(
    scores: Tensor, mask: Any = None, *, perfect: bool = False, oracle: Oracle | None = None
) -> Tensor:
    """The matching of the largest score, shape (B, n): -1 unmatched, -100 in the padding."""
    return GroupMatching(scores, mask, 1.0, perfect).decode(oracle)


# ---------------------------------------------------------------------- images
def grid_nll_loss(
    node_scores: Tensor,
    edge_scores: Tensor,
    target: Any,
    mask: Any = None,
    *,
    rho: Any = "auto",
    reduction: str = "mean",
    oracle: Oracle | None = None,
    keys: Keys = None,
) -> Tensor:
    """Negative log-likelihood of labelled images; see `GridNLLLoss`."""
    problem = GridLabelling(node_scores, edge_scores, mask, rho)
    return problem.loss(target, reduction, oracle, keys)


def grid_marginals(
    node_scores: Tensor,
    edge_scores: Tensor,
    mask: Any = None,
    *,
    rho: Any = "auto",
    oracle: Oracle | None = None,
    keys: Keys = None,
) -> Tensor:
    """Probabilities of states, shape (B, H, W, S); 0 in the padding."""
    return GridLabelling(node_scores, edge_scores, mask, rho).marginals(oracle, keys)


def grid_decode(
    node_scores: Tensor, edge_scores: Tensor, mask: Any = None, *, oracle: Oracle | None = None
) -> Tensor:
    """The best labelling that was found, shape (B, H, W); -100 in the padding."""
    return GridLabelling(node_scores, edge_scores, mask, "auto").decode(oracle)


# ---------------------------------------------------------------------- graphs
def graph_nll_loss(
    node_scores: Tensor,
    edge_scores: Tensor,
    target: Any,
    edge_index: Any,
    batch: Any = None,
    *,
    rho: Any = "auto",
    reduction: str = "mean",
    oracle: Oracle | None = None,
    keys: Keys = None,
) -> Tensor:
    """Negative log-likelihood of labelled graphs; see `GraphNLLLoss`."""
    problem = Graph(node_scores, edge_scores, edge_index, batch, rho)
    return problem.loss(target, reduction, oracle, keys)


def graph_marginals(
    node_scores: Tensor,
    edge_scores: Tensor,
    edge_index: Any,
    batch: Any = None,
    *,
    rho: Any = "auto",
    oracle: Oracle | None = None,
    keys: Keys = None,
) -> Tensor:
    """Probabilities of states, shape (N, S)."""
    return Graph(node_scores, edge_scores, edge_index, batch, rho).marginals(oracle, keys)


def graph_decode(
    node_scores: Tensor,
    edge_scores: Tensor,
    edge_index: Any,
    batch: Any = None,
    *,
    oracle: Oracle | None = None,
) -> Tensor:
    """The best labelling that was found, shape (N,)."""
    return Graph(node_scores, edge_scores, edge_index, batch, "auto").decode(oracle)


# ---------------------------------------------------------------------- chains
def chain_nll_loss(
    node_scores: Any,
    transitions: Tensor,
    target: Any,
    mask: Any = None,
    lengths: Any = None,
    *,
    reduction: str = "mean",
    oracle: Oracle | None = None,
    keys: Keys = None,
) -> Tensor:
    """Negative log-likelihood of labelled sequences; see `ChainNLLLoss`."""
    return Chain(node_scores, transitions, mask, lengths).loss(target, reduction, oracle, keys)


def chain_marginals(
    node_scores: Any,
    transitions: Tensor,
    mask: Any = None,
    lengths: Any = None,
    *,
    oracle: Oracle | None = None,
    keys: Keys = None,
) -> Tensor:
    """Probabilities of states, shape (B, T, S); 0 in the padding."""
    return Chain(node_scores, transitions, mask, lengths).marginals(oracle, keys)


def chain_decode(
    node_scores: Any,
    transitions: Tensor,
    mask: Any = None,
    lengths: Any = None,
    *,
    oracle: Oracle | None = None,
) -> Tensor:
    """The labelling of the largest score, shape (B, T); -100 in the padding."""
    return Chain(node_scores, transitions, mask, lengths).decode(oracle)


# ---------------------------------------------------------------------- any other space
def structured_nll_loss(
    scores: Tensor | Sequence[Tensor],
    target: Any,
    structure: Spaces,
    *,
    reduction: str = "mean",
    oracle: Oracle | None = None,
    keys: Keys = None,
) -> Tensor:
    """Negative log-likelihood of outputs of `structure`; see `StructuredLoss`."""
    return Structured(scores, structure).loss(target, reduction, oracle, keys)


def structured_marginals(
    scores: Tensor | Sequence[Tensor],
    structure: Spaces,
    *,
    oracle: Oracle | None = None,
    keys: Keys = None,
) -> Any:
    """Marginals in the shape of the scores."""
    return Structured(scores, structure).marginals(oracle, keys)


def structured_decode(
    scores: Tensor | Sequence[Tensor], structure: Spaces, *, oracle: Oracle | None = None
) -> list[Any]:
    """The best outputs, as `structure.label` has them."""
    return Structured(scores, structure).decode(oracle)
