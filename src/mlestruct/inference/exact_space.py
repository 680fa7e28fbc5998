"""`Counted`: an output space whose marginals are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..exceptions import TooLargeToCount
from ..structures import Decoding, Marginals, Vertex
from .exact import ExactDistribution, exact_distribution

Floats = NDArray[np.float64]

SAME = frozenset(
    ("graph", "capacity", "free", "is_simple", "is_settled", "decode_integral", "best_label")
    + ("node_marginals", "edge_marginals", "hamming_loss", "n_states")
)  # as in the original


class Counted:
    """An output space with exact marginals instead of an approximate entropy.

    There is no entropy of tau in closed form, so Frank-Wolfe does not apply; ascent over exact
    marginals does, and its duality gap is that of the exact likelihood.
    """

    def __init__(self, original: Any):
        self.original = original
        self.n_coordinates: int = original.n_coordinates
        self.n_scored: int = original.n_scored
        self.fingerprint = f"counted {original.fingerprint}"

    def __getattr__(self, name: str) -> Any:
        if name in SAME:
            return getattr(self.original, name)
        raise AttributeError(f"a counted output space has no {name!r}")

    def marginals(self, scores: Floats, warm: Any = None, tol: float = 0.0) -> Marginals:
        """Exact marginals and log Z, whatever `tol`."""
        try:
            found = exact_distribution(self.original, scores)
        except TooLargeToCount as error:
            reason = str(error).split("; use")[0].split(". Use")[0]
            raise TooLargeToCount(
                f"{reason}. Exact maximum likelihood is for small samples; use the approximate "
                "estimator"
            ) from None
        return Marginals(found.tau, found.log_partition, found.log_partition, None, 1)

    def decode(self, scores: Floats, warm: Floats | None = None) -> Decoding:
        decoding: Decoding = self.original.decode(scores)
        return decoding

    def encode(self, label: Any) -> Vertex:
        vertex: Vertex = self.original.encode(label)
        return vertex

    def label(self, vertex: Vertex) -> Any:
        return self.original.label(vertex)


@exact_distribution.register
def _(structure: Counted, scores: Floats) -> ExactDistribution:
    return exact_distribution(structure.original, scores)
