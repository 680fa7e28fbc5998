"""Negative log-likelihoods of structured outputs as modules.

All have `marginals` and `decode`, which take the same scores and masks, and keep what lasts from
batch to batch in `oracle`: warm starts under the `keys` of samples, and the last certificates.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from torch import Tensor, nn

from . import functional as F  # noqa: N812
from .batching import Oracle
from .problem import check_reduction
from .structured import Spaces

Keys = Sequence[Hashable] | None


class NLLLoss(nn.Module):
    """Base of the losses.

    Parameters
    ----------
    reduction : "mean" over the samples of which something is observed, "sum" or "none"
    tol : certified gap of log Z_rho to reach, per node of a sample. Marginals, and with them
        gradients, are exact up to about its root. May be changed at any time: `loss.tol = 1e-3`
    n_jobs : threads over the samples of a batch; by default as many as PyTorch uses
    """

    def __init__(self, reduction: str = "mean", *, tol: float = 1e-6, n_jobs: int | None = None):
        super().__init__()
        self.reduction = check_reduction(reduction)
        self.oracle = Oracle(tol, n_jobs)

    @property
    def tol(self) -> float:
        return self.oracle.tol

    @tol.setter
    def tol(self, value: float) -> None:
        if not value > 0.0:
            raise ValueError(f"tol: expected a positive number, got {value!r}")
        self.oracle.tol = float(value)

    @property
    def last_gap(self) -> Tensor | None:
        """Certificates of the last batch, shape (n_samples,): the loss of sample b is exact up to
        last_gap[b]; inf where there is no certificate.
        """
        return self.oracle.last_gap

    def _settings(self) -> dict[str, Any]:
        """What distinguishes this loss from others over the same scores."""
        return {}

    def _loss_settings(self, keys: Keys) -> dict[str, Any]:
        return {
            "reduction": self.reduction, "oracle": self.oracle, "keys": keys, **self._settings()
        }  # fmt: skip

    def extra_repr(self) -> str:
        settings = {"reduction": self.reduction, **self._settings(), "tol": self.tol}
        return ", ".join(f"{name}={value!r}" for name, value in settings.items())


class _MatchingLoss(NLLLoss):
    def __init__(
        self,
        reduction: str = "mean",
        *,
        rho: float = 0.95,
        perfect: bool = False,
        tol: float = 1e-6,
        n_jobs: int | None = None,
    ):
        super().__init__(reduction, tol=tol, n_jobs=n_jobs)
        if not 0.5 <= rho <= 1.0:
            raise ValueError(f"rho: expected a number from 1/2 to 1, got {rho!r}")
        self.rho, self.perfect = float(rho), bool(perfect)

    def _settings(self) -> dict[str, Any]:
        return {"rho": self.rho, "perfect": self.perfect}


class MatchingNLLLoss(_MatchingLoss):
    """Negative log-likelihood of matchings between n rows and m columns.

    Parameters
    ----------
    reduction, tol, n_jobs : as in `NLLLoss`
    rho : reweighting of the entropy from 1/2 to 1; the loss of the exact likelihood lies between
        that of rho = 1 (which is smaller) and that of rho = 1/2
    perfect : whether every node of the smaller side has a partner; otherwise any node may stay
        single, at a score of 0. Other scores of single nodes are taken off those of their pairs.

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

    def forward(
        self,
        scores: Tensor,
        target: Any,
        row_mask: Any = None,
        col_mask: Any = None,
        *,
        keys: Keys = None,
    ) -> Tensor:
        """The loss of a batch.

        Parameters
        ----------
        scores : tensor of shape (B, n, m); -inf forbids a pair
        target : integers of shape (B, n): the column of every row, -1 unmatched, -100 ignored
        row_mask, col_mask : booleans of shape (B, n) and (B, m), True for nodes that exist
        keys : names of the samples, for warm starts
        """
        settings = self._loss_settings(keys)
        return F.matching_nll_loss(scores, target, row_mask, col_mask, **settings)

    def marginals(
        self, scores: Tensor, row_mask: Any = None, col_mask: Any = None, *, keys: Keys = None
    ) -> Tensor:
        """Probabilities of pairs, shape (B, n, m); differentiable."""
        return F.matching_marginals(
            scores, row_mask, col_mask, oracle=self.oracle, keys=keys, **self._settings()
        )

    def decode(self, scores: Tensor, row_mask: Any = None, col_mask: Any = None) -> Tensor:
        """The best matching, shape (B, n): -1 unmatched, -100 in the padding."""
        return F.matching_decode(
            scores, row_mask, col_mask, perfect=self.perfect, oracle=self.oracle
        )


