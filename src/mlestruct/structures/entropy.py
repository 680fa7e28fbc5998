"""Reweighted entropies that are sums over coordinates.

Both families of the paper have this form once the coordinates are chosen well: matchings (an
edge has a = 1, c = rho_i + rho_j - 1; a single node a = rho_i, c = 0) and pairwise graphs
(c = 0, a = the counting number). A coordinate with a = 0 is fixed: it does not vary.

`coordinate_entropy` and `factor_entropy` make them for output spaces of one's own; any concave
`Entropy` with a gradient does, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..algorithms.frank_wolfe import BySlope
from . import _entropy_kernels as kernels

Floats = NDArray[np.float64]


class Entropy(Protocol):
    """A concave entropy of marginals and its gradient."""

    def __call__(self, tau: Floats) -> float: ...

    def gradient(self, tau: Floats) -> Floats: ...


class EntropyPair:
    """An `Entropy` from two functions."""

    def __init__(self, value: Callable[[Floats], float], gradient: Callable[[Floats], Floats]):
        self.value, self.slope = value, gradient

    def __call__(self, tau: Floats) -> float:
        return float(self.value(tau))

    def gradient(self, tau: Floats) -> Floats:
        return np.asarray(self.slope(tau), dtype=np.float64)


class SeparableEntropy(BySlope):
    """H(tau) = sum_k -a_k tau_k log tau_k + c_k (1 - tau_k) log(1 - tau_k).

    Parameters
    ----------
    a, c : ndarray of shape (n_coordinates,)
    """

    def __init__(self, a: Floats, c: Floats):
        self.a = np.ascontiguousarray(a, dtype=np.float64)
        self.c = np.ascontiguousarray(c, dtype=np.float64)

    def __call__(self, tau: Floats) -> float:
        return float(kernels.entropy(tau, self.a, self.c))

    def gradient(self, tau: Floats) -> Floats:
        """Gradient of H at tau."""
        return self.add_gradient(tau, np.zeros_like(tau))[0]

    def masked(self, varies: NDArray[np.bool_]) -> SeparableEntropy:
        """The same entropy with the coordinates that do not vary left out."""
        return SeparableEntropy(np.where(varies, self.a, 0.0), np.where(varies, self.c, 0.0))

    def add_gradient(self, tau: Floats, scores: Floats) -> tuple[Floats, None]:
        """scores + gradient of H at tau (and nothing that line searches would need)."""
        out = np.empty_like(tau)
        kernels.add_entropy_gradient(tau, self.a, self.c, scores, out)
        return out, None

    def slope(self, tau: Floats, change: Floats, eta: float) -> float:
        """Derivative of H along `change` at tau + eta * change."""
        return float(kernels.slope_along(tau, change, eta, self.a, self.c))


def coordinate_entropy(n_coordinates: int) -> SeparableEntropy:
    """H = sum_k h(tau_k) with h(t) = -t log t - (1 - t) log(1 - t).

    The entropy of independent coordinates, at least that of any distribution with these marginals:
    concave everywhere, and log Z_rho is an upper bound of log Z whatever the outputs are.
    """
    ones = np.ones(int(n_coordinates))
    return SeparableEntropy(ones, -ones)


def factor_entropy(
    n_coordinates: int,
    factors: Sequence[ArrayLike],
    counting: ArrayLike = 1.0,
    coordinates: ArrayLike | None = None,
) -> SeparableEntropy:
    """H = sum_f c_f H_f + sum_k d_k h(tau_k), with H_f = - sum over k in f of tau_k log tau_k.

    Parameters
    ----------
    factors : index arrays; of the coordinates of a factor every output has exactly one at 1 (a
        group of k options, or the joint states of some variables)
    counting : c_f, one number or one for each factor
    coordinates : d_k, one number or one for each coordinate. By default 1 for coordinates that are
        in no factor and 0 for all others

    Groups that cover all coordinates, with c = 1, make an upper bound of log Z. Assignments of n to
    n: rows and columns with c = 1 and d = -1 are the Bethe entropy. H has to be concave on the
    polytope for certificates to hold, which `mlestruct.check_structure` tests.

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.structures import factor_entropy
    >>> either_or = factor_entropy(4, [[0, 1], [2, 3]])
    >>> bool(np.isclose(either_or(np.full(4, 0.5)), 2 * np.log(2)))
    True
    """
    n = int(n_coordinates)
    groups = [np.asarray(factor, dtype=np.int64).ravel() for factor in factors]
    weights = np.broadcast_to(np.asarray(counting, dtype=np.float64), (len(groups),))
    a, seen = np.zeros(n), np.zeros(n, dtype=bool)
    for f, (group, weight) in enumerate(zip(groups, weights.tolist(), strict=True)):
        outside = group[(group < 0) | (group >= n)]
        if outside.size:
            raise ValueError(f"factors[{f}]: coordinate {outside[0]} is not in 0 .. {n - 1}")
        np.add.at(a, group, weight)
        seen[group] = True
    given = np.where(seen, 0.0, 1.0) if coordinates is None else coordinates
    single = np.broadcast_to(np.asarray(given, dtype=np.float64), (n,))
    return SeparableEntropy(a + single, -single)


def as_entropy(entropy: Any) -> Entropy | None:
    """An `Entropy` from what a user may give; None for the default."""
    if entropy is None or (callable(entropy) and callable(getattr(entropy, "gradient", None))):
        given: Entropy | None = entropy
        return given
    if isinstance(entropy, tuple) and len(entropy) == 2 and all(map(callable, entropy)):
        return EntropyPair(*entropy)
    raise TypeError(
        "entropy: expected an object that is callable and has a method gradient (such as "
        f"coordinate_entropy(n), factor_entropy(...)) or a pair (value, gradient), got {entropy!r}"
    )
