"""Any other output space, from scores of its coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..structures.contract import LabellingStructure, Structure, StructureLike, as_structure
from .batching import Batch, Observed
from .problem import IGNORED, Problem, exact, read_tensor, require_finite

Spaces = (
    StructureLike | list[StructureLike] | tuple[StructureLike, ...]
)  # of all samples, or one each


def spaces_of(structure: Spaces, n_samples: int) -> list[Structure]:
    """The output space of each sample."""
    if not isinstance(structure, list | tuple):
        return [as_structure(structure)] * n_samples
    if len(structure) != n_samples:
        raise ValueError(f"structure: expected one or {n_samples}, got {len(structure)}")
    return [as_structure(space) for space in structure]


class Structured(Problem):
    """Outputs of spaces that are given.

    Parameters
    ----------
    scores : tensor of shape (B, n_scored) or (B, n_coordinates), or a list of B tensors of these
        lengths; what is missing at the end (single nodes of matchings) is 0
    structure : an output space for all samples, or a list of B
    """

    batch: Batch

    def __init__(self, scores: Tensor | Sequence[Tensor], structure: Spaces):
        self._stacked = isinstance(scores, Tensor)
        if self._stacked:
            read_tensor(scores, "scores", "(B, n_coordinates)", 2)
        rows = list(scores)
        spaces = spaces_of(structure, len(rows))
        parts = [
            _padded(own, space, b) for b, (own, space) in enumerate(zip(rows, spaces, strict=True))
        ]
        self._sizes = [len(own) for own in rows]
        self.like = rows[0] if rows else torch.zeros(0)
        self.batch = Batch(spaces)
        self.scores = torch.cat([*parts, torch.zeros(0, dtype=torch.float64)])
        require_finite(self.scores, "scores", False)

    def observe(self, target: Any) -> tuple[list[Observed], Tensor]:
        labels = list(target)
        if len(labels) != len(self.batch):
            raise ValueError(f"target: expected {len(self.batch)} outputs, got {len(labels)}")
        observed = [
            _observed(space, label, b)
            for b, (space, label) in enumerate(zip(self.batch.spaces, labels, strict=True))
        ]
        return observed, torch.tensor([known is not None for known in observed])

    def tables(self, tau: Tensor) -> Any:
        starts = self.batch.starts[:-1].tolist()
        rows = [tau[a : a + n] for a, n in zip(starts, self._sizes, strict=True)]
        if self._stacked:
            return torch.stack(rows).to(self.like) if rows else self.like.new_zeros((0, 0))
        return [own.to(self.like) for own in rows]

    def labels(self, found: list[Any]) -> list[Any]:
        return found


def _padded(scores: Tensor, space: Structure, b: int) -> Tensor:
    read_tensor(scores, f"scores[{b}]", "(n_coordinates,)", 1)
    sizes = (space.n_scored, space.n_coordinates)
    if scores.shape[0] not in sizes:
        wanted = " or ".join(str(size) for size in dict.fromkeys(sizes))
        raise ValueError(f"scores[{b}]: expected {wanted} numbers, got {scores.shape[0]}")
    missing = space.n_coordinates - scores.shape[0]
    return torch.cat([exact(scores), torch.zeros(missing, dtype=torch.float64)])


def _observed(space: Structure | None, label: Any, b: int) -> Observed:
    """What an output says; labellings may ignore nodes."""
    assert space is not None
    if isinstance(label, Tensor):
        label = label.detach().cpu().numpy()
    ignored = np.asarray(label) == IGNORED if isinstance(label, np.ndarray | list) else np.zeros(1)
    if not np.any(ignored):
        try:
            return space.encode(label)
        except ValueError as error:
            raise ValueError(f"target[{b}]: {error}") from None
    if np.all(ignored):
        return None
    if not isinstance(space, LabellingStructure):
        raise ValueError(
            f"target[{b}]: -100 ignores nodes of labellings; {type(space).__name__} has none"
        )
    return space.given(np.where(ignored, -1, label))