class GroupMatchingNLLLoss(_MatchingLoss):
    """Negative log-likelihood of matchings within a group of n nodes.

    Parameters
    ----------
    reduction, rho, perfect, tol, n_jobs : as in `MatchingNLLLoss`; log Z_rho of a group is above
        log Z at rho = 1/2, and on either side of it at rho = 1
    """

    def forward(
        self, scores: Tensor, target: Any, mask: Any = None, *, keys: Keys = None
    ) -> Tensor:
        """The loss of a batch.

        Parameters
        ----------
        scores : tensor of shape (B, n, n); a pair has the mean of its two entries, -inf forbids it
        target : integers of shape (B, n): the partner of every node, -1 unmatched, -100 ignored
        mask : booleans of shape (B, n), True for nodes that exist
        keys : names of the samples, for warm starts
        """
        return F.group_matching_nll_loss(scores, target, mask, **self._loss_settings(keys))

    def marginals(self, scores: Tensor, mask: Any = None, *, keys: Keys = None) -> Tensor:
        """Probabilities of pairs, shape (B, n, n) and symmetric; differentiable."""
        return F.group_matching_marginals(
            scores, mask, oracle=self.oracle, keys=keys, **self._settings()
        )

    def decode(self, scores: Tensor, mask: Any = None) -> Tensor:
        """The best matching, shape (B, n): -1 unmatched, -100 in the padding."""
        return F.group_matching_decode(scores, mask, perfect=self.perfect, oracle=self.oracle)


class _LabellingLoss(NLLLoss):
    def __init__(
        self,
        reduction: str = "mean",
        *,
        rho: Any = "auto",
        tol: float = 1e-6,
        n_jobs: int | None = None,
    ):
        super().__init__(reduction, tol=tol, n_jobs=n_jobs)
        if not isinstance(rho, str | int | float):
            raise TypeError(f"rho: expected 'auto', 'uniform' or a number, got {rho!r}")
        self.rho = rho

    def _settings(self) -> dict[str, Any]:
        return {"rho": self.rho}


class GridNLLLoss(_LabellingLoss):
    """Negative log-likelihood of labelled images, tree-reweighted.

    Parameters
    ----------
    reduction, tol, n_jobs : as in `NLLLoss`
    rho : "auto" (1/2 on images), "uniform" (shares of spanning trees) or a number. The loss of the
        exact likelihood is smaller.
    """

    def forward(
        self,
        node_scores: Tensor,
        edge_scores: Tensor,
        target: Any,
        mask: Any = None,
        *,
        keys: Keys = None,
    ) -> Tensor:
        """The loss of a batch.

        Parameters
        ----------
        node_scores : tensor of shape (B, H, W, S)
        edge_scores : tensor of shape (S, S), for all neighbours; (2, S, S), for those side by side
            and those one above the other; or (B, 2, H, W, S, S), for pixel (i, j) with (i, j + 1)
            and with (i + 1, j), of which the last column and row are not used
        target : integers of shape (B, H, W), -100 ignored
        mask : booleans of shape (B, H, W), True for pixels that exist
        keys : names of the samples, for warm starts
        """
        settings = self._loss_settings(keys)
        return F.grid_nll_loss(node_scores, edge_scores, target, mask, **settings)

    def marginals(
        self, node_scores: Tensor, edge_scores: Tensor, mask: Any = None, *, keys: Keys = None
    ) -> Tensor:
        """Probabilities of states, shape (B, H, W, S); differentiable."""
        return F.grid_marginals(
            node_scores, edge_scores, mask, oracle=self.oracle, keys=keys, **self._settings()
        )

    def decode(self, node_scores: Tensor, edge_scores: Tensor, mask: Any = None) -> Tensor:
        """The best labelling that was found, shape (B, H, W); -100 in the padding."""
        return F.grid_decode(node_scores, edge_scores, mask, oracle=self.oracle)


class GraphNLLLoss(_LabellingLoss):
    """Negative log-likelihood of labelled graphs, tree-reweighted; exact on forests.

    Parameters
    ----------
    reduction, tol, n_jobs : as in `NLLLoss`
    rho : "auto" (shares of spanning trees, 1 on forests) or a number
    """

    def forward(
        self,
        node_scores: Tensor,
        edge_scores: Tensor,
        target: Any,
        edge_index: Any,
        batch: Any = None,
        *,
        keys: Keys = None,
    ) -> Tensor:
        """The loss of a batch of graphs.

        Parameters
        ----------
        node_scores : tensor of shape (N, S)
        edge_scores : tensor of shape (E, S, S), the state of the first end first, or (S, S).
            Tables of an edge that is listed more than once, or in both directions, are added up.
        target : integers of shape (N,), -100 ignored
        edge_index : integers of shape (2, E)
        batch : rising integers of shape (N,), the graph of every node; by default all are one
        keys : names of the graphs, for warm starts
        """
        settings = self._loss_settings(keys)
        return F.graph_nll_loss(node_scores, edge_scores, target, edge_index, batch, **settings)

    def marginals(
        self,
        node_scores: Tensor,
        edge_scores: Tensor,
        edge_index: Any,
        batch: Any = None,
        *,
        keys: Keys = None,
    ) -> Tensor:
        """Probabilities of states, shape (N, S); differentiable."""
        return F.graph_marginals(
            node_scores, edge_scores, edge_index, batch, oracle=self.oracle, keys=keys, rho=self.rho
        )

    def decode(
        self, node_scores: Tensor, edge_scores: Tensor, edge_index: Any, batch: Any = None
    ) -> Tensor:
        """The best labelling that was found, shape (N,)."""
        return F.graph_decode(node_scores, edge_scores, edge_index, batch, oracle=self.oracle)


