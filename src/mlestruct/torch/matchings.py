"""Losses of matchings: between two sides, and within a group."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..structures.contract import MatchingStructure
from ..structures.graphs.bipartite import BipartiteGraph
from ..structures.graphs.simple import SimpleGraph
from ..structures.matchings.bipartite import BipartiteMatching
from ..structures.matchings.local import LocalMatching
from ..structures.matchings.space import check_partners
from . import checks
from .autograd import Observed
from .nll_loss import IGNORED, Batch, Bools, Ints, NLLLoss

UNMATCHED = -1  # target of a node without a partner


@lru_cache(maxsize=4096)
def _space(
    n: int, m: int, group: bool, allowed: bytes, rho: float, perfect: bool
) -> MatchingStructure:
    """Matchings over the allowed pairs, b"" for all; equal spaces are one object."""
    kind: Any = SimpleGraph if group else BipartiteGraph
    graph = kind.complete(*((n,) if group else (n, m)))
    if allowed:
        graph = kind.from_mask(np.frombuffer(allowed, dtype=bool).reshape(n, m))
    space = LocalMatching(graph, rho, perfect) if group else BipartiteMatching(graph, rho, perfect)
    space.require_feasible()
    return space


class MatchingNLLLoss(NLLLoss):
    """Negative log-likelihood of matchings between n rows and m columns.

    Parameters
    ----------
    reduction, tol, n_jobs : as in `NLLLoss`
    rho : reweighting of the entropy from 1/2 to 1; the loss of the exact likelihood lies between
        the losses of rho = 1 (the smaller one) and rho = 1/2
    perfect : whether every node of the smaller side has a partner; otherwise any node may stay
        single, at a score of 0. Subtract other scores of single nodes from their pairs' scores.

    Notes
    -----
    The loss takes, in this order:

    * scores: tensor of shape (B, n, m); -inf forbids a pair
    * target: integers of shape (B, n): the column of every row, -1 unmatched, -100 ignored
    * row_mask, col_mask: booleans of shape (B, n) and (B, m), True for nodes that exist

    Examples
    --------
    >>> import torch
    >>> from mlestruct.torch import MatchingNLLLoss
    >>> scores = torch.tensor([[[3.0, 0.0, 0.0], [0.0, 1.0, -2.0]]], requires_grad=True)
    >>> loss_of = MatchingNLLLoss()
    >>> loss_of.decode(scores)
    tensor([[0, 1]])
    >>> loss = loss_of(scores, torch.tensor([[0, -1]]))  # row 0 with column 0, row 1 unmatched
    >>> loss.backward()
    >>> target = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]])
    >>> bool(torch.allclose(scores.grad, loss_of.marginals(scores) - target))
    True
    """

    _group = False

    def __init__(
        self, reduction: str = "mean", *, rho: float = 0.95, perfect: bool = False, **options: Any
    ):
        super().__init__(reduction, **options)
        if not 0.5 <= rho <= 1.0:
            raise ValueError(f"`rho` must be a number from 1/2 to 1; got {rho!r}.")
        self.rho, self.perfect = float(rho), bool(perfect)

    def forward(
        self, scores: Any, target: Any, row_mask: Any = None, col_mask: Any = None, keys: Any = None
    ) -> Tensor:
        """The loss of a batch; `keys` are names of its samples, for warm starts."""
        return self._loss(self._read(scores, row_mask, col_mask), target, keys)

    def _read(self, scores: Any, row_mask: Any = None, col_mask: Any = None) -> Batch:
        values = checks.scores(scores, "scores", ("B", "n", "m"))
        rows = checks.mask(row_mask, "row_mask", values.shape[:2])
        cols = checks.mask(col_mask, "col_mask", values.shape[::2])
        return self._read_pairs(scores, values, rows, cols)

    def _read_pairs(self, like: Tensor, values: Tensor, rows: Bools, cols: Bools) -> Batch:
        place = np.arange(values.numel()).reshape(values.shape)
        allowed = (values.detach() != -torch.inf).numpy()
        if self._group:
            allowed = allowed | np.eye(values.shape[1], dtype=bool)
        spaces: list[Any] = []
        places = [np.zeros(0, dtype=np.int64)]
        for b, own in enumerate(map(np.ix_, rows, cols)):
            space = self._space_of(allowed[b][own])
            spaces.append(space)
            if space is not None:
                single = np.full(space.n_coordinates - space.n_scored, values.numel())
                places += [place[b][own][space.graph.row, space.graph.col], single]
        index = torch.from_numpy(np.concatenate(places))
        coordinates = torch.cat([values.flatten(), values.new_zeros(1)])[index]
        checks.finite(coordinates, "scores")
        return Batch(coordinates, self._samples(spaces), like, (rows, cols), index)

    def _space_of(self, allowed: Bools) -> MatchingStructure | None:
        n_pairs = np.count_nonzero(allowed) - self._group * allowed.shape[0]
        if not allowed.size or (n_pairs == 0 and not self.perfect):
            return None
        listed = b"" if allowed.all() else allowed.tobytes()
        return _space(*allowed.shape, self._group, listed, self.rho, self.perfect)

    def _observe(self, batch: Batch, target: Any) -> tuple[list[Observed], Bools]:
        rows, cols = batch.exists
        partners = np.where(rows, checks.integers(target, "target", rows.shape), UNMATCHED)
        m = cols.shape[1]
        wrong = (partners >= m) | ((partners < UNMATCHED) & (partners != IGNORED))
        if wrong.any():
            b, i = np.argwhere(wrong)[0]
            raise ValueError(
                f"target[{b}, {i}] is {partners[b, i]}; expected 0 to {m - 1}, -1 (unmatched) or "
                "-100 (ignored)"
            )
        samples = zip(batch.oracle.spaces, partners, rows, cols, strict=True)
        observed = [self._known(f"target[{b}]", *sample) for b, sample in enumerate(samples)]
        return observed, ((partners != IGNORED) & rows).any(axis=1)

    def _known(self, where: str, space: Any, partner: Ints, rows: Bools, cols: Bools) -> Observed:
        """The matching, or all matchings that agree with what is not ignored."""
        matched = np.flatnonzero(partner >= 0)
        if self._group:  # the partner of a node is not ignored
            i = matched[partner[partner[matched]] == IGNORED]
            partner[partner[i]] = i
        exist = cols[partner[matched]]
        if not exist.all():
            i = matched[np.argmin(exist)]
            raise ValueError(f"{where}: {i} has partner {partner[i]}, which the mask leaves out")
        if space is None and matched.size:
            raise ValueError(f"{where}: has a pair, but scores forbid all of them")
        ignored = (partner == IGNORED)[rows]
        if space is None or ignored.all():
            return None
        number = np.append(np.cumsum(cols) - 1, UNMATCHED)  # of columns that exist
        partner = number[np.maximum(partner, UNMATCHED)][rows]
        try:
            if not ignored.any():
                return space.encode(partner)
            n_cols = None if self._group else int(cols.sum())
            check_partners(partner, partner.size, n_cols)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        matched = np.flatnonzero(partner >= 0)
        pairs = space.graph.edge_between(matched, partner[matched])
        if (pairs < 0).any():
            raise ValueError(f"{where}: has a pair whose score is -inf")
        known = ~ignored[space.graph.row]
        if self._group:
            known |= ~ignored[space.graph.col]
        values = np.where(known, 0.0, np.nan)
        values[pairs] = 1.0
        return space.given(values)

    def _table(self, batch: Batch, tau: Tensor) -> Tensor:
        assert batch.place is not None
        # One place after the last pair is for all single nodes.
        flat = tau.new_zeros(batch.like.numel() + 1).scatter(0, batch.place, tau)
        table = flat[:-1].reshape(batch.like.shape)
        return (table + table.transpose(1, 2) if self._group else table).to(batch.like)

    def _labels(self, batch: Batch, found: list[Any]) -> Tensor:
        rows, cols = batch.exists
        out = np.where(rows, UNMATCHED, IGNORED)
        for b, label in enumerate(found):
            if label is not None:
                out[b, rows[b]] = np.append(np.flatnonzero(cols[b]), UNMATCHED)[label]
        return torch.from_numpy(out).to(batch.like.device)


class GroupMatchingNLLLoss(MatchingNLLLoss):
    """Negative log-likelihood of matchings within a group of n nodes.

    Parameters
    ----------
    reduction, rho, perfect, tol, n_jobs : as in `MatchingNLLLoss`; log Z_rho of a group is above
        log Z at rho = 1/2, and on either side of it at rho = 1

    Notes
    -----
    The loss takes, in this order:

    * scores: tensor of shape (B, n, n); a pair has the mean of its two entries, -inf forbids it
    * target: integers of shape (B, n): the partner of every node, -1 unmatched, -100 ignored
    * mask: booleans of shape (B, n), True for nodes that exist
    """

    _group = True

    def forward(  # type: ignore[override]
        self, scores: Any, target: Any, mask: Any = None, keys: Any = None
    ) -> Tensor:
        """The loss of a batch; `keys` are names of its samples, for warm starts."""
        return self._loss(self._read(scores, mask), target, keys)

    def _read(self, scores: Any, mask: Any = None) -> Batch:  # type: ignore[override]
        values = checks.scores(scores, "scores", ("B", "n", "n"))
        nodes = checks.mask(mask, "mask", values.shape[:2])
        return self._read_pairs(scores, 0.5 * (values + values.transpose(1, 2)), nodes, nodes)
