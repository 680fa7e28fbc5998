"""Answers of inference: marginals with a certificate, samples (`Bounds` is in the contract)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..structures.contract import MatchingStructure, Structure

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Inference:
    """Marginals of a model and its log-partition function.

    Attributes
    ----------
    tau : array of shape (n_coordinates,), in the coordinates of the structure
    log_partition : float
    gap : certified: what `of` names lies within [log_partition, log_partition + gap]; 0 where it is
        exact, inf where there is no certificate
    of : "log Z_rho", the reweighted approximation, "log Z" itself, or for perturb-and-MAP the
        "mean upper bound of log Z"
    method : the method that was used
    calls : of the MAP decoder, or iterations of a method that makes none
    seconds : of wall time
    converged : whether the method has done what was asked of it
    report : further diagnostics of the method
    """

    tau: Floats
    log_partition: float
    gap: float
    of: str
    method: str
    calls: int
    seconds: float
    converged: bool
    report: dict[str, Any]
    structure: Structure

    @property
    def table(self) -> Floats:
        """The marginals as one reads them.

        Matchings: pairs, (n_rows, n_cols), or (n_nodes, n_nodes) and symmetric within one group;
        what is missing to 1 in a row is the probability to stay single. Labellings: states of all
        nodes, (n_nodes, n_states). Structures of your own: tau.
        """
        return self.structure.marginal_table(self.tau)

    @property
    def single(self) -> Floats:
        """Of matchings: the probability of every node to stay single (its unused capacity).

        Rows first, then columns, where there are two sides; 0 for nodes that must be matched. In
        tau these follow the pairs, of the sides that may stay single only.
        """
        if not isinstance(self.structure, MatchingStructure):
            raise AttributeError(f"{type(self.structure).__name__} has no single nodes")
        return self.structure.single_marginals(self.tau)

    def __repr__(self) -> str:
        return (
            f"Inference(method={self.method!r}, {self.of} = {self.log_partition:.6g}, "
            f"gap={self.gap:.2g}, calls={self.calls}, seconds={self.seconds:.2g}, "
            f"converged={self.converged})"
        )


@dataclass(frozen=True)
class Samples:
    """Outputs drawn from a model.

    Attributes
    ----------
    labels : array of shape (n_samples, ...), each a label as the structure has them; a list of
        arrays where labels differ in size
    method : "exact", "mcmc": a Markov chain, or "perturb": perturb-and-MAP
    rhat, ess : split R-hat and effective sample size of a Markov chain; else 1 and n_samples
    converged : whether rhat reached its tolerance
    """

    labels: Any
    method: str
    rhat: float
    ess: float
    converged: bool

    def __repr__(self) -> str:
        return (
            f"Samples({len(self.labels)} labels, method={self.method!r}, rhat={self.rhat:.3g}, "
            f"ess={self.ess:.0f}, converged={self.converged})"
        )