class ChainNLLLoss(NLLLoss):
    """Negative log-likelihood of labelled sequences, exact (forward-backward).

    Parameters
    ----------
    reduction, tol, n_jobs : as in `NLLLoss`; `tol` has no effect
    """

    def forward(
        self,
        node_scores: Any,
        transitions: Tensor,
        target: Any,
        mask: Any = None,
        lengths: Any = None,
        *,
        keys: Keys = None,
    ) -> Tensor:
        """The loss of a batch.

        Parameters
        ----------
        node_scores : tensor of shape (B, T, S), or a PackedSequence; -inf forbids a state
        transitions : tensor of shape (S, S), the earlier state first, or (B, T - 1, S, S)
        target : integers of shape (B, T), or a PackedSequence of them; -100 ignored
        mask : booleans of shape (B, T), True for tokens that exist. Tokens left out between others
            are skipped, so that their neighbours are neighbours of each other
        lengths : integers of shape (B,), instead of a mask
        keys : accepted as by the other losses; there is nothing to start from
        """
        settings = self._loss_settings(keys)
        return F.chain_nll_loss(node_scores, transitions, target, mask, lengths, **settings)

    def marginals(
        self,
        node_scores: Any,
        transitions: Tensor,
        mask: Any = None,
        lengths: Any = None,
        *,
        keys: Keys = None,
    ) -> Tensor:
        """Probabilities of states, shape (B, T, S); differentiable."""
        return F.chain_marginals(
            node_scores, transitions, mask, lengths, oracle=self.oracle, keys=keys
        )

    def decode(
        self, node_scores: Any, transitions: Tensor, mask: Any = None, lengths: Any = None
    ) -> Tensor:
        """The best labelling, shape (B, T); -100 in the padding."""
        return F.chain_decode(node_scores, transitions, mask, lengths, oracle=self.oracle)


class StructuredLoss(NLLLoss):
    """Negative log-likelihood of the outputs of any other space.

    Parameters
    ----------
    structure : an output space, one of `mlestruct.structures` or your own
        Where it has only a decoder, marginals come from Frank-Wolfe (`DecoderSpace`).
    reduction, tol, n_jobs : as in `NLLLoss`; n_jobs=1 for a decoder that threads cannot share
    max_iter : calls of a decoder for one sample, where there is nothing better

    Examples
    --------
    >>> import torch
    >>> from mlestruct.structures import ExactInference, Subsets
    >>> from mlestruct.torch import StructuredLoss
    >>> loss_of = StructuredLoss(ExactInference(Subsets(4, 2)))
    >>> loss = loss_of(torch.zeros(1, 4), [[1, 0, 0, 1]])  # one of the six pairs
    >>> round(float(loss.exp()), 3)
    6.0
    """

    def __init__(
        self,
        structure: Spaces,
        reduction: str = "mean",
        *,
        tol: float = 1e-6,
        n_jobs: int | None = None,
        max_iter: int = 1000,
    ):
        super().__init__(reduction, tol=tol, n_jobs=n_jobs)
        self.structure = structure
        self.oracle.max_iter = int(max_iter)

    def forward(
        self,
        scores: Tensor | Sequence[Tensor],
        target: Any,
        structure: Spaces | None = None,
        *,
        keys: Keys = None,
    ) -> Tensor:
        """The loss of a batch.

        Parameters
        ----------
        scores : tensor of shape (B, n_coordinates) or (B, n_scored), or a list of B tensors
        target : list of B outputs, as `structure.encode` takes them; -100 ignores nodes of
            labellings
        structure : list of B output spaces, where samples have different ones
        keys : names of the samples, for warm starts
        """
        spaces = self.structure if structure is None else structure
        return F.structured_nll_loss(scores, target, spaces, **self._loss_settings(keys))

    def marginals(
        self,
        scores: Tensor | Sequence[Tensor],
        structure: Spaces | None = None,
        *,
        keys: Keys = None,
    ) -> Any:
        """Marginals in the shape of the scores; differentiable."""
        spaces = self.structure if structure is None else structure
        return F.structured_marginals(scores, spaces, oracle=self.oracle, keys=keys)

    def decode(
        self, scores: Tensor | Sequence[Tensor], structure: Spaces | None = None
    ) -> list[Any]:
        """The best outputs, as `structure.label` has them."""
        spaces = self.structure if structure is None else structure
        return F.structured_decode(scores, spaces, oracle=self.oracle)
